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

"""Properties of the inventory file's parser."""

import json
import unittest

import yaml
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy
from nova_powervm.inventory_file.structure import SCHEMA
from tests import proofs
from tests.property import strategies

#: Text that could stand in such a file, whole or in pieces.
PIECES = st.sampled_from(
    (
        'identification', 'resource_class', 'traits', 'allow', 'vendor_id',
        'one_time_use', 'true', 'no', '1DB*', '1DB?', '?DB', '*-P1', 'A?',
        'drc_name', 'class', 'CUSTOM_GPU', "'10DE'", '1014', '0x10', 'null',
        'yes', '12:30', '*', '*a', '&a ', '!!str ', '!x ', '<<', '? ', ': ',
        ':', '- ', '-', '[', ']', '{', '}', ',', '\n', '\n  ', '\n    ',
        '\t', '#', '|\n', '>-\n', "'", '"', '\\', '%YAML 1.1\n', '---\n',
        '...\n', '\r', '\u2028', '\x85', '\ufeff', '\x00', '\ud800', '@',
        '`', '=', '~', '"\\UFFFFFFFF"', '"\\x00"',
    )
)  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | strategies.TEXT
    | PIECES.filter(lambda text: '\ud800' not in text)
)
keys = st.sampled_from(
    (*SCHEMA['additionalProperties']['properties'], *policy.PROPERTIES)
)
structures = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys | strategies.TEXT, inner, max_size=4)
    ),
    max_leaves=12,
)

GOOD = """\
gpus:
  identification: {vendor_id: 10DE, class: "0302", device_id: '1DB?'}
  resource_class: CUSTOM_GPU
  allow: yes
  traits:
    - CUSTOM_FAST
    - HW_GPU_API_VULKAN
disk:
  identification:
    drc_name: 'U78-P1-C2'
  one_time_use: true
"not the first":
  identification:
    drc_index: '21010020'
  allow: no
"""
damages = st.tuples(
    st.integers(0, len(GOOD)),
    st.integers(0, 20),
    PIECES | st.text(max_size=3),
)


def parse(text):
    """Parse a text; return None if it is refused."""
    try:
        return inventory_file.parse(text, 'x')
    except exception.PolicyInvalid as error:
        problems = error.fields['problems']
        assert problems
        assert error.fields['count'] == len(problems)
        str(error).encode()
        for problem in problems:
            assert problem.line >= 1 and problem.column >= 1, problem
            assert str(problem).isprintable(), problem
            assert problem.hint and problem.code, problem
        return None


def check(read):
    """Assert that a policy keeps all rules of the file."""
    for paragraph in read.paragraphs if read else ():
        assert paragraph.name.isprintable()
        assert paragraph.line >= 1
        assert paragraph.identification
        for key, value in paragraph.identification.items():
            assert policy.problem_with_value(key, value) is None
            assert policy.normal_value(key, value) == value
        wrong = policy.problem_with_resource_class(paragraph.resource_class)
        assert wrong is None
        assert not any(map(policy.problem_with_trait, paragraph.traits))
        if not paragraph.allow:
            assert paragraph == policy.Paragraph(
                paragraph.name,
                paragraph.identification,
                allow=False,
                line=paragraph.line,
            )


class ParseAnyTextTest(unittest.TestCase):
    @given(st.text())
    def test_parser_accepts_or_refuses_any_text(self, text):
        check(parse(text))

    @given(st.binary())
    def test_parser_accepts_or_refuses_any_bytes(self, content):
        check(parse(content))

    @settings(max_examples=500)
    @given(st.lists(PIECES, max_size=15).map(''.join))
    def test_parser_accepts_or_refuses_joined_tokens(self, text):
        check(parse(text))

    @settings(max_examples=300)
    @given(st.dictionaries(st.text('ab', min_size=1), structures, max_size=2))
    def test_parser_accepts_or_refuses_any_structure(self, value):
        check(parse(yaml.safe_dump(value)))

    @settings(max_examples=500)
    @given(st.lists(damages, min_size=1, max_size=4))
    def test_parser_accepts_or_refuses_damaged_file(self, damage):
        text = GOOD
        for start, length, junk in damage:
            text = text[:start] + junk + text[start + length :]
        check(parse(text))

    def test_undamaged_file_is_accepted(self):
        self.assertEqual(3, len(parse(GOOD).paragraphs))


class ParseValueTest(unittest.TestCase):
    @settings(max_examples=1000)
    @given(
        st.text('0129abcefnxoNyY+-._:~=<*', min_size=1, max_size=6)
        | st.text('0123:-TZ. ', min_size=8, max_size=20)
    )
    @example('-_')
    @example('._')
    @example('0b1')
    @example('1_0')
    @example('y')
    @example('2026-01-01 10:00:00')
    def test_ambiguous_yaml_scalars_are_refused(self, value):
        read = parse(f'p:\n  identification:\n    drc_name: {value}\n')
        if read is not None:
            (paragraph,) = read.paragraphs
            text = paragraph.identification['drc_name']
            self.assertEqual({'x': text}, yaml.safe_load(f'x: {text}'))
            self.assertNotIn(text, set('yYnN'))

    @proofs.proves('D28', 'device.identify.location')
    @given(
        st.text(
            st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30
        )
    )
    def test_quoted_location_code_is_read_as_written(self, text):
        read = parse(
            f'p:\n  identification:\n    drc_name: {json.dumps(text)}'
        )
        accepted = bool(text) and text == text.strip()
        self.assertIs(accepted, read is not None)
        if read:
            (paragraph,) = read.paragraphs
            self.assertEqual({'drc_name': text}, paragraph.identification)


class PolicyRoundTripTest(unittest.TestCase):
    @given(
        st.dictionaries(
            st.text('abc xyz', min_size=1, max_size=8),
            strategies.identifications.filter(bool),
            max_size=4,
        )
    )
    def test_written_policy_is_read_back(self, identifications):
        text = yaml.safe_dump(
            {
                name: {'identification': values, 'resource_class': 'PGPU'}
                for name, values in identifications.items()
            },
            sort_keys=False,
            default_style="'",
        )
        read = parse(text)
        self.assertEqual(
            list(identifications.items()),
            [(p.name, p.identification) for p in read.paragraphs],
        )
