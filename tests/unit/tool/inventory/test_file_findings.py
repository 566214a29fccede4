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
from nova_powervm.tool.inventory import file_findings


def paragraph(name='gpus', allow=True, **identification):
    return policies.Paragraph(name, identification, allow=allow)


def find(earlier, later):
    """Say of each clash whether the later paragraph is the wider one."""
    policy = policies.Policy((paragraph(**earlier), paragraph(**later)))
    return [is_wider for *_, is_wider in file_findings.find_overlaps(policy)]


class ClashTest(unittest.TestCase):
    def test_paragraph_that_takes_all_of_the_other_is_found(self):
        narrow = {'vendor_id': '10DE', 'device_id': '1DB6'}
        for later, earlier, is_wider in (
            (narrow, narrow, False),
            (narrow, {'vendor_id': '10DE'}, False),
            ({'vendor_id': '10DE'}, narrow, True),
            (narrow, {'vendor_id': '10*'}, False),
            ({'vendor_id': '1?DE'}, {'vendor_id': '1?DE'}, False),
        ):
            with self.subTest(later=later, earlier=earlier):
                self.assertEqual([is_wider], find(earlier, later))

    def test_paragraphs_that_may_be_about_other_devices_are_left_out(self):
        for later, earlier in (
            ({'vendor_id': '10DE'}, {'vendor_id': '1014'}),
            ({'vendor_id': '10DE'}, {'device_id': '1DB6'}),
            ({'vendor_id': '10*'}, {'vendor_id': '1*'}),
            ({'vendor_id': '10DE'}, {}),
        ):
            with self.subTest(later=later, earlier=earlier):
                self.assertEqual([], find(earlier, later))

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
                self.assertEqual([True] * is_found, find(gpus, wide))

    def test_denying_paragraph_clashes_with_none(self):
        gpus = paragraph(vendor_id='10DE')
        disks = paragraph('disks', vendor_id='144D')
        anything = paragraph('anything', drc_name='*')
        denied = paragraph('denied', allow=False, vendor_id='10DE')
        found = file_findings.find_overlaps(
            policies.Policy((gpus, disks, denied, anything))
        )
        self.assertEqual(
            [(anything, gpus, True), (anything, disks, True)], [*found]
        )
