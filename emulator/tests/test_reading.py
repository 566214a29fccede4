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

"""Feeds, entries, searches, quick properties and SELF links."""

import json

from lxml import etree
from pypowervm import const
from pypowervm import exceptions
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms
from pypowervm.wrappers import virtual_io_server as vios

from . import base
from . import wire


class ManagedSystemTest(base.EmulatorTestCase):
    def test_default_system_reports_its_properties(self):
        system = self.system()
        self.assertEqual('operating', system.system_state)
        self.assertEqual('9009', system.mtms.machine_type)
        self.assertEqual(262144, system.memory_configurable)
        self.assertEqual(32, system.proc_units_configurable)
        self.assertEqual(256, system.memory_region_size)
        self.assertEqual(
            ('default', 'POWER8', 'POWER9_Base', 'POWER9'),
            system.proc_compat_modes,
        )
        self.assertTrue(
            system.get_capability('ioslot_owner_assignment_capable')
        )
        self.assertEqual(system.uuid, self.adapter.sys_uuid)

    def test_free_capacity_excludes_active_partitions(self):
        system = self.system()
        self.assertEqual(
            262144 - 8192 - 8192 - 2560 - 16384 - 1024, system.memory_free
        )
        self.assertEqual(32 - 1 - 0.5 - 2, system.proc_units_avail)

    def test_default_system_reports_its_slots(self):
        slots = {
            slot.drc_index: slot for slot in self.system().asio_config.io_slots
        }
        for drc_index in base.GPUS:
            gpu = slots[drc_index]
            self.assertEqual(0x10DE, gpu.pci_vendor_id)
            self.assertEqual(0x1DB6, gpu.pci_dev_id)
            self.assertEqual(0x0302, gpu.pci_class)
            self.assertIsNone(gpu.part_uuid)
        self.assertIsNone(slots[base.GPUS[3]].pci_subsys_dev_id)
        self.assertEqual('Empty slot', slots[base.EMPTY].description)
        self.assertEqual(0xFFFF, slots[base.EMPTY].pci_vendor_id)
        self.assertEqual(0xFFFF, slots[base.EMPTY].pci_dev_id)
        self.assertEqual('vios1', slots[base.VIOS_SLOT].part_name)
        self.assertEqual('Virtual IO Server', slots[base.VIOS_SLOT].part_type)
        # The capture has the device id as the vendor id.
        self.assertEqual(0x1014, slots[base.VIOS_SLOT].pci_vendor_id)
        self.assertEqual(0x034A, slots[base.VIOS_SLOT].pci_dev_id)

    def test_default_system_has_adapter_in_sriov_mode(self):
        (adapter,) = self.system().asio_config.sriov_adapters
        self.assertEqual('Sriov', adapter.mode)
        self.assertEqual(str(base.SRIOV), adapter.id)
        name = self.slot(base.SRIOV).drc_name
        self.assertEqual(name, adapter.phys_loc_code)
        self.assertTrue(adapter.phys_ports)

    def test_search_finds_system_by_name(self):
        system = self.system()
        (found,) = ms.System.wrap(
            self.adapter.read(
                'ManagedSystem',
                suffix_type='search',
                suffix_parm=f"(SystemName=='{system.system_name}')",
            )
        )
        self.assertEqual(system.uuid, found.uuid)

    def test_read_of_unknown_system_is_not_found(self):
        with self.assertRaises(exceptions.HttpNotFound):
            ms.System.get(self.adapter, uuid=self.create().uuid)


