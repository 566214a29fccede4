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

"""Creating, changing and deleting partitions."""

import uuid as uuid_module

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.nouns import virtual_fibre_channel
from powervm_emulator.nouns.fibre_channel import ports
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.network_bridge import update as bridge_update
from powervm_emulator.nouns.partition import document
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import ownership
from powervm_emulator.nouns.partition import processor_rules
from powervm_emulator.nouns.partition import rules
from powervm_emulator.nouns.shared_storage_pool import usage
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.virtual_scsi_mapping import update as scsi_update

Element = content.Element
System = managed_system.System
Partition = partition_module.Partition
Host = host_module.Host


# Only the host says which partition manages it.
_MANAGEMENT = (partition_module.MANAGEMENT, 'PowerVMManagementCapable')
# Links that a client may have from another partition.
_PROFILES = (partition_module.PROFILE_LINK, 'PartitionProfiles')
# What changes only by way of other resources, if at all, although clients
# can set it on some hosts.
_KEPT = (
    'Metadata',
    'BootMode',
    partition_module.ADDRESS,
    'AssociatedManagedSystem',
    'ClientNetworkAdapters',
    'PhysicalVolumes',
    'SharedEthernetAdapters',
    'TrunkAdapters',
    *_PROFILES,
    *_MANAGEMENT,
)
# How the names of the values begin that a client chooses.
_WANTED = ('Desired', 'Maximum', 'Minimum', 'HasDedicated')
# What is checked if it changes, beside sections and slots.
_CHECKED = (
    partition_module.SHARING_MODE,
    partition_module.COMPATIBILITY,
    partition_module.SECURE_BOOT,
    partition_module.REMOTE_RESTART,
    partition_module.VIRTUAL_SLOTS,
)
# What a new partition has that does not say it.
_VIRTUAL_SLOTS = 6
_SECTIONS = (
    partition_module.IO,
    partition_module.MEMORY,
    partition_module.PROCESSORS,
)


def create(
    kind: str, host: Host, parent: System | None, body: Element
) -> Partition:
    """Make a partition of a posted body, or refuse.

    :param kind: ``LogicalPartition`` or ``VirtualIOServer``.
    :param parent: its system; None for the only one of the host.
    :param body: the content that the client sent; the partition keeps it.
    :returns: the new partition, not activated, its slots its own.
    :raises errors.RestError: hardware would not make it; nothing changed.
    """
    system = parent or managed_system.only(host)
    uuid = _wanted_uuid(host, body)
    rules.check_uuid(host, uuid)
    _restore(body, None)
    processor_rules.complete(body)
    content.put_default(body, partition_module.VIRTUAL_SLOTS, _VIRTUAL_SLOTS)
    partition = build(host, system, kind, uuid, body)
    rules.check_type(kind, partition.type)
    rules.check_name(host, system, partition.name, uuid)
    rules.check_id(host, system, partition.id)
    rules.check_virtual_slots(body)
    rules.check_memory(system, body)
    processor_rules.check(system, body)
    rules.check_compatibility(system, body)
    rules.check_remote_restart(system, body)
    rules.check_secure_boot(system, body)
    rules.check_capacity(host, system, body)
    rules.check_slots(system, body)
    _fill_slots(system, body, None)
    document.set_state(partition, partition_module.NOT_ACTIVATED, 'inactive')
    host.add(partition)
    system.link(partition)
    host.stamp(system)
    ownership.settle(host, partition, set())
    return partition


def build(
    host: Host, system: System, kind: str, uuid: str, element: Element
) -> Partition:
    """Make a partition's object and identity, without rules or events."""
    for name in _SECTIONS:
        if content.find(element, name) is None:
            element.append(content.new(name))
    type_ = partition_module.AIX_LINUX
    if kind == partition_module.VIOS:
        type_ = partition_module.VIOS_TYPE
    content.put_default(element, 'PartitionType', type_)
    partition = Partition(kind, uuid.upper(), element, system)
    document.set_defaults(partition)
    if content.find(element, 'PartitionID') is None:
        partition_id = next_id(host, system)
    else:
        partition_id = partition.id
    # MAC prefixes are multiples of 256: each leaves room for adapters.
    mac = 0x020000000000 | host.random.getrandbits(32) << 8
    document.set_identity(partition, partition_id, mac)
    return partition


def update(
    host: Host,
    partition: Partition,
    body: Element,
    groups: groups_module.Groups,
) -> None:
    """Change a partition to a posted body, or refuse.

    :param body: the full content, less the parts of other groups.
    :raises errors.RestError: hardware would not; nothing changed.
    """
    rules.check_not_migrating(partition)
    partition.merge_groups(body, groups)
    content.keep(body, partition.element, _KEPT)
    _restore(body, partition.element)
    system = partition.system
    name = content.text(body, 'PartitionName')
    if name != partition.name:
        rules.check_name(host, system, name, partition.uuid)
    _check_changes(host, partition, body)
    virtual_fibre_channel.check(host, partition, body)
    _fill_slots(system, body, partition)
    with host.drafting():
        remapped = scsi_update.settle(host, partition, body)
    had = set(partition.profile_slots)
    renamed = name != partition.name
    held = partition.held
    document.sort(body)
    document.set_group(body)
    partition.element = body
    document.set_current(partition)
    if held != partition.held:
        system.take(partition.held - held)
        host.touch(system)
    host.touch(partition, _detail(renamed, remapped))
    ownership.settle(host, partition, had)
    if renamed:
        ownership.rename(host, partition, partition.uuid)
    if renamed or remapped:
        usage.settle(host.site)


