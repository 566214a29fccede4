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

"""Slots and LPARs of a host, and how readings of it change."""

import types
import unittest

from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import managed_system

from emulator.tests import base
from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.powervm import system
from nova_powervm.powervm import system as powervm_system
from powervm_emulator import worlds
from tests.unit.powervm import hosts


def adapter(mode, index='553713699'):
    return types.SimpleNamespace(mode=mode, id=index)


class SriovTest(unittest.TestCase):
    def test_adapter_not_in_dedicated_mode_counts_as_shared(self):
        for mode, expected in (
            ('Sriov', [0x21010023]),
            ('unknown', [0x21010023]),
            (None, [0x21010023]),
            ('Dedicated', []),
            ('ForceDedicated', []),
        ):
            with self.subTest(mode=mode):
                config = types.SimpleNamespace(sriov_adapters=[adapter(mode)])
                self.assertEqual(
                    expected, list(powervm_system._sriov_indexes(config))
                )

    def test_adapter_without_slot_is_skipped(self):
        config = types.SimpleNamespace(sriov_adapters=[adapter('Sriov', None)])
        self.assertEqual([], list(powervm_system._sriov_indexes(config)))


CAPABILITY = (
    '<AssociatedSystemCapabilities><IOSlotOwnerAssignmentCapable>true'
    '</IOSlotOwnerAssignmentCapable></AssociatedSystemCapabilities>'
)
SLOT = """
    <IOSlot>
      <Description>GPU</Description>
      {inside}
      <SlotDynamicReconfigurationConnectorIndex>553713696
      </SlotDynamicReconfigurationConnectorIndex>
    </IOSlot>"""
NAMED = """
    <PartitionID>5</PartitionID>
    <PartitionUUID>02899d96-9d20-490f-8b1b-4d3dee1210ed</PartitionUUID>
    <PartitionName>named</PartitionName>
    <PartitionType>AIX/Linux</PartitionType>"""
IN_PROFILE = slots.Owner(slots.PartitionKind.VIOS, 1, 'ABC', 'in profile')


def described(inside='', capability=''):
    """Give pypowervm's wrapper of a system with one slot."""
    body = (
        '<entry xmlns="http://www.w3.org/2005/Atom"><id>1</id><content>'
        '<ManagedSystem xmlns="http://www.ibm.com/xmlns/systems/power/'
        f'firmware/uom/mc/2012_10/">{capability}'
        '<AssociatedSystemIOConfiguration><IOSlots>'
        f'{SLOT.format(inside=inside)}'
        '</IOSlots></AssociatedSystemIOConfiguration>'
        '</ManagedSystem></content></entry>'
    )
    response = pvm_adapter.Response(
        'GET', '/', 200, 'OK', {}, body=body.encode()
    )
    response._unmarshal_atom()
    return managed_system.System.wrap(response.entry)


class OwnerTest(unittest.TestCase):
    """A slot that names its owner is owned, whatever else is said."""

    def owner(self, inside='', capability='', owners=None):
        (slot,) = powervm_system._slots(described(inside, capability), owners)
        return slot.owner and slot.owner.name

    def test_named_owner_takes_precedence_over_profile(self):
        owners = {0x21010020: IN_PROFILE}
        for expected, *given in (
            ('named', NAMED, '', {}),
            ('named', NAMED, '', owners),
            ('in profile', '', '', owners),
            (None, '', '', {1: IN_PROFILE}),
            ('named', NAMED, CAPABILITY),
            (None, '', CAPABILITY),
        ):
            with self.subTest(expected, given=given):
                self.assertEqual(expected, self.owner(*given))


class AssignableTest(unittest.TestCase):
    def test_assignable_property_of_adapter_decides(self):
        name = 'LogicalPartitionAssignmentCapable'
        said = {
            value: f'<{name}>{value}</{name}>'
            for value in ('true', 'false', '')
        }
        cases = [('', True), ('<IOAdapter></IOAdapter>', True)]
        for kind in ('IOAdapter', 'PhysicalFibreChannelAdapter'):
            cases += [
                (f'<{kind}>{text}</{kind}>', value == 'true')
                for value, text in said.items()
            ]
        for adapter, expected in cases:
            with self.subTest(adapter):
                inside = f'<RelatedIOAdapter>{adapter}</RelatedIOAdapter>'
                system = described(inside if adapter else '')
                (slot,) = powervm_system._slots(system, None)
                self.assertIs(expected, slot.assignable)


class VanishedTest(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.system = system.RestSystem(
            hosts.connect(self, self.emulator),
            hosts.server_of(self.emulator),
            clock=lambda: self.now,
        )
        self.system.read()

    def vanish(self):
        for slot in self.indexes():
            self.control.pull(slot, remove=True)

    def indexes(self):
        (found,) = self.control.state()['systems']
        return [slot['drc_index'] for slot in found['slots']]

    def test_vanished_slots_are_reported_with_remaining_wait(self):
        self.vanish()

        with self.assertRaises(exception.SlotsVanished) as caught:
            self.system.read()

        self.assertIn(
            'no longer reports any of its 14 I/O slots', str(caught.exception)
        )
        self.assertIn('another 180 seconds', str(caught.exception))

    def test_vanished_slots_are_believed_after_repeated_full_readings(self):
        self.vanish()
        for self.now in (0.0, 60.0, 120.0, 179.0):
            self.assertRaises(exception.SlotsVanished, self.system.read)
        self.control.clear_journal()
        self.now = 181.0

        self.assertEqual((), tuple(self.system.read().io_slots))

        # Without an ETag: it may be the wrong answer that is unchanged.
        self.assertEqual(
            [200],
            [
                record['status']
                for record in self.control.journal()
                if record['label'] == 'ManagedSystem.read'
            ],
        )
        self.now = 182.0
        self.assertEqual((), tuple(self.system.read().io_slots))

    def test_reappeared_slots_are_believed_at_once(self):
        self.vanish()
        self.assertRaises(exception.SlotsVanished, self.system.read)
        self.control.load_world(worlds.default())

        self.assertEqual(14, len(self.system.read().io_slots))

    def test_wait_starts_anew_when_slots_vanish_again(self):
        self.vanish()
        self.assertRaises(exception.SlotsVanished, self.system.read)
        self.control.load_world(worlds.default())
        self.now = 170.0
        self.system.read()
        self.vanish()
        self.now = 190.0

        self.assertRaises(exception.SlotsVanished, self.system.read)
