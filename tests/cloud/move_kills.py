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

"""Moves in which nova-compute is killed on one of their hosts."""

import contextlib
import dataclasses
import typing

from tests.cloud import kill_operations
from tests.cloud import pool_checks
from tests.cloud import pool_site
from tests.cloud import stuck_servers

_MOVABLE = ('ACTIVE', 'SHUTOFF')


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to Nova about a move.

    :ivar server: the server's id.
    :ivar send: sends it.
    :ivar is_end: whether it ends a move.
    """

    server: str
    send: typing.Callable[[], None]
    is_end: bool = False


class MoveOperations(kill_operations.Operations):
    """All operations; those of moves can be killed on both hosts.

    :param site: the cloud.
    """

    def __init__(self, site):
        super().__init__(site)
        self._api = site.api.compute
        self._operator = stuck_servers.Operator(site, self._restart)
        self._is_confirmed = False

    def migrate(self, point):
        """Migrate a server to the second host."""
        server = self._make_movable()
        self._kill_in(
            point, Request(server, lambda: self._api.migrate_server(server))
        )

    def resize(self, point):
        """Resize a server, which moves to the second host."""
        self._resize(point, self.second)

    def resize_in_place(self, point):
        """Resize a server on its host."""
        self._resize(point, self.first)

    def confirm(self, point):
        """Confirm a resize to the second host."""
        self._end(point, is_confirmed=True)

    def revert(self, point):
        """Revert a resize to the second host."""
        self._end(point, is_confirmed=False)

    def _resize(self, point, side):
        request = self._resizing(self._make_movable())
        with self._only(side):
            self._kill_in(point, request)

    def _end(self, point, *, is_confirmed):
        request = self._resizing(self._make_movable())
        with self._only(self.second):
            self._take(request)
        self._kill_in(
            point, self._ending(request.server, is_confirmed=is_confirmed)
        )

    def _make_movable(self):
        # Until then, Nova counts the devices of the last server as taken.
        self._await_cycles()
        server = self._make_server()
        self.site.write(server)
        return server

    @contextlib.contextmanager
    def _only(self, side):
        """Let the scheduler choose one host within the context."""
        (other,) = self._api.services(
            binary='nova-compute', host=self.site.other(side).name
        )
        self._api.disable_service(other)
        try:
            yield
        finally:
            self._api.enable_service(other)

    # Requests

    def _resizing(self, server):
        flavor = self._api.find_flavor(pool_site.GPUS).id
        return Request(server, lambda: self._api.resize_server(server, flavor))

    def _ending(self, server, *, is_confirmed):
        """Return the request that confirms or reverts a move."""
        end = (
            self._api.confirm_server_resize
            if is_confirmed
            else self._api.revert_server_resize
        )
        return Request(server, lambda: end(server), is_end=True)

    def _take(self, request):
        """Send a request that has to succeed, and wait for its end."""
        request.send()
        self._operator.await_rest(request.server)
        found = self.site.await_task(request.server)
        wanted = _MOVABLE if request.is_end else (pool_checks.WAITING,)
        if found.status not in wanted:
            actions = self.site.cloud.last_action(
                self.site.cloud.server(found.id)
            )
            raise RuntimeError(f'{found.status}, {found.fault}, {actions}')
        self._note_move(found)

    def _has_ended(self, request):
        found = self.site.server(request.server)
        if found.task_state:
            return False
        return not request.is_end or found.status != pool_checks.WAITING

    # Kills, and what an operator does then

    def _kill_in(self, point, request):
        for side in self.site.sides:
            side.control.clear_journal()
        if point is None:
            self._take(request)
            self.points = [
                found
                for number, side in enumerate(self.site.sides)
                for found in kill_operations.list_points(
                    side.control.journal(), number
                )
            ]
        else:
            self._killing(
                self.site.sides[point.side],
                point,
                request.send,
                is_done=lambda: self._has_ended(request),
            )
            self._operator.await_rest(request.server)
            self._recover(request)
        self._note_faults('at rest')
        if self._is_waiting(request.server):
            self._is_confirmed = not self._is_confirmed
            self._take(
                self._ending(request.server, is_confirmed=self._is_confirmed)
            )
            self._note_faults('settled')
        self.site.delete(request.server)
        self._finish(request.server, has_rest=False)

    def _recover(self, request):
        """Do what an operator does after a move was interrupted."""
        server = request.server
        is_stuck = self._operator.is_stuck(server)
        if request.is_end and self._is_waiting(server) and not is_stuck:
            # An end is asked for again, as the page says.
            request.send()
            self.site.await_true(
                f'the end of the move of {server}',
                lambda: self._has_ended(request),
                kill_operations.SECONDS,
            )
            self._operator.await_rest(server)
        if self._operator.is_stuck(server) or self._is_broken(server):
            self._operator.end(server)
            self.site.expected[server].is_repaired = True
        self._note_move(self.site.server(server))
        self._await_cycles()

    def _is_broken(self, server):
        """Return whether a server needs a hard reboot, although not stuck."""
        found = self.site.server(server)
        return found.status == 'ERROR' or (
            found.status == 'ACTIVE' and not self._operator.is_running(server)
        )

    def _is_waiting(self, server):
        return self.site.server(server).status == pool_checks.WAITING

    def _note_move(self, found):
        """Record what a server has to be after a move, or after its end."""
        known = self.site.expected[found.id]
        is_waiting = found.status == pool_checks.WAITING
        known.before = (known.before or known.name) if is_waiting else None
        known.name = found.flavor.original_name

    def _restart(self, side):
        self.site.kill(side)
        self.site.start(side)
        return side.name

    def _await_cycles(self):
        """Wait until claims that came to nothing are forgotten."""
        for side in self.site.sides:
            self.site.await_cycle(side)
