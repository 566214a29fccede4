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

"""One pass over the devices of a host that wait for cleaning.

The program of the operator's own assigns the slot to a partition, cleans the
device, and gives the slot back. What it leaves is compared with what was there
before, and both with what was burned.
"""

import collections
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.conf import cleaning as options
from nova_powervm.devices import card_ids
from nova_powervm.devices import one_time_use
from nova_powervm.devices import policy
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.clean import program as programs
from nova_powervm.tool.clean import state
from nova_powervm.tool.inventory import device_changes
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing

LOG = logging.getLogger(__name__)

_Provider = placement_tree.Provider
_Slots = Collection[slots.Slot]

_REASON = 'CLEANING'
#: What the program is told of the card.
_IDS = ('vendor_id', 'device_id', 'subsys_vendor_id', 'subsys_device_id')
#: What tells one card in one place from another.
_IDENTITY = (*card_ids.KEYS, 'drc_name')


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """The collaborators of a cleaner.

    :param placement: Placement.
    :param read_host: Reads the host anew.
    :param program: The operator's program.
    :param attempts: Counts attempts.
    :param name_projects: Finds the projects that burned devices; takes the
        name of the compute node and the providers.
    """

    placement: placement_client.PlacementClient
    read_host: Callable[[], host_reader.HostReading]
    program: programs.Program
    attempts: state.Attempts
    name_projects: Callable[[str, Collection[_Provider]], Mapping[str, str]]


class Cleaner:
    """Cleans devices and releases them, one after the other.

    :param services: Its collaborators.
    :param settings: The options.
    :param node: Name of the compute node.
    """

    def __init__(
        self, services: Services, settings: options.Settings, node: str
    ) -> None:
        self._services = services
        self._settings = settings
        self._node = node

    def clean_all(self) -> bool:
        """Clean and release what waits, each device once.

        Host and Placement are asked anew for each device: to clean those
        before it may have taken hours. A device that has begun to wait
        meanwhile may be the next, so that a project that burned many does not
        delay the others.

        :returns: Whether every device that waited was released.
        :raises exception.PowerVMError: Host or Placement cannot be read, or
            the file of counts is damaged.
        """
        done: dict[str, bool] = {}
        served: collections.Counter[str] = collections.Counter()
        while waiting := self._find_waiting(done):
            if self._services.program.is_stopped:
                return False
            projects = self._find_projects(waiting)
            chosen = choose_next(waiting, projects, served)
            served[projects[chosen.uuid]] += 1
            done[chosen.uuid] = self._clean(chosen.uuid)
            if len(waiting) == 1:
                # What has begun to wait since is for the next pass.
                break
        return all(done.values())

    def _find_waiting(self, done: Collection[str]) -> Sequence[_Provider]:
        """Return the devices that wait and have had no turn in this pass."""
        tree = self._services.placement.tree(self._node)
        waiting = releasing.find_used_devices(tree)
        if not done:
            self._services.attempts.keep({*map(_counted_as, waiting)})
        return [device for device in waiting if device.uuid not in done]

    def _find_projects(
        self, waiting: Sequence[_Provider]
    ) -> Mapping[str, str]:
        """Find the projects that burned devices; one alone needs none."""
        unknown = {each.uuid: one_time_use.UNKNOWN for each in waiting}
        if len(waiting) == 1:
            return unknown
        try:
            return self._services.name_projects(self._node, waiting)
        except errors.ConductorUnanswered as error:
            LOG.warning('The devices are cleaned in order of slots: %s', error)
            return unknown

    def _clean(self, uuid: str) -> bool:
        """Clean and release one device, unless it waits no more."""
        provider = self._services.placement.provider(uuid)
        if provider is None or not provider.needs_cleaning:
            return True
        slot, obstacle = self._find_slot(provider)
        if slot is None:
            LOG.warning(
                'Slot %(slot)s is not cleaned now: %(reason)s.',
                {
                    'slot': provider.drc_hex,
                    'reason': obstacle,
                },
            )
            return False
        number = self._services.attempts.of(_counted_as(provider)) + 1
        if number > self._settings.attempts:
            # This process ended before the quarantine was begun.
            self._give_up(uuid, slot)
            return False
        return self._attempt(provider, slot, number)

    def _find_slot(self, provider: _Provider) -> tuple[slots.Slot | None, str]:
        """Return the slot to clean, or why it is not to be cleaned now."""
        io_slots = self._services.read_host().system.io_slots
        partition = self._settings.partition
        try:
            return choose_slot(provider, io_slots, partition), ''
        except errors.DeviceUnchanged as error:
            return None, error.fields['reason']

    def _attempt(
        self, provider: _Provider, slot: slots.Slot, number: int
    ) -> bool:
        """Run the program, and release the device if it is clean.

        :param number: Of the attempt. Its start counts: if nobody is left to
            see the end, it has failed.
        """
        attempts, device = self._services.attempts, _counted_as(provider)
        attempts.put(device, number)
        outcome = self._run(slot, number)
        failure = outcome.failure
        if not failure:
            try:
                failure = self._release(provider.uuid, slot)
            except exception.PowerVMError:
                # That is not the fault of the device.
                attempts.put(device, number - 1)
                raise
        if outcome.interrupted:
            attempts.put(device, number - 1)
            LOG.info(
                'Slot %(slot)s stays reserved: %(reason)s.',
                {'slot': slot.drc_hex, 'reason': failure},
            )
        elif failure:
            self._note_failure(provider.uuid, slot, number, failure)
        else:
            attempts.put(device, 0)
            LOG.info('Slot %s is clean, and was released.', slot.drc_hex)
        return not failure

    def _run(self, slot: slots.Slot, number: int) -> programs.Outcome:
        settings = self._settings
        LOG.info(
            'Cleaning %(slot)s, attempt %(number)d of %(attempts)d.',
            {'slot': slot, 'number': number, 'attempts': settings.attempts},
        )
        return self._services.program.run(
            make_environment(slot, self._node, number, settings.partition),
            lambda line: LOG.info('Slot %s: %s', slot.drc_hex, line),
        )

    def _release(self, uuid: str, before: slots.Slot) -> str:
        """Release a device if it is what was cleaned, and nobody has it.

        :returns: Why it was not released; empty if it was.
        """
        io_slots = self._services.read_host().system.io_slots
        provider = self._services.placement.provider(uuid)
        if provider is None:
            return 'its provider was deleted meanwhile'
        try:
            check_cleaned(provider, before, io_slots)
            device_changes.release(
                self._services.placement, provider, io_slots
            )
        except errors.DeviceUnchanged as error:
            return str(error.fields['reason'])
        return ''

    def _note_failure(
        self, uuid: str, slot: slots.Slot, number: int, failure: str
    ) -> None:
        LOG.error(
            'Cleaning slot %(slot)s has failed: %(reason)s. '
            'This was attempt %(number)d of %(attempts)d.',
            {
                'slot': slot.drc_hex,
                'reason': failure,
                'number': number,
                'attempts': self._settings.attempts,
            },
        )
        if number >= self._settings.attempts:
            self._give_up(uuid, slot)

    def _give_up(self, uuid: str, slot: slots.Slot) -> None:
        """Put a device in quarantine, unless it waits no more."""
        provider = self._services.placement.provider(uuid)
        if provider is None or not provider.needs_cleaning:
            return
        device_changes.quarantine(self._services.placement, provider, _REASON)
        LOG.error(
            'Slot %(slot)s is in quarantine: %(attempts)d attempts to clean '
            'it have failed. Look at the device, then run '
            '`nova-powervm-inventory restore %(slot)s`, and it is cleaned '
            'again.',
            {'slot': slot.drc_hex, 'attempts': self._settings.attempts},
        )


