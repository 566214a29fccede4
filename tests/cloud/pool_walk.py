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

Servers are booted, deleted, stopped and started, guests write to their
disks, nova-computes are killed, also in the middle of a boot, hosts lose
their power and return, images become unused, and the pool is full. After
each step, what :mod:`.pool_checks` states has to become true.
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
from tests.cloud import pool_checks
from tests.cloud import pool_kills
from tests.cloud import pool_site

_SECONDS = 120.0
_MAX_SERVERS = 6
_IMAGES = 3
#: An unused image is deleted after so many seconds.
_MIN_AGE = 10
_MISSED = 'not reached'


class Walk:
    """The steps; each returns a line about what it did.

    :param site: the cloud.
    :param generator: makes all choices.
    """

    def __init__(self, site, generator):
        self.site = site
        self.random = generator
        self.images = [site.make_image(generator) for _ in range(_IMAGES)]
        self.kills = 0
        self.evacuated = 0

    def step(self):
        """Take a step, chosen at random of those that are possible."""
        steps = {
            self.boot: 6,
            self.kill: 2,
            self.kill_in_boot: 3,
            self.forget_image: 1,
            self.fill_pool: 1,
            self.lose_host: 2,
        }
        if self._servers():
            steps |= {
                self.delete: 4,
                self.stop_or_start: 2,
                self.write: 3,
                self.kill_in_delete: 2,
            }
        chosen = self.random.choices([*steps], [*steps.values()])[0]
        return f'{chosen.__name__} {chosen()}'

    def _servers(self, *states):
        """Return the servers in some states, or all, always in one order."""
        found = self.site.api.compute.servers(all_projects=True)
        return sorted(
            (one for one in found if not states or one.status in states),
            key=lambda one: int(one.name.rpartition('-')[2]),
        )

    def _any(self, *states):
        found = self._servers(*states)
        return self.random.choice(found) if found else None

    def _side(self):
        return self.random.choice(self.site.sides)

    def _request_boot(self):
        if len(self._servers()) >= _MAX_SERVERS:
            self.delete()
        flavor = self.random.choice(
            [pool_site.PLAIN, pool_site.BLANKS, pool_site.GPU]
        )
        side = self._side()
        server = self.site.boot(flavor, self.random.choice(self.images), side)
        return server, f'{flavor} {server} on {side.name}', side

    def boot(self):
        """Boot a server."""
        server, text, _ = self._request_boot()
        found = self.site.await_task(server, _SECONDS)
        self._note(found)
        if found.status != 'ACTIVE':
            raise RuntimeError(f'{text}: {found.fault}')
        return text

    def _note(self, found):
        self.site.expected[found.id].was_whole = found.status == 'ACTIVE'

    def delete(self):
        """Delete a server."""
        found = self._any()
        self.site.delete(found.id)
        self._await_deletion(found.id)
        return found.id

    def _await_deletion(self, server):
        self.site.await_true(
            f'{server} is deleted',
            lambda: self.site.server(server) is None,
            _SECONDS,
        )

    def stop_or_start(self):
        """Stop a server that runs, or start one that does not."""
        found = self._any('ACTIVE', 'SHUTOFF')
        if found is None:
            return 'nothing'
        api = self.site.api.compute
        is_active = found.status == 'ACTIVE'
        (api.stop_server if is_active else api.start_server)(found.id)
        after = self.site.await_task(found.id, _SECONDS)
        if after.status == found.status:
            raise RuntimeError(f'{found.id} is {after.status} still')
        return f'{found.id}: {found.status} -> {after.status}'

    def write(self):
        """Let a guest write to its disk."""
        found = self._any('ACTIVE')
        if found is None:
            return 'nothing'
        self.site.write(found.id, self.random)
        return found.id

    def kill(self):
        """Kill a nova-compute that is idle, and start it."""
        return self._restart(self._side())

    def _restart(self, side):
        self.site.kill(side)
        self.site.start(side)
        self.kills += 1
        return side.name

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

        point = pool_kills.Point(
            '', label, number, self.random.choice(('before', 'after'))
        )
        for one in self.site.sides:
            _hold(one, point)
        server, text = request()
        has_hit = self._kill_at_hold(side, lambda: self._is_built(server))
        found = self.site.await_task(server, _SECONDS)
        self._note(found)
        if found.status == 'ERROR' and has_hit == _MISSED:
            raise RuntimeError(f'{text}: {found.fault}')
        return f'{text} {point}: {found.status}, {has_hit}'

    def _is_built(self, server):
        found = self.site.server(server)
        return found.status != 'BUILD' and not found.task_state

    def _kill_at_hold(self, side, is_done):
        """Kill a nova-compute when it is held, unless it ends before."""

        def has_hit():
            faults = side.control.faults()
            return bool(faults and faults[0]['applied'])

        self.site.await_true(
            'the end or the request', lambda: has_hit() or is_done(), _SECONDS
        )
        hit = has_hit()
        for one in self.site.sides:
            one.control.clear_faults()
        if hit:
            self._restart(side)
        return 'killed' if hit else _MISSED

    def kill_in_delete(self):
        """Kill a nova-compute at a random request of a deletion."""
        found = self._any()
        side = self.site.side_of(found.compute_host) or self._side()
        label = self.random.choice(
            [
                'LogicalPartition.job',
                'VirtualIOServer.update',
                'LogicalUnit.delete',
                'VolumeGroup.update',
                'LogicalPartition.delete',
            ]
        )
        point = pool_kills.Point(
            '', label, 1, self.random.choice(('before', 'after'))
        )
        _hold(side, point)
        self.site.delete(found.id)
        text = self._kill_at_hold(
            side, lambda: self.site.server(found.id) is None
        )
        self._await_deletion(found.id)
        return f'{found.id} {point}: {text}'

    def forget_image(self):
        """Use another image instead of one; its copy is deleted in time."""
        at = self.random.randrange(_IMAGES)
        self.images[at] = self.site.make_image(self.random)
        return f'image {at}'

    def fill_pool(self):
        """Boot a server while somebody else has filled the pool."""
        side = self._side()
        with full_pool.filled(side.compute.host):
            server, text, _ = self._request_boot()
            found = self.site.await_task(server, _SECONDS)
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
        self.site.lose(side)
        done = []
        for found in self._servers():
            if found.compute_host != side.name:
                continue
            if self.random.random() < 0.2:
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
            _hold(
                target,
                pool_kills.Point(
                    '',
                    self.random.choice(
                        [
                            'LogicalPartition.create',
                            'VirtualIOServer.update',
                            'ClientNetworkAdapter.create',
                        ]
                    ),
                    1,
                    self.random.choice(('before', 'after')),
                ),
            )
        api.evacuate_server(found.id)
        is_there = self._is_on(found.id, target)
        if with_kill:
            self._kill_at_hold(target, is_there)
            if not is_there():
                self.site.await_task(found.id, _SECONDS)
                api.evacuate_server(found.id)
        self.site.await_true(f'{found.id} is evacuated', is_there, _SECONDS)
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

    def _is_on(self, server, side):
        def is_there():
            found = self.site.server(server)
            return found.compute_host == side.name and not found.task_state

        return is_there


def _hold(side, point):
    """Let an emulator hold a request."""
    side.control.add_fault(
        method=point.method,
        match=point.label,
        nth=point.number,
        phase=point.phase,
        drop=True,
        delay=pool_kills.HOLD_SECONDS,
    )


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
