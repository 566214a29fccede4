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

"""The WSGI application, which routes requests to handlers."""

import dataclasses
import functools
import logging
import re
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

from werkzeug import exceptions
from werkzeug import routing
from werkzeug import wrappers

from powervm_emulator import host_root as host_root_module
from powervm_emulator import nouns
from powervm_emulator import server
from powervm_emulator import worlds
from powervm_emulator.control import http
from powervm_emulator.control import verbs
from powervm_emulator.core import atom
from powervm_emulator.core import bodies
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import errors
from powervm_emulator.core import exchange
from powervm_emulator.core import faults as faults_module
from powervm_emulator.core import habits as habits_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import reshaping
from powervm_emulator.core import route as route_module

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse
    from _typeshed.wsgi import WSGIEnvironment


LOG = logging.getLogger(__name__)
# NovaLink sends this header; clients take a server without it for an HMC, of
# which no capture has it.
_KIND = 'X-MC-Type'
_HEADERS = {_KIND: 'PVM'}
_OF_HMC = {'X-HMC-Schema-Version': 'V1_2_0'}
_ROOT = re.compile('/rest/api/(uom|web)/(?P<kind>[^/]+)')
# What a management console has for itself and several hosts.
_HMC = re.compile(
    '/rest/api/(web/Hmc|templates/|pcm/.+/(Aggregated|Processed)Metrics'
    '|uom/PowerEnterprisePool)'
)
# The start of each URI: a kind of resource, or what is in its place.
_ROOTS = frozenset(
    found[0] for route in nouns.ROUTES if (found := _ROOT.match(route.rule))
)


