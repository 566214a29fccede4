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

"""What an operator does who follows the page "Stuck servers"."""

import contextlib
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse

from pypowervm import adapter as pvm_adapter
from pypowervm.tasks import power
from pypowervm.wrappers import logical_partition

from demo import config
from nova_powervm.lpar import partition
from tests.cloud import pool_checks

_SECONDS = 120.0
#: How long nothing may change before a server is stuck: a bit longer than
#: one nova-compute waits for an answer of the other.
_STILL = 30.0
#: Statuses of a migration that has ended.
_ENDED = ('confirmed', 'reverted', 'error', 'failed', 'done')
_HARD_REBOOTS = 3
_DELETE = re.compile(r'openstack resource provider allocation delete (\S+)')


class Operator:
    """Ends interrupted moves.

    :param site: the cloud.
    :param restart: restarts the nova-compute of a side.
    """

    def __init__(self, site, restart):
        self._site = site
        self._restart = restart

    def await_rest(self, server):
        """Wait until the move of a server has ended, or it is stuck."""
        seen, since = None, time.monotonic()

        def is_still():
            nonlocal seen, since
            found, move = self._site.server(server), self._last_move(server)
            state = (
                *(found.status, found.task_state, found.compute_host),
                *(move and (move.id, move.status),),
            )
            if state != seen:
                seen, since = state, time.monotonic()
            return (
                not self._is_stuck(found, move)
                or time.monotonic() > since + _STILL
            )

        self._site.await_true(
            f'the move of {server} is at rest', is_still, _SECONDS
        )

    def is_stuck(self, server):
        """Return whether Nova cannot go on with a server."""
        return self._is_stuck(
            self._site.server(server), self._last_move(server)
        )

    def _last_move(self, server):
        return self._site.last_move(server)

    def _is_stuck(self, found, move):
        if found.task_state or move is None:
            return bool(found.task_state)
        if found.status == 'ERROR':
            return False
        is_waiting = found.status == pool_checks.WAITING
        is_finished = move.status == 'finished'
        return is_waiting != is_finished or not (
            is_finished or move.status in _ENDED
        )

    def end(self, server):
        """Follow the page with a server; return what was done, in words."""
        done = []
        for _ in range(_HARD_REBOOTS):
            self._reboot(server, done)
            reasons = self._refusals(server)
            if 'recorded on the wrong host' in reasons:
                for side in self._site.sides:
                    done.append(f'restarted {self._restart(side)}')
            elif 'in use by a running LPAR' in reasons:
                self._clear_wrong_side(server, done)
            else:
                break
        self._clear_wrong_side(server, done)
        self._delete_allocations(done)
        self._end_finished(server, done)
        return done

    def _reboot(self, server, done):
        """Set the state of a server, and reboot it hard."""
        compute = self._site.api.compute
        compute.reset_server_state(server, 'active')
        compute.reboot_server(server, 'HARD')
        done.append('rebooted')
        self._site.await_task(server, _SECONDS)

    def _refusals(self, server):
        """Return what the events of a server's last action say."""
        compute = self._site.api.compute
        last = next(iter(compute.server_actions(server)))
        found = compute.get_server_action(last, server)
        return ' '.join(str(event) for event in found.events)

    def _clear_wrong_side(self, server, done):
        """Remove the LPAR on the host that a server is not on, if any.

        The driver has to have named it: if it has slots in the next cycle,
        otherwise when nova-compute starts. The next start removes what is
        left of it.
        """
        found = self._site.server(server)
        side = self._site.other(self._site.side_of(found.compute_host))
        lpar = self._lpar(side, server)
        if lpar is None:
            return
        if not lpar['slots']:
            self._restart(side)
        words = f'is on the wrong side: instance {server}'
        log = self._site.stack.log / f'{side.compute.service}.log'
        self._site.await_true(
            f'{log} says that the LPAR of {server} {words}',
            lambda: words in log.read_text(),
        )
        _remove_lpar(side.compute.host, partition.lpar_uuid(server))
        self._restart(side)
        done.append('removed from the wrong side')

    def is_running(self, server):
        """Return whether a server has a running LPAR on its host."""
        found = self._site.server(server)
        lpar = self._lpar(self._site.side_of(found.compute_host), server)
        return lpar is not None and lpar['state'] == 'running'

    def _lpar(self, side, server):
        (system,) = side.control.state()['systems']
        uuid = partition.lpar_uuid(server)
        return next(
            (one for one in system['partitions'] if one['uuid'] == uuid), None
        )

    def _delete_allocations(self, done):
        """Run the commands that ``nova-powervm-inventory show`` prints."""
        tool = pathlib.Path(sys.executable).with_name('nova-powervm-inventory')
        for side in self._site.sides:
            file = config.compute_file(self._site.stack, side.compute)
            shown = subprocess.run(
                [tool, '--config-file', file, 'show'],
                check=True,
                capture_output=True,
                text=True,
            )
            for consumer in sorted({*_DELETE.findall(shown.stderr)}):
                answer = self._site.api.placement.delete(
                    f'/allocations/{consumer}'
                )
                answer.raise_for_status()
                done.append('deleted allocations')

    def _end_finished(self, server, done):
        """Let Nova end a migration that waits for a decision in vain."""
        found, move = self._site.server(server), self._last_move(server)
        if found.status == pool_checks.WAITING or move.status != 'finished':
            return
        side = self._site.side_of(move.dest_compute)
        with self._confirming(side):
            self._site.await_true(
                f'the move of {server} has ended',
                lambda: self._last_move(server).status != 'finished',
                _SECONDS,
            )
        done.append('ended the migration')

    @contextlib.contextmanager
    def _confirming(self, side):
        """Let Nova confirm moves to a host within the context."""
        file = config.compute_file(self._site.stack, side.compute)
        text = file.read_text()
        file.write_text(f'{text}\n[DEFAULT]\nresize_confirm_window = 1\n')
        self._restart(side)
        try:
            yield
        finally:
            file.write_text(text)
            self._restart(side)


def _log_on(rest):
    """Return pypowervm's adapter for the REST API of a host.

    :param rest: the API's address, and its user.
    """
    address = urllib.parse.urlsplit(rest.url)
    session = pvm_adapter.Session(
        address.hostname,
        rest.username,
        rest.password,
        protocol='http',
        port=address.port,
    )
    return pvm_adapter.Adapter(session)


def _remove_lpar(rest, uuid):
    """Power an LPAR off and delete it, as ``pvmctl lpar`` does."""
    lpar = logical_partition.LPAR.get(_log_on(rest), uuid=uuid)
    if lpar.state != 'not activated':
        power.power_off(lpar, None, force_immediate=power.Force.TRUE)
        lpar = lpar.refresh()
    lpar.delete()
