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

"""LPARs that are stale, and those that stopped."""

import dataclasses
import unittest
from unittest import mock

from nova_powervm.devices import host_values
from nova_powervm.devices import slot_providers
from nova_powervm.ops import host
from nova_powervm.ops import watch
from tests.unit.devices import values

ELSEWHERE = slot_providers.StaleLpar('its uuid', 'host2')


class Host:
    """A host with LPARs, and Nova's records of their instances."""

    def __init__(self, *lpars):
        self.lpars = {lpar.uuid: lpar for lpar in lpars}
        self.elsewhere = set()
        self.owners = ()
        self.failing = False

    def names(self):
        return {uuid: lpar.name for uuid, lpar in self.lpars.items()}

    def find(self, uuid):
        if self.failing:
            raise ValueError('no answer')
        return self.lpars.get(uuid)

    def stale_lpars(self, lpar_uuids, host):
        return {
            uuid: ELSEWHERE
            for uuid in lpar_uuids
            if uuid in self.elsewhere or uuid in self.owners
        }


class StaleLparsTest(unittest.TestCase):
    def setUp(self):
        self.host = Host(values.lpar())
        self.now = 50
        self.watch = watch.StaleLpars(
            self.host, self.host, 'host1', lambda: self.now
        )

    def report(self, *owners):
        """Report with stale LPARs that own slots."""
        self.host.owners = owners
        return self.watch.report(
            host.Reading(
                values.managed_system(),
                host_values.DiskCapacity(),
                stale_lpars=dict.fromkeys(owners, ELSEWHERE),
            )
        )

    def lines(self, *owners):
        with self.assertLogs(watch.LOG.logger, 'ERROR') as logged:
            self.report(*owners)
        return logged.output

    def assert_silent(self, *owners):
        with self.assertNoLogs(watch.LOG.logger, 'WARNING'):
            self.report(*owners)

    def test_error_names_lpar_instance_host_and_slots(self):
        (line,) = self.lines(values.LPAR)

        for words in (
            f'LPAR instance-00000001 ({values.LPAR}, not activated)',
            'instance its uuid is on host host2',
            'slots (21010020, 21010021)',
            '`pvmctl lpar delete`',
        ):
            self.assertIn(words, line)

    def test_lpar_of_unsettled_live_migration_is_not_to_be_removed(self):
        doubtful = dataclasses.replace(ELSEWHERE, is_doubtful=True)
        with mock.patch(f'{__name__}.ELSEWHERE', doubtful):
            (line,) = self.lines(values.LPAR)
        self.assertIn('do not remove it', line)
        self.assertNotIn('pvmctl', line)

    def test_error_is_logged_once_while_lpar_is_there(self):
        self.lines(values.LPAR)
        self.assert_silent(values.LPAR)
        self.assert_silent()
        self.lines(values.LPAR)

    def test_first_report_finds_lpars_without_slots(self):
        self.host.elsewhere = {values.LPAR}
        self.lines()
        self.assert_silent()

    def test_search_for_lpars_without_slots_is_repeated_every_ten_minutes(
        self,
    ):
        self.assert_silent()
        self.host.elsewhere = {values.LPAR}
        self.now += watch.SEARCH_SECONDS - 1
        self.assert_silent()
        self.now += 1
        self.lines()
        self.assert_silent()

    def test_lpar_that_a_move_has_deleted_meanwhile_is_not_logged(self):
        self.assert_silent(values.OTHER_LPAR)

    def test_lpar_that_its_instance_came_back_to_is_not_logged(self):
        self.now += watch.SEARCH_SECONDS
        self.host.elsewhere = {values.LPAR}
        self.host.failing = True
        self.assertRaises(ValueError, self.report)
        self.host.failing, self.host.elsewhere = False, set()
        self.assert_silent()

    def test_report_that_failed_is_repeated(self):
        self.host.elsewhere = {values.LPAR}
        self.host.failing = True
        self.assertRaises(ValueError, self.report)
        self.host.failing = False
        self.lines()


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
