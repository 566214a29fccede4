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


"""Starting the emulator, and choosing where its hosts have their disks."""

import collections.abc
import pathlib
import secrets
import typing

from demo import stack as stack_lib
from demo import supervisor as supervisor_lib
from demo import two_worlds
from powervm_emulator import client

NAME = 'emulator'
_USER = 'nova'

# In seconds. It is up after about one.
_START_TIMEOUT = 180.0


def start(
    supervisor: supervisor_lib.Supervisor,
    state_dir: pathlib.Path,
    worlds: collections.abc.Sequence[pathlib.Path | None],
) -> list[stack_lib.HostRest]:
    """Start a host for each world, and wait until all serve.

    The hosts share the storage pools that their worlds have in common.

    :param worlds: world documents; None for the emulator's default one.
    :raises supervisor.ServiceError: the emulator does not come up.
    """
    password = secrets.token_hex(16)
    # A password on the command line would be visible to all users.
    password_file = state_dir / 'etc' / 'emulator-password'
    stack_lib.write_private(password_file, password + '\n')
    arguments = [
        *('--username', _USER),
        *('--password-file', str(password_file)),
    ]
    roots = [
        str(state_dir.absolute() / 'state' / f'management-{number}')
        for number in range(1, len(worlds) + 1)
    ]
    for world, root in zip(worlds, roots, strict=True):
        arguments += ['--port', '0', '--host-root', root]
        if world is not None:
            arguments += ['--world', str(world.absolute())]
    supervisor.start(NAME, 'demo.services.emulator', *arguments)
    output = supervisor.output(NAME)
    list(
        supervisor.wait(
            [NAME],
            lambda _name: len(_urls(output)) == len(worlds),
            _START_TIMEOUT,
        )
    )
    return [
        stack_lib.HostRest(url, _USER, password, root)
        for url, root in zip(_urls(output), roots, strict=True)
    ]


def _urls(output: pathlib.Path) -> list[str]:
    """Return the URLs that the emulator has printed so far."""
    complete, _, _ = output.read_text().rpartition('\n')
    # An error message has another beginning.
    return [
        line for line in complete.splitlines() if line.startswith('http://')
    ]


def own_disks(host: stack_lib.HostRest) -> dict[str, str]:
    """Return the options in ``[powervm]`` for disks in a volume group."""
    group = largest_volume_group(client.Client(host.url).state())
    if group is None:
        return {}
    # New disks of these hosts show zeros; to write them takes seconds a GB.
    return {'volume_group_name': group, 'disk_clear': 'none'}


def shared_disks() -> dict[str, str]:
    """Return the options in ``[powervm]`` for disks in the shared pool."""
    return {'disk_driver': 'ssp', 'cluster_name': two_worlds.CLUSTER}


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
