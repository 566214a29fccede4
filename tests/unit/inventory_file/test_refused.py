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
PARAGRAPH_KEYS = structure.SCHEMA['additionalProperties']['properties']
MOST = yaml_document.MAX_NODES


def problems_of(text):
    """Give the problems of a text that is refused."""
    try:
        policy = inventory_file.parse(text, 'inv')
    except exception.PolicyInvalid as error:
        return error.fields['problems']
    raise AssertionError(f'{text!r} was accepted as {policy}')


def expand(text):
    """Give a whole file.

    After a plus, a text is one more line of a good paragraph; after an equals
    sign, one below identification.
    """
    if text.startswith('='):
        return f'p:\n  identification:\n    {text[1:]}\n'
    return f'p:\n{GOOD}  {text[1:]}\n' if text.startswith('+') else text


#: Code -> files with one problem, where the arrow is, and words of it.
REFUSED = {
    Code.BAD_YAML: (
        ('p: {identification: [\n→', 'check the indentation'),
        ('p: a→: b\n', 'a colon and a space has to be quoted'),
        ('p: "\\U→FFFFFFFF"', 'out of range'),
        (f'%YAML 1.→{"1" * 5000}\n--- p', 'out of range'),
        (f'p:\n→\tidentification: {GOOD}', 'replace tabs by spaces'),
        ('=class:→\tABCD', 'replace tabs'),
        ('=class: ABCD→\t', 'replace tabs'),
        (f'→\t\np:\n{GOOD}', 'replace tabs by spaces'),
        ('p: {identification:→\t{class: ABCD}}', 'replace tabs'),
        ('=class: →@x', 'begins with this character'),
        ('=class: →`x', 'begins with this character'),
        ('=class: →%x', 'begins with this character'),
    ),
    Code.BAD_CHARACTER: (
        ('p:\n  a→\x07', 'U+0007'),
        ('p→\x00', 'U+0000'),
        ('p:\n→\ud800', 'U+D800'),
    ),
    Code.ANCHOR: (
        (f'→&a p:\n{GOOD}', '&a is an anchor'),
        ('p:\n  identification: →&a {class: ABCD}\n',),
        ('=class: →&a ABCD',),
    ),
    Code.TAG: ((f'→!!str p:\n{GOOD}',), ('+traits: [→!x CUSTOM_A]',)),
    Code.ALIAS: (
        ('=drc_name: →*', 'YAML reads * as an', "quote it: '*'"),
        ('=drc_name: →*p', "quote it: '*p'"),
        ('=drc_name: →*-P1-C2', "quote it: '*-P1-C2'"),
        ('=drc_name: →*.C1', "quote it: '*.C1'"),
        ('=drc_name: →**', "quote it: '**'"),
        ('=drc_name: →*-P1-*', "quote it: '*-P1-*'"),
        ('p: →*p\n',),
        (f'→*p :\n{GOOD}',),
    ),
    Code.MERGE_KEY: (
        ('→<<: {identification: {class: ABCD}}', 'write the keys out'),
        ('+→<<: {traits: [CUSTOM_A]}',),
    ),
    Code.SECOND_DOCUMENT: (
        (f'p:\n{GOOD}→---\nq:\n{GOOD}',),
        (f'p:\n{GOOD}→---\n',),
        (f'p:\n{GOOD}...\n→---\nq:\n{GOOD}',),
    ),
    Code.DOUBLED_KEY: (
        (f'p:\n{GOOD}→p:\n{GOOD}', "paragraph name 'p' appears twice"),
        (f'p:\n{GOOD}q:\n{GOOD}→p:\n{GOOD}', 'first in line 1'),
        (f'p:\n{GOOD}→"p":\n{GOOD}', "'p' appears twice"),
        ('+→identification: {class: ABCD}', 'in line 2'),
        ('+allow: true\n  →allow: yes',),
        ('=class: ABCD\n    →class: ABCD',),
    ),
    Code.UNKNOWN_KEY: (
        ('+→identificaton: true', 'did you mean identification?'),
        ('+→Resource_Class: {a: b}', 'did you mean resource_class?'),
        ('+→trait: false', 'did you mean traits?'),
        ('+→allows: false', 'did you mean allow?'),
        ('+→one-time-use: true', 'did you mean one_time_use?'),
        ('+→vendor_id: 10DE', 'belongs in the section identification'),
        ('+→product_id: true', 'Hint: a paragraph takes identification'),
        ('+→zzz: {a: b}', 'Hint: a paragraph takes identification'),
        ("+→'': false", 'Hint: a paragraph takes identification'),
        ('=→vendorid: ABCD', "no key 'vendorid'", 'mean vendor_id?'),
        ('=→pci_vendor_id: ABCD', 'did you mean vendor_id?'),
        ('=→pci_dev_id: ABCD', 'did you mean device_id?'),
        ('=→pci_subsys_dev_id: ABCD', 'did you mean subsys_device_id?'),
        ('=→pci_class: ABCD', 'did you mean class?'),
        ('=→pci_rev_id: ABCD', 'did you mean revision_id?'),
        ('=→product_id: ABCD', 'did you mean device_id?'),
        ('=→DRC_Index: ABCD', 'did you mean drc_index?'),
        *((f'=→{one}: A', 'one level further out') for one in PARAGRAPH_KEYS),
        ('=→zzz: ABCD', 'Hint: identification takes one or more of vendor_id'),
    ),
    Code.MISSING_KEY: (
        ('→p: {}\n', 'no identification section'),
        ('→p:\n  resource_class: CUSTOM_A\n',),
        ('→p:\n  allow: false\n',),
    ),
    Code.WRONG_FORM: (
        ('→- a\n', 'the file is a list', 'a mapping of paragraph'),
        ('→gpus\n', 'the file is a single value'),
        ('→null\n', 'the file is a single value'),
        ("→''\n", 'the file is a single value'),
        ('→1', 'the file is a single value'),
        ('→p: all\n', 'the paragraph is a single value', 'a paragraph ta'),
        ('→p: [a]\n', 'the paragraph is a list'),
        ('p:\n  identification: →[class]\n', 'identification is a list'),
        ('+traits: →CUSTOM_A', 'traits is a single value'),
        ('+traits: →{CUSTOM_A: x}', 'is a mapping'),
        ('+traits: [→[CUSTOM_A]]', 'trait is a list'),
        ('+allow: →[true]', 'allow is a list'),
        ('+one_time_use: →{a: true}', 'is a mapping'),
        ('+resource_class: →[PGPU]', 'CUSTOM_GPU; or PGPU'),
        ('=drc_name: →[U78]', 'drc_name is a list'),
        ('=drc_name: →{a: b}', 'drc_name is a mapping'),
        ('? →[a]\n: {}\n', 'paragraph name is a list'),
        ('? →{}\n: {}\n', 'paragraph name is a mapping'),
    ),
    Code.EMPTY: (
        ('→p:\n', 'the paragraph is empty'),
        ('p:\n  identification:→\n', 'identification is empty'),
        ('p:\n  identification: →{}\n', 'identification is empty'),
        ('p: {identification: {class:→ }}', 'class has no value'),
        ("p: {identification: {class: →''}}", 'class has no value'),
        ('+traits: →[]', 'traits is empty', 'at least one'),
        ('+traits:→', 'traits is empty'),
        ('+traits: [CUSTOM_A, →""]', 'trait has no value'),
        ('+resource_class:→', 'has no value'),
        ('+allow:→', 'has no value', 'allow takes true'),
        ("+allow: →''", 'has no value'),
        ('+one_time_use:→', 'one_time_use takes true'),
        ("→'': {identification: {class: ABCD}}", 'name has no value'),
    ),
    Code.BESIDE_DENIAL: (
        ('+allow: false\n  →resource_class: CUSTOM_A', 'beside allow: false'),
        ('+allow: no\n  →traits: [CUSTOM_A]', 'traits stands beside'),
        ('+allow: NO\n  →one_time_use: true', 'one_time_use stands beside'),
        ('+→one_time_use: false\n  allow: no', 'nothing else: remove one_ti'),
        ('+→traits: [CUSTOM_A]\n  allow: false', 'or remove allow'),
        ('+→resource_class: CUSTOM_A\n  allow: NO', 'remove resource_class,'),
    ),
    Code.NEEDS_QUOTES: (
        ('=drc_name: →1014', 'drc_name: YAML reads 1014 as a number, not as'),
        ('=drc_name: →0302', "quote it: '0302'", "paragraph 'p'"),
        ('=drc_name: →12:30', 'as a time'),
        ('=drc_name: →0x10DE', 'as a number'),
        ('=drc_name: →1_0', 'as a number'),
        ('=drc_name: →yes', 'as true or false'),
        ('=drc_name: →OFF', 'as true or false'),
        ('=drc_name: →y', 'as true or false'),
        ('=drc_name: →N', 'as true or false'),
        ('=drc_name: →null', 'as no value'),
        ('=drc_name: →~', 'as no value'),
        ('=drc_name: →2026-01-01', 'as a date'),
        ('=drc_name: →1.5', 'as a number'),
        ('=drc_name: →.inf', 'as a number'),
        ('=drc_name: →8002:01:00.0', 'as a time'),
        ('=drc_name: →=', 'as a default value'),
        (f'=drc_name: →{"9" * 5000}', 'as a number', 'quote it'),
        ('p: {identification: {device_id: →?DB6}}', '?DB6 has a ?'),
        ('p: {identification: {device_id: 1DB→?}}', "quote it: '1DB?'"),
        ('p: {identification: {device_id: 1D→?6}}', "paragraph 'p'"),
        ('+resource_class: →12', "quote it: '12'"),
        ('+traits: [→yes]', "quote it: 'yes'"),
        (f'→1:\n{GOOD}', 'paragraph name: YAML reads 1 as a number'),
        (f'→on:\n{GOOD}', "quote it: 'on'"),
        (f'→2026-10-01:\n{GOOD}', 'a date'),
    ),
    Code.BAD_VALUE: (
        ('=vendor_id: →10D', '4 hexadecimal digits', 'vendor_id ('),
        ('=vendor_id: →10DEE', '4 hexadecimal digits'),
        ('=device_id: →G00D', '4 hexadecimal digits', 'device_id ('),
        ("=device_id: →'0x10DE'", 'without 0x'),
        ("=class: →'12:30'", '4 hexadecimal digits', 'class ('),
        ('=revision_id: →ABC', '2 hexadecimal digits', 'revision_id ('),
        ("=drc_index: →'0021010020'", '8 hexadecimal digits', 'drc_index ('),
        ("=class: →'\u0661\u0662\u0663\u0664'", '4 hexadecimal digits'),
        ("=drc_name: →' U78'", 'white space', 'drc_name ('),
        ("=drc_name: →'U78 '", 'white space'),
        ("=drc_name: →'  '", 'drc_name is empty'),
        ("=vendor_id: →'?'", 'can never match', 'and ? for one'),
        ("=vendor_id: →'10DE0*'", 'can never match'),
        ("=vendor_id: →'10[DE]'", 'is not 4 hexadecimal digits'),
        ("=drc_index: →'?????????'", 'can never match 8'),
    ),
    Code.NOT_PRINTABLE: (
        (r'=drc_name: →"U\e[1m"', r"'U\x1b[1m' has line breaks or char"),
        (r'=drc_name: →"U\ud800"',),
        (r'=drc_name: →"abcd\n"',),
        (r'→"a\nb": {identification: {class: ABCD}}', r"'a\nb'"),
    ),
    Code.TOO_LONG: (
        (f'=drc_name: →{"U" * 256}', 'is longer than 255 characters'),
        (f'+resource_class: →CUSTOM_{"A" * 249}',),
        (f'+traits: [→CUSTOM_{"A" * 249}]',),
        (f'→{"c" * 256}:\n{GOOD}',),
    ),
    Code.BAD_BOOLEAN: (
        ("+allow: →'true'", "allow is 'true' in quotes", 'quotes out: true'),
        ('+one_time_use: →"no"', 'in quotes, which make', 'quotes out: no'),
        ('+allow: →maybe', "allow is 'maybe'", 'allow takes true'),
        ("+one_time_use: →'maybe'", "is 'maybe' [", 'one_time_use takes true'),
        ('+allow: →on', "is 'on'"),
        ('+one_time_use: →y', "is 'y'"),
        ('+allow: →1', "is '1'"),
        ('+one_time_use: →tRue', "is 'tRue'"),
        ('+allow: →null', "is 'null'"),
        ('+one_time_use: →|\n    true', r"is 'true\n'"),
        # A denial in quotes is one problem.
        ("+allow: →'false'\n  traits: [CUSTOM_A]",),
        ("+allow: →'no'\n  traits: [CUSTOM_A]",),
    ),
    Code.BAD_RESOURCE_CLASS: (
        ('+resource_class: →CUSTOM_', 'not a resource class', 'takes CUSTOM_'),
        ('+resource_class: →custom_gpu', 'did you mean CUSTOM_GPU?'),
        ('+resource_class: →GPU', 'did you mean CUSTOM_GPU?'),
        ('+resource_class: →VCPU', 'satisfy requests for VCPU'),
        ('+resource_class: →VGPU', 'satisfy requests for VGPU'),
    ),
    Code.BAD_TRAIT: (
        ('+traits:\n    - →CUSTOM_', 'neither', 'of os-traits or CUSTOM_'),
        ('+traits: [→custom_fast]', 'did you mean CUSTOM_FAST?'),
        ('+traits: [→HW_GPU_API_VULCAN]', 'mean HW_GPU_API_VULKAN?'),
        ('+traits: [→OWNR_NOVA]', 'Hint: a trait is'),
        ('+traits: [→zzz-zzz]', 'Hint: a trait is'),
        ('+traits: [→CUSTOM_POWERVM_X]', 'all traits that begin with'),
        ('+traits: [→CUSTOM_POWERVM_]', 'to the driver'),
        ('+traits: [→OWNER_CYBORG]', 'who owns a device'),
        ('+traits: [→HW_PCI_ONE_TIME_USE]', 'write one_time_use: true'),
        ('+traits: [→COMPUTE_MANAGED_PCI_DEVICE]', 'PCI tracker delete'),
        ('+traits: [→COMPUTE_NODE]', 'describes a compute node'),
        ('+traits: [→MISC_SHARES_VIA_AGGREGATE]', 'a sharing provider'),
    ),
    Code.DOUBLED_TRAIT: (
        ('+traits: [CUSTOM_A, CUSTOM_B, →CUSTOM_A]', 'CUSTOM_A appears twice'),
    ),
    Code.TOO_DEEP: (
        ('[' * 10 + '→' + '[' * 99990, 'more than 10 levels deep'),
        ('{a: ' * 9 + '{→a: ' + '{a: ' * 99990,),
        ('- ' * 10 + '→' + '- ' * 99990,),
        ('? ' * 10 + '→' + '? ' * 99990,),
    ),
    # It is refused before the rest is kept.
    Code.TOO_MANY_VALUES: (
        (f'[{"a," * (MOST - 1)}→a,{"a," * 1000}]', f'more than {MOST} keys'),
    ),
}

