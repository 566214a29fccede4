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

"""Bring a cloud up: the host first, then the projects beside each other."""

import collections.abc
import pathlib
import secrets
import sys
import time

import requests

from nova_powervm.demo import config
from nova_powervm.demo import stack as stack_lib
from nova_powervm.demo import supervisor as supervisor_lib

_EMULATOR = 'emulator'

#: Child process -> the APIs that answer when it is up.
_PROJECTS = {
    'keystone': ('keystone',),
    'glance': ('glance',),
    'neutron': ('neutron',),
    'nova': ('placement', 'nova'),
}

# Some seven seconds on an idle machine with two cores.
_PATIENCE = 180.0


def launch(
    state_dir: pathlib.Path,
    supervisor: supervisor_lib.Supervisor,
    inventory: str,
    say: collections.abc.Callable[[str], None],
) -> stack_lib.Stack:
    """Start everything, and return when every API answers.

    :param state_dir: an empty state directory.
    :param supervisor: gets the processes, and ends them when it ends.
    :param inventory: the text of the inventory.yaml.
    :param say: called with a line of progress now and then.
    :raises supervisor.ServiceError: something does not come up.
    """
    began = time.monotonic()
    host = _start_emulator(supervisor)
    say(f'{_EMULATOR} up at {host.url}')
    stack = stack_lib.Stack(
        state_dir=state_dir,
        ports=stack_lib.free_ports(stack_lib.APIS),
        passwords=stack_lib.new_passwords(),
        host=host,
        prefix=pathlib.Path(sys.prefix),
    )
    stack.save()
    config.write(stack)
    stack.inventory_file.write_text(inventory)
    say(f'starting {", ".join(_PROJECTS)}: empty databases, some seconds')
    for project in _PROJECTS:
        supervisor.start(
            project,
            'nova_powervm.demo.services',
            project,
            '--state-dir',
            str(state_dir),
        )
    for project in supervisor.wait(
        _PROJECTS, lambda name: _answers(stack, name), _PATIENCE
    ):
        say(f'{project} up after {time.monotonic() - began:.1f} s')
    return stack


def _start_emulator(
    supervisor: supervisor_lib.Supervisor,
) -> stack_lib.HostRest:
    """Start the emulator on a port of its choice, with its default host."""
    username, password = 'nova', secrets.token_hex(16)
    supervisor.start(
        _EMULATOR,
        'nova_powervm.emulator.main',
        *('--port', '0', '--username', username, '--password', password),
    )
    said = supervisor.output(_EMULATOR)

    def has_said_where(_name: str) -> bool:
        return '\n' in said.read_text()

    list(supervisor.wait([_EMULATOR], has_said_where, _PATIENCE))
    # The first line is the URL and nothing else.
    url = said.read_text().splitlines()[0]
    return stack_lib.HostRest(url, username, password)


def _answers(stack: stack_lib.Stack, project: str) -> bool:
    try:
        for api in _PROJECTS[project]:
            requests.get(stack.url(api), timeout=_PATIENCE)
    except requests.ConnectionError:
        return False
    return True
