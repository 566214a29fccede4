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
import copy
import logging as standard_logging
import os
import re
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
from pypowervm import traits
from pypowervm.tasks import power
from pypowervm.wrappers import job

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.powervm import http_limits
from nova_powervm.powervm import local_server


class Adapter(pvm_adapter.Adapter):
    """Reads the template of each kind of job once.

    A template has only the names of the operation and its group, so it is the
    same for each partition. After a job that was not accepted, all templates
    are read again: the server may have been replaced.

    :param session: A session that has logged on.
    """

    def __init__(self, session: pvm_adapter.Session) -> None:
        super().__init__(session)
        self._templates: dict[tuple[str, str], pvm_adapter.Response] = {}

    def read(self, root_type: str, *args: Any, **kwargs: Any) -> Any:
        """Read a resource, or return a copy of a template."""
        if kwargs.get('suffix_type') != const.SUFFIX_TYPE_DO:
            return super().read(root_type, *args, **kwargs)
        key = root_type, str(kwargs.get('suffix_parm'))
        template = self._templates.get(key)
        if template is None:
            template = super().read(root_type, *args, **kwargs)
            self._templates[key] = template
        # The caller fills in the template.
        return copy.deepcopy(template)

    def create_job(self, *args: Any, **kwargs: Any) -> Any:
        """Start a job."""
        try:
            return super().create_job(*args, **kwargs)
        except pvm.Error:
            self._templates.clear()
            raise


LOG = logging.getLogger(__name__)

_R = TypeVar('_R')

# pypowervm makes such a session for each request, and nothing else sets it.
pvm_adapter.requests = types.SimpleNamespace(Session=http_limits.Client)

#: Variables that take precedence over the CA file of the options, as in other
#: programs.
CA_VARIABLES = ('REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE')

_PROBE_TIMEOUT = 5
_POLL_SECONDS = 2
_LOG_SECONDS = 60
#: The limit for the answer to a write; pypowervm would wait for an hour.
ANSWER_SECONDS = 300
#: The limit for connecting, which needs the server's operating system only.
_CONNECT_SECONDS = 10
#: The limit for requests of a service that is stopping.
PARTING_SECONDS = 3
#: The pause after a refused logon, so that a wrong password locks no account.
_PAUSE_SECONDS = 300
_FORBIDDEN = (401, 403)
_REDIRECTS = (301, 302, 303, 307, 308)
_EVENTS = '/rest/api/uom/Event'
_JOBS = '/rest/api/uom/jobs/'
#: An NVRAM in a document, with the prefix that pypowervm writes or without.
_NVRAM = re.compile(r'(<(?:\w+:)?PartitionNVRAM\b[^<>]*>)[^<]*')
#: The header by which a server says what it is.
_KIND = 'X-MC-Type'
HMC = 'HMC'
_NOVALINK = 'PVM'
#: What serves the API describes itself there; only an HMC has the element.
_CONSOLE = f'{const.API_BASE_PATH}uom/ManagementConsole?group=None'
_OF_HMC = re.compile(r'<(?:\w+:)?VersionInfo\b')


def _shorten(record: standard_logging.LogRecord) -> bool:
    """Cut a line of pypowervm's, which may have the whole of a document.

    An NVRAM in it may hold secrets, and is hidden at all levels.
    """
    try:
        whole = record.getMessage()
    except Exception:
        # The handler that writes the record complains.
        return True
    text = _NVRAM.sub(r'\1(hidden)', whole)
    if record.levelno >= standard_logging.INFO:
        text = http_limits.shortened(text)
    if text != whole:
        record.msg, record.args, record.exc_info = text, (), None
    return True


for _module in (pvm_adapter, job, power):
    standard_logging.getLogger(_module.__name__).addFilter(_shorten)