class Application:
    """One emulator as a WSGI application.

    :ivar control: the control plane, which changes the emulator from outside
        the REST API.
    :ivar keep: keeps the state; called before a client is told of a change.
    """

    def __init__(self, emulation: emulation_module.Emulation) -> None:
        self._emulation = emulation
        self.control = verbs.Control(emulation)
        self.keep: Callable[[], None] = lambda: None
        self._closed = threading.Event()

    @property
    def emulation(self) -> emulation_module.Emulation:
        """What is served."""
        return self._emulation

    def close(self) -> None:
        """Answer all waiting requests and delete the session files."""
        self._closed.set()
        self._emulation.close()

    def __call__(
        self, environ: 'WSGIEnvironment', start_response: 'StartResponse'
    ) -> Iterable[bytes]:
        """Answer one request, as PEP 3333 defines it."""
        request = wrappers.Request(environ)
        if request.path.startswith(http.PREFIX):
            response = http.respond(self.control, request)
        else:
            connection = environ.get('werkzeug.socket')
            with self._emulation.connections.serving(connection):
                response = self._respond(request)
        if request.method != 'GET':
            response = self._kept(request, response)
        return response(environ, start_response)

    def _kept(
        self, request: wrappers.Request, response: wrappers.Response
    ) -> wrappers.Response:
        """Keep what a request has changed; say so if that fails."""
        try:
            self.keep()
        except OSError as error:
            LOG.error('the state cannot be written: %s', error)
            return wrappers.Response(
                f'The emulator cannot write its state: {error.strerror}.\n',
                500,
                _HEADERS,
            )
        return response

    def _respond(self, request: wrappers.Request) -> wrappers.Response:
        if self._emulation.host.is_off:
            server.drop_connection(request.environ)
        route, arguments = self._match(request)
        now = self._emulation.host.clock()
        habits = self._emulation.habits
        habits_module.use(habits)
        if not habits.answers_unchanged:
            request.environ.pop('HTTP_IF_NONE_MATCH', None)
        if route.streams:
            call = _call(request, now, arriving=bodies.Body(request.stream))
        else:
            try:
                call = _call(request, now, request.get_data())
            except bodies.UNREADABLE:
                route = dataclasses.replace(route, handler=_unreadable)
                call = _call(request, now)
        label = route.label
        path = f'{call.path}?{call.query}' if call.query else call.path
        record = self._emulation.journal.begin(call.method, path, label)
        fault = self._emulation.faults.take(call.method, path, label)
        if fault is not None:
            record.fault = fault.number
        answer = self._answer(call, route, arguments, fault, path)
        if answer is None:
            call.arriving.begin()
            server.drop_connection(request.environ)
        call.arriving.forget()
        record.status = answer.status
        if answer.status == 200 and answer.content_type == atom.CONTENT_TYPE:
            body = reshaping.reshape(answer.body, habits)
            answer = dataclasses.replace(answer, body=body)
        response = _response(answer, request.is_secure)
        hmc = self._emulation.host.behaviour.hmc
        if hmc or not habits.names_kind:
            response.headers.remove(_KIND)
        if hmc:
            response.headers.update(_OF_HMC)
        return response

    def _match(
        self, request: wrappers.Request
    ) -> tuple[route_module.Route, Mapping[str, Any]]:
        # Not bind_to_environ, which fails on a malformed Host.
        adapter = _url_map().bind(
            '', path_info=request.path, default_method=request.method
        )
        try:
            return adapter.match()
        except exceptions.MethodNotAllowed:
            return _NOT_ALLOWED, {}
        except exceptions.HTTPException:
            return _UNKNOWN, {}

    def _answer(
        self,
        call: exchange.Call,
        route: route_module.Route,
        arguments: Mapping[str, Any],
        fault: faults_module.Fault | None,
        path: str,
    ) -> exchange.Answer | None:
        """Answer a request as its fault demands.

        :returns: the answer, or None to drop the connection.
        """
        if fault is None:
            return self._handle(call, route, arguments, path)
        after = fault.phase == 'after'
        fails = bool(fault.status or fault.drop)
        answer = None
        if after:
            answer = self._handle(call, route, arguments, path)
        if fault.delay:
            self._closed.wait(fault.delay)
        if not after and not fails:
            answer = self._handle(call, route, arguments, path)
        if not fails:
            return answer
        if fault.drop:
            return None
        failure = errors.Fault(fault.status, fault.message)
        return _error_answer(call, failure, path)

    def _handle(
        self,
        call: exchange.Call,
        route: route_module.Route,
        arguments: Mapping[str, Any],
        path: str,
    ) -> exchange.Answer | None:
        answer = self._try(call, route, arguments, path)
        return None if self._emulation.host.is_off else answer

    def _try(
        self,
        call: exchange.Call,
        route: route_module.Route,
        arguments: Mapping[str, Any],
        path: str,
    ) -> exchange.Answer | None:
        """Answer a request, unless the host has lost its power meanwhile."""
        host = self._emulation.host
        reads = call.method == 'GET' or route.streams
        try:
            with host.condition if reads else host.changing():
                if host.is_off:
                    return None
                if route.needs_session:
                    host.sessions.check(
                        call.token, self._emulation.habits.unknown_session
                    )
                if route.media_types:
                    call.check(route.media_types)
                if not route.streams:
                    return route.handler(self._emulation, call, **arguments)
            return route.handler(self._emulation, call, **arguments)
        except errors.RestError as error:
            return _error_answer(call, error, path)
        except Exception:
            # A defect must look like a failed server, not like a connection
            # that the client lost.
            LOG.exception('%s %s failed', call.method, path)
            failure = errors.RestError(
                'The emulator has a defect; see its log.'
            )
            return _error_answer(call, failure, path)


def _unknown(
    _: emulation_module.Emulation, call: exchange.Call
) -> exchange.Answer:
    root = _ROOT.match(call.path)
    whose = (
        ': an HMC has it, NovaLink has not' if _HMC.match(call.path) else ''
    )
    if root and root[0] not in _ROOTS:
        raise errors.BadUri(
            f'REST000E Unrecognized root REST type of {root["kind"]}{whose}'
        )
    problem = f'{call.path} is not a URI of this API{whose}.'
    if root:
        raise errors.BadUri(problem)
    raise errors.NotFound(problem)


# Routes of requests that the table does not list.
_UNKNOWN = route_module.Route('', '', _unknown, 'unknown', served=())


def _not_allowed(
    _: emulation_module.Emulation, call: exchange.Call
) -> exchange.Answer:
    raise errors.MethodNotAllowed(
        f'{call.path} does not support {call.method}.'
    )


_NOT_ALLOWED = route_module.Route(
    '', '', _not_allowed, 'not_allowed', served=()
)


