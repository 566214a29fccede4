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

"""What is logged of the devices."""

import dataclasses
import logging
import unittest

from nova_powervm.devices import names
from nova_powervm.devices import plan as plans
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from nova_powervm.ops import plan_log
from tests.unit.devices import values

GPUS = values.paragraph()
BY_PLACE = values.paragraph(
    'by place', line=7, drc_name='U78CB.001.WZS0JZB-P1-C2'
)  # fmt: skip
ELSEWHERE = values.paragraph('elsewhere', line=9, vendor_id='1014')
NOT_THERE = policy.Paragraph(
    'not there', {'vendor_id': '1015'}, allow=False, line=11
)
LOG = 'nova_powervm.ops.plan_log'


class PlanLogTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.log = plan_log.PlanLog()

        # The first plan is summed up.
        self.first = self.tell(slots=())

    def tell(self, *paragraphs, slots=None, providers=(), consumers=()):
        """Plan, and give level and text of each line that is logged."""
        allowed = policy.Policy(paragraphs, '/inv')
        instances = {values.LPAR: frozenset(p.uuid for p in providers)}
        slots = (values.slot(),) if slots is None else slots
        held = {p.uuid: dict.fromkeys(consumers, ()) for p in providers}
        plan = plans.make_plan(
            plans.assess(
                plans.Facts(allowed, slots, instances, tuple(providers))
            ),
            slot_providers.Allocations(held),
            values.name_of,
        )
        with self.assertLogs(LOG) as caught:
            # Something has to be logged for the assertion to hold.
            logging.getLogger(LOG).info('begin')
            self.log.log(allowed, plan)
        return [(r.levelno, r.getMessage()) for r in caught.records[1:]]

    def assert_line(self, level, words, *arguments, **facts):
        """Assert that one line is logged; return its text."""
        ((logged, text),) = self.tell(*arguments, **facts)
        self.assertEqual(level, logged)
        self.assertIn(words, text)
        return text

    def test_decision_is_logged_once(self):
        ((level, text),) = self.tell(GPUS)
        self.assertEqual(logging.INFO, level)
        self.assertIn('Offering slot 21010020', text)
        self.assertTrue(text.endswith(' as CUSTOM_GPU [offered]'), text)
        self.assertEqual([], self.tell(GPUS))

    def test_first_plan_is_summed_up_in_one_line(self):
        ((level, text),) = self.first
        self.assertEqual(logging.INFO, level)
        self.assertIn('Devices of this host: none. 0 slots are not', text)
        self.log = plan_log.PlanLog()
        others = [values.slot(drc_index=n, vendor_id=0x1014) for n in (1, 2)]
        ((level, text),) = self.tell(GPUS, slots=[values.slot(), *others])
        self.assertIn('host: 1 offered. 2 slots are not offered.', text)

    def test_first_plan_has_lines_of_what_needs_attention(self):
        self.log = plan_log.PlanLog()
        (_, summary), (level, text) = self.tell(
            providers=[values.provider()], consumers=['vm']
        )
        self.assertIn('1 withdrawn', summary)
        self.assertEqual(logging.WARNING, level)
        self.assertIn('Withdrawing slot 21010020', text)

    def test_change_of_a_device_has_a_line_with_its_state(self):
        marks = [names.QUARANTINED_TRAIT, names.quarantine_trait('FAILED')]
        once = dataclasses.replace(GPUS, one_time_use=True)
        free, mine = values.slot(), values.slot(owner=values.client())
        generated = names.generated_traits(values.slot())
        there = values.provider(traits=generated)
        marked = values.provider(traits=[*generated, *marks])
        burned = values.provider(
            reserved=1, traits=[*generated, names.ONE_TIME_USE_TRAIT]
        )
        for state, paragraph, slot, provider in (
            ('offered', GPUS, free, there),
            ('attached', GPUS, mine, there),
            ('offered', GPUS, free, there),
            ('quarantined', GPUS, free, marked),
            ('attached', once, mine, there),
            ('burned', once, free, burned),
        ):
            facts = {'slots': [slot], 'providers': [provider]}
            text = self.assert_line(logging.INFO, '', paragraph, **facts)
            self.assertTrue(text.endswith(f'[{state}]'), text)
            self.assertEqual([], self.tell(paragraph, **facts))

    def test_withdrawn_device_of_an_lpar_is_called_withdrawn(self):
        (_, text), *_ = self.tell(
            slots=[values.slot(owner=values.client())],
            providers=[values.provider()],
            consumers=['vm'],
        )
        self.assertTrue(text.endswith('[withdrawn]'), text)

    def test_used_device_that_is_being_cleaned_is_no_fault(self):
        once = dataclasses.replace(GPUS, one_time_use=True)
        used = values.provider(reserved=1, traits=[names.ONE_TIME_USE_TRAIT])
        elsewhere = values.slot(owner=values.client('CLEANER'))
        facts = {'slots': [elsewhere], 'providers': [used]}
        text = self.assert_line(logging.INFO, 'owned by', once, **facts)
        self.assertTrue(text.endswith('[burned]'), text)
        self.assert_line(logging.WARNING, '', once, **facts, consumers=['vm'])

    def test_card_of_other_ids_is_warned_of_once(self):
        old = values.provider(
            traits=names.generated_traits(values.slot(device_id=0x1DB6))
        )
        (level, text), (_, line) = self.tell(GPUS, providers=[old])
        self.assertEqual(logging.WARNING, level)
        self.assertIn('restore 21010020 --new-card`', line)
        self.assertIn('Slot 21010020 shows the ids of another card', text)
        self.assertIn('device_id was 1DB6, and is 1EB8', text)
        self.assertEqual([], self.tell(GPUS, providers=[old]))

    def test_card_in_doubt_is_warned_of_and_comes_back(self):
        there = values.provider(traits=names.generated_traits(values.slot()))
        facts = {'slots': [values.slot(device_id=None)], 'providers': [there]}
        text = self.assert_line(logging.WARNING, '', GPUS, **facts)
        self.assertIn('no longer reports device_id 1EB8', text)
        self.assertIn('It offers nothing meanwhile. [withdrawn]', text)
        self.assert_line(logging.INFO, '', GPUS, providers=[there])

    def test_file_that_matches_no_device_is_warned_of_at_every_change(self):
        (level, text), (_, slot) = self.tell(ELSEWHERE, NOT_THERE)
        self.assertEqual(logging.WARNING, level)
        self.assertIn('No paragraph of /inv identifies a device', text)
        self.assertIn('no paragraph of /inv identifies it', slot)
        self.assertEqual([], self.tell(ELSEWHERE, NOT_THERE))
        # At each change of the file.
        self.assertEqual(
            [logging.WARNING], [level for level, _ in self.tell(ELSEWHERE)]
        )

    def test_paragraphs_for_other_hosts_are_logged_at_info(self):
        (level, text), (other, denying), _ = self.tell(
            GPUS, ELSEWHERE, NOT_THERE
        )
        self.assertEqual((logging.INFO, logging.INFO), (level, other))
        self.assertIn("paragraph 'elsewhere' (line 9) of /inv", text)
        self.assertIn("paragraph 'not there' (line 11) of /inv", denying)

    def test_paragraph_that_denies_every_slot_is_logged_at_info(self):
        everything = policy.Paragraph(
            'all', {'drc_name': '*'}, allow=False, line=1
        )
        (level, text), (_, slot) = self.tell(everything)
        self.assertEqual(logging.INFO, level)
        self.assertIn("excluded by paragraph 'all' (line 1)", text)
        self.assertIn("paragraph 'all' (line 1) of /inv denies it", slot)

    def test_empty_slot_is_not_counted_as_device(self):
        empty = (values.slot(vendor_id=0xFFFF),)
        levels = [level for level, _ in self.tell(GPUS, slots=empty)]
        self.assertEqual([logging.WARNING, logging.INFO], levels)
        # Without paragraphs
        self.assert_line(logging.INFO, '')

    def test_conflict_is_logged_as_single_error(self):
        free, reserved = values.provider(), values.provider(reserved=1)
        text = self.assert_line(
            *(logging.ERROR, '', GPUS, BY_PLACE), providers=[free]
        )
        for words in (
            'slot 21010020 at U78CB.001.WZS0JZB-P1-C2 (GPU) is not offered',
            "paragraph 'gpus' (line 1) and by paragraph 'by place' (line 7)",
            'Change the identification sections of /inv',
        ):
            self.assertIn(words, text)
        # The provider was free, and is gone now.
        self.assertEqual([], self.tell(GPUS, BY_PLACE))
        for words, facts in (
            (
                f"Provider '{values.NAME}' is withdrawn",
                {'providers': [free], 'consumers': ['vm']},
            ),
            ('is withdrawn and stays. [', {'providers': [reserved]}),
        ):
            text = self.assert_line(
                *(logging.ERROR, words, GPUS, BY_PLACE), **facts
            )
            self.assertEqual('consumers' in facts, 'allocated to vm' in text)

    def test_withdrawal_of_allocated_device_is_warned_of(self):
        facts = {'providers': [values.provider()]}
        self.assert_line(
            logging.INFO,
            f"Removing slot 21010020 (provider '{values.NAME}'): no "
            'paragraph of /inv identifies it',
            **facts,
        )
        words = 'Withdrawing slot 21010020'
        text = self.assert_line(
            logging.WARNING, words, **facts, consumers=['vm']
        )
        self.assertIn(
            'It is allocated to vm: undo the change, or delete', text
        )
