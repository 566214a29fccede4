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

"""Disturbs live migrations, at each request of both hosts and each step.

A request meets a fault, nova-compute is killed there or in a step, the
migration is aborted in a step, or a host loses its power. Then the services
that have ended start again, and what the page on stuck servers says is done:
just one host has the LPAR, Nova records that one, and volumes, ports, VLANs,
disks, allocations and attachments are as before.

For the environment see :mod:`tests.soak.move_sweep`.
"""

import contextlib
import functools
import itertools
import os
import random
import threading

import fixtures
from nova.compute import manager
from nova.compute import rpcapi
from nova.network import neutron
from nova.tests.functional.api import client
from pypowervm.tasks import hdisk
from pypowervm.wrappers import job

from emulator.tests import base as emulator_base
from nova_powervm.virt import live_migrations
from tests.functional import killed_threads
from tests.functional import test_live_migration
from tests.soak import SEED
from tests.soak import request_faults

_MIGRATIONS = live_migrations.LiveMigrations
_MANAGER = manager.ComputeManager
_PART, _PARTS = map(
    int, os.environ.get('NOVA_POWERVM_TEST_PART', '0/1').split('/')
)
_SOURCE, _DESTINATION = _HOSTS = 'host1', 'host2'
#: How a migration ends, if nothing disturbs it.
_ENDINGS = _ARRIVES, _STAYS = 'arrives', 'stays'
_ABORTED, _UNDISTURBED = 'aborted', 'undisturbed'
#: Steps of Nova and of the driver, by the ending and the host.
_STEPS = {
    (_ARRIVES, _SOURCE): (
        (_MIGRATIONS, 'check_source'),
        (_MIGRATIONS, '_move'),
        (_MIGRATIONS, '_ending'),
        (_MANAGER, '_post_live_migration'),
        (neutron.API, 'migrate_instance_start'),
        (_MIGRATIONS, 'disconnect'),
        (_MANAGER, '_post_live_migration_remove_source_vol_connections'),
        (_MIGRATIONS, 'leave'),
        (rpcapi.ComputeAPI, 'post_live_migration_at_destination'),
        (_MANAGER, '_delete_allocation_after_move'),
    ),
    (_ARRIVES, _DESTINATION): (
        (_MIGRATIONS, 'check_destination'),
        (_MANAGER, '_do_pre_live_migration'),
        (_MIGRATIONS, 'prepare'),
        (_MANAGER, '_do_post_live_migration_at_destination'),
        (neutron.API, 'migrate_instance_finish'),
        (_MIGRATIONS, 'finish'),
    ),
    (_STAYS, _SOURCE): (
        (_MANAGER, '_rollback_live_migration'),
        (_MIGRATIONS, 'stay'),
        (_MANAGER, '_remove_remote_volume_connections'),
        (_MANAGER, '_rollback_volume_bdms'),
        (rpcapi.ComputeAPI, 'rollback_live_migration_at_destination'),
    ),
    (_STAYS, _DESTINATION): (
        (_MANAGER, '_remove_volume_connection'),
        (_MANAGER, '_do_rollback_live_migration_at_destination'),
        (_MIGRATIONS, 'take_back'),
    ),
}
#: Stages of PowerVM's job: how often it has advanced. In the last one, both
#: hosts have the LPAR, and its guest runs on the destination.
_SWITCHED = 3
#: A host may keep that of an earlier case.
_VLANS = itertools.cycle(range(100, 350))
_STAGES = 0, 1, 2, _SWITCHED


def sample(cases, size):
    """Return some of the cases, or all of them or of a part."""
    cases = [*cases]
    if request_faults.ALL:
        return cases[_PART::_PARTS]
    return random.Random(SEED).sample(cases, size)  # noqa: S311


