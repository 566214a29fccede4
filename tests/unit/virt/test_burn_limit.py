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

import ddt
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm.ops import claiming
from nova_powervm.virt import burn_limit
from nova_powervm.virt import burn_records

SLOTS = [SimpleNamespace(burns=('device',))]


def instance(project, uuid=uuids.instance):
    """Return an instance that is built for the first time."""
    return objects.Instance(
        uuid=uuid, project_id=project, launched_at=None, task_state='spawning'
    )


@ddt.ddt
class BurnLimitTest(test.NoDBTestCase):
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


class Pool(test.fixtures.Fixture):
    """Threads that end with a test."""

    def _setUp(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(3)
        self.addCleanup(self.pool.shutdown)
