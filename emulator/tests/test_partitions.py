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

"""LPARs are created, changed and deleted, or refused as by hardware."""

from concurrent import futures

from pypowervm import const
from pypowervm import exceptions
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import http_error
from pypowervm.wrappers import logical_partition as lpar

from . import base

UUID = '10E1F2A3-0000-4000-8000-00000000000A'
MEMORY = 'PartitionMemoryConfiguration'
SHARED = 'PartitionProcessorConfiguration/SharedProcessorConfiguration'


class CreateLparTest(base.EmulatorTestCase):
    def test_create_keeps_requested_uuid_and_id(self):
        created = self.create(uuid=UUID.lower(), id=77)
        self.assertEqual((UUID, 77), (created.uuid, created.id))
        read = self.read(UUID)
        self.assertEqual((UUID, UUID), (read.uuid, read.partition_uuid))

    def test_create_fills_in_uuid_id_state_and_defaults(self):
        created = self.create()
        self.assertEqual(5, created.id)
        self.assertIn(created.uuid[0], '01234567')
        self.assertEqual(created.uuid.upper(), created.uuid)
        for name, value in (
            ('state', 'not activated'),
            ('rmc_state', 'inactive'),
            ('env', 'AIX/Linux'),
            ('ref_code', '00000000'),
            ('operating_system', 'Unknown'),
            ('migration_state', 'Not_Migrating'),
            ('proc_compat_mode', 'POWER9'),
            ('is_mgmt_partition', False),
            ('assoc_sys_uuid', self.system().uuid),
        ):
            self.assertEqual(value, getattr(created, name), name)
        self.assertFalse(created.capabilities.io_dlpar)
        self.assertEqual(2048, created.mem_config.desired)
        self.assertEqual([], list(created.io_config.io_slots))
        current = created.element.find('PartitionProcessorConfiguration')
        section = current.find('CurrentSharedProcessorConfiguration')
        self.assertEqual('0.5', section.findtext('CurrentProcessingUnits'))
        self.assertEqual('2', section.findtext('AllocatedVirtualProcessors'))
        self.assertEqual('0', section.findtext('RuntimeProcessingUnits'))

    def test_create_accepts_dedicated_processors(self):
        created = self.create(dedicated_proc='true', vcpu=3, proc_units=None)
        self.assertTrue(created.proc_config.has_dedicated)
        self.assertEqual(3, created.proc_config.dedicated_proc_cfg.desired)
        self.control.set_partition('vm1', state='running')
        self.assertEqual(25.5, self.system().proc_units_avail)

    def test_create_assigns_slots(self):
        created = self.create(slots=base.GPUS[:2])
        first = created.io_config.io_slots[0]
        self.assertEqual(base.GPUS[0], first.drc_index)
        self.assertTrue(first.required)
        self.assertEqual('3D Controller', first.description)
        ids = (first.pci_vendor_id, first.pci_dev_id)
        self.assertEqual((0x10DE, 0x1DB6), ids)
        self.assertEqual(self.slot(base.GPUS[0]).drc_name, first.drc_name)
        for drc_index in base.GPUS[:2]:
            owned = self.slot(drc_index)
            owner = (owned.part_uuid, owned.part_id, owned.part_name)
            self.assertEqual((created.uuid, created.id, 'vm1'), owner)
            self.assertEqual('AIX/Linux', owned.part_type)
        other = self.create('vm2', slots=base.GPUS[2:3], required=False)
        self.assertFalse(other.io_config.io_slots[0].required)

    def test_nvram_stays_and_is_shown_in_its_group_only(self):
        """A guest can be the first to write it."""
        created = self.build('vm2')
        created.nvram = 'Zmlyc3Q='
        for first, uuid in (
            ('Zmlyc3Q=', created.create().uuid),
            (None, self.create('vm3').uuid),
        ):
            for before, after in ((first, 'c2Vjb25k'), ('c2Vjb25k', 'bg==')):
                # This document has no NVRAM, which takes none away.
                found = self.read(uuid)
                self.assertIsNone(found.nvram)
                found.name = f'{before} {uuid}'[:31]
                found.update()

                found = self.read_nvram(uuid)
                self.assertEqual(before, found.nvram)
                found.nvram = after
                found.update()

    def read_nvram(self, uuid):
        """Read an LPAR with its NVRAM."""
        groups = [const.XAG.NVRAM]
        return lpar.LPAR.get(self.adapter, uuid=uuid, xag=groups)

    def test_create_accepts_system_as_parent(self):
        created = self.build().create(parent=self.system())
        self.assertIn('/ManagedSystem/', created.href)

    def test_start_takes_memory_and_processors(self):
        before = self.system()
        self.create()
        self.assertEqual(before.memory_free, self.system().memory_free)
        self.control.set_partition('vm1', state='running')
        after = self.system()
        # The hypervisor needs 256 MB for it.
        self.assertEqual(before.memory_free - 2048 - 256, after.memory_free)
        self.assertEqual(before.proc_units_avail - 0.5, after.proc_units_avail)


