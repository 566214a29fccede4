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

"""Kills nova-compute at requests and steps of live migrations.

Or has a request get no answer. After both services have started again, just
one host has the LPAR, which runs there with its volumes. If Nova records
another host, it is moved back as the page says. Then a hard reboot leaves the
server as it was, and Cinder has just the attachments that Nova records.

The whole sweep runs if ``NOVA_POWERVM_TEST_ALL_REQUESTS`` is set. Otherwise a
sample runs, which ``NOVA_POWERVM_TEST_SEED`` chooses.
"""

import contextlib
import os
import random
import threading
from unittest import mock

from nova.compute import manager
from nova.compute import rpcapi
from nova.network import neutron
from pypowervm import adapter
from pypowervm import exceptions as pvm

from nova_powervm.virt import live_migrations
from tests.functional import test_live_migration
from tests.soak import SEED

_MIGRATIONS = live_migrations.LiveMigrations
_MANAGER = manager.ComputeManager
#: The requests of the source for a migration that ends well, and whether they
#: are carried out.
_REQUESTS = [(number, after) for number in range(48) for after in (0, 1)]
#: Steps of Nova and of the driver while a server arrives, and while it stays.
_ARRIVING = (
    (_MANAGER, '_post_live_migration'),
    (neutron.API, 'migrate_instance_start'),
    (_MIGRATIONS, 'disconnect'),
    (_MANAGER, '_post_live_migration_remove_source_vol_connections'),
    (_MIGRATIONS, 'leave'),
    (rpcapi.ComputeAPI, 'post_live_migration_at_destination'),
    (_MANAGER, '_delete_allocation_after_move'),
)
_STAYING = (
    (_MANAGER, '_rollback_live_migration'),
    (_MIGRATIONS, 'stay'),
    (_MANAGER, '_remove_remote_volume_connections'),
    (_MANAGER, '_rollback_volume_bdms'),
    (rpcapi.ComputeAPI, 'rollback_live_migration_at_destination'),
    (_MIGRATIONS, 'take_back'),
)


def sample(cases, size):
    """Return some of the cases, or all."""
    cases = [*cases]
    if os.environ.get('NOVA_POWERVM_TEST_ALL_REQUESTS'):
        return cases
    return random.Random(SEED).sample(cases, size)  # noqa: S311


def lose():
    """Lose the answer to a request."""
    raise pvm.ConnectionError('a test has lost the answer')


class LiveMigrationSweepTest(test_live_migration.UnsettledTestCase):
    """One server at a time, with a volume and a config drive."""

    def test_server_is_whole_after_a_kill_at_a_request(self):
        for number, is_after in sample(_REQUESTS, 8):
            with self.case('kill', number, is_after) as server:
                self.disturb(server, number, is_after, self.threads.kill)

    def test_server_is_whole_after_a_request_without_an_answer(self):
        for number, is_after in sample(_REQUESTS, 8):
            with self.case('lost', number, is_after) as server:
                self.disturb(server, number, is_after, lose)

    def test_server_is_whole_after_a_kill_at_a_step(self):
        for owner, name in sample(_ARRIVING, 3):
            with self.case(name) as server, self.threads.killed(owner, name):
                self.ask_to_migrate(server)
        for owner, name in sample(_STAYING, 3):
            with self.case(name) as server, self.threads.killed(owner, name):
                self.control().plan_job('Migrate', 'HSCL0000 no way')
                self.ask_to_migrate(server)

    @contextlib.contextmanager
    def case(self, *what):
        """Begin with a server, and verify at the end that it is whole."""
        case = f'{what} (seed {SEED})'
        with self.subTest(case):
            server = self.boot_live(volumes=1, request={'config_drive': True})
            before = self.whole(server, 'host1')
            yield server
            if what[0] == 'lost':
                # Nothing starts anew.
                self._wait_for_server_parameter(
                    server, {'OS-EXT-STS:task_state': None}
                )
                self._run_periodics()
            for host in ('host1', 'host2'):
                self.restart_host(host)
            self._wait_for_server_parameter(
                server, {'OS-EXT-STS:task_state': None}
            )
            self.assert_whole_once(server, before)
            self._delete_server(self.api.get_server(server['id']))

    def disturb(self, server, number, is_after, fault):
        """Migrate a server, with a fault at one request of the source.

        :param is_after: Whether the request is carried out.
        :param fault: Raises an error.
        """
        request, migrate = adapter.Session.request, _MIGRATIONS.migrate
        own, sent, ended = set(), [], threading.Event()

        def migrate_noted(*args):
            own.add(threading.get_ident())
            try:
                return migrate(*args)
            finally:
                own.clear()
                ended.set()

        def request_or_fail(*args, **options):
            if threading.get_ident() in own:
                sent.append(args)
                if len(sent) == number + 1:
                    if is_after:
                        request(*args, **options)
                    fault()
            return request(*args, **options)

        with (
            mock.patch.object(adapter.Session, 'request', request_or_fail),
            mock.patch.object(_MIGRATIONS, 'migrate', migrate_noted),
        ):
            self.ask_to_migrate(server)
            self.assertTrue(ended.wait(60))
            self.threads.revive()

    def assert_whole_once(self, server, before):
        """Verify that a server is on one host, and bring it home."""
        lpars = [self.lpar(server, host) for host in ('host1', 'host2')]
        states = [lpar.state for lpar in lpars if lpar]
        self.assertEqual(['running'], states)
        (volumes, disks, ports, written), there = before, lpars[1] is not None
        host = 'host2' if there else 'host1'
        self.assertEqual(volumes, self.connected(server, host))
        self.assertEqual(written, self.bytes_of(server, host))
        if self.host_of(server) == 'host2':
            self.assertTrue(there)
            self.assertEqual(ports, self.ports_of(server, host))
            return
        if there:
            self._run_periodics()
            self.bring_back(server)
            self._run_periodics()
        self.reboot_hard(server)
        self.assert_recorded(server)
        found = self.whole(server, 'host1')
        self.assertEqual((volumes, *before[2:]), (found[0], *found[2:]))
        # The source may have deleted the config drive.
        self.assertLessEqual(found[1], disks)
