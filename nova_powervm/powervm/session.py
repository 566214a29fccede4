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

"""The session with the PowerVM REST server."""

import contextlib
import os
import socket
import threading
import time
import types
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

import tenacity
from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm import exceptions as pvm

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.powervm import templates

LOG = logging.getLogger(__name__)

_R = TypeVar('_R')

#: What the library requests takes before the file that it is given.
CA_VARIABLES = ('REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE')

_PROBE_TIMEOUT = 5
_POLL_SECONDS = 2
_LOG_SECONDS = 60
#: No answer to a write takes longer; pypowervm would wait for an hour.
ANSWER_SECONDS = 300
#: The server's side of a connection is made by its operating system.
_CONNECT_SECONDS = 10
#: Who is going to leave waits no longer.
PARTING_SECONDS = 3
#: After a refused logon, so that a wrong password does not lock the account.
_PAUSE_SECONDS = 300
_FORBIDDEN = (401, 403)
_EVENTS = '/rest/api/uom/Event'
_JOBS = '/rest/api/uom/jobs/'


class Session(pvm_adapter.Session):
    """A session that verifies the server in every request.

    pypowervm verifies the certificate for the logon only.

    :param verify: What requests takes: a CA file, True, or False for http.
    :param read_timeout: Seconds that the server gets to answer a read or a
        logon.
    :param kwargs: For pypowervm's own session.
    """

    _lock: threading.RLock
    _relogin_unsafe: bool

    def __init__(
        self,
        verify: str | bool,
        read_timeout: float = options.READ_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        self._verify = verify
        self._read_timeout = read_timeout
        self._refused_at: float | None = None
        self._closed = False
        super().__init__(certpath=None, timeout=ANSWER_SECONDS, **kwargs)

    def request(
        self, method: str, path: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Send a request with our own idea of verification.

        pypowervm never logs on again once that was refused. This session
        tries again after a pause, for a password that was changed and a
        server that was not ready.

        An upload whose session has ended fails: pypowervm would log on and
        send it again, but from a stream that was read already, and so leave
        an empty disk without an error. A poll for events whose session has
        ended fails, too: pypowervm would send it again holding the lock that
        all other requests need, and it takes ten seconds.

        No request waits for ever: see :meth:`_limits`.
        """
        kwargs['verify'] = self._verify
        kwargs['timeout'] = self._limits(method, path, kwargs)
        if kwargs.get('filehandle') is not None or _is_poll(method, path):
            kwargs['relogin'] = False
        if kwargs.get('login') is not True:
            self._forgive()
        with _logged(method, path) as answer:
            answer.response = super().request(method, path, *args, **kwargs)
        return answer.response

    def _limits(
        self, method: str, path: str, kwargs: Mapping[str, Any]
    ) -> tuple[float, float]:
        """Return the seconds to connect within, and to answer within.

        A read, and a logon, is answered soon or not at all. A write may take
        as long as the host works on it, and so may the job that is polled.
        The caller's own limit counts if it is shorter.
        """
        given = kwargs.get('timeout', -1)
        if isinstance(given, tuple):
            # pypowervm sends a request again after a logon.
            return given
        quick = method == 'GET' and not path.startswith((_JOBS, _EVENTS))
        if path.startswith(const.LOGON_PATH):
            leaving = method == 'DELETE'
            limit = PARTING_SECONDS if leaving else self._read_timeout
        elif quick and kwargs.get('filehandle') is None:
            limit = self._read_timeout
        else:
            limit = ANSWER_SECONDS
        if given is not None and given != -1:
            limit = min(limit, given)
        return min(_CONNECT_SECONDS, limit), limit

    def _forgive(self) -> None:
        if not self._relogin_unsafe or self._closed:
            self._refused_at = None
        elif self._refused_at is None:
            self._refused_at = time.monotonic()
        elif time.monotonic() - self._refused_at >= _PAUSE_SECONDS:
            LOG.info('Trying again to log on to the PowerVM REST server.')
            self._relogin_unsafe = False

    def close(self) -> None:
        """Log off now, rather than whenever the session is collected.

        A server that does not answer is not waited for: it ends the session
        by itself. Neither is another thread that logs on.
        """
        self._closed = True
        if self._lock.acquire(timeout=PARTING_SECONDS):
            try:
                self._logoff()
            finally:
                self._lock.release()


@contextlib.contextmanager
def _logged(method: str, path: str) -> Iterator[types.SimpleNamespace]:
    """Log a request at DEBUG: path, status and time, no header and no body.

    :returns: What takes the ``response`` of the request.
    """
    answer = types.SimpleNamespace(response=None)
    outcome: object = 'no answer'
    started = time.monotonic()
    try:
        yield answer
        outcome = getattr(answer.response, 'status', outcome)
    except pvm.Error as error:
        outcome = getattr(error.response, 'status', type(error).__name__)
        raise
    finally:
        LOG.debug(
            'REST request %(method)s %(path)s: %(outcome)s after '
            '%(milliseconds)d ms',
            {
                'method': method,
                'path': _loggable(path),
                'outcome': outcome,
                'milliseconds': (time.monotonic() - started) * 1000,
            },
        )


def _loggable(path: str) -> str:
    """Return a request's path with no part of its query but the groups."""
    path, _, query = path.partition('?')
    groups = [item for item in query.split('&') if item.startswith('group=')]
    return '?'.join([path, *groups[:1]])


def _is_poll(method: str, path: str) -> bool:
    return method == 'GET' and path.startswith(_EVENTS)


def connect(
    server: options.Server, sleep: Callable[[float], None] = time.sleep
) -> pvm_adapter.Adapter:
    """Log on, waiting for a server that does not answer yet.

    :param server: Where and as whom; ``connect_timeout`` bounds the wait.
    :param sleep: Waits between two tries.
    :raises exception.RestUnreachable: It did not answer in time.
    :raises exception.RestRefusedLogin: The credentials are wrong.
    :raises exception.RestError: It answered the logon with another error.
    """
    return templates.Adapter(wait_for(server, _log_on, server, sleep=sleep))


def wait_for(
    server: options.Server,
    function: Callable[..., _R],
    *args: Any,
    sleep: Callable[[float], None] = time.sleep,
) -> _R:
    """Call a function until its errors are no longer passing ones.

    :param server: ``connect_timeout`` bounds the wait.
    :param function: What to call with ``args``.
    :param sleep: Waits between two tries.
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: getattr(error, 'retryable', False)
        ),
        stop=tenacity.stop_after_delay(server.connect_timeout),
        wait=tenacity.wait_fixed(_POLL_SECONDS),
        before_sleep=_MinuteLog(server),
        sleep=sleep,
        reraise=True,
    )
    with _quiet_client():
        return retrying(function, *args)


@contextlib.contextmanager
def _quiet_client() -> Iterator[None]:
    """Keep pypowervm from logging every try; we log one line a minute."""
    logger = logging.getLogger(pvm_adapter.__name__).logger
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _MinuteLog:
    """One line a minute about what nova-compute is waiting for."""

    def __init__(self, server: options.Server) -> None:
        self._server = server
        self._next = 0.0

    def __call__(self, state: tenacity.RetryCallState) -> None:
        waited = state.seconds_since_start or 0.0
        if waited < self._next or state.outcome is None:
            return
        self._next += _LOG_SECONDS
        LOG.warning(
            'Waiting for the PowerVM REST server at %(server)s, for '
            '%(waited)d of %(limit)d seconds so far: %(error)s',
            {
                'server': self._server,
                'waited': waited,
                'limit': self._server.connect_timeout,
                'error': state.outcome.exception(),
            },
        )


def _log_on(server: options.Server) -> Session:
    _probe(server)
    try:
        return _open(server)
    except (pvm.AuthFileReadError, pvm.AuthFileAccessError) as error:
        raise exception.RestRefusedLogin(
            server=server, username='the local user', reason=error
        ) from error
    except (pvm.ConnectionError, pvm.TimeoutError) as error:
        raise exception.RestUnreachable(server=server, reason=error) from error
    except pvm.Error as error:
        raise _logon_error(server, error) from error


def _open(server: options.Server) -> Session:
    if server.url is None:
        return Session(verify=False, read_timeout=server.read_timeout)
    parts = server.parts
    stronger = [name for name in CA_VARIABLES if os.environ.get(name)]
    if server.cafile and stronger:
        LOG.warning(
            'The environment variable %(variable)s of nova-compute wins over '
            '[powervm]rest_cafile.',
            {'variable': ' and '.join(stronger)},
        )
    return Session(
        verify=(server.cafile or True) if parts.scheme == 'https' else False,
        read_timeout=server.read_timeout,
        host=parts.hostname,
        port=_port(server),
        protocol=parts.scheme,
        username=server.username,
        password=server.password,
    )


def _port(server: options.Server) -> int:
    parts = server.parts
    return parts.port or int(const.PORT_DEFAULT_BY_PROTO[parts.scheme])


def _probe(server: options.Server) -> None:
    """See whether anybody listens, which pypowervm takes minutes to tell."""
    if server.url is None:
        return
    address = (server.parts.hostname, _port(server))
    try:
        socket.create_connection(address, timeout=_PROBE_TIMEOUT).close()
    except OSError as error:
        raise exception.RestUnreachable(server=server, reason=error) from error


def _logon_error(
    server: options.Server, error: pvm.Error
) -> exception.PowerVMError:
    status = getattr(error.response, 'status', None)
    if status in _FORBIDDEN:
        return exception.RestRefusedLogin(
            server=server,
            username=server.username or 'the local user',
            reason=f'HTTP {status}',
        )
    if isinstance(error, pvm.SSLError):
        return exception.ConfigurationError(
            reason=f'The certificate of {server} can not be verified: '
            f'{error}. Set [powervm]rest_cafile.'
        )
    # 404 and 503 are what a starting pvm-rest answers.
    if status is not None:
        return exception.RestUnreachable(
            server=server, reason=f'HTTP {status} to the logon'
        )
    return exception.RestError(action='logon', reason=error)
