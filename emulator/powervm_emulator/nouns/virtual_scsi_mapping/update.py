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

"""Changing a Virtual I/O Server's mappings to what a client has posted."""

import itertools
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import habits
from powervm_emulator.core import host as host_module
from powervm_emulator.core import reshaping
from powervm_emulator.nouns.fibre_channel import disks
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import rules
from powervm_emulator.nouns.partition import virtual_slots
from powervm_emulator.nouns.shared_storage_pool import cluster
from powervm_emulator.nouns.shared_storage_pool import model as storage_pool
from powervm_emulator.nouns.virtual_scsi_mapping import adapters
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.volume_group import model as volume_group
from powervm_emulator.nouns.volume_group import physical_volume

Element = content.Element
Mapping = scsi_mapping.Mapping
Partition = partition_module.Partition
Host = host_module.Host


# By kind of storage: the element, and how names and UDIDs begin.
_KINDS = {
    scsi_mapping.DISK: (
        'LogicalVolumeVirtualTargetDevice',
        'vtscsi',
        '09',
    ),
    scsi_mapping.MEDIA: (scsi_mapping.DRIVE, 'vtopt', '19'),
    scsi_mapping.VOLUME: (
        'PhysicalVolumeVirtualTargetDevice',
        'vtscsi',
        '08',
    ),
    scsi_mapping.UNIT: (
        'SharedStoragePoolLogicalUnitVirtualTargetDevice',
        'vtscsi',
        '0a',
    ),
}
_RUNNING = partition_module.RUNNING
_FIRST_LUA = 0x81
_LAST_LUA = 0xFF


# Kind, UDID and name of storage; either of the two is empty.
_Identity = tuple[str | None, str, str]


