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

"""The control plane over HTTP.

Clients send ``POST /control/v1/{verb}`` with the arguments as a JSON object,
or ``GET`` for the verbs that only read. The answer is the verb's result as
JSON (the bytes themselves for ``contents``), or ``{"error": ...}`` with status
400, 403 or 415 for what a web page could have sent, 404 for an unknown verb,
405 for the wrong method, or 500 for a defect of the emulator.
"""

import inspect
import ipaddress
import json
import logging
import socket
import types
import typing
import urllib.parse
from typing import Any

from werkzeug import wrappers

from powervm_emulator.control import verbs
from powervm_emulator.core import bodies
from powervm_emulator.core import errors

LOG = logging.getLogger(__name__)
_BYTES = 'application/octet-stream'
PREFIX = '/control/v1/'
READING = frozenset(('state', 'jobs', 'faults', 'journal', 'journal_counts'))


def respond(
    control: verbs.Control, request: wrappers.Request
) -> wrappers.Response:
    """Answer a request to the control plane."""
    return _foreign(request) or _answer(control, request)


def _answer(
    control: verbs.Control, request: wrappers.Request
) -> wrappers.Response:
    verb = request.path.removeprefix(PREFIX)
    if verb not in verbs.VERBS:
        return _response({'error': f'unknown verb {verb!r}'}, 404)
    if request.method != 'POST' and (
        request.method != 'GET' or verb not in READING
    ):
        return _response({'error': f'{verb} requires POST'}, 405)
    try:
        return _response(_call(control, verb, request.get_data()))
    except bodies.UNREADABLE:
        return _response({'error': 'the body cannot be read'}, 400)
    except errors.ControlError as error:
        return _response({'error': str(error)}, 400)
    except Exception:
        LOG.exception('%s failed', verb)
        problem = 'The emulator has a defect; see its log.'
        return _response({'error': problem}, 500)


def _foreign(request: wrappers.Request) -> wrappers.Response | None:
    """Refuse what a web page could have a user's browser send.

    Verbs read and write files of the emulator's user. A browser sends a
    request of a page to any server: with the page's Origin; under a name of
    the page's that leads here; or, with neither, of a few content types.
    """
    host = request.headers.get('Host', '')
    origin = request.headers.get('Origin')
    if origin is not None and origin != f'{request.scheme}://{host}':
        problem = f'{origin!r} is not where the emulator is'
        return _response({'error': problem}, 403)
    if not _is_own(host):
        problem = (
            f'the emulator is not {host!r}; send the request to its address'
        )
        return _response({'error': problem}, 403)
    if request.method == 'POST' and not request.is_json:
        problem = 'the Content-Type of the body has to be application/json'
        return _response({'error': problem}, 415)
    return None


def _is_own(host: str) -> bool:
    """Whether a Host is an address, or a name that leads nowhere else.

    Browsers always send one.
    """
    try:
        name = urllib.parse.urlsplit(f'//{host}').hostname
    except ValueError:
        return False
    if name is None:
        return not host
    try:
        ipaddress.ip_address(name)
    except ValueError:
        own = ('localhost', socket.gethostname(), socket.getfqdn())
        return name in map(str.lower, own)
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f'{name} is no number of JSON')


def _call(control: verbs.Control, verb: str, body: bytes) -> Any:
    try:
        arguments = json.loads(body or b'{}', parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise errors.ControlError(f'the body is not JSON: {error}') from error
    if not isinstance(arguments, dict):
        raise errors.ControlError('the body is not a JSON object')
    function = getattr(control, verb)
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise errors.ControlError(str(error)) from error
    hints = typing.get_type_hints(function)
    for name, value in arguments.items():
        if not _fits(value, hints[name]):
            raise errors.ControlError(f'{name} cannot be {value!r}')
    return function(**arguments)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a JSON value has the type of a verb's argument."""
    if isinstance(hint, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    type_ = typing.get_origin(hint) or hint
    if isinstance(value, bool):
        # In Python, bool is a subclass of int.
        return type_ is bool
    if type_ is float:
        return isinstance(value, int | float)
    return isinstance(value, type_)


def _response(value: Any, status: int = 200) -> wrappers.Response:
    if isinstance(value, bytes):
        return wrappers.Response(value, content_type=_BYTES)
    return wrappers.Response(
        json.dumps(value), status, content_type='application/json'
    )
