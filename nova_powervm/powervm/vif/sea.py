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

"""The VIF driver ``pvm_sea``: ports on Shared Ethernet bridges.

It makes management adapters, too: these are of the same virtual Ethernet.
"""

import contextlib
from collections.abc import Mapping
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import partition
from nova_powervm.lpar import shared_ethernet
from nova_powervm.ops import drivers
from nova_powervm.powervm import vif
from nova_powervm.powervm.vif import virtual_ethernet
from nova_powervm.powervm.vif import vlans


def load(context: vif.Context) -> 'SeaVifDriver':
    """Create the VIF driver of a host."""
    ethernet = virtual_ethernet.VirtualEthernet(
        context.adapter,
        context.system,
        fixed_macs=context.settings.fixed_mac_addresses,
    )
    return SeaVifDriver(
        ethernet,
        context.settings.bridge_mappings,
        vlans.ProvisionedVlans(
            ethernet,
            context.records,
            provision=context.settings.provision_vlans,
        ),
    )


class SeaVifDriver(
    drivers.VifDriver[shared_ethernet.Connection, shared_ethernet.Adapter]
):
    """Connects each port with a client adapter on the VLAN of its network.

    :param ethernet: The virtual Ethernet of the host.
    :param mappings: Physical network to the name of its bridge.
    :param provisioned: The VLANs that the driver adds to bridges.
    """

    def __init__(
        self,
        ethernet: virtual_ethernet.VirtualEthernet,
        mappings: Mapping[str, shared_ethernet.BridgeName],
        provisioned: vlans.ProvisionedVlans,
    ) -> None:
        self._ethernet = ethernet
        self._mappings = mappings
        self._vlans = provisioned

    def check(self, port: network_ports.Port) -> None:
        """Refuse a port that needs a device of its own."""
        if port.vnic_type not in network_ports.BRIDGED:
            raise exception.PortRefused(
                port=port.id,
                reason=f'its vnic_type is {port.vnic_type}; only '
                f'{network_ports.NORMAL} ports can be on a Shared Ethernet '
                'bridge',
            )

    def using(
        self, ports: Sequence[network_ports.Port]
    ) -> contextlib.AbstractContextManager[None]:
        return self._vlans.using(ports)

    def connect(
        self, ports: Sequence[network_ports.Port]
    ) -> Sequence[shared_ethernet.Connection]:
        """Find the bridge of each port.

        :raises exception.PortRefused: A port has no bridge, or its bridge does
            not carry its VLAN and may not be changed or has no room for it.
        """
        management = [*filter(management_adapter.is_port, ports)]
        others = [port for port in ports if port not in management]
        bridges = self._ethernet.bridges() if others else ()
        connections = [
            shared_ethernet.connect(port, bridges, self._mappings)
            for port in others
        ]
        connections += map(management_adapter.connection, management)
        for connection in connections:
            self._check_vlan(connection)
        shared_ethernet.check_free_vlans(connections)
        return connections

    def provide(
        self,
        connections: Sequence[shared_ethernet.Connection],
        metadata: drivers.InstanceMetadata,
    ) -> None:
        self._vlans.provide(connections, metadata)

    def adapters(self, lpar_uuid: str) -> Sequence[shared_ethernet.Adapter]:
        """Read the client network adapters of an LPAR.

        Adapters on the management switch belong to NovaLink and are left out,
        except for the LPAR's own management adapter.
        """
        return [
            adapter
            for adapter in self._ethernet.adapters(lpar_uuid)
            if adapter.switch != management_adapter.SWITCH
            or management_adapter.is_adapter(adapter, lpar_uuid)
        ]

    def serves(
        self, adapter: shared_ethernet.Adapter, port: network_ports.Port
    ) -> bool:
        """Return whether an adapter is on the VLAN of a port."""
        return adapter.serves(port)

    def plug(
        self, lpar: partition.Partition, connection: shared_ethernet.Connection
    ) -> int | None:
        return self._ethernet.plug(lpar, connection.adapter)

    def unplug(
        self,
        lpar_uuid: str,
        mac: str,
        only: shared_ethernet.Adapter | None = None,
    ) -> None:
        self._ethernet.unplug(lpar_uuid, mac, only)
        self._vlans.released()

    def release(self, metadata: drivers.InstanceMetadata) -> None:
        """Remove the VLANs that only the ports of an instance used."""
        self._vlans.adopt(metadata.read())
        self._vlans.released()
        self._vlans.remove_idle()

    def tidy(self) -> None:
        self._vlans.tidy()

    def _check_vlan(self, connection: shared_ethernet.Connection) -> None:
        if connection.is_provisioned or self._vlans.provision:
            return
        raise exception.PortRefused(
            port=connection.port.id,
            reason=exception.PrivateText(
                f'Shared Ethernet bridge {connection.bridge} does not '
                f'carry VLAN {connection.vlan}, and [powervm]provision_vlans '
                'is false: add it to the bridge',
                'the Shared Ethernet bridge of the host does not carry its '
                'network',
            ),
        )
