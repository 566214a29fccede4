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

from pypowervm import exceptions
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import http_error
from pypowervm.wrappers import logical_partition as lpar

from tests.emulator import base

UUID = '10E1F2A3-0000-4000-8000-00000000000A'


class CreateLparTest(base.EmulatorTestCase):
    def test_create_keeps_requested_uuid_and_id(self):
        created = self.create(uuid=UUID.lower(), id=77)
        self.assertEqual(UUID, created.uuid)
        self.assertEqual(77, created.id)
        read = self.read(UUID)
        self.assertEqual(UUID, read.uuid)
        self.assertEqual(UUID, read.partition_uuid)

    def test_create_generates_uuid_and_id(self):
        created = self.create()
        self.assertEqual(5, created.id)
        self.assertIn(created.uuid[0], '01234567')
        self.assertEqual(created.uuid.upper(), created.uuid)

    def test_create_fills_in_state_and_defaults(self):
        created = self.create()
        self.assertEqual('not activated', created.state)
        self.assertEqual('inactive', created.rmc_state)
        self.assertEqual('AIX/Linux', created.env)
        self.assertEqual('00000000', created.ref_code)
        self.assertEqual('Unknown', created.operating_system)
        self.assertEqual('Not_Migrating', created.migration_state)
        self.assertEqual('POWER9', created.proc_compat_mode)
        self.assertFalse(created.is_mgmt_partition)
        self.assertFalse(created.capabilities.io_dlpar)
        self.assertEqual(2048, created.mem_config.desired)
        self.assertEqual(self.system().uuid, created.assoc_sys_uuid)

    def test_create_shows_current_shared_processors(self):
        created = self.create()
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
        self.assertEqual(0x10DE, first.pci_vendor_id)
        self.assertEqual(0x1DB6, first.pci_dev_id)
        self.assertEqual(self.slot(base.GPUS[0]).drc_name, first.drc_name)
        for drc_index in base.GPUS[:2]:
            owned = self.slot(drc_index)
            self.assertEqual(created.uuid, owned.part_uuid)
            self.assertEqual(created.id, owned.part_id)
            self.assertEqual('vm1', owned.part_name)
            self.assertEqual('AIX/Linux', owned.part_type)

    def test_create_keeps_slot_not_required(self):
        created = self.create(slots=base.GPUS[:1], required=False)
        self.assertFalse(created.io_config.io_slots[0].required)

    def test_create_without_slots_assigns_none(self):
        self.assertEqual([], list(self.create().io_config.io_slots))

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
        self.assertEqual(7, results.count(409))
        (winner,) = set(results) - {409}
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

    def test_create_refuses_unknown_slot(self):
        self.refuse(
            409, 'no I/O slot with the DRC index 2101FFFF', slots=[0x2101FFFF]
        )

    def test_create_refuses_slot_of_vios(self):
        self.refuse(409, "owned by.*'vios1'", slots=[base.VIOS_SLOT])

    def test_create_refuses_slot_of_another_lpar(self):
        self.create('first', slots=base.GPUS[:1])
        self.refuse(409, "21010020.*'first'", slots=base.GPUS[:1])

    def test_create_refuses_repeated_slot(self):
        self.refuse(
            409, '21010020 is named more than once', slots=[base.GPUS[0]] * 2
        )

    def test_create_refuses_slot_in_sriov_mode(self):
        self.refuse(409, '21010023.*SR-IOV mode', slots=[base.SRIOV])

    def test_create_refuses_unassignable_slot(self):
        self.control.plug('21010050', {'assignable': False})
        self.refuse(409, '21010050.*not assignable', slots=[0x21010050])
        path = 'RelatedIOAdapter/IOAdapter/LogicalPartitionAssignmentCapable'
        shown = self.slot(0x21010050).element
        self.assertEqual('false', shown.findtext(path))
        self.assertIsNone(self.slot(base.GPUS[0]).element.findtext(path))

    def test_create_accepts_slot_that_became_assignable(self):
        self.control.plug('21010050', {'assignable': False})
        self.control.plug(
            '21010050', {'assignable': True, 'description': 'GPU'}
        )
        self.create(slots=[0x21010050])

    def test_create_refuses_more_memory_than_installed(self):
        self.refuse(409, '262144 MB of memory .* asked for', memory=262144)

    def test_create_refuses_memory_of_partitions_that_are_off(self):
        # Less archive's 4096 MB, and what the hypervisor needs for each.
        free = self.system().memory_free - 4096 - 256
        self.create('first', memory=free - 2048 - 256 - 3584)
        self.refuse(409, '2304 MB .* and 2304 MB are free', memory=2304)
        self.create('second', memory=2048)

    def test_create_refuses_more_processor_units_than_free(self):
        self.refuse(
            409,
            '29 processor units .* and 28 are free',
            vcpu=29,
            proc_units=29,
        )

    def test_create_refuses_more_dedicated_processors_than_free(self):
        self.refuse(
            409,
            '29 processor units',
            vcpu=29,
            proc_units=None,
            dedicated_proc='true',
        )

    def test_create_refuses_memory_not_multiple_of_region(self):
        wrong = self.build()
        wrong.mem_config.desired = 2049
        wrong.mem_config.max = 4096
        wrong.mem_config.min = 256
        self.assert_refused(400, '2049 MB .* not a multiple', wrong.create)

    def test_create_refuses_minimum_memory_above_desired(self):
        wrong = self.build()
        wrong.mem_config.min = 4096
        self.assert_refused(400, 'not in order', wrong.create)

    def test_create_refuses_minimum_processors_above_desired(self):
        wrong = self.build()
        wrong.proc_config.shared_proc_cfg.min_virtual = 4
        self.assert_refused(400, 'not in order', wrong.create)

    def test_create_refuses_too_few_processor_units(self):
        self.refuse(400, '0.05 processor units', vcpu=2, proc_units=0.05)

    def test_create_refuses_name_of_another_lpar(self):
        self.refuse(409, "'database' is in use", name='database')

    def test_create_refuses_name_of_vios(self):
        self.refuse(409, "'vios1' is in use", name='vios1')

    def test_create_refuses_name_over_31_characters(self):
        wrong = self.build()
        wrong.name = 'x' * 32
        self.assert_refused(400, '1 to 31 characters', wrong.create)

    def test_create_refuses_id_in_use(self):
        self.refuse(409, "id 3 is in use by 'database'", id=3)

    def test_create_refuses_uuid_in_use(self):
        self.create('first', uuid=UUID)
        self.refuse(409, f'uuid {UUID} exists', uuid=UUID)

    def test_create_refuses_uuid_with_top_bit_set(self):
        wrong = self.build()
        wrong.set_parm_value('PartitionUUID', 'F' + UUID[1:])
        self.assert_refused(400, 'most significant bit', wrong.create)

    def test_create_refuses_unknown_compatibility_mode(self):
        wrong = self.build()
        wrong.set_parm_value('PendingProcessorCompatibilityMode', 'POWER10')
        self.assert_refused(400, 'POWER10', wrong.create)

    def test_create_refuses_vios_as_lpar(self):
        wrong = self.build()
        wrong.set_parm_value('PartitionType', 'Virtual IO Server')
        self.assert_refused(400, 'Virtual IO Server', wrong.create)

    def test_refusal_body_is_http_error_entry(self):
        error = self.refuse(409, '.', slots=[0x2101FFFF])
        wrapper = http_error.HttpError.wrap(error.response)
        self.assertEqual(409, wrapper.status)
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

    def test_update_changes_memory(self):
        self.lpar.mem_config.desired = 4096
        self.lpar.mem_config.max = 8192
        updated = self.lpar.update()
        self.assertEqual(4096, updated.mem_config.desired)
        self.assertEqual(4096, self.read(self.lpar.uuid).mem_config.desired)
        current = updated.element.find('PartitionMemoryConfiguration')
        self.assertEqual('4096', current.findtext('CurrentMemory'))
        self.assertEqual('not activated', updated.state)

    def test_update_refuses_more_memory_than_free(self):
        self.lpar.mem_config.desired = 262144
        self.lpar.mem_config.max = 262144
        self.assert_refused(409, 'MB of memory', self.lpar.update)

    def test_update_accepts_memory_within_own_share(self):
        # Less archive's 4096 MB, and what the hypervisor needs for each.
        free = self.system().memory_free - 4096 - 256
        self.lpar.mem_config.desired = free - 4352
        self.lpar.mem_config.max = 262144
        self.lpar.update()

    def test_rename_shows_in_slot_owner(self):
        self.lpar.name = 'other'
        self.lpar.update()
        self.assertEqual('other', self.slot(base.GPUS[0]).part_name)

    def test_rename_refuses_name_in_use(self):
        self.lpar.name = 'database'
        self.assert_refused(409, 'in use', self.lpar.update)

    def test_update_attaches_free_slot(self):
        slots = self.lpar.io_config.io_slots
        slots.append(bp.IOSlot.bld(self.adapter, False, base.NVME))
        updated = self.lpar.update()
        self.assertEqual(
            [base.GPUS[0], base.NVME],
            [slot.drc_index for slot in updated.io_config.io_slots],
        )
        self.assertIn('NVMe', updated.io_config.io_slots[1].description)
        self.assertEqual('vm1', self.slot(base.NVME).part_name)

    def test_update_refuses_slot_of_another_lpar(self):
        slots = self.lpar.io_config.io_slots
        slots.append(bp.IOSlot.bld(self.adapter, False, base.FOREIGN_SLOT))
        self.assert_refused(409, 'database', self.lpar.update)
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
        self.assert_refused(409, 'memory.*no active RMC', active.update)
        active = self.read(self.lpar.uuid)
        active.io_config.io_slots = []
        self.assert_refused(409, 'I/O slots.*no active RMC', active.update)
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

    def test_update_of_deleted_lpar_is_not_found(self):
        self.lpar.delete()
        with self.assertRaises(exceptions.HttpNotFound):
            self.lpar.update()


class DeleteLparTest(base.EmulatorTestCase):
    def test_delete_frees_slots_and_id(self):
        created = self.create(slots=base.GPUS)
        created.delete()
        self.assertIsNone(self.slot(base.GPUS[3]).part_uuid)
        self.assertIsNone(self.slot(base.GPUS[3]).part_name)
        self.assertEqual([], lpar.LPAR.search(self.adapter, name='vm1'))
        self.assertEqual(5, self.create('again', slots=base.GPUS).id)

    def test_delete_refuses_running_lpar(self):
        created = self.create()
        self.control.set_partition('vm1', state='running')
        created = self.read(created.uuid)
        self.assert_refused(409, "in the state 'running'", created.delete)

    def test_second_delete_is_not_found(self):
        created = self.create()
        created.delete()
        with self.assertRaises(exceptions.HttpNotFound):
            created.delete()
