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

"""Slots that are empty, owned or available."""

import unittest

import ddt

from nova_powervm.devices import slots
from nova_powervm.devices.slots import PartitionKind
from tests import proofs
from tests.unit.devices.values import INDEX
from tests.unit.devices.values import LPAR
from tests.unit.devices.values import OTHER_LPAR
from tests.unit.devices.values import client
from tests.unit.devices.values import slot


@ddt.ddt
class SlotTest(unittest.TestCase):
    @ddt.named_data(
        ['adapter', {}, False],
        ['no vendor', {'vendor_id': 0xFFFF}, True],
        ['no class, yet with ids', {'pci_class': 0xFFFF}, False],
        [
            'no class, yet with a device id',
            {'pci_class': 0xFFFF, 'vendor_id': None},
            False,
        ],
        [
            'neither class nor ids',
            {'pci_class': 0xFFFF, 'vendor_id': None, 'device_id': None},
            True,
        ],
        [
            'as captured, no class and zeros as ids',
            {
                'pci_class': 0xFFFF,
                'vendor_id': 0,
                'device_id': 0,
                'description': 'Unknown',
            },
            True,
        ],
        ['only the device id is FFFF', {'device_id': 0xFFFF}, False],
        ['only the subsystem is FFFF', {'subsys_device_id': 0xFFFF}, False],
        [
            'described as empty',
            {'vendor_id': None, 'description': 'Empty slot'},
            True,
        ],
        [
            'described as empty in other letters',
            {'vendor_id': None, 'description': ' EMPTY SLOT '},
            True,
        ],
        ['empty by name, yet with a vendor', {'description': 'Empty slot'},
         False],
        [
            'nothing reported',
            {'vendor_id': None, 'pci_class': None, 'description': None},
            False,
        ],
    )  # fmt: skip
    def test_is_empty_depends_on_ids_and_description(self, changes, expected):
        self.assertIs(expected, slot(**changes).is_empty)

    @ddt.named_data(
        ['small', 1, '00000001'],
        ['letters', 0x1C0FFEE1, '1C0FFEE1'],
        ['largest', 0xFFFFFFFF, 'FFFFFFFF'],
    )
    def test_drc_index_is_formatted_as_eight_digits(self, index, expected):
        self.assertEqual(expected, slots.format_drc_index(index))
        self.assertEqual(expected, slot(drc_index=index).drc_hex)

    @ddt.named_data(
        ['all', {}, 'slot 21010020 at U78CB.001.WZS0JZB-P1-C2 (GPU)'],
        [
            'index only',
            {'drc_name': None, 'description': None},
            'slot 21010020',
        ],
    )
    def test_slot_text_has_index_location_and_description(
        self, changes, expected
    ):
        self.assertEqual(expected, str(slot(**changes)))

    @ddt.named_data(
        ['by name', {'name': 'lpar1'}, 'partition lpar1'],
        ['by uuid', {}, f'partition {LPAR}'],
        ['by id', {'uuid': None, 'partition_id': 7}, 'partition id 7'],
        [
            'VIOS',
            {'kind': PartitionKind.VIOS, 'name': 'vios1'},
            'VIOS vios1',
        ],
    )
    def test_owner_text_has_kind_and_name(self, changes, expected):
        self.assertEqual(expected, str(client(**changes)))

    def test_duplicated_indexes_returns_repeated_indexes(self):
        host_slots = [slot(drc_index=index) for index in (1, 2, 1, 3, 1, 3)]
        self.assertEqual({1, 3}, slots.duplicated_indexes(host_slots))
        self.assertEqual(frozenset(), slots.duplicated_indexes([]))
        self.assertEqual({2: host_slots[1]}, slots.by_index(host_slots))


@ddt.ddt
class ReasonUnavailableTest(unittest.TestCase):
    @proofs.proves('D3')
    @ddt.named_data(
        ['free', {}, None],
        ['of an instance', {'owner': client()}, None],
        [
            'of an instance, lower case',
            {'owner': client(LPAR.lower())},
            None,
        ],
        ['foreign', {'owner': client(OTHER_LPAR)}, 'owned'],
        ['an owner without uuid', {'owner': client(None)}, 'owned'],
        [
            'VIOS with the uuid of an instance',
            {'owner': client(kind=PartitionKind.VIOS)},
            'owned',
        ],
        [
            'management partition with the uuid of an instance',
            {'owner': client(kind=PartitionKind.MANAGEMENT)},
            'owned',
        ],
        ['SR-IOV', {'sriov': True}, 'sriov'],
        ['SR-IOV of an instance', {'sriov': True, 'owner': client()},
         'sriov'],
        ['empty', {'vendor_id': 0xFFFF}, 'empty'],
        ['empty of an instance', {'vendor_id': 0xFFFF, 'owner': client()},
         'empty'],
        ['bus group', {'bus_group_required': True}, None],
        ['not assignable', {'assignable': False}, 'unassignable'],
        ['not assignable, of an instance',
         {'assignable': False, 'owner': client()}, 'unassignable'],
        ['not assignable, foreign',
         {'assignable': False, 'owner': client(OTHER_LPAR)}, 'owned'],
    )  # fmt: skip
    def test_reason_unavailable_depends_on_slot_and_owner(self, changes, code):
        reason = slots.reason_unavailable(slot(**changes), {LPAR})
        self.assertEqual(code, reason and reason.code)

    def test_repeated_index_is_unavailable(self):
        reason = slots.reason_unavailable(slot(), (), {INDEX})
        self.assertEqual('duplicate', reason.code)
        self.assertIsNone(slots.reason_unavailable(slot(), (), {INDEX + 1}))

    def test_owned_reason_names_owner(self):
        owned = slot(owner=client(OTHER_LPAR, name='db2'))
        self.assertEqual(
            'it is owned by partition db2',
            str(slots.reason_unavailable(owned, {LPAR})),
        )
