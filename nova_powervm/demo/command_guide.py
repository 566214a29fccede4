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

"""The commands that the demonstration suggests trying on its cloud."""

import collections.abc
import os
import pathlib
import shlex
import sys

from nova_powervm.demo import client_files
from nova_powervm.demo import cloud as cloud_lib
from nova_powervm.demo import config

#: tools/demo.sh sets this variable to its own path.
_SCRIPT = 'NOVA_POWERVM_DEMO_SCRIPT'
_MY_FLAVOR = 'my-flavor'


def demo_command() -> str:
    """Return the command that starts the demonstration, as typed."""
    script = os.environ.get(_SCRIPT)
    if script:
        return shlex.quote(script)
    return f'{shlex.quote(sys.executable)} -m nova_powervm.demo'


class Guide:
    """Commands for a cloud in one state directory.

    :param state_dir: the state directory, which need not exist yet.
    :param prefix: the prefix of the environment that has the commands.
    :param flavor: a flavor that exists, or None: the guide then creates one.
    :param paragraphs: the names of the paragraphs of the inventory file.
    """

    def __init__(
        self,
        state_dir: pathlib.Path,
        prefix: pathlib.Path,
        flavor: str | None,
        paragraphs: collections.abc.Sequence[str],
    ) -> None:
        self._state_dir = state_dir
        self._bin = prefix / 'bin'
        self._flavor = flavor
        self._paragraphs = paragraphs

    def for_running_cloud(self) -> str:
        """Return the text for a cloud that keeps running."""
        clouds_yaml = self._state_dir / client_files.CLOUDS_YAML
        return '\n'.join(
            [
                'To use the cloud, run these commands in another shell:',
                '',
                *self._commands(),
                '',
                'Programs that read clouds.yaml find the cloud as '
                'powervm-demo with',
                f'OS_CLIENT_CONFIG_FILE={clouds_yaml}.',
                '',
            ]
        )

    def for_next_run(self) -> str:
        """Return the text for the end of a run that did not keep the cloud.

        Nothing may exist at the state directory then.
        """
        directory = shlex.quote(str(self._state_dir))
        return '\n'.join(
            [
                'To use the cloud yourself, start it again and keep it '
                'running:',
                '',
                f'  {demo_command()} --keep --state-dir {directory}',
                '',
                'Then run these commands in another shell:',
                '',
                *self._commands(),
                '',
            ]
        )

    def _commands(self) -> list[str]:
        openrc = shlex.quote(str(self._state_dir / client_files.OPENRC))
        commands = [
            f'. {openrc}',
            '',
            '# As a user or administrator of the cloud',
            *self._openstack_commands(),
            '',
            '# As the operator of the PowerVM host',
            *self._operator_commands(),
        ]
        return [f'  {line}'.rstrip() for line in commands]

    def _openstack_commands(self) -> list[str]:
        openstack = self._program('openstack')
        flavor = self._flavor or _MY_FLAVOR
        lines = [
            f'{openstack} hypervisor list',
            f'{openstack} resource provider list',
        ]
        if self._flavor is None:
            lines.append(
                f'{openstack} flavor create --ram 2048 --vcpus 1 --disk 10 '
                f'{flavor}'
            )
            lines += self._flavor_command()
        return [
            *lines,
            f'{openstack} flavor show {flavor}',
            f'{openstack} server create --flavor {flavor} '
            f'--image {cloud_lib.IMAGE} \\',
            f'    --network {cloud_lib.NETWORK} --key-name {cloud_lib.KEY} '
            '--config-drive True --wait my-server',
            f'{openstack} server show my-server',
        ]

    def _flavor_command(self) -> list[str]:
        if not self._paragraphs:
            return []
        paragraph = shlex.quote(self._paragraphs[0])
        return [
            f'{self._inventory()} flavor create {_MY_FLAVOR} \\',
            f'    --paragraph {paragraph} --apply',
        ]

    def _operator_commands(self) -> list[str]:
        inventory = self._inventory()
        return [
            f'{inventory} validate',
            f'{inventory} show',
            f'{inventory} diff',
            f'{inventory} flavor lint --cloud',
            '# Warns that no conductor answers: the demonstration has no '
            'message broker.',
            f'{self._program("nova-powervm-status")} {self._options()} '
            'upgrade check',
        ]

    def _inventory(self) -> str:
        return f'{self._program("nova-powervm-inventory")} {self._options()}'

    def _options(self) -> str:
        path = self._state_dir / 'etc' / config.NOVA
        return f'--config-file {shlex.quote(str(path))}'

    def _program(self, name: str) -> str:
        return shlex.quote(str(self._bin / name))
