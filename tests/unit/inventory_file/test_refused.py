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

"""Bad files: the code, the place and the words of each problem.

An arrow in a text marks the place of its problem, and is taken out.
"""

import contextlib
import pathlib
import time
import unittest

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.inventory_file import problems as problems_module
from nova_powervm.inventory_file import structure
from nova_powervm.inventory_file import yaml_document
from nova_powervm.inventory_file.problems import Code
from tests import proofs

GOOD = '  identification: {class: ABCD}\n'


def problems_of(text):
    """Give the problems of a text that is refused."""
    try:
        policy = inventory_file.parse(text, 'inv')
    except exception.PolicyInvalid as error:
        return error.fields['problems']
    raise AssertionError(f'{text!r} was accepted as {policy}')


def within(value):
    """Give a file with this value of drc_name."""
    return f'p:\n  identification:\n    drc_name: →{value}\n'


class RefusalTestCase(unittest.TestCase):
    def refused(self, code, marked, *words):
        """Check that a text has one problem, at the arrow."""
        with self.subTest(code=code.value, text=marked[:100]):
            before, _, after = marked.partition('→')
            found = problems_of(before + after)
            self.assertEqual(1, len(found), str(found))
            place = before.count('\n') + 1, len(before) - before.rfind('\n')
            (problem,) = found
            self.assertEqual(code, problem.code, problem)
            self.assertEqual(place, (problem.line, problem.column), problem)
            for word in words:
                self.assertIn(word, str(problem))
            self.assertTrue(problem.hint, problem)
            self.assertNotIn('mean None', problem.hint)

    def all_refused(self, code, *cases):
        for case in cases:
            self.refused(code, *((case,) if isinstance(case, str) else case))


class YamlTest(RefusalTestCase):
    """What the file can't have although YAML has it, and what is no YAML."""

    def test_text_other_than_yaml_is_refused_at_its_place(self):
        self.all_refused(
            Code.BAD_YAML,
            ('p: {identification: [\n→', 'check the indentation'),
            ('p: a→: b\n', 'a colon and a space has to be quoted'),
            ('p: "\\U→FFFFFFFF"', 'out of range'),
            (f'%YAML 1.→{"1" * 5000}\n--- p', 'out of range'),
            (f'p:\n→\tidentification: {GOOD}', 'replace tabs by spaces'),
            ('p:\n  identification:\n    class:→\tABCD\n', 'replace tabs'),
            ('p:\n  identification:\n    class: ABCD→\t\n', 'replace tabs'),
            (f'→\t\np:\n{GOOD}', 'replace tabs by spaces'),
            ('p: {identification:→\t{class: ABCD}}', 'replace tabs'),
            ('p: {identification: {class: →@x}}', 'begins with this charac'),
            ('p: {identification: {class: →`x}}', 'begins with this charac'),
            ('p: {identification: {class: →%x}}', 'begins with this charac'),
        )

    def test_unquoted_question_mark_in_brackets_is_refused(self):
        for marked in ('→?DB6', '1DB→?', '1D→?6'):
            value = marked.replace('→', '')
            text = f'p: {{identification: {{device_id: {marked}}}}}'
            words = f"Hint: quote it: '{value}'", "paragraph 'p'"
            self.refused(Code.NEEDS_QUOTES, text, f'{value} has a ?', *words)

    def test_tabs_in_comments_are_accepted(self):
        inventory_file.parse(f'#\tp\np: #\tx\n{GOOD}', 'x')

    def test_syntax_error_names_its_paragraph(self):
        for text, name in (
            ('p:\n  x: a: b\nq: {}\n', 'p'),
            ('p:\n  x: a\n@q: {}\n', ''),
            ('@p: {}\n', ''),
            ('p: a: b\n', 'p'),
            ('{p: {x: y},\n q: {x: @}}\n', 'q'),
        ):
            (problem,) = problems_of(text)
            self.assertEqual(name, problem.paragraph, text)

    def test_character_that_yaml_does_not_have_is_refused(self):
        self.all_refused(
            Code.BAD_CHARACTER,
            ('p:\n  a→\x07', 'U+0007'),
            ('p→\x00', 'U+0000'),
            ('p:\n→\ud800', 'U+D800'),
        )

    def test_bytes_other_than_utf8_are_refused_at_their_place(self):
        for content, place in (
            (b'p:\n  \xe9: x', (2, 3)),
            (b'\xff\xfep\0:\0', (1, 1)),
        ):
            (problem,) = problems_of(content)
            self.assertEqual(Code.NOT_UTF8, problem.code)
            self.assertEqual(place, (problem.line, problem.column))

    def test_anchors_are_refused(self):
        self.all_refused(
            Code.ANCHOR,
            (f'→&a p:\n{GOOD}', '&a is an anchor'),
            'p:\n  identification: →&a {class: ABCD}\n',
            'p: {identification: {class: →&a ABCD}}',
        )
        found = problems_of(f'p: &a\n{GOOD}q: &a\n{GOOD}')
        self.assertEqual([1, 3], [p.line for p in found])

    def test_tags_are_refused(self):
        self.all_refused(
            Code.TAG,
            f'→!!str p:\n{GOOD}',
            f'p:\n{GOOD}  traits: [→!x CUSTOM_A]\n',
        )
        found = problems_of('p: !!python/name:os.system\n')
        self.assertEqual(Code.TAG, found[-1].code)

    def test_aliases_are_refused_with_the_quoted_wildcard(self):
        for value in ('*', '*p', '*-P1-C2', '*.C1', '**', '*-P1-*'):
            words = f'YAML reads {value} as an', f"quote it: '{value}'"
            self.refused(Code.ALIAS, within(value), *words)
        self.all_refused(Code.ALIAS, 'p: →*p\n', f'→*p :\n{GOOD}')

    def test_merge_keys_are_refused(self):
        self.all_refused(
            Code.MERGE_KEY,
            ('→<<: {identification: {class: ABCD}}', 'write the keys out'),
            f'p:\n{GOOD}  →<<: {{traits: [CUSTOM_A]}}\n',
        )

    def test_second_document_is_refused(self):
        self.all_refused(
            Code.SECOND_DOCUMENT,
            f'p:\n{GOOD}→---\nq:\n{GOOD}',
            f'p:\n{GOOD}→---\n',
            f'p:\n{GOOD}...\n→---\nq:\n{GOOD}',
        )


