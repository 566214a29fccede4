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

import unittest

from nova_powervm.devices import policy as policies
from nova_powervm.tool.rules import shared_files


def paragraph(name='gpus', allow=True, **identification):
    return policies.Paragraph(name, identification, allow=allow)


def find(cyborgs, novas):
    return list(
        shared_files.find_overlaps(
            policies.Policy(tuple(cyborgs)), policies.Policy(tuple(novas))
        )
    )


class OverlapTest(unittest.TestCase):
    def test_paragraph_that_takes_all_of_the_other_is_found(self):
        narrow = {'vendor_id': '10DE', 'device_id': '1DB6'}
        for cyborgs, novas, is_wider in (
            (narrow, narrow, False),
            (narrow, {'vendor_id': '10DE'}, False),
            ({'vendor_id': '10DE'}, narrow, True),
            (narrow, {'vendor_id': '10*'}, False),
            ({'vendor_id': '1?DE'}, {'vendor_id': '1?DE'}, False),
        ):
            with self.subTest(cyborgs=cyborgs, novas=novas):
                (found,) = find([paragraph(**cyborgs)], [paragraph(**novas)])
                self.assertEqual(is_wider, found.is_wider)
                self.assertFalse(found.is_in_doubt)

    def test_paragraphs_that_may_be_about_other_devices_are_left_out(self):
        for cyborgs, novas in (
            ({'vendor_id': '10DE'}, {'vendor_id': '1014'}),
            ({'vendor_id': '10DE'}, {'device_id': '1DB6'}),
            ({'vendor_id': '10*'}, {'vendor_id': '1*'}),
            ({'vendor_id': '10DE'}, {}),
        ):
            with self.subTest(cyborgs=cyborgs, novas=novas):
                self.assertEqual(
                    [], find([paragraph(**cyborgs)], [paragraph(**novas)])
                )

    def test_wildcard_for_anything_takes_what_does_not_name_its_key(self):
        gpus = {'vendor_id': '10DE'}
        for wide, is_found in (
            ({'drc_name': '*'}, True),
            ({'drc_name': '**', 'vendor_id': '1*'}, True),
            ({'class': '????'}, True),
            ({'drc_name': '*', 'vendor_id': '1014'}, False),
            ({'drc_name': '?'}, False),
            ({'class': '03*'}, False),
        ):
            with self.subTest(wide=wide):
                found = find([paragraph(**wide)], [paragraph(**gpus)])
                self.assertEqual(
                    [True] * is_found, [f.is_wider for f in found]
                )

    def test_denying_paragraph_leaves_a_doubt_and_is_no_overlap(self):
        gpus = paragraph(vendor_id='10DE')
        denied = paragraph('denied', allow=False, vendor_id='10DE')
        (found,) = find([gpus], [gpus, denied])
        self.assertTrue(found.is_in_doubt)
        self.assertEqual([], find([gpus], [denied]))


class ClashTest(unittest.TestCase):
    def test_paragraphs_of_one_file_with_same_devices_are_found(self):
        gpus = paragraph(vendor_id='10DE')
        disks = paragraph('disks', vendor_id='144D')
        anything = paragraph('anything', drc_name='*')
        denied = paragraph('denied', allow=False, vendor_id='10DE')
        found = shared_files.find_clashes(
            policies.Policy((gpus, disks, denied, anything))
        )
        self.assertEqual(
            [(anything, gpus, True), (anything, disks, True)],
            [(f.paragraph, f.other, f.is_wider) for f in found],
        )
        found = shared_files.find_clashes(policies.Policy((anything, gpus)))
        self.assertEqual(
            [(gpus, anything, False)],
            [(f.paragraph, f.other, f.is_wider) for f in found],
        )
