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

import fixtures
from nova import context as nova_context
from nova import objects

from nova_powervm.ops import apply
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

    def attack(self, rounds, actions=()):
        """Boot and delete one server after the other; return the last ends.

        :param rounds: How often.
        :param actions: What is done to each that runs.
        """
        ends = []
        for _ in range(rounds):
            server = self.boot(GPU, expected=None)
            ends.append(server)
            if server['status'] == 'ERROR':
                self.assertIsNone(self.lpar(server))
                self.assertEqual([], self.disks())
            else:
                for action in actions:
                    self.api.post_server_action(server['id'], {action: None})
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
        # Two hundred locks of a server hid that it was built: three cards
        # were burned with a limit of two, and so on.
        self.useFixture(fixtures.MockPatchObject(burn_records, '_PAGE', 3))
        # A server without a card does not count.
        self._delete_server(self.boot({}))

        ends = self.attack(LIMIT + 2, actions=('lock', 'unlock') * 2)

        self.assertEqual(
            ['ACTIVE'] * LIMIT + ['ERROR'] * 2,
            [server['status'] for server in ends],
        )
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
        # Refusals of the past hour do not count.
        self.pass_time()
        self.assertEqual('ACTIVE', self.attack(1)[0]['status'])
        self.assertEqual(LIMIT + 2, len(self.burned()))
        self._delete_server(other)

    def story_refused_user_is_told_why(self):
        self.attack(LIMIT)

        server = self.boot(GPU, expected='ERROR')

        self.assertIn('Exhausted all hosts', server['fault']['message'])
        (action,) = self.admin_api.get_instance_actions(server['id'])
        events = self.admin_api.get_instance_action_details(
            server['id'], action['request_id']
        )['events']
        (event,) = (e for e in events if e['event'] == burn_records.REFUSED)
        self.assertEqual('Error', event['result'])
        self.assertIn(_WORDS, event['details'])
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

        # With a single attempt, the server itself has the reason.
        self.flags(max_attempts=1, group='scheduler')
        before = self.count_failed_builds()
        server = self.boot(GPU, expected='ERROR')
        self.assertIn(_WORDS, server['fault']['message'])
        self.assertEqual(before, self.count_failed_builds())
        # Nova forgets them, until the server is deleted.
        self.assertTrue(self._get_allocations_by_server_uuid(server['id']))
        self._delete_server(server)
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def story_builds_at_the_same_time_stop_at_the_limit(self):
        started = [self.start_boot(GPU) for _ in self.cards]
        ends = [self._wait_until_built(server['id']) for server in started]

        self.assertEqual(
            LIMIT, sum(server['status'] == 'ACTIVE' for server in ends)
        )
        self.assertEqual(LIMIT, len(self.burned()))

    def story_server_that_is_deleted_in_its_build_counts(self):
        driver = self.computes['host1'].manager.driver
        carry_out = apply.Execution.carry_out

        def carry_out_and_fail(planned):
            carry_out(planned)
            raise OSError('the user has deleted the server')

        with fixtures.MockPatchObject(
            apply.Execution, 'carry_out', carry_out_and_fail
        ):
            for number in range(LIMIT):
                server = self.boot(GPU, expected='ERROR')
                self.assertEqual(number + 1, len(self.burned()))
                driver.destroy(
                    nova_context.get_admin_context(),
                    self.deleted(server),
                    [],
                    {},
                )
        self._run_periodics()

        self.assertEqual('ERROR', self.attack(1)[0]['status'])
        # A build that was refused has burned nothing, whoever did it later.
        self.assertEqual('ACTIVE', self.boot_of_another()['status'])
        self.pass_time()
        self.assertEqual('ACTIVE', self.attack(1)[0]['status'])

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

    def story_server_that_gave_its_card_up_counts(self):
        # Nova's record of it names no card.
        for _ in range(LIMIT):
            server = self.boot(GPU, disk=1)
            self.resize(server, disk=1)
            self._delete_server(server)
        self.assertEqual(LIMIT, len(self.burned()))

        self.assertEqual('ERROR', self.attack(1)[0]['status'])

    def story_unshelve_counts_only_if_it_burned_a_card(self):
        servers = [self.boot(GPU, disk=1) for _ in range(LIMIT)]
        for server in servers:
            self.act(server, 'shelve')
        self.begin_anew()
        with fixtures.MockPatchObject(
            apply.Execution,
            'carry_out',
            side_effect=OSError('the host fails before the burn'),
        ):
            for server in servers:
                self.act(server, 'unshelve', 'Error')
        self.assertEqual(set(), self.burned())
        self.assertEqual('ACTIVE', self.attack(1)[0]['status'])
        self.begin_anew()
        carry_out = apply.Execution.carry_out

        def carry_out_and_delete(planned):
            carry_out(planned)
            self.api.delete_server(server['id'])

        # Nova's action had failed, and the card was burned.
        with fixtures.MockPatchObject(
            apply.Execution, 'carry_out', carry_out_and_delete
        ):
            for server in servers:
                self.api.post_server_action(server['id'], {'unshelve': None})
                self._wait_until_deleted(server)
        self.assertEqual(LIMIT, len(self.burned()))

        self.assertEqual('ERROR', self.attack(1)[0]['status'])
        self.assertEqual(LIMIT, len(self.burned()))

    def story_rebuild_burns_nothing_and_is_not_refused(self):
        server = self.boot(GPU)
        self.pass_time()
        image = self.create_image(b'another image')
        self._rebuild_server(server, image)
        for _ in range(LIMIT):
            self.boot(GPU)
        self.assertEqual(LIMIT + 1, len(self.burned()))

        self._rebuild_server(server, image)


class RescheduledBurnLimitTest(one_time_use.OneTimeUseTestCase):
    """Two hosts, the preferred one of which refuses first.

    Nova's action then is that of an error, also if the other host builds. So
    a project that had used up its limit at one host had none at the other.
    """

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=3, group='scheduler')
        for host in ('host1', 'host2'):
            self.start_host(host, max_burns_per_hour=1)
        # Nova prefers the host with more free memory.
        self.boot({}, request={'host': 'host2'}, memory_mb=2048)
        self._run_periodics()

    def test_build_that_one_host_refused_counts_at_the_next(self):
        self._delete_server(self.boot(GPU, request={'host': 'host1'}))
        self._delete_server(self.boot(GPU))
        self.assertEqual(1, len(self.burned('host2')))
        self.assertEqual(1, len(self.burned('host1')))

        self.boot(GPU, expected='ERROR')

        self.assertEqual(1, len(self.burned('host2')))
