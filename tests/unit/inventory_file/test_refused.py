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

"""Values and keys that are refused, and what the operator is told."""

import ddt

from nova_powervm import inventory_file
from tests.unit.inventory_file import refusals
from tests.unit.inventory_file.refusals import GOOD
from tests.unit.inventory_file.refusals import problems_of


@ddt.ddt
class ValueTest(refusals.RefusalTestCase):
    @ddt.named_data(
        ['decimal', 'vendor_id', '1014', 'a number'],
        ['octal', 'class', '0302', 'a number'],
        ['octal only for YAML 1.2', 'class', '0108', 'a number'],
        ['exponent', 'device_id', '1E10', 'a number'],
        ['zero exponent', 'device_id', '0e12', 'a number'],
        ['exponent in an index', 'drc_index', '21E40012', 'a number'],
        ['base 60', 'class', '12:30', 'a time'],
        ['prefix', 'vendor_id', '0x10DE', 'a number'],
        ['yes', 'vendor_id', 'yes', 'true or false'],
        ['off', 'vendor_id', 'OFF', 'true or false'],
        ['null', 'revision_id', 'null', 'no value'],
        ['tilde', 'revision_id', '~', 'no value'],
        ['date', 'drc_index', '2026-01-01', 'a date'],
        ['float', 'drc_name', '1.5', 'a number'],
        ['infinity', 'drc_name', '.inf', 'a number'],
        ['PCI address', 'drc_name', '8002:01:00.0', 'a number'],
        ['index', 'drc_index', '21010020', 'a number'],
        ['equals sign', 'drc_name', '=', 'a default value'],
    )
    def test_value_read_as_other_than_text_is_refused(self, key, value, kind):
        self.refused(
            f'p:\n  identification:\n    {key}: {value}\n',
            (3, 7 + len(key)),
            f'YAML reads {value} as {kind}',
            f"quote it: '{value}'",
            "paragraph 'p'",
            f'{key} (',
        )

    @ddt.named_data(
        ['short', 'vendor_id', '10D', '4 hexadecimal digits'],
        ['long', 'vendor_id', '10DEE', '4 hexadecimal digits'],
        ['not hex', 'device_id', 'G00D', '4 hexadecimal digits'],
        ['quoted prefix', 'device_id', "'0x10DE'", 'without 0x'],
        ['quoted time', 'class', "'12:30'", '4 hexadecimal digits'],
        ['revision', 'revision_id', 'ABC', '2 hexadecimal digits'],
        ['index', 'drc_index', "'0021010020'", '8 hexadecimal digits'],
        ['line break', 'class', '"abcd\\n"', 'line breaks'],
        [
            'digits of another script',
            'class',
            "'\u0661\u0662\u0663\u0664'",
            '4 hex',
        ],
        ['space in front', 'drc_name', "' U78'", 'white space'],
        ['space behind', 'drc_name', "'U78 '", 'white space'],
        ['only spaces', 'drc_name', "'  '", 'drc_name is empty'],
        ['nothing', 'drc_name', '', 'has no value'],
        ['empty quotes', 'drc_name', "''", 'has no value'],
        ['control character', 'drc_name', '"U\\e[1m"', 'not printable'],
        ['half a character', 'drc_name', '"U\\ud800"', 'not printable'],
        ['very long', 'drc_name', 'U' * 256, 'longer than 255'],
        ['list', 'drc_name', '[U78]', 'is a list'],
        ['mapping', 'class', '{a: b}', 'is a mapping'],
    )
    def test_invalid_value_is_refused(self, key, value, words):
        self.refused(
            f'p:\n  identification:\n    {key}: {value}\n',
            (3, 6 + len(key) + bool(value)),
            words,
        )

    @ddt.named_data(
        ['star alone', '*'],
        ['star in front', '*-P1-C2'],
        ['star and dot', '*.C1'],
        ['stars', '**'],
        ['two stars', '*-P1-*'],
    )
    def test_unquoted_leading_star_is_refused(self, value):
        for text in (
            f'p:\n  identification:\n    drc_name: {value}\n',
            f'p: {{\nidentification:\n   {{drc_name: {value}, y: }}}}',
        ):
            found = [p for p in problems_of(text) if 'alias' in p.what]
            (problem,) = found
            self.assertEqual((3, 15), (problem.line, problem.column))
            self.assertIn(f'YAML reads {value} as an alias', problem.what)
            self.assertIn(f"quote it: '{value}'", problem.hint)
            self.assertEqual('p', problem.paragraph)

    @ddt.named_data(
        ['in front', '?DB6'],
        ['at the end', '1DB?'],
        ['before a space', '1DB? '],
        ['in the middle', '1D?6'],
    )
    def test_unquoted_question_mark_in_brackets_is_refused(self, value):
        self.refused(
            f'p:\n  identification: {{device_id: {value}}}',
            (2, 31 + value.index('?')),
            f"quote it: '{value.strip()}'",
            "paragraph 'p'",
        )

    @ddt.named_data(
        ['too few digits', 'vendor_id', "'?'", 'can never match'],
        ['too many digits', 'vendor_id', "'10DE0*'", 'can never match'],
        ['set', 'vendor_id', "'10[DE]'", 'is not 4 hexadecimal digits'],
        ['many', 'drc_index', "'?????????'", 'can never match 8'],
        ['number', 'drc_name', '1.5*e', None],
    )
    def test_wildcard_that_can_not_match_is_refused(self, key, value, words):
        text = f'p:\n  identification:\n    {key}: {value}\n'
        if words:
            self.refused(text, (3, 7 + len(key)), words, 'and ? for one')
        else:
            inventory_file.parse(text, 'x')

    @ddt.named_data(
        ['quoted', "'true'", "is 'true' in quotes", 'out: true'],
        ['double quotes', '"no"', "is 'no' in quotes, which", 'out: no'],
        ['another word', 'maybe', "is 'maybe'", 'true'],
        ['on', 'on', "is 'on'", 'true'],
        ['one letter', 'y', "is 'y'", 'true'],
        ['number', '1', "is '1'", 'true'],
        ['other case', 'tRue', "is 'tRue'", 'true'],
        ['nothing', '', 'has no value', 'true'],
        ['empty quotes', "''", 'has no value', 'true'],
        ['null', 'null', "is 'null'", 'true'],
        ['list', '[true]', 'is a list', 'true'],
        ['mapping', '{a: true}', 'is a mapping', 'true'],
        ['block', '|\n    true', "is 'true\\n'", 'true'],
    )
    def test_invalid_boolean_is_refused(self, value, words, hint):
        for key in ('allow', 'one_time_use'):
            self.refused(
                f'p:\n{GOOD}  {key}: {value}\n',
                (3, 4 + len(key) + bool(value)),
                f'{key} {words}',
                hint,
                f'{key} takes true',
            )

    @ddt.named_data(
        ['no characters after CUSTOM_', 'CUSTOM_', 'not a resource class'],
        ['lower case', 'custom_gpu', 'did you mean CUSTOM_GPU?'],
        ['no prefix', 'GPU', 'did you mean CUSTOM_GPU?'],
        ['standard class', 'VCPU', 'satisfy requests for VCPU'],
        ['virtual GPU', 'VGPU', 'satisfy requests for VGPU'],
        ['number', '12', "quote it: '12'"],
        ['nothing', '', 'has no value'],
        ['list', '[CUSTOM_GPU]', 'is a list'],
        ['too long', 'CUSTOM_' + 'A' * 249, 'longer than 255'],
    )
    def test_invalid_resource_class_is_refused(self, value, words):
        self.refused(
            f'p:\n{GOOD}  resource_class: {value}\n',
            (3, 18 + bool(value)),
            words,
            'takes CUSTOM_',
        )

    @ddt.named_data(
        ['no characters after CUSTOM_', 'CUSTOM_', 'neither'],
        ['lower case', 'custom_fast', 'did you mean CUSTOM_FAST?'],
        ['misspelt', 'HW_GPU_API_VULCAN', 'mean HW_GPU_API_VULKAN?'],
        ['near one that is refused', 'OWNR_NOVA', 'Hint: a trait is'],
        ['unlike any', 'zzz-zzz', 'Hint: a trait is'],
        ['generated', 'CUSTOM_POWERVM_IOSLOT_CLASS_0302', 'to the driver'],
        ['withdrawn', 'CUSTOM_POWERVM_WITHDRAWN', 'to the driver'],
        ['bare prefix', 'CUSTOM_POWERVM_', 'to the driver'],
        ['owner', 'OWNER_CYBORG', 'who owns'],
        ['one time use', 'HW_PCI_ONE_TIME_USE', 'write one_time_use: true'],
        ['PCI tracker', 'COMPUTE_MANAGED_PCI_DEVICE', 'PCI tracker'],
        ['boolean', 'yes', "quote it: 'yes'"],
        ['list', '[CUSTOM_A]', 'is a list'],
    )
    def test_invalid_trait_is_refused(self, value, words):
        self.refused(
            f'p:\n{GOOD}  traits:\n    - {value}\n',
            (4, 7),
            words,
            'a trait is one of os-traits or CUSTOM_',
        )

    @ddt.named_data(
        ['empty', '[]', 'traits is empty'],
        ['nothing', '', 'traits is empty'],
        ['text', 'CUSTOM_A', 'traits is a single value'],
        ['mapping', '{CUSTOM_A: x}', 'traits is a mapping'],
    )
    def test_traits_other_than_a_list_are_refused(self, value, words):
        self.refused(
            f'p:\n{GOOD}  traits: {value}\n',
            (3, 10 + bool(value)),
            words,
            'takes a list with at least one name',
        )

    def test_trait_given_twice_is_refused(self):
        self.refused(
            f'p:\n{GOOD}  traits: [CUSTOM_A, CUSTOM_B, CUSTOM_A]\n',
            (3, 32),
            'trait CUSTOM_A appears twice',
        )


