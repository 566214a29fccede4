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

"""Mappings of virtual disks and media, also many at once."""

import concurrent.futures
import copy

from lxml import etree
from pypowervm import const
from pypowervm.tasks import partition as partition_tasks
from pypowervm.tasks import power
from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as tasks
from pypowervm.utils import transaction
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import storage as wrappers
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import worlds
from powervm_emulator.nouns.partition import model as partition
from powervm_emulator.nouns.partition import virtual_slots

from . import base
from . import storage
from . import test_limits
from . import wire

PREFIX = 'U9009.22A.EMU0001'


class ScsiMappingTest(storage.StorageTestCase):
    def setUp(self):
        super().setUp()
        self.client = self.create()
        self.made = self.disk()

    def test_mapping_fills_in_adapters_and_target_device(self):
        mapping = self.map(self.client, self.made)
        server, client = mapping.server_adapter, mapping.client_adapter
        self.assertEqual(('Client', 'Server'), (client.side, server.side))
        for adapter in (client, server):
            self.assertEqual(self.client.id, adapter.lpar_id)
            self.assertEqual((2, 2), (adapter.lpar_slot_num, adapter.vios_id))
            name = 'DynamicReconfigurationConnectorName'
            self.assertEqual(adapter.loc_code, adapter.element.findtext(name))
        self.assertEqual(server.vios_slot_num, client.vios_slot_num)
        self.assertEqual(f'{PREFIX}-V{self.client.id}-C2', client.loc_code)
        location = f'{PREFIX}-V2-C{server.vios_slot_num}'
        self.assertEqual(
            (location, f'1e{location}'), (server.loc_code, server.udid)
        )
        self.assertIsInstance(mapping.target_dev, wrappers.VDiskTargetDev)
        self.assertEqual('vtscsi0', mapping.target_dev.name)
        self.assertEqual(2.0, mapping.backing_storage.capacity)
        href = f'{self.system().uuid}/LogicalPartition/{self.client.uuid}'
        self.assertTrue(
            mapping.client_lpar_href.endswith(f'/ManagedSystem/{href}')
        )
        shown = {
            'client': 'vm1',
            'client_slot': 2,
            'server_slot': server.vios_slot_num,
            'adapter': 'vhost0',
            'lua': '0x8100000000000000',
            'kind': 'VirtualDisk',
            'name': 'disk1',
            'udid': self.made.udid,
        }
        self.assertEqual([shown], self.shown()['scsi_mappings'])
        self.assertEqual(
            [shown[key] for key in ('adapter', 'name', 'lua', 'udid')],
            [
                server.name,
                server.backing_dev_name,
                mapping.target_dev.lua,
                mapping.backing_storage.udid,
            ],
        )

    def test_mappings_of_client_share_adapter_pair(self):
        self.repository()
        self.disk('disk2')
        self.map(self.client, self.made)
        self.map(self.client, self.medium())
        self.map(self.client, wrappers.VDisk.bld_ref(self.adapter, 'disk2'))
        mappings = self.vios().scsi_mappings
        self.assertEqual(
            [
                ('vhost0', '0x8100000000000000', 'vtscsi0', 'disk1'),
                ('vhost0', '0x8200000000000000', 'vtopt0', 'cfg.iso'),
                ('vhost0', '0x8300000000000000', 'vtscsi1', 'disk2'),
            ],
            [
                (
                    found.server_adapter.name,
                    found.target_dev.lua,
                    found.target_dev.name,
                    found.server_adapter.backing_dev_name,
                )
                for found in mappings
            ],
        )
        self.assertIsInstance(mappings[1].backing_storage, wrappers.VOptMedia)

    def test_mapped_medium_can_be_unmapped_and_removed(self):
        """The mapping identifies the medium well enough to remove it."""
        self.repository()
        self.map(self.client, self.medium())
        vios, media = scsi_mapper.remove_vopt_mapping(
            self.adapter, self.vios().uuid, self.client.uuid
        )
        self.assertEqual([], list(vios.scsi_mappings))
        tasks.rm_vg_storage(self.group('rootvg'), vopts=media)
        (repository,) = self.group('rootvg').vmedia_repos
        self.assertEqual([], list(repository.optical_media))

    def test_full_adapter_pair_is_followed_by_second(self):
        self.map(self.client, self.made, fuse_limit=1)
        self.map(self.client, self.disk('disk2'), fuse_limit=1)
        first, second = self.vios().scsi_mappings
        self.assertEqual('vhost1', second.server_adapter.name)
        self.assertEqual(3, second.client_adapter.lpar_slot_num)
        self.assertNotEqual(
            first.server_adapter.vios_slot_num,
            second.server_adapter.vios_slot_num,
        )
        self.assertEqual(first.target_dev.lua, second.target_dev.lua)

    def test_mapping_keeps_requested_slot_address_and_name(self):
        lua = '0x8400000000000000'
        vios = self.vios()
        mapping = scsi_mapper.build_vscsi_mapping(
            None,
            vios,
            self.client.uuid,
            self.made,
            lpar_slot_num=40,
            lua=lua,
            target_name='boot',
        )
        scsi_mapper.add_map(vios, mapping)
        (mapping,) = vios.update().scsi_mappings
        self.assertEqual(40, mapping.client_adapter.lpar_slot_num)
        self.assertEqual(40, mapping.server_adapter.lpar_slot_num)
        target = mapping.target_dev
        self.assertEqual((lua, 'boot'), (target.lua, target.name))

    def test_removal_keeps_other_mapping_and_frees_address(self):
        self.map(self.client, self.made)
        self.map(self.client, self.disk('disk2'))
        ids = (self.vios().uuid, self.client.uuid)
        vios, removed = scsi_mapper.remove_vdisk_mapping(
            self.adapter, *ids, udids=[self.made.udid]
        )
        self.assertEqual([self.made.udid], [disk.udid for disk in removed])
        (left,) = vios.scsi_mappings
        self.assertEqual('disk2', left.backing_storage.name)
        # The address is free again.
        self.map(self.client, self.made)
        self.assertEqual(
            {'0x8100000000000000', '0x8200000000000000'},
            {found.target_dev.lua for found in self.vios().scsi_mappings},
        )
        vios = self.vios()
        scsi_mapper.remove_maps(vios, self.client.id)
        vios.update()
        self.assertEqual([], self.shown()['scsi_mappings'])
        again = self.map(self.client, self.made)
        self.assertEqual(2, again.client_adapter.lpar_slot_num)

    def test_update_can_reuse_slot_of_removed_mapping(self):
        self.map(self.client, self.made, lpar_slot_num=9)
        vios = self.vios()
        scsi_mapper.remove_maps(vios, self.client.uuid)
        self.add_new(vios, self.client, self.disk('disk2'), lpar_slot_num=9)
        (mapping,) = vios.update().scsi_mappings
        self.assertEqual('disk2', mapping.backing_storage.name)
        self.assertEqual(9, mapping.client_adapter.lpar_slot_num)

    def add_new(self, vios, client, disk, **options):
        """Add a mapping with adapters of its own to a VIOS read before."""
        vios.scsi_mappings.append(
            virtual_io_server.VSCSIMapping.bld(
                self.adapter, None, client.uuid, disk, **options
            )
        )

    def test_detached_pair_takes_next_disk(self):
        mapping = self.map(self.client, self.made)
        vios = self.vios()
        scsi_mapper.detach_storage(vios, self.client.uuid)
        (bare,) = vios.update().scsi_mappings
        self.assertIsNone(bare.backing_storage)
        self.assertIsNone(bare.server_adapter.backing_dev_name)
        self.assertEqual(mapping.server_adapter.udid, bare.server_adapter.udid)
        tasks.rm_vg_storage(self.group(), vdisks=[self.made])
        self.map(self.client, self.disk('disk2'))
        (left,) = self.vios().scsi_mappings
        self.assertEqual('disk2', left.backing_storage.name)
        self.assertEqual(mapping.server_adapter.udid, left.server_adapter.udid)

    def test_detached_pair_keeps_its_server_slot(self):
        """Adapters that the same update creates don't take its slot either."""
        kept = self.map(self.client, self.made)
        vios = self.vios()
        self.add_new(vios, self.create('vm2'), self.disk('disk2'))
        scsi_mapper.detach_storage(vios, self.client.uuid)
        vios.update()
        shown = {
            found['client']: found['server_slot']
            for found in self.shown()['scsi_mappings']
        }
        self.assertEqual(kept.server_adapter.vios_slot_num, shown['vm1'])
        self.assertNotEqual(shown['vm1'], shown['vm2'])

    def test_changed_medium_keeps_address_and_target_name(self):
        self.repository()
        self.map(self.client, self.made)
        before = self.map(self.client, self.medium())
        vios, _ = scsi_mapper.modify_vopt_mapping(
            self.adapter,
            self.vios(),
            self.client.uuid,
            self.medium('second.iso'),
            media_name='cfg.iso',
        )
        self.assertEqual(2, len(vios.scsi_mappings))
        (after,) = scsi_mapper.find_maps(
            vios.scsi_mappings,
            self.client.uuid,
            match_func=scsi_mapper.gen_match_func(wrappers.VOptMedia),
        )
        self.assertEqual('second.iso', after.backing_storage.name)
        self.assertEqual(before.target_dev.lua, after.target_dev.lua)
        self.assertEqual(before.target_dev.name, after.target_dev.name)

    def test_update_ignores_new_name_of_server_adapter(self):
        self.map(self.client, self.made)
        vios = self.vios()
        (mapping,) = vios.scsi_mappings
        mapping.server_adapter.set_parm_value('AdapterName', 'vhost99')
        (mapping,) = vios.update().scsi_mappings
        self.assertEqual('vhost0', mapping.server_adapter.name)


