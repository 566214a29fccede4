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

"""Brings an LPAR into the demonstration's cloud, by the commands of a page.

    python -m tests.cloud.adoption [--state-dir DIR]

All commands in the console blocks of ``doc/source/admin/adopting.rst`` are
run, word for word and in their order, and first once too early; also those of
the way back. There is no ``pvmctl`` here and no shell of a Virtual I/O Server,
so what these commands do is done by pypowervm. Those of the array go to the
demonstration's. Only the name of Cinder's back end is another one.
The exit status is 1 if anything is not as the page says.
"""

import itertools
import re
import secrets
import sys
import time

from demo import array_evidence
from demo import cloud as cloud_lib
from demo import guest
from demo import host as host_lib
from demo import stack as stack_lib
from demo import step_context
from demo import volume_world
from tests.cloud import demonstration
from tests.cloud import old_partition
from tests.cloud import page_commands
from tests.unit.docs import pages

_NAME = 'web'
_DISK = 'web_root'
_VOLUME = 'web-root'
_ARRAY_HOST = 'power1'
_BACKEND = 'cinder1@svc#pool0'
_FUNCTIONS = f"""
openstack() {{
    command openstack "${{@/{_BACKEND}/{stack_lib.NODE}@svc#pool0}}"
}}
on_array() {{ python -m demo.array_shell --state-dir "$state" "$@"; }}
lsvdiskhostmap() {{ on_array lsvdiskhostmap "$@"; }}
rmvdiskhostmap() {{ on_array rmvdiskhostmap "$@"; }}
"""
_PREPARE = """
set -e
openstack network create datacenter
openstack subnet create --network datacenter --subnet-range 192.0.2.0/24 \\
    --no-dhcp datacenter
openstack network show -f value -c provider:segmentation_id datacenter
"""
#: What is done on the host, by the commands on the page.
_ON_HOST = {
    f'pvmctl lpar power-off -i name={_NAME}': old_partition.OldPartition.stop,
    'rmvdev -vdev hdisk3': old_partition.OldPartition.unmap,
    'rmdev -dev hdisk3': old_partition.OldPartition.remove_hdisks,
    f'pvmctl lpar delete -i name={_NAME}': old_partition.OldPartition.delete,
}
_MANAGE = 'openstack volume create --remote-source'
_UNMAP = 'rmvdiskhostmap'
_CHECK = 'lsvdiskhostmap'
_BACK = 'openstack server delete'
_MAC = re.compile(r'--mac-address (\S+)')
_SECONDS = 30.0
_POLL = 0.5


