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

"""Image metadata of Glance."""

import unittest

from nova_powervm import exception
from nova_powervm.instance import image


class CheckImageTest(unittest.TestCase):
    def test_check_accepts_raw_and_qcow2(self):
        for name in ('raw', 'qcow2'):
            self.assertEqual(7, image.Image('it', name, 7).check())

    def test_check_refuses_other_formats_by_name(self):
        for name in ('iso', 'vmdk', 'aki', 'unknown', 'RAW', ''):
            with self.assertRaises(exception.ImageRefused) as caught:
                image.Image('it', name, 1).check()
            self.assertIn(f'format is {name}.', str(caught.exception))

    def test_check_refuses_unknown_and_zero_size(self):
        for size, words in (
            (None, 'does not report its size'),
            (0, 'is empty'),
        ):
            with self.assertRaises(exception.ImageRefused) as caught:
                image.Image('it', 'raw', size).check()
            self.assertIn(words, str(caught.exception))
