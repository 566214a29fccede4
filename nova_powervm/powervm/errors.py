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

"""pypowervm's exceptions, turned into those of nova-powervm."""

import contextlib
import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import ParamSpec
from typing import TypeVar

import tenacity
from pypowervm import exceptions as pvm
from pypowervm.utils import lpar_builder

from nova_powervm import exception

_P = ParamSpec('_P')
_R = TypeVar('_R')

_PRECONDITION_FAILED = 412
#: The server is busy or restarting.
_PASSING = (408, 429, 502, 503, 504)


@contextlib.contextmanager
def translated(action: str, server: object = '') -> Iterator[None]:
    """Turn pypowervm's exceptions of a block into ours.

    :param action: What is being done, e.g. 'creation of LPAR vm1'.
    :param server: Whom it is asked of.
    :raises exception.RestUnreachable: There was no answer. Whether the
        request was carried out is unknown.
    :raises exception.RestError: The answer was an error.
    """
    try:
        yield
    except (pvm.ConnectionError, pvm.TimeoutError) as error:
        raise exception.RestUnreachable(
            server=server, reason=f'{action}: {error}'
        ) from error
    except pvm.HttpUnauth as error:
        raise exception.RestRefusedLogin(
            server=server or 'the host',
            username='the configured user',
            reason=f'{action}: the session has ended and a new one was '
            'refused; it is tried again after a few minutes',
        ) from error
    except pvm.HttpError as error:
        raise _of_status(error)(
            action=action, reason=_reason(error)
        ) from error
    except (pvm.Error, lpar_builder.LPARBuilderException) as error:
        raise exception.RestError(action=action, reason=error) from error


def _of_status(error: pvm.HttpError) -> type[exception.RestError]:
    status = error.response.status
    if status == _PRECONDITION_FAILED:
        return exception.RestConflict
    return exception.RestBusy if status in _PASSING else exception.RestError


def _reason(error: pvm.HttpError) -> str:
    """Give the server's own words if it sent an HttpErrorResponse."""
    status = error.response.status
    message = getattr(error.her_wrap, 'message', None)
    return f'HTTP {status}: {message}' if message else str(error)


def retried(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Try a method up to three times while its errors are passing ones.

    Only for what can be done twice without harm: reading, deleting, and
    starting or stopping what may be started or stopped already.
    """

    @functools.wraps(method)
    def retrying(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda error: getattr(error, 'retryable', False)
            ),
            stop=tenacity.stop_after_attempt(3),
            wait=tenacity.wait_exponential(multiplier=0.25),
            reraise=True,
        )
        return attempts(method, *args, **kwargs)

    return retrying
