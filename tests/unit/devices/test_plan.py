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

from nova_powervm.devices import card_ids
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.devices.plan import Action
from tests import proofs
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
        f'uuid of {name}': holders
        if isinstance(holders, dict)
        else {consumer: classes.get(name, ()) for consumer in holders}
        for name, holders in (consumers or {}).items()
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


def once(**changes):
    """Give a device that is for one use."""
    return dataclasses.replace(
        device(traits=['OWNER_NOVA', ONCE], **changes), one_time_use=True
    )


#: What a plan makes of a device and its provider: the device, the provider,
#: what Placement says of it, and then the action, the inventory with what is
#: reserved of each class, and the traits. A device is of the class GPU.
ROWS = """
device without provider gets one: gpu | - | doubt | create GPU=0 NOVA
provider without inventory gets it: gpu | empty | doubt | publish GPU=0 NOVA
provider keeps inventory while held: gpu | GPU=0 | held | publish GPU=0 NOVA
reserve of operator stays: gpu | GPU=1 | doubt | publish GPU=1 NOVA
reserve is limited to total: gpu | GPU=4 | doubt | publish GPU=1 NOVA
other traits go: gpu | GPU=0 A | doubt | publish GPU=0 NOVA
withdrawn device comes back: gpu | GPU=1 MARK | doubt | publish GPU=0 NOVA
free provider changes class: gpu | OLD=0 | free | publish GPU=0 NOVA
reserved provider changes class: gpu | OLD=1 | free | publish GPU=1 NOVA
free provider loses second class: gpu | GPU=0 OLD=0 | free | publish GPU=0 NOVA
held provider keeps class: gpu | OLD=0 | held | keep_class OLD=0 NOVA
reserved and held one does: gpu | OLD=1 | held | keep_class OLD=1 NOVA
provider in doubt keeps class: gpu | OLD=0 | doubt | keep_class OLD=0 NOVA
free orphan goes: - | GPU=0 | free | delete
held orphan is marked: - | GPU=0 | held | withdraw GPU=0 MARK
orphan in doubt is marked: - | GPU=0 | doubt | withdraw GPU=0 MARK
marked held orphan is reserved: - | GPU=0 MARK | held | withdraw GPU=1 MARK
marked one in doubt is: - | GPU=0 MARK | doubt | withdraw GPU=1 MARK
reserved orphan stays so: - | GPU=1 MARK A | doubt | withdraw GPU=1 MARK A
orphan of operator is not marked: - | GPU=1 A | doubt | withdraw GPU=1 A
free orphan of operator stays: - | GPU=1 | free | withdraw GPU=1
orphan reserved since reading stays: - | GPU=0 | reserved | withdraw GPU=0
classes are reserved: - | GPU=0 OLD=0 MARK | doubt | withdraw GPU=1 OLD=1 MARK
orphan without inventory is marked: - | empty | doubt | withdraw MARK
one-time-use device begins unburned: once | - | doubt | create GPU=0 NOVA ONCE
allocation burns nothing: once | GPU=0 ONCE | held | publish GPU=0 NOVA ONCE
withdrawal is no burn: once | GPU=1 MARK | doubt | publish GPU=0 NOVA ONCE
device that LPAR has is burned: once | - | lpar | create GPU=1 NOVA ONCE
device released in use is: once | GPU=0 ONCE | lpar | publish GPU=1 NOVA ONCE
device flagged in use is burned: once | GPU=0 | lpar | publish GPU=1 NOVA ONCE
device flagged with mark is: once | GPU=0 MARK | lpar | publish GPU=1 NOVA ONCE
reusable device of LPAR is not burned: gpu | GPU=0 | lpar | publish GPU=0 NOVA
held orphan is withdrawn unburned: - | GPU=0 ONCE | held | withdraw GPU=0 ONCE
orphan in doubt is, too: - | GPU=0 ONCE | doubt | withdraw GPU=0 ONCE
burned orphan stays: - | GPU=1 ONCE | reserved | withdraw GPU=1 ONCE
orphan burned since stays: - | GPU=0 ONCE | reserved | withdraw GPU=0 ONCE
unburned free orphan goes: - | GPU=0 ONCE | free | delete
"""
_TRAITS = {
    'NOVA': 'OWNER_NOVA',
    'ONCE': ONCE,
    'MARK': WITHDRAWN,
    'A': 'CUSTOM_A',
}


