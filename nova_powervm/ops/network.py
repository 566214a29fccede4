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
import dataclasses
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
from nova_powervm.lpar import network
from nova_powervm.lpar import partition
from nova_powervm.lpar import port_adapters
from nova_powervm.ops import interfaces
from nova_powervm.ops import vif_interfaces

LOG = logging.getLogger(__name__)

_BINDING_FAILED = 'binding_failed'

InstanceMarks = vif_interfaces.InstanceMarks
#: A VIF driver, whatever its connections and adapters are.
_Driver = vif_interfaces.VifDriver[Any, Any]
_T = TypeVar('_T')


class _Unrecorded:
    """Marks of an instance without a record in Nova."""

    instance = ''

    def read(self) -> Collection[str]:
        """Return no marks."""
        return ()

    def add(self, marks: Collection[str]) -> None:
        """Discard the marks."""


UNRECORDED: InstanceMarks = _Unrecorded()


@dataclasses.dataclass(frozen=True, slots=True)
class InstancePorts:
    """The ports of an instance, from Nova and from Neutron.

    :param known: The ports that Nova passed to the driver, possibly from its
        cache.
    :param ask: Asks Neutron for the present ports. It raises
        :class:`~nova_powervm.exception.PortsUnknown`.
    :param marks: The marks of the instance.
    """

    known: Sequence[network.Port]
    ask: Callable[[], Sequence[network.Port]]
    marks: InstanceMarks = UNRECORDED


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """The changes that adapt an LPAR's adapters to its instance's ports.

    :param surplus: Adapters to remove first.
    :param connections: Connections whose adapters to create afterwards.
    :param marks: The marks of the instance.
    """

    surplus: Sequence[network.Adapter] = ()
    connections: Sequence[network.Connection] = ()
    marks: InstanceMarks = UNRECORDED

    def __bool__(self) -> bool:
        return bool(self.surplus or self.connections)

    @property
    def additions(self) -> tuple[network.Connection, ...]:
        """The connections that do not depend on removing surplus adapters.

        A guest must not get two adapters with the same MAC address.
        """
        taken = {adapter.mac for adapter in self.surplus}
        return tuple(
            each for each in self.connections if each.port.mac not in taken
        )