class ExtendedGroupTest(storage.StorageTestCase):
    """Reads and updates of mappings with and without their extended group."""

    def test_mappings_are_read_and_updated_with_their_group_only(self):
        self.map(self.create(), self.disk())
        for groups, count in (
            (['None'], 0),
            (['ViosStorage'], 0),
            (['ViosSCSIMapping'], 1),
            ([], 1),
        ):
            vios = self.vios(groups)
            self.assertEqual(count, len(vios.scsi_mappings), groups)
        vios = self.vios(['ViosStorage'])
        vios.name = 'renamed'
        vios.update()
        self.assertEqual(1, len(self.vios().scsi_mappings))
        self.assertEqual('renamed', self.vios().name)

    def test_second_of_two_racing_clients_is_refused(self):
        client = self.create()
        first, second = self.vios(), self.vios()
        for vios, name in ((first, 'a'), (second, 'b')):
            mapping = scsi_mapper.build_vscsi_mapping(
                None, vios, client.uuid, self.disk(name)
            )
            scsi_mapper.add_map(vios, mapping)
        first.update()
        self.assert_refused(412, 'has been changed', second.update)
        self.assertEqual(1, len(self.vios().scsi_mappings))

    def test_racing_threads_succeed_after_retries(self):
        disks = [self.disk(f'disk{number}') for number in range(6)]
        clients = [self.create(f'vm{number}') for number in range(6)]
        uuid = self.vios().uuid

        def add(pair):
            # pypowervm's task has a lock within the process.
            client, disk = pair

            @transaction.entry_transaction
            def run(vios):
                mapping = scsi_mapper.build_vscsi_mapping(
                    None, vios, client.uuid, disk
                )
                scsi_mapper.add_map(vios, mapping)
                return vios.update()

            return run(
                virtual_io_server.VIOS.getter(
                    self.adapter, entry_uuid=uuid, xag=storage.MAPPINGS
                )
            )

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(add, zip(clients, disks, strict=True)))
        shown = self.shown()['scsi_mappings']
        self.assertEqual(6, len(shown))
        for key in ('client', 'server_slot', 'adapter', 'udid'):
            self.assertEqual(6, len({found[key] for found in shown}), key)

    def test_feed_task_maps_disk_and_medium_in_one_update(self):
        """Drivers use one update for the root disk and the config drive."""
        self.repository()
        client, disk, medium = self.create(), self.disk(), self.medium()
        task = partition_tasks.build_active_vio_feed_task(
            self.adapter, xag=storage.MAPPINGS
        )

        def add(vios, element):
            mapping = scsi_mapper.build_vscsi_mapping(
                None, vios, client.uuid, element
            )
            return scsi_mapper.add_map(vios, mapping)

        for element in (disk, medium):
            task.add_functor_subtask(add, element)
        self.control.clear_journal()
        task.execute()
        self.assertEqual(
            1,
            self.control.journal_counts()['POST VirtualIOServer.update'],
        )
        first, second = self.shown()['scsi_mappings']
        # Neither mapping knew of the other, so each has its own pair.
        self.assertEqual(('disk1', 'cfg.iso'), (first['name'], second['name']))
        self.assertEqual((2, 3), (first['client_slot'], second['client_slot']))
        self.assertNotEqual(first['server_slot'], second['server_slot'])

    def test_mapping_emits_event_and_changes_etag_of_vios(self):
        client, disk = self.create(), self.disk()
        vios = self.vios()
        self.assertIs(vios, vios.refresh())
        self.adapter.read_by_path(base.EVENTS)
        self.map(client, disk)
        self.assertIsNot(vios, vios.refresh())
        (event,) = self.adapter.read_by_path(base.EVENTS).feed.entries
        self.assertEqual('MODIFY_URI', event.element.findtext('EventType'))
        detail = event.element.findtext('EventDetail')
        self.assertEqual('VirtualSCSIMappings', detail)

    def test_mapping_refuses_vios_or_client_without_free_virtual_slot(self):
        world = worlds.default()
        world['systems'][0].pop('network_bridges', None)
        world['systems'][0]['virtual_io_servers'][0]['virtual_slots'] = 3
        for message, options in (
            ("'vios1' has no free virtual slot", {}),
            ("'vm1' has no free virtual slot", {'max_io_slots': 3}),
        ):
            with self.subTest(message):
                self.control.load_world(worlds.default() if options else world)
                client = self.create(**options)
                self.map(client, self.disk('a'), fuse_limit=1)
                mapping = (client, self.disk('b'))
                self.assert_refused(
                    500, message, self.map, *mapping, fuse_limit=1
                )


