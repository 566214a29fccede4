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

"""From offered devices and existing providers to a plan."""

import dataclasses
import unittest

import ddt

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import plan as plans
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.devices.plan import Action
from tests.unit.devices import values
from tests.unit.devices.values import INDEX
from tests.unit.devices.values import NAME
from tests.unit.devices.values import device
from tests.unit.devices.values import name_of
from tests.unit.devices.values import provider
from tests.unit.devices.values import record

WITHDRAWN = names.WITHDRAWN_TRAIT
ONCE = names.ONE_TIME_USE_TRAIT
SHORT = 'PowerVM IOSlot 21010020'
OWNED = slots.Reason('owned', 'it is owned by VIOS vios1')


def make_plan(devices=(), providers=(), consumers=None, reasons=None, held=()):
    """Plan with what Placement says about each provider's name.

    :param consumers: Name of a provider to its consumers, which hold all of
        its classes unless they say which.
    """
    classes = {p.name: frozenset(p.inventory) for p in providers}
    answers = {
        f'uuid of {name}': found
        if isinstance(found, dict)
        else {consumer: classes.get(name, ()) for consumer in found}
        for name, found in (consumers or {}).items()
    }
    return values.make_plan(
        devices,
        providers,
        slot_providers.Allocations(answers),
        [
            matching.Verdict(slots.Slot(index), (), reason)
            for index, reason in (reasons or {}).items()
        ],
        held,
    )


def only_entry(*args, **kwargs):
    (entry,) = make_plan(*args, **kwargs).entries
    return entry


class PublishTest(unittest.TestCase):
    def test_plan_creates_provider_for_new_device(self):
        entry = only_entry([device()])
        self.assertEqual(
            plans.Entry(
                action=Action.CREATE,
                drc_index=INDEX,
                name=NAME,
                uuid=None,
                inventory={'CUSTOM_GPU': record()},
                traits=frozenset({'OWNER_NOVA'}),
            ),
            entry,
        )
        self.assertEqual(('CUSTOM_GPU',), entry.resource_classes)

    def test_plan_publishes_existing_provider(self):
        entry = only_entry([device()], [provider(classes=())])
        self.assertEqual(Action.PUBLISH, entry.action)
        self.assertEqual(f'uuid of {NAME}', entry.uuid)
        self.assertEqual({'CUSTOM_GPU': record()}, entry.inventory)

    def test_plan_adopts_provider_with_short_name(self):
        entry = only_entry([device()], [provider(SHORT)])
        self.assertEqual((Action.PUBLISH, SHORT), (entry.action, entry.name))

    def test_plan_keeps_inventory_while_allocated(self):
        entry = only_entry([device()], [provider()], {NAME: ['instance']})
        self.assertEqual(Action.PUBLISH, entry.action)
        self.assertEqual({'CUSTOM_GPU': record()}, entry.inventory)

    def test_plan_keeps_reservation_of_operator(self):
        entry = only_entry([device()], [provider(reserved=1)])
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)

    def test_plan_offers_withdrawn_device_again(self):
        entry = only_entry(
            [device()], [provider(reserved=1, traits=[WITHDRAWN])]
        )
        self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)
        self.assertEqual({'OWNER_NOVA'}, entry.traits)

    def test_plan_limits_reserved_to_total(self):
        entry = only_entry([device()], [provider(reserved=4)])
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)

    def test_plan_accepts_record_without_reserved(self):
        there = slot_providers.Provider(
            'u', NAME, {'CUSTOM_GPU': {'total': 1}}
        )
        entry = only_entry([device()], [there])
        self.assertEqual({'CUSTOM_GPU': record()}, entry.inventory)

    def test_plan_replaces_traits_of_provider(self):
        old = ['CUSTOM_POWERVM_IOSLOT_CLASS_0200', 'CUSTOM_BY_HAND']
        new = ['CUSTOM_POWERVM_IOSLOT_CLASS_0302', 'OWNER_NOVA']
        entry = only_entry([device(traits=new)], [provider(traits=old)])
        self.assertEqual({*new}, entry.traits)


