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

"""The schema of the inventory file, and its sample."""

import pathlib
import re
import unittest

import jsonschema
import yaml

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy
from nova_powervm.inventory_file import messages
from nova_powervm.inventory_file.structure import SCHEMA
from tests import proofs

# As an editor reads it: without the formats and keywords of the driver.
EDITOR = jsonschema.Draft202012Validator(SCHEMA)
GOOD = '  identification: {class: ABCD}\n'
PARAGRAPH = SCHEMA['additionalProperties']['properties']
IDENTIFICATION = PARAGRAPH['identification']['properties']

#: What no schema can refuse: PyYAML alone reads all of it.
BEYOND = (
    f'p:\n{GOOD}p:\n{GOOD}',
    f'p: &a\n{GOOD}',
    'p: {identification: &a {class: ABCD}}\nq: {identification: *a}\n',
    f'p:\n{GOOD}  traits: [!!str CUSTOM_A]\n',
    f'x: &x\n{GOOD}p:\n  <<: *x\n',
    f'p:\n{GOOD}  traits: [HW_UNKNOWN]\n',
    f'n:\n{GOOD}',
    f"p:\n{GOOD}  allow: 'yes'\n",
    f'p:\n{GOOD}  one_time_use: on\n',
    f'"p\\n":\n{GOOD}',
    'p: {identification: {class: "ABCD\\n"}}',
    'null',
    '#' * 1048577,
)


def accepted(text):
    """Whether the parser takes a text."""
    try:
        inventory_file.parse(text, 'x')
    except exception.PolicyInvalid:
        return False
    return True


def parts(schema):
    """Yield each part of the schema that applies to values."""
    yield schema
    for key in ('propertyNames', 'additionalProperties', 'items', 'then'):
        if schema.get(key):
            yield from parts(schema[key])
    for part in schema.get('properties', {}).values():
        yield from parts(part)


class SchemaTest(unittest.TestCase):
    def test_schema_is_valid(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        self.assertTrue(SCHEMA['$id'])

    def test_schema_describes_each_key(self):
        self.assertEqual(list(policy.PROPERTIES), list(IDENTIFICATION))
        for key, part in {**PARAGRAPH, **IDENTIFICATION}.items():
            self.assertGreater(len(part['description']), 22, key)
            self.assertTrue(part['errorMessage'].startswith(f'{key} '), key)
        for key, known in policy.PROPERTIES.items():
            part = IDENTIFICATION[key]
            self.assertIn(f'The {known.meaning}.', part['description'])
            self.assertIn(f'({known.meaning})', part['errorMessage'])
            if known.digits:
                digits = f'{known.digits} hexadecimal digits'
                self.assertIn(f' {digits}', part['description'])
                self.assertIn(f' {digits}', part['errorMessage'])
            for example in part['examples']:
                jsonschema.validate(example, part)
                self.assertIn(f"'{example}'", part['errorMessage'])

    def test_schema_names_the_keys_in_its_messages(self):
        for part, keys in (
            (SCHEMA['additionalProperties'], PARAGRAPH),
            (PARAGRAPH['identification'], IDENTIFICATION),
        ):
            found = re.findall('[a-z_]+', part['errorMessage'])
            known = [word for word in dict.fromkeys(found) if word in keys]
            self.assertEqual(set(keys), set(known))
            self.assertIn(part['errorMessage'].split('; ')[-1], str(SCHEMA))
        self.assertEqual(
            policy.DEFAULT_RESOURCE_CLASS,
            PARAGRAPH['resource_class']['default'],
        )

    @proofs.proves('D19')
    def test_keywords_of_schema_have_messages(self):
        spoken = messages.MESSAGES.keys()
        silent = {
            '$schema', '$id', 'title', 'description', 'default', 'examples',
            'errorMessage', 'properties', 'propertyNames', 'items', 'if',
            'then', 'additionalProperties',
        }  # fmt: skip
        for part in parts(SCHEMA):
            self.assertLessEqual(part.keys() - silent, spoken)
            if part.keys() & spoken:
                self.assertTrue(part['errorMessage'])

    def test_rules_beyond_schema_are_refused_by_parser_only(self):
        for text in BEYOND:
            with self.subTest(text=text[:80]):
                self.assertTrue(EDITOR.is_valid(yaml.safe_load(text)))
                self.assertFalse(accepted(text))


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
