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
"""The managed system and its I/O slots, read from the REST server."""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import const as pvm_const
from pypowervm import exceptions as pvm
from pypowervm.tasks import memory
from pypowervm.tasks import partition as partition_tasks
from pypowervm.wrappers import base_partition
from pypowervm.wrappers import iocard
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.devices import slots
from nova_powervm.powervm import rest_errors

LOG = logging.getLogger(__name__)

#: For how long a report without any slots is doubted: some cycles, each with a
#: full reading.
DOUBT_SECONDS = 180.0

#: DRC index to the partition that has the slot in its profile.
Owners = Mapping[int, slots.Owner]
_IO_CONFIGURATION = 'AssociatedSystemIOConfiguration'
# It has one element, named after the type of the adapter.
_ADAPTER = 'RelatedIOAdapter'
_ASSIGNABLE = 'LogicalPartitionAssignmentCapable'


def reports_owners(system: managed_system.System) -> bool:
    """Return whether a slot without a reported owner has no owner."""
    return bool(system.get_capability('ioslot_owner_assignment_capable'))


def managed_system_of(
    system: managed_system.System, owners: Owners | None
) -> host_values.ManagedSystem:
    """Translate a managed system.

    :param system: pypowervm's wrapper.
    :param owners: The owners according to the partitions' profiles, for slots
        without a reported owner; None if the system reports all owners.
    :raises exception.RestBusy: The system does not report its slots.
    """
    return host_values.ManagedSystem(
        name=system.system_name,
        uuid=system.uuid,
        machine=system.mtms.mtms_str,
        memory_mb=system.memory_configurable,
        memory_free_mb=system.memory_free,
        memory_region_mb=system.memory_region_size,
        proc_units=system.proc_units_configurable,
        proc_units_free=system.proc_units_avail,
        min_units_per_vcpu=system.min_proc_units,
        virtual=host_values.ProcessorLimits(
            system.max_vcpus_per_aix_linux_lpar, system.max_sys_vcpus_limit
        ),
        dedicated=host_values.ProcessorLimits(
            system.max_procs_per_aix_linux_lpar, system.max_sys_procs_limit
        ),
        compatibility_modes=system.proc_compat_modes,
        has_dedicated_processors=system.get_capability(
            'dedicated_processor_partition_capable'
        ),
        has_remote_restart=system.get_capability(
            'simplified_remote_restart_capable'
        ),
        has_secure_boot=system.get_capability('partition_secure_boot_capable'),
        # Also true if the host does not report it, as many that run AIX.
        has_aix=system.get_capability('aix_capable'),
        io_slots=tuple(_slots(system, owners)),
    )


def _slots(
    system: managed_system.System, owners: Owners | None
) -> Iterator[slots.Slot]:
    if system.element.find(_IO_CONFIGURATION) is None:
        # A recovering host answers like this, although it has slots.
        raise exception.RestBusy(
            action='reading the managed system',
            reason='it does not report its I/O configuration',
        )
    config = system.asio_config
    sriov = frozenset(_sriov_indexes(config))
    for wrapper in config.io_slots:
        if not wrapper.drc_index:
            # A slot without a DRC index cannot be addressed.
            LOG.debug('No DRC index: %s', wrapper.description)
            continue
        # A reported owner counts even without the capability.
        by_profile = (owners or {}).get(wrapper.drc_index)
        owner = _reported_owner(wrapper) or by_profile
        yield _slot(wrapper, owner, wrapper.drc_index in sriov)


def _slot(
    wrapper: Any, owner: slots.Owner | None, in_sriov_mode: bool
) -> slots.Slot:
    return slots.Slot(
        drc_index=wrapper.drc_index,
        drc_name=wrapper.drc_name,
        description=wrapper.description,
        vendor_id=wrapper.pci_vendor_id,
        device_id=wrapper.pci_dev_id,
        subsys_vendor_id=wrapper.pci_subsys_vendor_id,
        subsys_device_id=wrapper.pci_subsys_dev_id,
        pci_class=wrapper.pci_class,
        revision_id=wrapper.pci_rev_id,
        owner=owner,
        sriov=in_sriov_mode,
        assignable=_assignable(wrapper.element),
        bus_group_required=wrapper.bus_grp_required,
    )


