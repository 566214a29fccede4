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

"""Config drives as a guest reads them."""

import base64
import io
import json

import pycdlib
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from nova import utils
from oslo_utils.imageutils import format_inspector

from nova_powervm.lpar import storage
from tests import proofs
from tests.functional import base

CREATED = 'PUT LogicalPartition.create'
#: A slot whose card does not report its subsystem.
PLAIN_SLOT = '21020024'

USER_DATA = b'#!/bin/sh\necho \xc3\xa4 > /tmp/x\n\x00\xff'


class Drive:
    """A config drive as a guest reads it.

    :param data: Bytes of the medium.
    """

    def __init__(self, data):
        self.data = data
        disc = pycdlib.PyCdlib()
        disc.open_fp(io.BytesIO(data))
        self.label = disc.pvd.volume_identifier.decode('ascii').strip()
        self.files = dict(_files(disc))
        disc.close()

    def json(self, name, version='latest'):
        """Return an OpenStack document."""
        return json.loads(self.files[f'/openstack/{version}/{name}.json'])

    @property
    def metadata(self):
        return self.json('meta_data')

    @property
    def slots(self):
        """Return the device entries of I/O slots."""
        return [
            device
            for device in self.metadata['devices']
            if device['type'] == 'ioslot'
        ]


def _files(disc):
    for directory, _, names in disc.walk(rr_path='/'):
        for name in names:
            path = f'{directory.rstrip("/")}/{name}'
            data = io.BytesIO()
            disc.get_file_from_iso_fp(data, rr_path=path)
            yield path, data.getvalue()


def _public_key():
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    return key.public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    ).decode()


class ConfigDriveTestCase(base.PowerVMTestCase):
    """One server has everything that its config drive can tell of."""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.start_host(world=self.world())

    def world(self):
        """Return the world of the host; None for the default one."""

    def make_ports(self):
        """Return the three ports of the server."""
        return [self.make_port() for _ in range(3)]

    def boot_with_everything(self):
        """Boot a server for all stories, and read its config drive."""
        self.key = _public_key()
        self.api.post_keypair(
            {
                'keypair': {
                    'name': 'key',
                    'type': 'ssh',
                    'public_key': self.key,
                }
            }
        )
        self.ports = self.make_ports()
        disk = {
            'uuid': self.image,
            'source_type': 'image',
            'destination_type': 'local',
            'boot_index': 0,
            'tag': 'system',
        }
        trait = f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{PLAIN_SLOT}'
        # The last version with files to inject.
        with utils.temporary_mutation(self.api, microversion='2.56'):
            self.server = self.boot(
                base.gpu_groups(1)
                | {
                    'resources2:CUSTOM_GPU': '1',
                    f'trait2:{trait}': 'required',
                    'group_policy': 'isolate',
                },
                networks=[
                    {'port': self.ports[0]['id'], 'tag': 'outside'},
                    {'port': self.ports[1]['id']},
                    {'port': self.ports[2]['id'], 'tag': 'inside'},
                ],
                request={
                    'config_drive': True,
                    'block_device_mapping_v2': [disk],
                    'key_name': 'key',
                    'adminPass': 'secret',
                    'metadata': {'role': 'wéb'},
                    'user_data': base64.b64encode(USER_DATA).decode(),
                    'personality': [
                        {
                            'path': '/etc/motd',
                            'contents': base64.b64encode(b'welcome').decode(),
                        }
                    ],
                },
            )
        # It stays when a story ends.
        self._booted.clear()
        self.read = self.drive(self.server)

    def drive(self, server):
        """Return the config drive of a server."""
        stem = storage.stem(self.lpar_uuid(server))
        (medium,) = (m for m in self.media() if m['name'].startswith(stem))
        return Drive(self.contents(medium))