@ddt.ddt
class ResourceClassChangeTest(unittest.TestCase):
    """The file gives a device another resource class."""

    def test_plan_changes_class_of_free_provider(self):
        entry = only_entry(
            [device()], [provider(classes=['CUSTOM_OLD'])], {NAME: []}
        )
        self.assertEqual(Action.PUBLISH, entry.action)
        self.assertEqual(('CUSTOM_GPU',), entry.resource_classes)

    def test_plan_keeps_reservation_when_class_changes(self):
        there = provider(classes=['CUSTOM_OLD'], reserved=1)
        for held in ([], ['instance']):
            entry = only_entry([device()], [there], {NAME: held})
            (kept,) = entry.inventory.values()
            self.assertEqual(record(1), kept)

    @ddt.named_data(
        ['allocated', {NAME: ['b', 'a']}, ('a', 'b')],
        ['unknown', {}, ()],
    )
    def test_plan_keeps_class_of_allocated_or_unknown_provider(
        self, consumers, expected
    ):
        entry = only_entry(
            [device()], [provider(classes=['CUSTOM_OLD'])], consumers
        )
        self.assertEqual(Action.KEEP_CLASS, entry.action)
        self.assertEqual({'CUSTOM_OLD': record()}, entry.inventory)
        self.assertEqual(expected, entry.consumers)
        self.assertEqual({'OWNER_NOVA'}, entry.traits)
        self.assertIn('stays CUSTOM_OLD', entry.reason)
        self.assertIn('becomes CUSTOM_GPU', entry.reason)

    def test_plan_keeps_allocated_classes_only(self):
        there = provider(classes=['CUSTOM_GPU', 'CUSTOM_OLD'])
        for held, kept in (
            (['CUSTOM_GPU'], ('CUSTOM_GPU',)),
            (['CUSTOM_OLD'], ('CUSTOM_OLD',)),
            (['CUSTOM_GPU', 'CUSTOM_OLD'], ('CUSTOM_GPU', 'CUSTOM_OLD')),
        ):
            entry = only_entry([device()], [there], {NAME: {'i': held}})
            self.assertEqual(kept, entry.resource_classes)

    def test_plan_keeps_record_of_old_class_unchanged(self):
        old = record() | {'total': 5, 'max_unit': 3}
        there = slot_providers.Provider(
            f'uuid of {NAME}', NAME, {'CUSTOM_OLD': old}
        )
        entry = only_entry([device()], [there], {NAME: ['instance']})
        self.assertEqual({'CUSTOM_OLD': old}, entry.inventory)

    def test_plan_drops_second_class_of_free_provider(self):
        there = provider(classes=['CUSTOM_GPU', 'CUSTOM_OLD'])
        entry = only_entry([device()], [there], {NAME: []})
        self.assertEqual(('CUSTOM_GPU',), entry.resource_classes)


@ddt.ddt
class OrphanTest(unittest.TestCase):
    """A provider of ours stands for no device that is offered."""

    @ddt.named_data(
        ['tuple', ()],
        ['list', []],
        ['set', set()],
        ['frozen set', frozenset()],
        ['keys', {}.keys()],
    )
    def test_plan_deletes_free_orphan(self, nobody):
        entry = only_entry([], [provider()], {NAME: nobody})
        self.assertEqual(Action.DELETE, entry.action)
        self.assertEqual(f'uuid of {NAME}', entry.uuid)
        self.assertEqual({}, entry.inventory)

    def test_deletion_states_reason(self):
        known = only_entry([], [provider()], {NAME: []}, {INDEX: OWNED})
        self.assertEqual(OWNED.text, known.reason)
        gone = only_entry([], [provider()], {NAME: []})
        self.assertEqual('the host no longer reports the slot', gone.reason)

    @ddt.named_data(
        ['allocated', {NAME: ['instance']}, ('instance',)],
        ['unknown', {}, ()],
    )
    def test_plan_withdraws_allocated_or_unknown_orphan(
        self, consumers, expected
    ):
        entry = only_entry([], [provider()], consumers, {INDEX: OWNED})
        self.assertEqual(
            plans.Entry(
                action=Action.WITHDRAW,
                drc_index=INDEX,
                name=NAME,
                uuid=f'uuid of {NAME}',
                inventory={'CUSTOM_GPU': record(0)},
                traits=frozenset({WITHDRAWN}),
                reason=OWNED.text,
                consumers=expected,
            ),
            entry,
        )
        # The reserve is raised once the trait is there.
        marked = provider(traits=[WITHDRAWN])
        entry = only_entry([], [marked], consumers, {INDEX: OWNED})
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        self.assertEqual({WITHDRAWN}, entry.traits)

    def test_plan_keeps_withdrawn_orphan_reserved(self):
        there = provider(reserved=1, traits=[WITHDRAWN, 'CUSTOM_A'])
        entry = only_entry([], [there])
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        self.assertEqual({WITHDRAWN, 'CUSTOM_A'}, entry.traits)

    def test_plan_does_not_mark_orphan_reserved_by_operator(self):
        there = provider(reserved=1, traits=['CUSTOM_A'])
        entry = only_entry([], [there])
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        self.assertEqual({'CUSTOM_A'}, entry.traits)

    def test_plan_keeps_free_orphan_reserved_by_operator(self):
        entry = only_entry((), [provider(reserved=1)], {NAME: []})
        self.assertEqual(Action.WITHDRAW, entry.action)
        self.assertNotIn(WITHDRAWN, entry.traits)
        self.assertIn('operator has reserved it', entry.reason)

    def test_plan_keeps_orphan_reserved_since_last_reading(self):
        plan = values.make_plan(
            (),
            [provider()],
            slot_providers.Allocations(
                {f'uuid of {NAME}': {}}, [f'uuid of {NAME}']
            ),
        )
        (entry,) = plan.entries
        self.assertEqual(Action.WITHDRAW, entry.action)
        self.assertNotIn(WITHDRAWN, entry.traits)
        # Nova's copy differs from Placement, and so nothing is written.
        self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)

    def test_plan_withdraws_all_classes_of_orphan(self):
        there = provider(classes=['CUSTOM_A', 'CUSTOM_B'], traits=[WITHDRAWN])
        entry = only_entry([], [there])
        self.assertEqual(
            {'CUSTOM_A': record(1), 'CUSTOM_B': record(1)}, entry.inventory
        )

    def test_plan_withdraws_orphan_without_inventory(self):
        entry = only_entry([], [provider(classes=())])
        self.assertEqual(Action.WITHDRAW, entry.action)
        self.assertEqual({}, entry.inventory)


