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

"""Unsupported requests are refused before anything is created."""

import os_traits
from nova import utils
from nova.tests import fixtures as nova_fixtures

from tests.functional import base

VOLUME = nova_fixtures.CinderFixture.IMAGE_BACKED_VOL


class UnsupportedRequestTest(base.PowerVMTestCase):
    """The server's fault gives the reason."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.start_host()

    def refuse(self, *reasons, **options):
        """Boot a server that is refused unchanged; return the message."""
        self.control().clear_journal()
        extra_specs = options.pop('extra_specs', {})
        server = self.boot(extra_specs, expected='ERROR', **options)
        message = server['fault']['message']
        for reason in reasons:
            self.assertIn(reason, message)
        self.assertEqual([], self.changes())
        self.wait_until_unallocated(server)
        return message

    def changes(self):
        """Return the changing requests since the journal was cleared."""
        return [
            record
            for record in self.control().journal()
            if record['method'] != 'GET'
            and not record['label'].startswith('Logon.')
        ]

    def test_unsupported_requests_are_refused(self):
        self.tell_stories()

    def story_injected_files_need_config_drive(self):
        file = {'path': '/etc/motd', 'contents': 'd2VsY29tZQ=='}
        with utils.temporary_mutation(self.api, microversion='2.56'):
            self.refuse('config drive', request={'personality': [file]})

    def volume(self, **changes):
        """Return a block device mapping of a volume."""
        return {
            'source_type': 'volume',
            'destination_type': 'volume',
            'uuid': VOLUME,
            'boot_index': 0,
        } | changes

    def image_disk(self):
        """Return a block device mapping of a root disk."""
        return {
            'source_type': 'image',
            'destination_type': 'local',
            'uuid': self.image,
            'boot_index': 0,
        }

    def story_boot_from_volume_is_refused(self):
        self.refuse(
            'PowerVM: attaching a volume is not supported yet',
            image='',
            request={'block_device_mapping_v2': [self.volume()]},
        )

    def story_volume_beside_image_is_refused(self):
        self.refuse(
            'PowerVM: attaching a volume is not supported yet',
            request={
                'block_device_mapping_v2': [
                    self.image_disk(),
                    self.volume(boot_index=-1),
                ]
            },
        )

    def blank_disk(self, **changes):
        """Return a block device mapping of an ephemeral disk."""
        return {
            'source_type': 'blank',
            'destination_type': 'local',
            'boot_index': -1,
            'volume_size': 1,
        } | changes

    def story_ephemeral_disk_with_file_system_is_refused(self):
        self.refuse(
            'an ephemeral disk with the file system ext4',
            ephemeral=1,
            request={
                'block_device_mapping_v2': [
                    self.image_disk(),
                    self.blank_disk(guest_format='ext4'),
                ]
            },
        )

    def test_eleven_ephemeral_disks_are_refused(self):
        # By default Nova's API accepts three disks.
        self.flags(max_local_block_devices=-1)

        self.refuse(
            'asks for 11 ephemeral disks, but at most 10 can be attached',
            ephemeral=11,
            request={
                'block_device_mapping_v2': [
                    self.image_disk(),
                    *[self.blank_disk()] * 11,
                ]
            },
        )

    def story_separate_kernel_and_ramdisk_are_refused(self):
        kernel = self.create_image(b'kernel', disk_format='aki')
        image = self.create_image(
            base.IMAGE,
            properties={
                'architecture': 'ppc64le',
                'kernel_id': kernel,
                'ramdisk_id': kernel,
            },
        )

        self.refuse('a separate kernel or ramdisk', image=image)

    def test_fault_lists_all_reasons(self):
        self.flags(config_drive_format='vfat')

        self.refuse(
            'an ephemeral disk with the file system ext4',
            'config_drive_format is vfat',
            ephemeral=1,
            request={
                'config_drive': True,
                'block_device_mapping_v2': [
                    self.image_disk(),
                    self.blank_disk(guest_format='ext4'),
                ],
            },
        )

    def story_sriov_port_fails_claim(self):
        port = self.make_port(**{'binding:vnic_type': 'direct'})

        self.refuse('Claim pci failed', networks=[{'port': port['id']}])

    def test_pci_alias_fails_claim(self):
        alias = '{"name": "gpu", "product_id": "1db6", "vendor_id": "10de"}'
        self.flags(alias=[alias], group='pci')

        self.refuse(
            'Claim pci failed', extra_specs={'pci_passthrough:alias': 'gpu:1'}
        )

    def test_attaching_volume_fails_without_changes(self):
        server = self.boot({})
        self.control().clear_journal()

        self.api.post_server_volume(
            server['id'], {'volumeAttachment': {'volumeId': VOLUME}}
        )

        self.notifier.wait_for_versioned_notifications(
            'instance.volume_attach.error'
        )
        self.assertEqual([], self.changes())

    def story_unknown_vif_type_is_refused(self):
        port = self.make_port(**{'binding:vif_type': 'ovs'})

        self.refuse('ovs', networks=[{'port': port['id']}])

    def story_fault_states_reason_within_255_characters(self):
        # Nova cuts messages to 255 characters.
        image = self.create_image(
            base.IMAGE,
            properties={'architecture': 'ppc64le', 'kernel_id': self.image},
        )

        message = self.refuse('kernel', image=image)

        self.assertIn('PowerVM: its image has a separate kernel', message)
        self.assertLess(len(message), 255)


class CapabilityTraitsTest(base.PowerVMTestCase):
    """The compute node has the traits of supported features."""

    DONE = frozenset(
        {
            os_traits.COMPUTE_ACCELERATORS,
            os_traits.COMPUTE_DEVICE_TAGGING,
            os_traits.COMPUTE_IMAGE_TYPE_QCOW2,
            os_traits.COMPUTE_IMAGE_TYPE_RAW,
            os_traits.COMPUTE_NET_ATTACH_INTERFACE,
            # Nova itself sets it on each compute node.
            os_traits.COMPUTE_NODE,
        }
    )

    def traits(self):
        root = self._get_provider_uuid_by_host('host1')
        return self._get_provider_traits(root)

    def test_compute_node_has_traits_of_supported_features_only(self):
        self.start_host()

        self.assertEqual(
            self.DONE,
            {name for name in self.traits() if name.startswith('COMPUTE_')},
        )

    def test_image_of_unsupported_type_finds_no_host(self):
        self.flags(
            query_placement_for_image_type_support=True, group='scheduler'
        )
        self.start_host()
        image = self.create_image(b'any', disk_format='vmdk')
        self.control().clear_journal()

        server = self.boot({}, expected='ERROR', image=image)

        self.assertIn('No valid host', server['fault']['message'])

    def test_image_of_supported_type_is_scheduled(self):
        self.flags(
            query_placement_for_image_type_support=True, group='scheduler'
        )
        self.start_host()

        self.boot({})