class ParallelCreateTest(base.EmulatorTestCase):
    def test_parallel_creates_give_slot_to_one_lpar(self):
        planned = [
            self.build(f'vm{number}', slots=base.GPUS[:1])
            for number in range(8)
        ]

        def create(lpar_):
            try:
                return lpar_.create().name
            except exceptions.HttpError as error:
                return error.response.status

        with futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(create, planned))
        self.assertEqual(7, results.count(500))
        (winner,) = set(results) - {500}
        self.assertEqual(winner, self.slot(base.GPUS[0]).part_name)

    def test_parallel_creates_get_different_ids_and_uuids(self):
        planned = [self.build(f'vm{number}') for number in range(8)]
        with futures.ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda lpar_: lpar_.create(), planned))
        self.assertEqual(8, len({lpar_.id for lpar_ in made}))
        self.assertEqual(8, len({lpar_.uuid for lpar_ in made}))


class RefusedCreateTest(base.EmulatorTestCase):
    def refuse(self, status, message, **attributes):
        before = self.control.state()
        lpar_ = self.build(**attributes)
        error = self.assert_refused(status, message, lpar_.create)
        self.assertEqual(before, self.control.state())
        return error

    def test_create_refuses_values_in_use_or_beyond_host(self):
        self.create('first', slots=base.GPUS[:1], uuid=UUID)
        dedicated = {'proc_units': None, 'dedicated_proc': 'true'}
        for status, message, values in (
            (
                500,
                'no I/O slot .* DRC index 2101FFFF',
                {'slots': [0x2101FFFF]},
            ),
            (500, "owned by.*'vios1'", {'slots': [base.VIOS_SLOT]}),
            (500, "21010020.*'first'", {'slots': base.GPUS[:1]}),
            (500, '21 is named more than once', {'slots': [base.GPUS[1]] * 2}),
            (500, '21010023.*SR-IOV mode', {'slots': [base.SRIOV]}),
            (500, '262144 MB of memory .* asked for', {'memory': 262144}),
            (500, '29 .* and 27.5 are free', {'vcpu': 29, 'proc_units': 29}),
            (500, '29 processor units', {'vcpu': 29, **dedicated}),
            (500, '0.05 processor units', {'proc_units': 0.05}),
            (500, "'database' is in use", {'name': 'database'}),
            (500, "'vios1' is in use", {'name': 'vios1'}),
            (500, "id 3 is in use by 'database'", {'id': 3}),
            (500, f'uuid {UUID} exists', {'uuid': UUID}),
        ):
            with self.subTest(message):
                self.refuse(status, message, **values)

    def test_create_refuses_slot_until_it_is_assignable(self):
        self.control.plug('21010050', {'assignable': False})
        self.refuse(500, '21010050.*not assignable', slots=[0x21010050])
        path = 'RelatedIOAdapter/IOAdapter/LogicalPartitionAssignmentCapable'
        shown = self.slot(0x21010050).element
        self.assertEqual('false', shown.findtext(path))
        self.assertIsNone(self.slot(base.GPUS[0]).element.findtext(path))
        card = {'assignable': True, 'description': 'GPU'}
        self.control.plug('21010050', card)
        self.create(slots=[0x21010050])

    def test_create_refuses_memory_of_partitions_that_are_off(self):
        # Less archive's 4096 MB, and what the hypervisor needs for each.
        free = self.system().memory_free - 4096 - 256
        self.create('first', memory=free - 2048 - 256 - 3584)
        self.refuse(500, '2304 MB .* and 2304 MB are free', memory=2304)
        self.create('second', memory=2048)

    def test_create_refuses_invalid_values(self):
        for message, path, value in (
            ('2049 MB .* not a multiple', f'{MEMORY}/MaximumMemory', 2049),
            ('not in order', f'{MEMORY}/MinimumMemory', 4096),
            ('not in order', f'{SHARED}/MinimumVirtualProcessors', 4),
            ('1 to 31 characters', 'PartitionName', 'x' * 32),
            ('most significant bit', 'PartitionUUID', 'F' + UUID[1:]),
            ('POWER10', 'PendingProcessorCompatibilityMode', 'POWER10'),
            ('Virtual IO Server', 'PartitionType', 'Virtual IO Server'),
        ):
            with self.subTest(path):
                wrong = self.build()
                wrong.set_parm_value(path, value)
                self.assert_refused(500, message, wrong.create)

    def test_refusal_body_is_http_error_entry(self):
        error = self.refuse(500, '.', slots=[0x2101FFFF])
        wrapper = http_error.HttpError.wrap(error.response)
        self.assertEqual(500, wrapper.status)
        self.assertIn('2101FFFF', wrapper.message)
        self.assertTrue(wrapper.reason_code)
        self.assertFalse(wrapper.is_vios_busy())

    def test_create_refuses_malformed_or_other_xml(self):
        for body, message in (
            ('<a', 'not well-formed'),
            ('<a/>', 'not a LogicalPartition'),
        ):
            self.assert_refused(
                400,
                message,
                self.adapter._request,
                'PUT',
                '/rest/api/uom/LogicalPartition',
                headers={},
                body=body,
            )