def _reported_owner(wrapper: Any) -> slots.Owner | None:
    if wrapper.part_id is None and wrapper.part_uuid is None:
        return None
    return slots.Owner(
        kind=_kind(wrapper.part_type),
        partition_id=wrapper.part_id,
        uuid=_upper(wrapper.part_uuid),
        name=wrapper.part_name,
    )


def _assignable(slot: Any) -> bool:
    """Return whether a partition can own a slot; True if that is unknown.

    Most hosts do not report this, and pypowervm does not read it.
    """
    return all(
        (element.text or '').strip().lower() == 'true'
        for element in slot.findall(f'{_ADAPTER}/*/{_ASSIGNABLE}')
    )


def profile_owners(partitions: Iterable[Any]) -> Owners:
    """Find the owners of slots in the profiles of all partitions."""
    owners = {}
    for partition in partitions:
        kind = (
            slots.PartitionKind.MANAGEMENT
            if partition.is_mgmt_partition
            else _kind(partition.env)
        )
        owner = slots.Owner(
            kind, partition.id, _upper(partition.uuid), partition.name
        )
        for slot in partition.io_config.io_slots:
            owners[slot.drc_index] = owner
    return owners


def _kind(env: str | None) -> slots.PartitionKind:
    if env == base_partition.LPARType.VIOS:
        return slots.PartitionKind.VIOS
    return slots.PartitionKind.CLIENT


def _upper(uuid: str | None) -> str | None:
    return uuid.upper() if uuid else None


def _sriov_indexes(config: managed_system.ASIOConfig) -> Iterator[int]:
    """Find the slots whose adapters are in SR-IOV mode.

    The ``AdapterID`` of such an adapter is the DRC index of its slot. An
    adapter with an unknown mode counts as well.
    """
    dedicated = (
        iocard.SRIOVAdapterMode.DEDICATED,
        iocard.SRIOVAdapterMode.FORCE_DEDICATED,
    )
    for adapter in config.sriov_adapters:
        if adapter.mode not in dedicated and (adapter.id or '').isdigit():
            yield int(adapter.id)


