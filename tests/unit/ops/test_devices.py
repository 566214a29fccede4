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

"""Claims that come before anything was planned."""

import dataclasses
import unittest

from nova_powervm import exception
from nova_powervm.domain import claims
from nova_powervm.domain import host
from nova_powervm.domain import policy
from nova_powervm.ops import burning
from nova_powervm.ops import devices
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import traitkeeping
from tests.unit.domain import values
from tests.unit.ops import test_burning
from tests.unit.ops import test_traitkeeping

CLAIM = claims.Claim(f'uuid of {values.NAME}', values.INDEX)


class Inventory:
    """A file with one paragraph."""

    def __init__(self, **changes):
        paragraph = dataclasses.replace(values.paragraph(), **changes)
        self.policy = policy.Policy((paragraph,), 'inventory.yaml')


class FirstTest(unittest.TestCase):
    """Nova rebuilds although no update has come through yet."""

    def devices(self, **changes):
        self.placement = test_burning.Placement(held={CLAIM.provider_uuid})
        burns = burning.BurnOps(self.placement, test_burning.Journal())
        return devices.DeviceOps(
            Inventory(**changes),
            self.placement,
            str,
            burns,
            traitkeeping.TraitOps(test_traitkeeping.Journal()),
        )

    def plan(self, ops):
        view = values.view(io_slots=(values.slot(),), uuid=test_burning.SYSTEM)
        snapshot = host_ops.Snapshot(
            view, host.DiskCapacity(0, 0), frozenset()
        )
        with self.assertLogs(level='INFO'):
            ops.plan(snapshot, [values.provider()])

    def test_what_may_be_for_one_use_is_not_used(self):
        ops = self.devices(one_time_use=True)
        with self.assertRaisesRegex(exception.ClaimFailed, 'for one use'):
            ops.confirm('i', [CLAIM])
        ops.confirm('i', [])

        self.plan(ops)
        ops.confirm('i', [CLAIM])
        self.assertEqual({CLAIM.provider_uuid}, self.placement.burned)

    def test_what_is_not_is(self):
        self.devices().confirm('i', [CLAIM])
        self.assertEqual([], self.placement.asked)
