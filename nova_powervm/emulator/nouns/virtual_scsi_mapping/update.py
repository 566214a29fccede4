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

import contextlib
from collections.abc import Iterator

from nova_powervm.emulator.core import content
from nova_powervm.emulator.core import errors
from nova_powervm.emulator.core import host as host_module
from nova_powervm.emulator.nouns.partition import model as partition_module
from nova_powervm.emulator.nouns.partition import rules
from nova_powervm.emulator.nouns.virtual_scsi_mapping import (
    model as virtual_scsi_mapping,
)
from nova_powervm.emulator.nouns.volume_group import model as volume_group

Element = content.Element
Mapping = virtual_scsi_mapping.Mapping
Partition = partition_module.Partition
Host = host_module.Host


# By kind of storage: the element, and how names and UDIDs begin.
_KINDS = {
    virtual_scsi_mapping.DISK: (
        'LogicalVolumeVirtualTargetDevice',
        'vtscsi',
        '09',
    ),
    virtual_scsi_mapping.MEDIA: (virtual_scsi_mapping.DRIVE, 'vtopt', '19'),
}
_FIRST_LUA = 0x81
_LAST_LUA = 0xFF


class _Plan:
    """The mappings of a VIOS as they are to be.

    :ivar section: VirtualSCSIMappings.
    :ivar changed: whether they differ from those that are there.
    """

    def __init__(self, host: Host, vios: Partition) -> None:
        self._host = host
        self._vios = vios
        self._present = virtual_scsi_mapping.of(vios)
        # Those that are not posted as they are.
        self._left = list(self._present)
        old = content.find(vios.element, virtual_scsi_mapping.SECTION)
        self.section = content.new(virtual_scsi_mapping.SECTION)
        if old is not None:
            for name, value in old.attrib.items():
                self.section.set(name, value)
        self.changed = False

    def settle(self, posted: list[Mapping]) -> None:
        """Sort posted mappings into those that are there and new ones."""
        new = []
        for mapping in posted:
            same = _find_present(mapping, self._left)
            if same is None:
                new.append(mapping)
            else:
                self._left.remove(same)
                self.section.append(content.copy(same.element))
        # Those on a pair that is there come first: its slots are not free,
        # even if it has lost all that was on it.
        for mapping in sorted(new, key=lambda one: one.server_slot is None):
            self._add(mapping)
        self.changed = bool(new or self._left)
        self._drop_bare()

    @property
    def _planned(self) -> list[Mapping]:
        return virtual_scsi_mapping.of(self._vios)

    def _add(self, posted: Mapping) -> None:
        client = self._client(posted)
        storage = self._storage(posted)
        client_adapter, server_adapter = self._adapters(posted, client)
        link = content.leaf(virtual_scsi_mapping.LPAR_LINK)
        link.set('href', client.event_path)
        link.set('rel', 'related')
        element = content.new(
            virtual_scsi_mapping.MAPPING, link, client_adapter, server_adapter
        )
        name = ''
        if storage is not None:
            element.append(
                _holder('Storage', virtual_scsi_mapping.backing(storage))
            )
            name = Mapping(element).name
        if storage is not None or posted.is_drive:
            target = self._target(posted, Mapping(element))
            element.append(_holder('TargetDevice', target))
        virtual_scsi_mapping.set_backing(server_adapter, name)
        self.section.append(element)

    def _client(self, posted: Mapping) -> Partition:
        client = virtual_scsi_mapping.client_of(self._host, posted)
        if client is None or client.system is not self._vios.system:
            raise errors.Conflict(
                'A mapping is for the LogicalPartition '
                f'{posted.client_uuid!r}, which is not there.'
            )
        return client

    def _storage(self, posted: Mapping) -> Element | None:
        """Return the disk or medium that a new mapping is of, if any."""
        wanted = posted.storage
        if wanted is None:
            return None
        found = _find_storage(self._host, self._vios, posted)
        for other in self._planned:
            if other.is_on(found):
                client = other.client_uuid or 'a partition that is gone'
                raise errors.Conflict(
                    f'{other.name!r} is mapped to {client} already, by '
                    f'{other.adapter_name} of {self._vios.name}.'
                )
        return found

    def _target(self, posted: Mapping, mapping: Mapping) -> Element:
        """Return the target device of a new mapping.

        A drive keeps its own, whatever becomes of the medium in it.
        """
        kind = mapping.kind or virtual_scsi_mapping.MEDIA
        for drive in self._left:
            if (
                kind == virtual_scsi_mapping.MEDIA
                and drive.is_drive
                and drive.target is not None
                and drive.target_udid == posted.target_udid
                and drive.server_slot == mapping.server_slot
            ):
                self._left.remove(drive)
                return content.copy(drive.target)
        return _make_target(
            self._host, kind, posted.target, mapping, self._planned
        )

    def _adapters(
        self, posted: Mapping, client: Partition
    ) -> tuple[Element, Element]:
        """Return the adapters of a new mapping: a pair that is there, or new.

        :raises errors.Conflict: a new pair cannot be made.
        """
        for other in (*self._present, *self._planned):
            if (
                posted.server_slot is not None
                and other.server_slot == posted.server_slot
                and other.client_uuid == client.uuid.upper()
                and posted.client_slot in (None, other.client_slot)
            ):
                return (
                    _copy_of(other, virtual_scsi_mapping.CLIENT),
                    _copy_of(other, virtual_scsi_mapping.SERVER),
                )
        rules.check_dynamic(client, 'virtual adapters')
        return virtual_scsi_mapping.make_adapters(
            self._host, self._vios, client, posted.element
        )

    def _drop_bare(self) -> None:
        """Drop mappings of nothing on adapters that have something."""
        planned = self._planned
        loaded = {
            mapping.server_slot for mapping in planned if not mapping.is_bare
        }
        for mapping in planned:
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
    section = content.find(body, virtual_scsi_mapping.SECTION)
    if section is None:
        return False
    posted = content.find_all(section, virtual_scsi_mapping.MAPPING)
    plan = _Plan(host, vios)
    with _in_place(vios, plan.section):
        plan.settle([Mapping(node) for node in posted])
    content.replace(body, plan.section)
    return plan.changed


