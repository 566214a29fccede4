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

"""The addresses, passwords and files of one run of the cloud.

The launcher creates a :class:`Stack` and saves it as ``stack.json`` in the
state directory, where the processes of the services load it.
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
import typing

#: Where processes find the demonstration, which is installed nowhere.
CHECKOUT = pathlib.Path(__file__).resolve().parents[1]

#: The host name of nova-compute, and therefore the name of its node. Several
#: compute hosts have numbers behind it.
NODE = 'powervm-demo'
REGION = 'RegionOne'
ADDRESS = '127.0.0.1'

#: The service users, each of which has its own password.
SERVICE_USERS = ('glance', 'neutron', 'nova', 'placement')

#: The APIs, each of which has its own port.
APIS = ('glance', 'keystone', 'neutron', 'nova', 'placement')

#: The user and the API that a cloud with accelerators has beside these.
CYBORG = 'cyborg'

#: The same of a cloud with volumes.
CINDER = 'cinder'

#: The port of such a cloud on which the array takes commands.
ARRAY = 'array'

#: What a cloud with consoles has beside these: Nova's proxy for browsers, and
#: the port on which nova-compute serves consoles to it.
PROXY, CONSOLES = 'novncproxy', 'consoles'

#: The directory of what is on the volumes of the array.
VOLUMES = 'volumes'

#: The transport URL of services that share a process with their clients.
IN_PROCESS = 'fake:/'

# Linux takes the ports of outgoing connections from 32768 upwards, so no
# client can occupy a lower port before its service starts.
_PORTS = range(20000, 32768)

_FILE = 'stack.json'


@dataclasses.dataclass(frozen=True)
class HostRest:
    """The address and credentials of a PowerVM host's REST API.

    :ivar management_root: where programs on the management partition, which
        need no credentials, see its files.
    """

    url: str
    username: str
    password: str = dataclasses.field(repr=False)
    management_root: str


@dataclasses.dataclass(frozen=True)
class Compute:
    """The parameters of one compute host.

    :ivar name: the host name of nova-compute and the name of its node.
    :ivar address: the IP address that Nova knows it by.
    :ivar host: the PowerVM host.
    :ivar inventory_file: the driver's inventory.yaml.
    :ivar disk_options: the options in ``[powervm]`` that say where disks are.
    """

    name: str
    address: str
    host: HostRest
    inventory_file: pathlib.Path
    disk_options: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def service(self) -> str:
        """The name of the process, the file and the log of nova-compute.

        Only a cloud with several compute hosts has them.
        """
        return 'nova-compute' + self.name.removeprefix(NODE)

    def document(self) -> dict[str, object]:
        """Return the parameters as JSON values."""
        return {
            **dataclasses.asdict(self),
            'inventory_file': str(self.inventory_file),
        }


@dataclasses.dataclass(frozen=True)
class Stack:
    """The parameters of one cloud.

    :ivar state_dir: the directory of everything that the cloud writes.
    :ivar ports: the port of each API.
    :ivar passwords: the password of ``admin`` and of each service user.
    :ivar prefix: the prefix of the Python environment.
    :ivar computes: the compute hosts, of which there is at least one.
    :ivar transport_url: the message broker of all services.
    :ivar accelerator_file: the inventory file of Cyborg's driver; None for a
        cloud without Cyborg.
    """

    state_dir: pathlib.Path
    ports: dict[str, int]
    passwords: dict[str, str] = dataclasses.field(repr=False)
    prefix: pathlib.Path
    computes: tuple[Compute, ...]
    transport_url: str = dataclasses.field(default=IN_PROCESS, repr=False)
    accelerator_file: pathlib.Path | None = None

    @property
    def has_compute_processes(self) -> bool:
        """Whether each nova-compute has a process of its own.

        The only one shares the process of Nova's other services.
        """
        return len(self.computes) > 1

    @property
    def compute_services(self) -> list[str]:
        """The names of the processes that are a nova-compute."""
        if not self.has_compute_processes:
            return []
        return [compute.service for compute in self.computes]

    @property
    def host(self) -> HostRest:
        """The PowerVM host of the first compute host."""
        return self.computes[0].host

    @property
    def inventory_file(self) -> pathlib.Path:
        """The inventory.yaml of the first compute host."""
        return self.computes[0].inventory_file

    @property
    def has_cyborg(self) -> bool:
        """Whether Cyborg is a part of the cloud."""
        return self.accelerator_file is not None

    @property
    def has_cinder(self) -> bool:
        """Whether Cinder is a part of the cloud."""
        return CINDER in self.ports

    @property
    def has_console(self) -> bool:
        """Whether a browser can show the consoles of servers."""
        return PROXY in self.ports

    @property
    def novnc(self) -> pathlib.Path:
        """The directory of the pages that Nova's proxy serves."""
        return self.state_dir / 'novnc'

    @property
    def volumes(self) -> pathlib.Path:
        """The directory of what is on the volumes of the array."""
        return self.state_dir / VOLUMES

    @property
    def etc(self) -> pathlib.Path:
        """The directory of all configuration files."""
        return self.state_dir / 'etc'

    @property
    def log(self) -> pathlib.Path:
        """The directory of all log files."""
        return self.state_dir / 'log'

    def mark_of(self, project: str) -> pathlib.Path:
        """Return the file that exists as soon as a project serves."""
        return self.state_dir / 'state' / f'{project}.up'

    def state_path_of(self, compute: Compute) -> pathlib.Path:
        """Return what ``state_path`` is for a compute host's own process."""
        return self.state_dir / 'state' / compute.service

    def url(self, api: str) -> str:
        """Return the URL of an API, without a path."""
        return f'http://{ADDRESS}:{self.ports[api]}'

    @property
    def auth_url(self) -> str:
        """The URL of Keystone's API."""
        return self.url('keystone') + '/v3'

    def save(self) -> None:
        """Write ``stack.json``, readable by this user only."""
        document = {
            'ports': self.ports,
            'passwords': self.passwords,
            'prefix': str(self.prefix),
            'computes': [compute.document() for compute in self.computes],
            'transport_url': self.transport_url,
            'accelerator_file': self.accelerator_file
            and str(self.accelerator_file),
        }
        write_private(
            self.state_dir / _FILE, json.dumps(document, indent=2) + '\n'
        )


