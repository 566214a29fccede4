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

"""Logon and logoff."""

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import exchange
from powervm_emulator.core import media
from powervm_emulator.core import noun
from powervm_emulator.core import route
from powervm_emulator.core import sessions as sessions_module

Emulation = emulation_module.Emulation
_PATH = '/rest/api/web/Logon'
_TYPE = 'application/vnd.ibm.powervm.web+xml; type=LogonResponse'


def logon(emulation: Emulation, call: exchange.Call) -> exchange.Answer:
    """PUT Logon: open a session by password, or by file for local clients.

    Who asks for a file proves itself by reading it: the token is written
    where only the user that the emulator runs as can read it.
    """
    request = call.content('LogonRequest', content.WEB_NS)
    sessions = emulation.host.sessions
    if content.boolean(request, 'GenerateX-API-SessionFile'):
        path = emulation.token_files.write(sessions.open())
        body = atom.logon_response('X-API-SessionFile', path)
        return exchange.Answer(200, body, _TYPE)
    token = sessions.logon(
        content.text(request, 'UserID'), content.text(request, 'Password')
    )
    body = atom.logon_response('X-API-Session', token)
    cookies = sessions_module.cookies(token)
    return exchange.Answer(200, body, _TYPE, cookies=cookies)


def logoff(emulation: Emulation, call: exchange.Call) -> exchange.Answer:
    """DELETE Logon: end the session and its event queues."""
    token = call.token or ''
    emulation.host.sessions.close(token)
    emulation.host.events.end_session(token)
    return exchange.NO_CONTENT


NOUN = noun.Noun(
    'Logon',
    routes=(
        route.Route(
            'PUT',
            _PATH,
            logon,
            'Logon.create',
            needs_session=False,
            served=media.WEB,
        ),
        route.Route('DELETE', _PATH, logoff, 'Logon.delete'),
    ),
)