@ddt.ddt
class KeyTest(refusals.RefusalTestCase):
    @ddt.named_data(
        ['misspelt', 'identifcation', 'did you mean identification?'],
        ['capitals', 'Resource_Class', 'did you mean resource_class?'],
        ['one letter', 'trait', 'did you mean traits?'],
        ['from identification', 'vendor_id', 'belongs in the section'],
        ['unlike any', 'zzz', 'a paragraph takes identification'],
        ['near allow', 'alow', 'did you mean allow?'],
        ['near one_time_use', 'one-time-use', 'did you mean one_time_use?'],
    )
    def test_unknown_paragraph_key_is_refused(self, key, words):
        for value in ('true', 'false', '{a: b}'):
            self.refused(f'p:\n{GOOD}  {key}: {value}\n', (3, 3), words)

    @ddt.named_data(
        ['misspelt', 'vendorid', 'did you mean vendor_id?'],
        ['pypowervm: vendor', 'pci_vendor_id', 'did you mean vendor_id?'],
        ['pypowervm: device', 'pci_dev_id', 'did you mean device_id?'],
        [
            'pypowervm: subsystem',
            'pci_subsys_dev_id',
            'mean subsys_device_id?',
        ],
        ['pypowervm: class', 'pci_class', 'did you mean class?'],
        ['pypowervm: revision', 'pci_rev_id', 'did you mean revision_id?'],
        ['libvirt', 'product_id', 'did you mean device_id?'],
        ['capitals', 'DRC_Index', 'did you mean drc_index?'],
        ['wrong indentation', 'traits', 'one level further out'],
        ['allow', 'allow', 'one level further out'],
        ['unlike any', 'zzz', 'identification takes one or more of vendor_id'],
    )
    def test_unknown_identification_key_is_refused(self, key, words):
        self.refused(
            f'p:\n  identification:\n    class: ABCD\n    {key}: ABCD\n',
            (4, 5),
            f"no key '{key}'",
            words,
        )

    @ddt.named_data(
        ['paragraphs', f'p:\n{GOOD}p:\n{GOOD}', 3, 1, "name 'p'", 1],
        ['quoted and not', f'p:\n{GOOD}"p":\n{GOOD}', 3, 1, "'p'", 1],
        ['sections', f'p:\n{GOOD}{GOOD}', 3, 3, "key 'identification'", 2],
        [
            'properties',
            'p: {identification: {class: ABCD,\n class: ABCD}}',
            2, 2, "key 'class'", 1,
        ],
    )  # fmt: skip
    def test_key_given_twice_is_refused(
        self, text, line, column, which, first
    ):
        self.refused(
            text,
            (line, column),
            f'{which} appears twice, first in line {first}',
        )

    @ddt.named_data(
        ['paragraph key', f'p:\n{GOOD}  zzz: [{{a: [TWICE]}}]\n'],
        ['identification key', 'p: {identification: {class: a0b1, z: TWICE}}'],
        ['file', '- TWICE\n'],
        ['paragraph', 'p: [TWICE]\n'],
        ['identification', 'p: {identification: [TWICE]}'],
        ['traits', f'p:\n{GOOD}  traits: TWICE\n'],
        ['trait', f'p:\n{GOOD}  traits: [TWICE]\n'],
        ['class', f'p:\n{GOOD}  resource_class: TWICE\n'],
        ['value', 'p: {identification: {class: [TWICE]}}'],
        ['merged', f'p:\n{GOOD}  <<: TWICE\n'],
        ['under a list', f'p:\n{GOOD}  ? [a]\n  : TWICE\n'],
    )
    def test_key_given_twice_in_invalid_part_is_reported(self, text):
        found = problems_of(text.replace('TWICE', '{b: 1, b: 2}'))
        self.assertEqual(2, len(found), str(found))
        self.assertIn("key 'b' appears twice", found[1].what)

    def test_paragraph_below_unquoted_name_is_checked(self):
        found = problems_of('1: {}\n')
        self.assertEqual(['', '1'], [p.paragraph for p in found], str(found))

    @ddt.named_data(
        ['alias', '*p : {}\n', 1],
        ['list', '? [a]\n: {}\n', 3],
    )
    def test_paragraph_below_name_without_text_is_one_problem(
        self, text, column
    ):
        self.refused(text, (1, column))

    @ddt.named_data(
        ['number', '1', 'a number'],
        ['boolean', 'on', 'true or false'],
        ['date', '2026-10-01', 'a date'],
    )
    def test_name_read_as_other_than_text_is_refused(self, name, kind):
        self.refused(
            f'{name}:\n{GOOD}', (1, 1), f'as {kind}', f"quote it: '{name}'"
        )

    @ddt.named_data(
        ['empty', "''", 'has no value'],
        ['line break', '"a\\nb"', "'a\\nb'"],
        ['list', '? [a]\n', 'is a list'],
        ['merge', '<<', 'write the keys out'],
    )
    def test_invalid_name_is_refused(self, name, words):
        self.refused(f'{name}: {{identification: {{class: ABCD}}}}', (
            1, 3 if name.startswith('?') else 1,
        ), words)  # fmt: skip


