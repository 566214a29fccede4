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

from powervm_emulator import worlds
from tests import proofs
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
    """A host whose file allows its GPUs, unless a story has another one."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_provider_tree_follows_host_and_file(self):
        self.tell_stories()

    def prepare(self):
        self.use(base.GPUS)

    def use(self, inventory):
        """Restart nova-compute with a file, unless it has this one."""
        if self._inventories['host1'] != inventory:
            self.restart_host(inventory=inventory)

    def load_world(self, **changes):
        """Replace the host by one with some changes."""
        world = worlds.default()
        world['systems'][0].update(changes)
        self.control().load_world(world)

    def root_inventory(self):
        """Return the inventory of the compute node."""
        root = self._get_provider_uuid_by_host('host1')
        return self._get_provider_inventory(root)

    def pull(self):
        """Pull a card."""
        self.control().pull('21010021')
        self._run_periodics()

    def plug(self):
        """Plug the card that was pulled."""
        self.plug_gpu('21010021')
        self._run_periodics()

    def add_child(self, name, traits=(), parent=None):
        """Create a provider as somebody else does; return its uuid."""
        root = self._get_provider_uuid_by_host('host1')
        provider = self.placement.post(
            '/resource_providers',
            {'name': name, 'parent_provider_uuid': parent or root},
            version='1.20',
        ).body
        if traits:
            self._set_provider_traits(provider['uuid'], list(traits))
        return provider['uuid']

    def delete_providers(self, *uuids):
        """Delete providers, and let nova-compute forget them."""
        for uuid in uuids:
            answer = self.placement.delete(f'/resource_providers/{uuid}')
            self.assertEqual(204, answer.status, answer.body)
        self.computes['host1'].manager.reportclient.clear_provider_cache()
        self._run_periodics()

    # What is published

    @proofs.proves(
        'C13',
        'D2',
        'D14',
        'D47',
        'D50',
        'D56',
        'D63',
        'D64',
        'D66',
        'D73',
        'N2',
        'N4',
        'N5',
        'N9',
        'N10',
        'N12',
        'N19',
        'N22',
        'N23',
        'O10',
        'V18',
        'device.identify.vendor',
        'device.owner-trait',
        'device.traits.generated',
        'device.traits.operator',
    )
    def story_slots_are_children_of_compute_node_with_their_properties(self):
        root = self._get_provider_uuid_by_host('host1')
        children = self.slot_providers()
        self.assertEqual(GPU_SLOTS, set(children))
        for index, provider in children.items():
            self.assertEqual(
                f'PowerVM IOSlot host1 {index:08X}', provider['name']
            )
            self.assertEqual(root, provider['parent_provider_uuid'])
            self.assertEqual(root, provider['root_provider_uuid'])
            # One whole device.
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
                self._get_provider_inventory(provider['uuid']),
            )
        uuids = {index: child['uuid'] for index, child in children.items()}
        self.assertEqual(
            {root, *uuids.values()},
            set(self._get_all_rp_uuids_in_a_tree(uuids[0x21010020])),
        )
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
            set(self._get_provider_traits(uuids[0x21010020])),
        )
        # A property that is not reported gives no trait.
        traits = self._get_provider_traits(uuids[0x21020024])
        self.assertIn(f'{prefix}DRC_INDEX_21020024', traits)
        self.assertEqual([], [t for t in traits if 'SUBSYS' in t])
        # A second update changes nothing.
        before = self.generations()
        self._run_periodics()
        self.assertEqual(before, self.generations())

    @proofs.proves('D72', 'N14')
    def story_root_provider_has_host_resources_and_nova_options(self):
        with self.flagged(
            reserved_host_memory_mb=1024,
            reserved_host_cpus=1,
            cpu_allocation_ratio=2.0,
        ):
            self._run_periodics()
            inventory = self.root_inventory()
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
        self._run_periodics()

    def root_traits(self):
        """Return the traits of the compute node."""
        root = self._get_provider_uuid_by_host('host1')
        return set(self._get_provider_traits(root))

    @proofs.proves('operation.report-cpu-traits')
    def story_images_for_architecture_find_host_by_its_traits(self):
        root = self._get_provider_uuid_by_host('host1')
        self._create_trait('CUSTOM_RACK_4')
        self._set_provider_traits(root, [*self.root_traits(), 'CUSTOM_RACK_4'])
        self.flags(image_metadata_prefilter=True, group='scheduler')
        properties = {'hw_architecture': 'ppc64le'}
        image = self.create_image(base.IMAGE, properties=properties)

        self.boot({'trait:HW_CPU_PPC64LE_POWER9': 'required'}, image=image)

        self.assertIn('CUSTOM_POWERVM_AIX', self.root_traits())
        modes = ['default', 'POWER7', 'POWER8']
        self.load_world(
            processors={'compatibility_modes': modes},
            capabilities={'aix': 'Inactive'},
        )
        self.computes['host1'].manager.reportclient.clear_provider_cache()
        self._run_periodics()
        self.assertEqual(
            {
                'COMPUTE_NODE',
                'CUSTOM_RACK_4',
                'HW_ARCH_PPC64',
                'HW_ARCH_PPC64LE',
                'HW_CPU_PPC64LE_POWER8',
            },
            {
                trait
                for trait in self.root_traits()
                if trait.startswith(('CUSTOM_', 'HW_', 'COMPUTE_NODE'))
            },
        )
        self.load_world()

    # Files

    @proofs.proves('D3', 'D9', 'D17', 'D53', 'D71', 'device.resource-class')
    def story_file_decides_which_slots_are_offered(self):
        self.use(EVERYTHING)
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        self.assertIn(f'host: {len(GPU_SLOTS)} offered.', self.logged())

        # Without a file; the providers of the earlier process go.
        self.use(False)
        self.assertEqual({}, self.slot_providers())

        # A class need not be named.
        self.use('nvme:\n  identification: {class: "0108"}\n')
        self.assertEqual(
            {('CUSTOM_IOSLOT',)}, {*map(tuple, self.slot_classes().values())}
        )

    @proofs.proves('D53')
    def story_provider_with_short_name_is_adopted(self):
        self.use(NOTHING)
        self.flags(provider_names='spec', group='powervm')
        self.use(base.GPUS)
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
        self.use(NOTHING)

    # Servers

    @proofs.proves('D52')
    def story_restart_keeps_provider_uuids(self):
        server = self.boot(base.gpu_groups(1))
        before = {i: p['uuid'] for i, p in self.slot_providers().items()}

        self.restart_host()

        after = {i: p['uuid'] for i, p in self.slot_providers().items()}
        self.assertEqual(before, after)
        # They would stay the same after an update that failed, too.
        self.assertNotIn('Error updating', self.logged())
        self.assertEqual('running', self.lpar(server).state)

        new = self.boot(base.gpu_groups(1))
        self.assertNotEqual(
            self.allocated_slots(server), self.allocated_slots(new)
        )
        self._delete_server(server)
        self.assertIsNone(self.lpar(server))

    @proofs.proves('D71')
    def story_allocated_orphan_is_withdrawn_until_it_is_free(self):
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)

        self.use(NOTHING)

        (kept,) = self.slot_providers().items()
        self.assertEqual(slot, kept[0])
        uuid = kept[1]['uuid']
        # The trait is set first.
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(0, inventory['CUSTOM_GPU']['reserved'])
        self._run_periodics()
        self.assert_withdrawn(uuid, reserved=1)
        self.assertIn(server['id'], self.logged())

        # Offered again
        self.use(base.GPUS)
        self.assertEqual(uuid, self.slot_providers()[slot]['uuid'])
        self.assert_withdrawn(uuid, reserved=0)

        self.use(NOTHING)
        self._delete_server(server)
        self._run_periodics()

        self.assertEqual({}, self.slot_providers())

    def assert_withdrawn(self, uuid, reserved):
        """Assert that a provider is withdrawn, or that it is not.

        :param reserved: How much of it is reserved.
        """
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(reserved, inventory['CUSTOM_GPU']['reserved'])
        traits = self._get_provider_traits(uuid)
        self.assertEqual(bool(reserved), 'CUSTOM_POWERVM_WITHDRAWN' in traits)

    # Changes on the host

    @proofs.proves('D68')
    def story_pulled_card_loses_provider_until_plugged_again(self):
        self.pull()
        self.assertEqual(GPU_SLOTS - {0x21010021}, set(self.slot_providers()))

        self.plug()
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))

    def story_slots_are_updated_while_storage_is_down(self):
        self.control().add_fault(match='VolumeGroup', status=500, every=True)
        self.pull()

        self.assertEqual(GPU_SLOTS - {0x21010021}, set(self.slot_providers()))
        self.assertEqual(2048, self.root_inventory()['DISK_GB']['total'])
        self.control().clear_faults()
        self.plug()

    # Changes of others in Placement

    @proofs.proves('D58', 'device.quarantine', 'device.traits.operator')
    def story_reservation_of_operator_survives_restart_and_pulled_card(self):
        uuid = self.slot_providers()[0x21010021]['uuid']
        self.reserve(uuid, 'CUSTOM_GPU', 1)

        self.restart_host()
        self._run_periodics()
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(1, inventory['CUSTOM_GPU']['reserved'])

        self.pull()
        self.plug()
        self.assertEqual(uuid, self.slot_providers()[0x21010021]['uuid'])
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual(1, inventory['CUSTOM_GPU']['reserved'])
        self.reserve(uuid, 'CUSTOM_GPU', 0)
        self._run_periodics()

    @proofs.proves('C3', 'C21')
    def story_provider_with_another_name_is_kept(self):
        uuid = self.add_child('somebody else', ['HW_GPU_API_VULKAN'])
        self.set_inventory(uuid, {'FPGA': {'total': 4, 'reserved': 1}})
        root = self._get_provider_uuid_by_host('host1')
        before = self.content(uuid)

        for inventory in (NOTHING, base.GPUS):
            self.use(inventory)
            self._run_periodics()

            self.assertIn(uuid, self._get_all_rp_uuids_in_a_tree(root))
            self.assertEqual(before, self.content(uuid))
        self.delete_providers(uuid)

    def content(self, uuid):
        """Return a provider with its generation, inventory and traits."""
        return (
            self._get_resource_provider_by_uuid(uuid),
            self._get_provider_inventory(uuid),
            self._get_provider_traits(uuid),
        )

    @proofs.proves('V19', 'V23', 'device.owner-trait')
    def story_spawn_refuses_providers_of_cyborg_and_of_unknown_owner(self):
        devices = {
            'CUSTOM_GPU': self.add_child('cyborg', [os_traits.OWNER_CYBORG]),
            'FPGA': self.add_child('a device'),
        }
        for name, uuid in devices.items():
            self.set_inventory(uuid, {name: {'total': 1}})
        self.use(NOTHING)

        requested = [
            self.start_boot({f'resources1:{name}': '1'}) for name in devices
        ]

        for name, each in zip(devices, requested, strict=True):
            server = self._wait_until_built(each['id'])
            self.assertEqual('ERROR', server['status'])
            reason = server['fault']['message']
            self.assertEqual(name == 'CUSTOM_GPU', 'Cyborg' in reason, reason)
            self.assertIn('OWNER_NOVA', reason)
            self.assertIsNone(self.lpar(server))
            self.wait_until_unallocated(server)
        self.delete_providers(*devices.values())

    def story_grandchild_with_name_of_slot_withholds_that_slot_only(self):
        self.use(NOTHING)
        other = self.add_child('somebody')
        grandchild = self.add_child(
            'PowerVM IOSlot host1 21010020', parent=other
        )

        self.use(base.GPUS)

        root = self._get_provider_uuid_by_host('host1')
        self.assertEqual(
            GPU_SLOTS - {0x21010020},
            {
                index
                for index, provider in self.slot_providers().items()
                if provider['parent_provider_uuid'] == root
            },
        )
        self.assertIn('no direct child', self.logged())
        self.delete_providers(grandchild, other)


class IdenticalHostsTest(base.PowerVMTestCase):
    """Two hosts with the same machine, file and DRC indexes."""

    def setUp(self):
        super().setUp()
        self.start_host('host1')
        self.start_host('host2')

    @proofs.proves('D8', 'N26')
    def test_identical_hosts_have_trees_of_their_own(self):
        for host in ('host1', 'host2'):
            providers = self.slot_providers(host)
            self.assertEqual(GPU_SLOTS, set(providers))
            self.assertEqual(
                {f'PowerVM IOSlot {host} {index:08X}' for index in GPU_SLOTS},
                {provider['name'] for provider in providers.values()},
            )
        groups = {
            'resources1:CUSTOM_GPU': '1',
            'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020': 'required',
        }
        requested = [self.start_boot(groups) for _ in self.hosts]
        built = [self._wait_until_built(each['id']) for each in requested]
        servers = {server['OS-EXT-SRV-ATTR:host']: server for server in built}
        self.assertEqual({'host1', 'host2'}, set(servers))
        for host, server in servers.items():
            lpar = self.lpar(server, host)
            self.assertEqual({0x21010020: True}, lpar.slots)
            self.assertEqual(lpar.uuid, self.slot_owner(0x21010020, host))
        kept = servers['host2']
        before = self.generations_of_slots('host2')
        slots = self.hosts['host2'].reader.slots()

        self._reboot_server(servers['host1'], hard=True)
        self.control('host1').pull('21010021')
        self.restart_host('host1')
        self._delete_server(servers['host1'])
        self._run_periodics()

        self.assertIsNone(self.slot_owner(0x21010020, 'host1'))
        self.assertEqual(before, self.generations_of_slots('host2'))
        self.assertEqual(slots, self.hosts['host2'].reader.slots())
        lpar = self.lpar(kept, 'host2')
        self.assertEqual(
            ('running', {0x21010020: True}), (lpar.state, lpar.slots)
        )

        # The file of one host is not that of the other.
        self.restart_host('host1', inventory=NOTHING)
        self._run_periodics()
        self.assertEqual({}, self.slot_providers('host1'))
        self.assertEqual(before, self.generations_of_slots('host2'))

    def generations_of_slots(self, host):
        """Return uuid and generation of the provider of each slot."""
        return {
            index: (provider['uuid'], provider['generation'])
            for index, provider in self.slot_providers(host).items()
        }
