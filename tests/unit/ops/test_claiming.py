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

"""What must be done before an LPAR gets the slots that were claimed."""

import dataclasses
import unittest

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import policy
from nova_powervm.ops import claiming
from nova_powervm.ops import host as host_ops
from tests import proofs
from tests.unit.devices import values

CLAIM = claims.Claim(f'uuid of {values.NAME}', values.INDEX)
OF_CYBORG = dataclasses.replace(CLAIM, source=claims.Source.ACCELERATOR)
OTHER_INDEX = 0x21010021
OTHER_OF_CYBORG = claims.Claim(
    'theirs', OTHER_INDEX, source=claims.Source.ACCELERATOR
)


def claim_ops(**changes):
    """Claim slots by a file with one paragraph."""
    paragraph = dataclasses.replace(values.paragraph(), **changes)
    found = policy.Policy((paragraph,), 'inventory.yaml')
    return claiming.ClaimOps(lambda: found)


class OneTimeUseTest(unittest.TestCase):
    """Nova may start and build instances before the first update."""

    def reading(self):
        managed = values.managed_system(io_slots=(values.slot(),))
        return host_ops.Reading(managed, host_values.DiskCapacity())

    def burned(self, ops, claim):
        """Return the uuids of the providers to burn for a claim."""
        (slot,) = ops.wanted_slots([claim])
        self.assertIs(claim, slot.claim)
        return [burning.provider_uuid for burning in slot.burns]

    def test_flag_of_file_decides_before_first_update(self):
        ops = claim_ops(one_time_use=True)
        ops.check_inventory_conflicts(self.reading())
        self.assertEqual([], self.burned(ops, OF_CYBORG))
        self.assertEqual([CLAIM.provider_uuid], self.burned(ops, CLAIM))

    def test_devices_of_last_update_decide_after_it(self):
        ops = claim_ops(one_time_use=True)
        ops.published = claiming.PublishedSlots(
            one_time_use=frozenset({values.INDEX})
        )
        self.assertEqual([CLAIM.provider_uuid], self.burned(ops, CLAIM))

    def test_duplicate_provider_with_inventory_is_burned_too(self):
        ops = claim_ops(one_time_use=True)
        ops.check_inventory_conflicts(self.reading())
        for classes, duplicates in (({'CUSTOM_GPU'}, ['duplicate']), ((), [])):
            duplicate = claims.SlotProvider(
                'duplicate', values.INDEX, frozenset(classes)
            )
            ops.published = claiming.PublishedSlots(
                providers={'duplicate': duplicate},
                one_time_use=frozenset({values.INDEX}),
            )
            self.assertEqual(
                [CLAIM.provider_uuid, *duplicates], self.burned(ops, CLAIM)
            )

    @proofs.proves('O38')
    def test_reusable_device_is_not_burned(self):
        ops = claim_ops()
        ops.check_inventory_conflicts(self.reading())
        self.assertEqual([], self.burned(ops, CLAIM))


class ClaimTest(unittest.TestCase):
    """A build gets the slots that Placement has allocated on this host."""

    def setUp(self):
        super().setUp()
        self.ops = claim_ops()
        self.here, self.there = (
            claims.SlotProvider(name, index, frozenset({'CUSTOM_GPU'}))
            for name, index in (
                ('here', OTHER_INDEX),
                ('there', values.INDEX),
            )
        )

    def claim(self, providers, *allocated, requests=(), amount=1):
        self.ops.published = providers
        return self.ops.claim(
            'instance',
            {name: {'resources': {'CUSTOM_GPU': 1}} for name in allocated},
            {'resources1:CUSTOM_GPU': str(amount)} if amount else {},
            # What Nova has stored with the instance on its old host.
            {'there': self.there},
            requests,
        )

    def test_evacuated_instance_gets_slots_of_its_new_host(self):
        published = claiming.PublishedSlots({'here': self.here})
        claimed = self.claim(published, 'here', 'there')
        self.assertEqual((self.here.claim,), claimed)

    def test_record_decides_before_first_update(self):
        published = claiming.PublishedSlots(is_complete=False)
        self.assertEqual((self.there.claim,), self.claim(published, 'there'))

    def test_request_for_device_of_nova_is_refused(self):
        published = claiming.PublishedSlots({'here': self.here})
        request = accelerators.Request('request', 'theirs', OTHER_INDEX)
        with self.assertRaises(exception.AcceleratorRefused):
            self.claim(published, 'theirs', requests=[request], amount=0)


class RefusalTest(unittest.TestCase):
    """An LPAR may keep a slot that it must not get."""

    def refusals(self, *requests):
        ops = claim_ops()
        ours = claims.SlotProvider(
            'ours', values.INDEX, frozenset({'CUSTOM_GPU'})
        )
        ops.published = claiming.PublishedSlots(providers={'ours': ours})
        return [
            slot.refusal
            for slot in ops.wanted_slots(
                [OF_CYBORG, OTHER_OF_CYBORG], requests
            )
        ]

    def test_request_for_device_of_nova_is_refused(self):
        refused, allowed = self.refusals(
            accelerators.Request('request', 'ours', values.INDEX),
            accelerators.Request('other', 'theirs', OTHER_INDEX),
        )

        self.assertIn('21010020', refused)
        self.assertEqual('', allowed)

    def test_slots_without_a_request_are_not_refused(self):
        self.assertEqual(['', ''], self.refusals())
