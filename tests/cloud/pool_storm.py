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

"""Let users act on many servers at once, and see whether all stays right.

    python -m tests.cloud.pool_storm [--seed S] [--rounds N] [--servers N]
                                     [--kills] [--state-dir DIR]

In each round, each server is resized, migrated, confirmed, reverted, rebooted,
stopped, started or deleted, or a new one is booted, all at the same time and
on the same two hosts, pool and devices. The winner of a race gets what there
is, and the others have to be left as they were. With ``--kills``, a
nova-compute is killed in the middle of some rounds. After each round, what
:mod:`.pool_checks` states has to become true.
The exit status is 1 if it does not.
"""

import argparse
import collections
import dataclasses
import functools
import pathlib
import random
import sys
import tempfile
import threading
import time
import typing
from concurrent import futures

from openstack import exceptions

from tests.cloud import pool_checks
from tests.cloud import pool_servers
from tests.cloud import pool_site
from tests.cloud import pool_walk
from tests.cloud import walk_moves

_MIN_AGE = 86400
#: A nova-compute is killed in one of so many rounds, so soon at the latest.
_KILL_IN = 3
_KILL_SECONDS = 8.0
#: What Nova says when another server was faster.
_NO_HOST = 'No valid host'
#: What it says when it could not free what a migration has held.
_LEAKED = 'Failed to delete allocations'


@dataclasses.dataclass(frozen=True)
class Act:
    """What a user does with a server in a round.

    :ivar run: does it, waits for its end, and returns what it was.
    :ivar move: the request that it sends, if it is one about a move.
    """

    run: typing.Callable[[], str]
    move: walk_moves.Request | None = None