class NetworkOps:
    """Connects the ports of instances to LPARs.

    :param drivers: VIF type to VIF driver.
    :param partitions: The host's LPARs.
    """

    def __init__(
        self,
        drivers: Mapping[str, _Driver],
        partitions: interfaces.Partitions,
    ) -> None:
        self._drivers = drivers
        self._partitions = partitions

    def check(self, ports: Iterable[network.Port]) -> None:
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
    def hold_resources(self, ports: Iterable[network.Port]) -> Iterator[None]:
        """Keep what ports need on the host until their adapters exist."""
        with contextlib.ExitStack() as kept:
            for driver, own in self._by_driver(ports, lambda port: port):
                kept.enter_context(driver.using(own))
            yield

    def connect(
        self, ports: Sequence[network.Port]
    ) -> tuple[network.Connection, ...]:
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

    def plug(
        self,
        lpar: partition.Partition,
        connections: Sequence[network.Connection],
        marks: InstanceMarks = UNRECORDED,
    ) -> None:
        """Create the adapters of connections for an LPAR.

        :param marks: The marks of its instance.
        """
        self._provide(connections, marks)
        self._make(lpar, connections, marks)

    def attach(
        self,
        lpar: str,
        port: network.Port,
        marks: InstanceMarks = UNRECORDED,
    ) -> None:
        """Connect one more port of an LPAR unless it is connected.

        :param lpar: Upper-case PowerVM uuid.
        :param marks: The marks of its instance.
        :raises exception.PortRefused: The port cannot be connected, or
            another adapter has its address.
        """
        for adapter in self._adapters(lpar):
            if adapter.mac == port.mac:
                if self._serves(adapter, port):
                    return
                raise _address_in_use(port, adapter)
        with self.hold_resources([port]):
            self.plug(
                interfaces.require_lpar(self._partitions, lpar),
                self.connect([port]),
                marks,
            )

    @contextlib.contextmanager
    def compare_adapters(
        self, lpar: str, ports: InstancePorts | None
    ) -> Iterator[Changes]:
        """Find the missing and the surplus adapters of an LPAR.

        Change nothing; the changes can be applied within the block. If the
        adapters differ from the ports that Nova knows, ask Neutron, whose
        answer decides: Nova's cache may be outdated or empty.

        :param lpar: Upper-case PowerVM uuid.
        :param ports: Its instance's ports; None to find no changes.
        :raises exception.PartitionNotFound: There is no such LPAR.
        :raises exception.PortRefused: A missing adapter cannot be created.
        :raises exception.PortsUnknown: The adapters differ, and Neutron does
            not answer.
        """
        if ports is None:
            yield Changes()
            return
        adapters = self._adapters(lpar)
        differing = self._differences(ports.known, adapters)
        if differing:
            differing = self._differences(ports.ask(), adapters)
        with self.hold_resources(differing.missing):
            yield Changes(
                surplus=differing.surplus,
                connections=self.connect(differing.missing),
                marks=ports.marks,
            )

    def prepare_host(self, changes: Changes) -> None:
        """Prepare the host for changes, and change no LPAR.

        This takes the longest, and the host refuses it most often.
        """
        self._provide(changes.connections, changes.marks)

    def apply_changes(
        self, lpar: partition.Partition, changes: Changes
    ) -> None:
        """Change the adapters of an LPAR, which needs RMC if it is running.

        Call :meth:`prepare_host` first. If this fails, the LPAR has lost no
        adapter of a port of its instance.
        """
        for adapter in changes.surplus:
            LOG.warning(
                'LPAR %(lpar)s has the network adapter %(adapter)s, which '
                'belongs to no port of its instance; removing it.',
                {'lpar': lpar.name, 'adapter': adapter},
            )
            self._drivers[adapter.vif_type].unplug(
                lpar.uuid, adapter.mac, only=adapter
            )
        for connection in changes.connections:
            LOG.info(
                'LPAR %(lpar)s has no adapter for port %(port)s; creating it.',
                {'lpar': lpar.name, 'port': connection.port.id},
            )
        self._make(lpar, changes.connections, changes.marks)

    def add_missing_adapters(self, lpar: str, ports: InstancePorts) -> None:
        """Create the adapters that an LPAR lacks, whatever its state.

        Remove none, because the guest may be using it. Log surplus adapters;
        they are removed when the LPAR is started.

        :param lpar: Upper-case PowerVM uuid.
        :raises exception.PowerVMError: As for :meth:`compare_adapters`, or
            the host refused.
        """
        with self.compare_adapters(lpar, ports) as changes:
            for adapter in changes.surplus:
                LOG.warning(
                    'LPAR %(lpar)s has the network adapter %(adapter)s, which '
                    'belongs to no port of its instance; it is removed when '
                    'the server is rebooted or started.',
                    {'lpar': lpar, 'adapter': adapter},
                )
            missing = changes.additions
            if missing:
                self.plug(
                    interfaces.require_lpar(self._partitions, lpar),
                    missing,
                    changes.marks,
                )

    def detach(self, lpar: str, ports: Iterable[network.Port]) -> None:
        """Remove the adapters of ports from an LPAR, where they exist."""
        for port in ports:
            known = self._drivers.get(port.vif_type)
            # A port loses its type with its binding.
            for driver in [known] if known else self._drivers.values():
                driver.unplug(lpar, port.mac)

    def release_unused(self, marks: InstanceMarks) -> None:
        """Remove from the host what only a removed instance's ports needed.

        :param marks: The marks of the instance.
        """
        for driver in self._drivers.values():
            driver.release(marks)

    def clean_up(self) -> None:
        """Remove from the host what is no longer used, once in each cycle."""
        for driver in self._drivers.values():
            driver.tidy()

    def _by_driver(
        self, items: Iterable[_T], port_of: Callable[[_T], network.Port]
    ) -> Iterator[tuple[_Driver, list[_T]]]:
        """Yield each driver that is responsible for items, and its items."""
        items = list(items)
        for vif_type, driver in self._drivers.items():
            own = [
                item for item in items if port_of(item).vif_type == vif_type
            ]
            if own:
                yield driver, own

    def _provide(
        self, connections: Iterable[network.Connection], marks: InstanceMarks
    ) -> None:
        for driver, own in self._by_driver(connections, lambda c: c.port):
            driver.provide(own, marks)

    def _make(
        self,
        lpar: partition.Partition,
        connections: Iterable[network.Connection],
        marks: InstanceMarks,
    ) -> None:
        for connection in connections:
            self._drivers[connection.port.vif_type].plug(lpar, connection)
            LOG.info(
                'LPAR %(lpar)s has a network adapter for port %(port)s '
                '(%(mac)s, %(type)s).',
                {
                    'lpar': lpar.name,
                    'port': connection.port.id,
                    'mac': connection.port.mac,
                    'type': connection.port.vif_type,
                },
                instance_uuid=marks.instance,
            )

    def _adapters(self, lpar: str) -> list[network.Adapter]:
        return [
            adapter
            for driver in self._drivers.values()
            for adapter in driver.adapters(lpar)
        ]

    def _differences(
        self,
        ports: Iterable[network.Port],
        adapters: Sequence[network.Adapter],
    ) -> port_adapters.Differences:
        return port_adapters.differences(ports, adapters, self._serves)

    def _serves(self, adapter: network.Adapter, port: network.Port) -> bool:
        has_lost_type = port.vif_type not in self._drivers
        return (has_lost_type or port.vif_type == adapter.vif_type) and (
            self._drivers[adapter.vif_type].serves(adapter, port)
        )

    def _no_driver(self, port: network.Port) -> str:
        """Return the reason why no VIF driver is responsible for a port."""
        if port.vif_type == _BINDING_FAILED:
            return (
                'Neutron could not bind it to this host; see the log of '
                'Neutron for the reason'
            )
        return (
            f"its VIF type is '{port.vif_type}', and this host has VIF "
            f'drivers for: {", ".join(sorted(self._drivers))}. Let a '
            'mechanism driver of Neutron bind it as one of these'
        )


def _address_in_use(
    port: network.Port, adapter: network.Adapter
) -> exception.PortRefused:
    return exception.PortRefused(
        port=port.id,
        reason='the LPAR has an adapter with its MAC address on another '
        f'network: {adapter}. Remove that adapter with pvmctl',
    )