class RestSystem:
    """The one system that the REST server manages.

    It implements :class:`nova_powervm.ops.interfaces.System` without importing
    it: the wheel for cyborg-agent has no ``ops``.

    :param adapter: An adapter with a session that has logged on.
    :param server: The name of the server in messages.
    :param clock: Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        server: object,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._adapter = adapter
        self._server = server
        self._clock = clock
        self._lock = threading.Lock()
        # When a reading got no answer, and the fields of the error.
        self._silence: tuple[float, dict[str, Any]] | None = None
        self._doubted_at: float | None = None
        self._feeds = {
            noun: _Feed(adapter, noun)
            for noun in (virtual_io_server.VIOS, logical_partition.LPAR)
        }
        self._wrapper: Any = None
        self._managed: host_values.ManagedSystem | None = None
        # The wrappers that the managed system was translated from.
        self._sources: list[Any] = []

    @property
    def wrapper(self) -> managed_system.System:
        """pypowervm's wrapper as last read; reads the host the first time."""
        with self._lock:
            if self._wrapper is None:
                self._fetch()
            return self._wrapper

    @rest_errors.retried
    def read(self) -> host_values.ManagedSystem:
        """Read the host, with one conditional request if it is unchanged.

        :raises exception.WrongSystemCount: The server does not manage exactly
            one system.
        """
        with self._exclusively():
            self._fetch()
            if not reports_owners(self._wrapper):
                self._fetch_partitions()
            sources = [
                self._wrapper,
                *(feed.wrappers for feed in self._feeds.values()),
            ]
            # A 304 leaves the same wrapper: it is not parsed again.
            if self._managed is None or not _are_same(sources, self._sources):
                self._managed = self._checked(self._translate())
                self._sources = sources
            return self._managed

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Prevent other threads from reading at the same time.

        A thread that has waited for a reading that got no answer raises the
        same error: otherwise many threads would wait one after the other.
        """
        came_at = self._clock()
        with self._lock:
            if self._silence and self._silence[0] >= came_at:
                raise exception.RestSilent(**self._silence[1])
            try:
                yield
            except exception.RestSilent as error:
                self._silence = self._clock(), error.fields
                raise

    def _checked(
        self, managed: host_values.ManagedSystem
    ) -> host_values.ManagedSystem:
        """Doubt a reading in which all slots have disappeared at once.

        It is accepted if full readings confirm it for a while.
        """
        lost = len(self._managed.io_slots) if self._managed else 0
        if managed.io_slots or not lost:
            self._doubted_at = None
            return managed
        now = self._clock()
        if self._doubted_at is None:
            self._doubted_at = now
        left = self._doubted_at + DOUBT_SECONDS - now
        if left > 0:
            raise exception.SlotsVanished(count=lost, seconds=round(left))
        LOG.warning(
            'The managed system has reported no I/O slot for %(seconds)d '
            'seconds, so its %(count)d slots are treated as removed. They '
            'return automatically as soon as it reports them again.',
            {'seconds': now - self._doubted_at, 'count': lost},
        )
        self._doubted_at = None
        return managed

    @rest_errors.retried
    def hypervisor_memory(
        self, memory_mb: int, max_mem: int
    ) -> host_values.HypervisorMemory:
        """Ask the job ``QueryReservedMemoryRequiredForPartition``.

        Without an answer, it is not known how much memory is free.
        """
        with self._translated('asking for the memory of the hypervisor'):
            overhead, free = memory.calculate_memory_overhead_on_host(
                self._adapter,
                self.wrapper.uuid,
                {'desired_mem': memory_mb, 'max_mem': max_mem},
            )
            return host_values.HypervisorMemory(overhead, free)

    @rest_errors.retried
    def uptime(self) -> int:
        """Return 0 if the host does not report it (element ``Uptime``)."""
        with self._translated('reading the management partition'):
            try:
                management = partition_tasks.get_mgmt_partition(self._adapter)
            except pvm.ManagementPartitionNotFoundException:
                return 0
            return management.uptime or 0

    def _fetch(self) -> None:
        """Refresh the wrapper; an unchanged one stays the same object."""
        with self._translated('reading the managed system'):
            if self._wrapper is not None:
                try:
                    self._wrapper = self._wrapper.refresh(
                        use_etag=self._doubted_at is None
                    )
                    return
                except pvm.HttpNotFound:
                    LOG.warning('The uuid of the managed system has changed.')
                    self._wrapper = None
            self._wrapper = self._only(
                managed_system.System.get(self._adapter)
            )

    def _fetch_partitions(self) -> None:
        """Refresh all partitions, whose profiles name the owners of slots.

        Do this only for a system that does not report owners.
        """
        with self._translated('reading the partitions for slot owners'):
            for feed in self._feeds.values():
                feed.fetch(conditional=self._doubted_at is None)

    def _only(self, feed: list[Any]) -> managed_system.System:
        if not feed:
            raise exception.RestBusy(
                action='reading the managed system',
                reason=f'{self._server} does not report a managed system yet',
            )
        if len(feed) != 1:
            raise exception.WrongSystemCount(
                server=self._server,
                count=len(feed),
                names=', '.join(str(system.system_name) for system in feed)
                or 'none',
            )
        return feed[0]

    @property
    def reports_owners(self) -> bool:
        """Whether the system, as last read, reports the owners of slots.

        If not, the owners are derived from the partitions' profiles.
        """
        return reports_owners(self.wrapper)

    def _translate(self) -> host_values.ManagedSystem:
        owners = None
        if not reports_owners(self._wrapper):
            feeds = (feed.wrappers for feed in self._feeds.values())
            owners = profile_owners(itertools.chain.from_iterable(feeds))
        return managed_system_of(self._wrapper, owners)

    def _translated(
        self, action: str
    ) -> contextlib.AbstractContextManager[None]:
        return rest_errors.translated(action, self._server)


class _Feed:
    """A feed that is read only if it has changed.

    :param adapter: An adapter with a session that has logged on.
    :param noun: The wrapper class of its entries.
    """

    def __init__(self, adapter: pvm_adapter.Adapter, noun: Any) -> None:
        self._adapter = adapter
        self._noun = noun
        self._etag: str | None = None
        self.wrappers: list[Any] = []

    def fetch(self, *, conditional: bool) -> None:
        """Read the feed; an unchanged one stays the same object."""
        answer = self._adapter.read(
            self._noun.schema_type,
            etag=self._etag if conditional else None,
        )
        if answer.status != pvm_const.HTTPStatus.NO_CHANGE:
            self.wrappers = self._noun.wrap(answer)
            self._etag = answer.etag


def _are_same(some: list[Any], others: list[Any]) -> bool:
    """Return whether two lists hold the same objects."""
    return [id(item) for item in some] == [id(item) for item in others]
