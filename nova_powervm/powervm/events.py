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

"""The host's event stream, in a thread of its own.

pypowervm has a listener for it. That can't be used to save requests: it hides
a failed poll from its handlers, so that a broken stream looks like a quiet
one, and its thread keeps a stopping process waiting.
"""

import threading
import uuid
from collections.abc import Iterable

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import event

from nova_powervm.powervm import changes as changes_module
from nova_powervm.powervm import session

LOG = logging.getLogger(__name__)

_EventType = event.EventType
_Topic = changes_module.Topic

#: Types whose EventData is the URI of what has changed.
_OF_URI = frozenset(
    (
        _EventType.ADD_URI,
        _EventType.DELETE_URI,
        _EventType.HIDDEN_URI,
        _EventType.INVALID_URI,
        _EventType.MODIFY_URI,
        _EventType.VISIBLE_URI,
    )
)
#: The last noun of a URI to what changes with it; all that is not here may
#: change everything. A partition's profile says which slots it owns; a Virtual
#: I/O Server has the volume groups.
_CHANGED = {
    'ManagedSystem': frozenset((_Topic.SYSTEM,)),
    'LogicalPartition': frozenset((_Topic.SYSTEM,)),
    'VolumeGroup': frozenset((_Topic.STORAGE,)),
    **dict.fromkeys(
        (
            'ClientNetworkAdapter',
            'LoadGroup',
            'NetworkBridge',
            'SharedProcessorPool',
            'VirtualNetwork',
            'VirtualSwitch',
        ),
        frozenset(),
    ),
}
_ROOT = '/rest/api/uom/'

#: Seconds between two polls that the server did not hold.
_PAUSE = 1.0
_RETRY_FIRST = 5.0
_RETRY_LONGEST = 60.0
#: How long a stopping service waits for the poll under way, which is answered
#: at once if the server can be told. If not, the thread goes with the process.
_STOP_SECONDS = 3.0


def touched(type_: str | None, data: str | None) -> frozenset[_Topic]:
    """Say what may have changed when the host tells of an event.

    :param type_: EventType.
    :param data: EventData.
    :returns: Everything, if the event is not understood or says that others
        were lost.
    """
    if type_ == _EventType.CUSTOM_CLIENT_EVENT:
        return frozenset()
    if type_ not in _OF_URI:
        return changes_module.ALL
    _, _, path = (data or '').partition(_ROOT)
    # Nouns and uuids take turns.
    noun = path.partition('?')[0].split('/')[::2][-1]
    return _CHANGED.get(noun, changes_module.ALL)


class Listener:
    """Hears what changes on the host, and notes it in the session's changes.

    :param adapter: A logged-on adapter of ours.
    """

    def __init__(self, adapter: pvm_adapter.Adapter) -> None:
        self._adapter = adapter
        self._changes: changes_module.Changes = adapter.session.changes
        # The server keeps a queue for each of these.
        self._client = uuid.uuid4().hex
        self._stopping = threading.Event()
        self._polling = False
        #: The EventID of the last event that was taken in.
        self.last = 0
        self._thread = threading.Thread(
            target=self._run, name='powervm-events', daemon=True
        )

    @property
    def believed(self) -> bool:
        """Whether silence of the stream means that nothing has changed."""
        return self._changes.believed

    def start(self) -> None:
        """Begin to listen; nothing is believed before the first answer."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the poll that it waits in is answered first.

        A server that does not answer is waited for for some seconds only.
        """
        self._stopping.set()
        if self._polling and self._changes.believed:
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
        broken = False
        while not self._stopping.is_set():
            try:
                events = self._poll()
                self._take(events)
            except Exception as error:
                # A session that has ended is opened again by the next cycle,
                # which asks the host since nothing is believed now.
                self._changes.interrupted()
                if not broken and not self._stopping.is_set():
                    LOG.warning(
                        'The event stream of the PowerVM host is broken: '
                        '%(error)s. Until it is back, each cycle asks the '
                        'host whether it has changed.',
                        {'error': error},
                    )
                broken = True
                self._stopping.wait(pause)
                pause = min(2 * pause, _RETRY_LONGEST)
                continue
            if broken:
                LOG.info('The event stream of the PowerVM host is back.')
            broken, pause = False, _RETRY_FIRST
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
                timeout=changes_module.SILENCE_SECONDS,
            )
        finally:
            self._polling = False
        return list(event.Event.wrap(answer))

    def _take(self, events: Iterable[event.Event]) -> None:
        for item in events:
            topics = touched(item.etype, item.data)
            if not self._follows(item.eid):
                # The server has begun anew.
                topics = changes_module.ALL
            if topics:
                LOG.debug('%s', item)
                self._changes.touch(topics)
            self.last = _number(item.eid)
        self._changes.answered()

    def _follows(self, number: str | None) -> bool:
        """Whether an EventID is greater than the last one, as all are."""
        return _number(number) > self.last


def _number(eid: str | None) -> int:
    return int(eid) if eid and eid.isdigit() else 0
