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

"""The schema of the inventory file that is shipped."""

import json
import unittest

import ddt
import jsonschema
import yaml

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_keywords
from nova_powervm.inventory_file import schema
from tests.unit.inventory_file import refusals

BUILT = schema.build_schema()
VALIDATOR = jsonschema.Draft202012Validator(BUILT)
GOOD = refusals.GOOD

#: For each rule that the schema can't say, files that it takes for good.
BEYOND = {
    'duplicate keys': (
        f'p:\n{GOOD}p:\n{GOOD}',
        f'p:\n{GOOD}  allow: true\n  allow: true\n',
    ),
    'parts of YAML': (
        f'p: &a\n{GOOD}',
        'p: {identification: &a {class: ABCD}}\nq: {identification: *a}\n',
        f'p:\n{GOOD}  traits: [!!str CUSTOM_A]\n',
        f'x: &x\n{GOOD}p:\n  <<: *x\n',
    ),
    'quotes around text': (
        'p: {identification: {device_id: 1E10}}',
        'p: {identification: {class: 0108}}',
        f'n:\n{GOOD}',
    ),
    'no quotes around booleans': (
        f"p:\n{GOOD}  allow: 'yes'\n",
        f'p:\n{GOOD}  one_time_use: on\n',
    ),
    'printable text': (
        f'"p\\n":\n{GOOD}',
        'p: {identification: {drc_name: "U\\e78"}}',
        'p: {identification: {class: "ABCD\\n"}}',
    ),
    'nothing': ('null', '~'),
    'size': ('#' * 1048577,),
}


def accepted(text):
    """Whether the parser takes a text."""
    try:
        inventory_file.parse(text, 'x')
    except exception.PolicyInvalid:
        return False
    return True


@ddt.ddt
class SchemaTest(unittest.TestCase):
    def test_schema_is_valid(self):
        jsonschema.Draft202012Validator.check_schema(BUILT)
        self.assertEqual(
            'https://json-schema.org/draft/2020-12/schema', BUILT['$schema']
        )
        self.assertTrue(BUILT['$id'])

    def test_shipped_schema_is_up_to_date(self):
        self.assertEqual(
            schema.format_schema(BUILT),
            schema.read_shipped_schema(),
            'run python3 -m nova_powervm.inventory_file.schema > '
            'nova_powervm/inventory_file/inventory.schema.json',
        )
        self.assertEqual(BUILT, json.loads(schema.read_shipped_schema()))

    def test_schema_describes_each_key(self):
        paragraph = BUILT['$defs']['paragraph']['properties']
        identification = BUILT['$defs']['identification']['properties']
        self.assertEqual(set(file_keywords.PARAGRAPH_KEYS), set(paragraph))
        self.assertEqual(list(policy.PROPERTIES), list(identification))
        for key, value in {**paragraph, **identification}.items():
            if '$ref' in value and key == 'identification':
                value = BUILT['$defs'][key]  # noqa: PLW2901
            self.assertGreater(len(value['description']), 40, key)

    def test_examples_of_schema_are_valid(self):
        values = BUILT['$defs']['identification']['properties'].values()
        for value in values:
            for example in value['examples']:
                jsonschema.validate(example, value)

    def test_rules_beyond_schema_are_described(self):
        # Of the traits that a schema knows, none is beyond it here.
        self.assertEqual(
            {*schema.RULES_BEYOND_SCHEMA}, {*BEYOND, 'standard traits'}
        )

    def test_rules_beyond_schema_are_refused_by_parser_only(self):
        for rule, texts in BEYOND.items():
            for text in texts:
                with self.subTest(rule=rule, text=text[:80]):
                    self.assertTrue(VALIDATOR.is_valid(yaml.safe_load(text)))
                    self.assertFalse(accepted(text))

    @ddt.named_data(
        ['number', 'vendor_id: 1014'],
        ['octal', 'class: 0302'],
        ['octal of two', 'class: 0100'],
        ['time', 'class: 12:30'],
        ['prefix', 'vendor_id: 0x10DE'],
        ['boolean', 'vendor_id: yes'],
        ['null', 'vendor_id: null'],
        ['nothing', 'vendor_id: '],
        ['quoted prefix', "vendor_id: '0x10DE'"],
        ['short', "vendor_id: '10D'"],
        ['long', "vendor_id: '10DE0'"],
        ['long with a star', "vendor_id: '10DE0*'"],
        ['too many question marks', "vendor_id: '?????'"],
        ['empty', "vendor_id: ''"],
        ['long revision', "revision_id: '0A1'"],
        ['space', "drc_name: ' U78'"],
        ['unknown', "product_id: '10DE'"],
    )
    def test_schema_and_parser_refuse_invalid_values(self, value):
        text = f'p: {{identification: {{{value}}}}}'
        self.assertFalse(VALIDATOR.is_valid(yaml.safe_load(text)))
        self.assertFalse(accepted(text))

    @ddt.named_data(
        ['no section', 'p: {}'],
        ['other sections only', 'p: {allow: true, resource_class: CUSTOM_A}'],
        ['denial only', 'p: {allow: false}'],
        ['no key', 'p: {identification: {}}'],
        ['no key beside a denial', 'p: {allow: false, identification: {}}'],
    )
    def test_schema_and_parser_require_identification(self, text):
        self.assertFalse(VALIDATOR.is_valid(yaml.safe_load(text)))
        self.assertFalse(accepted(text))

    @ddt.named_data(
        ['star', "vendor_id: '*'"],
        ['stars', "vendor_id: '**1*D**'"],
        ['star and all digits', "vendor_id: '10*DE'"],
        ['question marks', "vendor_id: '????'"],
        ['fewer with a star', "vendor_id: '?*'"],
        ['one character', 'drc_name: U'],
        ['spaces within', "drc_name: 'U 7 8'"],
    )
    def test_schema_and_parser_accept_valid_values(self, value):
        text = f'p: {{identification: {{{value}}}}}'
        self.assertTrue(VALIDATOR.is_valid(yaml.safe_load(text)))
        self.assertTrue(accepted(text))
