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

import requests

from nova_powervm.demo import config
from nova_powervm.demo import stack as stack_lib
from nova_powervm.demo import supervisor as supervisor_lib
from nova_powervm.emulator import client

_EMULATOR = 'emulator'
_EMULATOR_USER = 'nova'

#: Child process -> the APIs that answer when it is up.
_PROJECTS = {
    'keystone': ('keystone',),
    'glance': ('glance',),
    'neutron': ('neutron',),
    'nova': ('placement', 'nova'),
}

# All are up after about seven seconds on an idle machine with two cores.
_START_TIMEOUT = 180.0


@dataclasses.dataclass(frozen=True)
class Files:
    """The files that a run starts from; None stands for the default.

    :ivar inventory: the inventory.yaml that nova-compute reads.
    :ivar world: the world document of the emulated host.
    """

    inventory: pathlib.Path | None = None
    world: pathlib.Path | None = None

    @property
    def are_defaults(self) -> bool:
        """Whether both files are the demonstration's own."""
        return self.inventory is None and self.world is None


def default_inventory() -> str:
    """Return the text of the demonstration's own inventory.yaml."""
    package = importlib.resources.files('nova_powervm.demo')
    text = (package / 'inventory.yaml').read_text()
    # The license is the first paragraph.
    return text.partition('\n\n')[2]


def launch(
    state_dir: pathlib.Path,
    supervisor: supervisor_lib.Supervisor,
    files: Files,
    say: collections.abc.Callable[[str], None],
) -> stack_lib.Stack:
    """Start all processes, and return when every API answers.

    :param state_dir: an empty state directory.
    :param supervisor: starts and later stops the processes.
    :param files: the inventory and the world.
    :param say: called with lines that report progress.
    :raises supervisor.ServiceError: a process does not come up.
    """
    began = time.monotonic()
    host = _start_emulator(supervisor, state_dir, files.world)
    say(f'{_EMULATOR} up at {host.url}')
    stack = stack_lib.Stack(
        state_dir=state_dir,
        ports=stack_lib.free_ports(stack_lib.APIS),
        passwords=stack_lib.new_passwords(),
        host=host,
        prefix=pathlib.Path(sys.prefix),
        inventory_file=_place_inventory(state_dir, files.inventory),
        volume_group=largest_volume_group(client.Client(host.url).state()),
    )
    stack.save()
    config.write(stack)
    say(f'starting {", ".join(_PROJECTS)}, with empty databases')
    for project in _PROJECTS:
        supervisor.start(
            project,
            'nova_powervm.demo.services',
            project,
            '--state-dir',
            str(state_dir),
        )
    for project in supervisor.wait(
        _PROJECTS, lambda name: _answers(stack, name), _START_TIMEOUT
    ):
        say(f'{project} up after {time.monotonic() - began:.1f} s')
    return stack


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


def _place_inventory(
    state_dir: pathlib.Path, given: pathlib.Path | None
) -> pathlib.Path:
    """Return the path of the inventory file, writing the default one.

    A file of the user is read where it is, so that changes take effect.
    """
    if given is not None:
        return given.absolute()
    path = state_dir / 'etc' / 'inventory.yaml'
    path.write_text(default_inventory())
    return path


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


def _answers(stack: stack_lib.Stack, project: str) -> bool:
    try:
        for api in _PROJECTS[project]:
            requests.get(stack.url(api), timeout=_START_TIMEOUT)
    except requests.ConnectionError:
        return False
    return True
