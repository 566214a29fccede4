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

"""What tells one card from another."""

import unittest

import ddt

from nova_powervm.devices import card_ids
from nova_powervm.devices import names
from nova_powervm.devices import policy
from nova_powervm.devices import slots
from tests.unit.devices import values

TRAITS = names.generated_traits(values.slot())
#: Attribute of each id to another value, and how that is printed.
OTHERS = {
    'vendor_id': (0x1014, 'vendor_id was 10DE, and is 1014'),
    'device_id': (0x1DB6, 'device_id was 1EB8, and is 1DB6'),
    'subsys_vendor_id': (1, 'subsys_vendor_id was 10DE, and is 0001'),
    'subsys_device_id': (2, 'subsys_device_id was 12A2, and is 0002'),
    'pci_class': (0x0108, 'class was 0302, and is 0108'),
    'revision_id': (0xA2, 'revision_id was A1, and is A2'),
}


@ddt.ddt
class CardIdsTest(unittest.TestCase):
    def test_properties_but_the_place_tell_cards_apart(self):
        """A paragraph could identify a card by any of them."""
        self.assertEqual(
            policy.PROPERTIES.keys() - {'drc_index', 'drc_name'},
            set(card_ids.KEYS),
        )

    @ddt.data(*OTHERS)
    def test_different_value_is_a_change(self, attribute):
        value, words = OTHERS[attribute]
        slot = values.slot(**{attribute: value})
        self.assertEqual(words, card_ids.find_changes(TRAITS, slot))
        self.assertEqual('', card_ids.find_unreported(TRAITS, slot))
        # One that was not known before is none.
        before = names.generated_traits(values.slot(**{attribute: None}))
        self.assertEqual('', card_ids.find_changes(before, slot))

    @ddt.data(*OTHERS)
    def test_missing_value_is_unreported(self, attribute):
        slot = values.slot(**{attribute: None})
        key = OTHERS[attribute][1].split()[0]
        self.assertEqual('', card_ids.find_changes(TRAITS, slot))
        self.assertIn(f'{key} ', card_ids.find_unreported(TRAITS, slot))

    def test_ffff_stands_for_an_id_that_is_not_reported(self):
        slot = values.slot(subsys_device_id=slots.EMPTY_ID)
        self.assertEqual('', card_ids.find_changes(TRAITS, slot))
        self.assertEqual(
            'subsys_device_id 12A2', card_ids.find_unreported(TRAITS, slot)
        )
        before = names.generated_traits(slot)
        self.assertEqual('', card_ids.find_changes(before, values.slot()))
        self.assertEqual('', card_ids.find_unreported(before, slot))

    @ddt.data(
        ('class', 'pci_class', slots.EMPTY_ID),
        ('class', 'pci_class', 0),
        ('revision_id', 'revision_id', 0xFF),
        ('vendor_id', 'vendor_id', 0),
        ('device_id', 'device_id', 0),
    )
    def test_unreadable_value_is_unreported(self, case):
        """A host that could not read a card for a moment lost it for good.

        It was in quarantine until an operator accepted what had not changed.
        """
        key, attribute, value = case
        slot = values.slot(**{attribute: value})
        self.assertEqual('', card_ids.find_changes(TRAITS, slot))
        self.assertIn(f'{key} ', card_ids.find_unreported(TRAITS, slot))
        before = names.generated_traits(slot)
        self.assertEqual('', card_ids.find_changes(before, values.slot()))
        self.assertEqual('', card_ids.find_unreported(before, slot))

    @ddt.data('subsys_vendor_id', 'subsys_device_id', 'revision_id')
    def test_zero_is_a_value_where_cards_have_it(self, key):
        slot = values.slot(**{key: 0})
        self.assertIn(f'{key} was', card_ids.find_changes(TRAITS, slot))

    def test_changes_are_all_named(self):
        slot = values.slot(vendor_id=1, device_id=2, revision_id=None)
        self.assertEqual(
            'vendor_id was 10DE, and is 0001; device_id was 1EB8, and is 0002',
            card_ids.find_changes(TRAITS, slot),
        )
        self.assertEqual(
            'revision_id A1', card_ids.find_unreported(TRAITS, slot)
        )

    def test_empty_slot_tells_nothing(self):
        slot = values.slot(vendor_id=slots.EMPTY_ID)
        self.assertEqual('', card_ids.find_changes(TRAITS, slot))
        self.assertEqual('', card_ids.find_unreported(TRAITS, slot))
        self.assertFalse(card_ids.is_unknown(frozenset(), slot))

    def test_slot_at_another_place_tells_nothing_of_the_card(self):
        for changes in ({}, {'device_id': 1}):
            slot = values.slot(drc_name='U2-P1-C2', **changes)
            self.assertTrue(card_ids.is_elsewhere(TRAITS, slot))
            self.assertEqual('', card_ids.find_changes(TRAITS, slot))
            self.assertEqual(
                'drc_name U78CB_001_WZS0JZB_P1_C2',
                card_ids.find_unreported(TRAITS, slot),
            )
            place = card_ids.select_place(TRAITS)
            self.assertFalse(card_ids.is_unknown(place, slot))
        for present, traits in (
            (values.slot(), TRAITS),
            (values.slot(drc_name=None), TRAITS),
            (slot, TRAITS - card_ids.select_place(TRAITS)),
        ):
            self.assertFalse(card_ids.is_elsewhere(traits, present))

    def test_provider_without_ids_does_not_know_its_card(self):
        place = TRAITS - card_ids.select_traits(TRAITS)
        self.assertTrue(place)
        self.assertTrue(card_ids.is_unknown(place, values.slot()))
        self.assertFalse(card_ids.is_unknown(TRAITS, values.slot()))
        nothing = slots.Slot(values.INDEX, drc_name='U1')
        self.assertFalse(card_ids.is_unknown(place, nothing))
