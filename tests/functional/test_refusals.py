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

"""Unsupported requests are refused before anything is created.

What is refused is in ``tests/unit/virt/test_refusals.py``,
``tests/unit/docs/test_tables.py`` and
``tests/unit/lpar/test_supported_features.py``.
"""

import os_traits
from nova import utils
from nova.tests import fixtures as nova_fixtures

from tests import proofs
from tests.functional import base

VOLUME = nova_fixtures.CinderFixture.IMAGE_BACKED_VOL


class RefusedRequestTest(base.PowerVMTestCase):
    """The server's fault gives the reason."""

    DONE = frozenset(
        {
            os_traits.COMPUTE_ACCELERATORS,
            os_traits.COMPUTE_DEVICE_TAGGING,
            os_traits.COMPUTE_IMAGE_TYPE_QCOW2,
            os_traits.COMPUTE_IMAGE_TYPE_RAW,
            os_traits.COMPUTE_NET_ATTACH_INTERFACE,
            os_traits.COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG,
            # Nova itself sets it on each compute node.
            os_traits.COMPUTE_NODE,
            os_traits.COMPUTE_TRUSTED_CERTS,
            os_traits.COMPUTE_VOLUME_ATTACH_WITH_TAG,
            os_traits.COMPUTE_VOLUME_EXTEND,
        }
    )

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.flags(
            query_placement_for_image_type_support=True, group='scheduler'
        )
        self.start_host()

    def test_unsupported_requests_are_refused(self):
        self.tell_stories()

    def refuse(self, *reasons, extra_specs=(), **options):
        """Boot a server that is refused unchanged; return the message.

        :param reasons: Words of the log; Nova cuts messages to 255 characters.
        """
        self.control().clear_journal()
        server = self.boot(dict(extra_specs), expected='ERROR', **options)
        for reason in reasons:
            self.assertIn(reason, self.logged())
        self.assertEqual([], self.changes())
        self.wait_until_unallocated(server)
        return server['fault']['message']

    def changes(self):
        """Return the changing requests since the journal was cleared."""
        return [
            record
            for record in self.control().journal()
            if record['method'] != 'GET'
            and not record['label'].startswith('Logon.')
        ]

    def image_with(self, **properties):
        """Create an image with further properties."""
        return self.create_image(
            base.IMAGE, properties={'architecture': 'ppc64le', **properties}
        )

    def image_disk(self):
        """Return a block device mapping of a root disk."""
        return {
            'source_type': 'image',
            'destination_type': 'local',
            'uuid': self.image,
            'boot_index': 0,
        }

    @proofs.proves('operation.launch')
    def story_fault_lists_all_reasons(self):
        self.flags(config_drive_format='vfat')

        message = self.refuse(
            ephemeral=1,
            request={
                'config_drive': True,
                'block_device_mapping_v2': [
                    self.image_disk(),
                    {
                        'source_type': 'blank',
                        'destination_type': 'local',
                        'boot_index': -1,
                        'volume_size': 1,
                        'guest_format': 'ext4',
                    },
                ],
            },
        )

        self.assertIn('an ephemeral disk with the file system ext4', message)
        self.assertIn('config_drive_format is vfat', message)

    def story_user_flavor_and_image_are_refused_at_once(self):
        file = {'path': '/etc/motd', 'contents': 'd2VsY29tZQ=='}
        image = self.image_with(kernel_id=self.image, hw_firmware_type='uefi')

        with utils.temporary_mutation(self.api, microversion='2.56'):
            message = self.refuse(
                'the flavor asks for quota:cpu_shares=10, but a flavor for',
                'its image asks for hw_firmware_type=uefi, but PowerVM',
                'it asks for file injection, which requires a config drive',
                extra_specs={
                    **base.gpu_groups(1),
                    'quota:cpu_shares': '10',
                },
                image=image,
                request={'personality': [file]},
            )

        self.assertIn('PowerVM: its image has a separate kernel', message)

    def story_boot_from_volume_is_refused_without_fibre_channel(self):
        volume = {
            'source_type': 'volume',
            'destination_type': 'volume',
            'uuid': VOLUME,
            'boot_index': 0,
        }

        message = self.refuse(
            image='', request={'block_device_mapping_v2': [volume]}
        )

        self.assertIn(
            'No volume can be connected: no Virtual I/O Server has a Fibre '
            'Channel port',
            message,
        )

    def story_sriov_port_fails_claim(self):
        port = self.make_port(**{'binding:vnic_type': 'direct'})

        message = self.refuse(networks=[{'port': port['id']}])

        self.assertIn('Claim pci failed', message)

    def story_values_without_effect_are_accepted(self):
        # Only to Neutron's driver for OVN this type is another.
        port = self.make_port(**{'binding:vnic_type': 'baremetal'})
        server = self.boot(
            {
                'hw:cpu_policy': 'shared',
                'hw:mem_page_size': 'small',
                'hw:watchdog_action': 'disabled',
                'quota:cpu_quota': '-1',
            },
            image=self.image_with(
                hw_disk_bus='virtio', hw_vif_model='virtio', os_type='linux'
            ),
            networks=[{'port': port['id']}],
        )
        self.control().clear_journal()

        reason = self.refuse_rebuild(
            server, self.image_with(os_secure_boot='required')
        )

        self.assertIn('its image asks for os_secure_boot=required', reason)
        self.assertEqual([], self.changes())

    def story_compute_node_has_traits_of_supported_features_only(self):
        root = self._get_provider_uuid_by_host('host1')

        self.assertEqual(
            self.DONE,
            {
                name
                for name in self._get_provider_traits(root)
                if name.startswith('COMPUTE_')
            },
        )

    def story_image_of_unsupported_type_finds_no_host(self):
        message = self.refuse(
            image=self.create_image(b'any', disk_format='vmdk')
        )

        self.assertIn('No valid host', message)