#: Texts with several problems -> line, column and code of each.
SEVERAL = (
    (
        f'p: &a\n{GOOD}q: &a\n{GOOD}',
        [(1, 4, Code.ANCHOR), (3, 4, Code.ANCHOR)],
    ),
    (
        # The values of doubled keys are checked.
        'p:\n  x: 1\np:\n  z: 1\n',
        [
            (1, 1, Code.MISSING_KEY),
            (2, 3, Code.UNKNOWN_KEY),
            (3, 1, Code.DOUBLED_KEY),
            (3, 1, Code.MISSING_KEY),
            (4, 3, Code.UNKNOWN_KEY),
        ],
    ),
    (
        expand(
            '+traits: [CUSTOM_A]\n  allow: false\n'
            '  resource_class: VCPU\n  one_time_use: no'
        ),
        [
            (3, 3, Code.BESIDE_DENIAL),
            (5, 3, Code.BESIDE_DENIAL),
            (5, 19, Code.BAD_RESOURCE_CLASS),
            (6, 3, Code.BESIDE_DENIAL),
        ],
    ),
    (
        expand('+allow: no\n  traits: *a'),
        [(4, 3, Code.BESIDE_DENIAL), (4, 11, Code.ALIAS)],
    ),
    (
        expand('+traits: [VCPU, VCPU]'),
        [(3, 12, Code.BAD_TRAIT), (3, 18, Code.BAD_TRAIT)],
    ),
    (
        '&a p: {identification: &b {class: *b}}\n',
        [(1, 1, Code.ANCHOR), (1, 24, Code.ANCHOR), (1, 35, Code.ALIAS)],
    ),
)


