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

"""Virtual SCSI mappings, which a Virtual I/O Server's content lists."""

import dataclasses
import re
from collections.abc import Collection
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import contents
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import fields
from powervm_emulator.core import habits
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import rmc
from powervm_emulator.nouns.partition import virtual_slots

Host = host_module.Host
SLOT = virtual_slots.NUMBER
Element = content.Element
Partition = partition_module.Partition


SECTION = 'VirtualSCSIMappings'
MAPPING = 'VirtualSCSIMapping'
FIBRE_CHANNEL = 'VirtualFibreChannelMappings'
CLIENT = 'ClientAdapter'
SERVER = 'ServerAdapter'
LPAR_LINK = 'AssociatedLogicalPartition'
# MODIFY_URI of a VIOS says this of its mappings.
DETAIL = 'VirtualSCSIMappings'
DISK = 'VirtualDisk'
MEDIA = 'VirtualOpticalMedia'
DRIVE = 'VirtualOpticalTargetDevice'
UNIT = 'LogicalUnit'
VOLUME = 'PhysicalVolume'
# Elements that name and identify each kind of storage.
IDENTITY = {
    DISK: ('DiskName', 'UniqueDeviceID'),
    MEDIA: ('MediaName', 'MediaUDID'),
    VOLUME: ('VolumeName', 'UniqueDeviceID'),
    UNIT: ('UnitName', 'UniqueDeviceID'),
}
# Of any kind.
_TARGET = 'TargetDevice/*'
_IDS = ('AtomID', 'AtomCreated')
_CLIENT_UUID = re.compile('/LogicalPartition/([^/?]+)')


@dataclasses.dataclass(frozen=True)
class Mapping:
    """One VirtualSCSIMapping: an adapter pair and the storage on it.

    :ivar element: as it is in the VIOS's content, or as a client sent it.
    """

    element: Element

    @property
    def client_uuid(self) -> str:
        """The client's uuid in upper case; empty for an orphan."""
        link = content.find(self.element, LPAR_LINK)
        href = '' if link is None else str(link.get('href', ''))
        found = _CLIENT_UUID.search(href)
        return found[1].upper() if found else ''

    @property
    def client_slot(self) -> int | None:
        """The slot of the client adapter; None for an orphan."""
        return _slot(self.element, CLIENT)

    @property
    def server_slot(self) -> int | None:
        """The slot of the server adapter; None before there is one."""
        return _slot(self.element, SERVER)

    @property
    def storage(self) -> Element | None:
        """The element of the disk or medium; None for a bare adapter."""
        return _only_child(self.element, 'Storage')

    @property
    def target(self) -> Element | None:
        """The element of the target device, None if there is none."""
        return _only_child(self.element, 'TargetDevice')

    @property
    def is_bare(self) -> bool:
        """Whether there is neither storage nor an optical drive on it."""
        return self.storage is None and not self.is_drive

    @property
    def is_drive(self) -> bool:
        """Whether it is an optical drive, with a medium or without."""
        target = self.target
        return target is not None and content.local_name(target) == DRIVE

    @property
    def kind(self) -> str | None:
        """The kind of the storage, such as ``VirtualDisk``."""
        storage = self.storage
        return None if storage is None else content.local_name(storage)

    @property
    def name(self) -> str:
        """The name of the storage; empty without."""
        return self._identity(0)

    @property
    def udid(self) -> str:
        """The UDID of the storage; empty without."""
        return self._identity(1)

    #: AdapterName of the server adapter, such as ``vhost0``.
    adapter_name = fields.text(f'{SERVER}/AdapterName')

    #: What the server maps, by its own name; a path on a management partition.
    backing_name = fields.text(f'{SERVER}/BackingDeviceName')

    #: Empty without a target device, as the next two.
    lua = fields.text(f'{_TARGET}/LogicalUnitAddress')
    #: Such as ``vtscsi0``.
    target_name = fields.text(f'{_TARGET}/TargetName')
    target_udid = fields.text(f'{_TARGET}/UniqueDeviceID')

    @property
    def tag(self) -> str:
        """What a client has called the storage; empty without."""
        storage = self.storage
        return '' if storage is None else content.text(storage, 'Tag')

    def is_on(self, storage: Element) -> bool:
        """Whether the storage is this one, which has a name and a UDID."""
        if self.kind != content.local_name(storage):
            return False
        name, udid = IDENTITY.get(self.kind, ('', ''))
        if self.udid:
            return self.udid == content.text(storage, udid)
        return self.name == content.text(storage, name)

    def _identity(self, which: int) -> str:
        storage = self.storage
        names = IDENTITY.get(self.kind or '')
        if storage is None or names is None:
            return ''
        return content.text(storage, names[which])


def of(vios: Partition) -> list[Mapping]:
    """Return the mappings of a Virtual I/O Server."""
    path = f'{SECTION}/{MAPPING}'
    return [Mapping(node) for node in content.find_all(vios.element, path)]


def using(vios: Partition, udid: str) -> list[Mapping]:
    """Return the mappings of one disk or medium."""
    return [mapping for mapping in of(vios) if mapping.udid == udid]


def servers(partition: Partition, host: Host) -> Iterator[Partition]:
    """Yield the Virtual I/O Servers of a partition's system."""
    for other in host.of_type(Partition, partition.system):
        if other.kind == partition_module.VIOS:
            yield other


