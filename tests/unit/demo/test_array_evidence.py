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

import dataclasses
import json
import pathlib
import tempfile
import unittest

from demo import array_evidence
from emulator.tests import san
from tests.unit.demo import samples

DESCRIBED = {
    'hosts': [
        {'name': 'h1', 'wwpns': ['10000090fa530102', '10000090fa530101']},
        {'name': 'h2', 'wwpns': ['10000090fa530909']},
    ],
    'volumes': [
        {'name': 'volume-1', 'uid': san.UID, 'size': 1, 'file': '/1'},
        {'name': 'volume-2', 'uid': '2', 'size': 2, 'file': '/2'},
    ],
    'maps': [{'host': 'h1', 'volume': 'volume-1', 'lun': 0}],
}


class ArrayEvidenceTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.stack = dataclasses.replace(
            samples.a_stack(), state_dir=pathlib.Path(directory)
        )
        self.stack.volumes.mkdir()
        path = self.stack.volumes / array_evidence.DESCRIPTION
        path.write_text(json.dumps(DESCRIBED))

    def test_volume_has_ports_of_hosts_that_it_is_mapped_to(self):
        found = array_evidence.find(self.stack, '1')
        self.assertEqual(['10000090FA530101', '10000090FA530102'], found.wwpns)
        self.assertEqual([], array_evidence.find(self.stack, '2').wwpns)
        self.assertIsNone(array_evidence.find(self.stack, '3'))

    def test_disk_of_volume_has_captured_udid(self):
        found = array_evidence.find(self.stack, '1')
        self.assertEqual(san.UDID, found.udid)
