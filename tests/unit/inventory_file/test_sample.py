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

import jsonschema
import yaml

from nova_powervm import inventory_file
from nova_powervm.devices import policy
from nova_powervm.inventory_file.structure import SCHEMA

SAMPLE = (
    pathlib.Path(__file__).parents[3]
    / 'etc'
    / 'nova'
    / 'inventory.yaml.sample'
)
# Explanations have one space after the "#".
EXAMPLE = re.compile(r'^#(?! \S|$)', re.MULTILINE)


class SampleTest(unittest.TestCase):
    def test_sample_offers_nothing_as_shipped(self):
        read = inventory_file.parse(SAMPLE.read_bytes(), 'sample')
        self.assertEqual((), read.paragraphs)

    def examples(self):
        """Give the file with all paragraphs uncommented."""
        head, examples = re.split(r'\n\n(?=# All GPUs)', SAMPLE.read_text())
        return f'{head}\n\n{EXAMPLE.sub("", examples)}'

    def test_examples_of_sample_are_valid(self):
        read = inventory_file.parse(self.examples(), 'sample')
        self.assertEqual(
            {
                'gpus': 'CUSTOM_GPU',
                'nvme drives': 'CUSTOM_NVME',
                'crypto': 'CUSTOM_CRYPTO',
                'programmed fpgas': 'FPGA',
                'not the first gpu': 'CUSTOM_IOSLOT',
                'slot C7': 'CUSTOM_IOSLOT',
                'fpga in slot C12': 'FPGA',
            },
            {p.name: p.resource_class for p in read.paragraphs},
        )

    def test_examples_of_sample_use_each_key(self):
        read = inventory_file.parse(self.examples(), 'sample').paragraphs
        self.assertEqual(
            ['not the first gpu'], [p.name for p in read if not p.allow]
        )
        self.assertEqual(
            ['programmed fpgas'], [p.name for p in read if p.one_time_use]
        )
        patterns = {
            value
            for paragraph in read
            for value in paragraph.identification.values()
            if policy.has_wildcard(value)
        }
        self.assertEqual({'*', '?'}, set('*?') & set(''.join(patterns)))

    def test_sample_names_the_schema_for_editors(self):
        first = SAMPLE.read_text().splitlines()[0]
        name = first.removeprefix('# yaml-language-server: $schema=')
        self.assertEqual('inventory.schema.json', name)
        jsonschema.Draft202012Validator(SCHEMA).validate(
            yaml.safe_load(self.examples())
        )

    def test_sample_explains_each_key(self):
        text = SAMPLE.read_text()
        for key in SCHEMA['additionalProperties']['properties']:
            self.assertRegex(text, rf'(?m)^# {key} \((?:required|optional)\)$')
        for key in policy.PROPERTIES:
            self.assertRegex(text, rf'(?m)^#         {key} +\S')
