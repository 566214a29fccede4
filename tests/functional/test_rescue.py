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

"""Servers are rescued and unrescued on real Nova.

Where the disks are, and what each request that fails leaves, is in
``tests/ops/test_rescue.py``.
"""

import hashlib
import threading

import fixtures

from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import scsi_mappings
from tests import proofs
from tests.functional import base
from tests.functional import test_config_drives

RESCUE_IMAGE = b'\x01rescue system' + bytes(32 * 1024)
#: The virtual slots of what a server has, by its role, and those in a rescue.
OWN = {48: 'r', 49: '0', 59: 's', 60: '.iso'}
RESCUED = {48: 'z', 49: 'r', 50: '0', 60: 's', 61: 'z.iso'}


class RescueTest(base.PowerVMTestCase):
    """One server with a device and three disks, for all stories."""

    def setUp(self):
        super().setUp()
        self.start_host()
        self.server = self.boot_server()
        # Keep it for all stories.
        self._booted.clear()
        self.rescue_image = self.create_image(RESCUE_IMAGE)
        self.before = self.stored()

    def boot_server(self, image=None):
        """Boot a server, and let its guest write to its disks."""
        server = self.boot(
            base.gpu_groups(1),
            image=image,
            request={'config_drive': True},
            disk=1,
            ephemeral=1,
            swap=512,
        )
        for role in 'r0':
            self.control().write_disk(
                self.found(server)[role]['udid'], 'Z3Vlc3Q='
            )
        return server

    def found(self, server=None):
        """Return disks and media of a server, by role."""
        lpar = self.lpar_uuid(server or self.server)
        return {
            _role(lpar, each['name']): each
            for each in [*self.disks(), *self.media()]
            if storage.belongs_to(each['name'], lpar)
        }

    def stored(self):
        """Return the hashes of the server's disks and media, by role."""
        return {role: each['sha256'] for role, each in self.found().items()}

    def places(self):
        """Return the role of what is mapped to the LPAR, by virtual slot."""
        lpar = self.lpar_uuid(self.server)
        return {
            mapping['client_slot']: _role(lpar, mapping['name'])
            for mapping in self.mappings()
            if mapping['client'] == self.instance(self.server).name
        }

    def act(self, action, argument=None, status=None):
        """Request an action, and wait for a status."""
        answer = self.api.post_server_action(
            self.server['id'], {action: argument}
        )
        if status:
            self._wait_for_state_change(self.server, status)
        return answer

    def rescue(self, status='RESCUE', image=None):
        """Rescue the server with an image; return the password."""
        return self.act(
            'rescue',
            {'rescue_image_ref': image or self.rescue_image},
            status,
        )['adminPass']

    def assert_rescued(self, state='running'):
        """Assert that the server runs its rescue system."""
        self.assertEqual(RESCUED, self.places())
        lpar = self.lpar(self.server)
        self.assertEqual((state, 1), (lpar.state, len(lpar.slots)))
        self.assertEqual(
            self.before, {r: self.stored()[r] for r in self.before}
        )

    def assert_own(self, status='ACTIVE', state='running'):
        """Assert that the server runs its own system, and nothing is left."""
        self.assertEqual(OWN, self.places())
        lpar = self.lpar(self.server)
        self.assertEqual((state, 1), (lpar.state, len(lpar.slots)))
        self.assertEqual(self.before, self.stored())
        found = self.api.get_server(self.server['id'])
        self.assertEqual(
            (status, None), (found['status'], found['OS-EXT-STS:task_state'])
        )

    def story_rescue_starts_its_system_and_unrescue_the_own_one(self):
        password = self.rescue()

        self.assert_rescued()
        self.assertEqual(
            hashlib.sha256(RESCUE_IMAGE).hexdigest(), self.stored()['z']
        )
        drives = {
            role: test_config_drives.Drive(self.contents(self.found()[role]))
            for role in ('.iso', 'z.iso')
        }
        self.assertEqual(password, drives['z.iso'].metadata['admin_pass'])
        self.assertEqual(drives['.iso'].slots, drives['z.iso'].slots)
        self.assertEqual(1, len(drives['z.iso'].slots))
        self.assertNotIn(password, self.logged())
        self.act('unrescue', status='ACTIVE')
        self.assert_own()

    @proofs.proves('device.rescue', 'operation.rescue')
    def test_rescue_and_its_ends(self):
        self.tell_stories()

    def story_server_deleted_in_rescue_leaves_nothing(self):
        first, self.server = self.server, self.boot_server()

        self.delete_while_rescued()

        self.assertEqual({}, self.found())
        self.assertIsNone(self.lpar(self.server))
        self.assertEqual(
            {self.instance(first).name},
            {mapping['client'] for mapping in self.mappings()},
        )
        self._booted.clear()
        self.server = first

    def delete_while_rescued(self):
        """Delete the server between the steps of a rescue, if that can be.

        The storage was unmapped from the LPAR by then, and the rescue maps it
        before the deletion removes it.
        """
        unmapped, mapped = threading.Event(), threading.Event()
        attach = scsi_mappings.ScsiMappings.attach
        detach = scsi_mappings.ScsiMappings.detach

        def attach_late(mappings, *args):
            self.api.delete_server(self.server['id'])
            unmapped.wait(1)
            try:
                return attach(mappings, *args)
            finally:
                mapped.set()

        def detach_early(mappings, lpar_uuid, **options):
            found = detach(mappings, lpar_uuid, **options)
            if not options:
                unmapped.set()
                mapped.wait(60)
            return found

        with (
            fixtures.MockPatchObject(
                scsi_mappings.ScsiMappings, 'attach', attach_late
            ),
            fixtures.MockPatchObject(
                scsi_mappings.ScsiMappings, 'detach', detach_early
            ),
        ):
            self.act('rescue')
            self._wait_until_deleted(self.server)


def _role(lpar_uuid, name):
    """Return the role of a disk or medium of an LPAR."""
    return storage.base_name(name).removeprefix(storage.stem(lpar_uuid))
