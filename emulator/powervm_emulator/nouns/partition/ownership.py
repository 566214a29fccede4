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

"""Moving slots between partitions."""

from powervm_emulator.core import host as host_module
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

Partition = partition_module.Partition
Host = host_module.Host
Slot = io_slot.Slot
System = managed_system.System


def seed(host: Host, system: System) -> None:
    """Give slots that report no owner to the partitions that profile them."""
    for partition in host.of_type(Partition, system):
        for drc_index in partition.profile_slots:
            slot = system.find_slot(drc_index)
            if slot is not None and slot.owner is None:
                slot.set_owner(partition.owner, system.reports_owners)


def settle(host: Host, partition: Partition, had: set[int]) -> None:
    """Make owners follow a profile that has just been written.

    :param had: the DRC indexes that the profile had before.
    """
    system = partition.system
    has = set(partition.profile_slots)
    changed = False
    for drc_index in had | has:
        slot = system.find_slot(drc_index)
        if slot is None:
            continue
        if drc_index in has - had:
            changed |= _give(slot, partition.owner, system)
        elif drc_index in had - has and owns(partition, slot):
            changed |= _give(slot, None, system)
    if changed:
        host.touch(system)


def release(host: Host, partition: Partition) -> None:
    """Free every slot of a partition that goes away."""
    system = partition.system
    freed = [
        _give(slot, None, system)
        for slot in system.slots()
        if owns(partition, slot)
    ]
    if freed:
        host.touch(system)


def rename(host: Host, partition: Partition, uuid: str) -> None:
    """Write a partition's new identity to the slots it owns.

    :param uuid: the one that it had.
    """
    system = partition.system
    renamed = [
        _give(slot, partition.owner, system)
        for slot in system.slots()
        if slot.owner and slot.owner.uuid.upper() == uuid.upper()
    ]
    if renamed:
        host.touch(system)


def force(
    host: Host,
    system: System,
    slot: Slot,
    partition: Partition | None,
    profiles: bool,
) -> None:
    """Change a slot's owner as an operator can, past every rule.

    :param partition: the new owner, None for nobody.
    :param profiles: whether the profiles of both partitions follow; if not,
        the old owner's profile names a slot that is not its own.
    """
    for other in host.of_type(Partition, system):
        if not profiles or other is partition:
            continue
        if slot.drc_index in other.profile_slots:
            other.drop_profile_slot(slot.drc_index)
            host.touch(other)
    _give(slot, partition.owner if partition else None, system)
    if partition and profiles:
        if slot.drc_index not in partition.profile_slots:
            partition.add_profile_slot(slot, required=False)
        host.touch(partition)
    host.touch(system)


def show(host: Host, system: System, slot: Slot) -> None:
    """Write what sits in a slot to the profiles that name it."""
    for partition in host.of_type(Partition, system):
        if partition.show_profile_slot(slot):
            host.touch(partition)
    host.touch(system)


def owns(partition: Partition, slot: Slot) -> bool:
    """Whether a slot is a partition's own."""
    return (
        slot.owner is not None
        and slot.owner.uuid.upper() == partition.uuid.upper()
    )


def _give(slot: Slot, owner: io_slot.Owner | None, system: System) -> bool:
    if slot.owner == owner:
        return False
    slot.set_owner(owner, system.reports_owners)
    return True
