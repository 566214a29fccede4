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

"""Operations on a shared pool in which nova-compute is killed."""

import collections
import dataclasses

from tests.cloud import pool_checks
from tests.cloud import pool_site

SECONDS = 120.0
#: For how many seconds a request is held. Nothing waits for its end.
HOLD_SECONDS = 20.0
_IGNORED = ('Event.', 'Logon.', 'control')


@dataclasses.dataclass(frozen=True)
class Point:
    """Where nova-compute is killed.

    :ivar label: of the request's route.
    :ivar number: which of those requests it is, 1 for the first.
    :ivar phase: ``before`` or ``after`` it is handled.
    :ivar side: the index of the host that gets it, among those of the site.
    """

    method: str
    label: str
    number: int
    phase: str
    side: int = 0

    def __str__(self):
        return f'{self.phase} {self.method} {self.label} {self.number}'


def list_points(journal, side=0):
    """Return the points at which an operation with a journal can be killed.

    A kill after a request that only reads is one before the next request.

    :param side: the index of the host that has the journal.
    """
    counts = collections.Counter()
    points = []
    for record in journal:
        if record['label'].startswith(_IGNORED):
            continue
        key = record['method'], record['label']
        counts[key] += 1
        phases = ('before',) if key[0] == 'GET' else ('before', 'after')
        points += [Point(*key, counts[key], phase, side) for phase in phases]
    return points


def hold(control, point):
    """Let an emulator hold a request."""
    control.add_fault(
        method=point.method,
        match=point.label,
        nth=point.number,
        phase=point.phase,
        drop=True,
        delay=HOLD_SECONDS,
    )


class Operations:
    """The operations, each of which is run with a kill or without one.

    :param site: the cloud.
    :ivar faults: what is wrong in this case, in words.
    :ivar is_reached: whether nova-compute was killed in it.
    :ivar points: where the last operation without a kill can be killed.
    """

    def __init__(self, site):
        self.site = site
        self.first, self.second = site.sides
        self.image = site.make_image()
        self.faults = []
        self.is_reached = False
        self.points = []

    def cold_boot(self, point):
        """Boot a server from an image that is not in the pool."""
        self._boot(point, self.site.make_image())

    def boot(self, point):
        """Boot a server from an image in the pool."""
        self._boot(point, self.image)

    def _boot(self, point, image):
        server = self._killing(
            self.first,
            point,
            lambda: self.site.boot(pool_site.GPU, image, self.first),
        )
        found = self.site.await_task(server, SECONDS)
        if found.status not in ('ACTIVE', 'ERROR'):
            self.faults.append(f'it is {found.status}')
        self.site.expected[server].was_whole = found.status == 'ACTIVE'
        self._finish(server)

    def delete(self, point):
        """Delete a server."""
        server = self._make_server()
        self._killing(self.first, point, lambda: self.site.delete(server))
        self._finish(server, has_rest=False)

    def evacuate(self, point):
        """Evacuate a server; evacuate it again after nova-compute's end."""
        site, server = self.site, self._make_server()
        site.write(server)
        site.await_cycle(self.second)
        site.lose(self.first)
        self._killing(
            self.second,
            point,
            lambda: site.api.compute.evacuate_server(server),
            is_done=lambda: self._is_evacuated(server),
        )
        if not self._is_evacuated(server):
            self._evacuate_again(server)
        found = site.await_task(server, SECONDS)
        if found.compute_host != self.second.name:
            self.faults.append(
                f'second evacuation: {found.status}, {found.fault}'
            )
        elif found.status == 'SHUTOFF':
            site.api.compute.start_server(server)
            site.await_task(server)
        self._note_faults('evacuated')
        site.regain(self.first)
        self._finish(server)

    def _evacuate_again(self, server):
        """Evacuate a server again, whose evacuation has failed."""
        found = self.site.await_task(server, SECONDS)
        if found.status != 'ERROR':
            self.faults.append(f'it is {found.status} after the kill')
        self._note_faults('after the kill')
        self.site.api.compute.evacuate_server(server)
        # Nova ends the task before it records the new host.
        self.site.await_true(
            'evacuated again',
            lambda: self._is_evacuated(server) or self._has_failed(server),
            SECONDS,
        )

    def _has_failed(self, server):
        found = self.site.server(server)
        return found.status == 'ERROR' and not found.task_state

    def _is_evacuated(self, server):
        found = self.site.server(server)
        return found.compute_host == self.second.name and not found.task_state

    def _make_server(self):
        server = self.site.boot(pool_site.GPU, self.image, self.first)
        found = self.site.await_task(server, SECONDS)
        if found.status != 'ACTIVE':
            raise RuntimeError(f'no server: {found.fault}')
        self.site.expected[server].was_whole = True
        return server

    def _killing(self, side, point, run, is_done=None):
        """Run something, and kill a nova-compute in the middle.

        :param is_done: Tells that the point was not reached; by default a
            server that has no task or is gone.
        """
        control = side.control
        control.clear_journal()
        if point:
            hold(control, point)
        server = run()
        done = is_done or (lambda: self._is_idle(server))

        def is_reached():
            faults = control.faults()
            return [bool(faults)] if not faults or faults[0]['applied'] else []

        self.site.await_true(
            'the end of the operation or the request',
            lambda: (point and is_reached()) or done(),
            SECONDS,
        )
        self.is_reached = bool(point) and bool(is_reached())
        control.clear_faults()
        if self.is_reached:
            self.site.kill(side)
            self.site.start(side)
        elif not point:
            self.points = list_points(
                control.journal(), self.site.sides.index(side)
            )
        return server

    def _is_idle(self, server):
        found = server and self.site.server(server)
        if server is None:
            return not self._deleting()
        return found is None or (
            found.status != 'BUILD' and not found.task_state
        )

    def _deleting(self):
        return (
            any(
                found.task_state == 'deleting'
                for found in self.site.api.compute.servers(all_projects=True)
            )
            or not self._all_gone()
        )

    def _all_gone(self):
        return not list(self.site.api.compute.servers(all_projects=True))

    def _note_faults(self, when):
        self.faults += [
            f'{when}: {fault}' for fault in pool_checks.await_rest(self.site)
        ]

    def _finish(self, server, *, has_rest=True):
        """Check, delete the server, and check again."""
        if has_rest:
            self._note_faults('at rest')
            self.site.delete(server)
        self.site.await_true(
            f'{server} is deleted',
            lambda: self.site.server(server) is None,
            SECONDS,
        )
        self._note_faults('deleted')

    def recover(self):
        """Make the cloud usable after a case that failed."""
        for side in self.site.sides:
            side.control.clear_faults()
            if not side.has_power:
                self.site.regain(side)
            elif not side.is_up:
                self.site.start(side)
        for found in self.site.api.compute.servers(all_projects=True):
            if found.task_state:
                self.site.api.compute.reset_server_state(found.id, 'error')
            self.site.delete(found.id)
        self.site.await_true('no servers', self._all_gone, SECONDS)
