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

"""What Cyborg's driver reports, in a process without nova."""

import dataclasses
import subprocess
import sys
import tempfile
import unittest

import ddt

from nova_powervm.cyborg import facts as facts_lib
from nova_powervm.cyborg import report
from nova_powervm.devices import names
from nova_powervm.devices import policy
from nova_powervm.devices import slots
from tests.unit.devices import values

POLICY = policy.Policy(
    (values.paragraph(),), source='/etc/cyborg/inventory.yaml'
)
NOVA = policy.Policy(
    (values.paragraph('novas', line=7),), source='/etc/nova/inventory.yaml'
)
SERVER = '4b1c2d3e-0000-4000-8000-000000000001'
FOREIGN = values.client(values.OTHER_LPAR, name='database')
VIOS = slots.Owner(slots.PartitionKind.VIOS, uuid='V', name='vios1')
TRAITS = names.generated_traits(values.slot()) | {'CUSTOM_FAST'}
OFFERED = TRAITS | {'OWNER_CYBORG', names.CYBORG_TRAIT}
WITHHELD = TRAITS | {'OWNER_CYBORG', names.WITHDRAWN_TRAIT}


def provider(
    traits=OFFERED,
    reserved=0,
    consumers=(),
    classes=('CUSTOM_GPU',),
    **changes,
):
    """Return Cyborg's provider of the slot as it offers it."""
    fields = {
        'uuid': 'rp',
        'name': names.cyborg_provider_name('host1', values.INDEX),
        'reserved': dict.fromkeys(classes, reserved),
        'traits': frozenset(traits),
        'consumers': tuple(consumers),
    }
    return facts_lib.Provider(**{**fields, **changes})


def novas(reserved=0, consumers=()):
    """Return Nova's provider of the slot."""
    return provider(
        {'OWNER_NOVA'}, reserved, consumers, name=values.NAME, uuid='nova'
    )


def make(slot=None, found=None, memory=None, **facts):
    """Make a report of one slot, by default one that is free.

    :param slot: The slot; False for a host without it.
    :param found: Cyborg's provider of the slot.
    """
    host = () if slot is False else (slot or values.slot(),)
    return report.make_report(
        facts_lib.Facts(
            **{
                'policy': POLICY,
                'nova_policy': policy.Policy(),
                'io_slots': host,
                'providers': {values.INDEX: found} if found else {},
                **facts,
            }
        ),
        memory or report.Memory(),
    )


def entry_of(*arguments, **facts):
    """Return the entry of the slot; None if there is none."""
    return make(*arguments, **facts).entries.get(values.INDEX)


class LocationTest(unittest.TestCase):
    def test_location_is_left_out_by_option(self):
        there = provider()
        entry = entry_of(found=there, publishes_locations=False)
        place = 'CUSTOM_POWERVM_IOSLOT_DRC_NAME_U78CB_001_WZS0JZB_P1_C2'
        self.assertEqual({place}, there.traits - entry.traits)
        self.assertEqual(there.traits, entry_of(found=there).traits)


def look(count, slot=None, found=None, **facts):
    """Return the reports of several looks; Placement follows each of them."""
    memory, reports = report.Memory(), []
    for _ in range(count):
        reports.append(make(slot, found, memory, **facts))
        memory = reports[-1].memory
        for entry in reports[-1].reported:
            found = dataclasses.replace(found, traits=entry.traits)
    return reports


class OfferTest(unittest.TestCase):
    def test_identified_slot_is_offered_with_class_and_traits(self):
        """That of its server stays so."""
        owned = values.slot(owner=values.client())
        for given in ((), (owned, provider(consumers=[SERVER]))):
            entry = entry_of(*given)
            self.assertEqual(report.State.OFFERED, entry.state)
            self.assertEqual('CUSTOM_GPU', entry.resource_class)
            self.assertEqual(OFFERED, entry.traits)
            self.assertIsNone(entry.reason)
        self.assertIsNone(entry_of(policy=policy.Policy()))

    def test_new_class_waits_for_used_and_for_reserved_provider(self):
        old = {'classes': ['CUSTOM_OLD']}
        for found, expected in (
            (provider(**old), 'CUSTOM_GPU'),
            (provider(consumers=[SERVER], **old), 'CUSTOM_OLD'),
            (provider(reserved=1, **old), 'CUSTOM_OLD'),
        ):
            with self.subTest(found=found):
                self.assertEqual(
                    expected, entry_of(None, found).resource_class
                )


