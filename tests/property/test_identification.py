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

"""The index of paragraphs finds those that identify a slot."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm.devices import matching
from nova_powervm.devices import policy
from nova_powervm.devices import slots
from tests.property import strategies

PATTERNS = {
    'drc_name': ('U78-P1-C?', '*-C1', 'U78*C2', '*', '?'),
    'drc_index': ('2101000?', '*1', '210100*', '*'),
    'revision_id': ('A?', '*0', '*'),
}
IDS = ('10D*', '1?DE', '*', 'FF*', '????')


def wanted(key):
    return strategies._values(key) | st.sampled_from(PATTERNS.get(key, IDS))


paragraphs = st.sets(
    st.sampled_from(list(policy.PROPERTIES)), max_size=4
).flatmap(
    lambda keys: st.builds(
        policy.Paragraph,
        name=st.just('some'),
        identification=st.fixed_dictionaries({k: wanted(k) for k in keys}),
        allow=st.booleans(),
    )
)


class IdentificationIndexTest(unittest.TestCase):
    @given(
        st.lists(paragraphs, max_size=12),
        st.lists(
            strategies.host_slots | strategies.any_slots,
            min_size=1,
            max_size=8,
        ),
    )
    def test_index_finds_identifying_paragraphs_in_file_order(
        self, written, host_slots
    ):
        index = matching.ParagraphIndex(written)
        for slot in host_slots:
            self.assertEqual(
                tuple(p for p in written if p.identifies(slot)),
                index.identifying(slot),
            )


class IdentificationExampleTest(unittest.TestCase):
    """Fixed examples, since the property above could be vacuous."""

    def test_index_finds_exact_and_wildcard_paragraphs(self):
        written = [
            policy.Paragraph(name, dict(keys))
            for name, keys in (
                ('wild', {'drc_name': '*-C1'}),
                ('exact', {'vendor_id': '10DE'}),
                ('both', {'vendor_id': '10DE', 'drc_name': 'U78*'}),
                ('other', {'vendor_id': '1014'}),
                ('nothing', {}),
                ('again', {'vendor_id': '10DE'}),
            )
        ]
        slot = slots.Slot(1, 'U78-C1', vendor_id=0x10DE)
        found = matching.ParagraphIndex(written).identifying(slot)
        self.assertEqual(
            ['wild', 'exact', 'both', 'again'], [p.name for p in found]
        )

    def test_index_ignores_values_no_slot_can_have(self):
        slot = slots.Slot(0xABC, vendor_id=0xABC)
        for value in ('ABC', '0abc', ' 0ABC', '0_ABC', 'any'):
            for keys in (('vendor_id',), ('vendor_id', 'drc_name')):
                written = [policy.Paragraph('p', dict.fromkeys(keys, value))]
                self.assertFalse(written[0].identifies(slot))
                index = matching.ParagraphIndex(written)
                self.assertEqual((), index.identifying(slot))
                self.assertEqual((), index.identifying(slots.Slot(1)))