def delete(host: Host, partition: Partition) -> None:
    """Delete a partition with its children and free its slots.

    Its mappings stay, as orphans.

    :raises errors.Refused: it is active, or has a disk of one that is, or
        its migration is not over.
    """
    rules.check_not_active(partition)
    rules.check_not_migrating(partition)
    scsi_mapping.check_clients_are_off(host, partition)
    # Nothing, unless a habit of the host lets a running one go.
    partition.system.take(-partition.held)
    for child in host.of_type(resource.Resource, partition):
        host.remove(child)
    host.remove(partition)
    partition.system.unlink(partition)
    host.stamp(partition.system)
    scsi_mapping.orphan(host, partition)
    host.contents.drop_server(partition.uuid)
    host.terminals.close(partition.uuid)
    ownership.release(host, partition)
    bridge_update.forget(host, partition)
    usage.settle(host.site)


def next_id(host: Host, system: System) -> int:
    """Return the lowest partition id that is free on a system."""
    used = {other.id for other in host.of_type(Partition, system)}
    return next(number for number in range(1, 65536) if number not in used)


def _restore(body: Element, old: Element | None) -> None:
    """Undo what a client posts of what the host writes.

    :param old: what the body is to replace; None if it is new.
    """
    if old is None:
        content.remove(
            body, (*_MANAGEMENT, *_PROFILES, partition_module.ADDRESS)
        )
    for path in document.WRITTEN:
        part = content.find(body, path)
        if part is not None:
            before = None if old is None else content.find(old, path)
            elements.restore(part, before)


def _detail(renamed: bool, remapped: bool) -> str:
    """Return what an event says of a change."""
    if remapped:
        return scsi_mapping.DETAIL
    return 'PartitionName,Other' if renamed else 'Other'


def _wanted_uuid(host: Host, body: Element) -> str:
    wanted = content.text(body, 'PartitionUUID') or content.text(
        body, 'Metadata/Atom/AtomID'
    )
    if not wanted:
        return host.new_uuid().upper()
    try:
        return str(uuid_module.UUID(wanted)).upper()
    except ValueError as error:
        raise errors.BadDocument(f'{wanted!r} is not a uuid.') from error


def _fill_slots(
    system: System, body: Element, present: Partition | None
) -> None:
    """Give each ProfileIOSlot the details that the system knows.

    Clients send little more than the DRC index. A slot that is gone from the
    system keeps what the profile said of it.
    """
    section = content.find(body, partition_module.PROFILE_SLOTS)
    if section is None:
        return
    content.section(section, 'Metadata/Atom')
    wanted = partition_module.profile_slots(body)
    sent = content.find_all(section, 'ProfileIOSlot')
    for element, (drc_index, required) in zip(sent, wanted, strict=True):
        slot = system.find_slot(drc_index)
        old = present.find_profile_slot(drc_index) if present else None
        if slot is not None:
            full = partition_module.profile_slot(slot.element, required)
            if old is not None:
                ports.keep_disks(full, old)
            section.replace(element, full)
        elif old is not None:
            full = content.copy(old)
            content.put(full, 'IsRequired', required)
            section.replace(element, full)


def _check_changes(host: Host, partition: Partition, body: Element) -> None:
    """Check what the body changes, and only that.

    A captured partition need not follow the rules of the system that it was
    put on, and must be able to change in other ways.
    """
    old = partition.element
    system = partition.system
    memory = _differs(old, body, partition_module.MEMORY)
    processors = _differs(old, body, partition_module.PROCESSORS)
    changed = [
        path
        for path in _CHECKED
        if content.text(body, path) != content.text(old, path)
    ]
    if memory:
        rules.check_dynamic(partition, 'memory')
        rules.check_memory(system, body)
    if processors:
        rules.check_dynamic(partition, 'processors')
    if processors or partition_module.SHARING_MODE in changed:
        processor_rules.check(system, body, partition)
    if memory or processors:
        rules.check_current_range(partition, body)
        rules.check_capacity(host, system, body, partition)
    if partition_module.profile_slots(body) != partition_module.profile_slots(
        old
    ):
        rules.check_dynamic(partition, 'I/O slots')
        rules.check_slots(system, body, partition)
    if partition_module.VIRTUAL_SLOTS in changed:
        rules.check_virtual_slots(body)
    if partition_module.COMPATIBILITY in changed:
        rules.check_compatibility(system, body)
    if partition_module.SECURE_BOOT in changed:
        rules.check_secure_boot(system, body)
    if partition_module.REMOTE_RESTART in changed:
        rules.check_remote_restart(system, body, partition)


def _differs(old: Element, new: Element, path: str) -> bool:
    """Whether two contents want something else in a section.

    What the host derives may be missing in what a client sends.
    """
    return _wanted(old, path) != _wanted(new, path)


def _wanted(element: Element, path: str) -> dict[str, float | str]:
    values: dict[str, float | str] = {}
    for node in content.section(element, path).iter():
        name = content.local_name(node)
        if name.startswith(_WANTED) and len(node) == 0:
            text = (node.text or '').strip()
            try:
                values[name] = float(text)
            except ValueError:
                values[name] = text
    return values
