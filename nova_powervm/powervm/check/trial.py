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

"""Makes an LPAR that tells how a host behaves, and removes it.

For ``nova-powervm-check partition``. What the driver's own writers can do they
do here, so that what is seen is what instances would meet. Names and uuid are
always the same for a host: what a killed run has left is found by them, and
nothing else is touched.
"""

import dataclasses
import hashlib
import time
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import event
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import vios_file
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import shared_ethernet
from nova_powervm.lpar import storage
from nova_powervm.lpar import virtual_slots
from nova_powervm.powervm import events
from nova_powervm.powervm import management_partition
from nova_powervm.powervm import partitions
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import system
from nova_powervm.powervm import virtual_io_servers
from nova_powervm.powervm.check import inspection
from nova_powervm.powervm.check import trial_pool
from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.powervm.disk import uploads
from nova_powervm.powervm.disk import volume_groups
from nova_powervm.powervm.vif import virtual_ethernet

OFF = bp.LPARState.NOT_ACTIVATED
STARTED = (bp.LPARState.RUNNING, bp.LPARState.OPEN_FIRMWARE)

#: What stays free on the host beside the LPAR and its disk.
MEMORY_MARGIN_MB = 4096
UNITS_MARGIN = 0.5
DISK_MARGIN_GB = 5
DISK_GB = 1
GROWN_GB = 3
_BETWEEN_GB = 2
MEMORY_MB = 1024
#: The slot of no host.
UNKNOWN_SLOT = 0x7FFFFFF0
STOP_SECONDS = 120
#: The HTTP status for an outdated ETag.
OUTDATED = 412
#: The virtual slots of the first server's storage.
SLOTS = storage.virtual_slots(0)

_LPAR = logical_partition.LPAR
_NAMESPACE = uuid.UUID('8f4c1a52-6d0e-5b7b-9a3e-2c61d0f7e945')
_UNITS = 0.1
_VLANS = range(4000, 1, -1)
#: What an upload announces, and what it sends in its place to be refused.
CONTENTS = bytes(range(256)) * 256
DAMAGED = CONTENTS[:-1] + b'x'
SHORT = CONTENTS[:-1]
#: As the marks in media repositories by which clearing remembers disks.
_MEDIUM = bytes(uploads.NOTE_BYTES)
#: The virtual slot of the adapter: one that the host would not choose.
ADAPTER_SLOT = virtual_slots.LATER.start
#: Polls for events after which none is expected any more.
_POLLS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """What the LPAR of a host and its parts are called.

    No name is one that the driver gives to anything of an instance, so
    nova-compute leaves all of it alone.
    """

    uuid: str
    lpar: str
    disk: str
    medium: str
    mac: str
    second_uuid: str
    second_lpar: str

    @property
    def lpars(self) -> Mapping[str, str]:
        """The uuid of each LPAR -> its name.

        The second one is made only if the host does not refuse it.
        """
        return {self.uuid: self.lpar, self.second_uuid: self.second_lpar}

    @property
    def of_storage(self) -> frozenset[str]:
        """The names of all storage."""
        return frozenset({self.disk, self.medium, *self.units})

    @property
    def units(self) -> tuple[str, str]:
        """The names of image and clone in a shared storage pool."""
        return f'{self.disk}i', f'{self.disk}c'


def names_for(machine: str) -> Names:
    """Return the names for a host.

    :param machine: Machine type, model and serial number.
    """
    made, second = (
        partition.lpar_uuid(str(uuid.uuid5(_NAMESPACE, f'{machine}{suffix}')))
        for suffix in ('', ' 2')
    )
    digits = made.replace('-', '').lower()
    mark = digits[-8:]
    mac = f'0a{digits[:10]}'
    return Names(
        uuid=made,
        lpar=f'nova-check-{mark}',
        disk=f'novachk{mark}',
        # As long as the name of such a mark.
        medium=f'novachk{digits[-13:]}.iso',
        mac=':'.join(mac[at : at + 2] for at in range(0, 12, 2)),
        second_uuid=second,
        second_lpar=f'nova-check-{mark}-2',
    )


