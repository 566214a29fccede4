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

``POST /control/v1/{verb}`` with the arguments as a JSON object, or ``GET``
for the verbs that only read. Answers are JSON: the verb's result, or
``{"error": ...}`` with status 400, or 404 for a verb that is not there.
"""

import inspect
import json
from typing import Any

from werkzeug import wrappers

from nova_powervm.emulator import control as control_module
from nova_powervm.emulator import errors

PREFIX = '/control/v1/'
READING = frozenset(('state', 'jobs', 'faults', 'journal', 'journal_counts'))


def verbs() -> frozenset[str]:
    """Return the names of all verbs."""
    return frozenset(
        name
        for name, _ in inspect.getmembers(
            control_module.Control, inspect.isfunction
        )
        if not name.startswith('_')
    )


def respond(
    control: control_module.Control, request: wrappers.Request
) -> wrappers.Response:
    """Return the response to a request of the control plane."""
    verb = request.path.removeprefix(PREFIX)
    if verb not in verbs():
        return _response({'error': f'there is no verb {verb!r}'}, 404)
    if request.method != 'POST' and (
        request.method != 'GET' or verb not in READING
    ):
        return _response({'error': f'{verb} needs a POST'}, 405)
    try:
        return _response(_call(control, verb, request.get_data()))
    except (errors.ControlError, TypeError) as error:
        return _response({'error': str(error)}, 400)


def _call(control: control_module.Control, verb: str, body: bytes) -> Any:
    try:
        arguments = json.loads(body or b'{}')
    except ValueError as error:
        raise errors.ControlError(f'the body is not JSON: {error}') from error
    if not isinstance(arguments, dict):
        raise errors.ControlError('the body is not a JSON object')
    function = getattr(control, verb)
    inspect.signature(function).bind(**arguments)
    return function(**arguments)


def _response(value: Any, status: int = 200) -> wrappers.Response:
    return wrappers.Response(
        json.dumps(value), status, content_type='application/json'
    )
