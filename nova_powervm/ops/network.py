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

"""Connecting LPARs to networks, with the VIF driver of each port's type."""

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.instance import network
from nova_powervm.instance import partition
from nova_powervm.instance import port_adapters
from nova_powervm.ops import interfaces
from nova_powervm.ops import vif_interfaces

LOG = logging.getLogger(__name__)

_BINDING_FAILED = 'binding_failed'

InstanceMarks = vif_interfaces.InstanceMarks
#: A VIF driver, whatever its connections and adapters are.
_Driver = vif_interfaces.VifDriver[Any, Any]


class _Unrecorded:
    """Marks of an instance that Nova has no record of."""

    instance = ''

    def read(self) -> Collection[str]:
        """Give none."""
        return ()

    def add(self, marks: Collection[str]) -> None:
        """Drop them."""


UNRECORDED: InstanceMarks = _Unrecorded()


@dataclasses.dataclass(frozen=True, slots=True)
class InstancePorts:
    """The ports of an instance, from Nova and from Neutron.

    :param known: As Nova handed them over; they may come from its cache.
    :param ask: Asks Neutron for those of this moment. It raises
        :class:`~nova_powervm.exception.PortsUnknown`.
    :param marks: The instance's record.
    """

    known: Sequence[network.Port]
    ask: Callable[[], Sequence[network.Port]]
    marks: InstanceMarks = UNRECORDED


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What gives an LPAR exactly the adapters of its instance's ports.

    :param surplus: Adapters to remove first.
    :param connections: Those to make then.
    :param marks: The instance's record.
    """

    surplus: Sequence[network.Adapter] = ()
    connections: Sequence[network.Connection] = ()
    marks: InstanceMarks = UNRECORDED

    def __bool__(self) -> bool:
        return bool(self.surplus or self.connections)

    @property
    def additions(self) -> tuple[network.Connection, ...]:
        """The connections that can be made while surplus adapters stay.

        A guest must not get a second adapter with one MAC address.
        """
        taken = {adapter.mac for adapter in self.surplus}
        return tuple(
            each for each in self.connections if each.port.mac not in taken
        )


class NetworkOps:
    """Connects the ports of instances to LPARs.

    :param drivers: VIF type to the driver of its ports.
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
        """Refuse ports that no adapter can be made for.

        :raises exception.PortRefused: It names the first such port.
        """
        for port in ports:
            if port.vif_type not in self._drivers:
                raise exception.PortRefused(
                    port=port.id, reason=self._no_driver(port)
                )
            self._drivers[port.vif_type].check(port)

    @contextlib.contextmanager
    def hold_resources(self, ports: Iterable[network.Port]) -> Iterator[None]:
        """Keep what ports need on the host until their adapters are made."""
        with contextlib.ExitStack() as kept:
            for driver, own in self._by_driver(ports):
                kept.enter_context(driver.using(own))
            yield

    def connect(
        self, ports: Sequence[network.Port]
    ) -> tuple[network.Connection, ...]:
        """Plan how to connect ports; nothing is changed.

        :raises exception.PortRefused: A port can't be connected.
        """
        self.check(ports)
        planned = {
            connection.port: connection
            for driver, own in self._by_driver(ports)
            for connection in driver.connect(own)
        }
        return tuple(planned[port] for port in ports)

    def plug(
        self,
        lpar: partition.Partition,
        connections: Sequence[network.Connection],
        marks: InstanceMarks = UNRECORDED,
    ) -> None:
        """Give an LPAR the adapters of connections.

        :param marks: The record of its instance.
        """
        self._provide(connections, marks)
        self._make(lpar, connections, marks)

    def attach(
        self,
        lpar: str,
        port: network.Port,
        marks: InstanceMarks = UNRECORDED,
    ) -> None:
        """Connect one more port of an LPAR; a connected one is fine.

        :param lpar: Upper-case PowerVM uuid.
        :param marks: The record of its instance.
        :raises exception.PortRefused: It can't be connected, or another
            adapter has its address.
        """
        for adapter in self._adapters(lpar):
            if adapter.mac == port.mac:
                if self._serves(adapter, port):
                    return
                raise _address_in_use(port, adapter)
        with self.hold_resources([port]):
            self.plug(self._find(lpar), self.connect([port]), marks)

    @contextlib.contextmanager
    def compare_adapters(
        self, lpar: str, instance: InstancePorts | None
    ) -> Iterator[Changes]:
        """Find the missing and the surplus adapters of an LPAR.

        Nothing is changed. If they differ from what Nova knows, Neutron is
        asked, and its answer decides: Nova's cache may be older than the
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
        adapters = self._adapters(lpar)
        differing = self._differences(instance.known, adapters)
        if differing:
            differing = self._differences(instance.ask(), adapters)
        with self.hold_resources(differing.missing):
            yield Changes(
                surplus=differing.surplus,
                connections=self.connect(differing.missing),
                marks=instance.marks,
            )

    def prepare_host(self, changes: Changes) -> None:
        """Prepare the host for changes; no LPAR is changed.

        This takes longest, and is what the host refuses most often.
        """
        self._provide(changes.connections, changes.marks)

    def apply_changes(
        self, lpar: partition.Partition, changes: Changes
    ) -> None:
        """Change the adapters of an LPAR; one that runs needs RMC for it.

        The changes have to be prepared. If this fails, the LPAR has lost no
        adapter that a port of its instance has.
        """
        for adapter in changes.surplus:
            LOG.warning(
                'LPAR %(lpar)s has the network adapter %(adapter)s, which no '
                'port of its instance has; removing it.',
                {'lpar': lpar.name, 'adapter': adapter},
            )
            self._drivers[adapter.vif_type].unplug(
                lpar.uuid, adapter.mac, only=adapter
            )
        for connection in changes.connections:
            LOG.info(
                'LPAR %(lpar)s has no adapter for port %(port)s; making it.',
                {'lpar': lpar.name, 'port': connection.port.id},
            )
        self._make(lpar, changes.connections, changes.marks)

    def add_missing_adapters(self, lpar: str, instance: InstancePorts) -> None:
        """Give an LPAR the adapters that it lacks, whatever its state is.

        None is removed: its guest may be using it. Surplus adapters are
        logged, and removed when the LPAR is started.

        :param lpar: Upper-case PowerVM uuid.
        :raises exception.PowerVMError: As for :meth:`compare_adapters`, or
            the host refused.
        """
        with self.compare_adapters(lpar, instance) as changes:
            for adapter in changes.surplus:
                LOG.warning(
                    'LPAR %(lpar)s has the network adapter %(adapter)s, which '
                    'no port of its instance has; it is removed when the '
                    'server is rebooted or started.',
                    {'lpar': lpar, 'adapter': adapter},
                )
            missing = changes.additions
            if missing:
                self.plug(self._find(lpar), missing, changes.marks)

    def detach(self, lpar: str, ports: Iterable[network.Port]) -> None:
        """Remove the adapters of ports from an LPAR; missing ones are fine."""
        for port in ports:
            known = self._drivers.get(port.vif_type)
            # The type is lost with the binding.
            for driver in [known] if known else self._drivers.values():
                driver.unplug(lpar, port.mac)

    def release_unused(self, marks: InstanceMarks) -> None:
        """Free what only the ports of an instance without an LPAR needed.

        :param marks: The record of the instance.
        """
        for driver in self._drivers.values():
            driver.release(marks)

    def clean_up(self) -> None:
        """Free what is of no use any more, once for each cycle."""
        for driver in self._drivers.values():
            driver.tidy()

    def _by_driver(
        self, ports: Iterable[network.Port]
    ) -> Iterator[tuple[_Driver, list[network.Port]]]:
        """Give each driver that has some of the ports, and those."""
        ports = list(ports)
        for vif_type, driver in self._drivers.items():
            own = [port for port in ports if port.vif_type == vif_type]
            if own:
                yield driver, own

    def _provide(
        self, connections: Iterable[network.Connection], marks: InstanceMarks
    ) -> None:
        connections = list(connections)
        for vif_type, driver in self._drivers.items():
            own = [c for c in connections if c.port.vif_type == vif_type]
            if own:
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
        is_lost = port.vif_type not in self._drivers
        return (is_lost or port.vif_type == adapter.vif_type) and (
            self._drivers[adapter.vif_type].serves(adapter, port)
        )

    def _find(self, lpar: str) -> partition.Partition:
        found = self._partitions.find(lpar)
        if found is None:
            raise exception.PartitionNotFound(uuid=lpar)
        return found

    def _no_driver(self, port: network.Port) -> str:
        """Say why no VIF driver is responsible for a port."""
        if port.vif_type == _BINDING_FAILED:
            return 'Neutron could not bind it to this host: its log tells why'
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
        f'network: {adapter}. Remove it with pvmctl',
    )
