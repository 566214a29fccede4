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


"""What Cyborg's file allows, and what Nova's file gives away as well."""

import dataclasses
import unittest

from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.devices import policy
from tests.unit.devices import values

GIVES = values.paragraph()
DENIES = dataclasses.replace(GIVES, name='not', allow=False)
ONCE = dataclasses.replace(GIVES, one_time_use=True)
SLOT = values.slot()


def find_shared(ours, novas):
    """Return the slots that two lists of paragraphs give away."""
    shared_slots = accelerators.find_shared_slots(
        policy.Policy(tuple(ours)), policy.Policy(tuple(novas)), [SLOT]
    )
    return [shared.slot for shared in shared_slots]


class AcceleratorPolicyTest(unittest.TestCase):
    def test_slot_that_both_files_give_away_is_shared(self):
        self.assertEqual([SLOT], find_shared([GIVES], [GIVES]))

    def test_slot_that_a_file_denies_or_leaves_out_is_not_shared(self):
        for ours, novas in (
            ([GIVES, DENIES], [GIVES]),
            ([GIVES], [GIVES, DENIES]),
            ([], [GIVES]),
            ([GIVES], []),
        ):
            with self.subTest(ours=ours, novas=novas):
                self.assertEqual([], find_shared(ours, novas))

    def test_denying_paragraph_may_say_one_time_use(self):
        denies = dataclasses.replace(ONCE, allow=False)
        paragraphs = accelerators.one_time_use_paragraphs(
            policy.Policy((GIVES, ONCE, denies))
        )

        self.assertEqual((ONCE,), paragraphs)


class CyborgNameTest(unittest.TestCase):
    def test_slot_is_found_in_name_of_its_own_node_alone(self):
        name = names.cyborg_provider_name('host1', values.INDEX)

        for node, expected in (
            ('', values.INDEX),
            ('host1', values.INDEX),
            ('host2', None),
        ):
            with self.subTest(node=node):
                self.assertEqual(
                    expected, names.slot_of_cyborg_provider(name, node)
                )

    def test_name_without_space_before_index_is_no_slot(self):
        self.assertIsNone(
            names.slot_of_cyborg_provider(
                'PowerVM Cyborg IOSlot host121010020'
            )
        )