@ddt.ddt
class WithholdTest(unittest.TestCase):
    def assert_withheld(self, entry, *words):
        self.assertEqual(report.State.WITHHELD, entry.state)
        self.assertEqual(WITHHELD, entry.traits)
        for word in words:
            self.assertIn(word, str(entry.reason))

    def test_slot_in_both_files_is_withheld_and_names_both(self):
        for found in (None, provider(), provider(consumers=[SERVER])):
            with self.subTest(found=found):
                self.assert_withheld(
                    entry_of(None, found, nova_policy=NOVA),
                    f'{POLICY.paragraphs[0]} of {POLICY.source}',
                    f'{NOVA.paragraphs[0]} of {NOVA.source}',
                )

    def test_slot_with_provider_of_nova_is_withheld(self):
        facts = {'nova_providers': {values.INDEX: novas()}}

        self.assert_withheld(entry_of(**facts), values.NAME)

    @ddt.data({'consumers': [SERVER]}, {'reserved': 1})
    def test_slot_that_nova_has_in_use_gets_no_provider(self, use):
        facts = {'nova_providers': {values.INDEX: novas(**use)}}

        self.assertIsNone(entry_of(**facts))
        self.assertIsNone(entry_of(nova_policy=NOVA, **facts))

    @ddt.data(FOREIGN, VIOS)
    def test_slot_that_a_partition_owns_is_withheld_for_good(self, owner):
        for made in look(5, values.slot(owner=owner), provider()):
            self.assert_withheld(
                made.entries[values.INDEX], owner.name or 'vios1'
            )

    def test_slot_of_partition_or_of_both_that_nova_uses_is_skipped(self):
        used = {values.INDEX: novas(consumers=[SERVER])}
        of_both = {'nova_policy': NOVA, 'nova_providers': used}
        for owner, facts, words in (
            (FOREIGN, {}, 'database'),
            (values.client(), of_both, NOVA.source),
        ):
            made = make(values.slot(owner=owner), **facts)
            self.assertEqual({}, made.entries)
            _, reason = made.skipped[values.INDEX]
            self.assertIn(words, reason.text)
            self.assertEqual(bool(facts), reason.code in report.MISTAKES)

    def test_withheld_slot_stays_so_while_file_of_nova_is_unknown(self):
        for found, expected in (
            (provider(WITHHELD), report.State.WITHHELD),
            (provider(), report.State.OFFERED),
        ):
            entry = entry_of(None, found, nova_policy=None)
            self.assertEqual(expected, entry.state)

    def test_slot_of_other_consumers_server_is_withheld(self):
        other = provider(name='other', consumers=[SERVER])
        owned = values.slot(owner=values.client())
        facts = {
            'providers': {values.INDEX: provider(), values.INDEX + 1: other}
        }

        self.assert_withheld(entry_of(owned, **facts), 'was not allocated it')

    def test_one_time_use_slot_is_withheld_for_good(self):
        once = dataclasses.replace(POLICY.paragraphs[0], one_time_use=True)
        facts = {'policy': policy.Policy((once,))}

        self.assertIsNone(entry_of(**facts))
        for made in look(5, None, provider(), **facts):
            self.assert_withheld(made.entries[values.INDEX], 'one_time_use')


class VanishedSlotTest(unittest.TestCase):
    gone = staticmethod(lambda *found: look(4, False, *found))

    def states(self, reports):
        return [made.entries[values.INDEX].state.value for made in reports]

    def test_free_slot_is_left_out_at_third_look(self):
        self.assertEqual(
            ['withheld', 'withheld', 'left out', 'left out'],
            self.states(self.gone(provider())),
        )

    def test_slot_in_use_stays_as_placement_has_it(self):
        for use in ({'consumers': [SERVER]}, {'reserved': 1}):
            with self.subTest(use=use):
                reports = self.gone(provider(OFFERED | {'CUSTOM_X'}, **use))

                self.assertEqual(['withheld'] * 4, self.states(reports))
                entry = reports[-1].entries[values.INDEX]
                self.assertEqual(WITHHELD | {'CUSTOM_X'}, entry.traits)
                self.assertEqual('CUSTOM_GPU', entry.resource_class)

    def test_slot_of_server_of_nova_is_left_out_when_file_gives_it_up(self):
        reports = look(
            4,
            values.slot(owner=values.client()),
            provider(),
            policy=policy.Policy(),
            nova_providers={values.INDEX: novas(consumers=[SERVER])},
        )

        self.assertEqual('left out', self.states(reports)[-1])

    def test_slot_that_comes_back_is_counted_anew(self):
        gone = look(2, False, provider())[-1]

        back = make(None, provider(WITHHELD), gone.memory)
        again = make(False, provider(), back.memory)

        self.assertEqual(['offered', 'withheld'], self.states([back, again]))
        self.assertEqual({values.INDEX: 1}, again.missing)

    def test_free_slot_out_of_file_is_left_out_but_one_in_use_is_not(self):
        none = {'policy': policy.Policy()}
        for found, expected in (
            (provider(), 'left out'),
            (provider(consumers=[SERVER]), 'withheld'),
        ):
            reports = look(4, None, found, **none)
            self.assertEqual(expected, self.states(reports)[-1])

    def test_slot_with_bound_request_is_kept(self):
        left = self.gone(provider())[-1]

        kept = left.keep({values.INDEX})

        self.assertEqual((), left.reported)
        self.assertEqual((), left.keep({values.INDEX + 1}).reported)
        self.assertEqual(['withheld'], self.states([kept]))
        self.assertEqual(WITHHELD, kept.reported[0].traits)


