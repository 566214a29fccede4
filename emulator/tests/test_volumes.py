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

"""Volume groups and physical volumes, through pypowervm."""

import base64
import copy

from pypowervm import const
from pypowervm import exceptions
from pypowervm.tasks import partition as partition_tasks
from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as storage_tasks
from pypowervm.tasks import storage as tasks
from pypowervm.wrappers import event
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import fixture
from powervm_emulator import worlds
from powervm_emulator.core import errors

from . import base
from . import pools
from . import storage as storage_case
from . import wire


class VolumeGroupTest(base.EmulatorTestCase):
    def test_vios_lists_its_volume_groups(self):
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        groups = storage.VG.get(self.adapter, parent=vios)
        self.assertEqual(
            {'rootvg': (278.0, 200.0), 'image_pool': (2048.0, 2000.0)},
            {
                group.name: (group.capacity, group.available_size)
                for group in groups
            },
        )

    def test_find_vg_finds_group_by_name_and_refreshes_it(self):
        vios, group = storage_tasks.find_vg(self.adapter, 'image_pool')
        self.assertEqual('vios1', vios.name)
        self.assertIs(group, group.refresh())

    def test_find_vg_fails_for_unknown_group(self):
        self.assertRaises(
            exceptions.VGNotFound,
            storage_tasks.find_vg,
            self.adapter,
            'nowhere',
        )

    def test_read_with_other_vios_as_parent_is_not_found(self):
        _, group = storage_tasks.find_vg(self.adapter, 'image_pool')
        self.assertRaises(
            exceptions.HttpNotFound,
            storage.VG.get,
            self.adapter,
            uuid=group.uuid,
            parent_type='VirtualIOServer',
            parent_uuid='00000000-0000-4000-8000-000000000000',
        )


class PhysicalVolumeTest(wire.WireTestCase):
    def test_udids_are_made_as_those_of_captures(self):
        """They are 01, and in Base64 what the disk says of itself."""
        self.world = worlds.default()
        self.world['clusters'] = [pools.CLUSTER | {'nodes': ['vios1']}]
        self.control.load_world(self.world)
        captured = [root for _, root in wire.captured()]
        served = [
            self.get(path).root
            for path in (self.path_of('vios1'), 'uom/SharedStoragePool')
        ]
        for documents, least in ((captured, 37), (served, 3)):
            udids = [
                found.text
                for root in documents
                for volume in root.iter('{*}PhysicalVolume')
                if wire.child(volume, 'VolumeName').text.startswith('hdisk')
                if (found := wire.child(volume, 'UniqueDeviceID')) is not None
            ]
            self.assertGreaterEqual(len(udids), least)
            for udid in udids:
                data = base64.b64decode(udid.removeprefix('01'))
                self.assertRegex(data, rb'^[13].*IBM|^[13]', udid)


class UptimeTest(base.EmulatorTestCase):
    def test_management_partition_has_uptime(self):
        partition = partition_tasks.get_mgmt_partition(self.adapter)
        self.assertEqual(1048000, partition.uptime)

    def test_uptime_is_reset_by_new_state_only(self):
        name = partition_tasks.get_mgmt_partition(self.adapter).name
        self.control.set_partition(name, rmc_state='busy')
        partition = partition_tasks.get_mgmt_partition(self.adapter)
        self.assertEqual(1048000, partition.uptime)
        self.control.set_partition(name, state='error')
        partition = partition_tasks.get_mgmt_partition(self.adapter)
        self.assertEqual(0, partition.uptime)


