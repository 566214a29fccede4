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

"""The provider tree that the driver publishes in Placement."""

import os_traits

from nova_powervm.emulator import worlds
from tests.functional import base

#: A paragraph for slots that must not be offered, whatever the file says.
EVERYTHING = (
    base.GPUS
    + """\
owned-by-the-vios:
  identification: {drc_index: "21010011"}
in-sriov-mode:
  identification: {drc_index: "21010023"}
of-another-partition:
  identification: {drc_index: "2101002B"}
empty:
  identification: {drc_index: "21010040"}
"""
)

NOTHING = '# no device is offered\n'

GPU_SLOTS = {0x21010020, 0x21010021, 0x21010022, 0x21020024}


class ProviderTreeTest(base.PowerVMTestCase):
    """Each slot that the file allows has a nested provider."""

    def test_slot_provider_is_child_of_compute_node(self):
        self.start_host()

        root = self._get_provider_uuid_by_host('host1')
        children = self.slot_providers()
        self.assertEqual(GPU_SLOTS, set(children))
        for index, provider in children.items():
            self.assertEqual(
                f'PowerVM IOSlot host1 {index:08X}', provider['name']
            )
            self.assertEqual(root, provider['parent_provider_uuid'])
            self.assertEqual(root, provider['root_provider_uuid'])

    def test_whole_tree_is_found_from_any_child(self):
        self.start_host()
        child = self.slot_providers()[0x21010020]['uuid']

        tree = set(self._get_all_rp_uuids_in_a_tree(child))

        expected = {p['uuid'] for p in self.slot_providers().values()}
        expected.add(self._get_provider_uuid_by_host('host1'))
        self.assertEqual(expected, tree)

    def test_inventory_is_one_whole_device(self):
        self.start_host()

        for provider in self.slot_providers().values():
            inventory = self._get_provider_inventory(provider['uuid'])
            self.assertEqual(
                {
                    'CUSTOM_GPU': {
                        'total': 1,
                        'reserved': 0,
                        'min_unit': 1,
                        'max_unit': 1,
                        'step_size': 1,
                        'allocation_ratio': 1.0,
                    }
                },
                inventory,
            )

    def test_slot_provider_has_traits_of_its_properties(self):
        self.start_host()

        provider = self.slot_providers()[0x21010020]
        prefix = 'CUSTOM_POWERVM_IOSLOT_'
        self.assertEqual(
            {
                f'{prefix}VENDOR_ID_10DE',
                f'{prefix}DEVICE_ID_1DB6',
                f'{prefix}SUBSYS_VENDOR_ID_10DE',
                f'{prefix}SUBSYS_DEVICE_ID_124A',
                f'{prefix}CLASS_0302',
                f'{prefix}REVISION_ID_A1',
                f'{prefix}DRC_INDEX_21010020',
                f'{prefix}DRC_NAME_U78D2_001_EMU0001_P1_C3',
                os_traits.OWNER_NOVA,
                'CUSTOM_TESLA_V100',
            },
            set(self._get_provider_traits(provider['uuid'])),
        )

    def test_unreported_property_gives_no_trait(self):
        self.start_host()

        provider = self.slot_providers()[0x21020024]
        traits = self._get_provider_traits(provider['uuid'])
        self.assertEqual([], [t for t in traits if 'SUBSYS' in t])

    def test_unusable_slots_are_not_offered(self):
        self.start_host(inventory=EVERYTHING)

        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        log = self.stdlog.logger.output
        self.assertIn('it is owned by VIOS vios1', log)
        self.assertIn('it is owned by partition database', log)
        self.assertIn('in SR-IOV mode', log)
        self.assertIn('the slot is empty', log)

    def test_host_without_file_offers_no_device(self):
        self.start_host(inventory=False)

        self.assertEqual({}, self.slot_providers())

    def test_default_resource_class_is_ioslot(self):
        self.start_host(inventory='nvme:\n  identification: {class: "0108"}\n')

        classes = {
            name
            for provider in self.slot_providers().values()
            for name in self._get_provider_inventory(provider['uuid'])
        }
        self.assertEqual({'CUSTOM_IOSLOT'}, classes)

    def test_root_provider_has_host_resources_and_nova_options(self):
        self.flags(
            reserved_host_memory_mb=1024,
            reserved_host_cpus=1,
            cpu_allocation_ratio=2.0,
        )
        self.start_host()

        root = self._get_provider_uuid_by_host('host1')
        inventory = self._get_provider_inventory(root)
        self.assertEqual(
            (32, 1, 2.0),
            (
                inventory['VCPU']['total'],
                inventory['VCPU']['reserved'],
                inventory['VCPU']['allocation_ratio'],
            ),
        )
        self.assertEqual(262144, inventory['MEMORY_MB']['total'])
        self.assertEqual(1024, inventory['MEMORY_MB']['reserved'])
        self.assertEqual(2048, inventory['DISK_GB']['total'])

    def test_host_without_volume_group_offers_no_disk(self):
        self.start_host(volume_group_name=None)

        root = self._get_provider_uuid_by_host('host1')
        self.assertNotIn('DISK_GB', self._get_provider_inventory(root))
        self.assertIn('This host has no DISK_GB', self.stdlog.logger.output)

    def test_second_update_changes_nothing(self):
        self.start_host()
        before = self.generations()

        self._run_periodics()

        self.assertEqual(before, self.generations())


