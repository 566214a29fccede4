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
from tests import proofs
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
    @proofs.proves('D15')
    @ddt.named_data(
        ['free', {}, None],
        ['of an instance', {'owner': client()}, None],
        ['not identified', {'vendor_id': 0x1014}, 'unmatched'],
        ['vendor not reported', {'vendor_id': None}, 'unmatched'],
        ['empty', {'vendor_id': 0xFFFF}, 'empty'],
        ['SR-IOV', {'sriov': True}, 'sriov'],
        ['of a VIOS', {'owner': client(kind=PartitionKind.VIOS)}, 'owned'],
        ['foreign', {'owner': client(OTHER_LPAR)}, 'owned'],
    )
    def test_judge_offers_or_withholds_slot_for_reason(self, changes, code):
        (verdict,) = judge(slot(**changes))
        self.assertEqual(code, verdict.reason and verdict.reason.code)
        self.assertEqual(code is None, verdict.offered)
        self.assertFalse(verdict.conflicting)

    @proofs.proves('D9', 'D13')
    def test_unmatched_reason_names_file(self):
        (verdict,) = judge(slot(vendor_id=1))
        words = 'no paragraph of inv identifies it'
        self.assertEqual(words, str(verdict.reason))
        (verdict,) = judge(slot(), paragraphs=())
        self.assertEqual(words, str(verdict.reason))
        self.assertEqual((), judge())

    def test_owned_reason_names_owner(self):
        vios = client(kind=PartitionKind.VIOS, name='vios1')
        management = client(kind=PartitionKind.MANAGEMENT, name='novalink')
        foreign = client(OTHER_LPAR, name='db2')
        for owner, lpar_uuids, words in (
            (foreign, (LPAR,), 'partition db2, which Nova does not run'),
            (vios, (LPAR,), 'VIOS vios1'),
            (management, (LPAR,), 'management partition novalink'),
            # It is uncertain without the instances.
            (
                client(name='vm1'),
                None,
                'partition vm1, which Nova may run: only Placement knows',
            ),
            (vios, None, 'VIOS vios1'),
        ):
            with self.subTest(words, lpar_uuids=lpar_uuids):
                (verdict,) = judge(slot(owner=owner), lpar_uuids=lpar_uuids)
                reason = str(verdict.reason)
                self.assertEqual(f'it is owned by {words}', reason)


class ConflictTest(unittest.TestCase):
    @proofs.proves('D37')
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

    @proofs.proves('D39')
    def test_denied_slot_and_that_of_instance_can_conflict(self):
        for owner, denials in ((client(), ()), (None, (NOT_THIS,))):
            verdicts = judge(
                slot(owner=owner), paragraphs=(GPUS, BY_NAME, *denials)
            )
            (verdict,) = matching.conflicts(verdicts)
            self.assertEqual('conflict', verdict.reason.code)

    @proofs.proves('D38')
    def test_denying_paragraphs_do_not_conflict(self):
        nor_this = dataclasses.replace(NOT_THIS, name='nor this', line=9)
        verdicts = judge(slot(), paragraphs=(GPUS, NOT_THIS, nor_this))
        self.assertEqual((), matching.conflicts(verdicts))
        (verdict,) = verdicts
        self.assertEqual('denied', verdict.reason.code)
        self.assertEqual((NOT_THIS, nor_this), verdict.denials)


class DeniedTest(unittest.TestCase):
    @proofs.proves('D39', 'device.identify.deny')
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
    @proofs.proves('D13')
    def test_paragraph_without_device_is_unused(self):
        disks = paragraph('disks', vendor_id='144D')
        empty = slot(vendor_id=0xFFFF)
        other = slot(drc_index=5, drc_name='U78-P1-C9')
        for expected, paragraphs, host_slots in (
            ([disks], (GPUS, disks), [slot()]),
            ([BY_NAME], (GPUS, BY_NAME), [empty, other]),
            # A device that is withheld uses its paragraph.
            ([], (GPUS,), [slot(sriov=True)]),
            # What is denied has to be allowed.
            ([NOT_THIS], (GPUS, NOT_THIS), [slot(drc_index=5)]),
            ([disks, NOT_THIS], (disks, NOT_THIS), [slot()]),
            ([NOT_THIS, GPUS], (NOT_THIS, GPUS), []),
        ):
            with self.subTest(paragraphs):
                unused = matching.unused(
                    policy.Policy(paragraphs, 'inv'), host_slots
                )
                self.assertEqual(expected, list(unused))


class DevicesTest(unittest.TestCase):
    @proofs.proves('D47')
    def test_device_has_resource_class_and_traits(self):
        (device,) = matching.devices(judge(slot()))
        self.assertEqual(slot(), device.slot)
        self.assertEqual('CUSTOM_GPU', device.resource_class)
        self.assertLess(
            {
                'OWNER_NOVA',
                'CUSTOM_FAST',
                'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020',
            },
            device.traits,
        )
        self.assertEqual(10, len(device.traits))

    def test_device_for_one_time_use_has_trait(self):
        flagged = dataclasses.replace(GPUS, one_time_use=True)
        (plain,) = matching.devices(judge(slot()))
        (device,) = matching.devices(judge(slot(), paragraphs=(flagged,)))
        self.assertEqual(
            (False, True), (plain.one_time_use, device.one_time_use)
        )
        self.assertEqual({'HW_PCI_ONE_TIME_USE'}, device.traits - plain.traits)
