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
import random

from tests.cloud import kill_operations
from tests.cloud import kill_points
from tests.cloud import pool_checks
from tests.cloud import pool_servers
from tests.cloud import walk_moves
from tests.cloud import walk_steps


class _Moves(walk_moves.MoveSteps):
    """Moves one server, and recovers it as an operator does."""

    def request_migration(self, found):
        """Return the request that migrates a server."""
        return self._migration(found)

    def request_resize(self, found):
        """Return the request that resizes a server."""
        return self._resize(found, pool_servers.GPUS)

    def request_end(self, found, *, is_confirmed):
        """Return the request that ends the move of a server."""
        return self._end(found, is_confirmed=is_confirmed)

    def run(self, request, point):
        """Send a request; return whether nova-compute was killed meanwhile.

        :param point: where; None to kill none.
        """
        if point is None:
            self._take(request)
            return False
        text = self._kill_in(request, self.site.sides[point.side], point)
        return walk_steps.MISSED not in text

    def settle_if_waiting(self, server):
        """Confirm or revert a move that waits for it; say whether it did."""
        found = self.site.server(server)
        if found.status != pool_checks.WAITING:
            return False
        self._settle(found)
        return True


class MoveOperations(kill_operations.Operations):
    """All operations; those of moves can be killed on both hosts.

    :param site: the cloud.
    """

    def __init__(self, site):
        super().__init__(site)
        self._moves = _Moves(site, random.Random(0))  # noqa: S311

    def migrate(self, point):
        """Migrate a server to the second host."""
        found = self._make_movable()
        self._kill_in(point, self._moves.request_migration(found))

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
        request = self._moves.request_resize(self._make_movable())
        with self._only(side):
            self._kill_in(point, request)

    def _end(self, point, *, is_confirmed):
        request = self._moves.request_resize(self._make_movable())
        with self._only(self.second):
            self._moves.run(request, None)
        found = self.site.server(request.found.id)
        self._kill_in(
            point, self._moves.request_end(found, is_confirmed=is_confirmed)
        )

    def _make_movable(self):
        # Until then, Nova counts the devices of the last server as taken.
        for side in self.site.sides:
            self.site.await_cycle(side)
        server = self._make_server()
        self.site.write(server)
        return self.site.server(server)

    def _kill_in(self, point, request):
        for side in self.site.sides:
            side.control.clear_journal()
        self.is_reached = self._moves.run(request, point)
        if point is None:
            self.points = [
                found
                for number, side in enumerate(self.site.sides)
                for found in kill_points.list_points(
                    side.control.journal(), number
                )
            ]
        server = request.found.id
        self._note_faults('at rest')
        if self._moves.settle_if_waiting(server):
            self._note_faults('settled')
        self.site.delete(server)
        self._finish(server, has_rest=False)

    @contextlib.contextmanager
    def _only(self, side):
        """Let the scheduler choose one host within the context."""
        (other,) = self.site.api.compute.services(
            binary='nova-compute', host=self.site.other(side).name
        )
        self.site.api.compute.disable_service(other)
        try:
            yield
        finally:
            self.site.api.compute.enable_service(other)
