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

"""Translates pypowervm's exceptions, and retries requests."""

import contextlib
import functools
import re
from collections.abc import Callable
from collections.abc import Iterator
from typing import ParamSpec
from typing import TypeVar

import tenacity
from pypowervm import exceptions as pvm
from pypowervm.utils import lpar_builder

from nova_powervm import exception
from nova_powervm import printable
from nova_powervm.powervm import http_limits

_P = ParamSpec('_P')
_R = TypeVar('_R')

_PRECONDITION_FAILED = 412
_TRIES = 3
#: Seconds to wait for a busy Virtual I/O Server, times the number of tries.
BUSY_SECONDS = 5.0
#: Tries of a change while others are faster; one of them succeeds each time.
_CONFLICTS = 60
#: Codes of refusals in the words of a host; their status is often 500.
_REFUSAL = re.compile(r'\b(REST[0-9A-F]{4}|HSC[A-Z0-9]{5})\b')
#: The server is busy or restarting.
_PASSING = (408, 429, 502, 503, 504)


@contextlib.contextmanager
def translated(
    action: str, server: object = '[powervm]rest_url'
) -> Iterator[None]:
    """Translate the pypowervm exceptions of a block.

    :param action: What the block does, e.g. 'creating LPAR vm1'.
    :param server: The name of the server in messages.
    :raises exception.RestUnreachable: There was no answer. It is unknown
        whether the request was carried out.
    :raises exception.RestSilent: There was no answer in time.
    :raises exception.RestError: The answer was an error.
    """
    try:
        with _printable_errors():
            yield
    except (pvm.ConnectionError, pvm.TimeoutError) as error:
        raise class_of_unanswered(error)(
            server=server, reason=f'{action}: {error}'
        ) from error
    except pvm.HttpUnauth as error:
        raise exception.RestRefusedLogin(
            server=server,
            username='the configured user',
            reason=f'{action}: the session has ended and a new one was '
            'refused; another logon is tried after a few minutes',
        ) from error
    except pvm.HttpError as error:
        raise class_of_status(error)(
            action=action, reason=_reason(error)
        ) from error
    except (pvm.Error, lpar_builder.LPARBuilderException) as error:
        raise exception.RestError(
            action=action, reason=http_limits.shortened(error)
        ) from error


@contextlib.contextmanager
def _printable_errors() -> Iterator[None]:
    """Change errors of pypowervm so that their tracebacks can be logged."""
    try:
        yield
    except pvm.Error as error:
        # What a command says can have several lines.
        words = (' '.join(str(arg).split()) for arg in error.args)
        error.args = tuple(map(printable.printable, words))
        raise


def class_of_unanswered(error: pvm.Error) -> type[exception.RestUnreachable]:
    """Return the error class for a request without an answer.

    :param error: The pypowervm exception. pypowervm reports a connection that
        timed out as broken; only the cause of the exception tells.
    """
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, pvm.TimeoutError | TimeoutError):
            return exception.RestSilent
        below = below.__cause__ or below.__context__
    return exception.RestUnreachable


def class_of_status(error: pvm.HttpError) -> type[exception.RestError]:
    """Return the error class for the answer to a request.

    A host answers 500 also to a request that it refuses, with a code in its
    words.
    """
    status = error.response.status
    if status == _PRECONDITION_FAILED:
        return exception.RestConflict
    if error.her_wrap is not None and error.her_wrap.is_vios_busy():
        return exception.ViosBusy
    if status in _PASSING:
        return exception.RestBusy
    refuses = _REFUSAL.search(_words(error))
    return exception.RestRefused if refuses else exception.RestError


def _words(error: pvm.HttpError) -> str:
    """Return the server's own words if it sent an HttpErrorResponse."""
    return str(getattr(error.her_wrap, 'message', None) or '')


def _reason(error: pvm.HttpError) -> str:
    status = error.response.status
    words = _words(error)
    if not words:
        return http_limits.shortened(error)
    is_refusal = class_of_status(error) is exception.RestRefused
    refuses = 'the host refuses it, ' if is_refusal else ''
    return http_limits.shortened(f'{refuses}HTTP {status}: {words}')


def _can_retry_now(error: BaseException) -> bool:
    """Return whether to retry at once, rather than in the next cycle."""
    return getattr(error, 'retryable', False) and not isinstance(
        error, exception.RestSilent
    )


def retried(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Call a method up to three times while its errors are temporary.

    Use this only for methods that are safe to repeat: reading, deleting,
    starting and stopping. A server that did not answer in time is not asked
    again.
    """

    @functools.wraps(method)
    def retrying(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_can_retry_now),
            stop=tenacity.stop_after_attempt(_TRIES),
            wait=_Wait(tenacity.wait_exponential(multiplier=0.25)),
            reraise=True,
        )
        return attempts(method, *args, **kwargs)

    return retrying


def retried_on_conflict(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Repeat a read-change-write as long as others are faster.

    The server answers 412 to a write whose ETag is outdated. Then nothing has
    changed, and the method starts again from the new content. Other temporary
    errors get as many tries as in :func:`retried`: the method must recognize a
    write that succeeded although its answer was lost.
    """

    @functools.wraps(method)
    def retrying(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_can_retry_now),
            stop=_StopAfterFailures(),
            wait=_Wait(
                tenacity.wait_random_exponential(multiplier=0.02, max=1)
            ),
            reraise=True,
        )
        return attempts(method, *args, **kwargs)

    return retrying


class _Wait:
    """The seconds between two tries, more for a busy Virtual I/O Server."""

    def __init__(
        self, usual: Callable[[tenacity.RetryCallState], float]
    ) -> None:
        self._usual = usual

    def __call__(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, exception.ViosBusy):
            return BUSY_SECONDS * state.attempt_number
        return self._usual(state)


class _StopAfterFailures:
    """Ends the tries of one call of a method that is retried on conflicts."""

    def __init__(self) -> None:
        self._failures = 0

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, exception.RestConflict):
            return state.attempt_number >= _CONFLICTS
        self._failures += 1
        return self._failures >= _TRIES
