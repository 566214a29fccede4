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

"""Which devices may be given back, and the refusals."""

import unittest

from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing
from tests.unit.devices import values

ROOT = placement_tree.Provider('root', 'host1', None, 3)
UUID = '6a1c2d3e-0000-4000-8000-00000000000a'


def burned(index=values.INDEX, uuid=UUID, **changes):
    """Make the provider of a device that waits for its release."""
    return placement_tree.Provider(
        **{
            'uuid': uuid,
            'name': names.provider_name('host1', index),
            'parent_uuid': 'root',
            'generation': 7,
            'inventory': {'CUSTOM_GPU': values.record(1)},
            'traits': frozenset({'HW_PCI_ONE_TIME_USE', 'OWNER_NOVA'})
            | names.generated_traits(values.slot()),
            **changes,
        }
    )


def tree(*below):
    return placement_tree.Tree('host1', ROOT, below)


class ReleasingTest(unittest.TestCase):
    def assert_refused(self, words, function, *args):
        with self.assertRaises(errors.DeviceUnchanged) as caught:
            function(*args)
        self.assertIn(words, str(caught.exception))

    def test_used_device_is_releasable(self):
        provider = burned()
        releasing.check_releasable(provider)
        self.assertEqual(
            [('CUSTOM_GPU', values.record(0))],
            releasing.make_released_records(provider),
        )

    def test_provider_is_found_by_slot_name_and_uuid(self):
        here = tree(burned(), burned(0x21010021, 'other'))
        for which in (
            '21010020',
            '0x21010020',
            'PowerVM IOSlot host1 21010020',
            UUID,
        ):
            self.assertEqual(UUID, releasing.find_provider(which, here).uuid)

    def test_unknown_or_ambiguous_or_foreign_provider_is_refused(self):
        short = burned(uuid='other', name='PowerVM IOSlot 21010020')
        for words, which, *below in (
            ('21010020', '21010029', burned()),
            ('21010020', 'nothing', burned()),
            ("'': an empty text names no device", '', burned()),
            ("'': an empty text names no device", ' ', burned()),
            ('other', '21010020', burned(), short),
            ('did not create', UUID, burned(name='host1_gpu')),
            (
                'Cyborg manages it',
                UUID,
                burned(name='x', traits=frozenset({'OWNER_CYBORG'})),
            ),
            ('did not create', UUID, burned(parent_uuid='elsewhere')),
        ):
            with self.subTest(which, below=below):
                self.assert_refused(
                    words, releasing.find_provider, which, tree(*below)
                )

    def test_device_that_does_not_wait_for_release_is_refused(self):
        withdrawn = burned().traits | {names.WITHDRAWN_TRAIT}
        by_hand = f'--resource CUSTOM_GPU:reserved=0 {UUID}'
        for words, changes in (
            (
                'it is allocated to one, two',
                {'consumers': {'two': {}, 'one': {}}},
            ),
            (
                'If it is a migration, which `openstack --os-compute-api-'
                'version 2.59 server migration list` tells, confirm or revert',
                {'consumers': {'one': {}}},
            ),
            ('the driver', {'traits': withdrawn}),
            (by_hand, {'traits': frozenset({'OWNER_NOVA'})}),
            ('reserved is 0', {'inventory': {'CUSTOM_GPU': values.record(0)}}),
        ):
            with self.subTest(words):
                self.assert_refused(
                    words, releasing.check_releasable, burned(**changes)
                )

    def test_slot_without_owner_is_releasable(self):
        at = {names.property_trait('drc_name', values.slot().drc_name)}
        for provider, slot in (
            (burned(traits=frozenset(at)), values.slot()),
            (burned(), values.slot()),
            (burned(traits=frozenset(at)), values.slot(drc_name=None)),
        ):
            releasing.check_unowned(provider, [values.slot(drc_index=5), slot])

    def test_owned_slot_is_refused(self):
        for kind in slots.PartitionKind:
            owner = values.client(kind=kind, name='someone')
            self.assert_refused(
                f'its slot is owned by {kind} someone',
                releasing.check_unowned,
                burned(),
                [values.slot(), values.slot(owner=owner)],
            )

    def test_slot_that_host_does_not_report_is_refused(self):
        elsewhere = names.property_trait('drc_name', 'U78D2.OTHER-P1-C2')
        for provider, io_slots in (
            (burned(), []),
            (burned(), [values.slot(drc_index=5)]),
            (burned(traits=frozenset({elsewhere})), [values.slot()]),
        ):
            self.assert_refused(
                f'--resource CUSTOM_GPU:reserved=0 {UUID}',
                releasing.check_unowned,
                provider,
                io_slots,
            )

    def test_burned_free_devices_are_listed_by_slot(self):
        waiting = burned(0x21010022, 'waiting')
        here = tree(
            waiting,
            burned(0x21010023, consumers={'one': {'CUSTOM_GPU': 1}}),
            burned(0x21010024, traits=frozenset()),
            burned(0x21010025, inventory={'CUSTOM_GPU': values.record(0)}),
            burned(0x21010021, 'first'),
        )
        self.assertEqual(
            ['first', 'waiting'],
            [o.uuid for o in releasing.find_used_devices(here)],
        )


