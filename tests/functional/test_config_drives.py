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

from tests.functional import base

CREATED = 'PUT LogicalPartition.create'
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
    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')

    def boot_with_drive(self, extra_specs=(), **options):
        """Boot a server that requests a config drive."""
        request = {'config_drive': True} | options.pop('request', {})
        return self.boot(dict(extra_specs), request=request, **options)

    def drive(self):
        """Return the only medium of the host as a config drive."""
        (medium,) = self.media()
        return Drive(self.contents(medium))


class ConfigDriveContentsTest(ConfigDriveTestCase):
    """A config drive holds what Nova puts on it."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_config_drive_holds_metadata_and_files_of_nova(self):
        self.tell_stories()

    def story_config_drive_is_iso_labelled_config_2(self):
        self.boot_with_drive()

        drive = self.drive()
        self.assertEqual('config-2', drive.label)
        inspector = format_inspector.ISOInspector()
        inspector.eat_chunk(drive.data)
        inspector.finish()
        self.assertTrue(inspector.format_match)

    def story_config_drive_is_mapped_beside_root_disk(self):
        server = self.boot_with_drive(disk=1)

        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.assertEqual({name}, {m['client'] for m in self.mappings()})
        self.assertEqual(
            {self.disks()[0]['udid'], self.media()[0]['udid']},
            {mapping['udid'] for mapping in self.mappings()},
        )
        self.assertEqual([], self.hosts['host1'].reader.files())

    def story_metadata_identifies_server(self):
        key = _public_key()
        self.api.post_keypair(
            {'keypair': {'name': 'key', 'type': 'ssh', 'public_key': key}}
        )

        server = self.boot_with_drive(
            request={
                'key_name': 'key',
                'adminPass': 'secret',
                'metadata': {'role': 'wéb'},
            }
        )

        metadata = self.drive().metadata
        self.assertEqual(server['id'], metadata['uuid'])
        self.assertEqual(server['name'], metadata['name'])
        self.assertEqual({'key': key}, metadata['public_keys'])
        self.assertEqual('secret', metadata['admin_pass'])
        self.assertEqual({'role': 'wéb'}, metadata['meta'])

    def story_user_data_is_kept_byte_for_byte(self):
        encoded = base64.b64encode(USER_DATA).decode()
        self.boot_with_drive(request={'user_data': encoded})

        files = self.drive().files
        self.assertEqual(USER_DATA, files['/openstack/latest/user_data'])
        self.assertEqual(USER_DATA, files['/ec2/latest/user-data'])

    def story_network_data_lists_port(self):
        port = self.make_port()
        self.boot_with_drive(networks=[{'port': port['id']}])

        (link,) = self.drive().json('network_data')['links']
        self.assertEqual(port['mac_address'], link['ethernet_mac_address'])
        (network,) = self.drive().json('network_data')['networks']
        self.assertEqual(link['id'], network['link'])
        self.assertEqual(port['network_id'], network['network_id'])

    def story_config_drive_holds_injected_files_of_old_microversion(self):
        contents = base64.b64encode(b'welcome').decode()
        with utils.temporary_mutation(self.api, microversion='2.56'):
            self.boot_with_drive(
                request={
                    'personality': [
                        {'path': '/etc/motd', 'contents': contents}
                    ]
                }
            )

        drive = self.drive()
        (file,) = drive.metadata['files']
        self.assertEqual('/etc/motd', file['path'])
        self.assertEqual(
            b'welcome', drive.files[f'/openstack{file["content_path"]}']
        )

    def story_config_drive_holds_metadata_versions(self):
        self.boot_with_drive()

        drive = self.drive()
        self.assertNotIn('devices', drive.json('meta_data', '2012-08-10'))
        self.assertIn('devices', drive.json('meta_data', '2016-06-30'))
        self.assertIn('/openstack/latest/vendor_data.json', drive.files)


class ConfigDriveDevicesTest(ConfigDriveTestCase):
    """The metadata describe the devices of a server."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_metadata_describes_devices_of_server(self):
        self.tell_stories()

    def story_metadata_locates_gpu(self):
        server = self.boot_with_drive(base.gpu_groups(1))

        (index,) = self.allocated_slots(server)
        (slot,) = self.drive().slots
        self.assertEqual(self.slot(index).drc_name, slot['location'])
        self.assertEqual(f'{index:08X}', slot['drc_index'])
        self.assertEqual('pci', slot['bus'])
        self.assertEqual(
            ('10DE', '1DB6', '0302'),
            (slot['vendor_id'], slot['device_id'], slot['class']),
        )

    def story_metadata_lists_root_disk_by_tag(self):
        disk = {
            'uuid': self.image,
            'source_type': 'image',
            'destination_type': 'local',
            'boot_index': 0,
            'tag': 'system',
        }
        self.boot_with_drive(request={'block_device_mapping_v2': [disk]})

        self.assertIn(
            ('disk', ['system']),
            [
                (device['type'], device.get('tags'))
                for device in self.drive().metadata['devices']
            ],
        )

    def story_metadata_lists_each_of_several_gpus(self):
        server = self.boot_with_drive(
            base.gpu_groups(1)
            | base.gpu_groups(2)
            | base.gpu_groups(3)
            | {'group_policy': 'isolate'}
        )

        self.assertEqual(
            [f'{index:08X}' for index in self.allocated_slots(server)],
            sorted(slot['drc_index'] for slot in self.drive().slots),
        )

    def story_metadata_versions_with_devices_list_gpu(self):
        self.boot_with_drive(base.gpu_groups(1))

        drive = self.drive()
        for path, data in drive.files.items():
            if path.endswith('meta_data.json'):
                devices = json.loads(data).get('devices')
                self.assertIn(devices and len(devices), (None, 1), path)

    def story_metadata_omits_unreported_property(self):
        trait = 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21020024'
        self.boot_with_drive(
            {'resources1:CUSTOM_GPU': '1', f'trait1:{trait}': 'required'}
        )

        (slot,) = self.drive().slots
        self.assertNotIn('subsys_vendor_id', slot)
        self.assertIn('vendor_id', slot)

    def story_metadata_lists_no_device_for_plain_server(self):
        self.boot_with_drive()

        self.assertEqual([], self.drive().metadata['devices'])

    def story_metadata_lists_tagged_ports_by_mac_address(self):
        first, second, third = (self.make_port() for _ in range(3))

        server = self.boot_with_drive(
            networks=[
                {'port': first['id'], 'tag': 'outside'},
                {'port': second['id']},
                {'port': third['id'], 'tag': 'inside'},
            ]
        )

        self.assertEqual('ACTIVE', server['status'])
        found = {
            device['mac']: device['tags']
            for device in self.drive().metadata['devices']
        }
        self.assertEqual(
            {
                first['mac_address']: ['outside'],
                third['mac_address']: ['inside'],
            },
            found,
        )

    def story_metadata_lists_tagged_port_and_gpu(self):
        port = self.make_port()
        self.boot_with_drive(
            base.gpu_groups(1),
            networks=[{'port': port['id'], 'tag': 'outside'}],
        )

        self.assertEqual(
            ['nic', 'ioslot'],
            [device['type'] for device in self.drive().metadata['devices']],
        )

    def story_instance_record_has_tags_without_config_drive(self):
        port = self.make_port()
        server = self.boot({}, networks=[{'port': port['id'], 'tag': 'lan'}])

        (device,) = self.instance(server).device_metadata.devices
        self.assertEqual(
            (port['mac_address'], ['lan']), (device.mac, device.tags)
        )


