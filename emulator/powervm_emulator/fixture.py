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

"""An emulator that runs in the process of a test."""

import contextlib
from collections.abc import Sequence
from typing import Any
from typing import Self

from powervm_emulator import app
from powervm_emulator import server
from powervm_emulator import tls as tls_module
from powervm_emulator import worlds
from powervm_emulator.control import verbs
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import host as host_module


class Emulator:
    """An emulator on the loopback interface.

    Use it as a context manager, or call :meth:`start` and :meth:`stop`. Any
    number of emulators, each an independent host, can run in one process.

    :param world: a world document as Python values; None for the default.
    :param seed: seed of all random choices; give each host of a cloud its
        own.
    :param username: name of the only user who can log on with a password.
    :param password: password of that user.
    :param event_wait: seconds that a poll for events waits when there are
        none.
    :param port: the port to listen on; 0 for any free port.
    :param tls: paths of a certificate and its key; None for plain HTTP.
    :param host_root: directory for what programs on the management partition
        see as ``/sys`` and ``/dev``; see :class:`.host_root.HostRoot`.
    :param site: as for :func:`.app.make_app`; see :class:`Site`.
    """

    def __init__(  # noqa: PLR0913 - the options of the command
        self,
        world: worlds.World | None = None,
        *,
        seed: int = 0,
        username: str = 'admin',
        password: str = 'abc123',  # noqa: S107 - a test credential
        event_wait: float = emulation_module.EVENT_WAIT,
        port: int = 0,
        tls: tuple[str, str] | None = None,
        host_root: str | None = None,
        site: host_module.Site | None = None,
    ) -> None:
        self.username = username
        self.password = password
        self._application = app.make_app(
            world,
            username=username,
            password=password,
            seed=seed,
            event_wait=event_wait,
            site=site,
            host_root=host_root,
        )
        context = tls_module.context(tls_module.Files(*tls)) if tls else None
        self._server = server.Server(
            self._application, '127.0.0.1', port, context
        )
        self._application.emulation.served(self._server.url)

    @property
    def control(self) -> verbs.Control:
        """The control plane."""
        return self._application.control

    @property
    def host(self) -> str:
        """The address that the emulator listens on."""
        return self._server.host

    @property
    def port(self) -> int:
        """The port that the emulator listens on."""
        return self._server.port

    @property
    def url(self) -> str:
        """The URL, ``http://host:port`` or ``https://host:port``."""
        return self._server.url

    def start(self) -> Self:
        """Start serving."""
        self._server.start()
        return self

    def stop(self) -> None:
        """Answer waiting polls for events and stop serving."""
        self._application.close()
        self._server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()


class Site:
    """Several emulators whose hosts share their storage pools.

    Use it as a context manager, or call :meth:`start` and :meth:`stop`.

    :param described: the world document of each host.
    :param seed: that of the first host; the others have the next ones.
    :param ports: the port of each host; None for any free ones.
    :param host_roots: the ``host_root`` of each host; None for none.
    :param options: of every :class:`Emulator`.
    :ivar emulators: one for each world.
    :raises core.errors.WorldError: a world is invalid, or does not fit to
        those before it.
    """

    def __init__(
        self,
        described: Sequence[worlds.World],
        *,
        seed: int = 0,
        ports: Sequence[int] | None = None,
        host_roots: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        site = host_module.Site(seed)
        self.emulators: list[Emulator] = []
        with contextlib.ExitStack() as made:
            for number, world in enumerate(described):
                emulator = Emulator(
                    world,
                    seed=seed + number,
                    port=ports[number] if ports else 0,
                    host_root=host_roots[number] if host_roots else None,
                    site=site,
                    **options,
                )
                made.callback(emulator.stop)
                self.emulators.append(emulator)
            made.pop_all()

    def start(self) -> Self:
        """Start serving."""
        for emulator in self.emulators:
            emulator.start()
        return self

    def stop(self) -> None:
        """Stop serving."""
        for emulator in self.emulators:
            emulator.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()