class UpdateLparTest(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.lpar = self.create(slots=base.GPUS[:1])

    def test_update_changes_memory_within_what_is_free(self):
        self.lpar.mem_config.desired = 4096
        self.lpar.mem_config.max = 262144
        updated = self.lpar.update()
        self.assertEqual(4096, updated.mem_config.desired)
        self.assertEqual(4096, self.read(self.lpar.uuid).mem_config.desired)
        current = updated.element.find('PartitionMemoryConfiguration')
        self.assertEqual('4096', current.findtext('CurrentMemory'))
        self.assertEqual('not activated', updated.state)
        # Less archive's 4096 MB, and what the hypervisor needs for each.
        free = self.system().memory_free - 4096 - 256
        updated.mem_config.desired = free - 4352
        updated = updated.update()
        updated.mem_config.desired = 262144
        self.assert_refused(500, 'MB of memory', updated.update)

    def test_rename_shows_in_slot_owner_and_refuses_name_in_use(self):
        self.lpar.name = 'other'
        renamed = self.lpar.update()
        self.assertEqual('other', self.slot(base.GPUS[0]).part_name)
        renamed.name = 'database'
        self.assert_refused(500, 'in use', renamed.update)

    def test_update_attaches_free_slot_and_refuses_that_of_other_lpar(self):
        slots = self.lpar.io_config.io_slots
        slots.append(bp.IOSlot.bld(self.adapter, False, base.NVME))
        updated = self.lpar.update()
        slots = updated.io_config.io_slots
        self.assertEqual(
            [base.GPUS[0], base.NVME], [slot.drc_index for slot in slots]
        )
        self.assertIn('NVMe', slots[1].description)
        self.assertEqual('vm1', self.slot(base.NVME).part_name)
        slots.append(bp.IOSlot.bld(self.adapter, False, base.FOREIGN_SLOT))
        self.assert_refused(500, 'database', updated.update)
        self.assertEqual('database', self.slot(base.FOREIGN_SLOT).part_name)

    def test_update_detaches_slot(self):
        slots = self.lpar.io_config.io_slots
        slots.remove(slots[0])
        updated = self.lpar.update()
        self.assertEqual([], list(updated.io_config.io_slots))
        self.assertIsNone(self.slot(base.GPUS[0]).part_uuid)

    def test_update_with_empty_io_configuration_detaches_slots(self):
        self.lpar.io_config = bp.PartitionIOConfiguration.bld(self.adapter, 64)
        self.lpar.update()
        self.assertIsNone(self.slot(base.GPUS[0]).part_uuid)

    def test_update_keeps_details_of_slots_sent_again(self):
        self.lpar.io_config.io_slots = [
            bp.IOSlot.bld(self.adapter, False, base.GPUS[0], required=False)
        ]
        (slot,) = self.lpar.update().io_config.io_slots
        self.assertEqual('3D Controller', slot.description)
        self.assertFalse(slot.required)

    def test_update_ignores_read_only_values(self):
        for name, value in (
            ('PartitionID', '9'),
            ('PartitionState', 'running'),
            ('ReferenceCode', 'x'),
        ):
            self.lpar.set_parm_value(name, value)
        updated = self.lpar.update()
        self.assertEqual(5, updated.id)
        self.assertEqual('not activated', updated.state)
        self.assertEqual('00000000', updated.ref_code)

    def test_update_refuses_resources_of_active_lpar_without_rmc(self):
        self.control.set_partition('vm1', state='running')
        active = self.read(self.lpar.uuid)
        active.mem_config.max = 4096
        active.mem_config.desired = 4096
        self.assert_refused(500, 'memory.*no active RMC', active.update)
        active = self.read(self.lpar.uuid)
        active.io_config.io_slots = []
        self.assert_refused(500, 'I/O slots.*no active RMC', active.update)
        active = self.read(self.lpar.uuid)
        active.name = 'renamed'
        active.update()

    def test_update_changes_memory_of_active_lpar_with_rmc(self):
        self.lpar.mem_config.max = 4096
        self.lpar.update()
        self.control.set_partition('vm1', state='running', rmc_state='active')
        before = self.system()
        active = self.read(self.lpar.uuid)
        self.assertTrue(active.can_modify_io()[0])
        active.mem_config.desired = 4096
        active.update()
        self.assertEqual(before.memory_free - 2048, self.system().memory_free)


class DeleteLparTest(base.EmulatorTestCase):
    def test_delete_frees_slots_and_id(self):
        created = self.create(slots=base.GPUS)
        created.delete()
        self.assertIsNone(self.slot(base.GPUS[3]).part_uuid)
        self.assertIsNone(self.slot(base.GPUS[3]).part_name)
        self.assertEqual([], lpar.LPAR.search(self.adapter, name='vm1'))
        self.assertEqual(5, self.create('again', slots=base.GPUS).id)

    def test_delete_refuses_running_lpar_and_is_final(self):
        created = self.create()
        self.control.set_partition('vm1', state='running')
        created = self.read(created.uuid)
        self.assert_refused(500, "in the state 'running'", created.delete)
        self.control.set_partition('vm1', state='not activated')
        created.refresh().delete()
        for function in (created.update, created.delete):
            with self.assertRaises(exceptions.HttpNotFound):
                function()