def described(words):
    """Return the inventory and the traits that words describe."""
    inventory, traits = {}, set()
    for word in words.split():
        name, is_class, reserved = word.partition('=')
        if is_class:
            inventory[f'CUSTOM_{name}'] = record(int(reserved))
        elif word != 'empty':
            traits.add(_TRAITS[word])
    return inventory, frozenset(traits)


@ddt.ddt
class ActionTest(unittest.TestCase):
    """What becomes of a provider, or of a device that has none."""

    @proofs.proves('D57')
    @ddt.named_data(*(line.split(': ') for line in ROWS.strip().splitlines()))
    def test_plan_is_that_of_row(self, row):
        offered, there, placement, expected = row.split(' | ')
        uuid = f'uuid of {NAME}'
        inventory, traits = described(there) if there != '-' else ({}, ())
        providers = [
            slot_providers.Provider(uuid, NAME, inventory, frozenset(traits))
        ]
        answers = {
            'doubt': {},
            'held': {uuid: {'i': frozenset(inventory)}},
        }.get(placement, {uuid: {}})

        plan = values.make_plan(
            {'gpu': [device()], 'once': [once()], '-': []}[offered],
            providers if there != '-' else [],
            slot_providers.Allocations(
                answers, [uuid] if placement == 'reserved' else []
            ),
            held=[INDEX] if placement == 'lpar' else (),
        )

        (entry,) = plan.entries
        action, _, words = expected.partition(' ')
        self.assertEqual(Action[action.upper()], entry.action)
        self.assertEqual(
            (None if there == '-' else uuid, NAME), (entry.uuid, entry.name)
        )
        self.assertEqual(described(words)[0], entry.inventory)
        if action != 'delete':
            self.assertEqual(described(words)[1], entry.traits)


class PublishTest(unittest.TestCase):
    def test_plan_adopts_short_name_and_record_without_reserved(self):
        entry = only_entry([device()], [provider(SHORT)])
        self.assertEqual((Action.PUBLISH, SHORT), (entry.action, entry.name))
        inventory = {'CUSTOM_GPU': {'total': 1}}
        there = slot_providers.Provider('u', NAME, inventory)
        entry = only_entry([device()], [there])
        self.assertEqual({'CUSTOM_GPU': record()}, entry.inventory)

    def test_reason_of_kept_class_names_both_and_consumers(self):
        entry = only_entry(
            [device()],
            [provider(classes=['CUSTOM_OLD'])],
            {NAME: ['b', 'a']},
        )
        self.assertEqual(('a', 'b'), entry.consumers)
        self.assertIn('stays CUSTOM_OLD', entry.reason)
        self.assertIn('becomes CUSTOM_GPU', entry.reason)

    def test_plan_keeps_allocated_classes_with_their_records(self):
        there = provider(classes=['CUSTOM_GPU', 'CUSTOM_OLD'])
        for held in (
            ('CUSTOM_GPU',),
            ('CUSTOM_OLD',),
            ('CUSTOM_GPU', 'CUSTOM_OLD'),
        ):
            entry = only_entry([device()], [there], {NAME: {'i': held}})
            self.assertEqual(held, entry.resource_classes)
        inventory = {'CUSTOM_OLD': record() | {'total': 5, 'max_unit': 3}}
        there = slot_providers.Provider(f'uuid of {NAME}', NAME, inventory)
        entry = only_entry([device()], [there], {NAME: ['instance']})
        self.assertEqual(inventory, entry.inventory)


@ddt.ddt
class OrphanTest(unittest.TestCase):
    """A provider of ours stands for no device that is offered."""

    @ddt.data((), [], set(), frozenset(), {}.keys())
    def test_plan_deletes_free_orphan(self, nobody):
        entry = only_entry([], [provider()], {NAME: nobody})
        self.assertEqual(Action.DELETE, entry.action)
        self.assertEqual(f'uuid of {NAME}', entry.uuid)
        self.assertEqual({}, entry.inventory)

    def test_orphan_states_reason_and_consumers(self):
        withheld = only_entry([], [provider()], {NAME: []}, {INDEX: OWNED})
        self.assertEqual(OWNED.text, withheld.reason)
        gone = only_entry([], [provider()], {NAME: []})
        self.assertEqual('the host no longer reports the slot', gone.reason)
        held = only_entry([], [provider()], {NAME: ['i']}, {INDEX: OWNED})
        self.assertEqual((OWNED.text, ('i',)), (held.reason, held.consumers))
        reserved = only_entry((), [provider(reserved=1)], {NAME: []})
        self.assertIn('operator has reserved it', reserved.reason)


