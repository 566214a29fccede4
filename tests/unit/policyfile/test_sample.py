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

"""The sample of the inventory file that is installed."""

import pathlib
import re
import unittest

from nova_powervm import policyfile
from nova_powervm.domain import policy

SAMPLE = (
    pathlib.Path(__file__).parents[3]
    / 'etc'
    / 'nova'
    / 'inventory.yaml.sample'
)
# Explanations have one space after the "#".
EXAMPLE = re.compile(r'^#(?! \S|$)', re.MULTILINE)


class SampleTest(unittest.TestCase):
    def test_offers_nothing_as_it_stands(self):
        read = policyfile.parse(SAMPLE.read_bytes(), 'sample')
        self.assertEqual((), read.paragraphs)

    def test_examples(self):
        text = SAMPLE.read_text()
        _, examples = re.split(r'\n\n(?=# All GPUs)', text)
        read = policyfile.parse(EXAMPLE.sub('', examples), 'sample')
        self.assertEqual(
            {
                'gpus': 'CUSTOM_GPU',
                'nvme drives': 'CUSTOM_NVME',
                'crypto': 'CUSTOM_CRYPTO',
                'slot C7': 'CUSTOM_IOSLOT',
                'fpga in slot C12': 'FPGA',
            },
            {p.name: p.resource_class for p in read.paragraphs},
        )

    def test_explains_every_key(self):
        text = SAMPLE.read_text()
        for key in policy.PROPERTIES:
            self.assertRegex(text, rf'(?m)^#         {key} +\S')
