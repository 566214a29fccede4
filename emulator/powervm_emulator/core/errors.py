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

"""What the emulated host answers when it refuses a request.

One class per HTTP status. The application turns each into the REST API's
``HttpErrorResponse`` entry; nothing else in the emulator knows of that.
"""


class RestError(Exception):
    """A refusal with an HTTP status and a message for the client.

    :param message: says what was refused and names the thing it is about.
    :cvar code: what hosts begin such messages with.
    """

    status = 500
    reason = 'Unknown internal error.'
    code = ''

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(RestError):
    """The request is malformed or asks for a value that is never legal."""

    status = 400
    reason = 'Bad request.'


class Unauthorized(RestError):
    """No session, an expired one, or wrong credentials."""

    status = 401
    reason = 'Unauthorized.'


class NotFound(RestError):
    """The URI names no resource."""

    status = 404
    reason = 'The supplied URI does not identify a known resource.'
    code = 'REST000B The URI is not valid: '


class MethodNotAllowed(RestError):
    """The resource exists but cannot be used with this method."""

    status = 405
    reason = 'Method not allowed.'


class NotAcceptable(RestError):
    """The client accepts no media type that the answer could have."""

    status = 406
    reason = 'Not acceptable.'


class Conflict(RestError):
    """The request is well formed, the state of the host forbids it."""

    status = 409
    reason = 'Conflict with the state of the system.'


class PreconditionFailed(RestError):
    """If-Match does not name the resource's current revision."""

    status = 412
    reason = 'Precondition failed.'


class UnsupportedMediaType(RestError):
    """The body has another media type than it must have."""

    status = 415
    reason = 'Unsupported media type.'


class Fault(RestError):
    """An injected failure with a status of the test's choosing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = 'Injected fault.'


class ControlError(Exception):
    """A verb of the control plane was used wrongly."""


class WorldError(ControlError):
    """A world document does not describe a possible host.

    :param problems: every problem found, each with the path to the value.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__('\n'.join(problems))
        self.problems = list(problems)
