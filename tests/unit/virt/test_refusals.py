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

"""Requests for disks that Nova makes of a server, and which are refused."""

import ddt
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.virt import refusals


@ddt.ddt
class DiskRequestTest(test.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.instance = objects.Instance(
            uuid=uuids.instance,
            image_ref=uuids.image,
            kernel_id='',
            ramdisk_id='',
            config_drive='',
            system_metadata={},
            pci_requests=None,
            flavor=objects.Flavor(extra_specs={}),
        )
        self.image = objects.ImageMeta(
            id=uuids.image, properties=objects.ImageMetaProps()
        )

    def check(self, *ephemerals, swap=None, **options):
        info = {'ephemerals': list(ephemerals), 'swap': swap}
        refusals.check_build(self.instance, self.image, info, **options)

    def refuse(self, *args, **options):
        return str(
            self.assertRaises(
                exception.InstanceRefused, self.check, *args, **options
            )
        )

    def test_ten_ephemeral_disks_and_swap_disk_are_accepted(self):
        plain = {'size': 1, 'guest_format': None}
        self.check(*[plain] * 10, swap={'swap_size': 1})

    def test_eleven_ephemeral_disks_are_refused(self):
        message = self.refuse(*[{'size': 1}] * 11)
        self.assertIn('11 ephemeral disks, but at most 10', message)

    def test_file_systems_are_each_named_once(self):
        formats = ('xfs', 'ext4', 'xfs', '', None)
        message = self.refuse(*[{'guest_format': name} for name in formats])
        self.assertEqual(2, message.count('with the file system'))
        self.assertLess(message.index('ext4'), message.index('xfs'))

    @ddt.named_data(
        ['ephemeral disk', [{'encrypted': True}], None],
        ['swap disk', [], {'swap_size': 1, 'encrypted': True}],
    )
    def test_encrypted_disk_is_refused(self, ephemerals, swap):
        message = self.refuse(*ephemerals, swap=swap)
        self.assertIn('asks for an encrypted disk', message)

    def test_image_without_id_is_accepted_for_kept_disks_only(self):
        self.image = objects.ImageMeta(properties=objects.ImageMetaProps())
        self.check(keeps_disks=True)
        self.assertIn('Nova does not tell its image', self.refuse())

    def test_server_without_image_needs_a_boot_volume(self):
        self.instance.image_ref = ''
        # Nova describes no image then.
        self.image = objects.ImageMeta(properties=objects.ImageMetaProps())
        for keeps_disks in (False, True):
            message = self.refuse(keeps_disks=keeps_disks)
            self.assertIn('neither an image nor a boot volume', message)
            self.assertNotIn('to be kept', message)
        volume = {'connection_info': {}, 'boot_index': 0}
        refusals.check_build(
            self.instance, self.image, {'block_device_mapping': [volume]}
        )

    def test_preserved_ephemeral_disk_is_refused(self):
        message = self.refuse({'size': 1}, preserve_ephemeral=True)
        self.assertIn('asks to preserve ephemeral disks', message)

    def test_injected_files_need_config_drive(self):
        message = self.refuse(injected_files=[('/etc/motd', b'welcome')])
        self.assertIn('requires a config drive', message)
        self.instance.config_drive = 'True'
        self.check(injected_files=[('/etc/motd', b'welcome')])
