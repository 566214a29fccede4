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

"""Unsupported values of flavors and images are refused."""

from nova import utils

from tests.functional import base


class RefusedFlavorTest(base.PowerVMTestCase):
    """The driver refuses with a reason in the server's fault."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.start_host()

    def test_unsupported_flavors_and_images_are_refused(self):
        self.tell_stories()

    def refuse(self, extra_specs, *reasons, image=None):
        """Boot a server that is refused without changes, for these reasons."""
        self.control().clear_journal()
        server = self.boot(extra_specs, expected='ERROR', image=image)
        for reason in reasons:
            self.assertIn(reason, server['fault']['message'])
        self.assertEqual([], self.changes())
        self.wait_until_unallocated(server)

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

    def story_quota_limits_are_refused(self):
        self.refuse(
            {
                **base.gpu_groups(1),
                'quota:cpu_shares': '10',
                'quota:disk_read_iops_sec': '100',
            },
            'PowerVM: the flavor asks for quota:cpu_shares=10, but shares '
            'and limits are not set for LPARs',
            'the flavor asks for quota:disk_read_iops_sec=100',
        )

    def story_dedicated_cpus_are_refused(self):
        self.refuse(
            {'hw:cpu_policy': 'dedicated'},
            "hw:cpu_policy=dedicated, but LPARs share the host's processors",
        )

    def story_large_pages_are_refused(self):
        self.refuse(
            {'hw:mem_page_size': 'large'},
            'hw:mem_page_size=large, but the page size',
        )

    def story_numa_node_is_refused(self):
        self.refuse({'hw:numa_nodes': '1'}, 'hw:numa_nodes=1, but')

    def story_misspelled_device_profile_is_refused(self):
        # Nova's API checks the keys of extra specs since 2.86.
        with utils.temporary_mutation(self.api, microversion='2.85'):
            self.refuse(
                {'accel:device_profile_name': 'gpu'},
                'Nova knows only accel:device_profile',
            )

    def story_image_with_uefi_firmware_is_refused(self):
        self.refuse(
            {},
            'PowerVM: its image asks for hw_firmware_type=uefi, but PowerVM '
            'has its own firmware',
            image=self.image_with(hw_firmware_type='uefi'),
        )

    def story_values_without_effect_are_accepted(self):
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
        )
        self.control().clear_journal()

        reason = self.refuse_rebuild(
            server, self.image_with(os_secure_boot='required')
        )

        self.assertIn('its image asks for os_secure_boot=required', reason)
        self.assertEqual([], self.changes())
