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

"""The event feed."""

import zlib

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import events as events_module
from powervm_emulator.core import exchange
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import route

Answer = exchange.Answer
Emulation = emulation_module.Emulation
Call = exchange.Call
_PATH = f'{resource.API}/Event'


def create(emulation: Emulation, call: Call) -> Answer:
    """PUT Event: send an event of one's own to every client."""
    sent = call.content('Event')
    event = emulation.host.events.emit(
        'CUSTOM_CLIENT_EVENT',
        content.text(sent, 'EventData'),
        content.text(sent, 'EventDetail'),
    )
    return Answer(200, call.writer.entry(_entry(call, event)))


def poll(emulation: Emulation, call: Call) -> Answer:
    """GET Event: what has happened since this client's last poll.

    A client without an application id is the session. Waits for something
    to happen; 204 if nothing has.
    """
    session = call.token or ''
    client = call.parameters.get('QUEUE_APPLICATIONID') or session
    host = emulation.host
    events = host.events.poll(
        client, session, emulation.event_wait, greets=not host.behaviour.hmc
    )
    entries = [_entry(call, event) for event in events]
    path = f'{_PATH}?{call.query}' if call.query else _PATH
    return exchange.documents(call, entries, path)


def _entry(call: Call, event: events_module.Event) -> atom.Entry:
    id_ = exchange.feed_id(f'{_PATH}/{event.number}')
    is_uri = event.data.startswith('/rest/api/')
    element = content.new(
        'Event',
        content.leaf('EventType', event.type),
        content.leaf('EventID', event.number),
        content.leaf('EventData', call.base * is_uri + event.data),
        content.leaf('EventDetail', event.detail),
    )
    content.identify(element, id_)
    # Nobody changes an event: any number will do as its entity tag.
    etag = str(zlib.crc32(id_.encode()) & 0x7FFFFFFF)
    path = call.self_path(f'{_PATH}/{id_}')
    return atom.Entry(id_, element, path, etag)


NOUN = noun.Noun(
    'Event',
    routes=(
        route.Route('GET', _PATH, poll, 'Event.feed'),
        route.Route('PUT', _PATH, create, 'Event.create'),
    ),
)
