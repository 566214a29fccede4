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

"""Files that the parser takes."""

import unittest

from nova_powervm import inventory_file
from nova_powervm.devices import policy
from tests import proofs

ALL_KEYS = {
    'vendor_id': '10DE',
    'device_id': '1EB8',
    'subsys_vendor_id': '1014',
    'subsys_device_id': '0001',
    'class': '0302',
    'revision_id': 'A1',
    'drc_index': '21010020',
    'drc_name': 'U78CB.001.WZS0JZB-P1-C2',
}


def read_one(text):
    """Return the only paragraph of a file."""
    (paragraph,) = inventory_file.parse(text, 'x').paragraphs
    return paragraph


def read_with(line=''):
    """Return the paragraph with one more line."""
    return read_one(f'p:\n  identification: {{class: ABCD}}\n  {line}\n')


class AcceptedTest(unittest.TestCase):
    @proofs.proves('device.identify.wildcard')
    def test_identification_is_read(self):
        for key, written, value in (
            ('vendor_id', "'1014'", '1014'),
            ('class', '"0302"', '0302'),
            ('vendor_id', '10DE', '10DE'),
            # Lower case is accepted, and location codes keep theirs.
            ('device_id', 'beef', 'BEEF'),
            ('drc_index', '1c0FFee1', '1C0FFEE1'),
            ('revision_id', "'0a'", '0A'),
            ('drc_name', 'U78cb.001-P1-C2', 'U78cb.001-P1-C2'),
            ('drc_name', 'U' * 255, 'U' * 255),
            ('drc_name', '"U78 P1"', 'U78 P1'),
            # Wildcards; other signs are text.
            ('device_id', '1DB*', '1DB*'),
            ('device_id', '"1db*"', '1DB*'),
            ('vendor_id', "'*'", '*'),
            ('drc_index', "'2101????'", '2101????'),
            ('drc_name', 'U78CB.001.WZS0JZB-P1-*', 'U78CB.001.WZS0JZB-P1-*'),
            ('drc_name', '"U78[A]"', 'U78[A]'),
            ('drc_name', '1.5*e', '1.5*e'),
            # Only YAML 1.2 reads these as numbers.
            ('class', '0108', '0108'),
            ('device_id', '1E10', '1E10'),
            ('device_id', '0e12', '0E12'),
            ('drc_index', '21E40012', '21E40012'),
            ('drc_name', '0o17', '0o17'),
        ):
            for text in (
                f'p: {{identification: {{{key}: {written}}}}}',
                f'p:\n  identification:\n    {key}: {written}\n',
            ):
                with self.subTest(text):
                    found = read_one(text).identification
                    self.assertEqual({key: value}, found)

    def test_question_mark_outside_brackets_needs_no_quotes(self):
        for value in ('?DB6', '1DB?'):
            text = f'p:\n  identification:\n    device_id: {value}\n'
            self.assertEqual(
                {'device_id': value}, read_one(text).identification
            )

    @proofs.proves(
        'D20', 'D25', 'D26', 'D27', 'D44', 'device.identify.location'
    )
    def test_paragraph_with_all_keys_is_read(self):
        self.assertEqual(set(policy.PROPERTIES), set(ALL_KEYS))
        values = ', '.join(f"{key}: '{v}'" for key, v in ALL_KEYS.items())
        read = inventory_file.parse(
            '# comment\n'
            'the gpus:\n'
            f'  identification: {{{values}}}\n'
            '  resource_class: CUSTOM_GPU\n'
            '  traits: [CUSTOM_FAST, HW_GPU_API_VULKAN]\n',
            '/etc/nova/inventory.yaml',
        )
        paragraph = policy.Paragraph(
            name='the gpus',
            identification=ALL_KEYS,
            resource_class='CUSTOM_GPU',
            traits=('CUSTOM_FAST', 'HW_GPU_API_VULKAN'),
            line=2,
        )
        self.assertEqual(
            policy.Policy((paragraph,), '/etc/nova/inventory.yaml'), read
        )

    @proofs.proves('D35')
    def test_boolean_words_are_read(self):
        for word in ('true', 'True', 'TRUE', 'yes', 'Yes', 'YES'):
            self.assertIs(True, read_with(f'allow: {word}').allow)
            found = read_with(f'one_time_use: {word}')
            self.assertEqual((True, True), (found.allow, found.one_time_use))
        for word in ('false', 'False', 'FALSE', 'no', 'No', 'NO'):
            self.assertIs(False, read_with(f'allow: {word}').allow)
            found = read_with(f'one_time_use: {word}')
            self.assertEqual((True, False), (found.allow, found.one_time_use))

    def test_quoted_name_is_always_text(self):
        for name in ('<<', '1', 'yes', '*'):
            text = f"'{name}': {{identification: {{class: ABCD}}}}"
            self.assertEqual(name, read_one(text).name)

    @proofs.proves('D34', 'D40', 'D42', 'D44')
    def test_absent_keys_have_default_values(self):
        self.assertEqual(
            policy.Paragraph(
                'p', {'class': 'ABCD'}, 'CUSTOM_IOSLOT', (), True, False, 1
            ),
            read_with(),
        )

    @proofs.proves('D21')
    def test_paragraphs_keep_the_order_of_the_file(self):
        names = ('zebra', 'ant', 'Mole')
        text = ''.join(
            f'{name}: {{identification: {{class: "0302"}}}}\n'
            for name in names
        )
        self.assertEqual(
            [*zip(names, (1, 2, 3), strict=True)],
            [
                (p.name, p.line)
                for p in inventory_file.parse(text, 'x').paragraphs
            ],
        )

    @proofs.proves('D16', 'device.resource-class')
    def test_resource_class_is_read(self):
        for text in ('CUSTOM_GPU', 'PGPU', 'FPGA', "'CUSTOM_X'"):
            found = read_with(f'resource_class: {text}').resource_class
            self.assertEqual(text.strip("'"), found)

    def test_text_without_paragraphs_is_empty_policy(self):
        for text in (
            '',
            ' \n\n',
            '# all:\n#   identification:\n',
            '---\n',
            '{}',
            b'',
            b'\xef\xbb\xbf',
        ):
            self.assertEqual(
                policy.Policy(source='here'),
                inventory_file.parse(text, 'here'),
            )

    def test_utf8_variants_are_read(self):
        text = b'p\xc3\xa9: {identification: {class: ABCD}}'
        for variant in (
            text,
            b'\xef\xbb\xbf' + text,
            b'p\xc3\xa9:\r\n  identification:\r\n    class: ABCD',
            b'---\n' + text + b'\n',
            text + b'\n...\n',
        ):
            paragraph = read_one(variant)
            self.assertEqual(
                ('p\u00e9', {'class': 'ABCD'}),
                (paragraph.name, paragraph.identification),
            )
