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

"""Claims of devices for one use."""

import dataclasses
import unittest

from nova_powervm.devices import claims
from nova_powervm.devices import host
from nova_powervm.devices import policy
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import host as host_ops
from tests.unit.devices import values
from tests.unit.ops import test_burn

CLAIM = claims.Claim(f'uuid of {values.NAME}', values.INDEX)
OF_CYBORG = dataclasses.replace(CLAIM, source=claims.Source.ACCELERATOR)


class Inventory:
    """A file with one paragraph."""

    def __init__(self, **changes):
        paragraph = dataclasses.replace(values.paragraph(), **changes)
        self.policy = policy.Policy((paragraph,), 'inventory.yaml')


class OneTimeUseTest(unittest.TestCase):
    """Nova may start and build instances before the first update."""

    def claims(self, **changes):
        self.placement = test_burn.Placement(held={CLAIM.provider_uuid})
        return claim_ops.ClaimOps(Inventory(**changes), self.placement)

    def snapshot(self):
        view = values.view(io_slots=(values.slot(),))
        return host_ops.Snapshot(view, host.DiskCapacity())

    def test_burn_uses_one_time_use_flag_of_file_before_first_update(self):
        ops = self.claims(one_time_use=True)
        ops.check_inventory_conflicts(self.snapshot())
        ops.burn('i', [OF_CYBORG])
        self.assertEqual(set(), self.placement.burned)
        ops.burn('i', [CLAIM])
        self.assertEqual({CLAIM.provider_uuid}, self.placement.burned)

    def test_burn_uses_one_time_use_devices_of_last_update(self):
        ops = self.claims(one_time_use=True)
        ops.published = claim_ops.PublishedSlots(
            one_time_use=frozenset({values.INDEX})
        )
        ops.burn('i', [CLAIM])
        self.assertEqual({CLAIM.provider_uuid}, self.placement.burned)

    def test_burn_includes_twin_provider_with_inventory(self):
        ops = self.claims(one_time_use=True)
        ops.check_inventory_conflicts(self.snapshot())
        for name, classes in (('twin', {'CUSTOM_GPU'}), ('empty', ())):
            twin = claims.SlotProvider(name, values.INDEX, frozenset(classes))
            ops.published = claim_ops.PublishedSlots(
                providers={name: twin},
                one_time_use=frozenset({values.INDEX}),
            )
            ops.burn('i', [CLAIM])
        self.assertEqual({CLAIM.provider_uuid, 'twin'}, self.placement.burned)

    def test_burn_skips_reusable_device(self):
        ops = self.claims()
        ops.check_inventory_conflicts(self.snapshot())
        ops.burn('i', [CLAIM])
        self.assertEqual([], self.placement.asked)
