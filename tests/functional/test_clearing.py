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

"""No tenant reads what deleted disks have left: a member's attempts.

Before, a snapshot of a server that was built from an image of one byte had all
of what others had left in the rest of its root disk.
"""

from powervm_emulator import worlds
from tests.functional import local_hosts

RESIDUE = 'what another tenant had on a deleted disk'
BYTE = b'\x01'


def world():
    """Return a world that shows what deleted disks have left."""
    return worlds.default() | {'residue': RESIDUE}


class DeletedDisksTest(local_hosts.LocalHostTestCase):
    """nova-compute runs on the management partition."""

    def setUp(self):
        super().setUp()
        self.flags(disk_allocation_ratio=10.0)
        self.start_local('host1', world())
        self.image = self.create_image(BYTE)

    def test_deleted_disks_show_nothing(self):
        self.tell_stories()

    def content(self, disk):
        """Return a disk of the host without the zeros at its end."""
        return self.control().contents(disk['udid']).rstrip(b'\0')

    def story_snapshot_of_one_byte_image_has_one_byte(self):
        server = self.boot({}, disk=2, image=self.image)
        self.stop(server)

        self.act(server, 'createImage', name='copy')

        ((image_id, found),) = self.copies().items()
        self.assertEqual(2 * local_hosts.GB, found['size'])
        self.assertEqual(BYTE, self.uploads.written[image_id])

    def story_ephemeral_and_swap_disks_hold_zeros(self):
        self.boot({}, disk=3, ephemeral=2, swap=1024, image=self.image)

        self.assertEqual(
            {3: BYTE, 2: b'', 1: b''},
            {disk['capacity']: self.content(disk) for disk in self.disks()},
        )

    def story_disk_of_resized_running_server_grows_at_its_hard_reboot(self):
        server = self.boot({}, disk=1, image=self.image)
        server = self.confirm(self.resize(server, disk=3))
        self.assertEqual(1, self.root_disk(server)['capacity'])
        self.assertIn('next hard reboot', ' '.join(self.logged().split()))

        self.reboot_hard(server)

        disk = self.root_disk(server)
        self.assertEqual(3, disk['capacity'])
        self.assertEqual(BYTE, self.content(disk))

    def story_disk_of_resized_stopped_server_grows_when_confirmed(self):
        server = self.boot({}, disk=1, image=self.image)
        self.stop(server)
        server = self.confirm(self.resize(server, disk=2), 'SHUTOFF')

        disk = self.root_disk(server)
        self.assertEqual(2, disk['capacity'])
        self.assertEqual(BYTE, self.content(disk))


class DistantHostTest(local_hosts.LocalHostTestCase):
    """nova-compute reaches the host by its URL, and uploads zeros."""

    def setUp(self):
        super().setUp()
        self.start_host('host1', world())

    def test_deleted_disks_show_nothing(self):
        self.tell_stories()

    def story_disks_hold_image_and_zeros(self):
        self.boot({}, disk=1, ephemeral=2, image=self.create_image(BYTE))

        self.assertEqual(
            {1: BYTE, 2: b''},
            {
                disk['capacity']: self.control()
                .contents(disk['udid'])
                .rstrip(b'\0')
                for disk in self.disks()
            },
        )

    def story_larger_root_disk_is_refused_and_guest_runs_on(self):
        server = self.boot({}, disk=1)
        flavor = self.make_flavor((), disk=2)

        reason = self.refuse_move(server, 'resize', flavorRef=flavor)

        self.assertIn('[powervm]disk_clear', reason)
        self.assertEqual('running', self.lpar(server).state)