def load(state_dir: pathlib.Path) -> Stack:
    """Load the stack that :meth:`Stack.save` wrote to ``state_dir``."""
    document = json.loads((state_dir / _FILE).read_text())
    accelerator_file = document['accelerator_file']
    return Stack(
        state_dir=state_dir,
        ports=document['ports'],
        passwords=document['passwords'],
        prefix=pathlib.Path(document['prefix']),
        computes=tuple(map(_load_compute, document['computes'])),
        transport_url=document['transport_url'],
        accelerator_file=accelerator_file and pathlib.Path(accelerator_file),
    )


def _load_compute(document: dict[str, typing.Any]) -> Compute:
    return Compute(
        name=document['name'],
        address=document['address'],
        host=HostRest(**document['host']),
        inventory_file=pathlib.Path(document['inventory_file']),
        disk_options=document['disk_options'],
    )


def make_state_dir(wanted: pathlib.Path | None) -> pathlib.Path:
    """Create the state directory of a run, with mode 0700.

    :param wanted: the path of an empty or new directory; None for a new one
        in the system's directory for temporary files.
    :raises FileExistsError: ``wanted`` is not empty.
    """
    if wanted is None:
        state_dir = pathlib.Path(tempfile.mkdtemp(prefix='nova-powervm-demo-'))
    else:
        state_dir = wanted.absolute()
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        state_dir.chmod(0o700)
        if any(state_dir.iterdir()):
            raise FileExistsError(
                f'{state_dir} is not empty; name a new or empty directory '
                'with --state-dir'
            )
    for name in ('db', 'etc', 'images', 'lock', 'log', 'state', VOLUMES):
        (state_dir / name).mkdir()
    return state_dir


def free_ports(
    names: collections.abc.Sequence[str],
    candidates: collections.abc.Iterable[int] | None = None,
) -> dict[str, int]:
    """Return a free TCP port of this machine for each name.

    :param candidates: the ports to try. By default these are all suitable
        ones in random order, so that runs that start together seldom collide.
    :raises OSError: there are fewer free ports than names.
    """
    if candidates is None:
        candidates = random.sample(_PORTS, len(_PORTS))
    free = filter(_is_free, candidates)
    ports = dict(zip(names, free, strict=False))
    if len(ports) < len(names):
        raise OSError(
            f'not enough free ports on {ADDRESS} from {_PORTS.start} to '
            f'{_PORTS.stop - 1}'
        )
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
        return True


def new_passwords(
    users: collections.abc.Iterable[str] = SERVICE_USERS,
) -> dict[str, str]:
    """Return random passwords for the admin and the service users."""
    # Hexadecimal digits need no quotes in ini files, URLs and shells.
    return {user: secrets.token_hex(16) for user in ('admin', *users)}


def write_private(path: pathlib.Path, text: str) -> None:
    """Write a file that only this user can read, from its creation on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, 'w') as file:
        file.write(text)