class _Plan:
    """The mappings of a VIOS as they are to be.

    Whatever new mappings have to look up is in dictionaries: a client can
    post many of them at once.

    :ivar section: VirtualSCSIMappings.
    :ivar changed: whether they differ from those that are there.
    """

    def __init__(self, host: Host, vios: Partition) -> None:
        self._host = host
        self._vios = vios
        self._present = scsi_mapping.of(vios)
        self._planned: list[Mapping] = []
        old = content.find(vios.element, scsi_mapping.SECTION)
        self.section = content.new(scsi_mapping.SECTION)
        if old is not None:
            for name, value in old.attrib.items():
                self.section.set(name, value)
        self.changed = False
        # Those that are not posted as they are, by slot and target device.
        self._left: dict[tuple[int | None, str], list[Mapping]] = {}
        # By server slot and client.
        self._pairs: dict[tuple[int | None, str], Mapping] = {}
        for mapping in self._present:
            key = mapping.server_slot, mapping.target_udid
            self._left.setdefault(key, []).append(mapping)
            self._pairs.setdefault(_pair_key(mapping), mapping)
        self._mapped: dict[_Identity, list[Mapping]] = {}
        # Names of adapters and target devices, and where to look for the next.
        self._names: set[str] = set()
        self._numbers: dict[str, Iterator[int]] = {}
        # Logical unit addresses by server slot.
        self._addresses: dict[int | None, set[str]] = {}
        # Virtual slots by partition.
        self._slots: dict[str, set[int]] = {}

    def settle(self, posted: list[Mapping]) -> None:
        """Sort posted mappings into those that are there and new ones."""
        new = []
        for mapping in posted:
            same = self._find_present(mapping)
            if same is None:
                new.append(mapping)
            else:
                self._plan(Mapping(content.copy(same.element)))
        # Those on a pair that is there come first: its slots are not free,
        # even if it has lost all that was on it.
        storages = self._storages() if new else {}
        for mapping in sorted(new, key=lambda one: one.server_slot is None):
            self._add(mapping, storages)
        self.changed = bool(new or any(self._left.values()))
        self._drop_bare()

    def _storages(self) -> dict[_Identity, Element]:
        """Return what the server can map, by its identities."""
        host, vios = self._host, self._vios
        found: dict[_Identity, Element] = {}
        # A disk that is a file is in no volume group.
        storages = [
            mapping.storage
            for mapping in self._present
            if mapping.storage is not None and _is_file(mapping.storage)
        ]
        storages += physical_volume.of(vios.element)
        for group in volume_group.of(host, vios):
            storages += [disk.element for disk in group.disks]
            if group.repository is not None:
                media = group.repository.media
                storages += [medium.element for medium in media]
        for storage in storages:
            for identity in _identities(storage):
                found.setdefault(identity, storage)
        pool = storage_pool.of_server(host, vios)
        for unit in pool.units.values() if pool else ():
            found[_identity(unit.kind, unit.udid, '')] = unit.element
        return found

    def _find_present(self, posted: Mapping) -> Mapping | None:
        """Return the mapping that a client has posted as it got it, if any."""
        among = self._left.get((posted.server_slot, posted.target_udid), [])
        for mapping in among:
            storage = mapping.storage
            if (storage is None and posted.storage is None) or (
                storage is not None and posted.is_on(storage)
            ):
                among.remove(mapping)
                return mapping
        return None

    def _plan(self, mapping: Mapping) -> None:
        """Note a mapping that is to be, and all that it takes."""
        self.section.append(mapping.element)
        self._planned.append(mapping)
        self._pairs.setdefault(_pair_key(mapping), mapping)
        if mapping.storage is not None:
            identity = _identity(mapping.kind, mapping.udid, mapping.name)
            self._mapped.setdefault(identity, []).append(mapping)
        self._names |= {mapping.adapter_name, mapping.target_name}
        addresses = self._addresses.setdefault(mapping.server_slot, set())
        addresses.add(mapping.lua.lower())
        client = scsi_mapping.client_of(self._host, mapping)
        for partition in (self._vios, client):
            if partition is not None and partition.uuid in self._slots:
                taken = self._slots_of([mapping], partition)
                self._slots[partition.uuid] |= taken

    def _slots_of(
        self, mappings: list[Mapping], partition: Partition
    ) -> set[int]:
        return {
            slot
            for mapping in mappings
            for slot in scsi_mapping.slots_of(
                mapping.element, self._vios, partition
            )
        }

    def _add(
        self, posted: Mapping, storages: dict[_Identity, Element]
    ) -> None:
        client = self._client(posted)
        storage = self._storage(posted, client, storages)
        client_adapter, server_adapter = self._adapters(posted, client)
        mapping = Mapping(
            content.new(
                scsi_mapping.MAPPING,
                content.link(client.event_path, scsi_mapping.LPAR_LINK),
                client_adapter,
                server_adapter,
            )
        )
        if storage is not None:
            backing = scsi_mapping.backing(storage, posted.tag)
            mapping.element.append(_holder('Storage', backing))
        name = self._backing_name(mapping, storage)
        adapters.set_backing(server_adapter, name)
        if storage is not None or posted.is_drive:
            target = self._target(posted, mapping)
            mapping.element.append(_holder('TargetDevice', target))
        self._plan(mapping)

    def _backing_name(self, mapping: Mapping, storage: Element | None) -> str:
        """Return what the server itself calls storage that it maps.

        On a management partition a logical volume is a path.
        """
        link = (
            None
            if storage is None
            else content.find(storage, volume_group.KIND)
        )
        if link is None or not self._vios.boolean(partition_module.MANAGEMENT):
            return mapping.name
        uuid = str(link.get('href')).rpartition('/')[2]
        group = self._host.get(volume_group.KIND, uuid)
        return f'/dev/{group.text("GroupName")}/{mapping.name}'

    def _client(self, posted: Mapping) -> Partition:
        client = scsi_mapping.client_of(self._host, posted)
        if client is None or client.system is not self._vios.system:
            raise errors.Refused(
                'A mapping is for the LogicalPartition '
                f'{posted.client_uuid!r}, which is not there.'
            )
        return client

    def _storage(
        self,
        posted: Mapping,
        client: Partition,
        storages: dict[_Identity, Element],
    ) -> Element | None:
        """Return the disk or medium that a new mapping is of, if any."""
        if posted.storage is None:
            return None
        if posted.kind not in _KINDS:
            raise errors.Refused(
                f'This server makes no mappings of a {posted.kind}.'
            )
        identity = _identity(posted.kind, posted.udid, posted.name)
        found = storages.get(identity)
        if found is None:
            raise errors.Refused(
                f'{self._vios.name} has no {posted.kind} '
                f'{posted.udid or posted.name!r} to map.'
            )
        if posted.kind == scsi_mapping.UNIT:
            cluster.check_up(self._vios)
        if posted.kind == scsi_mapping.VOLUME:
            self._check_free(found)
            disks.check_reached(self._host, self._vios, found)
        if not _is_file(found):
            for identity in _identities(found):
                for other in self._mapped.get(identity, ()):
                    self._check_shared(other, client)
        return found

    def _check_free(self, volume: Element) -> None:
        """Refuse a disk that something else than mappings has."""
        mapped = any(other.is_on(volume) for other in self._present)
        if not mapped and not physical_volume.is_free(volume):
            name = content.text(volume, 'VolumeName')
            raise errors.Refused(
                f'{name} of {self._vios.name} is in a volume group or a pool.'
            )

    def show_volumes(self, body: Element) -> None:
        """Say in a server's content which of its disks are mapped."""
        names = [
            {one.name for one in of if one.kind == scsi_mapping.VOLUME}
            for of in (self._present, self._planned)
        ]
        if names[0] != names[1] and self._vios.state != _RUNNING:
            raise errors.Refused(
                f'{self._vios.name} can neither map physical volumes nor '
                f'release them: its state is {self._vios.state}.'
            )
        physical_volume.mark(body, names[0] - names[1], free=True)
        physical_volume.mark(body, names[1] - names[0], free=False)

    def _check_shared(self, other: Mapping, client: Partition) -> None:
        """Refuse a second client of storage.

        The management partition is none: it reads the disks of others to make
        images of them.
        """
        holder = scsi_mapping.client_of(self._host, other)
        managing = [
            one.boolean(partition_module.MANAGEMENT)
            for one in (client, holder)
            if one is not None
        ]
        if holder is not client and not any(managing):
            name = other.client_uuid or 'a partition that is gone'
            raise errors.Refused(
                f'{other.name!r} is mapped to {name} already, by '
                f'{other.adapter_name} of {self._vios.name}.'
            )

    def _adapters(
        self, posted: Mapping, client: Partition
    ) -> tuple[Element, Element]:
        """Return the adapters of a new mapping: a pair that is there, or new.

        :raises errors.RestError: a new pair cannot be made.
        """
        other = self._pairs.get((posted.server_slot, client.uuid.upper()))
        if (
            other is not None
            and posted.server_slot is not None
            and posted.client_slot in (None, other.client_slot)
        ):
            return (
                _copy_of(other, scsi_mapping.CLIENT),
                _copy_of(other, scsi_mapping.SERVER),
            )
        rules.check_dynamic(client, 'virtual adapters')
        server_end = self._end(self._vios, posted, scsi_mapping.SERVER)
        client_end = self._end(client, posted, scsi_mapping.CLIENT)
        return adapters.pair(client_end, server_end, self._next_name('vhost'))

    def _end(
        self, partition: Partition, posted: Mapping, name: str
    ) -> adapters.End:
        """Return where a new adapter of a partition is."""
        if partition.uuid not in self._slots:
            # Those of mappings that are removed are free.
            taken = virtual_slots.taken(self._host, partition)
            taken -= self._slots_of(self._present, partition)
            taken |= self._slots_of(self._planned, partition)
            self._slots[partition.uuid] = taken
        wanted = content.section(posted.element, name)
        used = self._slots[partition.uuid]
        return adapters.End(
            partition, virtual_slots.pick(partition, wanted, used)
        )

    def _target(self, posted: Mapping, mapping: Mapping) -> Element:
        """Return the target device of a new mapping.

        A drive keeps its own, whatever becomes of the medium in it.
        """
        kind = mapping.kind or scsi_mapping.MEDIA
        former = self._left.get((mapping.server_slot, posted.target_udid), [])
        for drive in former:
            if kind == scsi_mapping.MEDIA and drive.is_drive:
                former.remove(drive)
                return _copy_of(drive, 'TargetDevice')[-1]
        element_name, prefix, digits = _KINDS[kind]
        udid = f'{digits}{self._host.random.getrandbits(64):016x}'
        return content.new(
            element_name,
            content.leaf('LogicalUnitAddress', self._lua(posted, mapping)),
            content.leaf('TargetName', self._target_name(posted, prefix)),
            content.leaf('UniqueDeviceID', udid),
        )

    def _lua(self, posted: Mapping, mapping: Mapping) -> str:
        used = self._addresses.get(mapping.server_slot, set())
        if posted.lua.lower() in used and posted.lua:
            raise errors.Refused(
                f'The logical unit address {posted.lua} is taken on '
                f'{mapping.adapter_name}.'
            )
        if posted.lua:
            return posted.lua
        for number in range(_FIRST_LUA, _LAST_LUA + 1):
            address = f'0x{number:02x}00000000000000'
            if address not in used:
                return address
        raise errors.Refused(
            f'{mapping.adapter_name} has no free logical unit address.'
        )

    def _target_name(self, posted: Mapping, prefix: str) -> str:
        wanted = posted.target_name
        if wanted and wanted in self._names:
            raise errors.Refused(f'The target name {wanted!r} is taken.')
        return wanted or self._next_name(prefix)

    def _next_name(self, prefix: str) -> str:
        """Return the first of vhost0, vhost1... that is not used."""
        for number in self._numbers.setdefault(prefix, itertools.count()):
            name = f'{prefix}{number}'
            if name not in self._names:
                return name
        raise AssertionError('there are always more numbers')

    def _drop_bare(self) -> None:
        """Drop mappings of nothing on adapters that have something."""
        loaded = {
            mapping.server_slot
            for mapping in self._planned
            if not mapping.is_bare
        }
        for mapping in self._planned:
            if mapping.is_bare and mapping.server_slot in loaded:
                self.section.remove(mapping.element)