def _unreadable(
    _: emulation_module.Emulation, _call: exchange.Call, **_arguments: Any
) -> exchange.Answer:
    raise bodies.unreadable()


def make_app(
    world: worlds.World | None = None,
    *,
    username: str = 'admin',
    password: str = 'abc123',  # noqa: S107 - a test credential
    seed: int = 0,
    event_wait: float = emulation_module.EVENT_WAIT,
    site: host_module.Site | None = None,
    host_root: str | None = None,
) -> 'Application':
    """Return a new emulator as a WSGI application.

    :param world: a world document as Python values; None for the default.
    :param username: name of the only user who can log on with a password.
    :param password: password of that user.
    :param seed: seed of all random choices. Emulators with the same seed and
        world generate the same UUIDs, so give each host of a cloud its own.
    :param event_wait: seconds that a poll for events waits when there are
        none.
    :param site: with whose hosts this one shares pools; None for a site of
        its own.
    :param host_root: see :class:`.host_root.HostRoot`; None for none.
    :raises errors.WorldError: the world is invalid.
    :raises host_root.HostRootError: the directory cannot be used.
    """
    emulation = make_emulation(
        username=username,
        password=password,
        seed=seed,
        event_wait=event_wait,
        site=site,
        host_root=host_root,
    )
    application = Application(emulation)
    try:
        application.control.load_world(
            worlds.default() if world is None else world
        )
    except errors.WorldError:
        emulation.close()
        raise
    return application


def make_emulation(
    *,
    username: str,
    password: str,
    seed: int,
    event_wait: float,
    site: host_module.Site | None,
    host_root: str | None,
) -> emulation_module.Emulation:
    """Return a new emulator without a world; see :func:`make_app`."""
    host = host_module.Host(username, password, seed, site=site)
    emulation = emulation_module.Emulation(host, nouns.OPERATIONS, event_wait)
    if host_root is not None:
        try:
            root = host_root_module.HostRoot(host_root, host)
        except host_root_module.HostRootError:
            emulation.close()
            raise
        emulation.at_close.callback(root.close)
        emulation.served = root.write_commands
    return emulation


@functools.cache
def _url_map() -> routing.Map:
    """Compile the route table once; it has no state."""
    rules = [
        routing.Rule(route.rule, methods=[route.method], endpoint=route)
        for route in nouns.ROUTES
    ]
    for rule in rules:
        # Werkzeug adds it to GET; a HEAD of events would lose them.
        (rule.methods or set()).discard('HEAD')
    return routing.Map(rules, merge_slashes=False, strict_slashes=False)


def _call(
    request: wrappers.Request,
    now: float,
    body: bytes = b'',
    arriving: bodies.Body | None = None,
) -> exchange.Call:
    return exchange.Call(
        method=request.method,
        path=request.path,
        query=request.query_string.decode(errors='replace'),
        parameters=request.args.to_dict(),
        headers={name.title(): value for name, value in request.headers},
        cookies=request.cookies,
        body=body,
        base=request.host_url.rstrip('/'),
        now=now,
        arriving=arriving or bodies.Body(),
    )


def _error_answer(
    call: exchange.Call, error: errors.RestError, path: str
) -> exchange.Answer:
    element = atom.error_element(error, path, call.headers)
    entry = atom.Entry(exchange.feed_id(path), element)
    return exchange.Answer(error.status, call.writer.entry(entry))


def _response(answer: exchange.Answer, secure: bool) -> wrappers.Response:
    """Return an answer as Werkzeug sends it.

    :param secure: whether the connection is encrypted. Hosts mark cookies as
        secure; without encryption no client would send these back.
    """
    response = wrappers.Response(
        answer.body if answer.chunks is None else answer.chunks,
        answer.status,
        _HEADERS,
        content_type=answer.content_type,
    )
    if answer.chunks is not None:
        response.content_length = answer.length
    if answer.etag:
        # Unquoted, as K2 sends it and clients compare it.
        response.headers['ETag'] = answer.etag
    for name, value in answer.cookies.items():
        response.set_cookie(name, value, httponly=True, secure=secure)
    if answer.status in (204, 304):
        response.headers.remove('Content-Type')
    return response