class Adoption:
    """Follows the page, and collects what is wrong.

    :param state: the state directory of the cloud.
    """

    def __init__(self, state):
        self._stack = stack_lib.load(state)
        self._cloud = cloud_lib.Cloud(self._stack)
        self._host = host_lib.Host(self._stack.host)
        self._shell = page_commands.Shell(state, _FUNCTIONS)
        self._commands = [line for line, _ in pages.commands(pages.ADOPTED)]
        self._old = old_partition.OldPartition(
            self._stack, _NAME, _DISK, _ARRAY_HOST
        )
        self._contents = secrets.token_bytes(4096)
        self.wrong = []

    def prepare(self):
        """Make what the page takes as given."""
        made = self._shell.run(_PREPARE)
        if made.status:
            raise RuntimeError(made.output)
        self._vlan = int(made.output.split()[-1])
        (self._mac,) = _MAC.findall(' '.join(self._commands))
        self._disk = self._old.make(self._mac, self._vlan, self._contents)

    def follow(self):
        """Run all commands, with checks between them."""
        for command in self._commands:
            if command.startswith(_UNMAP):
                self._manage_too_early()
            if command.startswith(_BACK):
                self._check_server()
            self._run(command)
        self._check_disk_alone()

    def _run(self, command):
        on_host = _ON_HOST.get(command)
        if on_host:
            print(f'[pypowervm] {command}\n', flush=True)
            on_host(self._old)
            return
        result = self._shell.show(command)
        shown = result.output if command.startswith(_CHECK) else ''
        self._expect((0, ''), (result.status, shown), command)
        if command.startswith(_MANAGE):
            self._expect('available', self._managed(), command)

    def _managed(self):
        """Return the status of the volume, when Cinder has ended."""
        deadline = time.monotonic() + _SECONDS
        while True:
            status = self._cloud.find_volume(_VOLUME).status
            if status not in ('creating', 'managing'):
                return status
            if time.monotonic() > deadline:
                raise TimeoutError(f'{_VOLUME} is {status}')
            time.sleep(_POLL)

    def _manage_too_early(self):
        """Have Cinder manage the disk while a host has it, in vain."""
        (command,) = (c for c in self._commands if c.startswith(_MANAGE))
        self._shell.show(command)
        self._expect('error', self._managed(), 'managed while mapped')
        self._shell.show(f'openstack volume delete {_VOLUME}')
        found = array_evidence.find_by_name(self._stack, _DISK)
        self._expect(self._disk.wwpns, found.wwpns, 'maps after a refusal')

    def _check_server(self):
        """Compare the server with the LPAR that it was."""
        server = self._cloud.find_server(_NAME)
        self._volume = self._cloud.find_volume(_VOLUME).id
        uuid = step_context.partition_uuid(server.id)
        disk = array_evidence.find(self._stack, self._volume)
        ports = itertools.chain(*volume_world.wwpns().values())
        partitions = self._host.partitions()
        self._expect('ACTIVE', server.status, 'server')
        self._expect(self._disk.uid, disk.uid, 'disk of the array')
        self._expect(sorted(ports), disk.wwpns, 'maps of the array')
        self._expect(
            {vios: [uuid] for vios in volume_world.wwpns()},
            {
                vios: found.users
                for vios, found in self._host.array_disks(disk.udid).items()
            },
            'mappings',
        )
        self._expect(
            [guest.sha256(self._contents)] * 2,
            [disk.sha256, self._host.sha256_of(disk.udid)],
            'bytes in the array, and on the host',
        )
        self._expect(
            [(server.instance_name, self._vlan)],
            [
                (one.name, adapter.vlan)
                for one in partitions
                for adapter in self._host.adapters(one.uuid)
                if adapter.mac == self._mac
            ],
            f'LPARs with {self._mac}',
        )
        self._expect(
            [(server.instance_name, 'running')],
            [
                (one.name, one.state)
                for one in partitions
                if one.name == _NAME or one.uuid == uuid
            ],
            'LPARs, old and new',
        )

    def _check_disk_alone(self):
        """Check that the way back leaves the disk, and nothing else."""
        disk = array_evidence.find(self._stack, self._volume)
        self._expect(
            (self._disk.uid, guest.sha256(self._contents), []),
            (disk.uid, disk.sha256, disk.wwpns),
            'disk of the array, after the way back',
        )
        self._expect(0, self._cloud.count_volumes(), 'volumes in Cinder')
        self._expect({}, self._host.array_disks(disk.udid), 'hdisks')

    def _expect(self, expected, observed, what):
        print(f'{what}: {observed}', flush=True)
        if expected != observed:
            self.wrong.append(f'{what}: {observed}, not {expected}')


def find_differences(state):
    """Follow the page on a running cloud; return what is wrong.

    The sessions with the host end with this function.
    """
    adoption = Adoption(state)
    adoption.prepare()
    adoption.follow()
    return adoption.wrong


def main():
    """Follow the page, and print what each command did."""
    state = page_commands.parse_state_dir(__doc__)
    with demonstration.running(state, '--cinder', '--no-steps'):
        wrong = find_differences(state)
    for line in wrong:
        print(f'wrong: {line}')
    print(f'{len(wrong)} difference(s) from the page')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