NEW = values.slot(device_id=0xABC)
NEW_ELSEWHERE = values.slot(drc_index=5, device_id=0xABC)
SILENT = values.slot(device_id=None)
EMPTY = values.slot(vendor_id=slots.EMPTY_ID)
ACCEPT = '`nova-powervm-inventory restore 21010020 --new-card`'


class CardTest(unittest.TestCase):
    """Which card is in the slot, and which was burned."""

    assert_refused = ReleasingTest.assert_refused

    def test_burned_card_is_releasable_also_if_it_is_gone(self):
        for slot in (values.slot(), values.slot(revision_id=0xA1), EMPTY):
            releasing.check_on_host(burned(), [NEW_ELSEWHERE, slot])
        # The host has never reported an id.
        releasing.check_on_host(
            burned(traits=frozenset()), [slots.Slot(values.INDEX)]
        )

    def test_changed_or_doubtful_card_is_not_released(self):
        for words, slot, changes in (
            ('device_id was 1EB8, and is 0ABC', NEW, {}),
            ('no longer reports device_id 1EB8', SILENT, {}),
            ('has not taken up', values.slot(), {'traits': frozenset()}),
            ('is owned by', values.slot(owner=values.client()), {}),
        ):
            self.assert_refused(
                words, releasing.check_on_host, burned(**changes), [slot]
            )
        self.assert_refused(
            ACCEPT, releasing.check_on_host, burned(), [SILENT]
        )

    def test_quarantine_ends_for_the_same_card_only(self):
        marked = burned(traits=burned().traits | names.REPLACED_TRAITS)
        for provider in (burned(), marked):
            releasing.check_same_card(provider, [values.slot()])
            self.assert_refused(
                'was 1EB8, and is 0ABC. If you have put another card in or '
                f'updated its firmware, run {ACCEPT}',
                releasing.check_same_card,
                provider,
                [NEW],
            )
        for slot in (EMPTY, SILENT):
            releasing.check_same_card(burned(), [slot])
            self.assert_refused(
                ACCEPT, releasing.check_same_card, marked, [slot]
            )
        releasing.check_same_card(burned(), [])
        self.assert_refused('', releasing.check_same_card, marked, [])

    def test_slot_that_is_reported_twice_shows_no_card(self):
        marked = burned(traits=burned().traits | names.REPLACED_TRAITS)
        for io_slots in ([values.slot(), NEW], [NEW, values.slot()]):
            for check, provider in (
                (releasing.check_on_host, burned()),
                (releasing.check_same_card, marked),
                (releasing.check_new_card, burned()),
            ):
                self.assert_refused(
                    'more than once', check, provider, io_slots
                )

    def test_only_another_card_is_new(self):
        for slot in (NEW, SILENT):
            releasing.check_new_card(burned(), [slot])
        for words, io_slots in (
            ('ids that its provider has', [values.slot()]),
            ('its slot is empty', [EMPTY]),
            ('its slot is empty', []),
        ):
            self.assert_refused(
                words, releasing.check_new_card, burned(), io_slots
            )

    def test_refusal_names_the_command_that_ends_the_quarantine(self):
        marks = names.REPLACED_TRAITS | {names.ONE_TIME_USE_TRAIT}
        self.assert_refused(
            ACCEPT, releasing.check_releasable, burned(traits=marks)
        )
