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

"""Builds that are admitted at the same time."""

import concurrent.futures
import datetime
import threading
from types import SimpleNamespace
from unittest import mock

import ddt
import fixtures
from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.devices import one_time_use
from nova_powervm.ops import claiming
from nova_powervm.virt import burn_limit
from nova_powervm.virt import burn_records
from nova_powervm.virt import errors
from tests.unit.virt import base

WINDOW = datetime.timedelta(hours=1)
SLOTS = [SimpleNamespace(burns=('device',))]


def instance(project, uuid=uuids.instance):
    """Return an instance that is built for the first time."""
    return objects.Instance(
        uuid=uuid, project_id=project, launched_at=None, task_state='spawning'
    )


@ddt.ddt
class BurnLimitTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.limit = burn_limit.BurnLimit(
            9, SimpleNamespace(published=claiming.PublishedSlots()), 'host1'
        )
        self.stub_out(
            f'{burn_records.__name__}.moved_since', lambda *_: frozenset()
        )
        self.pool = self.useFixture(Pool()).pool

    def admit(self, project, uuid=uuids.instance):
        """Build an instance."""
        with self.limit.admit(None, instance(project, uuid), SLOTS):
            return True

    @ddt.named_data(
        ['host without a limit', None, 'spawning'],
        ['server that has its cards', 0, 'rebuilding'],
    )
    def test_no_record_is_read_for_a(self, limit, task):
        """A rebuild and an evacuation cannot be refused."""
        self.stub_out(f'{burn_records.__name__}.changed_since', None)
        self.limit._limit = limit
        built = instance('one')
        built.task_state = task
        with self.limit.admit(None, built, SLOTS):
            pass

    def test_project_does_not_wait_for_what_is_read_about_another(self):
        """One with thousands of servers delayed the builds of all others."""
        reading, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def read(since, project_id):
            if project_id == 'busy':
                reading.set()
                go_on.wait(60)
            return iter(())

        self.stub_out(f'{burn_records.__name__}.changed_since', read)
        busy = self.pool.submit(self.admit, 'busy')
        self.assertTrue(reading.wait(60))

        other = self.pool.submit(self.admit, 'other', uuids.other)

        self.assertTrue(other.result(10))
        # Those of one project would count the same records.
        another = self.pool.submit(self.admit, 'busy', uuids.another)
        with self.assertRaises(concurrent.futures.TimeoutError):
            another.result(0.2)
        go_on.set()
        self.assertTrue(busy.result(60) and another.result(60))

    def test_build_can_fail_while_another_is_admitted(self):
        """The other build failed, too, or the failed one counted on."""
        self.stub_out(
            f'{burn_records.__name__}.changed_since', lambda *_, **__: iter(())
        )
        failing = self.limit.admit(None, instance('one'), SLOTS)
        failing.__enter__()
        failures = []

        class Window:
            def __rsub__(self, now):
                if threading.current_thread() in asking:
                    failures.append(pool.submit(fail))
                    concurrent.futures.wait(failures, timeout=0.5)
                return now - datetime.timedelta(hours=1)

        def fail():
            error = OSError('the build has failed')
            return not failing.__exit__(OSError, error, None)

        pool, asking = self.pool, set()
        note = self.limit._note

        def note_slowly(*args):
            asking.add(threading.current_thread())
            note(*args)

        self.stub_out(f'{burn_limit.__name__}._WINDOW', Window())
        self.limit._note = note_slowly

        self.admit('two', uuids.other)

        self.assertTrue(failures[0].result(60))
        self.assertEqual({uuids.other}, set(self.limit._admitted))


class CountTest(base.NoDBTestCase):
    """What counts, by Nova's records."""

    NOW = datetime.datetime.now(datetime.UTC)
    CARDS = frozenset(f'card{number}' for number in range(4))

    def setUp(self):
        super().setUp()
        self.published = claiming.PublishedSlots(burned=self.CARDS)
        self.limit = burn_limit.BurnLimit(
            2, SimpleNamespace(published=self.published), 'host1'
        )
        self.records, self.local = [], []
        self.moved = frozenset()
        self.actions = {}
        self.stub_out(
            f'{burn_records.__name__}.changed_since',
            lambda since, **filters: iter(
                self.records if 'project_id' in filters else self.local
            ),
        )
        self.stub_out(
            f'{burn_records.__name__}.moved_since', lambda *_: self.moved
        )
        self.stub_out(
            f'{burn_records.__name__}.count_device_actions',
            lambda since, uuid, *, burned: self.actions.get(uuid, 1),
        )
        self.stub_out(f'{errors.__name__}.record_failure', self.record)
        self.events = []

    def record(self, context, built, event, error):
        self.events.append((built.uuid, event, str(error)))

    def holder(self, name, *cards, has_run=True, age=1):
        """Return the record of an instance."""
        return one_time_use.Holder(
            instance_uuid=getattr(uuids, name),
            project='one',
            providers=frozenset(cards),
            since=self.NOW.timestamp() - age,
            has_run=has_run,
        )

    def is_refused(self):
        """Return whether a build is refused."""
        try:
            with self.limit.admit(None, instance('one', uuids.new), SLOTS):
                pass
        except exception.BurnLimitReached:
            return True
        self.limit._forget(uuids.new)
        return False

    def test_servers_count_with_what_was_done_to_them(self):
        self.records = [self.holder('a', 'card0'), self.holder('plain')]
        self.assertFalse(self.is_refused())
        self.assertEqual([], self.events)

        self.actions[uuids.a] = 2
        self.assertTrue(self.is_refused())
        ((uuid, event, reason),) = self.events
        self.assertEqual((uuids.new, burn_records.REFUSED), (uuid, event))
        self.assertIn('may use up 2 one-time-use device(s)', reason)

    def test_server_that_gave_its_card_up_counts_if_it_moved(self):
        self.records = [self.holder('a'), self.holder('b')]
        self.actions = {uuids.a: 2, uuids.b: 2}
        self.assertFalse(self.is_refused())
        self.moved = frozenset((uuids.a, uuids.b))
        self.assertTrue(self.is_refused())

    def test_failed_build_counts_if_it_was_the_last_to_have_the_card(self):
        self.records = [
            self.holder(name, card, has_run=False)
            for name, card in (('a', 'card0'), ('b', 'card1'))
        ]
        self.assertTrue(self.is_refused())
        # Builds that were refused name what others have burned later.
        self.local = [self.holder('other', 'card0', 'card1', age=0)]
        self.assertFalse(self.is_refused())
        # Those of an earlier hour do not count.
        self.local = []
        self.records = [
            self.holder(name, card, has_run=False, age=3700)
            for name, card in (('a', 'card0'), ('b', 'card1'))
        ]
        self.assertFalse(self.is_refused())

    def test_running_builds_count_until_they_fail(self):
        self.records = [
            self.holder(name, has_run=False) for name in ('a', 'b')
        ]
        with (
            self.limit.admit(None, instance('one', uuids.a), SLOTS),
            self.limit.admit(None, instance('one', uuids.b), SLOTS),
        ):
            self.assertTrue(self.is_refused())
        self.assertTrue(self.is_refused())
        self.limit._forget(uuids.b)
        self.assertFalse(self.is_refused())


