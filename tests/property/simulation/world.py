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

"""What must hold, told without the driver: what was used, reserved, held."""

import os_traits

from nova_powervm.domain import names
from tests.property.simulation import cloud
from tests.property.simulation import placement

ONCE = os_traits.HW_PCI_ONE_TIME_USE


def slot_of(row):
    """Give the DRC index of a slot's provider, None for another one."""
    return names.slot_of_provider(row.name)


class World(cloud.Nova):
    """Nova, and an account of what happened.

    :param directory: Where the hosts' files are.
    """

    def __init__(self, directory):
        super().__init__(directory, self._before_create, self._after_update)
        # Of node and DRC index: used since the last release.
        self.used = set()
        # Allocated since then, so it may be burned.
        self.touched = set()
        # Released since then, and no update has seen that yet.
        self.released = set()
        # Uuids of the providers that an operator has reserved.
        self.reserved = set()
        # Uuid to the traits and aggregates that an operator has set.
        self.set_traits = {}
        self.set_aggregates = {}
        # Uuid of a provider that is not ours to what it is.
        self.foreign = {}
        # How often each check was made.
        self.checked = {}

    def require(self, condition, what, *details):
        """Check an invariant and count it."""
        self.checked[what] = self.checked.get(what, 0) + 1
        if not condition:
            raise placement.Wrong(f'{what}: {details}')

    def rows(self, node):
        """Give the slots' providers of a node."""
        return [
            row
            for row in self.placement.below(node.root)
            if slot_of(row) is not None
            and os_traits.OWNER_CYBORG not in row.traits
        ]

    def allocated(self, instance, node):
        """Give the DRC indexes that Placement gave an instance on a node."""
        held = self.placement.allocations.get(instance.uuid, {})
        return {slot_of(r) for r in self.rows(node) if r.uuid in held}

    # What is noted

    def _before_create(self, node, machine, spec):
        for index in spec.drc_indexes:
            rows = [r for r in self.rows(node) if slot_of(r) == index]
            if node.compute.is_once(index):
                self.require(
                    rows and all(r.reserved for r in rows),
                    'burned before it is used',
                    f'{index:X}',
                )
                self.used.add((node.name, index))
                self.touched.add((node.name, index))

    def _after_update(self, node):
        trouble = node.compute.process.trouble
        # Nova may have begun it anew after a conflict.
        self.placement.end_update(interrupted=trouble and trouble.done)
        for row in self.rows(node):
            index = slot_of(row)
            key = (node.name, index)
            if (
                self.placement.holders(row.uuid)
                and self.offered(node, index)
                and node.compute.is_once(index)
            ):
                self.used.add(key)
                self.touched.add(key)
            if not row.reserved:
                self.released.discard(key)

    def note_allocations(self):
        """Note what was allocated: an update may burn it at any time."""
        for node in self.nodes:
            for row in self.rows(node):
                if self.placement.holders(row.uuid):
                    self.touched.add((node.name, slot_of(row)))

    def forget(self, row):
        """Note that a provider is gone with all that was set on it."""
        self.reserved.discard(row.uuid)
        self.set_traits.pop(row.uuid, None)
        self.set_aggregates.pop(row.uuid, None)

    def delete_service(self, node):
        """Delete a compute service as Nova does: providers go with it."""
        for instance in self.instances:
            self._free(instance, node)
        for row in [*self.placement.below(node.root)]:
            self.foreign.pop(row.uuid, None)
            self.forget(row)
            del self.placement.rows[row.uuid]
        del self.placement.rows[node.root]

    # What a slot is, by what the last reading of the host has shown

    def view(self, node, index):
        """Give a slot as the process read it last, or None."""
        return node.compute.services.host.last.view.slot(index)

    def offered(self, node, index):
        """Give the paragraph that offers a slot now, or None.

        What instances hold is offered; their providers are allocated.
        """
        slot = self.view(node, index)
        if slot is None or slot.is_empty or slot.sriov:
            return None
        if not self.is_free(node, slot) and not self._is_rightful(node, slot):
            return None
        return node.compute.planned.get(index)

    def is_free(self, node, slot):
        """Whether a slot that was read has no owner any more.

        The reading may be older than an LPAR's end.
        """
        return slot.owner is None or (
            slot.owner.uuid is not None
            and slot.owner.uuid not in node.host.lpars
        )

    def _is_rightful(self, node, slot):
        instance = next(
            (i for i in self.instances if i.lpar == slot.owner.uuid), None
        )
        return instance is not None and slot.drc_index in self.allocated(
            instance, node
        )

    # What holds always

    def check(self):
        """Check what holds after every step."""
        for node in self.nodes:
            rows = self.rows(node)
            self._check_burns(node, rows)
            self._check_holders(node, rows)
            self._check_lpars(node)
        self._check_operators()

    def _check_burns(self, node, rows):
        for row in rows:
            if (node.name, slot_of(row)) in self.used:
                self.require(
                    not self.placement.has_room(row),
                    'a used device is not offered',
                    row,
                )

    def _check_holders(self, node, rows):
        held = {}
        for row in rows:
            for consumer in self.placement.holders(row.uuid):
                held.setdefault(slot_of(row), set()).add(consumer)
                given = self.placement.allocations[consumer][row.uuid]
                self.require(
                    given.keys() <= row.inventory.keys(),
                    'an allocated class stays',
                    row,
                )
        for index, consumers in held.items():
            self.require(
                len(consumers) == 1,
                'a slot is allocated once',
                node.name,
                f'{index:X}',
                consumers,
            )

    def _check_lpars(self, node):
        for instance in self.instances:
            owned = node.host.slots_of(instance.lpar)
            if instance.state == 'active' and instance.node is node:
                self.require(
                    owned <= self.allocated(instance, node),
                    'an instance has only what it was allocated',
                    instance,
                    owned,
                )

    def _check_operators(self):
        rows = self.placement.rows
        for uuid in self.reserved & rows.keys():
            self.require(
                rows[uuid].reserved, 'a reserve of an operator stays', uuid
            )
        for uuid in self.set_traits.keys() & rows.keys():
            self.require(
                self.set_traits[uuid] <= rows[uuid].traits,
                'a trait of an operator stays',
                rows[uuid],
            )
        for uuid in self.set_aggregates.keys() & rows.keys():
            self.require(
                self.set_aggregates[uuid] == rows[uuid].aggregates,
                'aggregates of an operator stay',
                rows[uuid],
            )
        for uuid, state in self.foreign.items():
            self.require(
                uuid in rows and rows[uuid].state == state,
                'a foreign provider is untouched',
                uuid,
            )