class VolumeGroupWorldTest(base.EmulatorTestCase):
    def test_loading_reports_problems_of_volume_groups(self):
        world = worlds.default()
        system = world['systems'][0]
        group = {'name': 'vg', 'capacity': 10, 'free': 11}
        system['virtual_io_servers'][0]['volume_groups'] = [group, group]
        with self.assertRaises(errors.WorldError) as caught:
            self.control.load_world(world)
        text = str(caught.exception)
        self.assertIn(
            'volume_groups[0]: disks, repository and free beyond', text
        )
        self.assertIn("'vg' is also at", text)

    def test_loading_refuses_volume_groups_of_logical_partition(self):
        world = worlds.default()
        world['systems'][0]['partitions'][2]['volume_groups'] = [
            {'name': 'x', 'capacity': 1}
        ]
        self.assertRaisesRegex(
            errors.WorldError,
            r"partitions\[2\].*'volume_groups' was unexpected",
            self.control.load_world,
            world,
        )


UDID = '01' + base64.b64encode(b'3IBM     2107900XX1234').decode()


def world_with(*volumes):
    """Return the default world with free disks of its only VIOS."""
    made = copy.deepcopy(worlds.default())
    made['systems'][0]['virtual_io_servers'][0]['physical_volumes'] = [
        *volumes
    ]
    return made


class PhysicalVolumesTest(base.EmulatorTestCase):
    world = world_with(
        {'capacity': 100},
        {
            'capacity': 0.5,
            'name': 'hdisk9',
            'udid': UDID,
            'location': 'U78D2.001.EMU0001-P1-C2-T1-L3',
        },
    )

    def volumes(self):
        """Read the disks of the VIOS by name."""
        (vios,) = virtual_io_server.VIOS.get(
            self.adapter, xag=[const.XAG.VIO_STOR]
        )
        return {volume.name: volume for volume in vios.phys_vols}

    def test_free_volumes_come_after_those_of_groups(self):
        found = self.volumes()
        self.assertEqual(
            {'hdisk0': False, 'hdisk1': False, 'hdisk2': True, 'hdisk9': True},
            {name: volume.avail_for_use for name, volume in found.items()},
        )
        self.assertEqual(100 * 1024, found['hdisk2'].capacity)
        self.assertEqual(512, found['hdisk9'].capacity)

    def test_volume_has_described_identity(self):
        volume = self.volumes()['hdisk9']
        self.assertEqual(UDID, volume.udid)
        self.assertEqual('U78D2.001.EMU0001-P1-C2-T1-L3', volume.loc_code)

    def test_made_identity_is_of_the_form_of_captured_ones(self):
        volume = self.volumes()['hdisk2']
        self.assertEqual('01', volume.udid[:2])
        self.assertRegex(
            base64.b64decode(volume.udid[2:], validate=True),
            b'^1IBM     IPR-0   [0-9A-F]{16}$',
        )
        self.assertEqual('U78D2.001.EMU0001-P1-D3', volume.loc_code)

    def test_free_volume_is_in_no_group(self):
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        groups = storage.VG.get(self.adapter, parent=vios)
        grouped = {
            volume.name for group in groups for volume in group.phys_vols
        }
        self.assertEqual({'hdisk0', 'hdisk1'}, grouped)


