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

from demo import array_evidence
from demo import client_files
from demo import cloud as cloud_lib
from demo import config
from demo import expected_providers
from demo import launcher
from demo import operator_commands
from demo import stack as stack_lib

#: tools/demo.sh sets this variable to its own path.
_SCRIPT = 'NOVA_POWERVM_DEMO_SCRIPT'
# That of the first of two hosts. The paragraphs of both files are the same
# but for one.
_FIRST = 'nova-compute-1.conf'
_MY_FLAVOR = 'my-flavor'
_AWAY = 'my-evacuated'
_API = '--os-compute-api-version'
_NO_DEVICE = 'my-no-device'
_MY_LIVE = 'my-live'
_MY_BOOTED = 'my-booted'
_MY_VOLUME = 'my-volume'
_MY_PROFILE = 'my-profile'
_MY_ACCELERATED = 'my-accelerated'


def demo_command() -> str:
    """Return the command that starts the demonstration, as typed."""
    script = os.environ.get(_SCRIPT)
    if script:
        return shlex.quote(script)
    return f'{shlex.quote(sys.executable)} -m demo'


class Guide:
    """Commands for a cloud in one state directory.

    :param state_dir: the state directory, which need not exist yet.
    :param prefix: the prefix of the environment that has the commands.
    :param choices: what the run starts from.
    :param flavor: a flavor that exists, or None: the guide then creates one.
    :param large_flavor: another one, with which servers are resized in a
        cloud of two hosts.
    :param paragraphs: the names of the paragraphs of Nova's inventory file.
    :param accelerator_classes: the resource classes in Cyborg's inventory
        file.
    """

    def __init__(
        self,
        state_dir: pathlib.Path,
        prefix: pathlib.Path,
        choices: launcher.Choices,
        *,
        flavor: str | None = None,
        large_flavor: str = '',
        paragraphs: collections.abc.Sequence[str] = (),
        accelerator_classes: collections.abc.Sequence[str] = (),
    ) -> None:
        self._state_dir = state_dir
        self._bin = prefix / 'bin'
        self._choices = choices
        self._flavor = flavor
        self._large_flavor = large_flavor
        self._paragraphs = paragraphs
        self._accelerator_classes = accelerator_classes

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
        return '\n'.join(
            [
                'To use the cloud yourself, start it again and keep it '
                'running:',
                '',
                f'  {demo_command()} {shlex.join(self._next_options())}',
                '',
                'Then run these commands in another shell:',
                '',
                *self._commands(),
                '',
            ]
        )

    def _next_options(self) -> list[str]:
        options = ['--keep', '--state-dir', str(self._state_dir)]
        if not self._choices.has_steps:
            options.append('--no-steps')
        if self._choices.has_cyborg:
            options.append('--cyborg')
        if self._choices.has_console:
            options.append('--console')
        if self._choices.has_cinder:
            options.append('--cinder')
        if self._choices.hosts > 1:
            options += ['--hosts', str(self._choices.hosts)]
        if self._choices.transport_url:
            options += ['--transport-url', self._choices.transport_url]
        return options

    def _commands(self) -> list[str]:
        openrc = shlex.quote(str(self._state_dir / client_files.OPENRC))
        commands = [
            f'. {openrc}',
            '',
            '# As a user or administrator of the cloud',
            *self._openstack_commands(),
            *self._cyborg_commands(),
            *self._volume_commands(),
            *self._host_commands(),
        ]
        return [f'  {line}'.rstrip() for line in commands]

    def _openstack_commands(self) -> list[str]:
        openstack = self._program('openstack')
        flavor = self._flavor or _MY_FLAVOR
        lines = [
            f'{openstack} hypervisor list',
            *[f'{openstack} compute service list'] * (self._choices.hosts > 1),
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
            *self._server_command(flavor, 'my-server'),
            f'{openstack} server show my-server',
            *[f'{openstack} console url show --novnc my-server']
            * self._choices.has_console,
        ]

    def _cyborg_commands(self) -> list[str]:
        if not self._choices.has_cyborg:
            return []
        openstack = self._program('openstack')
        lines = ['', f'{openstack} accelerator device list']
        if not self._accelerator_classes:
            return lines
        group = (
            f'resources:{self._accelerator_classes[0]}=1,'
            f'trait:{expected_providers.CYBORG_MARK}=required'
        )
        return [
            *lines,
            f'{openstack} accelerator device profile create {_MY_PROFILE} \\',
            f'    --group {group}',
            f'{openstack} flavor create --ram 2048 --vcpus 1 --disk 10 \\',
            f'    --property accel:device_profile={_MY_PROFILE} '
            f'{_MY_ACCELERATED}',
            *self._server_command(_MY_ACCELERATED, _MY_ACCELERATED),
            f'{openstack} accelerator arq list',
        ]

    def _volume_commands(self) -> list[str]:
        if not self._choices.has_cinder:
            return []
        openstack = self._program('openstack')
        create, rest = self._server_command(
            self._flavor or _MY_FLAVOR, _MY_BOOTED
        )
        return [
            '',
            f'{openstack} volume create --size 1 {_MY_VOLUME}',
            f'{openstack} server add volume my-server {_MY_VOLUME}',
            f'{openstack} volume show {_MY_VOLUME}',
            '# What the array maps to which ports of the host:',
            self._array_command(),
            f'{openstack} server remove volume my-server {_MY_VOLUME}',
            create,
            rest.replace('--wait', '--boot-from-volume 1 --wait'),
        ]

    def _server_command(self, flavor: str, name: str) -> list[str]:
        return [
            f'{self._program("openstack")} server create --flavor {flavor} '
            f'--image {cloud_lib.IMAGE} \\',
            f'    --network {cloud_lib.NETWORK} --key-name {cloud_lib.KEY} '
            f'--config-drive True --wait {name}',
        ]

    def _flavor_command(self) -> list[str]:
        if not self._paragraphs:
            return []
        paragraph = shlex.quote(self._paragraphs[0])
        file = config.NOVA if self._choices.hosts == 1 else _FIRST
        return [
            f'{self._inventory(file)} flavor create {_MY_FLAVOR} \\',
            f'    --paragraph {paragraph} --apply',
        ]

    def _host_commands(self) -> list[str]:
        if self._choices.hosts == 1:
            heading = '# As the operator of the PowerVM host'
            return ['', heading, *self._operator_commands()]
        commands = [
            '',
            '# The lint warns on one host about flavors for the other.',
        ]
        for number in range(1, self._choices.hosts + 1):
            commands += [
                '',
                f'# As the operator of {stack_lib.NODE}-{number}',
                *self._operator_commands(f'nova-compute-{number}.conf'),
            ]
        return [
            *commands,
            '',
            *self._live_migration_commands(),
            '',
            *self._move_commands(),
            '',
            *self._image_commands(),
            '',
            *self._evacuation_commands(),
        ]

    def _live_migration_commands(self) -> list[str]:
        """Return how a server without a device moves while it runs."""
        openstack = self._program('openstack')
        flavor = _NO_DEVICE
        return [
            f'# {_MY_LIVE} has no device, and moves to the other host while '
            'it runs',
            f'{openstack} flavor create --ram 2048 --vcpus 1 --disk 1 '
            f'{flavor}',
            *self._server_command(flavor, _MY_LIVE),
            f'{openstack} server migrate --live-migration {_MY_LIVE}',
            '# my-server has a device, and is refused. The reason is in an '
            'event:',
            f'{openstack} server migrate --live-migration my-server',
            f'{openstack} {_API} 2.84 server event show my-server \\',
            f'    $({openstack} server event list -f value -c "Request ID" '
            'my-server | head -n 1) \\',
            '    -f json -c events | grep details',
        ]

    def _move_commands(self) -> list[str]:
        """Return how a server moves to the other host and is resized."""
        server = f'{self._program("openstack")} server'
        lines = [
            '# my-server moves to the other host; only the confirmation '
            'removes',
            '# it from the first one',
            f'{server} migrate --wait my-server',
            f'{server} migration list --server my-server',
            f'{server} migration confirm my-server',
            *self._volume_move_commands(),
        ]
        if self._flavor is None:
            return lines
        return [
            *lines,
            '# It is resized and goes back',
            f'{server} resize --flavor {self._large_flavor} --wait my-server',
            f'{server} resize revert my-server',
        ]

    def _volume_move_commands(self) -> list[str]:
        """Return how a server moves with the volume that it boots from."""
        if not self._choices.has_cinder:
            return []
        server = f'{self._program("openstack")} server'
        return [
            f'# {_MY_BOOTED} takes its volume along, which the array maps to '
            'other ports',
            f'{server} migrate --wait {_MY_BOOTED}',
            self._array_command(),
            f'{server} migration confirm {_MY_BOOTED}',
        ]

    def _array_command(self) -> str:
        """Return the command that shows what the array maps to whom."""
        path = self._state_dir / stack_lib.VOLUMES / array_evidence.DESCRIPTION
        return f'cat {shlex.quote(str(path))}'

    def _image_commands(self) -> list[str]:
        """Return how a server becomes an image, and comes back from one."""
        openstack = self._program('openstack')
        return [
            '# An image of the root disk of my-server, which may run; then it '
            'leaves',
            '# its host, and comes back on the second one',
            f'{openstack} server image create --name my-image --wait '
            'my-server',
            f'{openstack} image show my-image',
            '# A rescue system from the image of my-server, beside its disks:',
            f'{openstack} server rescue my-server',
            '# As soon as it is RESCUE:',
            f'{openstack} server unrescue my-server',
            f'{openstack} server shelve --wait my-server',
            '# As soon as it is SHELVED_OFFLOADED:',
            f'{openstack} server show my-server',
            f'{openstack} {_API} 2.91 server unshelve '
            f'--host {stack_lib.NODE}-2 --wait my-server',
        ]

    def _evacuation_commands(self) -> list[str]:
        """Return how the first host fails, is evacuated, and returns."""
        openstack = self._program('openstack')
        name = f'{stack_lib.NODE}-1'
        path = self._state_dir / 'etc' / _FIRST
        file = shlex.quote(str(path))
        # Ports of a next run are not known.
        control = '"$url"/control/v1'
        post = "curl -X POST -H 'Content-Type: application/json' -d '{}'"
        create, rest = self._server_command(self._flavor or _MY_FLAVOR, _AWAY)
        return [
            f'# {name} fails, and {_AWAY} is evacuated',
            create.replace(openstack, f'{openstack} {_API} 2.74', 1),
            rest.replace('--wait', f'--host {name} --wait'),
            f"url=$(sed -n 's/^rest_url = //p' {file})",
            f'pkill -9 -f {file}',
            f'{post} {control}/power_off_system',
            f'{openstack} {_API} 2.53 compute service set --down {name} '
            'nova-compute',
            f'{openstack} server evacuate {_AWAY}',
            '# As soon as it is SHUTOFF there:',
            f'{openstack} server show {_AWAY}',
            f'{openstack} server start {_AWAY}',
            f'# {name} returns; --up is refused until it has cleaned up',
            f'{post} {control}/power_on_system',
            f'OS_NOVA_DISABLE_EVENTLET_PATCHING=true '
            f'{self._program("nova-compute")} --config-file {file} &',
            f'{openstack} {_API} 2.53 compute service set --up {name} '
            'nova-compute',
            '# Before Ctrl-C of the demonstration, end this nova-compute: '
            'kill %1',
        ]

    def _operator_commands(self, file: str = config.NOVA) -> list[str]:
        inventory = self._inventory(file)
        cyborg, accelerators = self._cyborg_options()
        return [
            f'{inventory} validate{accelerators}',
            f'{inventory} show{cyborg}',
            f'{inventory} diff{accelerators}',
            f'{inventory} flavor lint --cloud{cyborg}',
            *self._warning(),
            f'{self._program("nova-powervm-status")} {self._options(file)} '
            'upgrade check',
            *self._report_command(),
        ]

    def _cyborg_options(self) -> tuple[str, str]:
        """Return what makes the commands ask Cyborg, and read its file."""
        if not self._choices.has_cyborg:
            return '', ''
        default = self._state_dir / 'etc' / launcher.ACCELERATORS
        path = (self._choices.accelerators or default).absolute()
        return ' --cyborg', f' --accelerators {shlex.quote(str(path))}'

    def _report_command(self) -> list[str]:
        if not self._choices.has_cyborg:
            return []
        module = shlex.join(operator_commands.REPORTS)
        return [
            '# The agent of Cyborg reports its devices every minute, or now:',
            f'{self._program("python")} {module} \\',
            f'    --state-dir {shlex.quote(str(self._state_dir))}',
        ]

    def _warning(self) -> list[str]:
        if self._choices.needs_broker or self._choices.transport_url:
            return []
        return [
            '# Warns that no conductor answers: the demonstration has no '
            'message broker.'
        ]

    def _inventory(self, file: str = config.NOVA) -> str:
        program = self._program('nova-powervm-inventory')
        return f'{program} {self._options(file)}'

    def _options(self, file: str) -> str:
        path = self._state_dir / 'etc' / file
        return f'--config-file {shlex.quote(str(path))}'

    def _program(self, name: str) -> str:
        return shlex.quote(str(self._bin / name))
