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

"""The expected state, kept without the driver: used, reserved, held."""

import os_traits
from nova.compute import task_states

from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.virt import instance_records
from tests.property.simulation import cleaning
from tests.property.simulation import moves
from tests.property.simulation import placement
from tests.property.simulation import storage

ONCE = os_traits.HW_PCI_ONE_TIME_USE
#: Of each card here, as long as the host reports it.
_DEVICE_TRAIT = 'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB6'
_CLASS_TRAIT = 'CUSTOM_POWERVM_IOSLOT_CLASS_0302'
_PLACE = 'CUSTOM_POWERVM_IOSLOT_DRC_NAME_'
REPLACED = 'CUSTOM_POWERVM_QUARANTINED_REPLACED'


def slot_of(row):
    """Return the DRC index of a slot's provider, or None."""
    return names.slot_of_provider(row.name)


def _is_at(row, place):
    """Return whether a provider is for a slot at a place, or anywhere."""
    trait = _PLACE + place.replace('-', '_')
    return trait in row.traits or not any(
        each.startswith(_PLACE) for each in row.traits
    )


def _is_settled(instance):
    """Return whether no move of an instance goes on, whatever its status."""
    return instance.context is None and (instance.state, instance.task) in (
        ('active', None),
        ('error', None),
    )


class World(moves.Moves):
    """Nova, with a record of what has to hold.

    :param directory: Directory of the hosts' files.
    """

    def __init__(self, directory):
        super().__init__(directory, self._before_give, self._after_update)
        self.placement.before_raise = self._before_raise
        # Pairs of node and DRC index used since the last release.
        self.used = set()
        # Pairs burned since then, whether used or not.
        self.touched = set()
        # Pairs released since the last update that was not disturbed.
        self.released = set()
        # Uuids of the providers that an operator has reserved.
        self.reserved = set()
        # Uuid to the traits that an operator has set, which go, and to the
        # aggregates, which stay.
        self.set_traits = {}
        # Providers in quarantine, with their marks.
        self.quarantined = {}
        # Uuid of a provider to the vendor of the card that it was made for.
        self.cards = {}
        self.set_aggregates = {}
        self.cleaning = cleaning.Cleaning(self)
        # Uuid of a provider that is not ours to what it is.
        self.foreign = {}
        # Number of checks by name.
        self.checked = {}

    def require(self, condition, what, *details):
        """Check an invariant and count it."""
        self.checked[what] = self.checked.get(what, 0) + 1
        if not condition:
            raise placement.Wrong(f'{what}: {details}')

    def rows(self, node):
        """Return the slot providers of a node."""
        return [
            row
            for row in self.placement.below(node.root)
            if slot_of(row) is not None
            and os_traits.OWNER_CYBORG not in row.traits
        ]

    def card_of(self, row):
        """Return which card a provider was made for; None if it is unknown.

        Its first vendor stays until an operator accepts another.
        """
        prefix = 'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_'
        for trait in row.traits:
            if trait.startswith(prefix):
                vendor = int(trait.removeprefix(prefix), 16)
                return self.cards.setdefault(row.uuid, vendor)
        return None

    def shows_other_card(self, node, row):
        """Return whether the slot of a provider shows another card.

        As the process last read it.
        """
        slot = self.view(node, slot_of(row))
        known = self.card_of(row)
        return (
            known is not None
            and slot is not None
            and not slot.is_empty
            and not self._is_twice(node, slot)
            and _is_at(row, slot.drc_name)
            and slot.vendor_id != known
        )

    def is_elsewhere(self, node, row):
        """Return whether a slot is at another place than its provider's."""
        slot = node.host.system().slot(slot_of(row))
        return slot is not None and not _is_at(row, slot.drc_name)

    def hides_card(self, slot, row):
        """Return whether a slot leaves open which card of a provider it is."""
        return (
            not _is_at(row, slot.drc_name)
            or (slot.device_id is None and _DEVICE_TRAIT in row.traits)
            or (
                slot.pci_class == slots.EMPTY_ID and _CLASS_TRAIT in row.traits
            )
        )

    def _is_twice(self, node, slot):
        """Return whether the host reported a slot twice when it was read."""
        system = node.compute.host.reader.last_or_read().system
        indexes = [each.drc_index for each in system.io_slots]
        return indexes.count(slot.drc_index) > 1

    def allocated(self, instance, node):
        """Return the DRC indexes that an instance was allocated on a node.

        What its moves hold there counts, too.
        """
        consumers = instance, *self.database.of(instance)
        return self._allocated_to(consumers, instance, node)

    def _allocated_to(self, consumers, instance, node):
        held = {
            uuid
            for consumer in consumers
            for uuid in self.placement.allocations.get(consumer.uuid, ())
        }
        return {slot_of(r) for r in self.rows(node) if r.uuid in held} | {
            request.drc_index for request in instance.requests
        }

    def held(self, instance):
        """Return the DRC indexes that an instance holds itself on its host."""
        return self._allocated_to([instance], instance, instance.node)

    def recorded(self, instance):
        """Return the DRC indexes that Nova records for an instance.

        Its claim records none if Placement did not answer then.
        """
        if instance.resources is None:
            return self.held(instance)
        stored = instance_records.stored_slots(instance.resources)
        return {provider.drc_index for provider in stored.values()} | {
            request.drc_index for request in instance.requests
        }

    def _moved(self, instance, node):
        """Return the DRC indexes that the present move has on a node."""
        if instance.context is None:
            return set()
        (move,) = (
            migration
            for migration in self.database.of(instance)
            if migration.number == instance.context.migration_id
        )
        sides = (
            (move.source, instance.context.old_resources),
            (move.target, instance.context.new_resources),
        )
        return {
            provider.drc_index
            for end, resources in sides
            if end is node
            for provider in instance_records.stored_slots(resources).values()
        }

    def stale_lpars(self):
        """Return each stale LPAR, after its host."""
        return [
            (node, instance)
            for node in self.nodes
            for instance in self.instances
            if instance.lpar in node.host.lpars
            and instance.state != 'gone'
            and instance.node not in (None, node)
            and (
                _is_settled(instance)
                or not any(
                    node in (migration.source, migration.target)
                    for migration in self.database.of(instance)
                    if not migration.is_ended
                )
            )
        ]

    def share_disks(self):
        """Let all hosts have their disks in one pool."""
        pool = storage.Store(is_shared=True)
        for node in self.nodes:
            pool.join(node.host)

    # Records of changes

    def _before_give(self, node, uuid, indexes, freed):
        (instance,) = (i for i in self.instances if i.lpar == uuid)
        self.require(
            freed <= self._moved(instance, node) - self.recorded(instance),
            'an LPAR gives up what a move takes from it only',
            instance,
            freed,
        )
        self.require(
            indexes <= self.allocated(instance, node),
            'an LPAR gets what is allocated to its instance',
            instance,
            indexes,
        )
        for index in indexes:
            rows = [r for r in self.rows(node) if slot_of(r) == index]
            if node.compute.is_once(index):
                self.require(
                    rows and all(r.reserved for r in rows),
                    'burned before it is used',
                    f'{index:X}',
                )
                self.used.add((node.name, index))
                self.touched.add((node.name, index))

    def _before_raise(self, row):
        """Check the reason before nova-compute raises reserved."""
        if row.parent is None:
            # The provider of the compute node itself.
            return
        node = next(n for n in self.nodes if n.root == row.parent)
        index = slot_of(row)
        is_marked = (
            placement.WITHDRAWN in row.traits and ONCE not in row.traits
        )
        is_held = self._has_instance(node, index)
        is_served = self.served is not None and index in self.allocated(
            self.served, node
        )
        has_duplicate = any(
            (r.reserved or r.uuid in self.quarantined) and slot_of(r) == index
            for r in self.rows(node)
            if r is not row
        )
        self.require(
            is_marked
            or is_held
            or is_served
            or has_duplicate
            or row.uuid in self.quarantined
            or self.shows_other_card(node, row),
            'nothing is reserved without a cause',
            row,
        )
        if is_served or has_duplicate:
            self.touched.add((node.name, index))

    def _has_instance(self, node, index):
        """Return whether an instance's LPAR had a slot when it was read."""
        slot = self.view(node, index)
        owner = slot and slot.owner and slot.owner.uuid
        return owner in {i.lpar for i in self.instances}

    def _after_update(self, node):
        for row in self.rows(node):
            index = slot_of(row)
            if (
                node.compute.is_once(index)
                and self._has_instance(node, index)
                and (row.reserved or (node.name, index) not in self.released)
            ):
                self.used.add((node.name, index))

    def after_undisturbed_update(self, node):
        """Expect the update to have burned again what was released in use."""
        self.released -= {(node.name, slot_of(r)) for r in self.rows(node)}
        self._after_update(node)

    def forget(self, row):
        """Note that a provider was deleted, with everything set on it.

        Its burn is lost, too, as with Nova's own PCI device records.
        """
        for node in self.nodes:
            if node.root == row.parent:
                self.used.discard((node.name, slot_of(row)))
                self.touched.discard((node.name, slot_of(row)))
        self.reserved.discard(row.uuid)
        self.cleaning.forget(row)
        self.set_traits.pop(row.uuid, None)
        self.quarantined.pop(row.uuid, None)
        self.cards.pop(row.uuid, None)
        self.set_aggregates.pop(row.uuid, None)

    def delete_service(self, node):
        """Delete a compute service and its providers, as Nova does."""
        for consumer in (*self.instances, *self.database.migrations):
            self._free(consumer, node)
        for row in [*self.placement.below(node.root)]:
            self.foreign.pop(row.uuid, None)
            self.forget(row)
            del self.placement.rows[row.uuid]
        del self.placement.rows[node.root]

    # Slots as the last reading of the host shows them

    def view(self, node, index):
        """Return a slot as the process last read it, or None."""
        return node.compute.host.reader.last_or_read().system.slot(index)

    def offered(self, node, index):
        """Return the paragraph that offers a slot, or None.

        Slots of instances are offered; their providers are allocated.
        """
        slot = self.view(node, index)
        if slot is None or slot.is_empty or slot.sriov:
            return None
        if self._is_twice(node, slot) or any(
            slot_of(row) == index and self.hides_card(slot, row)
            for row in self.rows(node)
        ):
            # It may be another card.
            return None
        if not self.is_free(node, slot) and not self._is_rightful(node, slot):
            return None
        return node.compute.planned.get(index)

    def is_free(self, node, slot):
        """Return whether a slot that was read has no owner now.

        The reading may be older than the deletion of an LPAR.
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

    # Invariants of every step

    def check(self):
        """Check the invariants of every step."""
        for node in self.nodes:
            rows = self.rows(node)
            self._check_cards(node, rows)
            self._check_burns(node, rows)
            self._check_holders(node, rows)
            self._check_lpars(node)
        self._check_operators()

    def _check_cards(self, node, rows):
        for row in rows:
            known = self.card_of(row)
            self.require(
                known is None
                or f'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_{known:04X}'
                in row.traits,
                'a provider is for one card',
                row,
            )
            if REPLACED in row.traits and REPLACED not in (
                self.quarantined.get(row.uuid, ())
            ):
                shown = {
                    card
                    for place, card in node.host.shown[slot_of(row)]
                    if _is_at(row, place)
                } - {None, known}
                self.require(shown, 'only another card is replaced', row)
                self.note_replaced(row)

    def note_replaced(self, row):
        """Expect the quarantine that the service itself has begun."""
        marks = {placement.QUARANTINED, REPLACED}
        self.quarantined[row.uuid] = marks | self.quarantined.get(
            row.uuid, set()
        )
        self.reserved.discard(row.uuid)

    def _check_burns(self, node, rows):
        for row in rows:
            if (node.name, slot_of(row)) in self.used:
                self.require(
                    not self.placement.has_room(row),
                    'a used device is not offered',
                    row,
                )
            if self.cleaning.is_at(node, slot_of(row)):
                self.require(
                    not self.placement.has_room(row),
                    'a device that is being cleaned is not offered',
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
        wrong = self.stale_lpars()
        for instance in self.instances:
            owned = node.host.slots_of(instance.lpar)
            # In a revert Nova gives allocations back before the slots.
            if (
                instance.state in ('active', 'resized')
                and instance.task != task_states.RESIZE_REVERTING
                and (node, instance) not in wrong
            ):
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
        for uuid, marks in self.quarantined.items():
            self.require(
                uuid in rows and marks <= rows[uuid].traits,
                'a quarantine stays',
                uuid,
                rows.get(uuid),
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