def settle(host: Host, vios: Partition, body: Element) -> bool:
    """Make of posted mappings what the server has then, or refuse.

    Mappings that are there stay as the server has them, whatever the client
    has posted of them; those that are not in the list are removed.

    :param body: the VIOS's content as posted; gets the mappings.
    :returns: whether mappings were added, removed or changed.
    :raises errors.RestError: nothing changed.
    """
    section = content.find(body, scsi_mapping.SECTION)
    if section is None:
        return False
    if habits.hides('mappings') and reshaping.is_silent(vios.element):
        # The client cannot know them, and would remove all.
        raise errors.Refused(
            f'{vios.name} cannot change its mappings: its state is '
            f'{vios.state}, and its RMC state {vios.rmc_state}.'
        )
    posted = content.find_all(section, scsi_mapping.MAPPING)
    plan = _Plan(host, vios)
    plan.settle([Mapping(node) for node in posted])
    plan.show_volumes(body)
    content.replace(body, plan.section)
    return plan.changed


def _pair_key(mapping: Mapping) -> tuple[int | None, str]:
    return mapping.server_slot, mapping.client_uuid


def _identity(kind: str | None, udid: str, name: str) -> _Identity:
    """Return what identifies storage: the UDID, or the name without one."""
    if kind == scsi_mapping.UNIT:
        # Many can have one name.
        return (kind, storage_pool.key_of(udid), '')
    return (kind, udid, '' if udid else name)


def _identities(storage: Element) -> list[_Identity]:
    """Return all that mappings can identify storage by."""
    kind = content.local_name(storage)
    if kind == scsi_mapping.UNIT:
        return [_identity(kind, content.text(storage, 'UniqueDeviceID'), '')]
    name, udid = scsi_mapping.IDENTITY[kind]
    return [
        _identity(kind, content.text(storage, udid), ''),
        _identity(kind, '', content.text(storage, name)),
    ]


def _is_file(storage: Element) -> bool:
    """Whether storage is a file, which several clients can have."""
    return content.text(storage, 'VirtualDiskType') == 'File'


def _copy_of(mapping: Mapping, name: str) -> Element:
    return content.section(content.copy(mapping.element), name)


def _holder(name: str, child: Element) -> Element:
    holder = content.leaf(name)
    holder.append(child)
    return holder
