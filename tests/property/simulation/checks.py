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

"""Invariants after a successful cycle and after a quiet time."""

import os_traits

from nova_powervm.devices import names
from tests.property.simulation import cloud
from tests.property.simulation import placement
from tests.property.simulation import world as worlds


def after_cycle(world, node):
    """Check a host after an undisturbed cycle.

    :param world: The :class:`.world.World`.
    :param node: Node of the host.
    """
    world.after_undisturbed_update(node)
    for row in world.rows(node):
        index = worlds.slot_of(row)
        held = world.placement.holders(row.uuid)
        paragraph = world.offered(node, index)
        if world.shows_other_card(node, row):
            world.require(
                worlds.REPLACED in row.traits
                and placement.QUARANTINED in row.traits
                and not world.placement.has_room(row),
                'a device of another card is in quarantine',
                node.name,
                row,
            )
            world.note_replaced(row)
        # A withdrawn provider is marked first, and reserved a cycle later.
        if (
            world.placement.has_room(row)
            and names.WITHDRAWN_TRAIT not in row.traits
            and row.uuid not in world.quarantined
        ):
            _check_offer(world, node, row, paragraph)
        if (node.name, index) in world.used and row.inventory:
            world.require(
                row.reserved, 'a used device is burned', node.name, row
            )
        if held and paragraph is None:
            world.require(
                row.reserved
                or not {names.WITHDRAWN_TRAIT, worlds.ONCE}.isdisjoint(
                    row.traits
                ),
                'what is allocated and not offered is withdrawn',
                node.name,
                row,
            )
    reading = node.compute.host.reader.last_or_read()
    world.require(reading.system == node.host.system(), 'the host was read')
    for each, instance in world.stale_lpars():
        owned = node.host.slots_of(instance.lpar)
        # The host does not tell who owns a slot that it does not report.
        if each is node and any(node.host.slots[i].reported for i in owned):
            world.require(
                instance.lpar in reading.stale_lpars,
                'a stale LPAR is found',
                node.name,
                instance,
            )


def _check_offer(world, node, row, paragraph):
    slot = world.view(node, worlds.slot_of(row))
    world.require(
        paragraph is not None and world.is_free(node, slot),
        'only free slots of the file are offered',
        node.name,
        row,
        slot,
        world.instances,
    )
    world.require(
        row.offer.keys() == {paragraph.resource_class},
        'the class is that of the file',
        row,
    )
    expected = paragraph.traits | {
        os_traits.OWNER_NOVA,
        f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{slot.drc_hex}',
        f'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_{slot.vendor_id:04X}',
    }
    if paragraph.once:
        expected |= {worlds.ONCE}
    world.require(
        expected <= row.traits, 'the traits are there', row, expected
    )
    unexpected = {
        trait for trait in row.traits if not names.is_slot_trait(trait)
    } - expected
    # Nova may not have read it since.
    unexpected -= world.set_traits.get(row.uuid, set())
    if row.name == names.provider_name(node.name, cloud.ADDED_TO):
        world.require(
            cloud.ADDED_TRAIT in row.traits
            and placement.ADDED_CLASS in row.inventory,
            'what Nova adds is there',
            row,
        )
        unexpected -= {cloud.ADDED_TRAIT}
    world.require(not unexpected, 'no other traits are there', row)
    generated = {t for t in row.traits if names.is_slot_trait(t)}
    world.require(
        generated == names.generated_traits(slot),
        'the traits are of what is in the slot',
        row,
    )


def after_quiet(world, node):
    """Check a host after some cycles without changes."""
    for row in world.rows(node):
        # Nova has read all providers, so these are gone.
        world.set_traits.pop(row.uuid, None)
    writes = world.placement.writes
    before = {u: r.state for u, r in world.placement.rows.items()}
    went_well = world.cycle(node)
    world.require(
        went_well
        and world.placement.writes == writes
        and before == {u: r.state for u, r in world.placement.rows.items()},
        'a second update is empty',
        node.name,
    )
    after_cycle(world, node)
    for row in world.rows(node):
        world.require(
            row.reserved
            or not row.offer
            or (
                names.WITHDRAWN_TRAIT not in row.traits
                and row.uuid not in world.quarantined
            ),
            'what is withdrawn or in quarantine is reserved in the end',
            row,
        )
    rows = {}
    for row in world.rows(node):
        rows.setdefault(worlds.slot_of(row), []).append(row)
    for index in node.host.slots:
        _check_slot(world, node, index, rows.get(index, []))


def _check_slot(world, node, index, rows):
    key = (node.name, index)
    if world.offered(node, index) is None:
        for row in rows:
            world.require(
                row.reserved
                or not row.offer
                or (
                    worlds.ONCE in row.traits
                    and world.placement.holders(row.uuid)
                ),
                'no provider is left behind',
                row,
            )
        return
    world.require(
        any(
            world.placement.has_room(row)
            or world.placement.holders(row.uuid)
            or row.uuid in world.reserved
            or row.uuid in world.quarantined
            or key in world.used | world.touched
            for row in rows
        ),
        'what is free is offered',
        node.name,
        f'{index:X}',
        rows,
    )
