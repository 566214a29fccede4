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
import os
import pathlib
import sys
import time

from demo import cloud as cloud_lib
from demo import config
from demo import console
from demo import emulated_hosts
from demo import messaging
from demo import stack as stack_lib
from demo import supervisor as supervisor_lib
from demo import two_worlds
from demo import volume_world

_BROKER = 'broker'

#: The name of Cyborg's inventory file, if it is the default one.
ACCELERATORS = 'accelerators.yaml'

_PROJECTS = ('keystone', 'glance', 'neutron', 'nova')
_CINDER_PROJECTS = (stack_lib.CINDER,)
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
    :ivar hosts: the number of compute hosts, one or two.
    :ivar has_console: whether a browser can show the consoles of servers.
    :ivar has_cinder: whether Cinder is a part of the cloud.
    :ivar has_steps: whether the scripted steps are wanted.
    """

    inventory: pathlib.Path | None = None
    world: pathlib.Path | None = None
    accelerators: pathlib.Path | None = None
    has_cyborg: bool = False
    transport_url: str | None = None
    hosts: int = 1
    has_console: bool = False
    has_cinder: bool = False
    has_steps: bool = True

    @property
    def runs_steps(self) -> bool:
        """Whether the scripted steps run: they need the default files."""
        return self.has_steps and self.has_default_files

    @property
    def needs_broker(self) -> bool:
        """Whether services in different processes call one another."""
        return self.has_cyborg or self.has_console or self.hosts > 1

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


def second_inventory() -> str:
    """Return the text of the inventory.yaml of the second of two hosts.

    It has a paragraph more, for the GPU that only this host has.
    """
    return f'{default_inventory()}\n{_read("inventory-t4.yaml")}'


def default_accelerators() -> str:
    """Return the text of the demonstration's own inventory for Cyborg."""
    return _read(ACCELERATORS)


def _read(name: str) -> str:
    """Return the text of a file of this package without its license."""
    package = importlib.resources.files('demo')
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
    hosts = emulated_hosts.start(
        supervisor,
        state_dir,
        _worlds(state_dir, choices),
    )
    for host in hosts:
        say(f'{emulated_hosts.NAME} up at {host.url}')
    stack = _make_stack(state_dir, choices, hosts)
    stack.save()
    config.write(stack)
    projects = (
        *_PROJECTS,
        *(_CYBORG_PROJECTS if stack.has_cyborg else ()),
        *(_CINDER_PROJECTS if stack.has_cinder else ()),
    )
    say(f'starting {", ".join(projects)}, with empty databases')
    if choices.transport_url is None and choices.needs_broker:
        # No client tries again while it is away.
        for _ in _start_projects(supervisor, stack, [_BROKER]):
            pass
    for project in _start_projects(supervisor, stack, projects):
        say(f'{project} up after {time.monotonic() - began:.1f} s')
    if stack.has_console:
        console.start_proxy(supervisor, stack)
        say(f'{console.PROXY} up after {time.monotonic() - began:.1f} s')
    if stack.has_compute_processes:
        for service in _start_computes(supervisor, stack):
            say(f'{service} up after {time.monotonic() - began:.1f} s')
    return stack


def _start_projects(
    supervisor: supervisor_lib.Supervisor,
    stack: stack_lib.Stack,
    projects: collections.abc.Sequence[str],
) -> collections.abc.Iterator[str]:
    """Start processes; yield the name of each as soon as it serves."""
    for project in projects:
        start_project(supervisor, stack, project)
    return supervisor.wait(
        projects, lambda name: stack.mark_of(name).exists(), _START_TIMEOUT
    )


def start_project(
    supervisor: supervisor_lib.Supervisor,
    stack: stack_lib.Stack,
    project: str,
) -> None:
    """Start the process of a project, also after it was killed."""
    stack.mark_of(project).unlink(missing_ok=True)
    supervisor.start(
        project,
        'demo.services',
        project,
        '--state-dir',
        str(stack.state_dir),
        environment={
            **messaging.environment(stack.transport_url),
            # nova-compute shares the process of Nova's other services.
            **_commands_of_host(stack, stack.computes[0]),
        },
    )