class PairTest(unittest.TestCase):
    def test_pair_ignores_foreign_providers(self):
        pairing = slot_providers.pair(
            [device()],
            [
                provider('host1_0000:81:00.0'),
                provider('PowerVM PF 1'),
                # These end like the name of the device's provider.
                provider(f'PowerVM PF {INDEX:08X}'),
                provider(f'PowerVM Cyborg IOSlot host1 {INDEX:08X}'),
                provider(f'host1 {INDEX:08X}'),
            ],
        )
        self.assertEqual(
            slot_providers.Pairing(((device(), None),), ()), pairing
        )

    def test_plan_publishes_longer_of_two_names_for_slot(self):
        for order in (1, -1):
            plan = make_plan(
                [device()],
                [provider(), provider(SHORT)][::order],
                {SHORT: []},
            )
            self.assertEqual(
                [(Action.PUBLISH, NAME), (Action.DELETE, SHORT)],
                [(entry.action, entry.name) for entry in plan.entries],
            )
            self.assertIn('another provider', plan.entries[1].reason)

    def test_plan_withdraws_both_providers_while_one_is_allocated(self):
        plan = make_plan(
            [device()],
            [provider(SHORT), provider()],
            {SHORT: ['instance'], NAME: []},
        )
        self.assertEqual(
            [(Action.WITHDRAW, NAME), (Action.WITHDRAW, SHORT)],
            [(entry.action, entry.name) for entry in plan.entries],
        )
        for entry in plan.entries:
            self.assertEqual({WITHDRAWN}, entry.traits)

    def test_plan_handles_two_providers_of_removed_slot_separately(self):
        plan = make_plan(
            [], [provider(), provider(SHORT)], {NAME: [], SHORT: ['i']}
        )
        self.assertEqual(
            {NAME: Action.DELETE, SHORT: Action.WITHDRAW},
            {entry.name: entry.action for entry in plan.entries},
        )

    def test_questionable_are_orphans_and_providers_with_other_class(self):
        fine = provider(name_of(1))
        reclassed = provider(name_of(2), classes=['CUSTOM_OLD'])
        fresh = provider(name_of(3), classes=())
        orphan = provider(name_of(4))
        pairing = slot_providers.pair(
            [device(1), device(2), device(3), device(5)],
            [fine, reclassed, fresh, orphan],
        )
        self.assertEqual((orphan, reclassed), pairing.undecided)

    def test_plan_lists_devices_before_orphans(self):
        plan = make_plan(
            [device(7), device(5)],
            [provider(name_of(9)), provider(name_of(5))],
            {name_of(9): []},
        )
        self.assertEqual(
            [
                (Action.CREATE, 7),
                (Action.PUBLISH, 5),
                (Action.DELETE, 9),
            ],
            [(entry.action, entry.drc_index) for entry in plan.entries],
        )
        self.assertEqual(
            plan.entries[:2], plan.entries_with(*list(Action)[:2])
        )
        self.assertEqual((), plan.entries_with(Action.WITHDRAW))

    def test_plan_without_devices_and_providers_is_empty(self):
        self.assertEqual(plans.Plan(), make_plan())


def once(**changes):
    """Give a device that is for one use."""
    return dataclasses.replace(
        device(traits=['OWNER_NOVA', ONCE], **changes), one_time_use=True
    )


