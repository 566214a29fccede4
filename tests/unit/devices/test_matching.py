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

"""Matching of the inventory file against the host's slots."""

import dataclasses
import unittest

import ddt

from nova_powervm.devices import matching
from nova_powervm.devices import policy
from nova_powervm.devices.slots import PartitionKind
from tests.unit.devices.values import LPAR
from tests.unit.devices.values import OTHER_LPAR
from tests.unit.devices.values import client
from tests.unit.devices.values import paragraph
from tests.unit.devices.values import slot

GPUS = paragraph()
NOT_THIS = policy.Paragraph(
    'not this', {'drc_index': '21010020'}, allow=False, line=7
)
BY_NAME = paragraph(
    'by place', line=7, drc_name='U78CB.001.WZS0JZB-P1-C2'
)  # fmt: skip


def judge(*host_slots, paragraphs=(GPUS,), lpar_uuids=(LPAR,)):
    return matching.judge(
        policy.Policy(paragraphs, 'inv'), host_slots, lpar_uuids
    )  # fmt: skip


@ddt.ddt
class JudgeTest(unittest.TestCase):
    @ddt.named_data(
        ['free', {}, None],
        ['of an instance', {'owner': client()}, None],
        ['not identified', {'vendor_id': 0x1014}, 'unmatched'],
        ['vendor not reported', {'vendor_id': None}, 'unmatched'],
        ['empty', {'pci_class': 0xFFFF}, 'empty'],
        ['SR-IOV', {'sriov': True}, 'sriov'],
        ['of a VIOS', {'owner': client(kind=PartitionKind.VIOS)}, 'owned'],
        ['foreign', {'owner': client(OTHER_LPAR)}, 'owned'],
    )
    def test_judge_offers_or_withholds_slot_for_reason(self, changes, code):
        (verdict,) = judge(slot(**changes))
        self.assertEqual(code, verdict.reason and verdict.reason.code)
        self.assertEqual(code is None, verdict.offered)
        self.assertFalse(verdict.conflicting)

    def test_unmatched_reason_names_file(self):
        (verdict,) = judge(slot(vendor_id=1))
        self.assertEqual(
            'no paragraph of inv identifies it', str(verdict.reason)
        )

    def test_judge_offers_nothing_without_paragraphs(self):
        (verdict,) = judge(slot(), paragraphs=())
        self.assertEqual('unmatched', verdict.reason.code)

    def test_judge_returns_nothing_without_slots(self):
        self.assertEqual((), judge())

    def test_owned_reason_names_owner(self):
        for owner, words in (
            (
                client(OTHER_LPAR, name='db2'),
                'it is owned by partition db2, which Nova does not run',
            ),
            (
                client(kind=PartitionKind.VIOS, name='vios1'),
                'it is owned by VIOS vios1',
            ),
            (
                client(kind=PartitionKind.MANAGEMENT, name='novalink'),
                'it is owned by management partition novalink',
            ),
        ):
            (verdict,) = judge(slot(owner=owner))
            self.assertEqual(words, str(verdict.reason))

    def test_owned_reason_is_uncertain_without_instances(self):
        for owner, words in (
            (
                client(name='instance-00000001'),
                'it is owned by partition instance-00000001, which Nova may '
                'run: only Placement knows',
            ),
            (
                client(kind=PartitionKind.VIOS, name='vios1'),
                'it is owned by VIOS vios1',
            ),
        ):
            (verdict,) = judge(slot(owner=owner), lpar_uuids=None)
            self.assertEqual(words, str(verdict.reason))