@virtual_slots.register
def taken_slots(host: Host, partition: Partition) -> Iterator[int]:
    """Yield the slots of a partition's adapters in mappings of any kind."""
    for vios in servers(partition, host):
        for section in (SECTION, FIBRE_CHANNEL):
            path = f'{section}/*'
            for mapping in content.find_all(vios.element, path):
                yield from slots_of(mapping, vios, partition)


@rmc.register_media
def _in_drives(host: Host, partition: Partition) -> Iterator[contents.Content]:
    """Yield what is in the optical drives of a partition."""
    for vios in servers(partition, host):
        for mapping in of(vios):
            found = host.contents.find(vios.uuid, mapping.udid)
            if (
                found is not None
                and mapping.is_drive
                and mapping.client_uuid == partition.uuid.upper()
            ):
                yield found


def slots_of(
    mapping: Element, vios: Partition, partition: Partition
) -> Iterator[int]:
    """Yield the slots of a partition that a mapping of a VIOS takes."""
    if partition is vios:
        yield content.integer(mapping, f'{SERVER}/{SLOT}')
    owner = content.integer(mapping, f'{CLIENT}/LocalPartitionID')
    if owner == partition.id:
        yield content.integer(mapping, f'{CLIENT}/{SLOT}')


def client_of(host: Host, mapping: Mapping) -> Partition | None:
    """Return the client of a mapping, None if there is none or it is gone."""
    found = host.find(partition_module.LPAR, mapping.client_uuid)
    return found if isinstance(found, Partition) else None


def show(host: Host, vios: Partition, storage: Element) -> None:
    """Write what has become of a disk or medium to the mappings of it."""
    _, name = IDENTITY[content.local_name(storage)]
    found = using(vios, content.text(storage, name))
    for mapping in found:
        section = content.section(mapping.element, 'Storage')
        tag = mapping.tag
        content.remove(section, [content.local_name(storage)])
        section.append(backing(storage, tag))
    if found:
        host.touch(vios, DETAIL)


def backing(storage: Element, tag: str = '') -> Element:
    """Return a disk or medium as mappings show it.

    :param tag: what the client has called it; empty for nothing.

    Disks have no link to their volume group there, logical units do not say
    whether they are in use, and physical volumes are not available.
    """
    copy = content.copy(storage)
    content.remove(copy, ['VolumeGroup', 'InUse'])
    if content.find(copy, 'AvailableForUsage') is not None:
        content.put(copy, 'AvailableForUsage', False)
    if tag:
        content.put(copy, 'Tag', tag)
        elements.sort(copy)
    # The id of a logical unit is not that of the part of a mapping.
    content.remove(content.section(copy, 'Metadata/Atom'), _IDS)
    return copy


def orphan(host: Host, client: Partition) -> None:
    """Leave the mappings of a partition that goes away without a client.

    The server adapter and the storage on it stay, as on hardware: whoever
    deletes a partition has to remove its mappings.
    """
    for vios in servers(client, host):
        orphans = [
            mapping
            for mapping in of(vios)
            if mapping.client_uuid == client.uuid.upper()
        ]
        for mapping in orphans:
            content.remove(mapping.element, (CLIENT, LPAR_LINK))
            adapter = content.section(mapping.element, SERVER)
            content.remove(adapter, ['ServerLocationCode'])
        if orphans:
            host.touch(vios, DETAIL)


def check_clients_are_off(host: Host, vios: Partition) -> None:
    """A server that goes away takes the disks of its clients with it."""
    for mapping in of(vios):
        client = client_of(host, mapping)
        if client is not None and client.is_active:
            raise errors.Refused(
                f'The partition {client.name!r} is active and has '
                f'{mapping.name!r} of {vios.name!r}.'
            )


def _slot(element: Element, adapter: str) -> int | None:
    text = content.text(element, f'{adapter}/{SLOT}')
    return int(text) if content.is_whole(text) else None


def _only_child(element: Element, name: str) -> Element | None:
    section = content.find(element, name)
    if section is None:
        return None
    children = [
        child for child in section if content.local_name(child) != 'Metadata'
    ]
    return children[0] if len(children) == 1 else None


def check_unmapped(vios: Partition, udids: Collection[str]) -> None:
    """Disks and media that are to go have no mappings."""
    if not udids:
        return
    for mapping in of(vios):
        if mapping.udid in udids:
            client = mapping.client_uuid or 'a partition that is gone'
            problem = errors.Refused(
                f'{mapping.name!r} cannot be removed: {mapping.adapter_name} '
                f'of {vios.name} maps it to {client}.'
            )
            habits.refuse('mapped-deletion', problem)


def check_not_running(host: Host, vios: Partition, udid: str) -> None:
    """What a running partition has is not written over."""
    for mapping in using(vios, udid):
        client = client_of(host, mapping)
        if client is not None and client.is_active:
            raise errors.Refused(
                f'{mapping.name!r} is in use by the partition '
                f'{client.name!r}, which is active.'
            )


def summary(host: Host, mapping: Mapping) -> resource.JSON:
    """Summarize a mapping; ``client`` is None for an orphan."""
    client = client_of(host, mapping)
    return {
        'client': client.name if client else None,
        'client_slot': mapping.client_slot,
        'server_slot': mapping.server_slot,
        'adapter': mapping.adapter_name,
        'lua': mapping.lua,
        'kind': mapping.kind,
        'name': mapping.name,
        'udid': mapping.udid,
    }