def _counted_as(provider: _Provider) -> str:
    """Return what the attempts to clean a device are counted for.

    A quarantine and its end are writes to the provider: whoever restores a
    device wants it to be tried anew, even if nobody was left to forget the
    attempts.
    """
    return f'{provider.uuid} {provider.generation}'


def choose_next(
    waiting: Collection[_Provider],
    projects: Mapping[str, str],
    served: Mapping[str, int],
) -> _Provider:
    """Return the device to clean next: projects take turns.

    A project that has had fewer devices cleaned in this pass comes first, and
    then one that has fewer waiting. Devices of unknown projects are like those
    of one project.

    :param waiting: At least one device.
    :param projects: Provider uuid to the project that burned the device.
    :param served: Project to the number of its devices in this pass.
    """
    number = collections.Counter(projects[each.uuid] for each in waiting)

    def turn(provider: _Provider) -> tuple[int, int, str, int, str]:
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
    provider: _Provider, io_slots: _Slots, partition: str | None
) -> slots.Slot:
    """Return the slot of a device that may be cleaned now.

    :param partition: Name of the partition for cleaning. A slot that it owns
        was left there by a program that was killed.
    :raises errors.DeviceUnchanged: The device must not be cleaned now.
    """
    releasing.check_release(
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
    provider: _Provider, before: slots.Slot, io_slots: _Slots
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


def make_environment(
    slot: slots.Slot, node: str, attempt: int, partition: str | None
) -> Mapping[str, str]:
    """Return what the program is told in environment variables.

    :param attempt: The number of this attempt, from 1.
    """
    # What is not reported stays empty.
    ids = (policy.PROPERTIES[key].value_in(slot) or '' for key in _IDS)
    return {
        'POWERVM_DRC_INDEX': slot.drc_hex,
        'POWERVM_LOCATION': slot.drc_name or '',
        'POWERVM_IDS': ':'.join(ids),
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
