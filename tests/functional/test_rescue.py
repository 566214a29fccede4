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
from nova.tests.functional.api import client

from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import scsi_mappings
from tests import proofs
from tests.functional import base
from tests.functional import pools
from tests.functional import test_config_drives

RESCUE_IMAGE = b'\x01rescue system' + bytes(32 * 1024)
#: The virtual slots of what a server has, by its role, and those in a rescue.
OWN = {48: 'r', 49: '0', 59: 's', 60: '.iso'}
RESCUED = {48: 'z', 49: 'r', 50: '0', 60: 's', 61: 'z.iso'}


class StoriesMixin:
    """One server with a device and three disks, for all stories."""

    def setUp(self):
        super().setUp()
        self.start()
        self.server = self.boot_server()
        # Keep it for all stories.
        self._booted.clear()
        self.rescue_image = self.create_image(RESCUE_IMAGE)
        self.before = self.stored()

    def stories(self):
        """Return the stories of this place, and those of each place."""
        return {
            name: getattr(self, name)
            for name in dir(self)
            if name.startswith('story_')
        }

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
        state = self.control().state()
        group = [
            unit
            for cluster in state['clusters']
            for unit in cluster['pool']['logical_units']
        ]
        return {
            _role(lpar, each['name']): each
            for each in [*self.disks(), *self.media(), *group]
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

    def reboot_hard(self):
        """Reboot the server hard, as a user."""
        self.act('reboot', {'type': 'HARD'}, 'ACTIVE')

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

    def assert_refused(self, *words):
        """Assert that Nova shows why the guest still runs its own system."""
        self.assert_own('ERROR')
        fault = self.fault(self.server)
        for word in words:
            self.assertIn(word, fault)

    def fail_starts(self, **options):
        """Let a start of the LPAR fail."""
        self.control().add_fault(
            method='PUT', match='/do/PowerOn', status=500, **options
        )

    # Stories of each place for disks

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

    def story_guest_runs_on_if_its_rescue_system_does_not_start(self):
        self.fail_starts()

        self.rescue('ERROR')

        self.assert_refused('could not do this')
        self.reboot_hard()
        self.assert_own()


class RescueTest(StoriesMixin, base.PowerVMTestCase):
    def start(self):
        """Start a host."""
        self.start_host()

    @proofs.proves('device.rescue', 'operation.rescue')
    def test_rescue_and_its_ends(self):
        self.tell_stories()

    def story_rescue_without_image_takes_that_of_server(self):
        self.act('rescue', None, 'RESCUE')

        self.assert_rescued()
        self.assertEqual(
            hashlib.sha256(base.IMAGE).hexdigest(), self.stored()['z']
        )
        self.act('unrescue', status='ACTIVE')

    def story_stopped_server_is_rescued_and_runs_afterwards(self):
        self.act('os-stop', status='SHUTOFF')

        self.rescue()
        self.assert_rescued()
        self.act('unrescue', status='ACTIVE')

        self.assert_own()

    def story_rescue_from_cdrom_is_refused_and_guest_runs_on(self):
        image = self.create_image(
            RESCUE_IMAGE,
            properties={
                'architecture': 'ppc64le',
                'hw_rescue_device': 'cdrom',
                'hw_rescue_bus': 'scsi',
            },
        )
        self.control().clear_journal()

        self.rescue('ERROR', image)

        self.assert_refused('hw_rescue_device=cdrom', image)
        self.assertEqual([], self.jobs())
        self.reboot_hard()

    def story_stable_rescue_from_disk_is_a_rescue(self):
        image = self.create_image(
            RESCUE_IMAGE,
            properties={
                'architecture': 'ppc64le',
                'hw_rescue_device': 'disk',
                'hw_rescue_bus': 'scsi',
            },
        )

        self.rescue(image=image)

        self.assert_rescued()
        self.act('unrescue', status='ACTIVE')

    def story_rescue_without_room_is_refused_and_guest_runs_on(self):
        image = self.create_image(RESCUE_IMAGE, size=2000 * 1024**3)
        self.control().clear_journal()

        self.rescue('ERROR', image)

        self.assert_refused('rescue disk of 2000 GB')
        self.assertEqual([], self.jobs())
        self.act('os-resetState', {'state': 'active'}, 'ACTIVE')
        self.assert_own()

    def story_server_whose_image_is_gone_is_rescued_with_another_one(self):
        first, self.server = (
            self.server,
            self.boot_server(self.create_image(base.IMAGE)),
        )
        self.before = self.stored()
        self.glance.delete(None, self.instance(self.server).image_ref)
        self.control().clear_journal()

        self.act('rescue')

        event = self._wait_for_instance_action_event(
            self.server, 'rescue', 'compute_rescue_instance', 'error'
        )
        self.assertIn('could not be found', event['details'])
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual([], self.jobs())
        self.assert_own()
        self.rescue()
        self.assert_rescued()
        self.server = first
        self.before = self.stored()

    def story_failed_unrescue_is_ended_by_hard_reboot(self):
        self.rescue()
        self.fail_starts()

        self.act('unrescue', status='ERROR')

        self.assertIn('could not do this', self.fault(self.server))
        self.reboot_hard()
        self.assert_own()

    def story_host_boot_starts_rescue_system_again(self):
        self.flags(resume_guests_state_on_host_boot=True)
        self.rescue()
        self.computes['host1'].stop()
        self.control().set_partition(
            self.instance(self.server).name, 'not activated'
        )

        self.restart_host()

        self.assert_rescued()
        self.act('unrescue', status='ACTIVE')
        self.assert_own()

    def story_rescue_that_was_killed_is_ended_by_hard_reboot(self):
        self.rescue()
        self.control().set_partition(
            self.instance(self.server).name, 'not activated'
        )
        record = self.instance(self.server)
        record.vm_state, record.task_state = 'active', 'rescuing'
        record.save()

        self.act('os-resetState', {'state': 'error'}, 'ERROR')
        self.reboot_hard()

        self.assert_own()

    def story_nova_refuses_what_does_not_go_with_a_rescue(self):
        self.rescue()

        for action, argument in (
            ('reboot', {'type': 'HARD'}),
            ('rebuild', {'imageRef': self.image}),
            ('resize', {'flavorRef': self.make_flavor({})}),
            ('migrate', None),
            ('evacuate', {}),
            ('rescue', None),
        ):
            with self.subTest(action):
                error = self.assertRaises(
                    client.OpenStackApiException, self.act, action, argument
                )
                self.assertIn(
                    error.response.status_code, (400, 409), str(error)
                )
        self.assert_rescued()
        self.act('unrescue', status='ACTIVE')

    def story_rescue_disk_is_reserved_in_placement(self):
        node = self._get_provider_uuid_by_host('host1')

        def reserved():
            self._run_periodics()
            return self._get_provider_inventory(node)['DISK_GB']['reserved']

        before = reserved()
        self.rescue()

        self.assertEqual(before + 1, reserved())
        self.act('unrescue', status='ACTIVE')
        self.assertEqual(before, reserved())

    def story_rescued_server_that_is_deleted_leaves_nothing(self):
        first, self.server = self.server, self.boot_server()
        self.rescue()

        self._delete_server(self.server)

        self.assertEqual({}, self.found())
        self.assertIsNone(self.lpar(self.server))
        self._booted.clear()
        self.server = first

    def delete_while(self, action):
        """Delete a server between the steps of an action, if that can be.

        The storage was unmapped from the LPAR by then, and the action maps it
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
            self.act(action)
            self._wait_until_deleted(self.server)

    def story_server_deleted_in_rescue_or_unrescue_leaves_nothing(self):
        first = self.server
        for action in ('rescue', 'unrescue'):
            self.server = self.boot_server()
            if action == 'unrescue':
                self.rescue()

            self.delete_while(action)

            self.assertEqual({}, self.found())
            self.assertIsNone(self.lpar(self.server))
            self.assertEqual(
                set(),
                {mapping['client'] for mapping in self.mappings()}
                - {self.instance(first).name},
            )
        self._booted.clear()
        self.server = first


class PoolRescueTest(StoriesMixin, pools.PoolTestCase):
    def start(self):
        """Start a host whose disks are in a pool."""
        self.start_pool_host()

    @proofs.proves('operation.rescue')
    def test_rescue_of_server_in_pool(self):
        self.tell_stories()


def _role(lpar_uuid, name):
    """Return the role of a disk or medium of an LPAR."""
    unit = storage.parse_unit_name(name)
    found = storage.base_name(name).removeprefix(storage.stem(lpar_uuid))
    return unit[1] if unit else found
