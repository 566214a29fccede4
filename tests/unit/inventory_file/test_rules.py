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

"""Each rule about a wrong file, in the words of its requirement.

What the messages say in detail is in the other modules of this package; the
file on disk is in test_load.
"""

import contextlib
import time

import ddt

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.inventory_file import problems as problems_module
from nova_powervm.inventory_file import yaml_loader
from tests.unit.inventory_file import refusals
from tests.unit.inventory_file.refusals import GOOD
from tests.unit.inventory_file.refusals import problems_of


@ddt.ddt
class RulesTest(refusals.RefusalTestCase):
    def test_duplicate_paragraph_names_are_refused(self):
        self.refused(f'p:\n{GOOD}q:\n{GOOD}p:\n{GOOD}', (5, 1), 'twice')

    @ddt.named_data(
        ['sections', f'p:\n{GOOD}  allow: true\n  allow: yes\n', 4, 3],
        ['values', 'p:\n  identification: {class: ABCD, class: ABCD}', 2, 33],
        ['upper case is another key', f'p:\n{GOOD}P:\n{GOOD}', 0, 0],
    )
    def test_duplicate_keys_are_refused_at_any_depth(self, text, line, column):
        if line:
            self.refused(text, (line, column), 'twice')
        else:
            inventory_file.parse(text, 'x')

    def test_unknown_keys_are_refused_with_the_nearest_known_one(self):
        found = problems_of(
            f'p:\n{GOOD}  one_time_uses: yes\n  traitss: [CUSTOM_A]\n'
            'q:\n  identification: {vendr_id: ABCD}\n'
        )
        self.assertEqual(
            ['one_time_use', 'traits', 'vendor_id'],
            [p.hint.split('?')[0].split()[-1] for p in found],
        )

    @ddt.named_data(
        ['paragraph', 'p:\n'],
        ['braces', 'p: {}\n'],
        ['identification', 'p:\n  identification:\n'],
        ['identification in braces', 'p:\n  identification: {}\n'],
        ['value', 'p:\n  identification: {class: }\n'],
        ['quoted value', "p:\n  identification: {class: ''}\n"],
        ['traits', f'p:\n{GOOD}  traits: []\n'],
        ['blank traits', f'p:\n{GOOD}  traits:\n'],
        ['a trait', f'p:\n{GOOD}  traits: [CUSTOM_A, ""]\n'],
        ['resource_class', f'p:\n{GOOD}  resource_class:\n'],
        ['allow', f'p:\n{GOOD}  allow:\n'],
        ['one_time_use', f'p:\n{GOOD}  one_time_use:\n'],
    )
    def test_empty_sections_are_refused(self, text):
        (problem,) = problems_of(text)
        self.assertRegex(problem.what, 'empty|has no')
        self.assertEqual('p', problem.paragraph)

    @ddt.named_data(
        ['indentation', 'p:\n\tidentification: {class: ABCD}\n', 2, 1],
        ['before a value', 'p:\n  identification:\n    class:\tABCD\n', 3, 11],
        ['after a value', 'p:\n  identification:\n    class: ABCD\t\n', 3, 16],
        ['blank line', f'\t\np:\n{GOOD}', 1, 1],
        ['in brackets', 'p: {identification:\t{class: ABCD}}', 1, 20],
    )
    def test_tabs_are_refused(self, text, line, column):
        self.refused(text, (line, column), 'replace tabs by spaces')

    def test_tabs_in_comments_are_accepted(self):
        inventory_file.parse(f'#\tp\np: #\tx\n{GOOD}', 'x')

    @ddt.named_data(
        ['list', '- p\n'], ['text', 'p\n'], ['null', 'null\n'], ['number', '1']
    )
    def test_file_other_than_a_mapping_is_refused(self, text):
        self.refused(text, (1, 1), 'the file is', 'a mapping of paragraph')

    @ddt.named_data(
        ['two', f'p:\n{GOOD}---\nq:\n{GOOD}'],
        ['an empty one', f'p:\n{GOOD}---\n'],
        ['ended', f'p:\n{GOOD}...\n---\nq:\n{GOOD}'],
    )
    def test_second_document_is_refused(self, text):
        (problem,) = problems_of(text)
        self.assertIn('a second YAML document begins here', problem.what)

    def test_anchors_and_merge_keys_are_refused(self):
        found = problems_of(
            f'p: &a\n{GOOD}q:\n  <<: *a\n  traits: [CUSTOM_A]\n'
        )
        self.assertEqual(
            [
                (1, 'p', '&a is an anchor'),
                (3, 'q', 'the paragraph h'),
                (4, 'q', '<< is a merge k'),
                (4, 'q', 'YAML reads *a a'),
            ],
            [(p.line, p.paragraph, p.what[:15]) for p in found],
        )

    def test_anchor_defined_twice_is_refused_at_both_places(self):
        found = problems_of(f'p: &a\n{GOOD}q: &a\n{GOOD}')
        self.assertEqual(
            [(1, '&a is an anchor'), (3, '&a is an anchor')],
            [(p.line, p.what[:15]) for p in found],
        )

    def test_aliases_are_refused_before_they_are_expanded(self):
        """A text that expands to a billion values costs nothing."""
        lines = ['a: &a [x, x, x, x, x, x, x, x, x, x]']
        for before, name in zip('abcdefgh', 'bcdefghi', strict=True):
            lines.append(f'{name}: &{name} [{", ".join([f"*{before}"] * 10)}]')
        found = problems_of('\n'.join(lines))
        self.assertEqual(9, sum('anchor' in p.what for p in found))
        self.assertEqual(80, sum('alias' in p.what for p in found))

    def test_text_over_one_mebibyte_is_refused(self):
        for text in ('#' * 1048577, b'#' * 1048577, '\u00e9' * 524289):
            (problem,) = problems_of(text)
            self.assertIn('larger than 1048576 bytes', problem.what)
        inventory_file.parse('#' * 1048576, 'x')

    def test_byte_that_is_not_utf8_is_refused_at_its_place(self):
        self.refused(b'p:\n  \xe9: x', (2, 3), '0xE9 is not UTF-8')

    def test_problems_are_reported_at_once_with_their_places(self):
        found = problems_of(
            'gpus:\n'
            '  identification: {vendor_id: 1014, device_id: *A}\n'
            "  allow: 'false'\n"
            '  resource_class: VCPU\n'
            '  traits: [OWNER_NOVA, HW_PCI_ONE_TIME_USE]\n'
            'disks: !!map\n'
            '  one_time_use: on\n'
            '  identificaton: {}\n'
            'disks:\n'
            '  identification: {}\n'
        )
        self.assertEqual(
            [
                (2, 31, 'gpus'),
                (2, 48, 'gpus'),
                (3, 10, 'gpus'),
                (4, 19, 'gpus'),
                (5, 12, 'gpus'),
                (5, 24, 'gpus'),
                (6, 1, 'disks'),
                (6, 8, 'disks'),
                (7, 17, 'disks'),
                (8, 3, 'disks'),
                (9, 1, ''),
                (10, 19, 'disks'),
            ],
            [(p.line, p.column, p.paragraph) for p in found],
        )
        for problem in found:
            self.assertTrue(problem.what and problem.hint, problem)

    @ddt.named_data(
        ['within a paragraph', 'p:\n  x: a: b\nq: {}\n', 'p'],
        ['at the margin', 'p:\n  x: a\n@q: {}\n', ''],
        ['before any', '@p: {}\n', ''],
        ['on the line of the name', 'p: a: b\n', 'p'],
        ['in brackets', '{p: {x: y},\n q: {x: @}}\n', 'q'],
    )
    def test_syntax_error_names_its_paragraph(self, text, name):
        (problem,) = problems_of(text)
        self.assertIn('not valid YAML', problem.what)
        self.assertEqual(name, problem.paragraph)

    @ddt.named_data(
        ['at sign', '@x'], ['grave accent', '`x'], ['percent', '%x']
    )
    def test_value_with_leading_reserved_character_has_to_be_quoted(
        self, value
    ):
        self.refused(
            f'p:\n  identification: {{drc_name: {value}}}',
            (2, 30),
            'begins with this character has to be quoted',
        )

    @ddt.named_data(
        ['generated', 'CUSTOM_POWERVM_X', 'all traits that begin with'],
        ['owner', 'OWNER_NOVA', 'who owns a device'],
        ['tracker', 'COMPUTE_MANAGED_PCI_DEVICE', 'PCI tracker delete'],
        ['once', 'HW_PCI_ONE_TIME_USE', 'one_time_use: true'],
    )
    def test_refused_trait_names_the_rule(self, trait, rule):
        self.refused(f'p:\n{GOOD}  traits: [{trait}]\n', (3, 12), rule)


