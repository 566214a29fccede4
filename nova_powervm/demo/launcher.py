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

"""Starting the cloud: first the host, then all projects in parallel."""

import collections.abc
import dataclasses
import importlib.resources
import pathlib
import secrets
import sys
import time
import typing
import urllib.parse

from nova_powervm.demo import config
from nova_powervm.demo import messaging
from nova_powervm.demo import stack as stack_lib
from nova_powervm.demo import supervisor as supervisor_lib
from nova_powervm.emulator import client

_EMULATOR = 'emulator'
_EMULATOR_USER = 'nova'

_QUEUES = 'queues'

#: The name of Cyborg's inventory file, if it is the default one.
ACCELERATORS = 'accelerators.yaml'

_PROJECTS = ('keystone', 'glance', 'neutron', 'nova')
_CYBORG_PROJECTS = ('cyborg_api', 'cyborg_conductor', 'cyborg_agent')

# All are up after about seven seconds on an idle machine with two cores.
_START_TIMEOUT = 180.0


@dataclasses.dataclass(frozen=True)
class Choices:
    """What a run starts from; None stands for the default.

    :ivar inventory: the inventory.yaml that nova-compute reads.
    :ivar world: the world document of the emulated host.
    :ivar accelerators: the inventory file that cyborg-agent reads.
    :ivar has_cyborg: whether Cyborg is a part of the cloud.
    :ivar transport_url: the message broker.
    """

    inventory: pathlib.Path | None = None
    world: pathlib.Path | None = None
    accelerators: pathlib.Path | None = None
    has_cyborg: bool = False
    transport_url: str | None = None

    @property
    def has_default_files(self) -> bool:
        """Whether all files are the demonstration's own."""
        return not (self.inventory or self.world or self.accelerators)


def default_inventory(has_cyborg: bool = False) -> str:
    """Return the text of the demonstration's own inventory.yaml.

    :param has_cyborg: whether Cyborg has the slots of
        :func:`default_accelerators`, which no other file may give away.
    """
    return _read(
        'inventory-beside-cyborg.yaml' if has_cyborg else 'inventory.yaml'
    )


def default_accelerators() -> str:
    """Return the text of the demonstration's own inventory for Cyborg."""
    return _read(ACCELERATORS)


def _read(name: str) -> str:
    """Return the text of a file of this package without its license."""
    package = importlib.resources.files('nova_powervm.demo')
    # The license is the first paragraph.
    return (package / name).read_text().partition('\n\n')[2]


def launch(
    state_dir: pathlib.Path,
    supervisor: supervisor_lib.Supervisor,
    choices: Choices,
    say: collections.abc.Callable[[str], None],
) -> stack_lib.Stack:
    """Start all processes, and return when every project serves.

    :param state_dir: an empty state directory.
    :param supervisor: starts and later stops the processes.
    :param say: called with lines that report progress.
    :raises supervisor.ServiceError: a process does not come up.
    """
    began = time.monotonic()
    host = _start_emulator(supervisor, state_dir, choices.world)
    say(f'{_EMULATOR} up at {host.url}')
    stack = _make_stack(state_dir, choices, host)
    stack.save()
    config.write(stack)
    projects = _PROJECTS + (_CYBORG_PROJECTS if stack.has_cyborg else ())
    say(f'starting {", ".join(projects)}, with empty databases')
    if choices.transport_url is None and stack.has_cyborg:
        _start_queues(supervisor, stack)
    for project in projects:
        start_project(supervisor, stack, project)
    for project in supervisor.wait(
        projects, lambda name: stack.mark_of(name).exists(), _START_TIMEOUT
    ):
        say(f'{project} up after {time.monotonic() - began:.1f} s')
    return stack


def start_project(
    supervisor: supervisor_lib.Supervisor,
    stack: stack_lib.Stack,
    project: str,
) -> None:
    """Start the process of a project, also after it was killed."""
    stack.mark_of(project).unlink(missing_ok=True)
    supervisor.start(
        project,
        'nova_powervm.demo.services',
        project,
        '--state-dir',
        str(stack.state_dir),
        environment=messaging.environment(stack.transport_url),
    )