class RefusedMappingTest(storage.StorageTestCase):
    def setUp(self):
        super().setUp()
        self.client = self.create()
        self.made = self.disk()
        self.other = self.create('vm2')
        self.before = self.vios()

    def refused(self, status, message, *arguments, **options):
        self.assert_refused(status, message, self.map, *arguments, **options)
        self.assertIs(self.before, self.before.refresh())

    def test_mapping_refuses_deleted_client_and_unknown_storage(self):
        disk = wrappers.VDisk.bld_ref(self.adapter, 'none')
        medium = wrappers.VOptMedia.bld_ref(self.adapter, 'disk1')
        unit = wrappers.LU.bld_ref(self.adapter, 'lu', '27x')
        self.refused(500, "no VirtualDisk 'none'", self.client, disk)
        self.refused(
            500, "no VirtualOpticalMedia 'disk1'", self.client, medium
        )
        self.refused(500, 'no LogicalUnit', self.client, unit)
        self.other.delete()
        self.refused(500, 'not there', self.other, self.made)

    def test_mapping_refuses_storage_mapped_to_other_client(self):
        self.repository()
        message = f'mapped to {self.client.uuid} already, by vhost0 of vios1'
        for element in (self.made, self.medium()):
            self.map(self.client, element)
            self.before = self.vios()
            self.refused(500, message, self.other, element)

    def test_storage_is_mapped_again_to_same_client(self):
        self.map(self.client, self.made)
        vios = self.vios()
        vios.scsi_mappings.append(
            virtual_io_server.VSCSIMapping.bld(
                self.adapter, None, self.client.uuid, self.made
            )
        )
        vios.update()
        self.assertEqual(2, len(self.vios().scsi_mappings))

    def test_storage_is_mapped_to_management_partition_too(self):
        (novalink,) = (
            lpar
            for lpar in logical_partition.LPAR.get(self.adapter)
            if lpar.is_mgmt_partition
        )
        self.map(self.client, self.made)
        self.map(novalink, self.made)
        self.map(novalink, self.disk('disk2'))
        self.map(self.client, self.group().virtual_disks[-1])
        self.before = self.vios()
        self.refused(500, 'already', self.other, self.made)

    def test_mapping_refuses_slots_in_use_or_out_of_range(self):
        self.map(self.client, self.made, lpar_slot_num=9)
        self.before = self.vios()
        disk = self.disk('disk2')
        for status, message, slot in (
            (500, '9 of .* is taken', 9),
            (500, "'64' is not a virtual slot", 64),
            (500, "'1' is not a virtual slot", 1),
        ):
            options = {'lpar_slot_num': slot, 'fuse_limit': 1}
            self.refused(status, message, self.client, disk, **options)

    def test_mapping_refuses_address_and_target_name_in_use(self):
        self.map(self.client, self.made)
        for message, options in (
            ('address 0x81', {'lua': '0x8100000000000000'}),
            ("'vtscsi0' is taken", {'target_name': 'vtscsi0'}),
        ):
            vios = self.vios()
            name = f'd{len(self.group().virtual_disks)}'
            vios.scsi_mappings.append(
                scsi_mapper.build_vscsi_mapping(
                    None, vios, self.client.uuid, self.disk(name), **options
                )
            )
            self.assert_refused(500, message, vios.update)


