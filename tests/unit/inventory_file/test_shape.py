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

"""Files of another shape, text that is no YAML, and the messages."""

import unittest

import ddt

from nova_powervm import exception
from nova_powervm import inventory_file
from tests.unit.inventory_file import refusals
from tests.unit.inventory_file.refusals import GOOD
from tests.unit.inventory_file.refusals import problems_of


@ddt.ddt
class ShapeTest(refusals.RefusalTestCase):
    @ddt.named_data(
        ['list', '- a\n', 1, 1, 'the file is a list'],
        ['text', 'gpus\n', 1, 1, 'the file is a single value'],
        ['null', 'null\n', 1, 1, 'the file is a single value'],
        ['empty quotes', "''\n", 1, 1, 'the file is a single value'],
        ['paragraph without anything', 'p:\n', 1, 1, 'paragraph is empty'],
        ['paragraph of text', 'p: all\n', 1, 1, 'paragraph is a single'],
        ['paragraph that is a list', 'p: [a]\n', 1, 1, 'paragraph is a list'],
        ['empty paragraph', 'p: {}\n', 1, 1, 'no identification section'],
        [
            'no identification',
            'p:\n  resource_class: CUSTOM_A\n',
            1, 1, 'no identification section',
        ],
        [
            'empty identification',
            'p:\n  identification: {}\n',
            2, 19, 'identification is empty',
        ],
        [
            'blank identification',
            'p:\n  identification:\n',
            2, 18, 'identification is empty',
        ],
        [
            'identification that is a list',
            'p:\n  identification: [class]\n',
            2, 19, 'identification is a list',
        ],
    )  # fmt: skip
    def test_wrong_structure_is_refused_at_its_place(
        self, text, line, column, words
    ):
        self.refused(text, (line, column), words, 'identification')

    @ddt.named_data(
        ['tab', 'p:\n\tidentification: {}\n', 2, 1, 'replace tabs by spaces'],
        ['open bracket', 'p: {identification: [\n', 2, 1, 'not valid YAML'],
        ['colon in a value', 'p: a: b\n', 1, 5, 'has to be quoted'],
        ['second document', f'p:\n{GOOD}---\n', 3, 1, 'second YAML document'],
        ['control character', 'p:\n  a\x07', 2, 4, 'U+0007'],
        ['null character', 'p\x00', 1, 2, 'U+0000'],
        ['half a character', 'p:\n\ud800', 2, 1, 'U+D800'],
        ['not UTF-8', b'p:\n  \xe9', 2, 3, '0xE9 is not UTF-8'],
        ['UTF-16', b'\xff\xfep\0:\0', 1, 1, 'encoding UTF-8'],
        ['escape too large', 'p: "\\UFFFFFFFF"', 1, 7, 'out of range'],
        ['version too large', f'%YAML 1.{"1" * 5000}\n--- p', 1, 9, 'range'],
        ['anchor', f'&a p:\n{GOOD}', 1, 1, '&a is an anchor'],
        ['tag', f'!!str p:\n{GOOD}', 1, 1, 'tags of YAML'],
        ['alias', 'p: *p\n', 1, 4, 'YAML reads *p as an alias'],
        ['alias as name', f'*p :\n{GOOD}', 1, 1, 'YAML reads *p as an alias'],
        ['Python tag', 'p: !!python/name:os.system\n', 1, 1, 'p'],
    )
    def test_invalid_yaml_is_refused_at_its_place(
        self, text, line, column, words
    ):
        if 'python' in str(text):
            found = problems_of(text)
            self.assertIn('tags of YAML', str(found))
        else:
            self.refused(text, (line, column), words)

    @ddt.named_data(
        ['lists', '[', 11],
        ['mappings', '{a: ', 38],
        ['block lists', '- ', 21],
        ['complex keys', '? ', 21],
    )
    def test_deep_nesting_is_refused(self, opening, column):
        self.refused(
            opening * 100000,
            (1, column),
            'more than 10 levels deep',
        )

    def test_recursive_alias_is_refused(self):
        found = problems_of('&a p: {identification: &b {class: *b}}\n')
        self.assertEqual(
            ['&a', '&b', 'YAML reads *b'],
            [
                problem.what.split(' is')[0].split(' as')[0]
                for problem in found
            ],
        )


class MessageTest(unittest.TestCase):
    def test_error_lists_problems_with_places_and_hints(self):
        with self.assertRaises(exception.PolicyInvalid) as caught:
            inventory_file.parse(
                'gpus:\n'
                '  identification:\n'
                '    vendor_id: 1014\n'
                '    device: beef\n'
                '  resource_class: CUSTOM_\n'
                'disks:\n'
                '  traits: [CUSTOM_POWERVM_X]\n',
                '/etc/nova/inventory.yaml',
            )
        error = caught.exception
        self.assertEqual('powervm.policy.invalid', error.code)
        self.assertEqual('/etc/nova/inventory.yaml', error.fields['path'])
        self.assertEqual(5, error.fields['count'])
        self.assertEqual(
            [
                (3, 16, 'gpus'),
                (4, 5, 'gpus'),
                (5, 19, 'gpus'),
                (6, 1, 'disks'),
                (7, 12, 'disks'),
            ],
            [
                (p.line, p.column, p.paragraph)
                for p in error.fields['problems']
            ],
        )
        lines = str(error).splitlines()
        self.assertEqual(
            '/etc/nova/inventory.yaml: 5 problem(s) in the inventory file:',
            lines[0],
        )
        self.assertEqual(
            "  line 3, column 16, paragraph 'gpus': vendor_id: YAML reads "
            "1014 as a number, not as text. Hint: quote it: '1014'; vendor_id "
            '(PCI vendor id) takes 4 hexadecimal digits without 0x, such as '
            "'10DE'; * stands for any characters and ? for one",
            lines[1],
        )

    def test_unprintable_text_stays_on_its_line(self):
        found = problems_of(
            '"a\\nFAKE": {"b\\r\\e[31m": 1}\n"' + 'c' * 300 + '": {}\n'
        )
        for problem in found:
            self.assertTrue(str(problem).isprintable(), repr(problem))
            self.assertLess(len(str(problem)), 400)

    def test_more_than_hundred_problems_are_cut_in_the_text_only(self):
        found = problems_of(''.join(f'p{i}:\n' for i in range(250)))
        self.assertEqual(250, len(found))
        lines = str(found).splitlines()
        self.assertEqual(101, len(lines))
        self.assertEqual('  and 150 more', lines[-1])

    def test_hundred_problems_are_shown(self):
        found = problems_of(''.join(f'p{i}:\n' for i in range(100)))
        self.assertEqual(100, len(str(found).splitlines()))
        self.assertNotIn('more', str(found))

    def test_problem_of_the_whole_file_has_no_place(self):
        self.assertEqual(
            'it is gone. Hint: look',
            str(inventory_file.Problem(what='it is gone', hint='look')),
        )
