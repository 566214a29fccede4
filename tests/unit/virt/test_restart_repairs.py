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

"""What a service does when it starts for servers that a killed one has left.

Also how often it waits for a host that hangs."""

import contextlib
import pathlib
import re
import threading
import types
import unittest
import unittest.mock
from unittest import mock

import ddt
import fixtures
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from oslo_utils import uuidutils

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import one_time_use
from nova_powervm.devices import plan
from nova_powervm.virt import burn_records
from nova_powervm.virt import host_cycle
from nova_powervm.virt import instance_records
from nova_powervm.virt import restart_repairs
from tests.unit.virt import base
from tests.unit.virt import test_instance_records

READ = 30


class StartupTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.now = 0
        self.asked = 0
        self.answers = False
        self.startup = restart_repairs.Startup(lambda: self.now)

    def ask(self, times=1):
        """Ask; give how often there was no answer."""
        failed = 0
        for _ in range(times):
            try:
                with self.startup.limit_waits():
                    self.asked += 1
                    if not self.answers:
                        self.now += READ
                        raise exception.RestSilent(
                            server='it', reason='no answer'
                        )
            except exception.RestSilent as error:
                self.assertIn('no answer', str(error))
                failed += 1
        return failed

    def test_silent_host_is_asked_twice_for_200_instances(self):
        self.assertEqual(200, self.ask(200))
        self.assertEqual(2, self.asked)
        self.assertEqual(2 * READ, self.now)

    def test_single_silence_does_not_stop_further_requests(self):
        for _ in range(2):
            self.answers = False
            self.assertEqual(1, self.ask())
            self.answers = True
            self.assertEqual(0, self.ask(5))

    def test_silent_host_is_asked_again_after_pause(self):
        self.ask(3)
        self.now += restart_repairs.PAUSE_SECONDS
        self.ask(3)
        self.assertEqual(3, self.asked)
        self.now += restart_repairs.PAUSE_SECONDS
        self.answers = True
        self.assertEqual(0, self.ask(3))

    def test_silent_host_is_always_asked_after_startup(self):
        self.assertTrue(self.startup.end())
        self.ask(5)
        self.assertEqual(5, self.asked)
        self.assertFalse(self.startup.end())


@ddt.ddt
class InterruptedEvacuationsTest(test_instance_records.RecordsTestCase):
    """A server of host1 was being evacuated to host2."""

    def give_up(
        self,
        status='pre-migrating',
        task='rebuild_spawning',
        newer=None,
        way=('host1', 'host2'),
        **at,
    ):
        """Start host2; return the LPARs to remove, server and status.

        :param newer: Where the server is evacuated to meanwhile.
        :param way: From where to where it was being evacuated.
        """
        source, destination = way
        evacuation = {
            'source_compute': source,
            'migration_type': 'evacuation',
        }
        self.move(status, task=task, dest_compute=destination, **evacuation)
        if newer:
            objects.Migration(
                self.context,
                instance_uuid=self.uuid,
                status='pre-migrating',
                dest_compute=newer,
                **evacuation,
            ).create()
        record = self.record()
        for name, value in at.items():
            setattr(record, name, value)
        record.save()
        client = mock.Mock()
        leftovers = self.start(client)
        removal = client.remove_provider_tree_from_instance_allocation
        self.assertEqual(len(leftovers), removal.call_count)
        return leftovers, self.record(), self.status()

    def start(self, client=None):
        leftovers = []
        restart_repairs.give_up_evacuations(
            types.SimpleNamespace(name='host2', uuid='node2'),
            client,
            leftovers.append,
        )
        return leftovers

    def status(self):
        migrations = objects.MigrationList.get_by_filters(
            self.context, {'instance_uuid': self.uuid}
        )
        return min(migrations, key=lambda made: made.id).status

    def record(self):
        return objects.Instance.get_by_uuid(self.context, self.uuid)

    # Nova calls it completed when the old host starts meanwhile.
    @ddt.data('pre-migrating', 'completed')
    def test_interrupted_evacuation_is_given_up(self, status):
        leftovers, instance, found = self.give_up(status)
        self.assertEqual([self.uuid], leftovers)
        self.assertEqual(
            ('host1', 'error', None),
            (instance.host, instance.vm_state, instance.task_state),
        )
        self.assertEqual('failed', found)

    @ddt.data(
        {'host': 'host2'},
        {'status': 'completed', 'task': None},
        {'status': 'done'},
        {'status': 'failed'},
        {'status': 'completed', 'newer': 'host3'},
        {'status': 'completed', 'host': 'host3'},
        {'way': ('host2', 'host3'), 'host': 'host2'},
    )
    def test_lpar_of_other_evacuation_stays(self, changes):
        leftovers, instance, _ = self.give_up(**changes)
        self.assertEqual([], leftovers)
        self.assertNotEqual('error', instance.vm_state)

    def test_lpar_of_server_that_was_deleted_is_removed(self):
        self.move(
            'pre-migrating',
            task='rebuild_spawning',
            source_compute='host1',
            dest_compute='host2',
            migration_type='evacuation',
        )
        self.record().destroy()
        self.assertEqual([self.uuid], self.start())

    def test_newer_evacuation_goes_on(self):
        leftovers, instance, found = self.give_up(newer='host3')
        self.assertEqual(([self.uuid], 'failed'), (leftovers, found))
        self.assertEqual('rebuild_spawning', instance.task_state)

    def test_evacuation_of_server_that_came_back_is_completed(self):
        for host, expected in (('host1', 'completed'), ('host3', 'done')):
            self.give_up('done', host=host)
            restart_repairs.complete_returned('host1')
            self.assertEqual(expected, self.status())
        # A live migration has brought it, and Nova does not know.
        self.mark('host1')
        restart_repairs.complete_returned('host1')
        self.assertEqual('completed', self.status())


