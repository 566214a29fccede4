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

"""Connects LPARs to networks, with the VIF driver of each port's type."""

import contextlib
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import partition
from nova_powervm.ops import drivers

LOG = logging.getLogger(__name__)

_BINDING_FAILED = 'binding_failed'

InstanceMetadata = drivers.InstanceMetadata
#: A VIF driver, with any kind of connections and adapters.
_Driver = drivers.VifDriver[Any, Any]
_T = TypeVar('_T')


class _NoMetadata:
    """Metadata of an instance without a record: empty, discards writes."""

    instance_uuid = ''

    def read(self) -> Collection[str]:
        """Return no keys."""
        return ()

    def add(self, keys: Collection[str]) -> None:
        """Discard the keys."""


NO_METADATA: InstanceMetadata = _NoMetadata()


class NetworkOps:
    """Connects the ports of instances to LPARs.

    :param drivers: VIF type to VIF driver.
    :param has_management_switch: Asks the host whether an LPAR can get a
        management adapter; None stands for one that is to be made.
    """

    def __init__(
        self,
        drivers: Mapping[str, _Driver],
        has_management_switch: Callable[[str | None], bool] = lambda _: False,
    ) -> None:
        self._drivers = drivers
        self.has_management_switch = has_management_switch

    def check(self, ports: Iterable[network_ports.Port]) -> None:
        """Check that adapters can be created for ports.

        :raises exception.PortRefused: No adapter can be created for a port;
            the error names the first such port.
        """
        for port in ports:
            if port.vif_type not in self._drivers:
                raise exception.PortRefused(
                    port=port.id, reason=self._no_driver(port)
                )
            self._drivers[port.vif_type].check(port)

    @contextlib.contextmanager
    def hold_resources(
        self, ports: Iterable[network_ports.Port]
    ) -> Iterator[None]:
        """Keep what ports need on the host until their adapters exist."""
        with contextlib.ExitStack() as held:
            for driver, own in self._by_driver(ports, lambda port: port):
                held.enter_context(driver.using(own))
            yield

    def connect(
        self, ports: Sequence[network_ports.Port]
    ) -> tuple[network_ports.Connection, ...]:
        """Plan how to connect ports, and change nothing.

        :raises exception.PortRefused: A port cannot be connected.
        """
        self.check(ports)
        planned = {
            connection.port: connection
            for driver, own in self._by_driver(ports, lambda port: port)
            for connection in driver.connect(own)
        }
        return tuple(planned[port] for port in ports)

    def adapters(self, lpar_uuid: str) -> list[network_ports.Adapter]:
        """Read the adapters of an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        return [
            adapter
            for driver in self._drivers.values()
            for adapter in driver.adapters(lpar_uuid)
        ]

    def compare(
        self,
        ports: Iterable[network_ports.Port],
        adapters: Sequence[network_ports.Adapter],
    ) -> network_ports.Mismatch:
        """Find the ports without an adapter, and adapters without a port."""
        return network_ports.compare(ports, adapters, self._serves)

    def prepare_host(
        self,
        connections: Iterable[network_ports.Connection],
        metadata: InstanceMetadata,
    ) -> None:
        """Prepare the host for connections, and change no LPAR.

        No other step takes so long, or is refused by the host so often.

        :param metadata: The metadata of the instance.
        """
        for driver, own in self._by_driver(connections, lambda c: c.port):
            driver.provide(own, metadata)

    def create(
        self,
        lpar: partition.Partition,
        connections: Iterable[network_ports.Connection],
        metadata: InstanceMetadata,
    ) -> dict[str, int]:
        """Create the adapters of connections that the host is prepared for.

        :param lpar: The LPAR; a running one needs RMC.
        :param metadata: The metadata of its instance.
        :returns: MAC address -> virtual slot, where the slot is known.
        """
        slots: dict[str, int] = {}
        for connection in connections:
            driver = self._drivers[connection.port.vif_type]
            slot = driver.plug(lpar, connection)
            if slot is not None:
                slots[connection.port.mac] = slot
            LOG.info(
                'LPAR %(lpar_name)s has a network adapter for port %(port)s '
                '(%(mac)s, %(type)s).',
                {
                    'lpar_name': lpar.name,
                    'port': connection.port.id,
                    'mac': connection.port.mac,
                    'type': connection.port.vif_type,
                },
                instance_uuid=metadata.instance_uuid,
            )
        return slots

    def remove(
        self, lpar: partition.Partition, adapter: network_ports.Adapter
    ) -> None:
        """Remove an adapter that belongs to no port of the instance."""
        LOG.warning(
            'LPAR %(lpar_name)s has the network adapter %(adapter)s, which '
            'belongs to no port of its instance; removing it.',
            {'lpar_name': lpar.name, 'adapter': adapter},
        )
        self._drivers[adapter.vif_type].unplug(
            lpar.uuid, adapter.mac, only=adapter
        )

    def detach(self, lpar_uuid: str, port: network_ports.Port) -> None:
        """Remove the adapter of a port from an LPAR, if there is one.

        :param lpar_uuid: Upper-case PowerVM uuid.
        """
        own = self._drivers.get(port.vif_type)
        # A port loses its type with its binding.
        for driver in [own] if own else self._drivers.values():
            driver.unplug(lpar_uuid, port.mac)

    def release_unused(self, metadata: InstanceMetadata) -> None:
        """Remove from the host what only the ports of a gone instance needed.

        :param metadata: The metadata of the instance.
        """
        for driver in self._drivers.values():
            driver.release(metadata)

    def clean_up(self) -> None:
        """Remove from the host what is no longer used, once in each cycle."""
        for driver in self._drivers.values():
            driver.tidy()

    def _by_driver(
        self, items: Iterable[_T], port_of: Callable[[_T], network_ports.Port]
    ) -> Iterator[tuple[_Driver, list[_T]]]:
        """Yield each driver that is responsible for items, and its items."""
        items = list(items)
        for vif_type, driver in self._drivers.items():
            own = [i for i in items if port_of(i).vif_type == vif_type]
            if own:
                yield driver, own

    def _serves(
        self, adapter: network_ports.Adapter, port: network_ports.Port
    ) -> bool:
        has_lost_type = port.vif_type not in self._drivers
        return (has_lost_type or port.vif_type == adapter.vif_type) and (
            self._drivers[adapter.vif_type].serves(adapter, port)
        )

    def _no_driver(self, port: network_ports.Port) -> str:
        """Return the reason why no VIF driver is responsible for a port."""
        if port.vif_type == _BINDING_FAILED:
            return (
                'Neutron could not bind it to this host; see the log of '
                'Neutron for the reason'
            )
        if port.is_unbound:
            command = f'openstack port set --host <host> {port.id}'
            return exception.PrivateText(
                f'it is bound to no host. Run `{command}` with the host of '
                'its server, and try again',
                'it is bound to no host, which an administrator can change. '
                'Then try again',
            )
        return (
            f"its VIF type is '{port.vif_type}', and this host has VIF "
            f'drivers for: {", ".join(sorted(self._drivers))}. Have a '
            'mechanism driver bind it as one of these'
        )
