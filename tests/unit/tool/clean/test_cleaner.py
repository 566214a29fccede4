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

import collections
import dataclasses
import unittest

from nova_powervm.devices import card_ids
from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.clean import cleaner
from tests.unit.devices import values
from tests.unit.tool.rules import test_releasing

CARD = slots.Slot(
    values.INDEX,
    drc_name='U1-P1-C3',
    vendor_id=0x10DE,
    device_id=0x1DB6,
    subsys_vendor_id=0x10DE,
    subsys_device_id=0x124A,
)
CLEANER = slots.Owner(slots.PartitionKind.CLIENT, 9, 'UUID', 'cleaner')
VIOS = dataclasses.replace(CLEANER, kind=slots.PartitionKind.VIOS)


ONCE = names.ONE_TIME_USE_TRAIT
IDS = card_ids.select_traits(names.generated_traits(CARD))


def burned(**changes):
    """Return the provider of the card."""
    return test_releasing.burned(**{'traits': IDS | {ONCE}, **changes})


def owned(owner):
    return dataclasses.replace(CARD, owner=owner)


class TurnTest(unittest.TestCase):
    """Whose device is cleaned next."""

    def order(self, *projects):
        """Return the devices, numbered from 0, in the order of cleaning.

        :param projects: The project that burned each device.
        """
        waiting = [
            test_releasing.burned(uuid=f'p{number}')
            for number, _ in enumerate(projects)
        ]
        burned_by = dict(
            zip([each.uuid for each in waiting], projects, strict=True)
        )
        served = collections.Counter()
        cleaned = []
        while waiting:
            # Whatever order they are found in.
            waiting.reverse()
            chosen = cleaner.choose_next(waiting, burned_by, served)
            waiting.remove(chosen)
            served[burned_by[chosen.uuid]] += 1
            cleaned.append(int(chosen.uuid[1:]))
        return cleaned

    def test_projects_take_turns_and_the_one_with_fewest_begins(self):
        for projects, order in (
            ('aaab', [3, 0, 1, 2]),
            ('aabbb', [0, 2, 1, 3, 4]),
            ('ba', [1, 0]),
            (('a', 'a', 'unknown', 'unknown', 'b'), [4, 0, 2, 1, 3]),
            (['unknown'] * 3, [0, 1, 2]),
        ):
            with self.subTest(projects=projects):
                self.assertEqual(order, self.order(*projects))


class ChooseTest(unittest.TestCase):
    """Which devices are cleaned."""

    def choose(self, *io_slots, partition=None, **changes):
        provider = burned(**changes)
        return cleaner.choose_slot(provider, io_slots, partition)

    def assert_refused(self, words, *io_slots, **options):
        with self.assertRaises(errors.DeviceUnchanged) as caught:
            self.choose(*io_slots, **options)
        self.assertIn(words, str(caught.exception))

    def test_free_device_or_that_of_the_partition_is_cleaned(self):
        other = dataclasses.replace(CARD, drc_index=1)
        self.assertEqual(CARD, self.choose(other, CARD))
        slot = owned(CLEANER)
        self.assertEqual(slot, self.choose(slot, partition='cleaner'))

    def test_slot_of_other_partition_is_refused(self):
        for owner, partition in (
            (CLEANER, None),
            (CLEANER, 'cleaner2'),
            (VIOS, 'cleaner'),
            (dataclasses.replace(CLEANER, name=None), 'cleaner'),
        ):
            with self.subTest(owner=owner, partition=partition):
                self.assert_refused(
                    'its slot is owned by', owned(owner), partition=partition
                )

    def test_slot_without_certain_device_is_refused(self):
        empty = dataclasses.replace(CARD, vendor_id=slots.EMPTY_ID)
        for words, found in (
            ('does not report its slot', []),
            ('more than once', [CARD, CARD]),
            ('its slot is empty', [empty]),
        ):
            with self.subTest(words):
                self.assert_refused(words, *found)

    def test_device_that_must_not_be_released_is_not_cleaned(self):
        traits = frozenset({names.ONE_TIME_USE_TRAIT, names.QUARANTINED_TRAIT})
        for words, changes in (
            ('it is allocated to', {'consumers': {'a': {'CUSTOM_GPU': 1}}}),
            ('not burned', {'inventory': {'CUSTOM_GPU': values.record(0)}}),
            ('in quarantine', {'traits': traits}),
        ):
            with self.subTest(words):
                self.assert_refused(words, CARD, **changes)


class CleanedTest(unittest.TestCase):
    """What the program leaves."""

    def assert_refused(self, words, *io_slots):
        with self.assertRaises(errors.DeviceUnchanged) as caught:
            cleaner.check_cleaned(burned(), CARD, io_slots)
        self.assertIn(words, str(caught.exception))

    def test_same_card_without_owner_is_clean(self):
        others = dataclasses.replace(CARD, drc_index=1, vendor_id=1)
        cleaner.check_cleaned(burned(), CARD, [others, CARD])

    def test_changed_or_owned_or_missing_card_is_refused(self):
        fields = 'vendor_id device_id subsys_vendor_id subsys_device_id'
        for field in fields.split():
            after = dataclasses.replace(CARD, **{field: 0xABC})
            self.assert_refused(', and is 0ABC', after)
            after = dataclasses.replace(CARD, **{field: None})
            self.assert_refused(f'no longer reports {field}', after)
        moved = dataclasses.replace(CARD, drc_name='U1-P1-C4')
        self.assert_refused('drc_name was U1-P1-C3, and is U1-P1-C4', moved)
        self.assert_refused('owned by partition cleaner', owned(CLEANER))
        self.assert_refused('does not report its slot')


class BurnedCardTest(unittest.TestCase):
    """The card is compared with the burned one, not only with itself.

    A card that showed other ids all the time was cleaned and released.
    """

    OTHER = dataclasses.replace(CARD, device_id=0xABC, pci_class=0x1080)

    def assert_refused(self, words, function, *args):
        with self.assertRaises(errors.DeviceUnchanged) as caught:
            function(*args)
        self.assertIn(words, str(caught.exception))

    def test_changed_card_is_neither_cleaned_nor_clean(self):
        words = 'another card than the one that was burned: device_id was 1DB6'
        for function, *args in (
            (cleaner.choose_slot, burned(), [self.OTHER], None),
            (cleaner.check_cleaned, burned(), self.OTHER, [self.OTHER]),
        ):
            self.assert_refused(words, function, *args)

    def test_class_that_changes_during_cleaning_is_refused(self):
        after = dataclasses.replace(CARD, pci_class=0x1080)
        self.assert_refused(
            'class was not reported, and is 1080',
            cleaner.check_cleaned,
            burned(),
            CARD,
            [after],
        )

    def test_accepted_card_waits_for_nova_compute(self):
        self.assert_refused(
            'nova-compute has not taken up the new card yet',
            cleaner.choose_slot,
            burned(traits=frozenset({ONCE})),
            [CARD],
            None,
        )


class EnvironmentTest(unittest.TestCase):
    def test_unreported_values_are_empty(self):
        slot = slots.Slot(values.INDEX, vendor_id=0x10DE)
        self.assertEqual(
            {
                'POWERVM_DRC_INDEX': '21010020',
                'POWERVM_LOCATION': '',
                'POWERVM_IDS': '10DE:::',
                'POWERVM_HOST': 'host1',
                'POWERVM_ATTEMPT': '2',
                'POWERVM_PARTITION': 'cleaner',
            },
            cleaner.make_environment(slot, 'host1', 2, 'cleaner'),
        )