class LiveMigrationSweepTest(test_live_migration.UnsettledTestCase):
    """One server at a time, with a volume, a port and a config drive."""

    def setUp(self):
        super().setUp()
        request_faults.keep_log_short(self)
        self.kills = self.useFixture(
            killed_threads.RequestKills(
                self.threads, request_faults.NOT_COUNTED.pattern
            )
        )

    def test_server_is_whole_after_a_fault_at_a_request(self):
        # The first migration exchanges keys, too.
        self.requests(_ARRIVES)
        cases = [
            (ending, host, *case)
            for ending in _ENDINGS
            for host, requests in self.requests(ending).items()
            for case in (
                *request_faults.cases(requests),
                *request_faults.kills(requests),
            )
        ]
        chosen, unreached = sample(cases, 16), []
        for ending, host, *case in chosen:
            with self.case(ending, host, *case) as server:
                self.arm(host, *case)
                self.migrate_to_end(server, ending)
                if not self.is_reached(host):
                    unreached.append((ending, host, *case))
        self.assertLess(len(unreached), 1 + len(chosen) // 10, unreached)

    def test_server_is_whole_after_a_kill_at_a_step(self):
        for ending, host, owner, name in sample(self.steps(), 5):
            with (
                self.case(ending, host, name) as server,
                self.threads.killed(
                    owner, name, when=functools.partial(self.note, host)
                ),
            ):
                self.migrate_to_end(server, ending)

    def test_server_is_whole_after_an_abort_or_a_host_without_power(self):
        stages = [(_ARRIVES, _SOURCE, job.Job, stage) for stage in _STAGES]
        for (ending, where, owner, step), what in sample(
            itertools.product(stages + self.steps(), (*_HOSTS, _ABORTED)), 10
        ):
            with self.case(ending, where, step, what) as server:
                if what == _ABORTED:
                    act = functools.partial(self.abort, server)
                else:
                    act = functools.partial(self.lose, what)
                if owner is job.Job:
                    self.migrate_to_end(server, ending, step, act)
                else:
                    self.act_in(server, ending, owner, step, act)

    # Faults

    def steps(self):
        """Return ending and host of each step, and the step."""
        return [
            (*where, *step)
            for where, steps in _STEPS.items()
            for step in steps
        ]

    def requests(self, ending):
        """Return the requests of a migration, by host."""
        with self.case(ending, _UNDISTURBED) as server:
            for host in _HOSTS:
                self.control(host).clear_journal()
            self.migrate_to_end(server, ending)
            return {
                host: request_faults.counted(self.control(host))
                for host in _HOSTS
            }
        return self.fail('a migration has failed without a fault')

    def arm(self, host, number, _, fault):
        """Have a request of a host meet a fault."""
        if fault in request_faults.KILLS:
            self.kills.arm(
                self.hosts[host].emulator.url,
                number,
                after=fault == request_faults.KILLS[1],
                act=functools.partial(self.kill, host),
            )
        else:
            self.control(host).add_fault(
                match=request_faults.COUNTED,
                nth=number,
                **request_faults.FAULTS[fault],
            )

    def is_reached(self, host):
        """Return whether the request has come that was to be disturbed."""
        faults = self.control(host).faults()
        return bool(self._ended) or any(one['applied'] for one in faults)

    def kill(self, host):
        """Kill a nova-compute in the thread that sends a request."""
        self.note(host)
        self.threads.kill()

    def note(self, host):
        """Note that a nova-compute ends."""
        self._ended.add(host)
        return True

    def abort(self, server):
        """Have Nova abort a migration, and wait until it has tried that."""
        tried = threading.Event()
        abort = _MANAGER.live_migration_abort

        def abort_noted(*args, **options):
            try:
                return abort(*args, **options)
            finally:
                tried.set()

        number = self.migration(server)['id']
        with (
            fixtures.MockPatchObject(
                _MANAGER, 'live_migration_abort', abort_noted
            ),
            # Nova refuses it before the migration has begun.
            contextlib.suppress(client.OpenStackApiException),
        ):
            self.admin_api.api_delete(
                f'/servers/{server["id"]}/migrations/{number}'
            )
            # It may need what this thread has.
            tried.wait(2)

    def lose(self, host):
        """Take the power from a host, and note that."""
        self._off.add(host)
        self._ended.add(host)
        super().lose(host)

    def act_in(self, server, ending, owner, name, act):
        """Do something at a step of a migration, when it first comes."""
        original, reached = getattr(owner, name), threading.Event()

        def act_first(*args, **options):
            if not reached.is_set():
                reached.set()
                act()
            return original(*args, **options)

        with fixtures.MockPatchObject(owner, name, new=act_first):
            self.migrate_to_end(server, ending)
        self.assertTrue(reached.is_set())

    # The migration

    @contextlib.contextmanager
    def case(self, *what):
        """Begin with a server, and verify at the end that it is whole."""
        self._ended, self._off = set(), set()
        with self.subTest(f'{what} (seed {SEED})'):
            port = self.make_port(next(_VLANS))['id']
            server = self.boot_live(
                volumes=1,
                networks=[{'port': port}],
                request={'config_drive': True},
            )
            before = self.whole(server, _SOURCE)
            self.control().set_job_mode('manual', 'Migrate')
            yield server
            self.go_on(server)
            self.assert_whole_again(
                server,
                before,
                is_interrupted=what[-1] not in (_ABORTED, _UNDISTURBED),
            )
            self._delete_server(self.api.get_server(server['id']))
            # There are only so many addresses.
            del self.neutron._ports[port]
        # What a failed case has left.
        self.forget()
        self.cinder.volume_to_attachment.clear()
        for host in _HOSTS:
            self.remove_disks(host)

    def migrate_to_end(self, server, ending, stage=None, act=None):
        """Migrate a server, and wait until nobody does anything.

        :param act: Called in a stage of the job, by the thread that waits.
        """
        monitor, acts = job.Job._monitor_job, [act] if act else []

        def monitor_job(*args, **options):
            if self.jobs() and acts:
                self.go_to(stage)
                acts.pop()()
            self.end_jobs(ending)
            return monitor(*args, **options)

        with fixtures.MockPatchObject(
            job.Job, '_monitor_job', new=monitor_job
        ):
            self.ask_to_migrate(server)
            self.await_rest(server)
        if not self._off:
            # PowerVM goes on by itself.
            self.end_jobs(ending)

    def go_to(self, stage):
        """Have PowerVM's job come to a stage."""
        if stage == _SWITCHED:
            self.control().plan_job('Migrate', 'lost', state='not activated')
            self.control().advance_jobs(to_end=True)
        else:
            for _ in range(stage):
                self.control().advance_jobs()

    def end_jobs(self, ending):
        """Have PowerVM's job end."""
        if self.jobs() and ending == _STAYS:
            # Both hosts have the LPAR until it is recovered.
            self.control().plan_job('Migrate', 'HSCL0000', state='running')
        self.control().advance_jobs(to_end=True)

    def await_rest(self, server):
        """Wait until the task is over, or nobody is left to end it."""
        quiet = itertools.count()

        def is_at_rest():
            if not self._states(server['id']).task_state:
                return killed_threads.are_idle()
            return self._ended and next(quiet) > 10

        self.await_found(is_at_rest, 'the migration has no end')

    def go_on(self, server):
        """Start what has ended."""
        self.threads.revive()
        self.kills.disarm()
        for host in _HOSTS:
            self.control(host).clear_faults()
        for host in sorted(self._off):
            self.regain(host)
        for host in sorted(self._ended - self._off):
            self.restart_host(host)
        self.control().set_job_mode('immediate', 'Migrate')
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )

    # What is left

    def assert_whole_again(self, server, before, *, is_interrupted):
        """Do what the page says; verify that this makes a server whole."""
        for _ in range(2):
            self._run_periodics()
        (host,) = (one for one in _HOSTS if self.lpar(server, one))
        recorded = self.host_of(server)
        if host != recorded:
            self.assertEqual(_SOURCE, recorded)
            self.start_there(server)
            self.bring_back(server)
            self._run_periodics()
        self.reboot_hard(server)
        self._run_periodics()
        self.release_allocations(server)
        (other,) = {*_HOSTS} - {recorded}
        self.remove_disks(other)
        if self.media(other):
            # What could not be removed goes at the next start.
            self.restart_host(other)
            self._run_periodics()
        if not is_interrupted:
            # Otherwise nobody may have told the host of the end.
            self.assertNotIn(before[2][0][2], self.vlans(other))
        self.assert_at(server, recorded, before)

    def remove_disks(self, host):
        """Remove the disks of a host that nothing uses any more."""
        adapter = emulator_base.adapter_for(self.hosts[host].emulator)
        found, own = self.host_state(host), self.array_disks(host)
        for server in found['partitions']:
            for disk in server.get('physical_volumes', ()):
                if disk['available'] and disk['name'] in own:
                    hdisk.remove_hdisk(
                        adapter, found['name'], disk['name'], server['uuid']
                    )

    def start_there(self, server):
        """Start the LPAR on the destination, if it has lost its power."""
        if _DESTINATION in self._off:
            self.control(_DESTINATION).set_partition(
                self.name(server), state='running', rmc_state='active'
            )

    def release_allocations(self, server):
        """Delete what migrations still hold in Placement."""
        for migration in self.migrations(server):
            if self._get_allocations_by_server_uuid(migration['uuid']):
                self.placement.delete(f'/allocations/{migration["uuid"]}')