class ActiveClientTest(storage.StorageTestCase):
    def setUp(self):
        super().setUp()
        self.client = self.create()
        self.made = self.disk()

    def start(self, rmc_state):
        power.power_on(self.read(self.client.uuid), None)
        self.control.set_partition('vm1', rmc_state=rmc_state)

    def test_mapping_creates_adapters_with_rmc_only(self):
        self.repository()
        self.start('inactive')
        for element in (self.made, self.medium()):
            self.assert_refused(
                500, 'no active RMC', self.map, self.client, element
            )
        self.control.set_partition('vm1', rmc_state='active')
        self.map(self.client, self.made)

    def test_existing_pair_is_used_and_removed_without_rmc(self):
        self.map(self.client, self.made)
        self.start('inactive')
        self.map(self.client, self.disk('disk2'))
        self.assertEqual(2, len(self.vios().scsi_mappings))
        scsi_mapper.remove_vdisk_mapping(
            self.adapter, self.vios().uuid, self.client.uuid
        )
        self.assertEqual([], list(self.vios().scsi_mappings))


class OrphanMappingTest(storage.StorageTestCase):
    """Mappings of a partition that has been deleted."""

    def setUp(self):
        super().setUp()
        self.client = self.create()
        self.made = self.disk()
        self.map(self.client, self.made)
        self.etag = self.vios().etag
        self.read(self.client.uuid).delete()

    def test_mapping_outlives_its_client(self):
        self.assertNotEqual(self.etag, self.vios().etag)
        (orphan,) = self.vios().scsi_mappings
        self.assertIsNone(orphan.client_adapter)
        self.assertIsNone(orphan.client_lpar_href)
        self.assertEqual(self.client.id, orphan.server_adapter.lpar_id)
        self.assertEqual(self.made.udid, orphan.backing_storage.udid)
        (shown,) = self.shown()['scsi_mappings']
        self.assertEqual(
            (None, None, 'disk1'),
            (shown['client'], shown['client_slot'], shown['name']),
        )

    def test_disk_of_orphan_mapping_is_in_use(self):
        remove, group = tasks.rm_vg_storage, self.group()
        message = 'a partition that is gone'
        self.assert_refused(500, message, remove, group, vdisks=[self.made])
        mapping = (self.create('other'), self.made)
        self.assert_refused(500, f'{message} already', self.map, *mapping)

    def test_new_partition_with_same_id_and_uuid_inherits_no_mapping(self):
        new = self.build('new', uuid=self.client.uuid).create()
        self.assertEqual(
            (self.client.id, self.client.uuid), (new.id, new.uuid)
        )
        found = self.vios().scsi_mappings
        self.assertEqual([], scsi_mapper.find_maps(found, new.uuid))
        self.map(new, self.disk('disk2'))
        orphan, mapping = self.shown()['scsi_mappings']
        self.assertEqual((None, 'new'), (orphan['client'], mapping['client']))
        self.assertNotEqual(orphan['server_slot'], mapping['server_slot'])
        self.assertNotEqual(orphan['adapter'], mapping['adapter'])

    def test_orphan_mapping_and_its_disk_can_be_removed(self):
        vios = self.vios()
        removed = scsi_mapper.remove_maps(vios, self.client.id)
        self.assertEqual(1, len(removed))
        vios.update()
        tasks.rm_vg_storage(self.group(), vdisks=[self.made])
        self.assertEqual([], self.shown()['scsi_mappings'])

    def test_scrub_removes_orphan_mapping(self):
        tasks.ComprehensiveScrub(self.adapter).execute()
        self.assertEqual([], self.shown()['scsi_mappings'])


