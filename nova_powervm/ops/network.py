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

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.instance import network
from nova_powervm.instance import partition
from nova_powervm.instance import port_adapters
from nova_powervm.ops import interfaces
from nova_powervm.ops import vlans

LOG = logging.getLogger(__name__)


Bearer = interfaces.Bearer


class _Nobody:
    """Bears no marks."""

    def mark(self, vlans: Collection[network.Vlan]) -> None:
        """Forget them: Nova has no record to write them into."""


NOBODY: Bearer = _Nobody()


@dataclasses.dataclass(frozen=True, slots=True)
class InstancePorts:
    """The ports of an instance, from Nova and from Neutron.

    :param known: As Nova handed them over; they may come from its cache.
    :param ask: Asks Neutron for those of this moment. It raises
        :class:`~nova_powervm.exception.PortsUnknown`.
    :param bearer: The instance, for marks.
    """

    known: Sequence[network.Port]
    ask: Callable[[], Sequence[network.Port]]
    bearer: Bearer = NOBODY


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What has to be done to give an LPAR exactly the adapters of its ports.

    :param surplus: Adapters to take away first.
    :param connections: Those to make then.
    :param bearer: The instance, for marks.
    """

    surplus: Sequence[network.Adapter] = ()
    connections: Sequence[network.Connection] = ()
    bearer: Bearer = NOBODY

    def __bool__(self) -> bool:
        return bool(self.surplus or self.connections)

    @property
    def additions(self) -> tuple[network.Connection, ...]:
        """The connections that can be made while what is surplus stays.

        A guest shall not get a second adapter with one MAC address.
        """
        taken = {adapter.mac for adapter in self.surplus}
        return tuple(
            each for each in self.connections if each.port.mac not in taken
        )


class NetworkOps:
    """Connects LPARs to networks; the strategy ``pvm_sea``.

    :param networks: The virtual Ethernet of the host.
    :param partitions: The host's LPARs.
    :param mappings: Physical network to the name of its bridge.
    :param bridged: The VLANs of the bridges.
    """

    def __init__(
        self,
        networks: interfaces.Networks,
        partitions: interfaces.Partitions,
        mappings: Mapping[str, network.BridgeName],
        bridged: vlans.VlanOps,
    ) -> None:
        self._networks = networks
        self._partitions = partitions
        self._mappings = mappings
        self._vlans = bridged

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
            carry its VLAN and may not be changed, or has no room for it.
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
        network.check_room(connections)
        return connections

    def plug(
        self,
        lpar: partition.Partition,
        connections: Sequence[network.Connection],
        bearer: Bearer = NOBODY,
    ) -> None:
        """Give an LPAR the adapters of its connections.

        :param bearer: Its instance, for marks.
        """
        self._vlans.provide(connections, bearer)
        self._make(lpar, connections)

    def _make(
        self,
        lpar: partition.Partition,
        connections: Sequence[network.Connection],
    ) -> None:
        for connection in connections:
            self._networks.plug(lpar, connection.adapter)

    def attach(
        self, lpar: str, port: network.Port, bearer: Bearer = NOBODY
    ) -> None:
        """Connect one more port of an LPAR; a connected one is fine.

        :param lpar: Upper-case PowerVM uuid.
        :param bearer: Its instance, for marks.
        :raises exception.PortRefused: It can't be connected, or another
            adapter has its address.
        """
        for adapter in self._networks.adapters(lpar):
            if adapter.mac == port.mac:
                _check_adapter(port, adapter)
                return
        with self._vlans.using([port]):
            self.plug(self._find(lpar), self.connect([port]), bearer)

    @contextlib.contextmanager
    def compared(
        self, lpar: str, instance: InstancePorts | None
    ) -> Iterator[Changes]:
        """Find what an LPAR's adapters lack and what is too much.

        Nothing is changed. If they differ from what Nova knows, Neutron is
        asked, and what it says holds: Nova's cache may be older than the
        adapters, or empty. The changes can be carried out in the block.

        :param lpar: Upper-case PowerVM uuid.
        :param instance: None to leave the adapters alone.
        :raises exception.PartitionNotFound: There is no such LPAR.
        :raises exception.PortRefused: A missing adapter can't be made.
        :raises exception.PortsUnknown: They differ, and Neutron does not
            answer.
        """
        if instance is None:
            yield Changes()
            return
        adapters = self._networks.adapters(lpar)
        differing = port_adapters.differences(instance.known, adapters)
        if differing:
            differing = port_adapters.differences(instance.ask(), adapters)
        with self._vlans.using(differing.missing):
            yield Changes(
                surplus=differing.surplus,
                connections=self.connect(differing.missing),
                bearer=instance.bearer,
            )

    def prepare(self, changes: Changes) -> None:
        """Let bridges carry the VLANs of changes; no LPAR is touched.

        This is what takes longest, and what others may refuse.
        """
        self._vlans.provide(changes.connections, changes.bearer)

    def carry_out(self, lpar: partition.Partition, changes: Changes) -> None:
        """Change the adapters of an LPAR; one that runs needs RMC for it.

        The changes have to be prepared. If this fails, the LPAR has lost no
        adapter that a port of its instance has.
        """
        for adapter in changes.surplus:
            LOG.warning(
                'LPAR %(lpar)s has an adapter with MAC address %(mac)s on '
                'VLAN %(vlan)d, which no port of its instance has; taking it '
                'away.',
                {
                    'lpar': lpar.name,
                    'mac': adapter.mac,
                    'vlan': adapter.vlan,
                },
            )
            self._networks.unplug(lpar.uuid, adapter.mac, only=adapter)
            self._vlans.released()
        for connection in changes.connections:
            LOG.info(
                'LPAR %(lpar)s has no adapter for port %(port)s; making it.',
                {'lpar': lpar.name, 'port': connection.port.id},
            )
        self._make(lpar, changes.connections)

    def complete(self, lpar: str, instance: InstancePorts) -> None:
        """Give an LPAR the adapters that it lacks, as it is.

        Nothing is taken away: its guest may be using it. What is too much is
        logged, and goes when the LPAR is started.

        :param lpar: Upper-case PowerVM uuid.
        :raises exception.PowerVMError: As :meth:`compared`, or the host
            refused.
        """
        with self.compared(lpar, instance) as changes:
            for adapter in changes.surplus:
                LOG.warning(
                    'LPAR %(lpar)s has an adapter with MAC address %(mac)s on '
                    'VLAN %(vlan)d, which no port of its instance has; it is '
                    'taken away when the server is rebooted or started.',
                    {'lpar': lpar, 'mac': adapter.mac, 'vlan': adapter.vlan},
                )
            missing = changes.additions
            if missing:
                self.plug(self._find(lpar), missing, changes.bearer)

    def detach(self, lpar: str, wanted: Sequence[network.Port]) -> None:
        """Take the adapters of ports from an LPAR; missing ones are fine."""
        for port in wanted:
            self._networks.unplug(lpar, port.mac)
            self._vlans.released()

    def _find(self, lpar: str) -> partition.Partition:
        found = self._partitions.find(lpar)
        if found is None:
            raise exception.PartitionNotFound(uuid=lpar)
        return found

    def _check_vlan(self, connection: network.Connection) -> None:
        if connection.is_provisioned or self._vlans.provision:
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