def _commands_of_host(
    stack: stack_lib.Stack, compute: stack_lib.Compute
) -> dict[str, str]:
    """Return the variable with which a nova-compute finds mkvterm."""
    if not stack.has_console:
        return {}
    path = os.environ.get('PATH', os.defpath)
    root = compute.host.management_root
    return {'PATH': os.pathsep.join((os.path.join(root, 'bin'), path))}


def start_compute(
    supervisor: supervisor_lib.Supervisor,
    stack: stack_lib.Stack,
    compute: stack_lib.Compute,
) -> None:
    """Start the nova-compute of a host, also after it was killed.

    This is the command that Nova installs.
    """
    supervisor.start(
        compute.service,
        'demo.services.program',
        str(stack.prefix / 'bin' / 'nova-compute'),
        *('--config-file', str(config.compute_file(stack, compute))),
        environment={
            **messaging.environment(stack.transport_url),
            **_commands_of_host(stack, compute),
        },
    )


def _start_computes(
    supervisor: supervisor_lib.Supervisor, stack: stack_lib.Stack
) -> collections.abc.Iterator[str]:
    """Start every nova-compute; yield its name when Nova has its node."""
    cloud = cloud_lib.Cloud(stack)
    nodes = {compute.service: compute.name for compute in stack.computes}
    for compute in stack.computes:
        start_compute(supervisor, stack, compute)
    yield from supervisor.wait(
        nodes,
        lambda service: nodes[service] in cloud.compute_hosts.node_uuids(),
        _START_TIMEOUT,
    )


def _worlds(
    state_dir: pathlib.Path, choices: Choices
) -> list[pathlib.Path | None]:
    """Return the world of each host, None for the emulator's default one."""
    if choices.hosts > 1:
        return [
            *two_worlds.write(
                state_dir / 'etc', has_volumes=choices.has_cinder
            )
        ]
    if choices.has_cinder and not choices.world:
        return [volume_world.write(state_dir / 'etc')]
    return [choices.world]


def _make_stack(
    state_dir: pathlib.Path,
    choices: Choices,
    hosts: collections.abc.Sequence[stack_lib.HostRest],
) -> stack_lib.Stack:
    """Choose ports and passwords, and place the inventory files."""
    more = (
        *((stack_lib.CYBORG,) if choices.has_cyborg else ()),
        *((stack_lib.CINDER,) if choices.has_cinder else ()),
    )
    consoles = (
        (stack_lib.PROXY, stack_lib.CONSOLES) if choices.has_console else ()
    )
    arrays = (stack_lib.ARRAY,) if choices.has_cinder else ()
    ports = stack_lib.free_ports(
        (*stack_lib.APIS, *more, *arrays, *consoles, _BROKER)
    )
    own_broker = messaging.url(ports.pop(_BROKER))
    default = own_broker if choices.needs_broker else stack_lib.IN_PROCESS
    etc = state_dir / 'etc'
    return stack_lib.Stack(
        state_dir=state_dir,
        ports=ports,
        passwords=stack_lib.new_passwords((*stack_lib.SERVICE_USERS, *more)),
        prefix=pathlib.Path(sys.prefix),
        computes=_make_computes(etc, choices, hosts),
        transport_url=choices.transport_url or default,
        accelerator_file=_place(
            etc / ACCELERATORS,
            choices.accelerators,
            default_accelerators(),
        )
        if choices.has_cyborg
        else None,
    )


def _make_computes(
    etc: pathlib.Path,
    choices: Choices,
    hosts: collections.abc.Sequence[stack_lib.HostRest],
) -> tuple[stack_lib.Compute, ...]:
    """Describe the compute hosts, and place their inventory files."""
    if len(hosts) == 1:
        suffixes, inventories = [''], [default_inventory(choices.has_cyborg)]
    else:
        suffixes = [f'-{number}' for number in range(1, len(hosts) + 1)]
        inventories = [default_inventory(), second_inventory()]
    return tuple(
        stack_lib.Compute(
            name=stack_lib.NODE + suffix,
            # Nova tells hosts by their addresses, too.
            address=f'127.0.0.{number}',
            host=host,
            inventory_file=_place(
                etc / f'inventory{suffix}.yaml', choices.inventory, inventory
            ),
            disk_options=(
                emulated_hosts.own_disks(host)
                if choices.hosts == 1
                else emulated_hosts.shared_disks()
            ),
        )
        for number, (suffix, host, inventory) in enumerate(
            zip(suffixes, hosts, inventories, strict=True), start=1
        )
    )


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
