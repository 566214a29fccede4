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

"""Which moves only Nova's automatic confirmation ends, and what else it does.

A migration whose server was taken out of VERIFY_RESIZE by hand stays in
status "finished", and no command ends it. With [DEFAULT]resize_confirm_window,
nova-compute sets it to "error", but confirms all servers that have waited as
long.
"""

import dataclasses
import datetime
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.tool.rules import left_moves

#: How much later nova-compute may look than the command, after its restart.
DELAY = datetime.timedelta(minutes=10)


@dataclasses.dataclass(frozen=True, slots=True)
class FinishedMove:
    """A migration to this host in status ``finished``.

    :param uuid: Its uuid.
    :param server: Uuid of the server.
    :param since: When it got the status; Nova counts the window from then.
    """

    uuid: str
    server: str
    since: datetime.datetime


def describe_windows(
    moves: Collection[FinishedMove],
    servers: Mapping[str, left_moves.Server | None],
    now: datetime.datetime,
) -> Iterator[str]:
    """Say how to end each move that waits in vain, and what it would confirm.

    :param servers: Uuid to server; None for one that Nova does not have.
    """
    waiting: list[FinishedMove] = []
    stuck: list[FinishedMove] = []
    for move in sorted(moves, key=lambda move: move.since):
        server = servers[move.server]
        if server is None or server.task:
            continue
        awaits_user = server.status == left_moves.AWAITS_USER
        (waiting if awaits_user else stuck).append(move)
    for move in stuck:
        window = int((now - move.since).total_seconds())
        yield (
            f'Migration {move.uuid} of server {move.server} stays finished. '
            'To end it, on this host only, set '
            f'[DEFAULT]resize_confirm_window = {window}, restart '
            'nova-compute, wait until its status is error, and undo both.'
        )
        confirmed = [
            other.server
            for other in waiting
            if other.since <= move.since + DELAY
        ]
        yield (
            f'This also confirms: {", ".join(confirmed) or "no other server"}'
        )
    if not stuck:
        yield 'Every finished migration to this host has a server that waits.'
