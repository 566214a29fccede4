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

"""Fails each request of a snapshot, a shelve and an unshelve.

After each fault, or kill of nova-compute, Nova, the driver, the user and the
operator go on as the pages say. Then the server runs with what its guest has
written, its slot and its disks, which nobody else has mapped.

The whole sweep runs if ``NOVA_POWERVM_TEST_ALL_REQUESTS`` is set (with
``NOVA_POWERVM_TEST_KILLS``, that of kills). Otherwise a sample runs, which
``NOVA_POWERVM_TEST_SEED`` chooses.
"""

import collections
import random

from nova import context as nova_context
from nova import objects
from oslo_log import log as logging

from tests.functional import base
from tests.functional import local_hosts
from tests.functional import pools
from tests.soak import SEED
from tests.soak import request_faults

LOG = logging.getLogger(__name__)

#: What a user or operator has to do at most, one after another.
_REPAIRS = 5
_SHELVED = ('SHELVED', 'SHELVED_OFFLOADED')


class ImageSweepTestCase(
    request_faults.OneHostMixin, local_hosts.LocalHostTestCase
):
    """Runs operations on one server at a time, each with a fault."""

    def setUp(self):
        request_faults.keep_log_short(self)
        super().setUp()
        self.threads, self.kills = request_faults.prepare_kills(self)
        self.flags(shelved_offload_time=0)
        self.start()
        self._flavor = self.make_flavor(base.gpu_groups(1), disk=1)
        self._outcomes = collections.Counter()

    def start(self):
        """Start the host."""
        raise NotImplementedError

    # Cases

    def sweep(self, operation, sample=None):
        """Run an operation with a fault at each of its requests, or some."""
        self.run_case(operation)
        cases = self.sweep_cases(sample)
        for number, request, fault in cases:
            with self.subTest(f'{fault} at {number}, {request}'):
                self.run_case(operation, number, fault)
        LOG.warning('%d cases: %s', len(cases), dict(self._outcomes))

    def run_case(self, operation, number=0, fault=''):
        """Run an operation, with a fault at one of its requests."""
        self.prepare()
        server = self._boot_server({'flavorRef': self._flavor})
        self.write(server)
        getattr(self, f'_before_{operation}', lambda server: None)(server)
        self.control().clear_journal()
        try:
            self._inject(operation, server, number, fault)
            server = self._recover(server)
            self.assert_whole(server)
            self._delete_server(server)
            self.assert_nothing_left()
        except Exception:
            self._clear_by_force(server)
            raise

    def _clear_by_force(self, server):
        """Delete what a case has left that failed."""
        self.revive()
        self._act(server, 'os-resetState', state='error')
        self._delete_server(server)

    def _boot_server(self, options):
        body = self._build_server(
            image_uuid=self.image,
            flavor_id=options['flavorRef'],
            networks='none',
        )
        return self._wait_until_built(
            self.api.post_server({'server': body})['id']
        )

    def _before_snapshot(self, server):
        if self.stops_first:
            self.stop(server)

    def _before_unshelve(self, server):
        self.api.post_server_action(server['id'], {'shelve': None})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        self.await_rest(server)

    stops_first = False

    def _inject(self, operation, server, number, fault):
        self.disturb(number, fault)
        action = {
            'snapshot': {'createImage': {'name': 'copy'}},
            'shelve': {'shelve': None},
            'unshelve': {'unshelve': None},
        }[operation]
        self.api.post_server_action(server['id'], action)
        self.go_on(server)
        found = self.api.get_server(server['id'])
        self._outcomes[operation, found['status']] += 1

    def is_busy(self, server):
        """Return whether a task of a server goes on."""
        return bool(self._record(server).task_state)

    def _record(self, server):
        return objects.Instance.get_by_uuid(
            nova_context.get_admin_context(), server['id']
        )

    # What the user and the operator do

    def _recover(self, server):
        """Repair a server as the pages say, until it runs."""
        shelved = self._record(server).system_metadata.get('shelved_image_id')
        for _ in range(_REPAIRS):
            record = self._record(server)
            if record.task_state:
                self._act(server, 'os-resetState', state='active')
            found = self.api.get_server(server['id'])
            status = found['status']
            lpar = self.lpar(server)
            if status == 'ACTIVE' and lpar and lpar.state == 'running':
                return found
            if status == 'SHUTOFF':
                self._act(server, 'os-start')
            elif status == 'SHELVED':
                self._act(server, 'shelveOffload')
            elif status == 'SHELVED_OFFLOADED':
                self._act(server, 'unshelve')
            elif shelved and not self._has_disk(server):
                self._act(server, 'rebuild', imageRef=shelved)
            else:
                self._act(server, 'reboot', type='HARD')
        return self.api.get_server(server['id'])

    def _has_disk(self, server):
        return bool(self.lpar(server)) and any(
            mapping['client'] == self._record(server).name
            for mapping in self.vios()['scsi_mappings']
        )

    def _act(self, server, action, **options):
        self.admin_api.post_server_action(
            server['id'], {action: options or None}
        )
        self.await_rest(server)

    # Checks

    def assert_whole(self, server):
        """Verify a server that runs, and what Placement has of it."""
        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        self.assertEqual('running', self.lpar(server).state)
        self.assert_returned(server)
        self.assertEqual(pools.WRITTEN, self.written(server))
        slots = self.owned(server)
        self.assertEqual(1, len(slots))
        self.assertEqual(slots, self.slots_of(server['id']))
        for image_id, image in self.copies().items():
            if image['status'] == 'active':
                self.assertEqual(pools.WRITTEN, self.uploads.written[image_id])

    def assert_nothing_left(self):
        """Verify that a deleted server has left nothing on the host."""
        self.assertEqual([], self.vios()['scsi_mappings'])
        self.assertEqual([], self.stored_disks())
        self.assertEqual(
            [],
            [
                found['name']
                for found in self.host_state()['partitions']
                if found['name'].startswith('instance-')
            ],
        )