class RefusedTest(unittest.TestCase):
    maxDiff = None

    @proofs.proves(
        'D22', 'D23', 'D24', 'D33', 'D35', 'D36', 'D45', 'D48', 'D65'
    )
    def test_text_has_one_problem_at_its_place(self):
        for code, cases in REFUSED.items():
            for marked, *words in cases:
                with self.subTest(code=code.value, text=marked[:100]):
                    self.check(code, expand(marked), words)

    def check(self, code, marked, words):
        """Check that a text has one problem, at the arrow."""
        before, _, after = marked.partition('→')
        (problem,) = problems_of(before + after)
        place = before.count('\n') + 1, len(before) - before.rfind('\n')
        self.assertEqual(code, problem.code, problem)
        self.assertEqual(place, (problem.line, problem.column), problem)
        for word in words:
            self.assertIn(word, str(problem))
        self.assertTrue(problem.hint, problem)
        self.assertNotIn('mean None', problem.hint)

    @proofs.proves('device.identify.deny')
    def test_text_with_several_problems_has_all_in_their_order(self):
        for text, expected in SEVERAL:
            with self.subTest(text=text):
                self.assertEqual(
                    expected,
                    [(p.line, p.column, p.code) for p in problems_of(text)],
                )

    def test_text_that_is_almost_refused_is_accepted(self):
        for text in (f'#\tp\np: #\tx\n{GOOD}', f'p:\n{GOOD}P:\n{GOOD}'):
            inventory_file.parse(text, 'x')

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
        found = problems_of('1: {}\n')
        self.assertEqual(['', '1'], [p.paragraph for p in found], str(found))
        (problem,) = problems_of('- {b: 1, b: 2}\n')[1:]
        self.assertEqual('', problem.paragraph)

    def test_bytes_other_than_utf8_are_refused_at_their_place(self):
        for content, place in (
            (b'p:\n  \xe9: x', (2, 3)),
            (b'\xff\xfep\0:\0', (1, 1)),
        ):
            (problem,) = problems_of(content)
            self.assertEqual(Code.NOT_UTF8, problem.code)
            self.assertEqual(place, (problem.line, problem.column))

    def test_tag_of_python_is_refused(self):
        found = problems_of('p: !!python/name:os.system\n')
        self.assertEqual(Code.TAG, found[-1].code)

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


class LimitsTest(unittest.TestCase):
    """What a hostile file can't do."""

    def test_maximum_number_of_values_is_accepted(self):
        # The list is the ninth.
        for more, code in ((0, Code.DOUBLED_TRAIT), (1, Code.TOO_MANY_VALUES)):
            items = 'HW_NUMA_ROOT, ' * (MOST - 9 + more)
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
        for line in ('a:\n', '- a\n', 'a: {}\n'):
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
            found += problems_of(expand(f'=drc_name: {value}'))
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