class Session(pvm_adapter.Session):
    """A session that verifies the server in every request.

    pypowervm verifies the certificate for the logon only, and never the server
    of a local session.

    :param verify: As for requests: a CA file, True, or False for http.
    :param read_timeout: Seconds within which a read or a logon must be
        answered completely.
    :param kwargs: Arguments of pypowervm's session.
    :cvar refuses_hmc: Whether it logs off from an HMC.
    """

    refuses_hmc = True
    _lock: threading.RLock
    _relogin_unsafe: bool

    def __init__(
        self, verify: str | bool, read_timeout: float, **kwargs: Any
    ) -> None:
        self._verify = verify
        self._read_timeout = read_timeout
        self._refused_at: float | None = None
        self._closed = False
        self._kind: str | None = None
        super().__init__(certpath=None, timeout=ANSWER_SECONDS, **kwargs)

    @property
    def kind(self) -> str | None:
        """What the server is; None if that is not known yet."""
        return self._kind

    @property
    def verify(self) -> str | bool:
        """How the server is verified, as for requests."""
        return self._verify

    def request(
        self, method: str, path: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Send a request that verifies the certificate of the server.

        pypowervm never logs on again after a refused logon. This session tries
        again after a pause: the password may have been corrected, or the
        server may not have been ready.

        If the session ends during an upload, the upload fails: pypowervm would
        log on and send it again from a stream that has been read, which leaves
        an empty disk without an error. A poll for events also fails: pypowervm
        would repeat it while holding the lock that all other requests need,
        for ten seconds.

        All requests have time limits: see :meth:`_limits`.

        :raises pypowervm.exceptions.ConnectionError: In a local session, the
            port belongs to another user.
        """
        if self.use_file_auth:
            local_server.find_owner(self.host, self.port)
        kwargs['verify'] = self._verify
        kwargs['timeout'] = self._limits(method, path, kwargs)
        if kwargs.get('filehandle') is not None or _is_poll(method, path):
            kwargs['relogin'] = False
        if kwargs.get('login') is not True:
            self._forgive()
        with _logged(method, path) as answer:
            answer.response = super().request(method, path, *args, **kwargs)
        if self._kind is None:
            self._learn_kind(answer.response, kwargs.get('login') is True)
        return answer.response

    def _learn_kind(self, response: Any, is_logon: bool) -> None:
        """Learn from an answer whether an HMC or a NovaLink partition answers.

        HMCs have been recorded without the header that says so, and a proxy
        can drop it. The first answer after the logon counts, too, and then
        what the server says of itself.
        """
        self._kind = response.headers.get(_KIND)
        if is_logon:
            # The token has still to be read.
            return
        if self._kind is None and self._describes_hmc():
            self._kind = HMC
        if self._kind is None:
            LOG.warning(
                'The PowerVM REST server at %(host)s:%(port)s does not say '
                'whether it is an HMC (header %(header)s), and is taken for '
                'a NovaLink partition.',
                {'host': self.host, 'port': self.port, 'header': _KIND},
            )
            self._kind = _NOVALINK
        self._settle_kind()

    def _describes_hmc(self) -> bool:
        """Return whether the server describes itself as an HMC."""
        try:
            answer = super().request(
                'GET',
                _CONSOLE,
                headers={'Accept': 'application/atom+xml'},
                verify=self._verify,
                timeout=self._limits('GET', _CONSOLE, {}),
            )
        except pvm.Error:
            return False
        return _OF_HMC.search(str(answer.body)) is not None

    def _settle_kind(self) -> None:
        """Log off from an HMC, or tell pypowervm that the server is NovaLink.

        :raises exception.ServerIsHmc: The server is an HMC.
        """
        if self._kind == HMC and self.refuses_hmc:
            self.close()
            raise exception.ServerIsHmc(server=f'{self.host}:{self.port}')
        if self._kind is not None:
            self.mc_type = self._kind
            self.traits = traits.APITraits(self)

    def _logon(self, *args: Any, **kwargs: Any) -> None:
        """Log on; raise pypowervm's error if the answer has no session."""
        try:
            super()._logon(*args, **kwargs)
        except pvm.Error:
            raise
        except Exception as error:
            raise pvm.Error(
                'The answer to the logon has no session; check '
                '[powervm]rest_url: '
                f'{http_limits.shortened(error)}'
            ) from error
        self._settle_kind()

    def _get_auth_tok_from_file(self, root: Any, resp: Any) -> str:
        """Read the token of a local session, as :mod:`.local_server` does."""
        path = root.findtext(f'{{{const.WEB_NS}}}X-API-SessionFile')
        return local_server.read_token(
            path or '', local_server.find_owner(self.host, self.port)
        )

    def _limits(
        self, method: str, path: str, kwargs: Mapping[str, Any]
    ) -> tuple[float, float]:
        """Return the seconds for connecting and those for the answer.

        Reads and logons are answered soon or not at all. Writes, and polls of
        jobs, may take as long as the host works on them. The caller's own
        limit is used if it is shorter.
        """
        timeout = kwargs.get('timeout', -1)
        if isinstance(timeout, tuple):
            # pypowervm sends a request again after a logon.
            return timeout
        quick = method == 'GET' and not path.startswith((_JOBS, _EVENTS))
        if path.startswith(const.LOGON_PATH):
            leaving = method == 'DELETE'
            limit = PARTING_SECONDS if leaving else self._read_timeout
        elif quick and kwargs.get('filehandle') is None:
            limit = self._read_timeout
        else:
            limit = ANSWER_SECONDS
        if timeout is not None and timeout != -1:
            limit = min(limit, timeout)
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
        """Log off now, rather than when the session is garbage-collected.

        This does not wait for a server that does not answer, whose session
        expires, or for another thread that logs on.
        """
        self._closed = True
        if self._lock.acquire(timeout=PARTING_SECONDS):
            try:
                self._logoff()
            finally:
                self._lock.release()


@contextlib.contextmanager
def _logged(method: str, path: str) -> Iterator[types.SimpleNamespace]:
    """Log the path, status and time of a request at DEBUG.

    :returns: A namespace for the ``response`` of the request.
    """
    answer = types.SimpleNamespace(response=None)
    outcome: object = 'no answer'
    started = time.monotonic()
    try:
        yield answer
        outcome = getattr(answer.response, 'status', outcome)
    except pvm.Error as error:
        outcome = getattr(error.response, 'status', type(error).__name__)
        error.args = (http_limits.shortened(error),)
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
    """Return a request's path, and only the groups of its query."""
    path, _, query = path.partition('?')
    groups = [item for item in query.split('&') if item.startswith('group=')]
    return '?'.join([path, *groups[:1]])


def _is_poll(method: str, path: str) -> bool:
    return method == 'GET' and path.startswith(_EVENTS)


def connect(
    server: options.Server,
    sleep: Callable[[float], None] = time.sleep,
    kind: type[Session] = Session,
) -> pvm_adapter.Adapter:
    """Log on, and wait for a server that does not answer yet.

    :param server: Address and credentials; ``connect_timeout`` limits the
        wait.
    :param sleep: Waits between two tries.
    :param kind: The class of the session.
    :raises exception.RestUnreachable: It did not answer in time.
    :raises exception.RestRefusedLogin: The credentials are wrong.
    :raises exception.RestError: The logon failed for another reason.
    """
    return Adapter(wait_for(server, _log_on, server, kind, sleep=sleep))


def wait_for(
    server: options.Server,
    function: Callable[..., _R],
    *args: Any,
    sleep: Callable[[float], None] = time.sleep,
) -> _R:
    """Call a function again while its errors are temporary.

    :param server: ``connect_timeout`` limits the wait.
    :param function: The function, called with ``args``.
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
    """Prevent pypowervm from logging each try; we log one line a minute."""
    logger = logging.getLogger(pvm_adapter.__name__).logger
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _MinuteLog:
    """Logs once a minute what nova-compute is waiting for."""

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


def _log_on(server: options.Server, kind: type[Session]) -> Session:
    _probe(server)
    try:
        return _open(server, kind)
    except (pvm.AuthFileReadError, pvm.AuthFileAccessError) as error:
        raise exception.RestRefusedLogin(
            server=server, username='the local user', reason=error
        ) from error
    except (pvm.ConnectionError, pvm.TimeoutError) as error:
        raise exception.RestUnreachable(server=server, reason=error) from error
    except pvm.Error as error:
        raise _logon_error(server, error) from error


def _open(server: options.Server, kind: type[Session]) -> Session:
    if server.url is None:
        return kind(verify=False, read_timeout=server.read_timeout)
    parts = server.parts
    return kind(
        verify=_authorities(server) if parts.scheme == 'https' else False,
        read_timeout=server.read_timeout,
        host=parts.hostname,
        port=_port(server),
        protocol=parts.scheme,
        # pypowervm would use an empty password.
        username=server.username or None,
        password=server.password or None,
    )


def _authorities(server: options.Server) -> str | bool:
    """Return the file of the CA certificates, or True for the system's."""
    stronger = {
        name: file for name in CA_VARIABLES if (file := os.environ.get(name))
    }
    if server.cafile and stronger:
        LOG.warning(
            'The environment variable %(variable)s of nova-compute takes '
            'precedence over [powervm]rest_cafile.',
            {'variable': ' and '.join(stronger)},
        )
    return next(iter(stronger.values()), server.cafile or True)


def _port(server: options.Server) -> int:
    parts = server.parts
    return parts.port or int(const.PORT_DEFAULT_BY_PROTO[parts.scheme])


def _probe(server: options.Server) -> None:
    """Check whether the server listens; pypowervm would need minutes."""
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
    if status in _REDIRECTS:
        return exception.ConfigurationError(
            reason=f'{server} is not the PowerVM REST server: {error}. Set '
            '[powervm]rest_url to the server itself.'
        )
    if isinstance(error, pvm.SSLError) and 'WRONG_VERSION' in str(error):
        return exception.ConfigurationError(
            reason=f'{server} does not speak TLS. Correct the scheme or the '
            'port of [powervm]rest_url.'
        )
    if isinstance(error, pvm.SSLError):
        return exception.ConfigurationError(
            reason=f'The certificate of {server} cannot be verified: '
            f'{error}. Set [powervm]rest_cafile.'
        )
    # pvm-rest answers 404 and 503 while it starts.
    if status is not None:
        return exception.RestUnreachable(
            server=server, reason=f'HTTP {status} to the logon'
        )
    return exception.RestError(action=f'logon to {server}', reason=error)