def refusal(work: Callable[[], object]) -> int | None:
    """Return the HTTP status by which the host refuses something.

    :returns: None if it does not.
    """
    try:
        work()
    except pvm.HttpError as error:
        return int(error.response.status)
    except exception.PowerVMError as error:
        status = inspection.status_of(error)
        if status is None:
            raise
        return status
    return None


class Trial:
    """One LPAR of a host, and what belongs to it.

    It starts as the driver's do; see ``slot_trial`` for one with a slot.

    :param adapter: An adapter with a session that has logged on.
    :param managed: The managed system.
    :param settings: The options of nova.conf.
    :param sleep: Waits for some seconds.
    :ivar pool: What belongs to it in a shared storage pool.
    :ivar lpar: The LPAR, as it was read last; None before it is made.
    :ivar disk: pypowervm's wrapper of its disk.
    :ivar has_medium: Whether its medium was made.
    :ivar is_mapped: Whether its storage is mapped.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        managed: system.RestSystem,
        settings: options.Settings,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._adapter = adapter
        self._sleep = sleep
        self.host = managed.read()
        self.names = names_for(self.host.machine)
        self.partitions = partitions.RestPartitions(
            adapter, managed, settings.virtual_slots
        )
        self.ethernet = virtual_ethernet.VirtualEthernet(adapter, managed)
        self._managed = managed
        self._group_name = settings.volume_group
        self.groups = volume_groups.VolumeGroups(
            adapter, settings.volume_group or ''
        )
        self._uploads = uploads.Uploads(adapter)
        self._mappings = scsi_mappings.ScsiMappings(
            adapter,
            management_partition.ManagementPartition(
                adapter, settings.management_root
            ),
        )
        self.pool = trial_pool.PoolTrial(
            adapter,
            settings,
            self.names.units,
            self._uploads,
            self._mappings,
        )
        self.lpar: partition.Partition | None = None
        self.disk: Any = None
        self._free_gb = 0.0
        self.has_medium = False
        self.is_mapped = False
        # LPARs of this run that the host has given other uuids.
        self._other_uuids: list[str] = []

    # What is there

    @property
    def spec(self) -> partition.PartitionSpec:
        """The LPAR to make."""
        region = self.host.memory_region_mb
        memory = -(-MEMORY_MB // region) * region
        units = max(_UNITS, self.host.min_units_per_vcpu)
        flavor = lpar_settings.FlavorSettings(memory, 1, units)
        return partition.PartitionSpec(
            self.names.uuid,
            self.names.lpar,
            lpar_settings.decide_settings(flavor, {}),
        )

    def check_room(self) -> None:
        """Verify that the LPAR takes nothing that somebody may need.

        :raises exception.ConfigurationError: There is too little.
        """
        chosen = self.spec.settings
        assert chosen is not None  # noqa: S101 - for the type checker
        for what, free, needed in (
            (
                'MB of memory',
                self.host.memory_free_mb,
                chosen.memory_mb + MEMORY_MARGIN_MB,
            ),
            (
                'processing units',
                self.host.proc_units_free,
                (chosen.proc_units or 0) + UNITS_MARGIN,
            ),
        ):
            if free < needed:
                raise exception.ConfigurationError(
                    reason=f'the host has {free:g} {what} free, and the LPAR '
                    f'of this command is made only where {needed:g} are'
                )

    def check_identity(self) -> None:
        """Verify that nobody else has the name or the uuid.

        :raises exception.ConfigurationError: Somebody has; nothing was
            changed.
        """
        own = self.names.lpars.items()
        for found, name in self.partitions.names().items():
            for its_uuid, its_name in own:
                if (found == its_uuid) == (name == its_name):
                    continue
                raise exception.ConfigurationError(
                    reason=f'LPAR {name} ({found}) has either the name '
                    f'{its_name} or the UUID {its_uuid}, and '
                    'not both, so this command has not made it, or the host '
                    'chose its UUID. Rename or delete it'
                )

    @property
    def group(self) -> str:
        """Where the disk is made, in words."""
        return f'volume group {self._group_name}'

    def why_no_disk(self) -> str:
        """Return why no disk can be made; empty if one can."""
        if not self._group_name:
            return '[powervm]volume_group_name is not set'
        free = self.groups.read().available_size
        if free < GROWN_GB + DISK_MARGIN_GB:
            return (
                f'{self.group} has {free:g} GB free, and '
                f'less than {GROWN_GB + DISK_MARGIN_GB}'
            )
        return ''

    def why_no_medium(self) -> str:
        """Return why no medium can be made; empty if one can."""
        if not self._group_name:
            return '[powervm]volume_group_name is not set'
        for each in volume_groups.repositories(self.groups.all()):
            used = sum(medium.size for medium in each.optical_media)
            if each.size - used < len(_MEDIUM) / storage.GIB:
                return 'the media repository is full'
            return ''
        return 'the Virtual I/O Server has no media repository'

    def leftovers(self) -> list[str]:
        """Describe what there is on the host by the names of this command."""
        lpars = self.partitions.names()
        found = [
            f'LPAR {name}'
            for found, name in lpars.items()
            if (found, name) in self.names.lpars.items()
        ]
        found += [
            f'the mapping of {mapping.backing_storage.name}'
            for server in self._servers()
            for mapping in server.scsi_mappings
            if self._is_own(mapping)
        ]
        found += [
            f'{name} on {server.name}'
            for server in self._servers()
            for group in self.groups.all(server.uuid)
            for name in volume_groups.names(group)
            if storage.base_name(name) in self.names.of_storage
        ]
        found += [f'logical unit {name}' for name in self.pool.leftovers()]
        with rest_errors.translated('reading the files'):
            files = vios_file.File.wrap(
                self._adapter.read(vios_file.File.schema_type, service='web')
            )
        found += [
            f'the description of {file.file_name}'
            for file in files
            if file.file_name in self.names.of_storage
        ]
        return found

    def _servers(self) -> Iterator[Any]:
        with rest_errors.translated('reading the Virtual I/O Servers'):
            servers = virtual_io_servers.read_all(
                self._adapter, scsi_mappings.XAG
            )
        return filter(inspection.answers, servers)

    def _is_own(self, mapping: Any) -> bool:
        """Return whether a mapping connects what this command has made.

        A mapping to somebody else's LPAR is left alone.
        """
        element = mapping.backing_storage
        client = virtual_io_servers.client_of(mapping)
        return (
            element is not None
            and storage.base_name(element.name or '') in self.names.of_storage
            and client in ('', *self._own_uuids())
        )

    def _own_uuids(self) -> list[str]:
        return [*self.names.lpars, *self._other_uuids]

    # What is done

    def make(self) -> partition.Partition:
        """Make the LPAR, and read it.

        :returns: What is at the uuid that the host has answered. With another
            name it may be somebody's, and is not touched.
        """
        uuid_ = self.create(self.spec)
        found = self.partitions.find(uuid_)
        if found is None:
            raise exception.PartitionNotFound(uuid=uuid_)
        if found.name == self.names.lpar:
            self.lpar = found
        return found

    def create(self, spec: partition.PartitionSpec) -> str:
        """Make an LPAR; return the uuid that the host has given it."""
        answer = self.partitions.write(spec, lambda: None, creates=True)
        if answer.uuid != spec.uuid:
            self._other_uuids.append(answer.uuid)
        return answer.uuid

    def read(self) -> partition.Partition:
        """Read the LPAR again."""
        assert self.lpar is not None  # noqa: S101 - callers make it first
        uuid = self.lpar.uuid
        self.lpar = self.partitions.find(uuid)
        if self.lpar is None:
            # Perhaps by another run: what follows is not tried.
            raise exception.PartitionNotFound(uuid=uuid)
        return self.lpar

    def memory_taken_mb(self) -> int:
        """Return how much less memory is free than before the LPAR."""
        return self.host.memory_free_mb - self._managed.read().memory_free_mb

    def write_outdated(self) -> int | None:
        """Change the LPAR by a document that is outdated."""
        with rest_errors.translated(f'changing LPAR {self.names.lpar}'):
            first, second = (
                _LPAR.get(self._adapter, uuid=self.read().uuid)
                for _ in range(2)
            )
            _set_weight(first, 100)
            first.update()
        _set_weight(second, 50)
        return refusal(second.update)

    def give_unknown_slot(self) -> int | None:
        """Give the LPAR a slot that the host does not have, and take it back.

        With it, the LPAR might not start.
        """
        status = refusal(lambda: self._give_slots(UNKNOWN_SLOT))
        if status is None:
            self._give_slots()
        return status

    def _give_slots(self, *indexes: int) -> None:
        spec = dataclasses.replace(
            self.spec,
            uuid=self.read().uuid,
            settings=None,
            slots=tuple(map(partition.SlotAssignment, indexes)),
            freed=frozenset({UNKNOWN_SLOT}.difference(indexes)),
        )
        self.partitions.write(spec, lambda: None, creates=False)

    def adapter_wanted(self) -> shared_ethernet.Adapter | None:
        """Return an adapter on a VLAN that nobody has; None if there is none.

        The LPAR must not reach anybody: its firmware may ask for a server to
        boot from.
        """
        bridges = self.ethernet.bridges()
        if not bridges:
            return None
        switch = bridges[0].switch
        taken = {n for name, n in self.ethernet.occupied() if name == switch}
        for bridge in bridges:
            taken |= bridge.vlans
        vlan = next((each for each in _VLANS if each not in taken), None)
        if vlan is None:
            return None
        return shared_ethernet.Adapter(
            mac=self.names.mac, vlan=vlan, switch=switch, slot=ADAPTER_SLOT
        )

    def add_adapter(self, wanted: shared_ethernet.Adapter) -> None:
        """Give the LPAR an adapter."""
        self.ethernet.plug(self.read(), wanted)

    def remove_adapters(self) -> None:
        """Remove the adapter from the LPAR."""
        self.ethernet.unplug(self.read().uuid, self.names.mac)

    def make_disk(self) -> Any:
        """Make the disk, and return it.

        One without a UDID is not used: nothing says what would be written to.
        """
        name = self.names.disk

        def build() -> pvm_storage.VDisk:
            return pvm_storage.VDisk.bld(
                self._adapter, name, DISK_GB, file_format='raw'
            )

        self._free_gb = self.groups.read().available_size
        group = self.groups.change(volume_groups.addition(name, build))
        made = volume_groups.find(group, name)
        if made is not None and made.udid:
            self.disk = made
        return made

    def taken_gb(self) -> float:
        """Return how much less is free in the group than before the disk."""
        return self._free_gb - float(self.groups.read().available_size)

    def write_outdated_group(self) -> int | None:
        """Enlarge the disk by a document with an outdated ETag.

        Only its ETag is outdated: a host that takes it would delete the disks
        of others that an outdated document does not have.
        """
        first = self._fresh_group()
        self._enlarge(first, _BETWEEN_GB)
        with rest_errors.translated('enlarging the disk'):
            first.update()
        second = pvm_storage.VG.wrap(
            self._fresh_group().entry, etag=first.etag
        )
        return refusal(second.update)

    def _enlarge(self, group: Any, size_gb: float) -> bool:
        """Change the size of the disk in a document of its group."""
        disk = volume_groups.find(group, self.names.disk)
        if disk is None:
            raise exception.DiskMissing(
                owner=f'LPAR {self.names.lpar}',
                what='only',
                place=self.group,
            )
        disk.capacity = size_gb
        return True

    def _fresh_group(self) -> Any:
        uuid_ = self.groups.read().uuid
        return next(g for g in self.groups.all() if g.uuid == uuid_)

    def grow(self) -> float:
        """Enlarge the disk; return the size that it has then, in GB.

        The document that is changed has just been read: a host may take
        outdated ones.
        """
        self.groups.change_all(
            lambda group: (
                volume_groups.find(group, self.names.disk) is not None
                and self._enlarge(group, GROWN_GB)
            )
        )
        group = self._fresh_group()
        disk = volume_groups.find(group, self.names.disk)
        return 0.0 if disk is None else float(disk.capacity)

    def upload(self, sent: bytes = CONTENTS) -> int | None:
        """Write to the disk.

        :param sent: The bytes to send; others than those announced are to be
            refused.
        """
        return refusal(
            lambda: self._send(
                self.names.disk, uploads.DISK, sent, disk=self.disk.udid
            )
        )

    def make_medium(self) -> bool:
        """Make the medium; return whether it is there."""
        self._send(self.names.medium, uploads.MEDIUM, _MEDIUM, _MEDIUM)
        self.has_medium = any(
            storage.base_name(medium.name) == self.names.medium
            for each in volume_groups.repositories(self.groups.all())
            for medium in each.optical_media
        )
        return self.has_medium

    def _send(
        self,
        name: str,
        kind: str,
        sent: bytes,
        announced: bytes = CONTENTS,
        disk: str | None = None,
    ) -> None:
        self._uploads.send(
            uploads.Upload(
                vios=self.groups.vios,
                name=name,
                kind=kind,
                size=len(announced),
                sha256=hashlib.sha256(announced).hexdigest(),
                disk=disk,
            ),
            iter([sent]),
        )

    def map_storage(self) -> dict[str, frozenset[int]]:
        """Map what of disk and medium is not mapped; return their slots."""
        elements = [self.disk] if self.disk else []
        if self.has_medium:
            elements.append(
                pvm_storage.VOptMedia.bld_ref(self._adapter, self.names.medium)
            )
        lpar = self.read().uuid
        vios = self.groups.vios
        self._mappings.attach(vios, lpar, elements)
        self.is_mapped = True
        return {
            name: self._mappings.connection(vios, lpar, name).slots
            for name in (
                storage.base_name(element.name) for element in elements
            )
        }

    def unmap(self, name: str) -> bool:
        """Remove the mapping of disk or medium; return whether it goes."""
        lpar = self.read().uuid
        self._mappings.detach(lpar, name)
        vios = self.groups.vios
        return not self._mappings.connection(vios, lpar, name).slots

    def write_outdated_mappings(self) -> int | None:
        """Write the mappings of a server as they are, by an outdated ETag."""
        first = self._fresh_server()
        self.unmap(self.names.medium if self.has_medium else self.names.disk)
        self.map_storage()
        second = virtual_io_server.VIOS.wrap(
            self._fresh_server().entry, etag=first.etag
        )
        return refusal(second.update)

    def _fresh_server(self) -> Any:
        with rest_errors.translated('reading a Virtual I/O Server'):
            return virtual_io_server.VIOS.get(
                self._adapter, uuid=self.groups.vios, xag=scsi_mappings.XAG
            )

    def delete_mapped_disk(self) -> int | None:
        """Delete the disk although it is mapped."""
        group = self._fresh_group()
        volume_groups.removal_of([self.names.disk])(group)
        return refusal(group.update)

    def start(self) -> str:
        """Start the LPAR as the driver does; return its state."""
        self.partitions.power_on(self._read_bootable())
        return self.state()

    def restart(self) -> str:
        """Restart the LPAR at once; return its state."""
        self.partitions.restart(self._read_bootable(), hard=True)
        return self.state()

    def _read_bootable(self) -> partition.Partition:
        """Read the LPAR before it boots, which it must not with a slot.

        Another run of this command may have given it one.
        """
        lpar = self.read()
        if lpar.slots:
            raise exception.ConfigurationError(
                reason=f'LPAR {lpar.name} has got a physical slot, and is not '
                'started with it'
            )
        return lpar

    def stop(self, *, hard: bool) -> str:
        """Stop the LPAR; return its state."""
        self.partitions.power_off(self.read(), hard=hard, timeout=STOP_SECONDS)
        return self.state()

    def stop_watched(self) -> list[event.Event]:
        """Start the LPAR, and stop it; return the events after the start."""
        queue = inspection.new_queue()
        events.poll(self._adapter, queue)
        self.start()
        for _ in range(_POLLS):
            # Those of the start may be late.
            if not events.poll(self._adapter, queue):
                break
        self.stop(hard=True)
        found: list[event.Event] = []
        for _ in range(_POLLS):
            found += events.poll(self._adapter, queue)
            if self.is_told(found):
                break
        return found

    def is_told(self, found: Sequence[event.Event]) -> bool:
        """Return whether the driver would learn that the LPAR stopped."""
        return self.read().uuid in (events.changed_lpars(found) or ())

    def state(self) -> str:
        """Read the state of the LPAR alone."""
        assert self.lpar is not None  # noqa: S101 - callers make it first
        try:
            return self.partitions.state(self.lpar.uuid)
        except exception.PartitionNotFound:
            self.lpar = None
            raise

    def reference_code(self, tries: int = 10) -> str:
        """Return the reference code, which may need a while."""
        for _ in range(tries):
            code = self.read().reference_code
            if code:
                return code
            self._sleep(1)
        return ''

    def delete_running(self) -> int | None:
        """Delete the LPAR although it runs."""
        return refusal(
            lambda: self._adapter.delete(
                _LPAR.schema_type, root_id=self.read().uuid
            )
        )

    # What is removed

    def remove_storage(self) -> None:
        """Unmap and delete disks and media, on all servers that answer."""

        def unmap(server: Any) -> bool:
            doomed = [*filter(self._is_own, server.scsi_mappings)]
            for mapping in doomed:
                server.scsi_mappings.remove(mapping)
            return bool(doomed)

        virtual_io_servers.change_all_mappings(
            self._adapter, 'unmapping the storage of the check', unmap
        )
        edit = volume_groups.removal_of(self.names.of_storage)
        for server in self._servers():
            self.groups.change_all(edit, server.uuid)
        self.pool.remove()
        self._uploads.forget_leftovers(self.names.of_storage.__contains__)
        self.disk = None
        self.has_medium = self.is_mapped = False

    def remove_lpar(self) -> None:
        """Stop and delete the LPAR, if it is this command's."""
        self._stop_own()
        self.delete_own(self._own_uuids())

    def delete_own(self, uuids: Collection[str]) -> None:
        """Delete the LPARs with some uuids that have names of this command."""
        for lpar in self._own(uuids):
            self.partitions.delete(lpar.uuid)

    def _stop_own(self) -> None:
        for lpar in self._own(self._own_uuids()):
            if lpar.is_active:
                self.partitions.power_off(lpar, hard=True)

    def _own(self, uuids: Collection[str]) -> list[partition.Partition]:
        """Return what there is of the LPARs, by both uuid and name."""
        found = map(self.partitions.find, uuids)
        return [
            lpar
            for lpar in found
            if lpar and lpar.name in self.names.lpars.values()
        ]

    def clean_up(self) -> None:
        """Remove all that this command has made, also in an earlier run.

        The LPAR goes last: its uuid tells whose the mappings are.
        """
        self._stop_own()
        self.remove_storage()
        self.remove_lpar()


def _set_weight(lpar: Any, weight: int) -> None:
    lpar.proc_config.shared_proc_cfg.uncapped_weight = weight