class UseTest(storage_case.StorageTestCase):
    """As in fake_vios_ssp_npiv.txt: hdisk8 is mapped and not available."""

    world = world_with({'capacity': 4}, {'capacity': 2}, {'capacity': 2})

    def setUp(self):
        super().setUp()
        self.client, self.other = self.create('vm1'), self.create('vm2')

    def free(self):
        """Return the names of the disks that nobody has."""
        xag = [const.XAG.VIO_STOR]
        return [
            one.name for one in self.vios(xag).phys_vols if one.avail_for_use
        ]

    def volume(self, name='hdisk2'):
        return storage.PV.bld(self.adapter, name)

    def map(self, client, volume):
        scsi_mapper.add_vscsi_mapping(
            None, self.vios().uuid, client.uuid, volume
        )

    def build_group(self, name, *volumes):
        return storage.VG.bld(
            self.adapter, name, [self.volume(one) for one in volumes]
        )

    def make_group(self, *volumes, name='data'):
        built = self.build_group(name, *volumes)
        return built.create(parent=self.vios())

    def test_mapped_volume_is_not_available(self):
        self.map(self.client, self.volume())
        (mapping,) = self.vios().scsi_mappings
        self.assertEqual('hdisk2', mapping.backing_storage.name)
        self.assertFalse(mapping.backing_storage.avail_for_use)
        self.assertRegex(mapping.backing_storage.udid, '^01')
        self.assertEqual('vtscsi0', mapping.target_dev.name)
        device = mapping.target_dev.element
        self.assertRegex(device.findtext('UniqueDeviceID'), '^08')
        self.assertIsInstance(mapping.target_dev, storage.PVTargetDev)
        self.assertEqual(['hdisk3', 'hdisk4'], self.free())

    def test_volume_without_mapping_is_available_again(self):
        self.map(self.client, self.volume())
        self.map(self.client, self.volume('hdisk3'))
        match = scsi_mapper.gen_match_func(storage.PV, names=['hdisk2'])
        scsi_mapper.remove_maps(
            vios := self.vios(), self.client.id, match_func=match
        )
        vios.update()
        self.assertEqual(['hdisk2', 'hdisk4'], self.free())

    def test_volume_of_orphan_is_not_available(self):
        self.map(self.client, self.volume())
        self.client.delete()
        self.assertNotIn('hdisk2', self.free())
        self.assert_refused(
            500, 'gone already', self.map, self.other, self.volume()
        )

    def test_mapping_refuses_volume_of_other_client_or_group(self):
        self.map(self.client, self.volume())
        for name, message in (
            ('hdisk2', 'mapped to'),
            ('hdisk1', 'hdisk1 of vios1 is in a volume group or a pool'),
            ('hdisk99', 'no PhysicalVolume'),
        ):
            with self.subTest(name):
                self.assert_refused(
                    500, message, self.map, self.other, self.volume(name)
                )
        self.assertEqual(1, len(self.vios().scsi_mappings))

    def test_post_of_server_leaves_its_volumes(self):
        vios = self.vios([const.XAG.VIO_STOR])
        for volume in vios.phys_vols:
            volume.set_parm_value('AvailableForUsage', 'true')
        vios.update()
        self.assertEqual(['hdisk2', 'hdisk3', 'hdisk4'], self.free())

    def test_group_is_made_of_free_volumes(self):
        made = self.make_group('hdisk2', 'hdisk3')
        self.assertEqual(('data', 6, 6), attributes(made))
        self.assertEqual(
            ['hdisk2', 'hdisk3'], [one.name for one in made.phys_vols]
        )
        self.assertEqual(['hdisk4'], self.free())
        disk = tasks.crt_vdisk(
            self.adapter, self.vios().uuid, made.uuid, 'disk1', 5
        )
        self.map(self.client, disk)
        self.assertEqual(('data', 6, 1), attributes(self.group('data')))

    def test_group_and_its_server_have_events(self):
        vios = self.vios()
        self.emulator._application._emulation.event_wait = 0
        event.Event.get(self.adapter, 'me')
        made = self.make_group('hdisk2')
        made.delete()
        group = f'{vios.uuid}/VolumeGroup/{made.uuid}'
        self.assertEqual(
            [
                ('ADD_URI', group),
                ('MODIFY_URI', vios.uuid),
                ('DELETE_URI', group),
                ('MODIFY_URI', vios.uuid),
            ],
            [
                (one.etype, one.data.partition('/VirtualIOServer/')[2])
                for one in event.Event.get(self.adapter, 'me')
            ],
        )

    def test_reset_takes_new_group_away(self):
        self.make_group('hdisk2')
        self.control.reset()
        self.assertEqual(['hdisk2', 'hdisk3', 'hdisk4'], self.free())
        groups = storage.VG.get(self.adapter, parent=self.vios())
        self.assertNotIn('data', [group.name for group in groups])

    def test_create_refuses_what_is_no_new_group(self):
        self.map(self.client, self.volume('hdisk4'))
        for status, name, volumes, message in (
            (500, 'image_pool', ['hdisk2'], 'image_pool. already'),
            (500, 'a b', ['hdisk2'], 'not the name of a volume group'),
            (500, 'data', [], 'needs physical volumes'),
            (500, 'data', ['hdisk2', 'hdisk2'], 'each one once'),
            (500, 'data', ['hdisk1'], "'hdisk1' of vios1 is in use"),
            (500, 'data', ['hdisk4'], "'hdisk4' of vios1 is in use"),
            (500, 'data', ['hdisk9'], "no physical volume 'hdisk9'"),
        ):
            with self.subTest(name=name, volumes=volumes):
                built = self.build_group(name, *volumes)
                self.assert_refused(
                    status, message, built.create, parent=self.vios()
                )
        built = self.build_group('data', 'hdisk2')
        disk = storage.VDisk.bld(self.adapter, 'disk1', 1)
        built.virtual_disks = [disk]
        self.assert_refused(
            500, 'has disks or a media', built.create, parent=self.vios()
        )
        self.assertEqual(['hdisk2', 'hdisk3'], self.free())

    def test_deleted_group_leaves_free_volumes(self):
        made = self.make_group('hdisk2')
        made.delete()
        self.assertEqual(['hdisk2', 'hdisk3', 'hdisk4'], self.free())
        self.make_group('hdisk2')

    def test_delete_refuses_group_with_something_on_it(self):
        made = self.make_group('hdisk2')
        tasks.crt_vdisk(self.adapter, self.vios().uuid, made.uuid, 'disk1', 1)
        for group, message in (
            (self.group('data'), 'has disks or media on it'),
            (self.group('rootvg'), 'has its server on it'),
        ):
            with self.subTest(group.name):
                self.assert_refused(500, message, group.delete)

    def test_delete_refuses_changed_group(self):
        made = self.make_group('hdisk2')
        tasks.crt_vdisk(self.adapter, self.vios().uuid, made.uuid, 'disk1', 1)
        group = self.group('data')
        self.assert_refused(
            412,
            'has been changed',
            self.adapter.delete_by_href,
            group.href,
            etag=made.etag,
        )


