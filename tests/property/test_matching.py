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

"""Matching of patterns, and the identification that devices get."""

import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import policy
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from tests import proofs
from tests.property import strategies

situations = st.tuples(
    strategies.policies,
    st.lists(strategies.host_slots, max_size=6),
    st.sets(st.sampled_from(strategies.LPARS)),
)
#: Paragraphs that deny among them.
mixed_policies = st.builds(
    policies.Policy,
    st.lists(
        st.builds(
            dataclasses.replace, strategies.paragraphs, allow=st.booleans()
        ),
        max_size=4,
    ).map(tuple),
)


class JudgeTest(unittest.TestCase):
    @proofs.proves('D12')
    @given(situations)
    def test_offered_slot_is_usable_and_identified_once(self, situation):
        policy, host_slots, lpars = situation
        for verdict in matching.judge(policy, host_slots, lpars):
            if not verdict.offered:
                continue
            slot = verdict.slot
            self.assertNotIn(0xFFFF, (slot.vendor_id, slot.pci_class))
            self.assertFalse(slot.sriov)
            self.assertEqual(
                1, sum(s.drc_index == slot.drc_index for s in host_slots)
            )
            self.assertEqual(
                1, sum(p.identifies(slot) for p in policy.paragraphs)
            )
            if slot.owner:
                self.assertIs(slots.PartitionKind.CLIENT, slot.owner.kind)
                self.assertIn(slot.owner.uuid, lpars)

    @given(situations)
    def test_withheld_slot_has_reason(self, situation):
        policy, host_slots, lpars = situation
        verdicts = matching.judge(policy, host_slots, lpars)
        self.assertEqual(host_slots, [v.slot for v in verdicts])
        duplicated = slots.duplicated_indexes(host_slots)
        for verdict in verdicts:
            unavailable = slots.reason_unavailable(
                verdict.slot, lpars, duplicated
            )
            expected = unavailable is None and len(verdict.paragraphs) == 1
            self.assertIs(expected, verdict.offered)

    @proofs.proves('D69')
    @given(situations)
    def test_devices_are_offered_slots(self, situation):
        verdicts = matching.judge(*situation)
        found = matching.devices(verdicts)
        self.assertEqual(
            [v.slot for v in verdicts if v.offered], [d.slot for d in found]
        )
        offered = [verdict for verdict in verdicts if verdict.offered]
        for device, verdict in zip(found, offered, strict=True):
            (paragraph,) = verdict.paragraphs
            self.assertEqual(paragraph.resource_class, device.resource_class)
            self.assertEqual(
                {'OWNER_NOVA', *paragraph.traits},
                device.traits - names.generated_traits(device.slot),
            )
        self.assertEqual(len(found), len({d.slot.drc_index for d in found}))

    @given(situations)
    def test_conflicts_are_devices_of_two_paragraphs(self, situation):
        policy, host_slots, _ = situation
        expected = [
            slot
            for slot in host_slots
            if not slot.is_empty
            and sum(p.identifies(slot) for p in policy.paragraphs) > 1
        ]
        found = matching.conflicts(matching.judge(*situation))
        self.assertEqual(expected, [verdict.slot for verdict in found])
        for verdict in found:
            self.assertFalse(verdict.offered)

    @given(situations, strategies.paragraphs)
    def test_additional_paragraph_hides_no_device_without_conflict(
        self, situation, extra
    ):
        """Each device that is no longer offered is in conflict."""
        policy, host_slots, lpars = situation
        more = type(policy)((*policy.paragraphs, extra), policy.source)
        before = matching.judge(policy, host_slots, lpars)
        after = matching.judge(more, host_slots, lpars)
        for was, now in zip(before, after, strict=True):
            if was.offered:
                self.assertTrue(now.offered or now.conflicting)

    @given(
        st.tuples(mixed_policies, st.lists(strategies.host_slots, max_size=6))
    )
    def test_unused_paragraphs_do_not_change_offer(self, situation):
        policy, host_slots = situation
        unused = matching.unused(policy, host_slots)
        used = type(policy)(
            tuple(p for p in policy.paragraphs if p not in unused),
            policy.source,
        )
        before = matching.judge(policy, host_slots)
        after = matching.judge(used, host_slots)
        self.assertEqual(
            [verdict.offered for verdict in before],
            [verdict.offered for verdict in after],
        )
        self.assertEqual((), matching.unused(used, host_slots))


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
