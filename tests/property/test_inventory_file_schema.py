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

"""The parser and the JSON schema accept the same inventory files."""

import unittest

import jsonschema
import yaml
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy
from nova_powervm.inventory_file import yaml_document
from nova_powervm.inventory_file.structure import SCHEMA
from tests import proofs

VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PARAGRAPH_KEYS = SCHEMA['additionalProperties']['properties']
WORDS = ('yes', 'Yes', 'YES', 'no', 'No', 'NO')

ids = st.text('0123456789ABCDEFabcdefG*?xe+._: ', max_size=9)
texts = st.sampled_from(
    (
        '10DE', '1E10', '0302', '1DB*', '10D?', '*', '1', 'A1', 'U78-P1-*',
        '21010020', 'CUSTOM_A', 'CUSTOM_POWERVM_A', 'CUSTOM_', 'PGPU', 'VCPU',
        'HW_NUMA_ROOT', 'HW_PCI_ONE_TIME_USE', 'OWNER_NOVA', 'COMPUTE_NODE',
        'yes', 'No', 'true', 'on', 'n', '', ' x', 'x ', 'a\nb', 'a\u2028',
    )
) | ids  # fmt: skip
scalars = texts | st.sampled_from((True, False, None, 1, 0, 1014, 0.5))
values = scalars | st.lists(texts, max_size=3) | st.just({})
good_ids = st.one_of(
    st.tuples(st.just('class'), st.sampled_from(('ABCD', 'AB*'))),
    st.tuples(st.just('revision_id'), st.sampled_from(('0A', '?1'))),
)
identifications = (
    st.dictionaries(
        st.sampled_from((*policy.PROPERTIES, 'allow')), scalars, max_size=3
    )
    | st.lists(good_ids, min_size=1, max_size=2).map(dict)
    | values
)
words_of_booleans = st.sampled_from((True, False, *WORDS))
#: Most of these are good, or would be but for one thing.
likely_paragraphs = st.fixed_dictionaries(
    {'identification': st.lists(good_ids, max_size=2).map(dict)},
    optional={
        'allow': words_of_booleans,
        'resource_class': st.sampled_from(('CUSTOM_A', 'PGPU')),
        'traits': st.lists(
            st.sampled_from(('CUSTOM_A', 'HW_NUMA_ROOT')), max_size=2
        ),
        'one_time_use': words_of_booleans,
    },
)
odd_paragraphs = (
    st.dictionaries(
        st.sampled_from((*PARAGRAPH_KEYS, 'x')),
        values | identifications,
        max_size=4,
    )
    | values
)
files = (
    st.dictionaries(st.sampled_from(('p', 'q')), likely_paragraphs, max_size=1)
    | st.dictionaries(
        st.sampled_from(('p', 'q')) | scalars,
        likely_paragraphs | odd_paragraphs,
        max_size=3,
    )
    | values
)


class _UnquotedBooleansDumper(yaml.SafeDumper):
    """Writes words of booleans without quotes."""


def _represent_text(dumper, value):
    style = '' if value in yaml_document.BOOLEANS else None
    tag = 'tag:yaml.org,2002:str'
    if value in yaml_document.BOOLEANS:
        tag = 'tag:yaml.org,2002:bool'
    return dumper.represent_scalar(tag, value, style=style)


_UnquotedBooleansDumper.add_representer(str, _represent_text)


def accepted(text):
    try:
        inventory_file.parse(text, 'x')
    except exception.PolicyInvalid:
        return False
    return True


def scalars_of(node):
    """Yield all scalars of a graph, each with the key of its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield None, key
            for of, inner in scalars_of(value):
                yield (of or key.value), inner
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from scalars_of(item)
    else:
        yield None, node


def is_beyond(text):
    """Return whether a rule beyond the schema explains a refusal."""
    root = yaml.compose(text)
    if isinstance(root, yaml.ScalarNode):
        return root.value != ''
    for of, node in scalars_of(root):
        if not isinstance(node, yaml.ScalarNode):
            return True
        if of in ('allow', 'one_time_use'):
            if node.style or node.value not in yaml_document.BOOLEANS:
                return True
        elif not yaml_document.is_text(node) or (
            of == 'traits' and policy.problem_with_trait(node.value)
        ):
            return True
    return has_doubled_key(root)


def has_doubled_key(node):
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        return len(keys) != len(set(keys)) or any(
            has_doubled_key(value) for _, value in node.value
        )
    return False


class SchemaAgreementTest(unittest.TestCase):
    def check(self, text):
        valid = VALIDATOR.is_valid(yaml.safe_load(text))
        taken = accepted(text)
        if taken:
            self.assertTrue(valid, text)
        elif valid:
            self.assertTrue(is_beyond(text), text)

    @proofs.proves('D19')
    @settings(max_examples=500)
    @given(files)
    def test_parser_and_schema_agree_on_quoted_and_bare_booleans(self, value):
        quoted = yaml.safe_dump(value)
        bare = yaml.dump(value, Dumper=_UnquotedBooleansDumper)
        for text in dict.fromkeys((quoted, bare)):
            self.check(text)

    @given(st.sampled_from(list(policy.PROPERTIES)), texts)
    @example('vendor_id', '0x10DE')
    @example('vendor_id', '10DE0*')
    @example('vendor_id', '?????')
    @example('vendor_id', '**1*D**')
    @example('vendor_id', '?*')
    @example('drc_name', ' U78')
    @example('drc_name', 'U 7 8')
    def test_parser_and_schema_agree_on_quoted_values(self, key, value):
        quoted = "'" + value.replace("'", "''") + "'"
        text = f'p:\n  identification:\n    {key}: {quoted}\n'
        if value.isprintable():
            valid = VALIDATOR.is_valid(yaml.safe_load(text))
            self.assertIs(valid, accepted(text))

    @given(st.lists(texts, max_size=3))
    def test_parser_and_schema_agree_on_traits(self, names):
        value = {'p': {'identification': {'class': 'ABCD'}, 'traits': names}}
        if all(name.isprintable() for name in names):
            self.check(yaml.safe_dump(value, default_style="'"))

    @given(texts)
    def test_parser_and_schema_agree_on_resource_classes(self, name):
        value = {
            'p': {'identification': {'class': 'ABCD'}, 'resource_class': name}
        }
        if name.isprintable():
            text = yaml.safe_dump(value, default_style="'")
            self.assertIs(VALIDATOR.is_valid(value), accepted(text))
