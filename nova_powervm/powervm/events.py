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

"""Listens to the host's event stream, in a thread of its own.

The only purpose of events is to notice soon that an LPAR has stopped. The
listener of pypowervm is not used, because its thread delays the end of the
process.
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

#: Types whose EventData is the URI of a resource that changed.
_RESOURCE_EVENTS = (_EventType.MODIFY_URI, _EventType.INVALID_URI)
#: Types that stop no LPAR.
_IRRELEVANT = (
    _EventType.ADD_URI,
    _EventType.CUSTOM_CLIENT_EVENT,
    _EventType.DELETE_URI,
    _EventType.HIDDEN_URI,
    _EventType.VISIBLE_URI,
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
        lpar_uuids: Collection[str] | None,
        wait: Callable[[float], bool],
    ) -> None:
        """Look at LPARs whose states may have changed.

        :param lpar_uuids: Upper-case uuids; None for all LPARs of the host.
        :param wait: Waits for a number of seconds; returns True at once when
            the service stops.
        """


def poll(adapter: pvm_adapter.Adapter, client: str) -> list[event.Event]:
    """Poll for events once.

    :param client: The name of the queue, which the server makes, and drops
        some time after the last poll.
    """
    answer = adapter.read(
        event.Event.schema_type,
        xag=[],
        add_qp=[
            ('QUEUE_CLIENTKEY_METHOD', 'USE_APPLICATIONID'),
            ('QUEUE_APPLICATIONID', client),
        ],
        timeout=_POLL_SECONDS,
    )
    return list(event.Event.wrap(answer))


def changed_lpars(events: Sequence[event.Event]) -> frozenset[str] | None:
    """Find the LPARs whose states may have changed.

    :param events: The answer to one poll (REST element ``Event``).
    :returns: Upper-case uuids; None for all LPARs: the server has started a
        new queue, has lost events or cleared its cache, or has sent an
        unknown event.
    """
    lpar_uuids = set()
    for item in events:
        if item.etype in _IRRELEVANT:
            continue
        if item.etype not in _RESOURCE_EVENTS:
            return None
        # Nouns and uuids alternate in a path.
        *_, noun, identifier = ['', '', *_path(item.data).split('/')]
        if noun == _LPAR and _STATE in (item.detail or _STATE):
            lpar_uuids.add(identifier.upper())
    return frozenset(lpar_uuids)


def _path(uri: str | None) -> str:
    return (uri or '').partition('?')[0].rstrip('/')


class Listener:
    """Polls for events, and has a watcher check the LPARs that they name.

    :param adapter: An adapter with a session that has logged on.
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
        """Start to listen."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread, which first gets the answer to its current poll.

        If the server does not answer, this waits for a few seconds only.
        """
        self._stopping.set()
        if self._thread.ident is None:
            return
        if self._polling:
            self._wake()
        self._thread.join(_STOP_SECONDS)

    def _wake(self) -> None:
        """Send a custom event, which makes the server answer the poll."""
        try:
            new = event.Event.bld(self._adapter, 'nova-powervm', self._client)
            new.create(timeout=session.PARTING_SECONDS)
        except pvm.Error as error:
            LOG.debug('The last poll for events ends: %s', error)

    def _run(self) -> None:
        pause = _RETRY_FIRST
        # Events may have been missed, so all LPARs are to be checked.
        missed = False
        while not self._stopping.is_set():
            try:
                events = self._poll()
                lpar_uuids = None if missed else changed_lpars(events)
                if lpar_uuids is None or lpar_uuids:
                    self._watcher.check(lpar_uuids, self._stopping.wait)
            except Exception as error:
                # The next cycle logs on again if the session has ended.
                if not missed and not self._stopping.is_set():
                    LOG.warning(
                        'The event stream of the PowerVM host is broken: '
                        "%(error)s. Until it is back, only Nova's periodic "
                        'task ([DEFAULT]sync_power_state_interval) notices '
                        'LPARs that stop by themselves.',
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
                # The server may not hold polls.
                self._stopping.wait(_PAUSE)

    def _poll(self) -> list[event.Event]:
        self._polling = True
        try:
            return poll(self._adapter, self._client)
        finally:
            self._polling = False
