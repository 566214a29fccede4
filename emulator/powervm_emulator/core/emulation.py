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

"""Everything that one emulator is made of."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from powervm_emulator.core import connections as connections_module
from powervm_emulator.core import faults as faults_module
from powervm_emulator.core import habits as habits_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.core import journal as journal_module
from powervm_emulator.core import resource
from powervm_emulator.core import scratch

# Seconds that K2 holds a poll for events when there are none.
EVENT_WAIT = 10.0


class TokenFiles:
    """Session tokens that local clients read from a file.

    The directory is made when the first file is.
    """

    def __init__(self) -> None:
        self._directory: scratch.Scratch | None = None
        self._count = 0

    def write(self, token: str) -> str:
        """Write a token to a file that only this user can read.

        :returns: the file's path.
        """
        if self._directory is None:
            self._directory = scratch.Scratch()
        self._count += 1
        path = self._directory.path / f'token{self._count}'
        path.touch(mode=0o600)
        path.write_text(f'{token}\n')
        return str(path)

    def close(self) -> None:
        """Delete every file."""
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None


@dataclasses.dataclass
class Emulation:
    """One emulated REST server, without the server.

    :ivar operations: the operations of jobs, by resource kind and name.
    :ivar event_wait: seconds that a poll waits for events.
    :ivar habits: what it does in every answer.
    :ivar world: the document of the world that was loaded last.
    :ivar at_close: what is done first at its end.
    :ivar served: called with the URL when there is one.
    :ivar starting: the partitions that start when the power returns, each
        with its RMC state.
    """

    host: host_module.Host
    operations: jobs_module.Operations
    event_wait: float = EVENT_WAIT
    faults: faults_module.Faults = dataclasses.field(
        default_factory=faults_module.Faults
    )
    journal: journal_module.Journal = dataclasses.field(
        default_factory=journal_module.Journal
    )
    habits: habits_module.Habits = dataclasses.field(
        default_factory=habits_module.Habits
    )
    token_files: TokenFiles = dataclasses.field(default_factory=TokenFiles)
    connections: connections_module.Connections = dataclasses.field(
        default_factory=connections_module.Connections
    )
    jobs: jobs_module.Jobs = dataclasses.field(init=False)
    world: resource.JSON = dataclasses.field(default_factory=dict)
    at_close: contextlib.ExitStack = dataclasses.field(
        default_factory=contextlib.ExitStack
    )
    served: Callable[[str], None] = lambda url: None
    starting: list[tuple[Any, str]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.jobs = jobs_module.Jobs(self.host, self.operations)

    def close(self) -> None:
        """Let waiting clients go and delete what is on disk."""
        self.at_close.close()
        with self.host.changing():
            self.host.events.close()
            self.host.terminals.stop()
            self.host.contents.close()
            self.host.site.leave(self.host)
        self.token_files.close()