class StructureTest(RefusalTestCase):
    @proofs.proves('D22')
    def test_duplicate_keys_are_refused_at_any_depth(self):
        self.all_refused(
            Code.DOUBLED_KEY,
            (f'p:\n{GOOD}→p:\n{GOOD}', "paragraph name 'p' appears twice"),
            (f'p:\n{GOOD}q:\n{GOOD}→p:\n{GOOD}', 'first in line 1'),
            (f'p:\n{GOOD}→"p":\n{GOOD}', "'p' appears twice"),
            (f'p:\n{GOOD}→{GOOD.lstrip()}'.replace('→', '  →'), 'in line 2'),
            f'p:\n{GOOD}  allow: true\n  →allow: yes\n',
            'p: {identification: {class: ABCD,\n →class: ABCD}}',
        )
        inventory_file.parse(f'p:\n{GOOD}P:\n{GOOD}', 'x')

    def test_duplicate_keys_in_invalid_parts_are_reported(self):
        for text in (
            f'p:\n{GOOD}  zzz: [{{a: [TWICE]}}]\n',
            'p: {identification: {class: a0b1, z: TWICE}}',
            '- TWICE\n',
            'p: [TWICE]\n',
            'p: {identification: [TWICE]}',
            f'p:\n{GOOD}  traits: TWICE\n',
            f'p:\n{GOOD}  traits: [TWICE]\n',
            f'p:\n{GOOD}  resource_class: TWICE\n',
            'p: {identification: {class: [TWICE]}}',
            f'p:\n{GOOD}  <<: TWICE\n',
            f'p:\n{GOOD}  ? [a]\n  : TWICE\n',
        ):
            with self.subTest(text=text):
                found = problems_of(text.replace('TWICE', '{b: 1, b: 2}'))
                self.assertEqual(2, len(found), str(found))
                self.assertIn("key 'b' appears twice", found[1].what)

    def test_values_of_duplicate_keys_are_checked(self):
        found = problems_of('p:\n  x: 1\np:\n  z: 1\n')
        self.assertEqual(
            [(1, 1), (2, 3), (3, 1), (3, 1), (4, 3)],
            [(p.line, p.column) for p in found],
        )

    def test_unknown_paragraph_key_is_refused(self):
        for key, hint in (
            ('identifcation', 'did you mean identification?'),
            ('Resource_Class', 'did you mean resource_class?'),
            ('trait', 'did you mean traits?'),
            ('alow', 'did you mean allow?'),
            ('one-time-use', 'did you mean one_time_use?'),
            ('vendor_id', 'belongs in the section identification'),
            ('product_id', 'Hint: a paragraph takes identification'),
            ('zzz', 'Hint: a paragraph takes identification'),
            ("''", 'Hint: a paragraph takes identification'),
        ):
            for value in ('true', 'false', '{a: b}'):
                text = f'p:\n{GOOD}  →{key}: {value}\n'
                self.refused(Code.UNKNOWN_KEY, text, hint)

    def test_unknown_identification_key_is_refused(self):
        for key, hint in (
            ('vendorid', 'did you mean vendor_id?'),
            ('pci_vendor_id', 'did you mean vendor_id?'),
            ('pci_dev_id', 'did you mean device_id?'),
            ('pci_subsys_dev_id', 'did you mean subsys_device_id?'),
            ('pci_class', 'did you mean class?'),
            ('pci_rev_id', 'did you mean revision_id?'),
            ('product_id', 'did you mean device_id?'),
            ('DRC_Index', 'did you mean drc_index?'),
            *((key, 'one level further out') for key in messages_keys()),
            ('zzz', 'Hint: identification takes one or more of vendor_id'),
        ):
            text = (
                f'p:\n  identification:\n    class: ABCD\n    →{key}: ABCD\n'
            )
            self.refused(Code.UNKNOWN_KEY, text, f"no key '{key}'", hint)

    @proofs.proves('D23')
    def test_paragraph_without_identification_is_refused(self):
        self.all_refused(
            Code.MISSING_KEY,
            ('→p: {}\n', 'no identification section'),
            '→p:\n  resource_class: CUSTOM_A\n',
            '→p:\n  allow: false\n',
        )

    @proofs.proves('D23')
    def test_wrong_structure_is_refused_at_its_place(self):
        self.all_refused(
            Code.WRONG_FORM,
            ('→- a\n', 'the file is a list', 'a mapping of paragraph'),
            ('→gpus\n', 'the file is a single value'),
            ('→null\n', 'the file is a single value'),
            ("→''\n", 'the file is a single value'),
            ('→1', 'the file is a single value'),
            ('→p: all\n', 'the paragraph is a single value', 'a paragraph ta'),
            ('→p: [a]\n', 'the paragraph is a list'),
            ('p:\n  identification: →[class]\n', 'identification is a list'),
            (f'p:\n{GOOD}  traits: →CUSTOM_A\n', 'traits is a single value'),
            (f'p:\n{GOOD}  traits: →{{CUSTOM_A: x}}\n', 'is a mapping'),
            (f'p:\n{GOOD}  traits: [→[CUSTOM_A]]\n', 'trait is a list'),
            (f'p:\n{GOOD}  allow: →[true]\n', 'allow is a list'),
            (f'p:\n{GOOD}  one_time_use: →{{a: true}}\n', 'is a mapping'),
            (f'p:\n{GOOD}  resource_class: →[PGPU]\n', 'CUSTOM_GPU; or PGPU'),
            (within('[U78]'), 'drc_name is a list'),
            (within('{a: b}'), 'drc_name is a mapping'),
            ('? →[a]\n: {}\n', 'paragraph name is a list'),
            ('? →{}\n: {}\n', 'paragraph name is a mapping'),
        )

    @proofs.proves('D24', 'D45')
    def test_empty_sections_are_refused(self):
        self.all_refused(
            Code.EMPTY,
            ('→p:\n', 'the paragraph is empty'),
            ('p:\n  identification:→\n', 'identification is empty'),
            ('p:\n  identification: →{}\n', 'identification is empty'),
            ('p: {identification: {class:→ }}', 'class has no value'),
            ("p: {identification: {class: →''}}", 'class has no value'),
            (f'p:\n{GOOD}  traits: →[]\n', 'traits is empty', 'at least one'),
            (f'p:\n{GOOD}  traits:→\n', 'traits is empty'),
            (f'p:\n{GOOD}  traits: [CUSTOM_A, →""]\n', 'trait has no value'),
            (f'p:\n{GOOD}  resource_class:→\n', 'has no value'),
            (f'p:\n{GOOD}  allow:→\n', 'has no value', 'allow takes true'),
            (f"p:\n{GOOD}  allow: →''\n", 'has no value'),
            (f'p:\n{GOOD}  one_time_use:→\n', 'one_time_use takes true'),
            ("→'': {identification: {class: ABCD}}", 'name has no value'),
        )

    @proofs.proves('D36', 'device.identify.deny')
    def test_denial_takes_identification_only(self):
        for other in (
            'resource_class: CUSTOM_A',
            'traits: [CUSTOM_A]',
            'one_time_use: true',
            'one_time_use: false',
        ):
            key = other.split(':')[0]
            for word in ('false', 'no', 'NO'):
                self.all_refused(
                    Code.BESIDE_DENIAL,
                    (
                        f'p:\n{GOOD}  allow: {word}\n  →{other}\n',
                        f'{key} stands beside allow: false',
                        f'and nothing else: remove {key}, or remove allow',
                    ),
                    f'p:\n  →{other}\n  allow: {word}\n{GOOD}',
                )

    def test_problems_beside_a_denial_are_reported_at_once(self):
        found = problems_of(
            f'p:\n{GOOD}  traits: [CUSTOM_A]\n  allow: false\n'
            '  resource_class: VCPU\n  one_time_use: no\n'
        )
        self.assertEqual(
            [(3, 3), (5, 3), (5, 19), (6, 3)],
            [(p.line, p.column) for p in found],
        )
        found = problems_of(f'p:\n{GOOD}  allow: no\n  traits: *a\n')
        self.assertEqual(
            [Code.BESIDE_DENIAL, Code.ALIAS], [p.code for p in found]
        )