class ConfigDriveTest(ConfigDriveTestCase):
    def test_config_drives_of_servers(self):
        self.boot_with_everything()
        self.tell_stories()

    # The server with everything

    @proofs.proves('guest.setup.configdrive')
    def story_config_drive_has_all_that_nova_tells(self):
        self.assertEqual('config-2', self.read.label)
        inspector = format_inspector.ISOInspector()
        inspector.eat_chunk(self.read.data)
        inspector.finish()
        self.assertTrue(inspector.format_match)

        metadata = self.read.metadata
        self.assertEqual(self.server['id'], metadata['uuid'])
        self.assertEqual(self.server['name'], metadata['name'])
        self.assertEqual({'key': self.key}, metadata['public_keys'])
        self.assertEqual('secret', metadata['admin_pass'])
        self.assertEqual({'role': 'wéb'}, metadata['meta'])

        files = self.read.files
        self.assertEqual(USER_DATA, files['/openstack/latest/user_data'])
        self.assertEqual(USER_DATA, files['/ec2/latest/user-data'])

        (file,) = self.read.metadata['files']
        self.assertEqual('/etc/motd', file['path'])
        self.assertEqual(
            b'welcome', self.read.files[f'/openstack{file["content_path"]}']
        )

        self.assertNotIn('devices', self.read.json('meta_data', '2012-08-10'))
        self.assertIn('devices', self.read.json('meta_data', '2016-06-30'))
        self.assertIn('/openstack/latest/vendor_data.json', self.read.files)

        found = self.read.json('network_data')
        self.assertEqual(
            [port['mac_address'] for port in self.ports],
            [link['ethernet_mac_address'] for link in found['links']],
        )
        self.assertEqual(
            [
                (link['id'], port['network_id'])
                for link, port in zip(found['links'], self.ports, strict=True)
            ],
            [(n['link'], n['network_id']) for n in found['networks']],
        )

    def story_metadata_locates_each_gpu(self):
        slots = {slot['drc_index']: slot for slot in self.read.slots}
        allocated = self.allocated_slots(self.server)
        self.assertEqual(2, len(allocated))
        self.assertEqual(
            [f'{index:08X}' for index in allocated], sorted(slots)
        )
        for index in allocated:
            slot = slots[f'{index:08X}']
            self.assertEqual(self.slot(index).drc_name, slot['location'])
            self.assertEqual('pci', slot['bus'])
            self.assertEqual(
                ('10DE', '1DB6', '0302'),
                (slot['vendor_id'], slot['device_id'], slot['class']),
            )

        reported = {
            slot['drc_index']: 'subsys_vendor_id' in slot
            for slot in self.read.slots
        }
        self.assertFalse(reported.pop(PLAIN_SLOT))
        self.assertEqual([True], list(reported.values()))

        for path, data in self.read.files.items():
            if path.endswith('meta_data.json'):
                devices = json.loads(data).get('devices')
                if devices is not None:
                    types = [device['type'] for device in devices]
                    self.assertEqual(2, types.count('ioslot'), path)
        self.assertIn('devices', self.read.metadata)

    @proofs.proves('operation.device-tags')
    def story_metadata_has_tags_of_root_disk_and_ports(self):
        self.assertIn(
            ('disk', ['system']),
            [
                (device['type'], device.get('tags'))
                for device in self.read.metadata['devices']
            ],
        )

        self.assertEqual(
            {
                self.ports[0]['mac_address']: ['outside'],
                self.ports[2]['mac_address']: ['inside'],
            },
            {
                device['mac']: device['tags']
                for device in self.read.metadata['devices']
                if device['type'] == 'nic'
            },
        )

    # Other servers

    @proofs.proves('operation.device-tags')
    def story_instance_record_has_tags_without_config_drive(self):
        port = self.make_port()
        before = self.media()
        # Nothing is made in this format.
        with self.flagged(config_drive_format='vfat'):
            server = self.boot(
                {}, networks=[{'port': port['id'], 'tag': 'lan'}]
            )

        self.assertEqual(before, self.media())
        (device,) = self.instance(server).device_metadata.devices
        self.assertEqual(
            (port['mac_address'], ['lan']), (device.mac, device.tags)
        )

    @proofs.proves('guest.setup.configdrive')
    def story_vfat_format_is_refused(self):
        self.control().clear_journal()

        with self.flagged(config_drive_format='vfat'):
            server = self.boot(
                {}, expected='ERROR', request={'config_drive': True}
            )

        self.assertIn(
            'config_drive_format is vfat', server['fault']['message']
        )
        self.assertEqual(0, self.control().journal_counts().get(CREATED, 0))

    def story_image_property_adds_config_drive(self):
        image = self.create_image(
            base.IMAGE,
            properties={
                'architecture': 'ppc64le',
                'img_config_drive': 'mandatory',
            },
        )

        server = self.boot({}, image=image)

        self.assertEqual([], self.drive(server).metadata['devices'])

    @proofs.proves('guest.setup.configdrive', 'operation.rebuild')
    def story_rebuild_makes_forced_config_drive_anew(self):
        with self.flagged(force_config_drive=True):
            server = self.boot(base.gpu_groups(1))
        slots = self.drive(server).slots
        self.assertEqual(1, len(slots))
        self.api.put_server(server['id'], {'server': {'name': 'a-new-name'}})

        self._rebuild_server(server, self.create_image(b'another image'))

        drive = self.drive(server)
        self.assertEqual('a-new-name', drive.metadata['name'])
        self.assertEqual(slots, drive.slots)
