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

"""The disk driver ``localdisk``: disks in a volume group of a VIOS."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import management_partition
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm.disk import base
from nova_powervm.powervm.disk import clearing
from nova_powervm.powervm.disk import disk_reading
from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.powervm.disk import uploads
from nova_powervm.powervm.disk import volume_groups

LOG = logging.getLogger(__name__)


def load(context: disk_drivers.Context) -> drivers.Disks:
    """Create the disk driver of a host; it needs a volume group."""
    if not context.settings.volume_group:
        return base.NoDisks('[powervm]volume_group_name')
    return LocalDisk(context)


class LocalDisk(base.MappedDisks):
    """Virtual disks of one volume group, and media on the same VIOS.

    :param context: The arguments of the disk driver.
    """

    groups: volume_groups.VolumeGroups

    def __init__(self, context: disk_drivers.Context) -> None:
        settings = context.settings
        groups = volume_groups.VolumeGroups(
            context.adapter, settings.volume_group or ''
        )
        super().__init__(context, groups)
        self._clears = settings.disk_clear
        # The last reading of the group, and its capacity.
        self._measured: tuple[Any, host_values.DiskCapacity] | None = None

    @property
    def servers(self) -> list[str]:
        """The server that has the group."""
        return [self.groups.vios]

    @property
    def image_formats(self) -> tuple[str, ...]:
        """Both: the Virtual I/O Server converts qcow2.

        Only raw images can be used where an upload has to clear the disk.
        """
        if self._way is clearing.Way.UPLOAD:
            return (image.RAW,)
        return image.FORMATS

    @property
    def _way(self) -> clearing.Way:
        """How new disks are cleared of the bytes of deleted disks."""
        is_local = self.adapter.traits.local_api
        return clearing.choose_way(
            self._clears, self.management, is_local=is_local
        )

    def capacity(self) -> host_values.DiskCapacity:
        group = self.groups.read()
        if self._measured is None or self._measured[0] is not group:
            self._measured = group, volume_groups.capacity(group)
        return self._measured[1]

    @rest_errors.retried
    def check_room(
        self,
        lpar_uuid: str,
        disks: Sequence[storage.Disk],
        medium_bytes: int | None,
        *,
        beside: bool = False,
    ) -> None:
        group = self.groups.read()
        free_gb = group.available_size + sum(
            disk.capacity
            for disk in group.virtual_disks
            if storage.belongs_to(disk.name, lpar_uuid) and not beside
        )
        needed_gb = sum(
            volume_groups.rounded(group, disk.size_gb) for disk in disks
        )
        purpose = exception.Listing(disks)
        storage.check_free(self.groups, free_gb, needed_gb, purpose)
        if medium_bytes is not None:
            self.media.check_room(lpar_uuid, medium_bytes, beside=beside)

    @rest_errors.retried
    def make_root(
        self,
        lpar_uuid: str,
        disk: storage.Disk,
        described: image.Image,
        contents: image.Contents,
        source: drivers.Source,
    ) -> storage.Stored:
        """Create a virtual disk and write an image to it.

        The host converts a qcow2 image (REST element ``FileFormat``). It is
        unknown what the host writes where such an image has nothing, so all of
        the disk is cleared before.

        What an interrupted build left may be incomplete, and mapped to an
        LPAR that no longer exists.
        """
        name = storage.disk_name(lpar_uuid, disk.role)

        def clear() -> None:
            if disk.role == storage.RESCUE:
                self._remove_disk(lpar_uuid, name)
            else:
                self.remove(lpar_uuid)

        made = self._make(name, disk, contents.disk_format, clear)
        # Choose once: the host may report the management partition only later.
        way = self._way
        with self._discarded(name):
            is_raw = contents.disk_format == image.RAW
            if way is clearing.Way.DEVICE:
                self._clear(lpar_uuid, made, contents.size if is_raw else 0)
            upload = self._describe_upload(made, contents.size, way)
            with contextlib.closing(source()) as chunks:
                missing = clearing.zeros(upload.size - contents.size)
                self.uploads.send(upload, itertools.chain(chunks, missing))
        return storage.Stored(name, made)

    @contextlib.contextmanager
    def _discarded(self, name: str) -> Iterator[None]:
        """Delete a new disk if it cannot be filled."""
        try:
            yield
        except exception.PowerVMError as error:
            volume_groups.discard(self.groups, name, error)
            raise

    def _describe_upload(
        self, disk: pvm_storage.VDisk, size: int, way: clearing.Way
    ) -> uploads.Upload:
        """Describe the upload of an image, and of zeros where these clear.

        :param size: The size of the image in bytes.
        """
        if way is clearing.Way.UPLOAD:
            size = max(size, self._size_in_mib(disk) * clearing.MIB)
        return uploads.Upload(
            vios=self.groups.vios,
            name=storage.base_name(disk.name),
            kind=uploads.DISK,
            size=size,
            disk=disk.udid,
        )

    def _size_in_mib(self, disk: pvm_storage.VDisk) -> int:
        return clearing.size_in_mib(disk.capacity, self.groups.unit_gb)

    def _clear(
        self, lpar_uuid: str, disk: pvm_storage.VDisk, start: int
    ) -> None:
        """Clear a new disk from a byte on, by its device.

        No LPAR has the disk yet. It is lent to the management partition
        meanwhile, and taken back after a kill as after a reading.
        """
        with self.reader.alone(lpar_uuid) as reading:
            self._write_zeros(reading, lpar_uuid, disk, start)

    def _write_zeros(
        self,
        reading: disk_reading.Reading,
        lpar_uuid: str,
        disk: pvm_storage.VDisk,
        start: int,
    ) -> None:
        if start < self._size_in_mib(disk) * clearing.MIB:
            lent = self.reader.lent(
                lpar_uuid, self.servers, disk, disk.capacity, write=True
            )
            with lent as opened:
                clearing.write_zeros(opened, start, reading.check)

    @rest_errors.retried
    def make_blank(self, lpar_uuid: str, disk: storage.Disk) -> storage.Stored:
        name = storage.disk_name(lpar_uuid, disk.role)
        made = self._make(
            name, disk, image.RAW, lambda: self._remove_disk(lpar_uuid, name)
        )
        way = self._way
        with self._discarded(name):
            if way is clearing.Way.DEVICE:
                self._clear(lpar_uuid, made, 0)
            elif way is clearing.Way.UPLOAD:
                upload = self._describe_upload(made, 0, way)
                blank = dataclasses.replace(upload, is_blank=True)
                self.uploads.send(blank, clearing.zeros(blank.size))
        return storage.Stored(name, made)

    def attach(self, lpar_uuid: str, stored: Sequence[storage.Stored]) -> None:
        elements = [item.handle for item in stored]
        self.mappings.attach(self.groups.vios, lpar_uuid, elements)

    def settle(self, lpar_uuid: str) -> None:
        with self.reader.alone(lpar_uuid) as reading:
            if self._root_connection(lpar_uuid).slots:
                self._drop_notes(lpar_uuid)
            else:
                self._finish_growth(reading, lpar_uuid)
        self._renew_swap(lpar_uuid)

    def disks_of(self, lpar_uuid: str) -> list[pvm_storage.VDisk]:
        return [
            disk
            for disk in self.groups.read().virtual_disks
            if storage.belongs_to(disk.name, lpar_uuid)
        ]

    @rest_errors.retried
    def delete_rescue(self, lpar_uuid: str) -> None:
        for media_only in (True, False):
            edit = volume_groups.rescue_removal(
                lpar_uuid, media_only=media_only
            )
            self.groups.change_all(edit)

    @rest_errors.retried
    def check_growth(self, lpar_uuid: str, size_gb: float) -> None:
        group = self.groups.read()
        root = volume_groups.find_root(group, lpar_uuid)
        if storage.is_smaller(root.capacity, size_gb):
            self._check_clearing(lpar_uuid, root)
            storage.check_free(
                self.groups,
                group.available_size,
                volume_groups.rounded(group, size_gb) - root.capacity,
                f'enlarging {root.name} from {root.capacity:g} GB to '
                f'{size_gb:g} GB',
            )

    def _check_clearing(self, lpar_uuid: str, root: pvm_storage.VDisk) -> None:
        """Refuse a larger root disk whose end could not be cleared."""
        if self._way_for_end(root) is clearing.Way.DEVICE:
            self.media.check()
            self.media.check_room(lpar_uuid, uploads.NOTE_BYTES, beside=True)
            self._find_readable(lpar_uuid, is_off=True)

    def _way_for_end(self, root: pvm_storage.VDisk) -> clearing.Way:
        """Return how the new end of a root disk is cleared.

        :raises exception.DiskNotCleared: nova-compute can only upload to it.
        """
        way = self._way
        if way is clearing.Way.UPLOAD:
            raise exception.DiskNotCleared(
                what=f'new end of root disk {storage.base_name(root.name)}',
                reason='nova-compute can only upload to it. See '
                '[powervm]disk_clear',
            )
        return way

    def grow_root(self, lpar_uuid: str, size_gb: float) -> bool:
        """Enlarge the virtual disk of an LPAR's root disk if it is smaller.

        Where its end has to be cleared, the disk is disconnected meanwhile,
        and a medium notes where the end begins. After a kill, the disk is
        still disconnected: its end is cleared before it is connected again.

        :raises exception.DiskNotCleared: Its end cannot be cleared.
        """
        root = self._find_root(lpar_uuid)
        if not storage.is_smaller(root.capacity, size_gb):
            return False
        if self._way_for_end(root) is clearing.Way.NONE:
            self._enlarge_root(lpar_uuid, size_gb)
            return True
        with self.reader.alone(lpar_uuid) as reading:
            if not self._is_off(lpar_uuid):
                raise exception.GrowthPutOff(name=storage.base_name(root.name))
            self._return_root(reading, lpar_uuid)
            self._find_readable(lpar_uuid, is_off=True)
            note = storage.growth_name(lpar_uuid, self._size_in_mib(root))
            with self._returned(reading, lpar_uuid, root):
                self.media.make_note(note)
                self._enlarge_root(lpar_uuid, size_gb)
        return True

    def _find_root(self, lpar_uuid: str) -> pvm_storage.VDisk:
        return volume_groups.find_root(self.groups.read(), lpar_uuid)

    def _enlarge_root(self, lpar_uuid: str, size_gb: float) -> None:
        group = self.groups.change(volume_groups.growth(lpar_uuid, size_gb))
        root = volume_groups.find_root(group, lpar_uuid)
        self._made(group, storage.base_name(root.name), size_gb)

    def _finish_growth(
        self, reading: disk_reading.Reading, lpar_uuid: str
    ) -> None:
        """Clear the end of a root disk that was being enlarged, if it was.

        :raises exception.DiskNotCleared: It cannot be cleared any more.
        """
        notes = self.media.find_notes(lpar_uuid)
        if not notes:
            return
        root = self._find_root(lpar_uuid)
        if self._way_for_end(root) is clearing.Way.DEVICE:
            start = min(notes.values())
            self._write_zeros(reading, lpar_uuid, root, start * clearing.MIB)
        self._remove_notes(notes)

    def _drop_notes(self, lpar_uuid: str) -> None:
        """Forget that a root disk was being enlarged, as its LPAR has it.

        The driver has not connected it, so the guest may have written to its
        end.
        """
        notes = self.media.find_notes(lpar_uuid)
        if notes:
            LOG.warning(
                'The root disk of LPAR %s was connected to it after an '
                'interrupted growth, but not by nova-compute. Its end is not '
                'cleared any more.',
                lpar_uuid,
            )
            self._remove_notes(notes)

    def _remove_notes(self, notes: Collection[str]) -> None:
        self.groups.change_all(volume_groups.removal_of(notes))

    def _renew_swap(self, lpar_uuid: str) -> None:
        """Make a swap disk anew that is not connected to its LPAR.

        It may not have been cleared, and holds nothing worth keeping.
        """
        name = storage.disk_name(lpar_uuid, storage.SWAP)
        disk = volume_groups.find(self.groups.read(), name)
        if disk is not None and name not in self.attached(lpar_uuid):
            self._remove_disk(lpar_uuid, name)
            swap = storage.Disk(storage.SWAP, disk.capacity)
            self.make_blank(lpar_uuid, swap)

    @rest_errors.retried
    def swap_fits(self, lpar_uuid: str, swap: storage.Disk | None) -> bool:
        name = storage.disk_name(lpar_uuid, storage.SWAP)
        group = self.groups.read()
        disk = volume_groups.find(group, name)
        if swap is None or disk is None:
            return swap is disk
        size_gb = volume_groups.rounded(group, swap.size_gb)
        return self._fits(lpar_uuid, disk, size_gb)

    def _fits(
        self, lpar_uuid: str, disk: pvm_storage.VDisk, size_gb: float
    ) -> bool:
        """Return whether a swap disk is connected, and of the right size.

        A disk that is not connected may not have been cleared.
        """
        return storage.is_same_size(disk.capacity, size_gb) and (
            storage.base_name(disk.name) in self.attached(lpar_uuid)
        )

    @rest_errors.retried
    def fit_swap(self, lpar_uuid: str, swap: storage.Disk | None) -> None:
        name = storage.disk_name(lpar_uuid, storage.SWAP)
        group = self.groups.read()
        disk = volume_groups.find(group, name)
        size_gb = volume_groups.rounded(group, swap.size_gb) if swap else 0
        if disk and not self._fits(lpar_uuid, disk, size_gb):
            LOG.info('Deleting %s of %g GB.', name, disk.capacity)
            self._remove_disk(lpar_uuid, name)
            disk = None
        if swap and disk:
            self.attach(lpar_uuid, [storage.Stored(name, disk)])
        elif swap:
            self.attach(lpar_uuid, [self.make_blank(lpar_uuid, swap)])

    @rest_errors.retried
    def check_read(self, lpar_uuid: str, *, is_off: bool) -> float:
        """Refuse to read a root disk where that is impossible.

        A virtual disk has one client. So unless the management partition
        itself has the volume group, the disk is taken from its LPAR, which has
        to be off.
        """
        return float(self._find_readable(lpar_uuid, is_off=is_off)[0].capacity)

    def _find_readable(
        self, lpar_uuid: str, *, is_off: bool
    ) -> tuple[pvm_storage.VDisk, scsi_mappings.Connection]:
        """Find a root disk that can be read; see :meth:`check_read`."""
        self.management.check(lpar_uuid)
        root = self._find_root(lpar_uuid)
        name = storage.base_name(root.name)
        vios = self.groups.vios
        connection = self.mappings.connection(vios, lpar_uuid, name)
        if self._is_local:
            problem = _problem_with_path(connection)
        else:
            problem = self._problem_with_lending(
                connection, name, is_off=is_off
            )
        if problem:
            raise exception.DiskUnreadable(
                what=f'root disk of LPAR {lpar_uuid}', reason=problem
            )
        return root, connection

    @property
    def _is_local(self) -> bool:
        """Whether the management partition has the volume group itself."""
        return self.groups.vios.upper() == self.management.uuid.upper()

    def _problem_with_lending(
        self, connection: scsi_mappings.Connection, name: str, *, is_off: bool
    ) -> str | None:
        """Tell why a disk cannot be lent to the management partition.

        The LPAR must get it back at the same slot, even if nova-compute is
        killed meanwhile. After a killed reading, no LPAR has the disk; it is
        connected again before this.
        """
        server = connection.server_name
        if self.management.is_server:
            return exception.PrivateText(
                'the management partition is a Virtual I/O Server, to which '
                f'{server} can map nothing',
                'the management partition is a Virtual I/O Server, to which '
                'others can map nothing',
            )
        if not is_off:
            return exception.PrivateText(
                f'Virtual I/O Server {server} has it, which can map it to one '
                'partition only. Stop the server first',
                'its Virtual I/O Server can map it to one partition only. '
                'Stop the server first',
            )
        if not connection.is_running:
            return exception.PrivateText(
                f'Virtual I/O Server {server} is not running',
                'its Virtual I/O Server is not running',
            )
        slot = storage.virtual_slot(name, 0)
        if not connection.slots <= {slot} or connection.has_others:
            return (
                f'it is not connected alone at virtual slot {slot}, where the '
                'driver could connect it again. Reboot the server hard, or '
                'see `pvmctl scsi list`'
            )
        return None

    @contextlib.contextmanager
    def read_root(self, lpar_uuid: str) -> Iterator[drivers.DiskBytes]:
        with self.reader.alone(lpar_uuid) as reading:
            self.management.check(lpar_uuid)
            is_off = self._is_off(lpar_uuid)
            if is_off:
                self._return_root(reading, lpar_uuid)
            root, connection = self._find_readable(lpar_uuid, is_off=is_off)
            opened = (
                self.management.opened_local(connection.path, root.capacity)
                if self._is_local
                else self._lent(reading, lpar_uuid, root)
            )
            with opened as disk:
                yield reading.of(disk)

    @contextlib.contextmanager
    def _lent(
        self,
        reading: disk_reading.Reading,
        lpar_uuid: str,
        root: pvm_storage.VDisk,
    ) -> Iterator[management_partition.OpenDisk]:
        """Take a disk from its LPAR while it is read."""
        size_gb = root.capacity
        with (
            self._returned(reading, lpar_uuid, root),
            self.reader.lent(lpar_uuid, self.servers, root, size_gb) as disk,
        ):
            yield disk

    @contextlib.contextmanager
    def _returned(
        self,
        reading: disk_reading.Reading,
        lpar_uuid: str,
        root: pvm_storage.VDisk,
    ) -> Iterator[None]:
        """Take a disk from its LPAR, and connect it again at the end."""
        name = storage.base_name(root.name)
        with disk_reading.undone(
            f'The root disk {name} stays disconnected from LPAR {lpar_uuid} '
            'until Nova starts it',
            lambda: self._return_root(reading, lpar_uuid),
        ):
            self._drop_notes(lpar_uuid)
            self.mappings.detach(lpar_uuid, name)
            yield

    @rest_errors.retried
    def _is_off(self, lpar_uuid: str) -> bool:
        with rest_errors.translated(f'reading the state of LPAR {lpar_uuid}'):
            lpar = logical_partition.LPAR.get(self.adapter, uuid=lpar_uuid)
        return bool(lpar.state == bp.LPARState.NOT_ACTIVATED)

    def end_read(self, lpar_uuid: str) -> bool:
        with self.reader.alone(lpar_uuid) as reading:
            was_away = self._return_root(reading, lpar_uuid)
        if was_away:
            LOG.warning(
                'The root disk of LPAR %s was not connected to it, and is '
                'connected again.',
                lpar_uuid,
            )
        return was_away

    def _return_root(
        self, reading: disk_reading.Reading, lpar_uuid: str
    ) -> bool:
        """Connect the root disk to its LPAR, unless it is connected.

        :returns: Whether it was not connected.
        :raises exception.RestBusy: The Virtual I/O Server does not run.
        :raises exception.DiskNotCleared: See :meth:`_finish_growth`.
        """
        connection = self._root_connection(lpar_uuid)
        if connection.slots:
            return False
        if not connection.is_running:
            raise exception.RestBusy(
                action=f'connecting the root disk of LPAR {lpar_uuid}',
                reason=f'Virtual I/O Server {connection.server_name} is not '
                'running',
            )
        self.mappings.take_back(lpar_uuid)
        self._finish_growth(reading, lpar_uuid)
        root = self._find_root(lpar_uuid)
        self.mappings.attach(self.groups.vios, lpar_uuid, [root])
        return True

    def _root_connection(self, lpar_uuid: str) -> scsi_mappings.Connection:
        names = [storage.disk_name(lpar_uuid, role) for role in storage.ROOTS]
        return self.mappings.connection(self.groups.vios, lpar_uuid, *names)

    def remove(self, lpar_uuid: str, *, delete: bool = True) -> None:
        """Unmap and delete all storage of an LPAR.

        This includes storage on another Virtual I/O Server, from before
        ``volume_group_name`` was changed.
        """
        self.reader.cancel(lpar_uuid)
        servers = self.mappings.detach(lpar_uuid) | {self.groups.vios}
        if delete:
            self.remove_where(
                lambda name: storage.belongs_to(name, lpar_uuid),
                sorted(servers),
            )

    def _remove_disk(self, lpar_uuid: str, name: str) -> None:
        """Unmap a disk of an LPAR, and delete it."""
        self.mappings.detach(lpar_uuid, name)
        self.groups.change_all(volume_groups.removal_of([name]))

    def _make(
        self,
        name: str,
        disk: storage.Disk,
        disk_format: str,
        clear: Callable[[], None],
    ) -> pvm_storage.VDisk:
        """Create a virtual disk.

        :param clear: Removes a disk of this name, which an interrupted build
            left.
        """

        def build() -> pvm_storage.VDisk:
            return pvm_storage.VDisk.bld(
                self.adapter, name, disk.size_gb, file_format=disk_format
            )

        try:
            group = self.groups.change(volume_groups.addition(name, build))
        except volume_groups.LeftoverError:
            LOG.warning(
                '%s was left by an interrupted build; recreating it.', name
            )
            clear()
            group = self.groups.change(volume_groups.addition(name, build))
        return self._made(group, name, disk.size_gb)

    def _made(
        self, group: pvm_storage.VG, name: str, size_gb: float
    ) -> pvm_storage.VDisk:
        """Find a new disk, and verify that it is not too small.

        The VIOS rounds sizes up to the group's unit.
        """
        disk = volume_groups.find(group, name)
        if disk is None or storage.is_smaller(disk.capacity, size_gb):
            actual = 'no disk' if disk is None else f'{disk.capacity} GB'
            raise exception.RestError(
                action=f'making the virtual disk {name}',
                reason=f'{self.groups} has {actual} of this name instead of '
                f'{size_gb:g} GB',
            )
        return disk


def _problem_with_path(connection: scsi_mappings.Connection) -> str | None:
    """Tell why a disk that the management partition owns cannot be opened."""
    if connection.path:
        return None
    return (
        'the host reports no path of it on the management partition. Check '
        'with `pvmctl scsi list` whether it is connected to the LPAR'
    )
