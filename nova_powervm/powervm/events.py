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

"""The host's event stream, heard in a thread of its own.

Events serve one purpose: to notice soon that an LPAR has stopped. pypowervm
has a listener, too, but its thread keeps a stopping process waiting.
"""

import threading
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Protocol

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import event

from nova_powervm.powervm import session

LOG = logging.getLogger(__name__)

_EventType = event.EventType

#: Types whose EventData is the URI of a resource that appeared or changed.
_RESOURCE_EVENTS = frozenset(
    (
        _EventType.ADD_URI,
        _EventType.MODIFY_URI,
        _EventType.INVALID_URI,
        _EventType.VISIBLE_URI,
    )
)
#: Types that stop no LPAR.
_IRRELEVANT = frozenset(
    (
        _EventType.CUSTOM_CLIENT_EVENT,
        _EventType.DELETE_URI,
        _EventType.HIDDEN_URI,
    )
)
_LPAR = 'LogicalPartition'
_STATE = 'PartitionState'

#: Seconds to wait for the answer to a poll. The server answers after about
#: ten seconds, with or without events.
_POLL_SECONDS = 45.0
#: Seconds between two polls that the server did not hold.
_PAUSE = 1.0
_RETRY_FIRST = 5.0
_RETRY_LONGEST = 60.0
#: Seconds that a stopping service waits for the poll under way, which is
#: answered at once if the server can be told. If not, the daemon thread ends
#: with the process.
_STOP_SECONDS = 3.0


class Watcher(Protocol):
    """Looks for LPARs that have stopped."""

    def check(
        self,
        lpars: Collection[str] | None,
        wait: Callable[[float], bool],
    ) -> None:
        """Look at LPARs whose states may have changed.

        :param lpars: Upper-case uuids; None for all LPARs of the host.
        :param wait: Waits for so many seconds; returns True at once when the
            service stops.
        """


def changed_lpars(events: Sequence[event.Event]) -> frozenset[str] | None:
    """Find the LPARs whose states may have changed.

    :param events: The answer to one poll (REST element ``Event``).
    :returns: Upper-case uuids; None for any LPAR: the server has begun a new
        queue, lost events or cleared its cache, or has sent something unknown.
    """
    found = set()
    for item in events:
        if item.etype in _IRRELEVANT:
            continue
        if item.etype not in _RESOURCE_EVENTS:
            return None
        # Nouns and uuids take turns in a path.
        *_, noun, identifier = ['', '', *_path(item.data).split('/')]
        if noun == _LPAR and _STATE in (item.detail or _STATE):
            found.add(identifier.upper())
    return frozenset(found)


def _path(uri: str | None) -> str:
    return (uri or '').partition('?')[0].rstrip('/')


class Listener:
    """Polls for events and has a watcher look at the LPARs that they name.

    :param adapter: A logged-on adapter of ours.
    :param watcher: Looks for LPARs that have stopped.
    """

    def __init__(self, adapter: pvm_adapter.Adapter, watcher: Watcher) -> None:
        self._adapter = adapter
        self._watcher = watcher
        # The server keeps a queue for each of these.
        self._client = uuid.uuid4().hex
        self._stopping = threading.Event()
        self._polling = False
        self._thread = threading.Thread(
            target=self._run, name='powervm-events', daemon=True
        )

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the poll that it waits in is answered first.

        A server that does not answer is waited for for some seconds only.
        """
        self._stopping.set()
        if self._polling:
            self._wake()
        self._thread.join(_STOP_SECONDS)

    def _wake(self) -> None:
        """Have the server answer the poll: it tells everybody of this."""
        try:
            event.Event.bld(
                self._adapter, 'nova-powervm', self._client
            ).create(timeout=session.PARTING_SECONDS)
        except pvm.Error as error:
            LOG.debug('The last poll for events ends by itself: %s', error)

    def _run(self) -> None:
        pause = _RETRY_FIRST
        # What a lost connection may have missed is looked at afterwards.
        missed = False
        while not self._stopping.is_set():
            try:
                events = self._poll()
                lpars = None if missed else changed_lpars(events)
                if lpars is None or lpars:
                    self._watcher.check(lpars, self._stopping.wait)
            except Exception as error:
                # A session that has ended is opened again by the next cycle.
                if not missed and not self._stopping.is_set():
                    LOG.warning(
                        'The event stream of the PowerVM host is broken: '
                        '%(error)s. Until it is back, an LPAR that stops by '
                        'itself is noticed by the periodic task of Nova only '
                        '([DEFAULT]sync_power_state_interval).',
                        {'error': error},
                    )
                missed = True
                self._stopping.wait(pause)
                pause = min(2 * pause, _RETRY_LONGEST)
                continue
            if missed:
                LOG.info('The event stream of the PowerVM host is back.')
            missed, pause = False, _RETRY_FIRST
            if not events:
                # Against a server that does not hold the poll.
                self._stopping.wait(_PAUSE)

    def _poll(self) -> list[event.Event]:
        self._polling = True
        try:
            answer = self._adapter.read(
                event.Event.schema_type,
                xag=[],
                add_qp=[
                    ('QUEUE_CLIENTKEY_METHOD', 'USE_APPLICATIONID'),
                    ('QUEUE_APPLICATIONID', self._client),
                ],
                timeout=_POLL_SECONDS,
            )
        finally:
            self._polling = False
        return list(event.Event.wrap(answer))
