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

"""Steps of a random walk that move servers, and what an operator does then."""

import dataclasses
import typing

from openstack import exceptions

from tests.cloud import kill_points
from tests.cloud import pool_checks
from tests.cloud import pool_servers
from tests.cloud import stuck_servers
from tests.cloud import walk_steps

_NOTHING = 'nothing'
#: Statuses of servers that can move.
MOVABLE = ('ACTIVE', 'SHUTOFF')


@dataclasses.dataclass(frozen=True)
class Labels:
    """The routes of REST requests that change something, by their labels.

    :ivar here: on the host that a server is on when Nova is asked.
    :ivar there: on the other host.
    """

    here: tuple[str, ...]
    there: tuple[str, ...]


_BUILD = (
    'LogicalPartition.create',
    'VirtualIOServer.update',
    'ClientNetworkAdapter.create',
    'LogicalUnit.create',
    'LogicalPartition.job',
)
_MIGRATE = Labels(('LogicalPartition.job',), _BUILD)
_RESIZE = Labels(
    (
        'LogicalPartition.job',
        'LogicalPartition.update',
        'VirtualIOServer.update',
        'LogicalUnit.delete',
    ),
    _BUILD,
)
_REMOVE = ('LogicalPartition.delete', 'VirtualIOServer.update')
_CONFIRM = Labels(
    ('LogicalUnit.update',),
    (*_REMOVE, 'VolumeGroup.update', 'LogicalUnit.update'),
)
_REVERT = Labels(
    (*_REMOVE, 'LogicalPartition.job', 'LogicalPartition.update'),
    ('LogicalPartition.job', 'LogicalPartition.update'),
)


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to Nova about a move.

    :ivar text: says what it is.
    :ivar found: the server.
    :ivar send: sends it.
    :ivar labels: of the REST requests that it leads to.
    :ivar is_end: whether it ends a move.
    """

    text: str
    found: typing.Any
    send: typing.Callable[[], None]
    labels: Labels
    is_end: bool = False


class MoveSteps(walk_steps.Steps):
    """Resizes, migrations, their confirmations and reverts."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.operator = stuck_servers.Operator(self.site, self._restart)

    def migrate(self):
        """Migrate a server to the other host."""
        return self._take(self._choose_migration())

    def resize(self):
        """Resize a server, on its host or to the other one."""
        return self._take(self._choose_resize())

    def settle(self):
        """Confirm or revert a move."""
        return self._settle(self._any(pool_checks.WAITING))

    def _settle(self, found):
        return self._take(self._choose_end(found))

    def _take(self, request):
        """Send a request that has to succeed, and wait for its end."""
        if request is None:
            return _NOTHING
        request.send()
        self._await(request)
        found = self._await_server(request.found.id)
        wanted = MOVABLE if request.is_end else (pool_checks.WAITING,)
        if found.status not in wanted:
            raise RuntimeError(f'{request.text}: {self._words(found)}')
        self._note_move(request, found)
        return f'{request.text}: {found.status} on {found.compute_host}'

    def _words(self, found):
        """Return why a move has failed or was refused."""
        fault = (found.fault or {}).get('message', '')
        actions = self.site.cloud.last_action(self.site.cloud.server(found.id))
        return f'{found.status}, {fault}, {actions}'

    def refuse_resize(self):
        """Resize a server to a flavor that its disks cannot have."""
        choices = [
            (found, name)
            for found in self._servers(*MOVABLE)
            for name, flavor in pool_servers.FLAVORS.items()
            if not self._expected(found).flavor.can_become(flavor)
        ]
        if not choices:
            return _NOTHING
        found, name = self.random.choice(choices)
        request = self._resize(found, name)
        try:
            request.send()
        except exceptions.BadRequestException as error:
            # Nova's API itself refuses less than the first flavor had.
            if 'smaller than the minimum size' not in str(error):
                raise
            return f'{request.text}: refused by the API'
        self._await(request)
        after = self._await_server(found.id)
        if after.status != found.status:
            raise RuntimeError(f'{request.text}: {self._words(after)}')
        self._await_cycles()
        return f'{request.text}: refused'

    def kill_in_move(self):
        """Kill a nova-compute at a random request of a move."""
        choose = self.random.choice(
            [self._choose_migration, self._choose_resize]
        )
        return self._kill_at_random(choose())

    def kill_in_end(self):
        """Kill a nova-compute in the middle of a confirmation or a revert."""
        return self._kill_at_random(
            self._choose_end(self._any(pool_checks.WAITING))
        )

    def _kill_at_random(self, request):
        if request is None:
            return _NOTHING
        here = self._side_of(request.found)
        side, labels = self.random.choice(
            [
                (here, request.labels.here),
                (self.site.other(here), request.labels.there),
            ]
        )
        return self._kill_in(request, side, self._point(labels))

    def _kill_in(self, request, side, point):
        """Kill a nova-compute at a request, and do what an operator does."""
        kill_points.hold(side.control, point)
        request.send()
        text = self._kill_at_hold(side, lambda: self._has_ended(request))
        self._await(request)
        done = self._recover(request)
        return f'{request.text} {point} on {side.name}: {text}{done}'

    def _choose_migration(self):
        choices = [
            found
            for found in self._servers(*MOVABLE)
            if len(self._gpus_of(found))
            <= self._free_gpus(self.site.other(self._side_of(found)))
        ]
        if not choices:
            return None
        return self._migration(self.random.choice(choices))

    def _migration(self, found):
        return Request(
            f'migrate {found.id}',
            found,
            lambda: self.site.api.compute.migrate_server(found.id),
            _MIGRATE,
        )

    def _choose_resize(self):
        free = max(self._free_gpus(side) for side in self.site.sides)
        choices = [
            (found, name)
            for found in self._servers(*MOVABLE)
            for name, flavor in pool_servers.FLAVORS.items()
            if flavor.gpus <= free
            and name != self._expected(found).name
            and self._expected(found).flavor.can_become(flavor)
        ]
        return self._resize(*self.random.choice(choices)) if choices else None

    def _resize(self, found, name):
        api = self.site.api.compute
        flavor = api.find_flavor(name).id
        return Request(
            f'resize {found.id} to {name}',
            found,
            lambda: api.resize_server(found.id, flavor),
            _RESIZE,
        )

    def _choose_end(self, found):
        return self._end(found, is_confirmed=self.random.random() < 0.5)

    def _end(self, found, *, is_confirmed):
        """Return the request that confirms or reverts a move."""
        api = self.site.api.compute
        if is_confirmed:
            return Request(
                f'confirm {found.id}',
                found,
                lambda: api.confirm_server_resize(found.id),
                _CONFIRM,
                is_end=True,
            )
        return Request(
            f'revert {found.id}',
            found,
            lambda: api.revert_server_resize(found.id),
            _REVERT,
            is_end=True,
        )

    def _expected(self, found):
        return self.site.expected[found.id]

    def _side_of(self, found):
        return self.site.side_of(found.compute_host)

    def _gpus_of(self, found):
        """Return the providers of a server's GPUs."""
        allocations = self.site.cloud.allocations(found.id)
        return [
            provider
            for provider, resources in allocations.items()
            if pool_checks.GPU in resources
        ]

    def _has_ended(self, request):
        found = self.site.server(request.found.id)
        if found.task_state:
            return False
        return not request.is_end or found.status != pool_checks.WAITING

    def _await(self, request):
        """Wait until the move of a request has ended, or is stuck."""
        self.operator.await_rest(request.found.id)

    def _await_server(self, server):
        return self.site.await_task(server, walk_steps.SECONDS)

    def _await_cycles(self):
        """Wait until claims that came to nothing are forgotten."""
        for side in self.site.sides:
            self.site.await_cycle(side)

    def _note_move(self, request, found):
        """Record what a server has to be after a move, or after its end."""
        known = self._expected(found)
        was_waiting = known.before is not None
        if found.status == pool_checks.WAITING:
            if not was_waiting:
                known.before = known.name
                known.was_off = request.found.status == 'SHUTOFF'
        elif was_waiting:
            known.before = None
        known.name = found.flavor.original_name

    def _recover(self, request):
        """Do what an operator does after a move was interrupted.

        :returns: what that was, in words.
        """
        done = []
        found = self.site.server(request.found.id)
        is_waiting = found.status == pool_checks.WAITING
        if (
            request.is_end
            and is_waiting
            and not self.operator.is_stuck(found.id)
        ):
            # An end is asked for again, as the guide says.
            done.append('again')
            self._send_again(request)
        found = self.site.server(found.id)
        if self.operator.is_stuck(found.id) or self._is_broken(found):
            done += self.operator.end(found.id)
            self._expected(found).is_repaired = True
        found = self.site.server(found.id)
        self._note_move(request, found)
        self._note_confirmed()
        self._await_cycles()
        return ''.join(f', {word}' for word in (*done, found.status))

    def _send_again(self, request):
        request.send()
        self.site.await_true(
            f'{request.text} ends',
            lambda: self._has_ended(request),
            walk_steps.SECONDS,
        )
        self._await(request)

    def _reboot(self, found):
        """Reboot a server hard; return it afterwards."""
        self._expected(found).is_repaired = True
        self.site.api.compute.reboot_server(found.id, 'HARD')
        return self._await_server(found.id)

    def _is_broken(self, found):
        """Return whether a server needs a hard reboot, although not stuck."""
        return found.status == 'ERROR' or (
            found.status == 'ACTIVE' and not self.operator.is_running(found.id)
        )

    def _note_confirmed(self):
        """Record the moves that Nova has confirmed at an operator's wish."""
        for found in self._servers(*MOVABLE):
            self._expected(found).before = None