@ddt.ddt
class DenialTest(refusals.RefusalTestCase):
    """What stands beside allow: false."""

    @ddt.named_data(
        ['class', 'resource_class: CUSTOM_A'],
        ['traits', 'traits: [CUSTOM_A]'],
        ['one_time_use', 'one_time_use: true'],
        ['one_time_use that says no', 'one_time_use: false'],
    )
    def test_denial_takes_identification_only(self, other):
        key = other.split(':')[0]
        for word in ('false', 'no', 'NO'):
            self.refused(
                f'p:\n{GOOD}  allow: {word}\n  {other}\n',
                (4, 3),
                f'{key} stands beside allow: false',
                'takes identification and nothing else',
            )
            self.refused(
                f'p:\n  {other}\n  allow: {word}\n{GOOD}',
                (2, 3),
                'beside allow: false',
            )

    def test_keys_beside_a_denial_are_reported_at_once(self):
        found = problems_of(
            f'p:\n{GOOD}  traits: [CUSTOM_A]\n  allow: false\n'
            '  resource_class: PGPU\n  one_time_use: no\n'
        )
        self.assertEqual([3, 5, 6], [problem.line for problem in found])

    def test_denial_needs_an_identification(self):
        self.refused('p:\n  allow: false\n', (1, 1), 'no identification')

    def test_invalid_allow_is_one_problem(self):
        self.refused(
            f"p:\n{GOOD}  allow: 'false'\n  traits: [CUSTOM_A]\n",
            (3, 10),
            'in quotes',
        )