class PairTest(unittest.TestCase):
    @proofs.proves('D54')
    def test_pair_ignores_foreign_providers(self):
        # Some end like the name of the device's provider.
        foreign = (
            'host1_0000:81:00.0',
            'PowerVM PF 1',
            f'PowerVM PF {INDEX:08X}',
            f'PowerVM Cyborg IOSlot host1 {INDEX:08X}',
            f'host1 {INDEX:08X}',
        )
        self.assertEqual(
            slot_providers.Pairing(((device(), None),), ()),
            slot_providers.pair([device()], list(map(provider, foreign))),
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
        both = [provider(SHORT), provider()]
        plan = make_plan([device()], both, {SHORT: ['instance'], NAME: []})
        self.assertEqual(
            [(Action.WITHDRAW, NAME), (Action.WITHDRAW, SHORT)],
            [(entry.action, entry.name) for entry in plan.entries],
        )
        for entry in plan.entries:
            self.assertEqual({WITHDRAWN}, entry.traits)
        # Those of a slot that is gone have nothing to do with each other.
        plan = make_plan([], both, {NAME: [], SHORT: ['i']})
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
        there = [provider(name_of(9)), provider(name_of(5))]
        plan = make_plan([device(7), device(5)], there, {name_of(9): []})
        self.assertEqual(
            [(Action.CREATE, 7), (Action.PUBLISH, 5), (Action.DELETE, 9)],
            [(entry.action, entry.drc_index) for entry in plan.entries],
        )
        offered = plan.entries_with(Action.CREATE, Action.PUBLISH)
        self.assertEqual(plan.entries[:2], offered)
        self.assertEqual((), plan.entries_with(Action.WITHDRAW))


class OneTimeUseTest(unittest.TestCase):
    """A plan burns nothing; it repairs what LPARs of instances hold."""

    @proofs.proves('device.one-time-use')
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

    def test_reason_of_burned_orphan_says_so(self):
        there = provider(reserved=1, traits=[ONCE])
        entry = only_entry([], [there], {NAME: []})
        self.assertIn('was used once', entry.reason)
        self.assertTrue(entry.burned)

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


FAILED = names.quarantine_trait('FAILED')
MARKS = frozenset({names.QUARANTINED_TRAIT, FAILED})


@ddt.ddt
class QuarantineTest(unittest.TestCase):
    """What was put in quarantine stays there."""

    @ddt.named_data(
        ['with_its_reserve', {'reserved': 1}],
        ['without_its_reserve', {}],
        ['in_another_class', {'classes': ['CUSTOM_OLD']}],
        ['without_inventory', {'classes': ()}],
    )
    def test_offered_device_stays_reserved_and_marked(self, there):
        entry = only_entry(
            [device()], [provider(traits=MARKS, **there)], {NAME: []}
        )
        self.assertEqual(Action.QUARANTINE, entry.action)
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        self.assertEqual({'OWNER_NOVA', *MARKS}, entry.traits)
        self.assertEqual('the device is defective', entry.reason)
        self.assertFalse(entry.burned)

    @ddt.named_data(['free', {NAME: []}], ['allocated', {NAME: ['instance']}])
    def test_orphan_is_neither_deleted_nor_withdrawn(self, consumers):
        for there in (
            provider(traits=[*MARKS, 'CUSTOM_A'], reserved=1),
            provider(traits=[*MARKS, 'CUSTOM_A', WITHDRAWN]),
        ):
            entry = only_entry([], [there], consumers, {INDEX: OWNED})
            self.assertEqual(Action.QUARANTINE, entry.action)
            self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
            self.assertEqual({'CUSTOM_A', *MARKS}, entry.traits)
            self.assertEqual(
                f'the device is defective; {OWNED.text}', entry.reason
            )

    def test_allocated_device_keeps_its_class(self):
        entry = only_entry(
            [device()],
            [provider(classes=['CUSTOM_OLD'], traits=MARKS)],
            {NAME: ['instance']},
        )
        self.assertEqual(Action.QUARANTINE, entry.action)
        self.assertEqual({'CUSTOM_OLD': record(1)}, entry.inventory)
        self.assertEqual(('instance',), entry.consumers)

    def test_mark_of_either_provider_withholds_the_slot(self):
        for marked, other in ((NAME, SHORT), (SHORT, NAME)):
            plan = make_plan(
                [device()],
                [provider(marked, traits=MARKS), provider(other)],
                {NAME: [], SHORT: []},
            )
            offered = [
                entry.name
                for entry in plan.entries
                if entry.action is not Action.DELETE
                and not any(r['reserved'] for r in entry.inventory.values())
                and WITHDRAWN not in entry.traits
            ]
            self.assertEqual([], offered)

    def test_one_time_use_device_stays_burned_after_quarantine(self):
        there = provider(traits=[ONCE, *MARKS], reserved=1)
        entry = only_entry([once()], [there])
        self.assertTrue(entry.burned)
        restored = provider(traits=[ONCE, WITHDRAWN], reserved=1)
        entry = only_entry([once()], [restored])
        self.assertEqual(Action.PUBLISH, entry.action)
        self.assertTrue(entry.burned)

    def test_restored_device_is_offered_again(self):
        entry = only_entry(
            [device()], [provider(traits=[WITHDRAWN], reserved=1)]
        )
        self.assertEqual(Action.PUBLISH, entry.action)
        self.assertEqual({'CUSTOM_GPU': record(0)}, entry.inventory)

    def test_reasons_have_words(self):
        for code in names.QUARANTINE_REASONS:
            traits = [names.QUARANTINED_TRAIT, names.quarantine_trait(code)]
            entry = only_entry([device()], [provider(traits=traits)])
            self.assertEqual(names.QUARANTINE_REASONS[code], entry.reason)


class BelievedPlacementTest(unittest.TestCase):
    """Nova's record lacks what Placement has allocated to an instance."""

    def plan(self, consumer, stale=()):
        """Plan for a slot that an LPAR owns, and a consumer has."""
        own = provider()
        assessed = plan.assess(
            plan.Facts(
                policy.Policy((values.paragraph(device_id='1EB8'),), '/inv'),
                (values.slot(owner=values.client()),),
                {values.LPAR: frozenset()},
                (own,),
                stale_lpars=dict.fromkeys(
                    stale,
                    slot_providers.StaleLpar(values.LPAR.lower(), 'host2'),
                ),
            )
        )
        held = slot_providers.Allocations(
            {own.uuid: {consumer: {'CUSTOM_GPU'}}}
        )
        (entry,) = plan.make_plan(
            plan.believe_placement(assessed, held, str.upper),
            held,
            name_of,
        ).entries
        return entry

    def test_device_of_same_instance_is_not_withdrawn(self):
        entry = self.plan(values.LPAR.lower())

        self.assertIs(plan.State.ATTACHED, entry.state)
        self.assertEqual('', entry.reason)

    def test_device_of_lpar_on_wrong_side_is_withdrawn(self):
        entry = self.plan(values.LPAR.lower(), stale=(values.LPAR,))

        self.assertIs(plan.State.WITHDRAWN, entry.state)
        self.assertIn('is on host host2', entry.reason)

    def test_device_of_another_instance_is_withdrawn(self):
        entry = self.plan(values.OTHER_LPAR.lower())

        self.assertIs(plan.State.WITHDRAWN, entry.state)
        self.assertIn('has no allocation for it', entry.reason)


OLD = names.generated_traits(values.slot(device_id=0x1DB6))
NEW = names.generated_traits(values.slot())
REPLACED = frozenset(
    {names.QUARANTINED_TRAIT, names.quarantine_trait('REPLACED')}
)
CRYPTO = policy.Paragraph('crypto', {'device_id': '1EB8'}, 'CUSTOM_CRYPTO')


def assess_and_plan(
    providers,
    *paragraphs,
    consumers=(),
    also=(),
    publishes_locations=True,
    **changes,
):
    """Plan for the slot of a GPU as it is now.

    :param consumers: Those of all providers.
    :param also: Other slots of the host.
    :param publishes_locations: What the option says.
    :param changes: Attributes of the slot.
    """
    facts = plan.Facts(
        policy.Policy(paragraphs, '/inv'),
        (values.slot(**changes), *also),
        {},
        tuple(providers),
        publishes_locations=publishes_locations,
    )
    held = {
        p.uuid: dict.fromkeys(consumers, frozenset(p.inventory))
        for p in providers
    }
    return plan.make_plan(
        plan.assess(facts), slot_providers.Allocations(held), name_of
    ).entries


def next_providers(entries):
    """Return the providers that a plan leaves."""
    return [
        slot_providers.Provider(
            entry.uuid, entry.name, entry.inventory, entry.traits
        )
        for entry in entries
        if entry.action is not Action.DELETE
    ]


@ddt.ddt
class ReplacementTest(unittest.TestCase):
    """A slot shows the ids of another card than its provider.

    A guest can write the firmware of its card. A burned one followed the ids
    that it then showed: it lost its one-time trait, and was of another class.
    """

    @ddt.named_data(
        ['burned', {'reserved': 1, 'traits': {*OLD, ONCE}}],
        ['reserved', {'reserved': 1, 'traits': OLD}],
        ['plain', {'traits': OLD}],
        ['withdrawn', {'reserved': 1, 'traits': {*OLD, WITHDRAWN}}],
        ['unused', {'traits': {*OLD, ONCE}}],
    )
    def test_known_device_goes_into_quarantine_as_it_was(self, there):
        for consumers in ((), ('instance',)):
            for paragraphs in ((), (CRYPTO,), (values.paragraph(),)):
                (entry,) = assess_and_plan(
                    [provider(**there)], *paragraphs, consumers=consumers
                )
                self.assertEqual(Action.QUARANTINE, entry.action)
                self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
                self.assertLessEqual(
                    ({*there['traits']} | REPLACED) - {WITHDRAWN}, entry.traits
                )
                self.assertNotIn(WITHDRAWN, entry.traits)
                ids = card_ids.select_traits(entry.traits)
                self.assertEqual(card_ids.select_traits(OLD), ids)
                self.assertIn('was 1DB6, and is 1EB8', entry.reason)
                self.assertEqual(
                    'device_id was 1DB6, and is 1EB8', entry.replacement
                )

    def test_lost_mark_is_set_again(self):
        # Nova has written the inventory, and was killed before the traits.
        (entry,) = assess_and_plan([provider(reserved=1, traits=OLD)], CRYPTO)
        self.assertLessEqual(REPLACED, entry.traits)

    def test_quarantine_outlasts_return_of_old_card_and_empty_slot(self):
        there = provider(reserved=1, traits=OLD | REPLACED)
        for reported in (
            {'device_id': 0x1DB6},
            {'device_id': None},
            {'vendor_id': slots.EMPTY_ID},
        ):
            (entry,) = assess_and_plan([there], values.paragraph(), **reported)
            self.assertEqual(Action.QUARANTINE, entry.action)
            self.assertLessEqual(OLD - NEW | REPLACED, entry.traits)
            self.assertEqual('', entry.replacement)

    @ddt.data(
        {},
        {'vendor_id': None, 'device_id': None},
        {'vendor_id': slots.EMPTY_ID, 'device_id': slots.EMPTY_ID},
        {'pci_class': slots.EMPTY_ID},
        {'pci_class': 0, 'revision_id': 0xFF},
        {'drc_name': 'moved', 'vendor_id': 0x1014},
    )
    def test_same_card_and_doubt_and_empty_slot_are_no_replacement(
        self, reported
    ):
        for reserved in (0, 1):
            (entry,) = assess_and_plan(
                [provider(reserved=reserved, traits=NEW)],
                values.paragraph(),
                **reported,
            )
            self.assertNotEqual(Action.QUARANTINE, entry.action)
            self.assertTrue(REPLACED.isdisjoint(entry.traits))
            self.assertEqual('', entry.replacement)

    def test_slot_that_is_reported_twice_replaces_nothing(self):
        """The last of both was compared, and a good card was lost for good.

        It was in quarantine until an operator noticed.
        """
        card, other = values.slot(), values.slot(device_id=0x1DB6)
        for first, second in ((card, other), (other, card)):
            for reserved in (0, 1):
                for traits in ({*NEW, ONCE}, {ONCE}):
                    (entry,) = assess_and_plan(
                        [provider(reserved=reserved, traits=traits)],
                        values.paragraph(),
                        consumers=['instance'],
                        also=[second],
                        device_id=first.device_id,
                    )
                    self.assertEqual(Action.WITHDRAW, entry.action)
                    self.assertEqual(traits, entry.traits)
                    self.assertEqual(
                        {'CUSTOM_GPU': record(reserved)}, entry.inventory
                    )
                    self.assertEqual('', entry.replacement)

    @ddt.named_data(
        ['burned', {'reserved': 1, 'traits': {*NEW, ONCE}}],
        ['reserved', {'reserved': 1, 'traits': NEW}],
        ['plain', {'traits': NEW}],
        ['allocated', {'traits': NEW}, ['instance']],
    )
    def test_slot_at_another_place_is_not_that_of_the_provider(
        self, there, consumers=()
    ):
        """All cards of a host were lost for good for a wrong "rest_url".

        They were in quarantine until an operator accepted them.
        """
        before = [provider(**there)]
        for reported in ({}, {'device_id': 0x1DB6}):
            for paragraphs in ((), (values.paragraph(),)):
                entries = before
                for _ in range(2):
                    entries = assess_and_plan(
                        before,
                        *paragraphs,
                        consumers=consumers,
                        drc_name='U2-P1-C2',
                        **reported,
                    )
                    before = next_providers(entries)
                (entry,) = entries
                self.assertEqual(Action.WITHDRAW, entry.action)
                self.assertEqual(bool(entry.inventory), entry.reserved)
                kept = entry.traits - {WITHDRAWN}
                self.assertEqual({*there['traits']}, kept)
                self.assertEqual('', entry.replacement)
                self.assertIn('U78CB_001_WZS0JZB_P1_C2', entry.reason)
        # It comes back with the right host, as far as it was not burned.
        entries = assess_and_plan(
            before, values.paragraph(), consumers=consumers
        )
        self.assertEqual(
            {'CUSTOM_GPU': record(there.get('reserved', 0))},
            entries[0].inventory,
        )
        self.assertNotIn(WITHDRAWN, entries[0].traits)

    def test_provider_at_another_place_is_not_hidden_by_a_second_one(self):
        elsewhere = names.generated_traits(values.slot(drc_name='U2-P1-C2'))
        entries = assess_and_plan(
            [provider(traits=elsewhere), provider(SHORT, traits=NEW)],
            values.paragraph(),
        )
        self.assertEqual(
            {Action.WITHDRAW}, {entry.action for entry in entries}
        )

    def test_card_without_a_class_is_remembered(self):
        """A guest could write the class FFFF, and other ids later.

        The slot looked empty, and the provider of a free device was deleted.
        With other ids it began anew, in another class, and was offered.
        """
        (entry,) = assess_and_plan(
            [provider(traits=OLD)],
            values.paragraph(),
            device_id=0x1DB6,
            pci_class=slots.EMPTY_ID,
        )
        self.assertEqual(Action.WITHDRAW, entry.action)
        self.assertEqual({}, entry.inventory)
        self.assertLessEqual(OLD, entry.traits)
        (entry,) = assess_and_plan(next_providers([entry]), CRYPTO)
        self.assertEqual(Action.QUARANTINE, entry.action)

    def test_id_that_was_not_known_before_proves_nothing(self):
        before = names.generated_traits(
            values.slot(subsys_vendor_id=None, subsys_device_id=None)
        )
        (entry,) = assess_and_plan(
            [provider(traits=before)], values.paragraph()
        )
        self.assertEqual(Action.PUBLISH, entry.action)
        self.assertLessEqual(NEW, entry.traits)

    def test_providers_of_one_slot_are_compared_each(self):
        for changed, other in ((NAME, SHORT), (SHORT, NAME)):
            entries = assess_and_plan(
                [
                    provider(changed, traits=OLD),
                    provider(other, traits=NEW),
                ],
                values.paragraph(),
            )
            self.assertEqual(
                {changed: Action.QUARANTINE},
                {
                    entry.name: entry.action
                    for entry in entries
                    if entry.name == changed
                },
            )
            offered = [
                entry.name
                for entry in entries
                if entry.action is not Action.DELETE
                and not entry.reserved
                and WITHDRAWN not in entry.traits
            ]
            self.assertEqual([], offered)

    def test_provider_without_ids_takes_those_of_its_slot(self):
        """It is as "restore --new-card" leaves it."""
        there = provider(reserved=1, traits=[ONCE])
        (entry,) = assess_and_plan([there], CRYPTO)
        self.assertEqual({'CUSTOM_CRYPTO': record(1)}, entry.inventory)
        self.assertLessEqual({*NEW, ONCE}, entry.traits)
        # ... also if no paragraph offers the new card.
        (entry,) = assess_and_plan([there])
        self.assertEqual(Action.WITHDRAW, entry.action)
        self.assertLessEqual(card_ids.select_traits(NEW), entry.traits)


@ddt.ddt
class FrozenTest(unittest.TestCase):
    """What is reserved stays what was burned."""

    @ddt.named_data(
        ['burned', [ONCE], ()],
        ['reserved', [], ()],
        ['burned_in_use', [ONCE], ['instance']],
    )
    def test_reserved_provider_keeps_class_and_ids(self, marks, consumers):
        traits = {*NEW, *marks}
        (entry,) = assess_and_plan(
            [provider(reserved=1, traits=traits)], CRYPTO, consumers=consumers
        )
        self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)
        self.assertEqual({'OWNER_NOVA', *traits}, entry.traits)
        self.assertIn('stays CUSTOM_GPU', entry.reason)
        self.assertIn('becomes CUSTOM_CRYPTO', entry.reason)

    def test_id_that_appears_waits_for_the_release(self):
        before = names.generated_traits(values.slot(subsys_device_id=None))
        for reserved in (1, 0):
            (entry,) = assess_and_plan(
                [provider(reserved=reserved, traits=before)], CRYPTO
            )
            self.assertEqual(not reserved, entry.traits >= NEW)

    def test_released_provider_follows_file(self):
        (entry,) = assess_and_plan([provider(traits={*NEW, ONCE})], CRYPTO)
        self.assertEqual({'CUSTOM_CRYPTO': record()}, entry.inventory)

    def test_traits_of_file_follow(self):
        gpus = values.paragraph()
        (entry,) = assess_and_plan(
            [provider(reserved=1, traits={*NEW, 'CUSTOM_OLD'})], gpus
        )
        self.assertEqual({'OWNER_NOVA', *gpus.traits, *NEW}, entry.traits)


