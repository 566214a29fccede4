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

"""LPARs that stop by themselves."""

import unittest
from unittest import mock

from nova_powervm.ops import watch

RUNNING, OFF = 'running', 'not activated'


class Cloud:
    """The host's LPARs, and Nova's records of them."""

    def __init__(self, **states):
        #: LPAR to its states, one for each look.
        self.looks = {
            lpar: list(sequence) for lpar, sequence in states.items()
        }
        self.should_run = set(states)
        self.reads = 0
        self.waited = []
        self.emitted = []

    def states(self):
        self.reads += 1
        return {
            lpar: sequence.pop(0) if len(sequence) > 1 else sequence[0]
            for lpar, sequence in self.looks.items()
        }

    def running(self, lpar_uuids, host):
        return {
            lpar_uuid: f'instance {lpar_uuid}'
            for lpar_uuid in lpar_uuids
            if lpar_uuid in self.should_run and host == 'host1'
        }

    def find(self, lpar_uuid):
        return mock.Mock(reference_code=f'code of {lpar_uuid}')

    def wait(self, seconds):
        self.waited.append(seconds)
        return False

    def check(self, lpar_uuids=None, wait=None):
        watch.StoppedLpars(self, self, 'host1', self.emitted.append).check(
            lpar_uuids, wait or self.wait
        )


class StoppedLparsTest(unittest.TestCase):
    def test_lpar_that_stays_off_is_reported_once(self):
        cloud = Cloud(a=[OFF])
        with self.assertLogs(watch.LOG.name) as log:
            cloud.check(['a'])
        self.assertIn('(reference code code of a)', log.output[0])
        self.assertEqual(['instance a'], cloud.emitted)
        self.assertEqual([watch.SETTLE_SECONDS], cloud.waited)

    def test_lpar_that_restarts_is_not_reported(self):
        cloud = Cloud(a=[OFF, RUNNING])
        cloud.check(['a'])
        self.assertEqual([], cloud.emitted)

    def test_lpar_that_stops_during_the_wait_is_waited_for_as_well(self):
        cloud = Cloud(a=[OFF], b=[RUNNING, OFF])
        cloud.check(['a'])
        self.assertEqual(['instance a', 'instance b'], cloud.emitted)
        self.assertEqual(2, len(cloud.waited))

    def test_running_lpars_take_one_request_and_no_wait(self):
        cloud = Cloud(**{f'lpar{n}': [RUNNING] for n in range(200)})
        cloud.check(None)
        self.assertEqual((1, []), (cloud.reads, cloud.waited))

    def test_host_is_not_asked_about_lpars_that_nova_works_on(self):
        cloud = Cloud(a=[OFF])
        cloud.should_run.clear()
        cloud.check(['a'])
        self.assertEqual((0, []), (cloud.reads, cloud.emitted))

    def test_lpar_that_nova_stops_meanwhile_is_not_reported(self):
        cloud = Cloud(a=[OFF])

        def wait(seconds):
            cloud.should_run.clear()

        cloud.check(['a'], wait)
        self.assertEqual([], cloud.emitted)

    def test_stopping_service_reports_nothing_more(self):
        cloud = Cloud(a=[OFF])
        cloud.check(['a'], lambda seconds: True)
        self.assertEqual([], cloud.emitted)
