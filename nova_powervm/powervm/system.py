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

"""The managed system and its I/O slots, read through pypowervm."""

import contextlib
import threading
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import const as pvm_const
from pypowervm import exceptions as pvm
from pypowervm.tasks import partition as partition_tasks
from pypowervm.wrappers import base_partition
from pypowervm.wrappers import iocard
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.domain import host
from nova_powervm.domain import slots
from nova_powervm.powervm import changes
from nova_powervm.powervm import errors

LOG = logging.getLogger(__name__)

_Owners = dict[int, slots.Owner]
_IO_CONFIGURATION = 'AssociatedSystemIOConfiguration'


class RestSystem:
    """The one system that the REST server manages.

    :param adapter: A logged-on adapter of ours.
    :param server: How messages call the server.
    :param full_read_seconds: How old a full reading may become.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        server: object,
        full_read_seconds: float = changes.FULL_READ_SECONDS,
    ) -> None:
        self._adapter = adapter
        self._server = server
        self._lock = threading.Lock()
        self._watch = changes.Watch(
            adapter.session.changes,
            (changes.Topic.SYSTEM,),
            full_read_seconds,
        )
        self._feeds = {
            noun: _Feed(adapter, noun)
            for noun in (virtual_io_server.VIOS, logical_partition.LPAR)
        }
        self._wrapper: Any = None
        self._view: host.HostView | None = None
        # What the view was made of.
        self._basis: list[Any] = []

    @property
    def wrapper(self) -> managed_system.System:
        """pypowervm's wrapper as last read; read now if it never was."""
        with self._lock:
            if self._wrapper is None:
                self._fetch()
            return self._wrapper

    def read(self, *, fresh: bool = False) -> host.HostView:
        """Read the host; an unchanged one costs one conditional request.

        It costs none while the event stream tells that nothing changed. An
        unchanged host gives the same object again.

        :param fresh: Ask the host, whatever the event stream tells.
        :raises exception.WrongSystemCount: There is not exactly one system.
        :raises exception.RestError: The server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """
        view = self._view
        if view and self._watch.unchanged and not fresh:
            return view
        return self._read()

    @errors.retried
    def _read(self) -> host.HostView:
        with self._lock, self._watch.reading():
            self._fetch()
            if not self._reports_owners:
                self._fetch_partitions()
            basis = [
                self._wrapper,
                *(feed.wrappers for feed in self._feeds.values()),
            ]
            if self._view is None or not _same(basis, self._basis):
                self._view = self._checked(self._translate())
                self._basis = basis
            return self._view

    def _checked(self, view: host.HostView) -> host.HostView:
        """Refuse a reading in which all slots are gone at once."""
        if self._view and self._view.io_slots and not view.io_slots:
            raise exception.RestBusy(
                action='reading the managed system',
                reason='it reports no I/O slot any more',
            )
        return self._view if view == self._view else view

    @errors.retried
    def uptime(self) -> int:
        """Give the seconds since the management partition was booted.

        :returns: 0 if the host does not report it (REST element ``Uptime``).
        """
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
                        use_etag=not self._watch.overdue
                    )
                    return
                except pvm.HttpNotFound:
                    LOG.warning('The managed system has another uuid now.')
                    self._wrapper = None
            self._wrapper = self._only(
                managed_system.System.get(self._adapter)
            )

    def _fetch_partitions(self) -> None:
        """Refresh all partitions, whose profiles say who owns what.

        Only where the system does not report owners: only then does a slot
        without one in the system's own payload mean nothing.
        """
        with self._translated('reading the partitions for slot owners'):
            for feed in self._feeds.values():
                feed.fetch(conditional=not self._watch.overdue)

    def _only(self, feed: list[Any]) -> managed_system.System:
        if not feed:
            raise exception.RestBusy(
                action='reading the managed system',
                reason=f'{self._server} knows no managed system yet',
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
    def _reports_owners(self) -> bool:
        return bool(
            self._wrapper.get_capability('ioslot_owner_assignment_capable')
        )

    def _translate(self) -> host.HostView:
        system = self._wrapper
        return host.HostView(
            name=system.system_name,
            uuid=system.uuid,
            machine=system.mtms.mtms_str,
            memory_mb=system.memory_configurable,
            memory_free_mb=system.memory_free,
            memory_region_mb=system.memory_region_size,
            proc_units=system.proc_units_configurable,
            proc_units_free=system.proc_units_avail,
            min_units_per_vcpu=system.min_proc_units,
            io_slots=tuple(self._slots()),
        )

    def _slots(self) -> Iterator[slots.Slot]:
        if self._wrapper.element.find(_IO_CONFIGURATION) is None:
            # A host that recovers says so; it does not mean "no slots".
            raise exception.RestBusy(
                action='reading the managed system',
                reason='it does not report its I/O configuration',
            )
        config = self._wrapper.asio_config
        sriov = frozenset(_sriov_indexes(config))
        owners = None if self._reports_owners else self._owners_by_profile()
        for wrapper in config.io_slots:
            if not wrapper.drc_index:
                # Nothing can be done with a slot that has no name.
                LOG.debug('No DRC index: %s', wrapper.description)
                continue
            owner = (
                _reported_owner(wrapper)
                if owners is None
                else owners.get(wrapper.drc_index)
            )
            yield _slot(wrapper, owner, wrapper.drc_index in sriov)

    def _owners_by_profile(self) -> _Owners:
        """Work out owners from the partitions that were read."""
        partitions = (
            partition
            for feed in self._feeds.values()
            for partition in feed.wrappers
        )
        return dict(_profile_owners(partitions))

    def _translated(
        self, action: str
    ) -> contextlib.AbstractContextManager[None]:
        return errors.translated(action, self._server)


class _Feed:
    """A feed that is read again only if it has changed.

    :param adapter: A logged-on adapter.
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


def _same(some: list[Any], others: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    return [id(item) for item in some] == [id(item) for item in others]


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


def _profile_owners(
    partitions: Iterable[Any],
) -> Iterator[tuple[int, slots.Owner]]:
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
            yield slot.drc_index, owner


def _kind(env: str | None) -> slots.PartitionKind:
    if env == base_partition.LPARType.VIOS:
        return slots.PartitionKind.VIOS
    return slots.PartitionKind.CLIENT


def _upper(uuid: str | None) -> str | None:
    return uuid.upper() if uuid else None


def _sriov_indexes(config: managed_system.ASIOConfig) -> Iterator[int]:
    """Find the slots whose adapters are in SR-IOV mode.

    Such an adapter has its slot's DRC index as ``AdapterID``. What is
    neither dedicated nor clearly in SR-IOV mode is in doubt, so it counts.
    """
    dedicated = (
        iocard.SRIOVAdapterMode.DEDICATED,
        iocard.SRIOVAdapterMode.FORCE_DEDICATED,
    )
    for adapter in config.sriov_adapters:
        if adapter.mode not in dedicated and (adapter.id or '').isdigit():
            yield int(adapter.id)