class ValueTest(RefusalTestCase):
    def test_value_read_as_other_than_text_is_refused(self):
        for value, kind in (
            ('1014', 'a number'),
            ('0302', 'a number'),
            ('12:30', 'a time'),
            ('0x10DE', 'a number'),
            ('1_0', 'a number'),
            ('yes', 'true or false'),
            ('OFF', 'true or false'),
            ('y', 'true or false'),
            ('N', 'true or false'),
            ('null', 'no value'),
            ('~', 'no value'),
            ('2026-01-01', 'a date'),
            ('1.5', 'a number'),
            ('.inf', 'a number'),
            ('8002:01:00.0', 'a time'),
            ('=', 'a default value'),
            ('9' * 5000, 'a number'),
        ):
            self.refused(
                Code.NEEDS_QUOTES,
                within(value),
                f'drc_name: YAML reads {value[:60]}',
                f' as {kind}, not as text',
                f"quote it: '{value}'" if len(value) < 99 else 'quote it',
                "paragraph 'p'",
            )
        self.all_refused(
            Code.NEEDS_QUOTES,
            (f'p:\n{GOOD}  resource_class: →12\n', "quote it: '12'"),
            (f'p:\n{GOOD}  traits: [→yes]\n', "quote it: 'yes'"),
            (f'→1:\n{GOOD}', 'paragraph name: YAML reads 1 as a number'),
            (f'→on:\n{GOOD}', "quote it: 'on'"),
            (f'→2026-10-01:\n{GOOD}', 'a date'),
        )

    def test_paragraph_below_unquoted_name_is_checked(self):
        found = problems_of('1: {}\n')
        self.assertEqual(['', '1'], [p.paragraph for p in found], str(found))

    def test_invalid_value_is_refused(self):
        for key, value, words in (
            ('vendor_id', '10D', '4 hexadecimal digits'),
            ('vendor_id', '10DEE', '4 hexadecimal digits'),
            ('device_id', 'G00D', '4 hexadecimal digits'),
            ('device_id', "'0x10DE'", 'without 0x'),
            ('class', "'12:30'", '4 hexadecimal digits'),
            ('revision_id', 'ABC', '2 hexadecimal digits'),
            ('drc_index', "'0021010020'", '8 hexadecimal digits'),
            ('class', "'\u0661\u0662\u0663\u0664'", '4 hexadecimal digits'),
            ('drc_name', "' U78'", 'white space'),
            ('drc_name', "'U78 '", 'white space'),
            ('drc_name', "'  '", 'drc_name is empty'),
        ):
            text = f'p:\n  identification:\n    {key}: →{value}\n'
            self.refused(Code.BAD_VALUE, text, words, f'{key} (')

    @proofs.proves('D33')
    def test_wildcard_that_can_not_match_is_refused(self):
        for key, value, words in (
            ('vendor_id', "'?'", 'can never match'),
            ('vendor_id', "'10DE0*'", 'can never match'),
            ('vendor_id', "'10[DE]'", 'is not 4 hexadecimal digits'),
            ('drc_index', "'?????????'", 'can never match 8'),
        ):
            text = f'p:\n  identification:\n    {key}: →{value}\n'
            self.refused(Code.BAD_VALUE, text, words, 'and ? for one')

    def test_text_that_can_not_be_printed_is_refused(self):
        self.all_refused(
            Code.NOT_PRINTABLE,
            (within('"U\\e[1m"'), r"'U\x1b[1m' has line breaks or char"),
            within('"U\\ud800"'),
            within('"abcd\\n"'),
            ('→"a\\nb": {identification: {class: ABCD}}', "'a\\nb'"),
        )

    def test_long_text_is_refused(self):
        self.all_refused(
            Code.TOO_LONG,
            (within('U' * 256), 'is longer than 255 characters'),
            f'p:\n{GOOD}  resource_class: →CUSTOM_{"A" * 249}\n',
            f'p:\n{GOOD}  traits: [→CUSTOM_{"A" * 249}]\n',
            f'→{"c" * 256}:\n{GOOD}',
        )

    @proofs.proves('D35')
    def test_invalid_boolean_is_refused(self):
        for value, words, hint in (
            ("'true'", "is 'true' in quotes", 'leave the quotes out: true'),
            ('"no"', "is 'no' in quotes, which make", 'quotes out: no'),
            ('maybe', "is 'maybe'", 'true'),
            ("'maybe'", "is 'maybe' [", 'true'),
            ('on', "is 'on'", 'true'),
            ('y', "is 'y'", 'true'),
            ('1', "is '1'", 'true'),
            ('tRue', "is 'tRue'", 'true'),
            ('null', "is 'null'", 'true'),
            ('|\n    true', "is 'true\\n'", 'true'),
        ):
            for key in ('allow', 'one_time_use'):
                text = f'p:\n{GOOD}  {key}: →{value}\n'
                words_found = f'{key} {words}', hint, f'{key} takes true'
                self.refused(Code.BAD_BOOLEAN, text, *words_found)

    def test_quoted_denial_is_one_problem(self):
        for word in ('false', 'no'):
            text = f"p:\n{GOOD}  allow: →'{word}'\n  traits: [CUSTOM_A]\n"
            self.refused(Code.BAD_BOOLEAN, text)

    def test_invalid_resource_class_is_refused(self):
        for value, words in (
            ('CUSTOM_', 'not a resource class'),
            ('custom_gpu', 'did you mean CUSTOM_GPU?'),
            ('GPU', 'did you mean CUSTOM_GPU?'),
            ('VCPU', 'satisfy requests for VCPU'),
            ('VGPU', 'satisfy requests for VGPU'),
        ):
            text = f'p:\n{GOOD}  resource_class: →{value}\n'
            self.refused(Code.BAD_RESOURCE_CLASS, text, words, 'takes CUSTOM_')

    @proofs.proves('D65')
    def test_invalid_trait_is_refused(self):
        for value, words in (
            ('CUSTOM_', 'neither'),
            ('custom_fast', 'did you mean CUSTOM_FAST?'),
            ('HW_GPU_API_VULCAN', 'mean HW_GPU_API_VULKAN?'),
            ('OWNR_NOVA', 'Hint: a trait is'),
            ('zzz-zzz', 'Hint: a trait is'),
        ):
            text = f'p:\n{GOOD}  traits:\n    - →{value}\n'
            accepted = 'a trait is one of os-traits or CUSTOM_'
            self.refused(Code.BAD_TRAIT, text, words, accepted)

    @proofs.proves('D48')
    def test_refused_trait_names_the_rule(self):
        for value, words in (
            ('CUSTOM_POWERVM_X', 'all traits that begin with'),
            ('CUSTOM_POWERVM_', 'to the driver'),
            ('OWNER_CYBORG', 'who owns a device'),
            ('HW_PCI_ONE_TIME_USE', 'write one_time_use: true'),
            ('COMPUTE_MANAGED_PCI_DEVICE', 'PCI tracker delete'),
            ('COMPUTE_NODE', 'describes a compute node'),
            ('MISC_SHARES_VIA_AGGREGATE', 'a sharing provider'),
        ):
            text = f'p:\n{GOOD}  traits: [→{value}]\n'
            self.refused(Code.BAD_TRAIT, text, words)

    def test_trait_given_twice_is_refused(self):
        text = f'p:\n{GOOD}  traits: [CUSTOM_A, CUSTOM_B, →CUSTOM_A]\n'
        words = 'trait CUSTOM_A appears twice'
        self.refused(Code.DOUBLED_TRAIT, text, words)
        found = problems_of(f'p:\n{GOOD}  traits: [VCPU, VCPU]\n')
        self.assertEqual([Code.BAD_TRAIT] * 2, [p.code for p in found])