class TakeHomeTest(test_instance_records.RecordsTestCase):
    """A migration from host1 to host2 has failed before it began there."""

    def setUp(self):
        super().setUp()
        self.nodes = {}
        for host in ('host1', 'host2'):
            node = objects.ComputeNode(
                self.context,
                host=host,
                hypervisor_hostname=host,
                uuid=uuidutils.generate_uuid(),
                service_id=1,
                vcpus=1,
                memory_mb=1,
                local_gb=1,
                vcpus_used=0,
                memory_mb_used=0,
                local_gb_used=0,
                hypervisor_type='powervm',
                hypervisor_version=1,
                cpu_info='',
            )
            node.create()
            self.nodes[host] = node

    def host_after_start(self, *allocated, **changes):
        """Start host1; return the host on record."""
        self.move(
            'error',
            source_compute='host1',
            source_node='host1',
            dest_compute='host2',
        )
        record = self.record()
        record.vm_state = 'error'
        record.host, record.compute_id = 'host2', self.nodes['host2'].id
        for name, value in changes.items():
            setattr(record, name, value)
        record.save()
        held = {self.nodes[host].uuid: {} for host in allocated}
        restart_repairs.take_home(
            types.SimpleNamespace(name='host1', uuid=self.nodes['host1'].uuid),
            mock.Mock(allocated_to=lambda _: held),
        )
        return self.record().host

    def record(self):
        return objects.Instance.get_by_uuid(self.context, self.uuid)

    def test_server_is_where_its_allocations_are(self):
        self.assertEqual('host1', self.host_after_start('host1'))
        # A hard reboot in the middle of the move has dropped its context.
        found = self.host_after_start('host1', migration_context=None)
        self.assertEqual('host1', found)
        for allocated in ((), ('host2',), ('host1', 'host2')):
            self.assertEqual('host2', self.host_after_start(*allocated))

    def test_server_that_may_have_arrived_is_left_there(self):
        for changes in ({'vm_state': 'active'}, {'task_state': 'rebooting'}):
            found = self.host_after_start('host1', **changes)
            self.assertEqual('host2', found)


NOON = 1_750_000_000.0
_COUNT = re.compile(r'burned_devices{host="host1",project="(.*?)"} (\d+)')


def burned(uuid):
    """Return the entry of a burned device."""
    return plan.Entry(
        action=plan.Action.PUBLISH,
        drc_index=1,
        name=uuid,
        uuid=uuid,
        inventory={'CUSTOM_GPU': {'total': 1, 'reserved': 1}},
        traits=frozenset({names.ONE_TIME_USE_TRAIT}),
    )


class CycleMetricsTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'powervm.prom'
        )
        self.asked, self.written_at = [], {}
        self.project = 'one'
        self.stub_out(f'{burn_records.__name__}.read_holders', self.read)
        self.metrics = host_cycle.CycleMetrics(
            str(self.path), 'host1', self.written_at.get
        )

    def read(self, host, providers):
        """Answer as Nova's records do."""
        self.asked.append(set(providers))
        if self.project is None:
            raise OSError('the conductor does not answer')
        return {
            uuid: one_time_use.Holder(
                'instance', self.project, frozenset({uuid}), NOON, until=NOON
            )
            for uuid in providers
        }

    def publish(self, *uuids):
        """Publish burned devices, as for a build."""
        self.metrics.write(plan.Plan(entries=tuple(map(burned, uuids))))

    def cycle(self, *uuids):
        """Run a cycle; return the numbers of burned devices by project."""
        self.metrics.expect_update(0)
        self.publish(*uuids)
        return {
            project: int(number)
            for project, number in _COUNT.findall(self.path.read_text())
        }

    def test_conductor_is_asked_once_about_each_burn(self):
        """Each host had 2000 instances read in each cycle."""
        self.assertEqual({'unknown': 1}, self.cycle('p1'))
        for _ in range(3):
            self.assertEqual({'one': 1}, self.cycle('p1'))
        self.cycle('p1', 'p2')
        self.project = 'two'
        self.assertEqual({'one': 1, 'two': 1}, self.cycle('p1', 'p2'))
        self.assertEqual({'two': 1}, self.cycle('p2'))
        self.assertEqual([{'p1'}, {'p2'}], self.asked)

    def test_device_that_is_burned_anew_is_asked_about_again(self):
        self.cycle('p1')
        self.cycle('p1')
        self.project = 'two'

        # Nova publishes before it builds.
        self.publish()

        self.cycle('p1')
        self.assertEqual({'two': 1}, self.cycle('p1'))

    def test_question_that_failed_is_asked_again(self):
        self.project = None
        self.cycle('p1')
        self.assertEqual({'unknown': 1}, self.cycle('p1'))
        self.project = 'one'
        self.assertEqual({'one': 1}, self.cycle('p1'))

    def test_device_that_an_operator_reserved_is_nobodys(self):
        self.written_at['p1'] = NOON + 3600
        self.cycle('p1')
        self.assertEqual({'unknown': 1}, self.cycle('p1'))


objects.register_all()

UUID = '4b1c2d3e-0000-4000-8000-000000000001'


def instance(host='host1', migration=None):
    """Return what Nova hands over, or its record of it."""
    context = migration and types.SimpleNamespace(migration_id=migration)
    return types.SimpleNamespace(
        uuid=UUID, host=host, migration_context=context
    )


class UnchangedTest(unittest.TestCase):
    def setUp(self):
        self.record = instance()
        self.enterContext(
            unittest.mock.patch.object(
                objects.Instance,
                'get_by_uuid',
                side_effect=lambda *_, **__: self.record,
            )
        )

    def test_instance_on_another_host_is_refused(self):
        self.record = instance(host='host2')
        with (
            self.assertRaisesRegex(exception.InstanceChanged, 'host2'),
            instance_records.unchanged(instance()),
        ):
            self.fail('the step has begun')

    def test_instance_in_another_move_is_refused(self):
        for known, present in ((7, 8), (7, None), (None, 8)):
            self.record = instance(migration=present)
            with (
                self.assertRaises(exception.InstanceChanged),
                instance_records.unchanged(instance(migration=known)),
            ):
                self.fail('the step has begun')

    def test_instance_that_is_being_deleted_is_not_rebuilt(self):
        for task in (task_states.REBUILD_SPAWNING, task_states.DELETING):
            self.record.task_state, begun = task, []
            with (
                contextlib.suppress(nova_exception.InstanceNotFound),
                instance_records.undeleted(instance()),
            ):
                begun.append(task)
            self.assertEqual(task != task_states.DELETING, bool(begun))

    def test_second_step_waits_and_looks_at_the_record_then(self):
        inside, outcome = threading.Event(), []

        def take_second_step():
            inside.wait(60)
            try:
                with instance_records.unchanged(instance()):
                    outcome.append('begun')
            except exception.InstanceChanged:
                outcome.append('refused')

        second = threading.Thread(target=take_second_step)
        second.start()
        with instance_records.unchanged(instance()):
            inside.set()
            second.join(0.2)
            self.assertEqual([], outcome)
            self.record = instance(host='host2')
        second.join(60)
        self.assertEqual(['refused'], outcome)