@ddt.ddt
class OneTimeUseTest(unittest.TestCase):
    """A plan burns nothing; it repairs what LPARs of instances hold."""

    def test_plan_creates_provider_unburned(self):
        entry = only_entry([once()])
        self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)
        self.assertIn(ONCE, entry.traits)

    def test_plan_burns_nothing_for_allocation(self):
        entry = only_entry(
            [once()], [provider(traits=[ONCE])], {NAME: ['instance']}
        )
        self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)

    @ddt.named_data(
        ['made_anew', ()],
        ['released_in_use', [provider(traits=[ONCE])]],
        ['flagged_in_use', [provider()]],
        ['flagged_while_withdrawn', [provider(traits=[WITHDRAWN])]],
    )
    def test_plan_burns_device_that_lpar_holds(self, providers):
        entry = only_entry([once()], providers, held=[INDEX])
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        self.assertEqual({'OWNER_NOVA', ONCE}, entry.traits)
        self.assertTrue(entry.burned)

    def test_plan_does_not_burn_reusable_device_that_lpar_holds(self):
        entry = only_entry([device()], [provider()], held=[INDEX])
        self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)

    def test_plan_keeps_burned_device_burned_without_flag(self):
        there = provider(reserved=1, traits=[ONCE])
        entry = only_entry([once()], [there])
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        # ... whatever becomes of the flag: the trait goes with the burn.
        entry = only_entry([device()], [there])
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        self.assertIn(ONCE, entry.traits)
        entry = only_entry([device()], [provider(traits=[ONCE])])
        self.assertNotIn(ONCE, entry.traits)

    def test_plan_does_not_take_withdrawal_for_burn(self):
        there = provider(reserved=1, traits=[WITHDRAWN])
        entry = only_entry([once()], [there])
        self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)
        self.assertEqual({'OWNER_NOVA', ONCE}, entry.traits)

    def test_plan_withdraws_without_burning(self):
        for consumers in ({NAME: ['instance']}, {}):
            entry = only_entry([], [provider(traits=[ONCE])], consumers)
            self.assertEqual(Action.WITHDRAW, entry.action)
            self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)
            self.assertEqual({ONCE}, entry.traits)

    def test_plan_keeps_burned_orphan(self):
        there = provider(reserved=1, traits=[ONCE])
        for reserved in (there, provider(traits=[ONCE])):
            plan = values.make_plan(
                (),
                [reserved],
                slot_providers.Allocations({there.uuid: {}}, [there.uuid]),
            )
            (entry,) = plan.entries
            self.assertEqual(Action.WITHDRAW, entry.action)
            self.assertIn('was used once', entry.reason)
            self.assertEqual(reserved.inventory, entry.inventory)
            self.assertEqual({ONCE}, entry.traits)

    def test_plan_deletes_unburned_free_orphan(self):
        entry = only_entry([], [provider(traits=[ONCE])], {NAME: []})
        self.assertEqual(Action.DELETE, entry.action)

    def test_plan_burns_withheld_device_that_lpar_holds(self):
        paragraph = dataclasses.replace(values.paragraph(), one_time_use=True)
        verdict = matching.Verdict(slots.Slot(INDEX), (paragraph,), OWNED)
        for traits in ([], [ONCE], [WITHDRAWN]):
            plan = values.make_plan(
                (),
                [provider(traits=traits)],
                slot_providers.Allocations({f'uuid of {NAME}': {}}),
                [verdict],
                [INDEX],
            )
            (entry,) = plan.entries
            self.assertEqual(Action.WITHDRAW, entry.action)
            self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
            self.assertEqual({ONCE}, entry.traits)

    def test_plan_burns_both_providers_of_slot_that_lpar_holds(self):
        plan = make_plan(
            [once()],
            [provider(SHORT, traits=[ONCE]), provider(traits=[ONCE])],
            {SHORT: ['instance'], NAME: []},
            held=[INDEX],
        )
        for entry in plan.entries:
            self.assertEqual(Action.WITHDRAW, entry.action)
            self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)


class AdditionsTest(unittest.TestCase):
    """Nova's provider.yaml adds to a slot's provider."""

    ADDED = slot_providers.Additions(
        frozenset({'CUSTOM_BY_NOVA'}), frozenset({'CUSTOM_HELD', ONCE})
    )

    def test_without_additions_removes_additions_by_name_or_uuid(self):
        there = provider(
            classes=['CUSTOM_GPU', 'CUSTOM_BY_NOVA'],
            traits=['CUSTOM_HELD', 'CUSTOM_OTHER', ONCE],
        )
        for which in (there.name, there.uuid):
            left = slot_providers.remove_additions(there, {which: self.ADDED})
            self.assertEqual({'CUSTOM_GPU': record()}, left.inventory)
            # What only the driver sets is its own.
            self.assertEqual({'CUSTOM_OTHER', ONCE}, left.traits)
        self.assertIs(
            there, slot_providers.remove_additions(there, {'x': self.ADDED})
        )
