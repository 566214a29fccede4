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

"""Attaches many volumes at once in the demonstration's cloud.

    python -m tests.cloud.volume_storm [--state-dir DIR] [--servers NUMBER]

Each server gets two volumes; all are requested at once, and then detached at
once. Cinder, the array and both Virtual I/O Servers have to agree each time.
Then all servers are deleted with their volumes attached. The exit status is 1
if something differs.
"""

import argparse
import concurrent.futures
import itertools
import pathlib
import sys
import tempfile
import time

from demo import array_evidence
from demo import cloud as cloud_lib
from demo import host as host_lib
from demo import stack as stack_lib
from demo import step_context
from demo import volume_world
from tests.cloud import demonstration

_EACH = 2
_SECONDS = 300
_FLAVOR = 'storm'


class Storm:
    """Servers and volumes in a cloud.

    :param state: The state directory of the demonstration.
    """

    def __init__(self, state):
        self._stack = stack_lib.load(state)
        self._cloud = cloud_lib.Cloud(self._stack)
        self._host = host_lib.Host(self._stack.host)
        self._api = self._cloud._api
        self._ports = sorted(itertools.chain(*volume_world.wwpns().values()))

    def prepare(self, count):
        """Create servers, and for each one its volumes."""
        sizes = cloud_lib.Sizes(memory_mb=512, disk_gb=0)
        self._cloud.create_flavor(_FLAVOR, {}, sizes)
        quota = {'cores': -1, 'instances': -1, 'ram': -1}
        project = self._api.current_project_id
        self._api.set_compute_quotas(project, **quota)
        self._api.set_volume_quotas(project, volumes=-1, gigabytes=-1)
        flavor = self._api.compute.find_flavor(_FLAVOR).id
        image = self._cloud.find_image(cloud_lib.IMAGE).id
        made = [
            self._api.compute.create_server(
                name=f'storm{number}',
                flavor_id=flavor,
                image_id=image,
                networks='none',
            ).id
            for number in range(count)
        ]
        volumes = [
            self._api.block_storage.create_volume(size=1).id
            for _ in range(count * _EACH)
        ]
        for identifier in made:
            self._cloud._settle(identifier, _SECONDS)
        self.wanted = {
            volume: made[number // _EACH]
            for number, volume in enumerate(volumes)
        }
        self.await_nobody()

    def at_once(self, act):
        """Do something with each volume and its server, all at once."""
        with concurrent.futures.ThreadPoolExecutor(len(self.wanted)) as pool:
            list(pool.map(act, self.wanted.values(), self.wanted))

    def attach(self, server, volume):
        """Attach a volume to a server."""
        self._api.compute.create_volume_attachment(server, volume_id=volume)

    def detach(self, server, volume):
        """Detach a volume from a server."""
        self._api.compute.delete_volume_attachment(server, volume)

    def delete_servers(self):
        """Delete all servers at once."""
        for server in {*self.wanted.values()}:
            self._api.compute.delete_server(server)

    def await_attached(self):
        """Wait until each volume is where it should be; return what is not."""
        return self._await(
            lambda volume, server: (
                'in-use',
                self._ports,
                {
                    name: [step_context.partition_uuid(server)]
                    for name in volume_world.wwpns()
                },
            )
        )

    def await_nobody(self):
        """Wait until nobody has a volume; return those that somebody has."""
        return self._await(lambda volume, server: ('available', [], {}))

    def _await(self, expect):
        deadline = time.monotonic() + _SECONDS
        while True:
            wrong = {
                volume: seen
                for volume, server in self.wanted.items()
                if (seen := self._see(volume)) != expect(volume, server)
            }
            if not wrong or time.monotonic() > deadline:
                return wrong
            time.sleep(1)

    def _see(self, volume):
        """Return the status of a volume, its ports and its partitions."""
        status = self._api.block_storage.get_volume(volume).status
        found = array_evidence.find(self._stack, volume)
        if found is None:
            return status, None, None
        disks = self._host.array_disks(found.udid)
        return (
            status,
            found.wwpns,
            {name: disk.users for name, disk in disks.items()},
        )


def main():
    """Run the storm, and print how long each part took."""
    parser = argparse.ArgumentParser(prog='volume_storm')
    parser.add_argument('--state-dir', type=pathlib.Path)
    parser.add_argument('--servers', type=int, default=10)
    arguments = parser.parse_args()
    state = arguments.state_dir or pathlib.Path(tempfile.mkdtemp(), 'cloud')
    failed = False
    with demonstration.running(state, '--cinder'):
        storm = Storm(state)
        storm.prepare(arguments.servers)
        for name, act, check in (
            (
                'attach',
                lambda: storm.at_once(storm.attach),
                storm.await_attached,
            ),
            (
                'detach',
                lambda: storm.at_once(storm.detach),
                storm.await_nobody,
            ),
            (
                'attach again',
                lambda: storm.at_once(storm.attach),
                storm.await_attached,
            ),
            ('delete the servers', storm.delete_servers, storm.await_nobody),
        ):
            began = time.monotonic()
            act()
            wrong = check()
            failed = failed or bool(wrong)
            seconds = time.monotonic() - began
            print(f'{name}: {seconds:.0f} s, wrong: {wrong}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
