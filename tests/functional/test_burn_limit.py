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

"""What a project can use up with a small quota, and what limits it.

A project whose quota was one server burned every one-time-use device of a
host, four in 14 seconds: it booted a server, deleted it, and began anew. After
that nobody had any until they were cleaned.
"""

from nova import context as nova_context
from nova import objects

from nova_powervm.virt import burn_records
from tests.functional import base
from tests.functional import local_hosts
from tests.functional import one_time_use

#: Slots with further GPUs.
MORE = ('21010038', '21010039')
GPU = base.gpu_groups(1)
LIMIT = 2
_WORDS = f'the project may use up {LIMIT} one-time-use device(s) of a host'


class BurnLimitTestCase(
    local_hosts.LocalHostTestCase, one_time_use.OneTimeUseTestCase
):
    """A host with more one-time-use GPUs than a project may burn."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=3, group='scheduler')
        self.flags(shelved_offload_time=0, disk_allocation_ratio=10.0)
        self.start_local('host1', max_burns_per_hour=LIMIT)
        for index in MORE:
            self.plug_gpu(index)
        self._run_periodics()
        self.cards = set(self.slot_providers())
        self.assertGreater(len(self.cards), LIMIT + 1)

    def prepare(self):
        super().prepare()
        self.begin_anew()

    def begin_anew(self):
        """Release what was burned, and let an hour pass."""
        for index in self.burned():
            self.release(index)
        self.pass_time()
        self._run_periodics()

    def attack(self, rounds):
        """Boot and delete one server after the other; return the last ends."""
        ends = []
        for _ in range(rounds):
            server = self.boot(GPU, expected=None)
            ends.append(server)
            if server['status'] == 'ERROR':
                self.assertIsNone(self.lpar(server))
                self.assertEqual([], self.disks())
            self._delete_server(server)
        return ends

    def count_failed_builds(self):
        """Return what Nova's weigher goes by."""
        self._run_periodics()
        (node,) = objects.ComputeNodeList.get_all(
            nova_context.get_admin_context()
        )
        return int(node.stats.get('failed_builds', 0))


class BurnLimitTest(BurnLimitTestCase):
    """The limit stops a project, and nobody else."""

    def test_project_burns_no_more_than_its_limit(self):
        self.tell_stories()

    def story_attack_ends_at_the_limit_and_spares_others(self):
        before = self.count_failed_builds()

        ends = self.attack(LIMIT + 1)

        self.assertEqual(
            ['ACTIVE'] * LIMIT + ['ERROR'],
            [server['status'] for server in ends],
        )
        self.assert_told_why(ends[-1])
        self.assertEqual(LIMIT, len(self.burned()))
        self.assertIn(_WORDS, self.logged())
        # Whoever makes hosts fail takes them from others.
        self.assertEqual(before, self.count_failed_builds())
        (service,) = self.admin_api.get_services(binary='nova-compute')
        self.assertEqual('enabled', service['status'])
        self.boot({}, expected='ERROR', memory_mb=300)
        self.assertLess(before, self.count_failed_builds())

        other = self.boot_of_another()
        self.assertEqual(LIMIT + 1, len(self.burned()))
        self._delete_server(other)

    def assert_told_why(self, server):
        """Verify that an event of a build has the reason for its user."""
        self.assertIn('Exhausted all hosts', server['fault']['message'])
        (action,) = (
            action
            for action in self.admin_api.get_instance_actions(server['id'])
            if action['action'] == 'create'
        )
        events = self.admin_api.get_instance_action_details(
            server['id'], action['request_id']
        )['events']
        (event,) = (e for e in events if e['event'] == burn_records.REFUSED)
        self.assertEqual('Error', event['result'])
        self.assertIn(_WORDS, event['details'])

    def story_builds_at_the_same_time_stop_at_the_limit(self):
        started = [self.start_boot(GPU) for _ in self.cards]
        ends = [self._wait_until_built(server['id']) for server in started]

        self.assertEqual(
            LIMIT, sum(server['status'] == 'ACTIVE' for server in ends)
        )
        self.assertEqual(LIMIT, len(self.burned()))

    def story_resizes_and_unshelves_count(self):
        # In turn, one server burned a card with each step.
        server = self.boot(GPU, disk=1)
        self.resize(server, disk=1)
        self.confirm(server)
        self.resize(server, GPU, disk=1)
        self.confirm(server)
        self.assertEqual(2, len(self.burned()))

        flavor = self.make_flavor(GPU, disk=1)
        reason = self.refuse_move(server, 'resize', flavorRef=flavor)
        self.assertIn(_WORDS, reason)
        self.assertEqual('running', self.lpar(server).state)
        # Nova frees what a refused move has claimed in the next cycle.
        self._run_periodics()
        self.act(server, 'shelve')
        event = self.act(server, 'unshelve', 'Error')
        self.assertIn(_WORDS, event['details'])
        server = self.api.get_server(server['id'])
        self.assertEqual('SHELVED_OFFLOADED', server['status'])
        self.assertEqual('ERROR', self.attack(1)[0]['status'])
        self.assertEqual(2, len(self.burned()))

        self.pass_time()
        self.act(server, 'unshelve')
        self.assertEqual(3, len(self.burned()))