class HoldersTest(base.NoDBTestCase):
    def test_build_that_failed_later_has_burned_its_device(self):
        """Its instance has no host, and never ran."""
        earlier, failed = (
            objects.Instance(
                uuid=uuid,
                project_id=project,
                created_at=CountTest.NOW - datetime.timedelta(hours=hours),
                launched_at=launched,
                deleted=False,
                resources=objects.ResourceList(
                    objects=[
                        objects.Resource(
                            provider_uuid=uuids.card,
                            resource_class='CUSTOM_GPU',
                            identifier='21010020',
                        )
                    ]
                ),
            )
            for uuid, project, hours, launched in (
                (uuids.a, 'one', 3, CountTest.NOW - WINDOW * 2),
                (uuids.b, 'two', 1, None),
            )
        )
        found = burn_records.read_holders(
            'host1',
            [uuids.card],
            lambda _, filters, **__: {'host1': [earlier], None: [failed]}[
                filters['host']
            ],
        )
        self.assertEqual('two', found[uuids.card].project)
        self.assertFalse(found[uuids.card].has_run)


@ddt.ddt
class DeviceActionsTest(base.NoDBTestCase):
    """Actions of a server, by the events that Nova has recorded."""

    NOW = datetime.datetime.now(datetime.UTC)

    def count(self, actions, *, burned=True):
        """Count actions, each given by its name and its events' results."""
        found = [
            SimpleNamespace(
                action=name,
                id=number,
                request_id=f'req-{number}',
                start_time=self.NOW,
                updated_at=None,
            )
            for number, (name, _) in enumerate(actions)
        ]

        def get_actions(_context, _uuid, limit, marker):
            begin = 0 if marker is None else int(marker[4:]) + 1
            return found[begin : begin + limit]

        def get_events(_context, number):
            return [
                SimpleNamespace(event=event, result=result)
                for event, result in actions[number][1].items()
            ]

        with mock.patch.multiple(
            objects,
            InstanceActionList=mock.Mock(get_by_instance_uuid=get_actions),
            InstanceActionEventList=mock.Mock(get_by_action=get_events),
        ):
            return burn_records.count_device_actions(
                self.NOW - WINDOW, 'uuid', burned=burned
            )

    @ddt.named_data(
        # Nova's action stays an error if one host refuses and the next builds.
        ['build that one host refused', 'create', {burn_records.REFUSED}, 1],
        ['resize', 'resize', set(), 1],
        ['migration', 'migrate', set(), 1],
        ['resize that failed early', 'resize', {'cold_migrate'}, 0],
        [
            'resize that failed at the end',
            'resize',
            {'compute_finish_resize'},
            1,
        ],
        [
            'unshelve that failed once it had burned',
            'unshelve',
            {'compute_unshelve_instance'},
            1,
        ],
        [
            'unshelve that was refused',
            'unshelve',
            {'compute_unshelve_instance', burn_records.REFUSED},
            0,
        ],
        ['lock', 'lock', set(), 0],
    )
    def test_of_a_server_counts_a(self, action, failed, expected):
        events = dict.fromkeys(failed, 'Error')
        self.assertEqual(expected, self.count([(action, events)]))

    def test_failed_unshelve_counts_only_if_it_burned_a_card(self):
        failed = {'compute_unshelve_instance': 'Error'}
        actions = [('unshelve', failed)]
        self.assertEqual(0, self.count(actions, burned=False))
        self.assertEqual(1, self.count([('unshelve', {})], burned=False))

    def test_locks_hide_no_build(self):
        """Three cards were burned with a limit of two."""
        self.stub_out(f'{burn_records.__name__}._PAGE', 3)
        actions = [('lock', {}), ('unlock', {})] * 4 + [('create', {})]
        self.assertEqual(1, self.count(actions))
        # More moves than a page all count, and cost no requests.
        failed = {'cold_migrate': 'Error'}
        self.assertEqual(4, self.count([('resize', failed)] * 4))


class Pool(fixtures.Fixture):
    """Threads that end with a test."""

    def _setUp(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(3)
        self.addCleanup(self.pool.shutdown)
