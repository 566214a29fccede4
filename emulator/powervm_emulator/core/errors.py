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
    :param code: in place of that of the class.
    :cvar code: what hosts begin such messages with.
    """

    status = 500
    reason = 'Unknown internal error.'
    code = ''

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    @property
    def text(self) -> str:
        """The message with its code."""
        return f'{self.code} {self.message}'.lstrip()


class BadRequest(RestError):
    """The request is malformed, whatever the host is like."""

    status = 400
    reason = 'Bad request.'


class BadDocument(BadRequest):
    """The body is not of the schema."""

    reason = 'The supplied XML request body did not pass XML validation.'
    code = 'REST0001'


class BadUri(BadRequest):
    """The URI is not of this API."""

    reason = 'INVALID_URL'
    code = 'REST000B'


class Refused(RestError):
    """The host does not do what a well-formed request asks for.

    This is no internal error, but hosts use its status.
    """

    code = 'REST0126'


class Unauthorized(RestError):
    """No session, an expired one, or wrong credentials."""

    status = 401
    reason = 'Unauthorized.'


class NotFound(RestError):
    """The URI names no resource."""

    status = 404
    reason = 'The supplied URI does not identify a known resource.'
    code = 'REST029B'


class NoJob(NotFound):
    """There is no such job, or not any more."""

    code = 'REST0005'


class NoQuickProperty(NotFound):
    """Resources of the kind do not have the quick property."""

    reason = 'INVALID_URL'
    code = 'REST0003'


class MethodNotAllowed(RestError):
    """The resource exists but cannot be used with this method."""

    status = 405
    reason = 'Method not allowed.'


class NotAcceptable(RestError):
    """The client accepts no media type that the answer could have."""

    status = 406
    reason = 'Not acceptable.'


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
