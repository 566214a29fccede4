# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Ports of instances on the Shared Ethernet bridges of the host."""

import collections
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.domain import network
from nova_powervm.domain import partition
from nova_powervm.ops import ports

LOG = logging.getLogger(__name__)


class NetworkOps:
    """Connects LPARs to networks; the strategy ``pvm_sea``.

    :param networks: The virtual Ethernet of the host.
    :param partitions: The host's LPARs.
    :param mappings: Physical network to the name of its bridge.
    :param provision: Whether VLANs are added to bridges.
    """

    def __init__(
        self,
        networks: ports.Networks,
        partitions: ports.Partitions,
        mappings: Mapping[str, network.BridgeName],
        *,
        provision: bool,
    ) -> None:
        self._networks = networks
        self._partitions = partitions
        self._mappings = mappings
        self._provision = provision

    def check(self, wanted: Sequence[network.Port]) -> None:
        """Refuse ports that no adapter can be made for.

        :raises exception.PortRefused: It names the first such port.
        """
        for port in wanted:
            reason = port.refusal()
            if reason:
                raise exception.PortRefused(port=port.id, reason=reason)

    def connect(
        self, wanted: Sequence[network.Port]
    ) -> tuple[network.Connection, ...]:
        """Find the bridge of each port; nothing is changed.

        :raises exception.PortRefused: A port has none, or one that does not
            carry its VLAN and may not be changed.
        """
        self.check(wanted)
        if not wanted:
            return ()
        bridges = self._networks.bridges()
        connections = tuple(
            network.connect(port, bridges, self._mappings) for port in wanted
        )
        for connection in connections:
            self._check_vlan(connection)
        return connections

    def plug(
        self,
        lpar: partition.Partition,
        connections: Sequence[network.Connection],
    ) -> None:
        """Give an LPAR the adapters of its connections."""
        missing = collections.defaultdict(set)
        for connection in connections:
            if not connection.is_provisioned:
                missing[connection.bridge].add(connection.vlan)
        for bridge, vlans in missing.items():
            LOG.info(
                'Adding VLAN(s) %(vlans)s to the Shared Ethernet bridge '
                '%(bridge)s.',
                {
                    'vlans': ', '.join(map(str, sorted(vlans))),
                    'bridge': bridge,
                },
            )
            self._networks.provision(bridge, vlans)
        for connection in connections:
            self._networks.plug(lpar, connection.adapter)

    def attach(self, lpar: str, port: network.Port) -> None:
        """Connect one more port of an LPAR; a connected one is fine.

        :param lpar: Upper-case PowerVM uuid.
        :raises exception.PortRefused: It can't be connected.
        """
        self.restore(lpar, [port])

    def restore(self, lpar: str, wanted: Sequence[network.Port]) -> None:
        """Give an LPAR those adapters of its ports that it does not have.

        :param lpar: Upper-case PowerVM uuid.
        :raises exception.PortRefused: A missing one can't be made, or one is
            on another network.
        """
        present = {
            adapter.mac: adapter for adapter in self._networks.adapters(lpar)
        }
        missing = [port for port in wanted if port.mac not in present]
        for port in wanted:
            if port.mac in present:
                _check_adapter(port, present[port.mac])
        if not missing:
            return
        connections = self.connect(missing)
        found = self._partitions.find(lpar)
        if found is None:
            raise exception.PartitionNotFound(uuid=lpar)
        self.plug(found, connections)

    def detach(self, lpar: str, wanted: Sequence[network.Port]) -> None:
        """Take the adapters of ports from an LPAR; missing ones are fine."""
        for port in wanted:
            self._networks.unplug(lpar, port.mac)

    def _check_vlan(self, connection: network.Connection) -> None:
        if connection.is_provisioned or self._provision:
            return
        raise exception.PortRefused(
            port=connection.port.id,
            reason=f'Shared Ethernet bridge {connection.bridge} does not '
            f'carry VLAN {connection.vlan}, and [powervm]provision_vlans is '
            'false: add it to the bridge',
        )


def _check_adapter(port: network.Port, adapter: network.Adapter) -> None:
    """Refuse an adapter that has a port's address and another's network."""
    if port.vlan is not None and adapter.vlan != port.vlan:
        raise exception.PortRefused(
            port=port.id,
            reason=f'the LPAR has an adapter with its MAC address {port.mac} '
            f'on VLAN {adapter.vlan} instead of {port.vlan}. Remove it with '
            'pvmctl',
        )