class UnreportedTest(unittest.TestCase):
    """The host no longer reports what a provider knows of its card."""

    def test_free_device_offers_nothing_and_is_not_forgotten(self):
        for marks in ([], [ONCE]):
            once = dataclasses.replace(
                values.paragraph(), one_time_use=bool(marks)
            )
            there = provider(traits={*NEW, *marks})
            for paragraphs in ([once], [CRYPTO], []):
                entries = assess_and_plan([there], *paragraphs, device_id=None)
                (entry,) = entries
                self.assertEqual(Action.WITHDRAW, entry.action)
                self.assertEqual({}, entry.inventory)
                self.assertEqual({*NEW, *marks}, entry.traits)
                self.assertIn('no longer reports device_id', entry.reason)
            self.assertEqual(
                entries,
                assess_and_plan(next_providers(entries), device_id=None),
            )
            # It comes back by itself, as it was, and another does not.
            (entry,) = assess_and_plan(next_providers(entries), once)
            self.assertEqual(Action.PUBLISH, entry.action)
            self.assertEqual({'CUSTOM_GPU': record()}, entry.inventory)
            (entry,) = assess_and_plan(
                next_providers(entries), once, device_id=0x1DB6
            )
            self.assertEqual(Action.QUARANTINE, entry.action)

    def test_device_in_use_is_withdrawn_until_it_is_reported(self):
        entries = [provider(traits=NEW)]
        for _ in range(2):
            entries = assess_and_plan(
                next_providers(entries) if _ else entries,
                values.paragraph(),
                consumers=['instance'],
                subsys_device_id=None,
            )
            self.assertEqual(
                [Action.WITHDRAW], [entry.action for entry in entries]
            )
        (there,) = next_providers(entries)
        self.assertEqual({'CUSTOM_GPU': record(1)}, there.inventory)
        self.assertLessEqual(NEW, there.traits)
        (entry,) = assess_and_plan([there], values.paragraph())
        self.assertEqual({'CUSTOM_GPU': record()}, entry.inventory)

    def test_card_of_other_and_fewer_ids_is_no_doubt(self):
        (entry,) = assess_and_plan(
            [provider(traits=OLD)], CRYPTO, subsys_device_id=None
        )
        self.assertEqual(Action.QUARANTINE, entry.action)
        self.assertNotIn('no longer reports', entry.reason)

    def test_burned_device_stays_burned(self):
        there = provider(reserved=1, traits={*NEW, ONCE})
        (entry,) = assess_and_plan([there], CRYPTO, device_id=None)
        self.assertTrue(entry.burned)
        self.assertEqual({*NEW, ONCE}, entry.traits)