class ReadPartitionTest(base.EmulatorTestCase):
    def test_feeds_list_lpars_and_vioses(self):
        names = {found.name for found in lpar.LPAR.get(self.adapter)}
        self.assertEqual({'novalink', 'database', 'archive'}, names)
        (found,) = vios.VIOS.get(self.adapter)
        self.assertEqual('vios1', found.name)
        self.assertEqual('running', found.state)
        self.assertEqual('active', found.rmc_state)
        self.assertEqual(
            {base.VIOS_SLOT, 0x21010028},
            {slot.drc_index for slot in found.io_config.io_slots},
        )

    def test_system_has_lpars_as_children(self):
        feed = lpar.LPAR.get(self.adapter, parent=self.system())
        self.assertEqual(3, len(feed))
        one = lpar.LPAR.get(
            self.adapter, uuid=feed[0].uuid, parent=self.system()
        )
        self.assertEqual(feed[0].name, one.name)
        self.assertEqual(
            f'/rest/api/uom/ManagedSystem/{self.system().uuid}'
            f'/LogicalPartition/{one.uuid}?group=None',
            base.without_host(one.href),
        )

    def test_child_of_unknown_system_is_not_found(self):
        with self.assertRaises(exceptions.HttpNotFound):
            self.adapter.read(
                'ManagedSystem',
                '00000000-0000-0000-0000-000000000000',
                'LogicalPartition',
            )

    def test_feed_marks_management_partition(self):
        (found,) = (
            partition
            for partition in lpar.LPAR.get(self.adapter)
            if partition.is_mgmt_partition
        )
        self.assertEqual('novalink', found.name)

    def test_search_finds_lpars_by_name(self):
        """Special characters are unquoted once."""
        for name in ('my vm/1 = #x', 'vm%41'):
            self.create(name)
        for name in ('database', 'my vm/1 = #x', 'vm%41'):
            (found,) = lpar.LPAR.search(self.adapter, name=name)
            self.assertEqual(name, found.name)
        others = lpar.LPAR.search(self.adapter, negate=True, name='database')
        self.assertEqual(
            {'novalink', 'archive', 'my vm/1 = #x', 'vm%41'},
            {found.name for found in others},
        )
        self.assertEqual([], lpar.LPAR.search(self.adapter, name='none'))
        (found,) = vios.VIOS.search(self.adapter, id=2)
        self.assertEqual('vios1', found.name)
        self.assert_refused(
            500,
            'is not a search',
            self.adapter.read,
            'LogicalPartition',
            suffix_type='search',
            suffix_parm='PartitionName',
        )

    def test_quick_property_returns_value(self):
        created = self.create()

        def quick(name):
            answer = self.adapter.read(
                'LogicalPartition', created.uuid, None, None, 'quick', name
            )
            return json.loads(answer.body)

        self.assertEqual('not activated', quick('PartitionState'))
        self.assertEqual(created.id, quick('PartitionID'))
        self.assertEqual('AIX/Linux', quick('PartitionType'))
        self.assertEqual('false', quick('HasDedicatedProcessors'))
        self.assertEqual(0.5, quick('CurrentProcessingUnits'))
        self.assertIsNone(quick('CurrentProcessors'))
        with self.assertRaises(exceptions.HttpNotFound):
            quick('Colour')

    def test_quick_without_name_returns_properties(self):
        answer = self.adapter.read(
            'LogicalPartition', self.create().uuid, suffix_type='quick'
        )
        self.assertEqual('vm1', json.loads(answer.body)['PartitionName'])
        answer = self.adapter.read(
            'LogicalPartition', suffix_type='quick', suffix_parm='All'
        )
        self.assertEqual(4, len(json.loads(answer.body)))

    def test_quick_properties_of_system_and_vios_are_served(self):
        system = self.system()
        answer = self.adapter.read(
            'ManagedSystem', system.uuid, None, None, 'quick', 'MTMS'
        )
        self.assertEqual('9009-22A*EMU0001', json.loads(answer.body))
        answer = self.adapter.read(
            'VirtualIOServer',
            vios.VIOS.get(self.adapter)[0].uuid,
            suffix_type='quick',
        )
        self.assertEqual('active', json.loads(answer.body)['RMCState'])

    def test_read_accepts_uuid_in_lower_case(self):
        created = self.create()
        self.assertEqual(created.name, self.read(created.uuid.lower()).name)


class ViosGroupTest(base.EmulatorTestCase):
    def elements(self, **query):
        entry = self.adapter.read('VirtualIOServer', self.uuid, **query).entry
        return {
            etree.QName(child).localname for child in entry.element.element
        }

    def setUp(self):
        super().setUp()
        self.uuid = vios.VIOS.get(self.adapter)[0].uuid

    def test_read_includes_sections_of_its_groups_only(self):
        scsi, fibre, media = sections = (
            'VirtualSCSIMappings',
            'VirtualFibreChannelMappings',
            'MediaRepositories',
        )
        for query, expected in (
            ({}, set()),
            ({'xag': [const.XAG.VIO_SMAP]}, {scsi}),
            ({'xag': []}, {scsi, fibre, media}),
        ):
            with self.subTest(**query):
                elements = self.elements(**query)
                self.assertIn('PartitionName', elements)
                self.assertEqual(expected, elements & {*sections})

    def test_self_link_repeats_groups(self):
        found = vios.VIOS.get(
            self.adapter, xag=[const.XAG.VIO_SMAP, const.XAG.VIO_FMAP]
        )[0]
        self.assertTrue(
            found.href.endswith('?group=ViosFCMapping,ViosSCSIMapping')
        )
        self.assertFalse(
            vios.VIOS.get(self.adapter, xag=[])[0].href.count('?')
        )

    def test_update_keeps_sections_of_other_groups(self):
        found = vios.VIOS.get(self.adapter, uuid=self.uuid)
        found.allow_perf_data_collection = True
        found.update()
        self.assertIn('VirtualSCSIMappings', self.elements(xag=[]))
        again = vios.VIOS.get(self.adapter, uuid=self.uuid)
        self.assertTrue(again.allow_perf_data_collection)
        self.assertEqual(2, len(again.io_config.io_slots))


class PrefixTest(wire.WireTestCase):
    def test_content_has_its_name_as_prefix(self):
        """Every captured document has, and clients look for it."""
        self.create()
        for root in (root for _, root in wire.captured()):
            for content in wire.contents(root):
                self.assertEqual(wire.name(content), content.prefix)
        for path in (
            'uom/ManagedSystem',
            'uom/LogicalPartition',
            self.path_of('vm1'),
            f'{self.path_of("vm1")}/do/PowerOn',
            f'pcm/ManagedSystem/{self.system().uuid}/preferences',
            'uom/LogicalPartition/unknown',
        ):
            for content in self.ask('GET', path).contents:
                with self.subTest(path):
                    self.assertEqual(wire.name(content), content.prefix)
                    below = {node.prefix for node in content.iter('*')}
                    self.assertEqual({None, content.prefix}, below)
                    self.assertEqual(
                        content.nsmap[None], content.nsmap[content.prefix]
                    )
