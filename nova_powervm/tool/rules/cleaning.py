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

"""Rules for cleaning a used one-time-use device before its release.

The program of the operator's own assigns the slot to a partition, cleans the
device, and gives the slot back. What it leaves is compared with what was there
before, and both with what was burned.
"""

import collections
import dataclasses
from collections.abc import Collection
from collections.abc import Mapping

from nova_powervm.devices import card_ids
from nova_powervm.devices import policy
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing

#: What the program is told of the card.
_IDS = ('vendor_id', 'device_id', 'subsys_vendor_id', 'subsys_device_id')
#: What tells one card in one place from another.
_IDENTITY = (*card_ids.KEYS, 'drc_name')


def choose_next(
    waiting: Collection[placement_tree.PlacementProvider],
    projects: Mapping[str, str],
    served: Mapping[str, int],
) -> placement_tree.PlacementProvider:
    """Return the device to clean next: projects take turns.

    A project that has had fewer devices cleaned in this pass comes first, and
    then one that has fewer waiting. Devices of unknown projects are like those
    of one project.

    :param waiting: At least one device.
    :param projects: Provider uuid to the project that burned the device.
    :param served: Project to the number of its devices in this pass.
    """
    number = collections.Counter(projects[each.uuid] for each in waiting)

    def turn(
        provider: placement_tree.PlacementProvider,
    ) -> tuple[int, int, str, int, str]:
        project = projects[provider.uuid]
        return (
            served.get(project, 0),
            number[project],
            project,
            provider.drc_index or 0,
            provider.uuid,
        )

    return min(waiting, key=turn)


def choose_slot(
    provider: placement_tree.PlacementProvider,
    io_slots: Collection[slots.Slot],
    partition: str | None,
) -> slots.Slot:
    """Return the slot of a device that may be cleaned now.

    :param partition: Name of the partition for cleaning. A slot that it owns
        was left there by a program that was killed.
    :raises errors.DeviceUnchanged: The device must not be cleaned now.
    """
    releasing.check_releasable(provider)
    releasing.check_on_host(
        provider, [_without_owner(slot, partition) for slot in io_slots]
    )
    slot = next(s for s in io_slots if s.drc_index == provider.drc_index)
    if slot.is_empty:
        raise errors.DeviceUnchanged(
            which=provider,
            reason='its slot is empty. If the card is gone for good, release '
            'it by hand',
        )
    return slot


def check_cleaned(
    provider: placement_tree.PlacementProvider,
    before: slots.Slot,
    io_slots: Collection[slots.Slot],
) -> None:
    """Check what the program has left.

    :param before: The slot as it was before the program started.
    :raises errors.DeviceUnchanged: A partition has the slot, or another card
        is in it than before the program started or at the burn.
    """
    releasing.check_on_host(provider, io_slots)
    for slot in io_slots:
        change = find_change(before, slot)
        if slot.drc_index == before.drc_index and change:
            raise errors.DeviceUnchanged(
                which=provider,
                reason=f'another card is in its slot than before: {change}',
            )


def find_change(before: slots.Slot, after: slots.Slot) -> str:
    """Return in words how ids and location differ; empty if they do not."""
    values = {
        key: (
            policy.PROPERTIES[key].value_in(before),
            policy.PROPERTIES[key].value_in(after),
        )
        for key in _IDENTITY
    }
    return '; '.join(
        f'{key} was {old or "not reported"}, and is {new or "not reported"}'
        for key, (old, new) in values.items()
        if old != new
    )


def describe_ids(slot: slots.Slot) -> str:
    """Return the ids of vendor, device and subsystem; unreported are empty."""
    return ':'.join(
        policy.PROPERTIES[key].value_in(slot) or '' for key in _IDS
    )


def make_environment(
    slot: slots.Slot, node: str, attempt: int, partition: str | None
) -> Mapping[str, str]:
    """Return what the program is told in environment variables.

    :param attempt: The number of this attempt, from 1.
    """
    return {
        'POWERVM_DRC_INDEX': slot.drc_hex,
        'POWERVM_LOCATION': slot.drc_name or '',
        'POWERVM_IDS': describe_ids(slot),
        'POWERVM_HOST': node,
        'POWERVM_ATTEMPT': str(attempt),
        'POWERVM_PARTITION': partition or '',
    }


def _without_owner(slot: slots.Slot, partition: str | None) -> slots.Slot:
    """Return a slot of the partition for cleaning as if it were free."""
    owner = slot.owner
    if (
        partition
        and owner
        and owner.kind is slots.PartitionKind.CLIENT
        and owner.name == partition
    ):
        return dataclasses.replace(slot, owner=None)
    return slot