@contextlib.contextmanager
def _in_place(vios: Partition, section: Element) -> Iterator[None]:
    """Let a VIOS have other mappings meanwhile.

    Who asks what is taken, of slots or storage, then sees the change that
    is being made. Nobody else sees it: the host's lock is held.
    """
    old = content.find(vios.element, virtual_scsi_mapping.SECTION)
    content.replace(vios.element, section)
    try:
        yield
    finally:
        if old is None:
            vios.element.remove(section)
        else:
            vios.element.replace(section, old)


def _find_present(posted: Mapping, among: list[Mapping]) -> Mapping | None:
    """Return the mapping that a client has posted as it got it, or None."""
    for mapping in among:
        if mapping.server_slot != posted.server_slot:
            continue
        if mapping.target_udid != posted.target_udid:
            continue
        storage = mapping.storage
        if storage is None:
            if posted.storage is None:
                return mapping
        elif posted.storage is not None and posted.is_on(storage):
            return mapping
    return None


def _find_storage(host: Host, vios: Partition, posted: Mapping) -> Element:
    """Return the disk or medium of a VIOS that a mapping names.

    :raises errors.RestError: there is none, or it is of another kind.
    """
    if posted.kind not in (
        virtual_scsi_mapping.DISK,
        virtual_scsi_mapping.MEDIA,
    ):
        raise errors.BadRequest(
            f'This server makes no mappings of a {posted.kind}.'
        )
    for group in volume_group.of(host, vios):
        storages = [disk.element for disk in group.disks]
        if group.repository is not None:
            storages += [medium.element for medium in group.repository.media]
        for storage in storages:
            if posted.is_on(storage):
                return storage
    raise errors.Conflict(
        f'{vios.name} has no {posted.kind} '
        f'{posted.udid or posted.name!r} to map.'
    )


def _copy_of(mapping: Mapping, name: str) -> Element:
    return content.copy(content.section(mapping.element, name))


def _holder(name: str, child: Element) -> Element:
    holder = content.leaf(name)
    holder.append(child)
    return holder


def _make_target(
    host: Host,
    kind: str,
    posted: Element | None,
    mapping: Mapping,
    others: list[Mapping],
) -> Element:
    """Return a new target device.

    :param kind: of the storage.
    :param posted: a target device with the address or name that a client
        wants, or None.
    :param mapping: that the device is to be part of.
    :param others: the mappings of the same Virtual I/O Server.
    :raises errors.Conflict: what is wanted is taken.
    """
    element_name, prefix, digits = _KINDS[kind]
    return content.new(
        element_name,
        content.leaf('LogicalUnitAddress', _lua(posted, mapping, others)),
        content.leaf('TargetName', _target_name(posted, prefix, others)),
        content.leaf(
            'UniqueDeviceID', f'{digits}{host.random.getrandbits(64):016x}'
        ),
    )


def _lua(
    posted: Element | None, mapping: Mapping, others: list[Mapping]
) -> str:
    used = {
        other.lua.lower()
        for other in others
        if other.server_slot == mapping.server_slot
    }
    wanted = _wanted(posted, 'LogicalUnitAddress')
    if wanted and wanted.lower() in used:
        raise errors.Conflict(
            f'The logical unit address {wanted} is taken on '
            f'{mapping.adapter_name}.'
        )
    if wanted:
        return wanted
    for number in range(_FIRST_LUA, _LAST_LUA + 1):
        address = f'0x{number:02x}00000000000000'
        if address not in used:
            return address
    raise errors.Conflict(
        f'{mapping.adapter_name} has no free logical unit address.'
    )


def _target_name(
    posted: Element | None, prefix: str, others: list[Mapping]
) -> str:
    used = {other.target_name for other in others}
    wanted = _wanted(posted, 'TargetName')
    if wanted and wanted in used:
        raise errors.Conflict(f'The target name {wanted!r} is taken.')
    return wanted or virtual_scsi_mapping.next_name(prefix, used)


def _wanted(posted: Element | None, name: str) -> str:
    return '' if posted is None else content.text(posted, name)