class RepairTest(unittest.TestCase):
    def after_report(self, found, slot=None):
        memory = make(None, provider()).memory
        return make(slot, found, memory)

    def assert_state(self, state, made):
        self.assertEqual(state, made.entries[values.INDEX].state)

    def test_slot_whose_provider_is_gone_is_left_out_once(self):
        without = self.after_report(None)
        self.assert_state(report.State.REPAIRED, without)
        anew = make(None, None, without.memory)
        self.assert_state(report.State.OFFERED, anew)
        # Or it waits for Cyborg.
        kept = without.keep({values.INDEX})
        self.assert_state(report.State.OFFERED, kept)

    def test_slot_whose_inventory_was_lost_is_left_out_once(self):
        for classes in ((), ('CUSTOM_OLD',)):
            with self.subTest(classes=classes):
                made = self.after_report(provider(classes=classes))
                self.assertEqual((), made.reported)

    def test_used_slot_is_never_left_out_for_repair(self):
        owned = values.slot(owner=values.client())
        for found, slot in (
            (provider(classes=['CUSTOM_OLD'], consumers=[SERVER]), owned),
            (provider(classes=['CUSTOM_OLD'], reserved=1), None),
            # Somebody has deleted the allocations of its server.
            (provider(classes=['CUSTOM_OLD']), owned),
        ):
            with self.subTest(found=found):
                self.assertEqual(
                    1, len(self.after_report(found, slot).reported)
                )

    def test_lost_traits_are_left_out_once(self):
        poor = provider(OFFERED - {'CUSTOM_FAST', names.CYBORG_TRAIT})

        without = self.after_report(poor)
        anew = make(None, poor, without.memory)

        self.assertEqual(poor.traits, without.entries[values.INDEX].traits)
        self.assertEqual(OFFERED, anew.entries[values.INDEX].traits)

    def test_surplus_trait_of_ours_is_stated_once_and_then_left_out(self):
        rich = provider(OFFERED | {names.WITHDRAWN_TRAIT, 'CUSTOM_BY_HAND'})

        stated = self.after_report(rich)
        anew = make(None, rich, stated.memory)

        self.assertEqual(
            OFFERED | {names.WITHDRAWN_TRAIT},
            stated.entries[values.INDEX].traits,
        )
        self.assertEqual(OFFERED, anew.entries[values.INDEX].traits)

    def test_slot_that_no_request_can_be_bound_to_is_left_out_once(self):
        facts = {'unbindable': frozenset({values.INDEX})}
        owned = values.slot(owner=values.client())

        free = entry_of(None, provider(), **facts)
        used = entry_of(owned, provider(consumers=[SERVER]), **facts)

        self.assertEqual(report.State.REPAIRED, free.state)
        self.assertEqual(report.State.OFFERED, used.state)

    def test_restarted_agent_repairs_nothing_before_it_has_reported(self):
        entry = entry_of(None, provider({'OWNER_CYBORG'}))

        self.assertEqual(OFFERED, entry.traits)


_PROGRAM = """
import sys
import nova_powervm.cyborg.driver
print(*sorted(name for name in sys.modules if name.split('.')[0] == 'nova'))
import nova.conf
"""

_FILES = """
import pathlib, sys, types
from nova_powervm.cyborg import driver
path = pathlib.Path(sys.argv[1])
agent = driver.PowerVMDriver.__new__(driver.PowerVMDriver)
agent._settings = types.SimpleNamespace(inventory_file=sys.argv[1])
agent._nova_policy, agent._complaints = None, {}
for text in sys.argv[2:]:
    path.write_text(text)
    policy = agent._read_nova_policy()
    print(policy and len(policy.paragraphs))
"""


class SeparateProcessTest(unittest.TestCase):
    def test_driver_loads_no_nova_which_could_not_be_loaded_anyway(self):
        done = subprocess.run(
            [sys.executable, '-c', _PROGRAM],
            capture_output=True,
            text=True,
            check=False,
        )

        self.assertEqual('', done.stdout.strip())
        self.assertIn('DuplicateOptError', done.stderr)

    def test_file_of_nova_that_was_read_last_stays_in_force(self):
        """Else slots that both files give away would be offered."""
        directory = self.enterContext(tempfile.TemporaryDirectory())
        good = 'a: {identification: {class: ABCD}}\n'
        texts = (
            'a: [',
            good,
            'a: [',
            '# nothing',
            good + good.replace('a', 'b', 1),
        )
        done = subprocess.run(
            [sys.executable, '-c', _FILES, f'{directory}/file', *texts],
            capture_output=True,
            text=True,
            check=True,
        )

        self.assertEqual(['None', '1', '1', '1', '2'], done.stdout.split())
