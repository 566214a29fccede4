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

import logging
import unittest

from nova_powervm.devices import matching
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

    def tell(self, *paragraphs, slots=None, providers=(), consumers=()):
        """Plan, and give level and text of each line that is logged."""
        allowed = policy.Policy(paragraphs, '/inv')
        verdicts = matching.judge(
            allowed, (values.slot(),) if slots is None else slots
        )
        plan = values.make_plan(
            matching.devices(verdicts),
            providers,
            slot_providers.Allocations({p.uuid: consumers for p in providers}),
            verdicts,
        )
        with self.assertLogs(LOG) as caught:
            # Something has to be logged for the assertion to hold.
            logging.getLogger(LOG).info('begin')
            self.log.log(allowed, plan)
        return [(r.levelno, r.getMessage()) for r in caught.records[1:]]

    def test_decision_is_logged_once(self):
        ((level, text),) = self.tell(GPUS)
        self.assertEqual(logging.INFO, level)
        self.assertIn('Offering slot 21010020', text)
        self.assertEqual([], self.tell(GPUS))

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
        levels = [
            level
            for level, _ in self.tell(
                GPUS, slots=(values.slot(pci_class=0xFFFF),)
            )
        ]
        self.assertEqual([logging.WARNING, logging.INFO], levels)

    def test_file_without_paragraphs_is_logged_at_info(self):
        self.assertEqual([logging.INFO], [level for level, _ in self.tell()])

    def test_conflict_is_logged_as_single_error(self):
        provider = values.provider()
        ((level, text),) = self.tell(GPUS, BY_PLACE, providers=[provider])
        self.assertEqual(logging.ERROR, level)
        for words in (
            'slot 21010020 at U78CB.001.WZS0JZB-P1-C2 (GPU) is not offered',
            "paragraph 'gpus' (line 1) and by paragraph 'by place' (line 7)",
            'Change the identification sections of /inv',
        ):
            self.assertIn(words, text)
        # The provider was free, and is gone now.
        self.assertEqual([], self.tell(GPUS, BY_PLACE))

    def test_conflict_over_allocated_device_names_instance(self):
        ((level, text),) = self.tell(
            GPUS, BY_PLACE, providers=[values.provider()], consumers=['vm']
        )
        self.assertEqual(logging.ERROR, level)
        self.assertIn(f"Provider '{values.NAME}' is withdrawn", text)
        self.assertIn('allocated to vm', text)

    def test_conflict_over_reserved_device_says_provider_stays(self):
        ((level, text),) = self.tell(
            GPUS, BY_PLACE, providers=[values.provider(reserved=1)]
        )
        self.assertEqual(logging.ERROR, level)
        self.assertTrue(text.endswith('is withdrawn and stays.'), text)

    def test_withdrawal_of_allocated_device_is_warned_of(self):
        ((level, text),) = self.tell(
            providers=[values.provider()], consumers=['vm']
        )
        self.assertEqual(logging.WARNING, level)
        self.assertIn('Withdrawing slot 21010020', text)
        self.assertIn(
            'It is allocated to vm: undo the change, or delete', text
        )

    def test_removal_of_free_provider_is_logged(self):
        ((level, text),) = self.tell(providers=[values.provider()])
        self.assertEqual(logging.INFO, level)
        self.assertIn(
            f"Removing slot 21010020 (provider '{values.NAME}'): no "
            'paragraph of /inv identifies it',
            text,
        )