class ConflictTest(unittest.TestCase):
    def test_conflict_names_both_paragraphs(self):
        verdicts = judge(slot(), paragraphs=(GPUS, BY_NAME))
        (verdict,) = matching.conflicts(verdicts)
        self.assertEqual((GPUS, BY_NAME), verdict.paragraphs)
        self.assertEqual(
            "it is identified by paragraph 'gpus' (line 1) and by "
            "paragraph 'by place' (line 7)",
            str(verdict.reason),
        )
        self.assertEqual((), matching.devices(verdicts))

    def test_slot_of_instance_can_conflict(self):
        verdicts = judge(slot(owner=client()), paragraphs=(GPUS, BY_NAME))
        self.assertEqual(1, len(matching.conflicts(verdicts)))

    def test_denied_slot_can_conflict(self):
        verdicts = judge(slot(), paragraphs=(GPUS, BY_NAME, NOT_THIS))
        self.assertEqual('conflict', verdicts[0].reason.code)

    def test_denying_paragraphs_do_not_conflict(self):
        nor_this = dataclasses.replace(NOT_THIS, name='nor this', line=9)
        verdicts = judge(slot(), paragraphs=(GPUS, NOT_THIS, nor_this))
        self.assertEqual((), matching.conflicts(verdicts))
        (verdict,) = verdicts
        self.assertEqual('denied', verdict.reason.code)
        self.assertEqual((NOT_THIS, nor_this), verdict.denials)


class DeniedTest(unittest.TestCase):
    def test_denying_paragraph_applies_in_any_order(self):
        for paragraphs in ((GPUS, NOT_THIS), (NOT_THIS, GPUS)):
            (verdict,) = judge(slot(), paragraphs=paragraphs)
            self.assertEqual('denied', verdict.reason.code)
            self.assertEqual((GPUS,), verdict.paragraphs)
            self.assertEqual((NOT_THIS,), verdict.denials)
            self.assertIn("paragraph 'not this' (line 7)", str(verdict.reason))

    def test_reason_of_host_precedes_denial(self):
        (verdict,) = judge(slot(sriov=True), paragraphs=(GPUS, NOT_THIS))
        self.assertEqual('sriov', verdict.reason.code)


class UnusedTest(unittest.TestCase):
    def unused(self, *paragraphs, host_slots):
        found = matching.unused(policy.Policy(paragraphs, 'inv'), host_slots)
        return [p.name for p in found]

    def test_paragraph_without_device_is_unused(self):
        self.assertEqual(
            ['disks'],
            self.unused(
                GPUS, paragraph('disks', vendor_id='144D'), host_slots=[slot()]
            ),
        )

    def test_paragraph_of_empty_slot_is_unused(self):
        self.assertEqual(
            ['by place'],
            self.unused(
                GPUS,
                BY_NAME,
                host_slots=[
                    slot(pci_class=0xFFFF),
                    slot(drc_index=5, drc_name='U78-P1-C9'),
                ],
            ),
        )

    def test_paragraph_of_withheld_device_is_used(self):
        self.assertEqual([], self.unused(GPUS, host_slots=[slot(sriov=True)]))

    def test_denying_paragraph_without_device_is_unused(self):
        self.assertEqual(
            ['not this'],
            self.unused(GPUS, NOT_THIS, host_slots=[slot(drc_index=5)]),
        )

    def test_denying_paragraph_without_allowed_device_is_unused(self):
        disks = paragraph('disks', vendor_id='144D')
        self.assertEqual(
            ['disks', 'not this'],
            self.unused(disks, NOT_THIS, host_slots=[slot()]),
        )

    def test_unused_keeps_file_order(self):
        self.assertEqual(
            ['not this', 'gpus'],
            self.unused(NOT_THIS, GPUS, host_slots=[]),
        )


class DevicesTest(unittest.TestCase):
    def test_device_has_resource_class_and_traits(self):
        (found,) = matching.devices(judge(slot()))
        self.assertEqual(slot(), found.slot)
        self.assertEqual('CUSTOM_GPU', found.resource_class)
        self.assertLess(
            {
                'OWNER_NOVA',
                'CUSTOM_FAST',
                'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020',
            },
            found.traits,
        )
        self.assertEqual(10, len(found.traits))

    def test_device_for_one_time_use_has_trait(self):
        flagged = dataclasses.replace(GPUS, one_time_use=True)
        (plain,) = matching.devices(judge(slot()))
        (found,) = matching.devices(judge(slot(), paragraphs=(flagged,)))
        self.assertEqual(
            (False, True), (plain.one_time_use, found.one_time_use)
        )
        self.assertEqual({'HW_PCI_ONE_TIME_USE'}, found.traits - plain.traits)