class Storm(walk_moves.MoveSteps):
    """Rounds in which all servers are acted on at once.

    :param site: the cloud.
    :param generator: makes all choices.
    :param servers: how many servers there are at the most.
    :param with_kills: whether nova-computes are killed.
    """

    def __init__(self, site, generator, servers, *, with_kills):
        super().__init__(site, generator)
        self.outcomes = collections.Counter()
        self._wanted = servers
        self._with_kills = with_kills
        self._killed = False

    def round(self):
        """Act on all servers; return what was done."""
        self._reboot_those_in_error()
        found = self._servers()
        acts = [self._choose(one) for one in found]
        acts += [
            Act(self._choose_boot()) for _ in range(self._wanted - len(found))
        ]
        self._killed = False
        kill = self._plan_kill()
        with futures.ThreadPoolExecutor(len(acts) + 1) as pool:
            killing = pool.submit(kill)
            done = [pool.submit(act.run) for act in acts]
        texts = [killing.result(), *(one.result() for one in done)]
        texts += self._repair(acts)
        for side in self.site.sides:
            self.site.await_cycle(side)
        return ''.join(f'\n      {text}' for text in texts if text)

    def finish(self):
        """Delete all servers at once; wait until none is left."""
        found = self._servers()
        for one in found:
            self.site.delete(one.id)
        for one in found:
            self._await_deletion(one.id)
        return 'all servers are deleted'

    def _reboot_those_in_error(self):
        """Reboot servers that Nova has set to ERROR after all.

        It does that at the end of a confirmation, if another server's request
        to Placement was faster.
        """
        for found in self._servers('ERROR'):
            words = self._words(found)
            self._require(_LEAKED in words, words)
            self.outcomes['confirm', 'ERROR, rebooted'] += 1
            self._reboot(found)

    def _plan_kill(self):
        if not self._with_kills or self.random.randrange(_KILL_IN):
            return lambda: ''
        side = self._side()
        seconds = self.random.uniform(0, _KILL_SECONDS)

        def kill():
            threading.Event().wait(seconds)
            self._killed = True
            return f'kill of {self._restart(side)} after {seconds:.1f} s'

        return kill

    def _repair(self, acts):
        """Do one by one what an operator does after a kill."""
        if not self._killed:
            return []
        texts = [
            f'afterwards {act.move.found.id}{self._recover(act.move)}'
            for act in acts
            if act.move and self.site.server(act.move.found.id)
        ]
        for found in self._servers('ERROR'):
            self.site.delete(found.id)
            self._await_deletion(found.id)
            texts.append(f'{found.id} was in ERROR, and is deleted')
        return texts

    # Choices

    def _choose(self, found):
        """Choose what happens to a server."""
        if found.status == pool_checks.WAITING:
            kinds = {self._act_end: 7, self._act_delete: 1, self._rest: 2}
        else:
            kinds = {
                self._act_migrate: 4,
                self._act_resize: 4,
                self._act_reboot: 1,
                self._act_power: 1,
                self._act_delete: 1,
                self._rest: 1,
            }
        (kind,) = self.random.choices([*kinds], [*kinds.values()])
        return kind(found)

    def _rest(self, _found):
        return Act(lambda: '')

    def _choose_boot(self):
        image = self.random.choice(self.images)
        flavor = self.random.choice([*pool_servers.FLAVORS])
        return functools.partial(self._boot, flavor, image)

    def _act_migrate(self, found):
        return self._act_move(self._migration(found))

    def _act_resize(self, found):
        names = [
            name
            for name, flavor in pool_servers.FLAVORS.items()
            if name != self._expected(found).name
            and self._expected(found).flavor.can_become(flavor)
        ]
        if not names:
            return self._act_migrate(found)
        return self._act_move(self._resize(found, self.random.choice(names)))

    def _act_end(self, found):
        return self._act_move(self._choose_end(found))

    def _act_move(self, request):
        return Act(functools.partial(self._move, request), request)

    def _act_delete(self, found):
        return Act(functools.partial(self._delete, found))

    def _act_reboot(self, found):
        reboot = self.site.api.compute.reboot_server
        return self._act_ask('reboot', found, lambda: reboot(found.id, 'HARD'))

    def _act_power(self, found):
        api = self.site.api.compute
        if found.status == 'ACTIVE':
            return self._act_ask(
                'stop', found, lambda: api.stop_server(found.id)
            )
        return self._act_ask(
            'start', found, lambda: api.start_server(found.id)
        )

    def _act_ask(self, word, found, send):
        return Act(functools.partial(self._ask, word, found, send))

    # What happens in threads

    def _boot(self, flavor, image):
        server = self.site.boot(flavor, image)
        found = self._await_server(server)
        self._note(found)
        if found.status == 'ACTIVE':
            return self._count('boot', f'{server}, {flavor}', found.status)
        fault = (found.fault or {}).get('message', '')
        self._require(_NO_HOST in fault, f'boot {server}: {fault}')
        self.site.delete(server)
        self._await_deletion(server)
        return self._count('boot', f'{server}, {flavor}', 'no host')

    def _delete(self, found):
        try:
            self.site.delete(found.id)
        except exceptions.HttpException:
            # Nova confirms a move first, and the source does not answer.
            if not self._killed or found.status != pool_checks.WAITING:
                raise
            self._await_server(found.id)
            self.site.delete(found.id)
        self._await_deletion(found.id)
        return self._count('delete', found.id, 'done')

    def _ask(self, word, found, send):
        send()
        after = self._await_server(found.id)
        self._require(
            after.status in walk_moves.MOVABLE,
            f'{word} {found.id}: {self._words(after)}',
        )
        return self._count(word, found.id, after.status)

    def _move(self, request):
        word = request.text.partition(' ')[0]
        request.send()
        self._await(request)
        found = self.site.server(request.found.id)
        if self._killed:
            return self._count(word, request.text, f'{found.status} (kill)')
        self._note_move(request, found)
        words = f'{request.text}: {self._words(found)}'
        if request.is_end:
            self._require(found.status in walk_moves.MOVABLE, words)
        elif found.status != pool_checks.WAITING:
            self._require(found.status == request.found.status, words)
            return self._count(word, request.text, self._reason(found))
        return self._count(word, request.text, found.status)

    def _reason(self, found):
        """Return why a server was not moved, as its user sees it."""
        path = f'/servers/{found.id}/os-instance-actions'
        api = self.site.api.compute
        (last, *_) = api.get(path).json()['instanceActions']
        answer = api.get(f'{path}/{last["request_id"]}', microversion='2.84')
        details = {
            event['details']
            for event in answer.json()['instanceAction']['events']
            if event['details']
        }
        self._require(details, f'{found.id}: {last["action"]} says nothing')
        return '; '.join(sorted(details))

    def _require(self, is_right, words):
        """Raise an error if a request did not end as it has to."""
        if not is_right and not self._killed:
            raise RuntimeError(words)

    def _count(self, word, text, result):
        self.outcomes[word, result] += 1
        return f'{word}: {text}: {result}'


def main():
    """Run the rounds, and print each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--servers', type=int, default=8)
    parser.add_argument('--kills', action='store_true')
    parser.add_argument('--state-dir', type=pathlib.Path)
    arguments = parser.parse_args()
    state = arguments.state_dir or pathlib.Path(tempfile.mkdtemp()) / 'cloud'
    done, wrong = 0, False
    with pool_site.running(state, _MIN_AGE) as site:
        storm = Storm(
            site,
            random.Random(arguments.seed),  # noqa: S311
            arguments.servers,
            with_kills=arguments.kills,
        )
        began = time.monotonic()
        while done < arguments.rounds and not wrong:
            done += 1
            wrong = not pool_walk.take(site, done, storm.round)
        wrong = wrong or not pool_walk.take(site, 'finish', storm.finish)
        seconds = time.monotonic() - began
    for (word, result), count in sorted(storm.outcomes.items()):
        print(f'{count:5} {word}: {result}')
    print(
        f'seed {arguments.seed}: {done} rounds, {storm.kills} kills, '
        f'{"WRONG" if wrong else "all ok"}, {seconds:.0f} s; the logs are in '
        f'{state / "log"}'
    )
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
