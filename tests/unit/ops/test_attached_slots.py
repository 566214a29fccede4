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

"""Slots that are given back to an LPAR."""

import unittest
from unittest import mock

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import partition
from nova_powervm.ops import attached_slots
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import host
from nova_powervm.ops import instance_spec
from nova_powervm.ops import interfaces
from tests.unit.devices import values

INSTANCE = '4b1c2d3e-0000-4000-8000-000000000001'
CLAIM = claims.Claim('provider', values.INDEX)


class GiveTest(unittest.TestCase):
    """The order of what is done can only be seen from inside."""

    def setUp(self):
        self.calls = mock.Mock()
        self.calls.claims = mock.create_autospec(claim_ops.ClaimOps)
        self.calls.partitions = mock.create_autospec(interfaces.Partitions)
        self.calls.claims.stored_claims.return_value = (CLAIM,)
        self.calls.partitions.assign.return_value = mock.Mock(
            slots={values.INDEX: True}
        )
        self.ops = attached_slots.AttachedSlotOps(
            self.calls.partitions,
            mock.create_autospec(host.HostOps),
            self.calls.claims,
        )

    def give(self):
        with self.assertLogs(level='WARNING'):
            self.ops.assign_missing(
                instance_spec.InstanceSpec(INSTANCE),
                [partition.SlotAssignment(values.INDEX)],
            )

    def test_give_burns_one_time_use_device_before_assigning_slot(self):
        self.give()
        names = [name for name, _, _ in self.calls.mock_calls]
        self.assertLess(
            names.index('claims.burn'), names.index('partitions.assign')
        )
        self.calls.claims.burn.assert_called_once_with(INSTANCE, [CLAIM])

    def test_slot_is_not_given_if_burn_fails(self):
        self.calls.claims.burn.side_effect = exception.ClaimFailed(
            instance=INSTANCE, reason='no answer'
        )
        with self.assertRaises(exception.ClaimFailed):
            self.give()
        self.calls.partitions.assign.assert_not_called()