class CapturedTest(storage_case.StorageTestCase):
    world = worlds.default()
    world['systems'][0] |= {
        'virtual_io_servers': [
            {'capture': {'file': 'vio_multi_vscsi_mapping.txt'}, 'id': 9}
        ],
        'network_bridges': [],
    }
    del world['systems'][0]['slots']

    def test_volume_behind_port_is_not_available_when_it_is_mapped(self):
        client, vios = self.create('vm1'), self.vios()
        volume = storage.PV.bld(self.adapter, 'hdisk5')
        scsi_mapper.add_vscsi_mapping(None, vios.uuid, client.uuid, volume)
        element = self.vios([const.XAG.VIO_STOR]).element
        shown = [
            one.findtext('AvailableForUsage')
            for one in element.iter('PhysicalVolume')
            if one.findtext('VolumeName') == 'hdisk5'
        ]
        self.assertEqual(['false', 'false'], shown)


def attributes(group):
    return group.name, group.capacity, group.free_space


class WorldTest(base.EmulatorTestCase):
    def test_world_without_free_volumes_is_as_before(self):
        with fixture.Emulator(world_with()) as other:
            self.assertEqual(
                self.control.state()['systems'],
                other.control.state()['systems'],
            )

    def test_second_volume_of_a_name_or_udid_is_refused(self):
        for volume in ({'name': 'hdisk1'}, {'udid': UDID}):
            described = {'capacity': 1, **volume}
            with (
                self.subTest(volume),
                self.assertRaisesRegex(
                    errors.WorldError, 'vios1 has two physical volumes with'
                ),
            ):
                fixture.Emulator(world_with(described, described))