class CapturedServerMixin:
    """Has a captured Virtual I/O Server instead of that of the world."""

    def setUp(self):
        self.world = worlds.default()
        system = self.world['systems'][0]
        groups = system['virtual_io_servers'][0]['volume_groups']
        system['virtual_io_servers'] = [
            {'capture': {'file': self.FILE}, 'volume_groups': groups}
        ]
        system.pop('network_bridges', None)
        for slot in system['slots']:
            if slot.get('owner') == 'vios1':
                del slot['owner']
        super().setUp()


class CapturedFileTest(CapturedServerMixin, storage.StorageTestCase):
    FILE = 'fake_vios_hosting_vios_feed.txt'

    def test_file_is_mapped_to_several_clients(self):
        """A captured server has one file mapped five times."""
        (file,) = {
            mapping.backing_storage.udid: mapping.backing_storage
            for mapping in self.vios().scsi_mappings
            if mapping.target_dev.name.startswith('vios_1640E')
        }.values()
        before = len(self.vios().scsi_mappings)
        for name in ('vm1', 'vm2'):
            self.map(self.create(name), file)
        self.assertEqual(before + 2, len(self.vios().scsi_mappings))


class CapturedMappingTest(CapturedServerMixin, storage.StorageTestCase):
    """Captured mappings do not change when others are added or removed."""

    FILE = 'fake_vios_mappings.txt'

    def test_adding_and_removing_mapping_keeps_captured_ones(self):
        def texts():
            return [one.toxmlstring() for one in self.vios().scsi_mappings]

        before = texts()
        self.assertLess(20, len(before))
        client = self.create()
        mapping = self.map(client, self.disk())
        self.assertEqual(before, texts()[:-1])
        used = [
            found.server_adapter.vios_slot_num
            for found in self.vios().scsi_mappings
        ]
        self.assertEqual(1, used.count(mapping.server_adapter.vios_slot_num))
        vios = self.vios()
        scsi_mapper.remove_maps(vios, client.uuid)
        vios.update()
        self.assertEqual(before, texts())

    def test_fibre_channel_mapping_to_unknown_port_is_refused(self):
        xag = [const.XAG.VIO_FMAP]
        vios = self.vios(xag)
        vios.vfc_mappings.append(self.twin(vios, 'C05076079CFF0E56'))
        vios = vios.update()
        mapping = self.twin(vios, 'C05076079CFF0E58')
        mapping.backing_port.set_parm_value('PortName', 'fcs99')
        vios.vfc_mappings.append(mapping)
        self.assert_refused(500, "port 'fcs99'", vios.update)

    def test_fibre_channel_mappings_stay_when_their_ports_are_gone(self):
        for ports in list(
            self.server().element.iter('{*}PhysicalFibreChannelPorts')
        ):
            ports.getparent().remove(ports)
        vios = self.vios([const.XAG.VIO_FMAP])
        vios.vfc_mappings.append(self.twin(vios, 'C05076079CFF0E56'))
        self.assertLess(1, len(vios.update().vfc_mappings))

    def test_worldwide_port_name_is_of_one_adapter(self):
        vios = self.vios([const.XAG.VIO_FMAP])
        name = self.whole(vios).client_adapter.wwpns[1]
        vios.vfc_mappings.append(self.twin(vios, name))
        self.assert_refused(500, f'port name {name} is', vios.update)

    def whole(self, vios):
        """Return a captured mapping that has a client."""
        return next(one for one in vios.vfc_mappings if one.client_adapter)

    def twin(self, vios, name):
        """Return a copy of a mapping with a worldwide port name, and a next.

        :param name: the first one.
        """
        made = copy.deepcopy(self.whole(vios))
        names = f'{name} {int(name, 16) + 1:X}'
        made.client_adapter.set_parm_value('WWPNs', names)
        return made

    def server(self):
        """Return the captured server itself."""
        host = self.emulator._application._emulation.host
        (found,) = (
            one
            for one in host.of_type(partition.Partition)
            if one.kind == partition.VIOS
        )
        return found

    def test_new_mapping_has_elements_of_captured_one(self):
        """A new mapping has the same elements as a captured one."""
        self.repository()
        client = self.create()
        for element in (self.disk(), self.medium()):
            made = self.map(client, element)
            kind = type(made.backing_storage)
            captured = next(
                mapping
                for mapping in self.vios().scsi_mappings
                if isinstance(mapping.backing_storage, kind)
                and mapping.client_adapter is not None
            )
            self.assertNotIn(client.uuid, captured.client_lpar_href)
            paths = self.paths(made)
            # The captures are older than this element.
            paths.discard('Storage/VirtualDisk/VirtualDiskType')
            self.assertEqual(self.paths(captured), paths)

    @staticmethod
    def paths(wrapper):
        def walk(node, path):
            for child in node.iterchildren(etree.Element):
                below = f'{path}/{etree.QName(child).localname}'
                yield below.lstrip('/')
                yield from walk(child, below)

        return set(walk(wrapper.element.element, ''))

    def test_slots_of_captured_mappings_count_as_taken(self):
        host = self.emulator._application._emulation.host
        read = self.vios(['ViosSCSIMapping', 'ViosFCMapping'])
        slots = {
            mapping.server_adapter.vios_slot_num
            for mapping in (*read.scsi_mappings, *read.vfc_mappings)
        }
        self.assertLessEqual(slots, virtual_slots.taken(host, self.server()))
        self.assertLess(20, len(slots))


