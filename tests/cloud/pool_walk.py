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

"""Takes a random walk on a cloud of two hosts that share a pool.

    python -m tests.cloud.pool_walk [--seed S] [--steps N] [--state-dir DIR]

Servers are booted, deleted, stopped and started, resized and migrated, which
is confirmed or reverted, guests write to their disks, nova-computes are
killed, also in the middle of a boot or a move, hosts lose their power and
return, images become unused, and the pool is full. After each step, what
:mod:`.pool_checks` states has to become true.
The exit status is 1 if it does not.
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time
import traceback

from tests.cloud import full_pool
from tests.cloud import kill_points
from tests.cloud import pool_checks
from tests.cloud import pool_site
from tests.cloud import walk_moves
from tests.cloud import walk_steps

#: An unused image is deleted after so many seconds.
_MIN_AGE = 10
#: With fewer servers, most steps would have nothing to do.
_FEW_SERVERS = 3


class Walk(walk_moves.MoveSteps):
    """The steps; each returns a line about what it did.

    :param site: the cloud.
    :param generator: makes all choices.
    """

    def __init__(self, site, generator):
        super().__init__(site, generator)
        self.evacuated = 0

    def step(self):
        """Take a step, chosen at random of those that are possible."""
        servers = self._servers()
        states = {found.status for found in servers}
        steps = {
            self.boot: 10 if len(servers) < _FEW_SERVERS else 4,
            self.kill: 1,
            self.kill_in_boot: 3,
            self.forget_image: 1,
            self.fill_pool: 1,
            self.lose_host: 2,
        }
        if servers:
            steps |= {self.delete: 2, self.kill_in_delete: 2}
        if states & {*walk_moves.MOVABLE}:
            steps |= {
                self.stop_or_start: 2,
                self.write: 3,
                self.migrate: 4,
                self.resize: 5,
                self.refuse_resize: 1,
                self.kill_in_move: 6,
            }
        if pool_checks.WAITING in states:
            steps |= {self.settle: 8, self.kill_in_end: 4}
        chosen = self.random.choices([*steps], [*steps.values()])[0]
        return f'{chosen.__name__} {chosen()}'

    def boot(self):
        """Boot a server."""
        server, text, _ = self._request_boot()
        found = self.site.await_task(server, walk_steps.SECONDS)
        self._note(found)
        if found.status != 'ACTIVE':
            raise RuntimeError(f'{text}: {found.fault}')
        return text

    def stop_or_start(self):
        """Stop a server that runs, or start one that does not."""
        found = self._any('ACTIVE', 'SHUTOFF')
        if found is None:
            return 'nothing'
        api = self.site.api.compute
        is_active = found.status == 'ACTIVE'
        (api.stop_server if is_active else api.start_server)(found.id)
        after = self.site.await_task(found.id, walk_steps.SECONDS)
        if after.status == found.status:
            raise RuntimeError(f'{found.id} is {after.status} still')
        return f'{found.id}: {found.status} -> {after.status}'

    def write(self):
        """Let a guest write to its disk."""
        found = self._any('ACTIVE', pool_checks.WAITING)
        if found is None:
            return 'nothing'
        self.site.write(found.id, self.random)
        return found.id

    def kill(self):
        """Kill a nova-compute that is idle, and start it."""
        return self._restart(self._side())

    def kill_in_boot(self):
        """Kill a nova-compute at a random request of a boot."""
        label, number = self.random.choice(
            [
                ('LogicalUnit.create', self.random.randint(1, 4)),
                ('LogicalPartition.create', 1),
                ('VirtualIOServer.update', 1),
                ('LogicalUnit.update', 1),
                ('File.upload', self.random.randint(1, 2)),
                ('LogicalPartition.job', 1),
            ]
        )
        side = None

        def request():
            nonlocal side
            server, text, side = self._request_boot()
            return server, text

        point = self._point([label], number)
        for one in self.site.sides:
            kill_points.hold(one.control, point)
        server, text = request()
        has_hit = self._kill_at_hold(side, lambda: self._is_built(server))
        found = self.site.await_task(server, walk_steps.SECONDS)
        self._note(found)
        if found.status == 'ERROR' and has_hit == walk_steps.MISSED:
            raise RuntimeError(f'{text}: {found.fault}')
        return f'{text} {point}: {found.status}, {has_hit}'

    def _is_built(self, server):
        found = self.site.server(server)
        return found.status != 'BUILD' and not found.task_state

    def kill_in_delete(self):
        """Kill a nova-compute at a random request of a deletion."""
        found = self._any()
        side = self.site.side_of(found.compute_host) or self._side()
        point = self._point(
            [
                'LogicalPartition.job',
                'VirtualIOServer.update',
                'LogicalUnit.delete',
                'VolumeGroup.update',
                'LogicalPartition.delete',
            ]
        )
        kill_points.hold(side.control, point)
        self.site.delete(found.id)
        text = self._kill_at_hold(
            side, lambda: self.site.server(found.id) is None
        )
        if found.status == pool_checks.WAITING:
            # Nova confirms first, and then forgets that it is deleting.
            self.site.await_task(found.id, walk_steps.SECONDS)
            self.site.delete(found.id)
        self._await_deletion(found.id)
        return f'{found.id} {point}: {text}'

    def forget_image(self):
        """Use another image instead of one; its copy is deleted in time."""
        at = self.random.randrange(len(self.images))
        self.images[at] = self.site.make_image(self.random)
        return f'image {at}'

    def fill_pool(self):
        """Boot a server while somebody else has filled the pool."""
        side = self._side()
        with full_pool.filled(side.compute.host):
            server, text, _ = self._request_boot()
            found = self.site.await_task(server, walk_steps.SECONDS)
        self._note(found)
        if found.status != 'ERROR':
            raise RuntimeError(f'{text} in a full pool is {found.status}')
        self.site.delete(server)
        self._await_deletion(server)
        # Placement may still have the pool as full.
        for one in self.site.sides:
            self.site.await_cycle(one)
        return text

    def lose_host(self):
        """Lose a host, evacuate or delete its servers, and regain it."""
        side = self._side()
        # Nova can do nothing with it as long as one of its hosts is down.
        done = [
            self._settle(found) for found in self._servers(pool_checks.WAITING)
        ]
        self.site.lose(side)
        for found in self._servers():
            if found.compute_host != side.name:
                continue
            is_too_large = self._free_gpus(self.site.other(side)) < len(
                self._gpus_of(found)
            )
            if is_too_large or self.random.random() < 0.2:
                self.site.delete(found.id)
                done.append(f'deleted {found.id}')
            elif found.status in ('ACTIVE', 'SHUTOFF'):
                done.append(self._evacuate(found))
        self.faults_without_host = pool_checks.await_rest(self.site)
        self.site.regain(side)
        self.site.await_cycle(self.site.other(side))
        if self.faults_without_host:
            raise RuntimeError(
                f'without {side.name}: {self.faults_without_host}'
            )
        return f'{side.name}: {", ".join(done) or "no servers"}'

    def _evacuate(self, found):
        """Evacuate a server, half of the time with a kill in the middle."""
        api = self.site.api.compute
        target = self.site.other(self.site.side_of(found.compute_host))
        with_kill = self.random.random() < 0.5
        if with_kill:
            kill_points.hold(
                target.control,
                self._point(
                    [
                        'LogicalPartition.create',
                        'VirtualIOServer.update',
                        'ClientNetworkAdapter.create',
                    ]
                ),
            )
        api.evacuate_server(found.id)
        is_there = self._is_on(found.id, target)
        if with_kill:
            self._kill_at_hold(target, is_there)
            if not is_there():
                self.site.await_task(found.id, walk_steps.SECONDS)
                api.evacuate_server(found.id)
        self.site.await_true(
            f'{found.id} is evacuated', is_there, walk_steps.SECONDS
        )
        self.evacuated += 1
        return f'{"kill and " if with_kill else ""}evacuate {found.id}'

    def finish(self):
        """Delete all servers; wait until the pool is empty."""
        for found in self._servers():
            self.site.delete(found.id)
        control = self.site.sides[0].control
        self.site.await_true(
            'the pool is empty', lambda: not pool_checks.units(control)
        )
        return 'and the pool is empty'


def take(site, number, step):
    """Take a step, print what it did, and return whether nothing is wrong."""
    began = time.monotonic()
    try:
        text, failed = step(), False
    except Exception:
        text, failed = traceback.format_exc(), True
    faults = pool_checks.await_rest(site)
    wrong = failed or bool(faults)
    print(
        f'{"WRONG" if wrong else "ok":5} {number} {text}: '
        f'{time.monotonic() - began:.1f} s',
        *(f'\n      {fault}' for fault in faults),
        flush=True,
    )
    return not wrong


def main():
    """Walk, and print each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--steps', type=int, default=50)
    parser.add_argument('--state-dir', type=pathlib.Path)
    arguments = parser.parse_args()
    state = arguments.state_dir or pathlib.Path(tempfile.mkdtemp()) / 'cloud'
    done, wrong = 0, False
    with pool_site.running(state, _MIN_AGE) as site:
        generator = random.Random(arguments.seed)  # noqa: S311
        walk = Walk(site, generator)
        began = time.monotonic()
        while done < arguments.steps and not wrong:
            done += 1
            wrong = not take(site, done, walk.step)
        wrong = wrong or not take(site, 'finish', walk.finish)
        seconds = time.monotonic() - began
    print(
        f'seed {arguments.seed}: {done} steps, {walk.kills} kills, '
        f'{walk.evacuated} evacuations, {"WRONG" if wrong else "all ok"}, '
        f'{seconds:.0f} s; the logs are in {state / "log"}'
    )
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
