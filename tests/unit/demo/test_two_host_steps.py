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


import json
import pathlib
import tempfile
import unittest
from unittest import mock

from demo import guest
from demo import operator_commands
from demo import step_context
from demo import steps
from tests.unit.demo import two_host_cloud


def _hash(_algorithm, written, _size):
    return guest.sha256(written)


class TwoHostStepsTest(unittest.TestCase):
    """Which step notices what is wrong on two hosts."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.cloud = two_host_cloud.TwoHostCloud(pathlib.Path(directory.name))
        # What is wrong here remains wrong.
        patience = mock.patch.object(
            step_context,
            'read_until',
            lambda _expected, read, seconds=0: read(),
        )
        patience.start()
        self.addCleanup(patience.stop)
        self.enterContext(
            mock.patch.object(
                operator_commands, 'run_openstack', self.cloud.run_openstack
            )
        )
        # The disks of this cloud end where the guest has not written.
        self.enterContext(mock.patch.object(guest, 'hash_of_disk', _hash))

    def run_steps(self, *faults):
        self.cloud.faults.update(faults)
        return list(steps.run_steps(self.cloud.context()))

    def assert_wrong(self, title, *faults):
        *_, last = self.run_steps(*faults)
        self.assertEqual((title, False), (last.step, last.ok))

    def test_whole_cloud_passes_all_steps(self):
        done = self.run_steps()

        wrong = [(s.step, s.expected, s.observed) for s in done if not s.ok]
        self.assertEqual([], wrong)
        self.assertEqual(len(steps.TWO_HOST_STEPS), len(done))

    def test_results_of_steps_do_not_change_later(self):
        at_once, done = [], []
        for step in steps.run_steps(self.cloud.context()):
            at_once.append(json.dumps(step.document()))
            done.append(step)

        self.assertEqual(
            at_once, [json.dumps(step.document()) for step in done]
        )

    def test_server_on_host_without_its_trait_is_noticed(self):
        self.assert_wrong(
            'A server with a trait that only one host has', 'trait is ignored'
        )

    def test_write_to_disks_of_others_is_noticed(self):
        self.assert_wrong('A guest writes to its disk', 'write reaches clones')

    def test_image_without_what_the_guest_wrote_is_noticed(self):
        self.assert_wrong(
            'Create an image of the server', 'image lacks what the guest wrote'
        )

    def test_disk_that_stays_mapped_after_its_image_is_noticed(self):
        self.assert_wrong('Create an image of the server', 'disk stays mapped')

    def test_rescue_that_starts_the_own_system_is_noticed(self):
        self.assert_wrong('Rescue and unrescue', 'rescue system is not first')

    def test_rescue_that_writes_to_the_own_disk_is_noticed(self):
        self.assert_wrong(
            'Rescue and unrescue', 'rescue system writes to the disk'
        )

    def test_rescue_that_does_not_end_is_noticed(self):
        self.assert_wrong('Rescue and unrescue', 'rescue system stays first')

    def test_shelved_server_that_keeps_its_slots_is_noticed(self):
        self.assert_wrong(
            'Shelve and unshelve on the other host', 'slots stay while shelved'
        )

    def test_server_unshelved_on_its_old_host_is_noticed(self):
        self.assert_wrong(
            'Shelve and unshelve on the other host',
            'unshelved on the same host',
        )

    def test_unshelved_disk_with_old_bytes_is_noticed(self):
        self.assert_wrong(
            'Shelve and unshelve on the other host', 'old bytes are unshelved'
        )

    def test_migration_that_removes_the_source_at_once_is_noticed(self):
        self.assert_wrong(
            'Migration of its server to the second host', 'source goes at once'
        )

    def test_confirmation_that_leaves_the_source_is_noticed(self):
        self.assert_wrong('Confirmation of the migration', 'slots stay')

    def test_disk_that_grows_before_the_confirmation_is_noticed(self):
        self.assert_wrong(
            'Resize to two GPUs, on the first host', 'disk grows at once'
        )

    def test_revert_that_keeps_the_new_sizes_is_noticed(self):
        self.assert_wrong('Revert of the resize', 'sizes stay')

    def test_revert_that_loses_what_the_guest_wrote_is_noticed(self):
        self.assert_wrong('Revert of the resize', 'old bytes return')

    def test_failed_host_that_answers_is_noticed(self):
        self.assert_wrong('The first host fails', 'plug is stuck')

    def test_evacuation_to_device_of_another_server_is_noticed(self):
        self.assert_wrong('Evacuation of its server', 'device is shared')

    def test_evacuation_with_another_address_is_noticed(self):
        self.assert_wrong('Evacuation of its server', 'address is lost')

    def test_returning_host_that_removes_the_disk_is_noticed(self):
        self.assert_wrong('The first host returns', 'disk is removed')

    def test_remaining_lpar_is_noticed(self):
        self.assert_wrong('Deletion releases everything', 'LPAR is left')