class RestartTest(base.PowerVMTestCase):
    """A restarted nova-compute keeps its providers."""

    def test_restart_keeps_provider_uuids(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        before = {i: p['uuid'] for i, p in self.slot_providers().items()}

        self.restart_host()

        after = {i: p['uuid'] for i, p in self.slot_providers().items()}
        self.assertEqual(before, after)
        # They would stay the same after an update that failed, too.
        self.assertNotIn('Error updating', self.stdlog.logger.output)
        self.assertEqual('running', self.lpar(server).state)

    def test_restart_allows_build_and_delete(self):
        self.start_host()
        old = self.boot(base.gpu_groups(1))
        self.restart_host()

        new = self.boot(base.gpu_groups(1))

        self.assertNotEqual(
            self.allocated_slots(old), self.allocated_slots(new)
        )
        self._delete_server(old)
        self.assertIsNone(self.lpar(old))

    def test_provider_with_short_name_is_adopted(self):
        self.flags(provider_names='spec', group='powervm')
        self.start_host()
        before = self.slot_providers()
        self.assertEqual(
            {f'PowerVM IOSlot {index:08X}' for index in GPU_SLOTS},
            {provider['name'] for provider in before.values()},
        )

        self.flags(provider_names='node', group='powervm')
        self.restart_host()

        after = self.slot_providers()
        for index, provider in before.items():
            self.assertEqual(provider['uuid'], after[index]['uuid'])
            self.assertEqual(provider['name'], after[index]['name'])


class OrphanProviderTest(base.PowerVMTestCase):
    """Providers whose slot is no longer offered."""

    def test_free_orphan_of_earlier_process_is_deleted(self):
        self.start_host()
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))

        self.restart_host(inventory=NOTHING)

        self.assertEqual({}, self.slot_providers())

    def test_allocated_orphan_is_withdrawn_until_it_is_free(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)

        self.restart_host(inventory=NOTHING)

        (kept,) = self.slot_providers().items()
        self.assertEqual(slot, kept[0])
        uuid = kept[1]['uuid']
        # The trait is set first.
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(0, inventory['CUSTOM_GPU']['reserved'])
        self._run_periodics()
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(1, inventory['CUSTOM_GPU']['reserved'])
        traits = self._get_provider_traits(uuid)
        self.assertIn('CUSTOM_POWERVM_WITHDRAWN', traits)
        self.assertIn(server['id'], self.stdlog.logger.output)

        self._delete_server(server)
        self._run_periodics()

        self.assertEqual({}, self.slot_providers())

    def test_provider_offered_again_loses_withdrawal(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        self.restart_host(inventory=NOTHING)
        self._run_periodics()

        self.restart_host(inventory=base.GPUS)

        uuid = self.slot_providers()[slot]['uuid']
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(0, inventory['CUSTOM_GPU']['reserved'])
        self.assertNotIn(
            'CUSTOM_POWERVM_WITHDRAWN', self._get_provider_traits(uuid)
        )

    def test_pulled_card_loses_provider_until_plugged_again(self):
        self.start_host()
        self.control().pull('21010021')

        self._run_periodics()
        self.assertEqual(GPU_SLOTS - {0x21010021}, set(self.slot_providers()))

        self.plug_gpu('21010021')
        self._run_periodics()
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))

    def test_slot_taken_by_other_partition_is_not_offered(self):
        self.start_host()
        self.control().set_owner('21010021', self.lpar_named('archive').uuid)

        self._run_periodics()

        self.assertEqual(GPU_SLOTS - {0x21010021}, set(self.slot_providers()))

    def test_allocated_slot_keeps_resource_class_until_it_is_free(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        renamed = base.GPUS.replace('CUSTOM_GPU', 'PGPU')

        self.restart_host(inventory=renamed)

        self.assertEqual(
            {
                index: {'CUSTOM_GPU' if index == slot else 'PGPU'}
                for index in GPU_SLOTS
            },
            self.slot_classes(),
        )

        self._delete_server(server)
        self._run_periodics()

        self.assertEqual(
            {index: {'PGPU'} for index in GPU_SLOTS}, self.slot_classes()
        )


class ForeignProviderTest(base.PowerVMTestCase):
    """Providers of others below the compute node are left alone."""

    def add_child(self, name, traits=()):
        root = self._get_provider_uuid_by_host('host1')
        provider = self.placement.post(
            '/resource_providers',
            {'name': name, 'parent_provider_uuid': root},
            version='1.20',
        ).body
        if traits:
            self._set_provider_traits(provider['uuid'], list(traits))
        return provider['uuid']

    def test_provider_with_another_name_is_kept(self):
        self.start_host(inventory=NOTHING)
        uuid = self.add_child('somebody else', ['HW_GPU_API_VULKAN'])
        self.set_inventory(uuid, {'FPGA': {'total': 4, 'reserved': 1}})
        root = self._get_provider_uuid_by_host('host1')
        before = self.content(uuid)

        for inventory in (NOTHING, base.GPUS, NOTHING):
            self.restart_host(inventory=inventory)
            self._run_periodics()

            self.assertIn(uuid, self._get_all_rp_uuids_in_a_tree(root))
            self.assertEqual(before, self.content(uuid))

    def content(self, uuid):
        """Return a provider with its generation, inventory and traits."""
        return (
            self._get_resource_provider_by_uuid(uuid),
            self._get_provider_inventory(uuid),
            self._get_provider_traits(uuid),
        )

    def test_update_keeps_reservation_of_operator(self):
        self.start_host()
        uuid = self.slot_providers()[0x21010020]['uuid']
        self.reserve(uuid, 'CUSTOM_GPU', 1)

        self.restart_host()
        self._run_periodics()

        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(1, inventory['CUSTOM_GPU']['reserved'])

    def test_spawn_refuses_provider_of_cyborg(self):
        self.start_host(inventory=NOTHING)
        uuid = self.add_child('cyborg device', [os_traits.OWNER_CYBORG])
        self._create_resource_class('CUSTOM_GPU')
        self.set_inventory(uuid, {'CUSTOM_GPU': {'total': 1}})
        self.restart_host(inventory=NOTHING)

        server = self.boot({'resources1:CUSTOM_GPU': '1'}, expected='ERROR')

        self.assertIn('Cyborg', server['fault']['message'])
        self.assertIn('OWNER_NOVA', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_spawn_refuses_provider_of_unknown_owner(self):
        self.start_host(inventory=NOTHING)
        uuid = self.add_child('a device')
        self.set_inventory(uuid, {'FPGA': {'total': 1}})
        self.restart_host()

        server = self.boot({'resources1:FPGA': '1'}, expected='ERROR')

        self.assertIn('OWNER_NOVA', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def test_grandchild_with_name_of_slot_withholds_that_slot_only(self):
        self.start_host(inventory=NOTHING)
        self.placement.post(
            '/resource_providers',
            {
                'name': 'PowerVM IOSlot host1 21010020',
                'parent_provider_uuid': self.add_child('somebody'),
            },
            version='1.20',
        )

        self.restart_host(inventory=base.GPUS)

        root = self._get_provider_uuid_by_host('host1')
        self.assertEqual(
            GPU_SLOTS - {0x21010020},
            {
                index
                for index, provider in self.slot_providers().items()
                if provider['parent_provider_uuid'] == root
            },
        )
        self.assertIn('no direct child', self.stdlog.logger.output)


class UnusualHostTest(base.PowerVMTestCase):
    """Hosts that report less than others or have partial failures."""

    def world(self, **changes):
        world = worlds.default()
        world['systems'][0].update(changes)
        return world

    def test_owners_are_read_from_profiles_if_system_omits_them(self):
        self.start_host(
            world=self.world(reports_slot_owners=False), inventory=EVERYTHING
        )
        self.assertIsNone(self.slot_owner(0x21010011))

        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))

        server = self.boot(base.gpu_groups(1))
        self._run_periodics()

        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        self._delete_server(server)

    def test_host_that_stops_reporting_slots_loses_no_provider(self):
        self.start_host()
        indexes = [
            slot['drc_index']
            for slot in self.control().state()['systems'][0]['slots']
        ]
        for index in indexes:
            self.control().pull(index, remove=True)

        self._run_periodics()

        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        self.assertIn('any of its 14 I/O slots', self.stdlog.logger.output)

    def test_slots_are_updated_while_storage_is_down(self):
        self.start_host()
        self.control().add_fault(match='VolumeGroup', status=500, every=True)
        self.control().pull('21010021')

        self._run_periodics()

        self.assertEqual(GPU_SLOTS - {0x21010021}, set(self.slot_providers()))
        root = self._get_provider_uuid_by_host('host1')
        inventory = self._get_provider_inventory(root)
        self.assertEqual(2048, inventory['DISK_GB']['total'])

    def test_reservation_of_operator_survives_pulled_card(self):
        self.start_host()
        uuid = self.slot_providers()[0x21010021]['uuid']
        self.reserve(uuid, 'CUSTOM_GPU', 1)
        self.control().pull('21010021')
        self._run_periodics()

        self.plug_gpu('21010021')
        self._run_periodics()

        self.assertEqual(uuid, self.slot_providers()[0x21010021]['uuid'])
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(1, inventory['CUSTOM_GPU']['reserved'])


class IdenticalHostsTest(base.PowerVMTestCase):
    """Two hosts with the same machine, file and DRC indexes."""

    def setUp(self):
        super().setUp()
        self.start_host('host1')
        self.start_host('host2')

    def test_identical_hosts_publish_all_their_slots(self):
        for host in ('host1', 'host2'):
            providers = self.slot_providers(host)
            self.assertEqual(GPU_SLOTS, set(providers))
            self.assertEqual(
                {f'PowerVM IOSlot {host} {index:08X}' for index in GPU_SLOTS},
                {provider['name'] for provider in providers.values()},
            )

    def test_server_gets_slot_of_its_own_host_only(self):
        groups = {
            'resources1:CUSTOM_GPU': '1',
            'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020': 'required',
        }
        first, second = self.boot(groups), self.boot(groups)

        hosts = {server['OS-EXT-SRV-ATTR:host'] for server in (first, second)}
        self.assertEqual({'host1', 'host2'}, hosts)
        for server in (first, second):
            host = server['OS-EXT-SRV-ATTR:host']
            lpar = self.lpar(server, host)
            self.assertEqual({0x21010020: True}, lpar.slots)
            self.assertEqual(lpar.uuid, self.slot_owner(0x21010020, host))

    def test_file_of_one_host_leaves_other_host_unchanged(self):
        self.restart_host('host1', inventory=NOTHING)
        self._run_periodics()

        self.assertEqual({}, self.slot_providers('host1'))
        self.assertEqual(GPU_SLOTS, set(self.slot_providers('host2')))

    def test_actions_on_one_host_leave_other_host_unchanged(self):
        groups = {
            'resources1:CUSTOM_GPU': '1',
            'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020': 'required',
        }
        servers = {
            server['OS-EXT-SRV-ATTR:host']: server
            for server in (self.boot(groups), self.boot(groups))
        }
        kept = servers['host2']
        before = {
            index: (provider['uuid'], provider['generation'])
            for index, provider in self.slot_providers('host2').items()
        }
        slots = self.hosts['host2'].reader.slots()

        self._reboot_server(servers['host1'], hard=True)
        self.control('host1').pull('21010021')
        self.restart_host('host1')
        self._delete_server(servers['host1'])
        self._run_periodics()

        self.assertIsNone(self.slot_owner(0x21010020, 'host1'))
        self.assertEqual(
            before,
            {
                index: (provider['uuid'], provider['generation'])
                for index, provider in self.slot_providers('host2').items()
            },
        )
        self.assertEqual(slots, self.hosts['host2'].reader.slots())
        lpar = self.lpar(kept, 'host2')
        self.assertEqual(
            ('running', {0x21010020: True}), (lpar.state, lpar.slots)
        )
