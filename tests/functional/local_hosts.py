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

"""Hosts whose nova-compute runs on their management partition."""

import base64

import fixtures

from powervm_emulator import fixture
from powervm_emulator import worlds
from tests.functional import images
from tests.functional import moving
from tests.functional import pools
from tests.ops import base as ops_base

#: As many bytes has a GB of a disk that these hosts let nova-compute read.
GB = 1 << 24


def server_world():
    """Return a world whose management partition is the Virtual I/O Server."""
    return ops_base.managed_by_server(worlds.default())


class LocalHostTestCase(moving.MovingTestCase, pools.PoolTestCase):
    """Starts hosts that can read the disks of servers, and makes images."""

    def setUp(self):
        super().setUp()
        self.uploads = images.Uploads(self.glance)
        # Reading and hashing whole GiB of zeros takes seconds each.
        ops_base.make_gigabytes_small(self, GB)
        self._roots = {}

    def prepare(self):
        self.uploads.on_read = lambda number: None
        self.uploads.written.clear()
        for image_id in self.copies():
            self.glance.delete(None, image_id)

    def start_local(self, name, world=None, **options):
        """Start a host whose nova-compute logs on by file."""
        root = self._roots[name] = self.useFixture(fixtures.TempDir()).path
        self.start_host(
            name,
            emulator=fixture.Emulator(world, host_root=root),
            **options,
        )

    def configure(self, name, *args, **options):
        """Configure a host as by default; one with a root logs on by file."""
        options = {'disk_clear': 'zero'} | options
        root = self._roots.get(name)
        if root and 'rest_username' not in options:
            options |= {
                'rest_username': None,
                'rest_password': None,
                'management_root': root,
            }
        super().configure(name, *args, **options)

    def write(self, server, data=pools.WRITTEN, offset=0, host='host1'):
        """Write to a server's root disk, as its guest does."""
        self.control(host).write_disk(
            self.root_disk(server, host)['udid'],
            base64.b64encode(data).decode(),
            offset,
        )

    def root_disk(self, server, host='host1'):
        """Return a server's root disk."""
        if self.control(host).state()['clusters']:
            return self.disks_of(server, host)['root']
        lpar = self.instance(server).name
        names = {
            mapping['name']
            for mapping in self.vios(host)['scsi_mappings']
            if mapping['client'] == lpar
        }
        (disk,) = (d for d in self.disks(host) if d['name'] in names)
        return disk

    def written(self, server, host='host1'):
        """Return as many bytes of a root disk as :meth:`write` wrote."""
        udid = self.root_disk(server, host)['udid']
        return self.control(host).contents(udid)[: len(pools.WRITTEN)]

    def copies(self):
        """Return the images that Nova has created, by their ids."""
        return {
            image['id']: image
            for image in self.glance.detail(None)
            if image['properties'].get('image_type')
        }

    def act(self, server, action, result='Success', **body):
        """Request an action; return the event that has this result."""
        self.api.post_server_action(server['id'], {action: body or None})
        event = self._wait_for_action(action, server, result)
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        return event

    def stop(self, server):
        """Stop a server."""
        self.api.post_server_action(server['id'], {'os-stop': None})
        self._wait_for_state_change(server, 'SHUTOFF')

    def assert_returned(self, server, host='host1'):
        """Verify that nobody but the server has its disks."""
        names = {
            mapping['client'] for mapping in self.vios(host)['scsi_mappings']
        }
        self.assertEqual({self.instance(server).name}, names)
