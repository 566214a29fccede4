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

"""What cleans one-time-use devices, one at a time on each host.

It decides by the rules of the real commands. Between two of its steps anything
may happen, and it may be killed.
"""

import dataclasses

import os_traits

from nova_powervm.tool import errors
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing
from tests.property.simulation import host

#: Failures after which a device is put in quarantine.
ATTEMPTS = 2


@dataclasses.dataclass
class Attempt:
    """An attempt to clean a device.

    :param node: Its host.
    :param row: Its provider.
    :param before: Its slot before the attempt.
    :param todo: The steps that are left.
    :param exit_code: That of the operator's program, as far as it has ended.
    :param generation: That of the provider when it was checked.
    """

    node: object
    row: object
    before: object
    todo: list = dataclasses.field(
        default_factory=lambda: ['assign', 'give_back', 'check', 'release']
    )
    exit_code: int | None = None
    generation: int | None = None

    @property
    def index(self):
        return self.before.drc_index


class Cleaning:
    """Cleans the devices of all hosts.

    :param world: The :class:`.world.World`.
    """

    def __init__(self, world):
        self._world = world
        # Name of a node to the attempt that its process is at.
        self.running = {}
        # Uuid of a provider to its attempts. They count from their start.
        self._attempts = {}

    def is_at(self, node, index):
        attempt = self.running.get(node.name)
        return attempt is not None and attempt.index == index

    def forget(self, row):
        """End what is done to a provider that is no more."""
        self._attempts.pop(row.uuid, None)
        for name, attempt in [*self.running.items()]:
            if attempt.row is row:
                del self.running[name]

    def waiting(self, node):
        """Return the providers whose devices could be cleaned now."""
        if node.name in self.running or node.root not in (
            self._world.placement.rows
        ):
            return []
        root = self._provider(self._world.placement.rows[node.root])
        tree = placement_tree.Tree(
            node.name, root, tuple(map(self._provider, self._world.rows(node)))
        )
        rows = self._world.placement.rows
        return [
            rows[provider.uuid]
            for provider in releasing.find_used_devices(tree)
            if self._slot(node, provider) is not None
        ]

    def _provider(self, row):
        """Return a provider as the commands read it."""
        held = self._world.placement.allocations
        return placement_tree.Provider(
            row.uuid,
            row.name,
            row.parent,
            row.generation,
            row.offer,
            row.traits,
            {
                consumer: held[consumer][row.uuid]
                for consumer in self._world.placement.holders(row.uuid)
            },
        )

    def _slot(self, node, provider):
        """Return the slot to clean, or None.

        An attempt that was killed may have left it with the partition.
        """
        found = [
            dataclasses.replace(slot, owner=None)
            if slot.owner and slot.owner.uuid == host.CLEANER
            else slot
            for slot in node.host.system().io_slots
        ]
        try:
            releasing.check_on_host(provider, found)
        except errors.DeviceUnchanged:
            return None
        return next(s for s in found if s.drc_index == provider.drc_index)

    def begin(self, node, row):
        """Begin an attempt; say whether it was the last one before this."""
        if self._attempts.get(row.uuid, 0) >= ATTEMPTS:
            return False
        self._attempts[row.uuid] = self._attempts.get(row.uuid, 0) + 1
        slot = self._slot(node, self._provider(row))
        self.running[node.name] = Attempt(node, row, slot)
        return True

    def go_on(self, attempt, exit_code):
        """Do the next step.

        :param exit_code: That of the operator's program, if it ends.
        :returns: 'goes on', 'released', 'failed', or 'failed for good'.
        """
        step = attempt.todo.pop(0)
        if getattr(self, f'_{step}')(attempt, exit_code):
            if attempt.todo:
                return 'goes on'
            del self.running[attempt.node.name]
            self._attempts.pop(attempt.row.uuid)
            return 'released'
        del self.running[attempt.node.name]
        is_last = self._attempts[attempt.row.uuid] >= ATTEMPTS
        return 'failed for good' if is_last else 'failed'

    def _assign(self, attempt, exit_code):
        """Give the slot to the operator's partition."""
        state = attempt.node.host.slots[attempt.index]
        if not state.usable or state.owner not in (None, host.CLEANER):
            return False
        attempt.node.host.take(attempt.index, host.CLEANER)
        return True

    def _give_back(self, attempt, exit_code):
        """Take it back, and end."""
        state = attempt.node.host.slots[attempt.index]
        if state.owner == host.CLEANER and exit_code in (0, 1):
            attempt.node.host.take(attempt.index, None)
        # Whoever wrote it may have forgotten that, and end it with 0.
        attempt.exit_code = 0 if exit_code == 3 else exit_code
        return attempt.exit_code == 0

    def _check(self, attempt, exit_code):
        """Check whether the device may be released."""
        provider = self._provider(attempt.row)
        attempt.generation = provider.generation
        system = attempt.node.host.system()
        slot = system.slot(attempt.index)
        try:
            releasing.check_releasable(provider)
            releasing.check_on_host(provider, system.io_slots)
        except errors.DeviceUnchanged:
            return False
        if _ids(slot) != _ids(attempt.before):
            return False
        self._verify(attempt)
        return True

    def _verify(self, attempt):
        """Verify the result of the rules, without them."""
        state, row = attempt.node.host.slots[attempt.index], attempt.row
        self._world.require(
            attempt.exit_code == 0
            and state.reported
            and state.owner is None
            and state.card == attempt.before.vendor_id
            and state.card == self._world.card_of(row)
            and state.odd != 'twice'
            and not self._world.hides_card(
                attempt.node.host.system().slot(attempt.index), row
            )
            and not self._world.placement.holders(row.uuid)
            and row.reserved
            and row.uuid not in self._world.quarantined
            and os_traits.HW_PCI_ONE_TIME_USE in row.traits,
            'only a clean device is released',
            attempt,
            state,
        )

    def _release(self, attempt, exit_code):
        """Check it again if the provider has changed since."""
        return attempt.generation == attempt.row.generation or self._check(
            attempt, exit_code
        )

    def is_waiting(self, row):
        """Return whether a device waits for its cleaning."""
        return self._provider(row).needs_cleaning

    def forgive(self, row):
        """Forget the attempts of a device that is in quarantine now."""
        self._attempts.pop(row.uuid, None)


def _ids(slot):
    return slot.vendor_id, slot.device_id, slot.pci_class