def _make_stack(
    state_dir: pathlib.Path, choices: Choices, host: stack_lib.HostRest
) -> stack_lib.Stack:
    """Choose ports and passwords, and place the inventory files."""
    more = (stack_lib.CYBORG,) if choices.has_cyborg else ()
    ports = stack_lib.free_ports((*stack_lib.APIS, *more, _QUEUES))
    own_broker = messaging.url(ports.pop(_QUEUES))
    default = own_broker if choices.has_cyborg else stack_lib.IN_PROCESS
    etc = state_dir / 'etc'
    return stack_lib.Stack(
        state_dir=state_dir,
        ports=ports,
        passwords=stack_lib.new_passwords((*stack_lib.SERVICE_USERS, *more)),
        host=host,
        prefix=pathlib.Path(sys.prefix),
        inventory_file=_place(
            etc / 'inventory.yaml',
            choices.inventory,
            default_inventory(choices.has_cyborg),
        ),
        volume_group=largest_volume_group(client.Client(host.url).state()),
        transport_url=choices.transport_url or default,
        accelerator_file=_place(
            etc / ACCELERATORS,
            choices.accelerators,
            default_accelerators(),
        )
        if choices.has_cyborg
        else None,
    )


def largest_volume_group(state: dict[str, typing.Any]) -> str | None:
    """Return the volume group with the most free space of an emulated host.

    :param state: the answer to the verb ``state`` of the control plane.
    :returns: ``VIOS/GROUP``, or ``GROUP`` if no other VIOS has a group of
        that name; None if there is no volume group.
    """
    groups = [
        (group['free'], partition['name'], group['name'])
        for system in state['systems']
        for partition in system['partitions']
        for group in partition.get('volume_groups', ())
    ]
    if not groups:
        return None
    _free, vios, name = max(groups)
    is_unique = sum(other == name for _, _, other in groups) == 1
    return str(name) if is_unique else f'{vios}/{name}'


def _place(
    path: pathlib.Path, given: pathlib.Path | None, text: str
) -> pathlib.Path:
    """Return the path of an inventory file, writing the default one.

    A file of the user is read where it is, so that changes take effect.
    """
    if given is not None:
        return given.absolute()
    path.write_text(text)
    return path


def _start_queues(
    supervisor: supervisor_lib.Supervisor, stack: stack_lib.Stack
) -> None:
    """Start the server of the queues, for which its clients wait."""
    broker = urllib.parse.urlsplit(stack.transport_url)
    # A password on the command line would be visible to all users.
    password_file = stack.etc / 'queues-password'
    stack_lib.write_private(password_file, f'{broker.password}\n')
    supervisor.start(
        _QUEUES,
        'nova_powervm.demo.messaging',
        *('--port', str(broker.port)),
        *('--password-file', str(password_file)),
    )


def _start_emulator(
    supervisor: supervisor_lib.Supervisor,
    state_dir: pathlib.Path,
    world: pathlib.Path | None,
) -> stack_lib.HostRest:
    """Start the emulator on a free port, and wait until it serves."""
    password = secrets.token_hex(16)
    # A password on the command line would be visible to all users.
    password_file = state_dir / 'etc' / 'emulator-password'
    stack_lib.write_private(password_file, password + '\n')
    arguments = [
        *('--port', '0', '--username', _EMULATOR_USER),
        *('--password-file', str(password_file)),
    ]
    if world is not None:
        arguments += ['--world', str(world.absolute())]
    supervisor.start(
        _EMULATOR, 'nova_powervm.demo.services.emulator', *arguments
    )
    output = supervisor.output(_EMULATOR)

    def has_printed_url(_name: str) -> bool:
        # An error message has another beginning.
        line, end, _ = output.read_text().partition('\n')
        return line.startswith('http://') and bool(end)

    list(supervisor.wait([_EMULATOR], has_printed_url, _START_TIMEOUT))
    url = output.read_text().splitlines()[0]
    return stack_lib.HostRest(url, _EMULATOR_USER, password)