class PoolSweep(ImageSweepTestCase):
    """The disks are in a pool."""

    def start(self):
        self.start_local('host1', pools.world(), disk_driver='ssp')

    def prepare(self):
        """Let no images of earlier servers fill the pool."""
        super().prepare()
        disks = self.computes['host1'].manager.driver.services.host.disks
        for _ in range(2):
            disks.pool.clean_cache(0)

    def stored_disks(self):
        """Return the names of the disks of servers."""
        return [name for name in self.units() if name.startswith('nova')]


class GroupSweep(ImageSweepTestCase):
    """The disks are in the volume group of a Virtual I/O Server."""

    stops_first = True

    def start(self):
        self.start_local('host1')

    def stored_disks(self):
        """Return the names of the disks of servers."""
        return [disk['name'] for disk in self.disks()]


class OwnGroupSweep(GroupSweep):
    """The management partition is the Virtual I/O Server."""

    stops_first = False

    def start(self):
        self.start_local('host1', local_hosts.server_world())


#: The operations that differ from each other.
_SWEEPS = (
    (PoolSweep, 'snapshot'),
    (GroupSweep, 'snapshot'),
    (OwnGroupSweep, 'snapshot'),
    (PoolSweep, 'shelve'),
    (GroupSweep, 'shelve'),
    (PoolSweep, 'unshelve'),
    (GroupSweep, 'unshelve'),
)

if request_faults.ALL:

    class WholePoolTest(PoolSweep):
        def test_fault_at_any_request_of_snapshot(self):
            self.sweep('snapshot')

        def test_fault_at_any_request_of_shelve(self):
            self.sweep('shelve')

        def test_fault_at_any_request_of_unshelve(self):
            self.sweep('unshelve')

    class WholeGroupTest(GroupSweep):
        def test_fault_at_any_request_of_snapshot(self):
            self.sweep('snapshot')

        def test_fault_at_any_request_of_shelve(self):
            self.sweep('shelve')

        def test_fault_at_any_request_of_unshelve(self):
            self.sweep('unshelve')

    class WholeOwnGroupTest(OwnGroupSweep):
        def test_fault_at_any_request_of_snapshot(self):
            self.sweep('snapshot')

else:
    _CHANCE = random.Random(SEED)  # noqa: S311
    _KIND, _OPERATION = _CHANCE.choice(_SWEEPS)

    class SampleTest(_KIND):
        def test_fault_at_any_request_leaves_server_whole(self):
            self.sweep(_OPERATION, _CHANCE.sample)