@ddt.ddt
class LocationTest(unittest.TestCase):
    """An option leaves the trait of a slot's location out."""

    PLACE = card_ids.select_place(NEW)

    def switch(self, entries, *paragraphs, to, **options):
        """Plan twice with the option, and find that one cycle suffices."""
        there = next_providers(entries)
        first = assess_and_plan(
            there, *paragraphs, publishes_locations=to, **options
        )
        again = assess_and_plan(
            next_providers(first),
            *paragraphs,
            publishes_locations=to,
            **options,
        )
        self.assertEqual(first, again)
        return first

    def test_new_provider_has_no_location(self):
        (entry,) = assess_and_plan(
            [], values.paragraph(), publishes_locations=False
        )
        self.assertEqual(
            {'OWNER_NOVA', 'CUSTOM_FAST', *NEW} - self.PLACE, entry.traits
        )

    @ddt.named_data(
        ['free', {}, (), ()],
        ['allocated', {}, (), ('instance',)],
        ['reserved', {'reserved': 1}, (), ()],
        ['unused_one_time', {}, [ONCE], ()],
        ['burned', {'reserved': 1}, [ONCE], ()],
        ['burned_in_use', {'reserved': 1}, [ONCE], ('instance',)],
        ['quarantined', {'reserved': 1}, REPLACED, ()],
        ['withdrawn', {'reserved': 1}, [WITHDRAWN], ('instance',)],
        ['of_short_name', {'name': SHORT}, (), ()],
        ['reclassed_in_use', {'classes': ['CUSTOM_OLD']}, (), ('instance',)],
    )
    def test_switch_loses_nothing_but_the_location(
        self, there, marks, consumers
    ):
        once = dataclasses.replace(
            values.paragraph(), one_time_use=ONCE in marks
        )
        for paragraphs in ((once,), (CRYPTO,), ()):
            options = {'consumers': consumers}
            before = [provider(**there, traits={*NEW, *marks})]
            for _ in range(3):
                entries = assess_and_plan(before, *paragraphs, **options)
                before = next_providers(entries)
            off = self.switch(entries, *paragraphs, to=False, **options)
            self.assertEqual(
                [
                    dataclasses.replace(e, traits=e.traits - self.PLACE)
                    for e in entries
                ],
                [*off],
            )
            on = self.switch(off, *paragraphs, to=True, **options)
            self.assertEqual(entries, on)

    def test_card_is_still_compared_without_location(self):
        there = [provider(reserved=1, traits={*OLD, ONCE} - self.PLACE)]
        (entry,) = assess_and_plan(
            there, values.paragraph(), publishes_locations=False
        )
        self.assertEqual(Action.QUARANTINE, entry.action)
        self.assertLessEqual(card_ids.select_traits(OLD), entry.traits)

    def test_location_of_slot_elsewhere_is_kept(self):
        """Only by it the slot is told from that of the provider."""
        elsewhere = names.generated_traits(values.slot(drc_name='U2-P1-C2'))
        place = card_ids.select_place(elsewhere)
        for reserved in (0, 1):
            entries = assess_and_plan(
                [provider(reserved=reserved, traits=elsewhere)],
                values.paragraph(),
                publishes_locations=False,
            )
            (entry,) = self.switch(entries, values.paragraph(), to=False)
            self.assertEqual(Action.WITHDRAW, entry.action)
            self.assertEqual(place, card_ids.select_place(entry.traits))

    def test_location_of_missing_slot_is_kept(self):
        (entry,) = assess_and_plan(
            [provider(reserved=1, traits=NEW)],
            publishes_locations=False,
            drc_index=INDEX + 1,
        )
        self.assertLessEqual(self.PLACE, entry.traits)

    def test_switched_on_location_is_that_of_present_slot(self):
        there = provider(reserved=1, traits=NEW - self.PLACE)
        (entry,) = assess_and_plan([there], drc_name='U2-P1-C2')
        self.assertEqual(
            {'CUSTOM_POWERVM_IOSLOT_DRC_NAME_U2_P1_C2'},
            card_ids.select_place(entry.traits),
        )


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
