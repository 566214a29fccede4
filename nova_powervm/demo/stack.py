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

"""What one run of the demonstration's cloud consists of.

A :class:`Stack` is made once by the launcher, written to ``stack.json`` in
the state directory, and read there by the services' processes.
"""

import collections.abc
import dataclasses
import json
import os
import pathlib
import random
import secrets
import socket
import tempfile

#: The host name of the one nova-compute, and so the name of its node.
NODE = 'powervm-demo'
REGION = 'RegionOne'
ADDRESS = '127.0.0.1'

#: Service users, each with a password of its own.
SERVICE_USERS = ('glance', 'neutron', 'nova', 'placement')

#: Every API that gets a port.
APIS = ('glance', 'keystone', 'neutron', 'nova', 'placement')

# Linux takes the ports of outgoing connections from 32768 on, so an API's
# port below can't be held by somebody's client when its service starts.
_PORTS = range(20000, 32768)

_FILE = 'stack.json'


@dataclasses.dataclass(frozen=True)
class HostRest:
    """Where a PowerVM host's REST API is, and who may use it."""

    url: str
    username: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Stack:
    """One cloud: its directory, its ports, its passwords and its host.

    ``ports`` has a number per entry of :data:`APIS`; ``passwords`` one text
    for ``admin`` and for each of :data:`SERVICE_USERS`.
    """

    state_dir: pathlib.Path
    ports: dict[str, int]
    passwords: dict[str, str] = dataclasses.field(repr=False)
    host: HostRest
    prefix: pathlib.Path

    @property
    def etc(self) -> pathlib.Path:
        """The directory of all configuration files."""
        return self.state_dir / 'etc'

    @property
    def log(self) -> pathlib.Path:
        """The directory of all log files."""
        return self.state_dir / 'log'

    @property
    def inventory_file(self) -> pathlib.Path:
        """The driver's inventory.yaml."""
        return self.etc / 'inventory.yaml'

    def url(self, api: str) -> str:
        """Return the address of an entry of :data:`APIS`, without a path."""
        return f'http://{ADDRESS}:{self.ports[api]}'

    @property
    def auth_url(self) -> str:
        """Keystone's address as clients want it."""
        return self.url('keystone') + '/v3'

    def save(self) -> None:
        """Write ``stack.json``, for this user's eyes only."""
        document = {
            'ports': self.ports,
            'passwords': self.passwords,
            'host': dataclasses.asdict(self.host),
            'prefix': str(self.prefix),
        }
        write_private(
            self.state_dir / _FILE, json.dumps(document, indent=2) + '\n'
        )


def load(state_dir: pathlib.Path) -> Stack:
    """Read the stack that :meth:`Stack.save` wrote into ``state_dir``."""
    document = json.loads((state_dir / _FILE).read_text())
    return Stack(
        state_dir=state_dir,
        ports=document['ports'],
        passwords=document['passwords'],
        host=HostRest(**document['host']),
        prefix=pathlib.Path(document['prefix']),
    )


def make_state_dir(wanted: pathlib.Path | None) -> pathlib.Path:
    """Make the directory that holds everything of a run, with mode 0700.

    :param wanted: its path, or None for a new one under the system's
        directory for temporary files.
    :raises FileExistsError: there is something in ``wanted`` already.
    """
    if wanted is None:
        state_dir = pathlib.Path(tempfile.mkdtemp(prefix='nova-powervm-demo-'))
    else:
        state_dir = wanted.absolute()
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        state_dir.chmod(0o700)
        if any(state_dir.iterdir()):
            raise FileExistsError(f'{state_dir} is not empty')
    for name in ('db', 'etc', 'images', 'lock', 'log', 'state'):
        (state_dir / name).mkdir()
    return state_dir


def free_ports(
    names: collections.abc.Sequence[str],
    candidates: collections.abc.Iterable[int] | None = None,
) -> dict[str, int]:
    """Return a different free TCP port of this machine per name.

    :param candidates: the numbers to try; by default all that suit, in
        random order so that two runs that start together seldom meet.
    :raises OSError: fewer candidates are free than there are names.
    """
    if candidates is None:
        candidates = random.sample(_PORTS, len(_PORTS))
    free = filter(_is_free, candidates)
    ports = dict(zip(names, free, strict=False))
    if len(ports) < len(names):
        raise OSError('not enough free ports on ' + ADDRESS)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
        return True


def new_passwords() -> dict[str, str]:
    """Return a random password for the admin and for each service user."""
    # Hexadecimal: nothing in it means anything to an ini file or a shell.
    return {user: secrets.token_hex(16) for user in ('admin', *SERVICE_USERS)}


def write_private(path: pathlib.Path, text: str) -> None:
    """Write a file that nobody but this user ever could read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, 'w') as file:
        file.write(text)
