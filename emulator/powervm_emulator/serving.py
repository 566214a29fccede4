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

"""Serving the hosts that the command line asks for."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from collections.abc import Sequence

from powervm_emulator import app
from powervm_emulator import certificate
from powervm_emulator import host_root
from powervm_emulator import likeness
from powervm_emulator import options as options_module
from powervm_emulator import server
from powervm_emulator import tls
from powervm_emulator import worlds
from powervm_emulator.core import errors
from powervm_emulator.core import host
from powervm_emulator.core import scratch
from powervm_emulator.state import keeper as keeper_module

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
Application = app.Application
Keeper = keeper_module.Keeper


class ServeError(Exception):
    """Why nothing is served, in words."""


def serve(options: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM arrives.

    Standard output has the URL of each emulated host, one a line.

    :raises ServeError: a world, the state or a certificate is not usable, or
        a port is unavailable.
    """
    # Blocked in this thread and in all later ones, the signals stay pending
    # for sigwait; a handler could run just before this thread starts to wait,
    # and any thread that does not block them would end the process.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    # Uploads and tokens of processes that were killed.
    scratch.sweep()
    with contextlib.ExitStack() as stack:
        try:
            keeper = Keeper(options.state) if options.state else None
            if keeper is not None:
                stack.callback(keeper.close)
            applications = _applications(options, keeper)
            for application in applications:
                stack.callback(application.close)
            if keeper is not None:
                keeper.begin([one.emulation for one in applications])
                for application in applications:
                    application.keep = keeper.save
            files = stack.enter_context(_tls_files(options))
            servers = list(_servers(options, applications, files))
        except (
            keeper_module.StateError,
            likeness.LikenessError,
            tls.TlsError,
            host_root.HostRootError,
        ) as error:
            raise ServeError(str(error)) from error
        for serving in servers:
            stack.callback(serving.stop)
        _run(servers)


def _applications(
    options: argparse.Namespace, keeper: Keeper | None
) -> list[Application]:
    """Make the emulators, of the state if there is one, or of the worlds."""
    files: list[str | None] = options.world or [None]
    count = keeper.count if keeper else None
    if count is not None and options.world and len(files) != count:
        raise ServeError(
            f'the state file {options.state} has {count} hosts, and there '
            f'are {len(files)} worlds; name another file, or no world'
        )
    ports: list[int] = options.port or [0] * (count or len(files))
    if len(ports) != (count or len(files)):
        raise ServeError(
            f'worlds: {count or len(files)}, ports: {len(ports)}; each host '
            'needs one of each'
        )
    roots: list[str | None] = options.host_root or [None] * len(ports)
    if len(roots) != len(ports):
        raise ServeError(
            f'ports: {len(ports)}, host roots: {len(roots)}; each host needs '
            'one of each, or none of them a host root'
        )
    options.port = ports
    common = host.Site(options.seed)
    like = likeness.read(*options.like) if options.like else None
    if like is not None and like.event_wait is not None:
        options.event_wait = like.event_wait
    with contextlib.ExitStack() as made:
        found = []
        for number, root in enumerate(roots):
            application = _application(options, common, number, root)
            made.callback(application.close)
            if keeper is not None and count is not None:
                keeper.load(application.emulation, number)
            else:
                _load_world(application, files[number], like)
            if like is not None:
                like.give(application.emulation)
            found.append(application)
        made.pop_all()
    return found


def _application(
    options: argparse.Namespace,
    common: host.Site,
    number: int,
    root: str | None,
) -> Application:
    return Application(
        app.make_emulation(
            username=options.username,
            password=options.password,
            seed=options.seed + number,
            event_wait=options.event_wait,
            site=common,
            host_root=root,
        )
    )


def _load_world(
    application: Application,
    file: str | None,
    like: likeness.Likeness | None,
) -> None:
    try:
        world = worlds.load_file(file) if file else worlds.default()
        if like is not None:
            world = like.change(world)
        application.control.load_world(world)
    except errors.WorldError as error:
        name = file or 'the default world'
        problem = str(error)
        raise ServeError(
            problem if problem.startswith(name) else f'{name}: {problem}'
        ) from error


@contextlib.contextmanager
def _tls_files(options: argparse.Namespace) -> Iterator[tls.Files | None]:
    """Give the certificate and key to serve with; None for plain HTTP."""
    if options.tls_cert:
        yield tls.Files(options.tls_cert, options.tls_key)
    elif options.tls:
        directory = scratch.Scratch()
        try:
            files = certificate.make(directory.path, options.host)
            print(
                f'{options_module.PROGRAM}: certificate: {files.certificate}',
                file=sys.stderr,
                flush=True,
            )
            yield files
        finally:
            directory.cleanup()
    else:
        yield None


def _servers(
    options: argparse.Namespace,
    applications: Sequence[Application],
    files: tls.Files | None,
) -> Iterator[server.Server]:
    context = tls.context(files) if files else None
    for application, port in zip(applications, options.port, strict=True):
        try:
            made = server.Server(application, options.host, port, context)
        except OSError as error:
            raise ServeError(
                f'cannot listen on {options.host} port {port}: {error}'
            ) from error
        application.emulation.served(made.url)
        yield made


def _run(servers: Sequence[server.Server]) -> None:
    """Serve until a signal arrives."""
    for serving in servers:
        serving.start()
    for serving in servers:
        print(serving.url, flush=True)
    signal.sigwait(_STOP_SIGNALS)