class LimitsTest(RefusalTestCase):
    """What a hostile file can't do."""

    def test_deep_nesting_is_refused(self):
        for opening, column in (
            ('[', 11), ('{a: ', 38), ('- ', 21), ('? ', 21),
        ):  # fmt: skip
            text = opening * 100000
            marked = f'{text[: column - 1]}→{text[column - 1 :]}'
            words = 'more than 10 levels deep'
            self.refused(Code.TOO_DEEP, marked, words)

    def test_too_many_values_are_refused_before_they_are_kept(self):
        most = yaml_document.MAX_NODES
        text = f'[{"a," * (most - 1)}→a,{"a," * 1000}]'
        words = f'more than {most} keys and values'
        self.refused(Code.TOO_MANY_VALUES, text, words)

    def test_maximum_number_of_values_is_accepted(self):
        # The list is the ninth.
        for more, code in ((0, Code.DOUBLED_TRAIT), (1, Code.TOO_MANY_VALUES)):
            items = 'HW_NUMA_ROOT, ' * (yaml_document.MAX_NODES - 9 + more)
            found = problems_of(f'p:\n{GOOD}  traits: [{items}]\n')
            self.assertEqual(code, found[-1].code)

    def test_aliases_are_refused_before_they_are_expanded(self):
        """A text that expands to a billion values costs nothing."""
        lines = ['a: &a [x, x, x, x, x, x, x, x, x, x]']
        for before, name in zip('abcdefgh', 'bcdefghi', strict=True):
            lines.append(f'{name}: &{name} [{", ".join([f"*{before}"] * 10)}]')
        codes = [p.code for p in problems_of('\n'.join(lines))]
        self.assertEqual(9, codes.count(Code.ANCHOR))
        self.assertEqual(80, codes.count(Code.ALIAS))

    def test_recursive_alias_is_refused(self):
        found = problems_of('&a p: {identification: &b {class: *b}}\n')
        self.assertEqual(
            [Code.ANCHOR, Code.ANCHOR, Code.ALIAS], [p.code for p in found]
        )

    def test_text_over_one_mebibyte_is_refused(self):
        for text in ('#' * 1048577, b'#' * 1048577, '\u00e9' * 524289):
            (problem,) = problems_of(text)
            self.assertEqual(Code.TOO_LARGE, problem.code)
            self.assertIn('larger than 1048576 bytes', problem.what)
        inventory_file.parse('#' * 1048576, 'x')

    def test_reading_stops_after_the_maximum_of_problems(self):
        found = problems_of('x: 1\n' * 2000)
        self.assertEqual(problems_module.MAX_PROBLEMS + 1, len(found))
        self.assertEqual((0, 0), (found[0].line, found[0].column))
        self.assertEqual(Code.TOO_MANY_PROBLEMS, found[0].code)
        found = problems_of(''.join(f'p{i}:\n' for i in range(500)))
        self.assertEqual((500, 1), (len(found), found[0].line))
        # The doubled ones are found twice: with the first and with the last.
        self.assertEqual(500, len(problems_of('x: 1\n' * 499)))

    @proofs.proves('D91')
    def test_mebibyte_of_text_is_parsed_in_seconds(self):
        for line in ('a:\n', 'a\n', '- a\n', '\n', 'a: {}\n'):
            self.check_time(line * (1048576 // len(line)))

    def test_odd_values_are_parsed_in_seconds(self):
        traits = ''.join(f'  - HW_CPU_X86_Z{i}\n' for i in range(20000))
        self.check_time(f'p:\n{GOOD}  traits:\n{traits}')
        mixed = '[], x, ' * 10000
        self.check_time(f'p:\n{GOOD}  traits: [{mixed}]\n')
        for value in ('*' * 100000 + 'z', '?*' * 50000, 'A*' * 50000):
            self.check_time(f"p: {{identification: {{class: '{value}'}}}}")

    def check_time(self, text):
        # A few seconds on a machine with nothing else to do.
        before = time.process_time()
        with contextlib.suppress(exception.PolicyInvalid):
            inventory_file.parse(text, 'x')
        self.assertLess(time.process_time() - before, 30)


class MessageTest(unittest.TestCase):
    def test_codes_have_bad_files(self):
        tests = pathlib.Path(__file__).parent
        text = ''.join(path.read_text() for path in tests.glob('test_*.py'))
        for code in Code:
            self.assertIn(f'Code.{code.name}', text)

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
                (2, 31, 'gpus', Code.NEEDS_QUOTES),
                (2, 48, 'gpus', Code.ALIAS),
                (3, 10, 'gpus', Code.BAD_BOOLEAN),
                (4, 19, 'gpus', Code.BAD_RESOURCE_CLASS),
                (5, 12, 'gpus', Code.BAD_TRAIT),
                (5, 24, 'gpus', Code.BAD_TRAIT),
                (6, 1, 'disks', Code.MISSING_KEY),
                (6, 8, 'disks', Code.TAG),
                (7, 17, 'disks', Code.BAD_BOOLEAN),
                (8, 3, 'disks', Code.UNKNOWN_KEY),
                (9, 1, '', Code.DOUBLED_KEY),
                (10, 19, 'disks', Code.EMPTY),
            ],
            [(p.line, p.column, p.paragraph, p.code) for p in found],
        )

    def test_error_lists_problems_with_places_codes_and_hints(self):
        with self.assertRaises(exception.PolicyInvalid) as caught:
            inventory_file.parse(
                'gpus:\n  identification: {vendor_id: 1014}\n  x: y\n', 'inv'
            )
        error = caught.exception
        self.assertEqual('powervm.policy.invalid', error.code)
        self.assertEqual('inv', error.fields['path'])
        self.assertEqual(2, error.fields['count'])
        lines = str(error).splitlines()
        self.assertEqual('inv: 2 problem(s) in the inventory file:', lines[0])
        self.assertEqual(
            "  line 2, column 31, paragraph 'gpus': vendor_id: YAML reads "
            '1014 as a number, not as text [needs-quotes]. Hint: quote it: '
            "'1014'; vendor_id (PCI vendor id) takes 4 hexadecimal digits "
            "without 0x, such as '10DE'; * stands for any characters and ? "
            'for one',
            lines[1],
        )

    def test_unprintable_or_long_text_is_shortened_on_one_line(self):
        found = problems_of(
            '"a\\nFAKE": {"b\\r\\e[31m": 1}\n"' + 'c' * 300 + '": {}\n'
        )
        for value in ('9' * 200000, '*' * 200000, '"' + 'x' * 200000 + '"'):
            found += problems_of(within(value).replace('→', ''))
        for problem in found:
            self.assertTrue(str(problem).isprintable(), repr(problem))
            self.assertLess(len(str(problem)), 500)

    def test_more_than_hundred_problems_are_cut_in_the_text_only(self):
        for count, last in ((250, '  and 150 more'), (100, None)):
            found = problems_of(''.join(f'p{i}:\n' for i in range(count)))
            self.assertEqual(count, len(found))
            lines = str(found).splitlines()
            if last:
                self.assertEqual(last, lines.pop())
            self.assertEqual(100, len(lines))

    def test_problem_of_the_whole_file_has_no_place(self):
        problem = inventory_file.Problem(what='it is gone', hint='look')
        self.assertEqual('it is gone. Hint: look', str(problem))

    def test_paragraph_of_a_name_without_text_is_not_named(self):
        (problem,) = problems_of('- {b: 1, b: 2}\n')[1:]
        self.assertEqual('', problem.paragraph)


def messages_keys():
    """Give the keys of a paragraph."""
    return structure.SCHEMA['additionalProperties']['properties']