@ddt.ddt
class LimitsTest(refusals.RefusalTestCase):
    """What a hostile file can't do."""

    def test_too_many_values_are_refused_before_they_are_kept(self):
        text = '[' + 'a,' * (yaml_loader.MAX_NODES + 1000) + ']'
        self.refused(
            text,
            (1, 2 + 2 * (yaml_loader.MAX_NODES - 1)),
            f'more than {yaml_loader.MAX_NODES} keys and values',
        )

    def test_maximum_number_of_values_is_accepted(self):
        # The list is the ninth.
        for more, words in ((0, 'twice'), (1, 'keys and values')):
            items = 'HW_NUMA_ROOT, ' * (yaml_loader.MAX_NODES - 9 + more)
            found = problems_of(f'p:\n{GOOD}  traits: [{items}]\n')
            self.assertIn(words, found[-1].what)

    def test_reading_stops_after_the_maximum_of_problems(self):
        found = problems_of('x: 1\n' * 2000)
        self.assertEqual(problems_module.MAX_PROBLEMS + 1, len(found))
        self.assertEqual((0, 0), (found[0].line, found[0].column))
        self.assertIn('more than 500 problems', found[0].what)

    def test_maximum_number_of_problems_is_reported(self):
        found = problems_of(''.join(f'p{i}:\n' for i in range(500)))
        self.assertEqual(500, len(found))
        self.assertEqual(1, found[0].line)

    def test_long_values_are_cut_in_the_message(self):
        for value in ('9' * 200000, '*' * 200000, '"' + 'x' * 200000 + '"'):
            (problem,) = problems_of(
                f'p: {{identification: {{drc_name: {value}}}}}'
            )
            self.assertLess(len(str(problem)), 500)

    @ddt.named_data(
        ['names', 'a:\n'],
        ['lines of one text', 'a\n'],
        ['items', '- a\n'],
        ['blank lines', '\n'],
    )
    def test_mebibyte_of_text_is_parsed_in_seconds(self, line):
        self.check_time(line * (1048576 // len(line)))

    def test_parser_reads_20000_invalid_traits_in_seconds(self):
        traits = ''.join(f'  - HW_CPU_X86_Z{i}\n' for i in range(20000))
        self.check_time(f'p:\n{GOOD}  traits:\n{traits}')

    def check_time(self, text):
        # A few seconds on a machine with nothing else to do.
        before = time.process_time()
        with contextlib.suppress(exception.PolicyInvalid):
            inventory_file.parse(text, 'x')
        self.assertLess(time.process_time() - before, 30)