VERSION = 'schemaVersion="V1_0"'


class ManyMappingsTest(wire.WireTestCase):
    def setUp(self):
        # Before the emulator starts its threads.
        self.steps = test_limits.Steps(self)
        super().setUp()

    def world_of(self, count):
        """Return a world with a number of disks, and a client for them."""
        disks = [
            {'name': f'disk{number}', 'capacity': 1} for number in range(count)
        ]
        vios = {
            'name': 'vios1',
            'state': 'running',
            'rmc_state': 'active',
            'memory': 4096,
            'processors': 1,
            'volume_groups': [
                {'name': 'pool', 'capacity': 1000, 'disks': disks}
            ],
        }
        client = {'name': 'vm1', 'memory': 1024, 'processors': 1}
        return {
            'systems': [
                {
                    'name': 'any',
                    'virtual_io_servers': [vios],
                    'partitions': [client],
                }
            ]
        }

    def post(self, count):
        """Map all disks of a new world; return the steps that it took."""
        self.control.load_world(self.world_of(count))
        path = f'{self.path_of("vios1")}?group=ViosSCSIMapping'
        document = self.get(path).content
        section = wire.child(document, 'VirtualSCSIMappings')
        client = f'{self.emulator.url}/rest/api/{self.path_of("vm1")}'
        for number in range(count):
            slots = 10 + number % 4
            section.append(
                etree.fromstring(
                    f'<VirtualSCSIMapping xmlns="{wire.UOM}" {VERSION}>'
                    f'<AssociatedLogicalPartition href="{client}"/>'
                    f'<ClientAdapter {VERSION}><VirtualSlotNumber>{slots}'
                    '</VirtualSlotNumber></ClientAdapter>'
                    f'<ServerAdapter {VERSION}><VirtualSlotNumber>{slots}'
                    '</VirtualSlotNumber></ServerAdapter>'
                    f'<Storage><VirtualDisk {VERSION}>'
                    f'<DiskName>disk{number}</DiskName>'
                    '</VirtualDisk></Storage></VirtualSCSIMapping>'
                )
            )
        self.steps.start()
        answer = self.ask('POST', path, document)
        steps = self.steps.stop()
        self.assertEqual(200, answer.status, answer.text[:2000])
        self.assertEqual(count, answer.text.count('<TargetName'))
        self.assertEqual(
            4, len(set(self.values(answer, 'ServerAdapter/AdapterName')))
        )
        self.assertEqual(
            count, len(set(self.values(answer, 'TargetDevice/*/TargetName')))
        )
        return steps

    def values(self, answer, path):
        """Return the values at a path of each mapping."""
        return [
            wire.child(mapping, path).text
            for mapping in answer.content.iter('{*}VirtualSCSIMapping')
        ]

    def test_steps_grow_as_number_of_new_mappings(self):
        few, many = self.post(50), self.post(200)
        # Four times as many; 16 times the steps would be quadratic.
        self.assertLess(many / few, 6)
