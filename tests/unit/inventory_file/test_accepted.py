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

"""What the inventory file may say, and what comes of it."""

import unittest

import ddt

from nova_powervm import inventory_file
from nova_powervm.devices import policy


def identified(section):
    """Parse one paragraph with this identification."""
    (paragraph,) = inventory_file.parse(
        f'p:\n  identification: {section}\n', 'x'
    ).paragraphs
    return paragraph.identification


@ddt.ddt
class AcceptedTest(unittest.TestCase):
    @ddt.named_data(
        ['quoted number', "{vendor_id: '1014'}", {'vendor_id': '1014'}],
        ['double quotes', '{class: "0302"}', {'class': '0302'}],
        ['letters need no quotes', '{vendor_id: 10DE}', {'vendor_id': '10DE'}],
        ['all letters', '{device_id: BEEF}', {'device_id': 'BEEF'}],
        ['lower case', '{device_id: beef}', {'device_id': 'BEEF'}],
        ['mixed case', '{drc_index: 1c0FFee1}', {'drc_index': '1C0FFEE1'}],
        ['two digits', "{revision_id: '0a'}", {'revision_id': '0A'}],
        [
            'location code keeps its case',
            '{drc_name: U78cb.001-P1-C2}',
            {'drc_name': 'U78cb.001-P1-C2'},
        ],
        ['longest', f'{{drc_name: {"U" * 255}}}', {'drc_name': 'U' * 255}],
        ['star', '{device_id: 1DB*}', {'device_id': '1DB*'}],
        ['star in lower case', '{device_id: "1db*"}', {'device_id': '1DB*'}],
        ['star alone', "{vendor_id: '*'}", {'vendor_id': '*'}],
        [
            'question marks',
            "{drc_index: '2101????'}",
            {'drc_index': '2101????'},
        ],
        [
            'of the specification',
            '{drc_name: U78CB.001.WZS0JZB-P1-*}',
            {'drc_name': 'U78CB.001.WZS0JZB-P1-*'},
        ],
        [
            'other signs are text',
            '{drc_name: "U78[A]"}',
            {'drc_name': 'U78[A]'},
        ],
        ['space within', '{drc_name: "U78 P1"}', {'drc_name': 'U78 P1'}],
        ['number with a star', '{drc_name: 1.5*e}', {'drc_name': '1.5*e'}],
        ['number of YAML 1.2', '{class: 0108}', {'class': '0108'}],
        ['exponent of YAML 1.2', '{device_id: 1E10}', {'device_id': '1E10'}],
        ['zero exponent', '{device_id: 0e12}', {'device_id': '0E12'}],
        ['long exponent', '{drc_index: 21E40012}', {'drc_index': '21E40012'}],
        ['octal of YAML 1.2', '{drc_name: 0o17}', {'drc_name': '0o17'}],
    )
    def test_identification_is_read(self, section, expected):
        self.assertEqual(expected, identified(section))

    def test_eight_identification_keys_are_read(self):
        values = {
            'vendor_id': '10DE',
            'device_id': '1EB8',
            'subsys_vendor_id': '1014',
            'subsys_device_id': '0001',
            'class': '0302',
            'revision_id': 'A1',
            'drc_index': '21010020',
            'drc_name': 'U78CB.001.WZS0JZB-P1-C2',
        }
        self.assertEqual(set(policy.PROPERTIES), set(values))
        section = ', '.join(f"{key}: '{v}'" for key, v in values.items())
        self.assertEqual(values, identified(f'{{{section}}}'))

    def test_paragraph_with_its_keys_is_read(self):
        read = inventory_file.parse(
            '# comment\n'
            'the gpus:\n'
            '  identification:\n'
            '    vendor_id: 10de\n'
            '  resource_class: CUSTOM_GPU\n'
            '  traits: [CUSTOM_FAST, HW_GPU_API_VULKAN]\n',
            '/etc/nova/inventory.yaml',
        )
        self.assertEqual(
            policy.Policy(
                paragraphs=(
                    policy.Paragraph(
                        name='the gpus',
                        identification={'vendor_id': '10DE'},
                        resource_class='CUSTOM_GPU',
                        traits=('CUSTOM_FAST', 'HW_GPU_API_VULKAN'),
                        line=2,
                    ),
                ),
                source='/etc/nova/inventory.yaml',
            ),
            read,
        )

    def test_question_mark_outside_brackets_needs_no_quotes(self):
        for value in ('?DB6', '1DB?'):
            self.assertEqual(
                {'device_id': value},
                identified(f'\n    device_id: {value}'),
            )

    @ddt.named_data(
        ['true', ('true', 'True', 'TRUE', 'yes', 'Yes', 'YES'), True],
        ['false', ('false', 'False', 'FALSE', 'no', 'No', 'NO'), False],
    )
    def test_boolean_words_are_read(self, words, expected):
        for word in words:
            (paragraph,) = inventory_file.parse(
                f'p:\n  identification: {{class: ABCD}}\n  allow: {word}\n',
                'x',
            ).paragraphs
            self.assertIs(expected, paragraph.allow, word)
            self.assertIs(False, paragraph.one_time_use)
            (paragraph,) = inventory_file.parse(
                'p:\n  identification: {class: ABCD}\n'
                f'  one_time_use: {word}\n',
                'x',
            ).paragraphs
            self.assertIs(expected, paragraph.one_time_use, word)
            self.assertIs(True, paragraph.allow)

    def test_quoted_name_is_always_text(self):
        for name in ('<<', '1', 'yes', '*'):
            (paragraph,) = inventory_file.parse(
                f"'{name}': {{identification: {{class: ABCD}}}}", 'x'
            ).paragraphs
            self.assertEqual(name, paragraph.name)

    def test_absent_keys_have_default_values(self):
        (paragraph,) = inventory_file.parse(
            'p: {identification: {class: "0302"}}', 'x'
        ).paragraphs
        self.assertEqual('CUSTOM_IOSLOT', paragraph.resource_class)
        self.assertEqual((), paragraph.traits)
        self.assertIs(True, paragraph.allow)
        self.assertIs(False, paragraph.one_time_use)

    def test_paragraphs_keep_the_order_of_the_file(self):
        read = inventory_file.parse(
            ''.join(
                f'{name}: {{identification: {{class: "0302"}}}}\n'
                for name in ('zebra', 'ant', 'Mole')
            ),
            'x',
        )
        self.assertEqual(
            [('zebra', 1), ('ant', 2), ('Mole', 3)],
            [(p.name, p.line) for p in read.paragraphs],
        )

    @ddt.named_data(
        ['CUSTOM', 'CUSTOM_GPU'],
        ['PGPU', 'PGPU'],
        ['FPGA', 'FPGA'],
        ['quoted', "'CUSTOM_X'"],
    )
    def test_resource_class_is_read(self, text):
        (paragraph,) = inventory_file.parse(
            f'p:\n  identification: {{class: ABCD}}\n  resource_class: {text}',
            'x',
        ).paragraphs
        self.assertEqual(text.strip("'"), paragraph.resource_class)

    @ddt.named_data(
        ['nothing', ''],
        ['white space', ' \n\n'],
        ['comments only', '# all:\n#   identification:\n'],
        ['document marker', '---\n'],
        ['empty mapping', '{}'],
        ['bytes', b''],
        ['byte order mark', b'\xef\xbb\xbf'],
    )
    def test_text_without_paragraphs_is_empty_policy(self, text):
        self.assertEqual(
            policy.Policy(source='here'), inventory_file.parse(text, 'here')
        )

    @ddt.named_data(
        ['bytes', b'p\xc3\xa9: {identification: {class: ABCD}}'],
        [
            'with mark',
            b'\xef\xbb\xbfp\xc3\xa9: {identification: {class: ABCD}}',
        ],
        [
            'carriage returns',
            b'p\xc3\xa9:\r\n  identification:\r\n    class: ABCD',
        ],
        ['marker first', b'---\np\xc3\xa9: {identification: {class: ABCD}}\n'],
        ['marker last', b'p\xc3\xa9: {identification: {class: ABCD}}\n...\n'],
    )
    def test_utf8_variants_are_read(self, text):
        (paragraph,) = inventory_file.parse(text, 'x').paragraphs
        self.assertEqual('p\u00e9', paragraph.name)
        self.assertEqual({'class': 'ABCD'}, paragraph.identification)
