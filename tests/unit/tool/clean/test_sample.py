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

"""Parts of the sample program that need neither a host nor a partition."""

import os
import runpy
import unittest
from unittest import mock

from tests.unit.docs import pages

LOCATION = 'U78D2.001.EMU0001-P1-C3'
IDS = '10DE:1DB6:10DE:124A'

SAMPLE = pages.ROOT / 'etc' / 'nova' / 'clean-slot.sample'


class SampleTestCase(unittest.TestCase):
    """Has the functions and classes of the sample."""

    def setUp(self):
        super().setUp()
        # Leaves no compiled file beside the sample.
        self.sample = runpy.run_path(str(SAMPLE))


class CheckTest(SampleTestCase):
    """The wiped device is compared with what the host reports of it.

    A device was refused, and at last in quarantine, if the host did not
    report all four ids. That is so for most: few have a subsystem.
    """

    def check(self, wiped, location, ids):
        variables = {'POWERVM_LOCATION': location, 'POWERVM_IDS': ids}
        with mock.patch.dict(os.environ, variables):
            self.sample['check'](wiped)

    def test_values_that_host_does_not_report_are_not_compared(self):
        for location in (LOCATION, ''):
            for ids in (IDS, '10DE:1DB6::', '::10DE:124A', ':::'):
                for more in ('', ' serial 0325', ' '):
                    with self.subTest(location=location, ids=ids, more=more):
                        self.check(f'{LOCATION} {IDS}{more}', location, ids)

    def test_location_that_nobody_knows_is_empty(self):
        self.check(f' {IDS}', '', '10DE:1DB6::')

    def test_other_device_is_refused(self):
        other_place = 'U78D2.001.EMU0001-P1-C4'
        for ids, wiped in (
            ('10DE:1DB6::', f'{LOCATION} 10DF:1DB6:10DE:124A'),
            ('10DE:1DB6::', f'{LOCATION} 10DE:1EB8:10DE:124A'),
            ('::10DE:124A', f'{LOCATION} 10DE:1DB6:10DE:124B'),
            (IDS, f'{LOCATION} 10DE:1DB6:10DF:124A'),
            (':::', f'{other_place} {IDS}'),
            ('10DE:1DB6::', f'{other_place} {IDS}'),
            # Nothing is taken for an id that was not sent.
            (':::', LOCATION),
            (':::', ''),
            ('10DE:1DB6::', f'{LOCATION} 10DE:1DB6'),
            ('10DE:1DB6::', f'{LOCATION} :::'),
            (IDS, f'{LOCATION} {IDS}:0000'),
        ):
            with self.subTest(ids=ids, wiped=wiped):
                with self.assertRaises(SystemExit) as caught:
                    self.check(wiped, LOCATION, ids)
                self.assertEqual(
                    f'unknown: {wiped} was wiped, and not {LOCATION} {ids}',
                    caught.exception.code,
                )
