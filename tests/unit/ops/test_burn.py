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

"""Burning: what is made sure of, and what is written."""

import unittest

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.ops import burn
from tests.unit.devices.values import INDEX
from tests.unit.devices.values import NAME

CLAIM = claims.Claim(f'uuid of {NAME}', INDEX)


class Placement:
    """Placement with some providers, in memory."""

    def __init__(self, held=(), burned=()):
        self.held = set(held)
        self.burned = set(burned)
        self.asked = []

    def allocated_to(self, consumer):
        self.asked.append(consumer)
        if consumer == 'unknown':
            raise exception.PlacementUnanswered(request='GET', reason='503')
        return self.held

    def burn(self, uuid, classes):
        self.asked.append(uuid)
        if uuid == 'silent':
            raise exception.PlacementUnanswered(request='GET', reason='503')
        missing = uuid not in self.burned
        self.burned.add(uuid)
        return missing


class CheckTest(unittest.TestCase):
    def check(self, instance, *wanted, **answers):
        self.placement = Placement(**answers)
        burn.BurnOps(self.placement).check_allocated(instance, wanted)
        return self.placement.asked

    def refused(self, *args, **answers):
        with self.assertRaises(exception.ClaimFailed) as caught:
            self.check(*args, **answers)
        self.assertEqual(set(), self.placement.burned)
        return caught.exception.summary

    def test_check_without_claims_asks_nothing(self):
        self.assertEqual([], self.check('i'))

    def test_check_sends_one_request_for_all_claims_and_burns_nothing(self):
        uuid = CLAIM.provider_uuid
        self.assertEqual(['i'], self.check('i', CLAIM, CLAIM, held=[uuid]))
        self.assertEqual(set(), self.placement.burned)

    def test_check_refuses_device_not_allocated_to_instance(self):
        self.assertIn(
            'slot 21010020 has a one-time-use device that is not allocated '
            'to it',
            self.refused('i', CLAIM),
        )

    def test_check_refuses_if_placement_does_not_answer(self):
        self.assertIn('503', self.refused('unknown', CLAIM))


class BurnTest(unittest.TestCase):
    def burn(self, *wanted, **answers):
        self.placement = Placement(**answers)
        burn.BurnOps(self.placement).burn('i', wanted)
        return self.placement.asked

    def test_burn_reserves_and_logs_device(self):
        with self.assertLogs(burn.LOG.logger, 'INFO') as logs:
            self.burn(CLAIM)
        self.assertIn(
            'Burned the one-time-use device in slot 21010020', logs.output[0]
        )
        self.assertEqual({CLAIM.provider_uuid}, self.placement.burned)

    def test_burn_accepts_burned_device_silently(self):
        uuid = CLAIM.provider_uuid
        with self.assertNoLogs(burn.LOG.logger, 'INFO'):
            self.assertEqual([uuid], self.burn(CLAIM, burned=[uuid]))

    def test_burn_fails_if_placement_does_not_answer(self):
        with self.assertRaisesRegex(exception.ClaimFailed, '503'):
            self.burn(claims.Claim('silent', INDEX))