class ConfigDriveRequestTest(ConfigDriveTestCase):
    """A server has a config drive if requested or required."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_server_has_config_drive_if_requested_or_required(self):
        self.tell_stories()

    def story_server_has_no_config_drive_by_default(self):
        self.boot({})

        self.assertEqual([], self.media())
        self.assertIsNone(self.volume_group('rootvg')['media_repository'])

    def story_force_config_drive_adds_config_drive(self):
        with self.flagged(force_config_drive=True):
            self.boot({})

        self.drive()

    def story_image_property_adds_config_drive(self):
        image = self.create_image(
            base.IMAGE,
            properties={
                'architecture': 'ppc64le',
                'img_config_drive': 'mandatory',
            },
        )

        self.boot({}, image=image)

        self.drive()

    def story_vfat_format_is_refused(self):
        self.control().clear_journal()

        with self.flagged(config_drive_format='vfat'):
            server = self.boot_with_drive(expected='ERROR')

        self.assertIn(
            'config_drive_format is vfat', server['fault']['message']
        )
        self.assertEqual(0, self.control().journal_counts().get(CREATED, 0))

    def story_vfat_format_is_ignored_without_config_drive(self):
        with self.flagged(config_drive_format='vfat'):
            self.boot({})


class ConfigDriveLifetimeTest(ConfigDriveTestCase):
    """A config drive lives as long as its server."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_config_drive_lives_as_long_as_its_server(self):
        self.tell_stories()

    def story_delete_removes_config_drive(self):
        gone, kept = self.boot_with_drive(), self.boot_with_drive()

        self._delete_server(gone)

        self.assertEqual(kept['id'], self.drive().metadata['uuid'])
        self._delete_server(kept)
        self.assertEqual([], self.media())
        self.assertEqual([], self.mappings())

    def story_failed_start_removes_config_drive(self):
        self.control().plan_job('PowerOn', 'HSCL0000 no power')

        self.boot_with_drive(expected='ERROR')

        self.assertEqual([], self.media())
        self.assertEqual([], self.disks())
        self.assertEqual([], self.mappings())

    def test_failed_upload_removes_root_disk(self):
        self.control().add_fault(match='File.upload', nth=2, status=500)

        self.boot_with_drive(expected='ERROR')

        self.assertEqual([], self.media())
        self.assertEqual([], self.disks())

    def test_upload_is_repeated_after_session_expires(self):
        self.control().add_fault(match='File.upload', nth=2, status=401)

        server = self.boot_with_drive()

        self.assertEqual(server['id'], self.drive().metadata['uuid'])

    def test_upload_survives_lost_answer(self):
        self.control().add_fault(
            match='File.upload', nth=2, drop=True, phase='after'
        )

        server = self.boot_with_drive()

        self.assertEqual(server['id'], self.drive().metadata['uuid'])

    def story_rebuild_makes_new_config_drive(self):
        server = self.boot_with_drive(base.gpu_groups(1))
        slots = self.drive().slots
        self.api.put_server(server['id'], {'server': {'name': 'a-new-name'}})

        self._rebuild_server(server, self.create_image(b'another image'))

        self.assertEqual('a-new-name', self.drive().metadata['name'])
        self.assertEqual(slots, self.drive().slots)

    def story_rebuild_keeps_forced_config_drive(self):
        with self.flagged(force_config_drive=True):
            server = self.boot({})

        self._rebuild_server(server, self.create_image(b'another image'))

        self.assertEqual(server['id'], self.drive().metadata['uuid'])
