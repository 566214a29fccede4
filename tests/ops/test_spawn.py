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

"""Spawn: an LPAR is made with all that its instance has, or not at all."""

import dataclasses

import ddt

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import spec
from nova_powervm.powervm import partitions
from tests import proofs
from tests.ops import base

SPAWN = operations.SPAWN
NOT_PLUGGED = exception.PortsNotPlugged(
    ports='port1', seconds=1, reason='no event'
)


class SpawnTest(base.HostTestCase):
    def test_spawn_with_two_slots_and_one_one_time_use_device(self):
        self.spawn(
            slots=(
                base.slot(base.GPU, one_time_use=True),
                base.slot(base.NVME),
            ),
            blanks=(base.EPHEMERAL, base.SWAP),
            config_drive=True,
        )

        self.assert_lpar(slots=[base.GPU, base.NVME], disks='r0si')
        self.assertEqual({base.GPU}, self.burned())

    def test_lpar_is_made_in_order_of_cost(self):
        self.spawn(slots=(base.slot(base.GPU),), config_drive=True)

        self.assertEqual(
            [
                'POST VolumeGroup.update',
                'PUT File.create',
                'PUT File.upload',
                'DELETE File.delete',
                # The repository and the medium.
                'POST VolumeGroup.update',
                'PUT File.create',
                'PUT File.upload',
                'DELETE File.delete',
                'PUT LogicalPartition.create',
                'PUT ClientNetworkAdapter.create',
                'POST VirtualIOServer.update',
                'PowerOn',
                'DELETE Job.delete',
            ],
            self.changes(),
        )

    def test_lpar_has_sizes_of_flavor_and_name_of_instance(self):
        self.spawn(
            settings=lpar_settings.FlavorSettings(1536, 3, 0.25), name='vm1'
        )

        lpar = self.lpar(base.NAME)
        self.assertEqual(1536, lpar['memory'])
        self.assertEqual(0.75, lpar['processor_units'])
        found = self.partitions.find(self.describe().lpar_uuid)
        self.assertEqual(3, found.settings.vcpus)

    def test_instance_without_slots_ports_and_power_stays_off(self):
        self.spawn(ports=(), power_on=False)

        self.assert_lpar(base.OFF, ports=())
        self.assertEqual([], self.jobs)

    def test_adapters_and_mappings_are_made_while_ports_are_plugged(self):
        notes = []

        class Plugging:
            def __enter__(plugging):
                notes.extend(self.changes())

            def __exit__(plugging, *_):
                notes.append('plugged')
                notes.extend(self.changes())

        self.run_plan(SPAWN, self.describe(), plugging=Plugging)

        before, after = notes[: notes.index('plugged')], notes
        self.assertEqual('PUT LogicalPartition.create', before[-1])
        self.assertEqual('POST VirtualIOServer.update', after[-1])
        self.assert_lpar()

    def test_ports_that_are_not_plugged_in_time_leave_nothing(self):
        class Plugging:
            def __enter__(self):
                pass

            def __exit__(self, *_):
                raise NOT_PLUGGED

        self.failed(
            exception.PortsNotPlugged,
            SPAWN,
            self.describe(),
            plugging=Plugging,
        )

        self.assert_nothing_left()


@ddt.ddt
class RefusedSpawnTest(base.HostTestCase):
    """What is refused changes nothing, and says why."""

    def refuse(self, error, *words, **fields):
        self.refused(error, SPAWN, self.describe(**fields), *words)
        self.assertIsNone(self.lpar())

    @proofs.proves('D78')
    def test_slot_of_another_partition_is_refused(self):
        self.give(base.GPU, 'archive')
        self._others = self._state_of_others()

        self.refuse(
            exception.ClaimFailed,
            'slot 21010020 was allocated to it but it cannot be used: it is '
            'owned by partition archive',
            slots=(base.slot(base.NVME), base.slot(base.GPU)),
        )

    def test_empty_slot_is_refused(self):
        self.control.pull(f'{base.GPU:08X}')

        self.refuse(
            exception.ClaimFailed,
            'the slot is empty',
            slots=(base.slot(base.GPU),),
        )

    def test_slot_that_is_gone_is_refused(self):
        self.control.pull(f'{base.GPU:08X}', remove=True)

        self.refuse(
            exception.ClaimFailed,
            'the host does not report it',
            slots=(base.slot(base.GPU),),
        )

    def test_slot_of_vios_is_refused(self):
        self.refuse(
            exception.ClaimFailed,
            'owned by VIOS vios1',
            slots=(base.slot(base.emulator_base.VIOS_SLOT),),
        )

    def test_slot_of_unusable_accelerator_request_is_refused(self):
        self.control.pull(f'{base.GPU:08X}')
        wanted = claims.Claim(
            'cyborg', base.GPU, claims.Source.ACCELERATOR, 'arq1'
        )

        self.refuse(
            exception.AcceleratorRefused,
            'accelerator request arq1 provides slot 21010020',
            slots=(spec.WantedSlot(wanted),),
        )

    def test_accelerator_request_for_device_of_nova_is_refused(self):
        wanted = dataclasses.replace(base.slot(base.GPU), refusal='it is ours')

        self.refuse(
            exception.AcceleratorRefused, 'it is ours', slots=(wanted,)
        )

    def test_one_time_use_device_that_is_not_allocated_is_refused(self):
        self.placement.allocated = [base.provider(base.NVME)]

        self.refuse(
            exception.ClaimFailed,
            'slot 21010020 has a one-time-use device that Placement does not '
            'allocate to it',
            slots=(base.slot(base.GPU, one_time_use=True),),
        )
        self.assertEqual(set(), self.burned())

    def test_silent_placement_refuses_one_time_use_device(self):
        self.placement.silent = {'allocations'}

        self.refuse(
            exception.ClaimFailed,
            '503',
            slots=(base.slot(base.GPU, one_time_use=True),),
        )

    def test_memory_size_names_next_sizes(self):
        self.refuse(
            exception.MemorySizeRefused,
            '768 or 1024',
            settings=lpar_settings.FlavorSettings(1000, 1, 0.5),
        )

    def test_too_few_processing_units_are_refused(self):
        self.refuse(
            exception.ProcessorsRefused,
            settings=lpar_settings.FlavorSettings(1024, 2, 0.01),
        )

    @ddt.named_data(
        ['vif type', {'vif_type': 'ovs'}, "its VIF type is 'ovs'"],
        ['failed binding', {'vif_type': 'binding_failed'}, 'could not bind'],
        ['vnic type', {'vnic_type': 'direct'}, 'vnic_type is direct'],
    )
    def test_port_is_refused(self, change, words):
        port = dataclasses.replace(base.PORT, **change)

        self.refuse(exception.PortRefused, words, ports=(base.PORT2, port))

    def test_port_of_vlan_that_no_bridge_may_get_is_refused(self):
        self.start_service(provision_vlans=False)

        self.refuse(
            exception.PortRefused,
            'does not carry VLAN 9',
            ports=(dataclasses.replace(base.PORT, vlan=9),),
        )

    def test_running_lpar_is_kept(self):
        wanted = self.spawn(slots=(base.slot(base.GPU),))

        self.refused(exception.PartitionConflict, SPAWN, wanted, 'is running')

        self.assert_lpar(slots=[base.GPU])


class RemainsTest(base.HostTestCase):
    """What an interrupted build left is made anew."""

    def test_spawn_replaces_stopped_lpar_with_disks_and_mappings(self):
        wanted = self.spawn(
            slots=(base.slot(base.GPU),),
            blanks=(base.SWAP,),
            config_drive=True,
        )
        self.set_state(base.OFF)
        before = self.lpar()['id'], self.stored()['r']['udid']

        self.run_plan(SPAWN, wanted)

        self.assert_lpar(slots=[base.GPU], disks='rsi')
        self.assertNotEqual(before[1], self.stored()['r']['udid'])

    def test_spawn_replaces_disks_without_lpar(self):
        wanted = self.spawn(
            slots=(base.slot(base.GPU),), blanks=(base.EPHEMERAL, base.SWAP)
        )
        self.set_state(base.OFF)
        self.partitions.delete(wanted.lpar_uuid)
        before = self.stored()

        self.run_plan(SPAWN, wanted)

        self.assert_lpar(slots=[base.GPU], disks='r0s')
        for role, disk in self.stored().items():
            self.assertNotEqual(before[role]['udid'], disk['udid'])

    def test_disks_without_lpar_are_removed_with_their_instance(self):
        wanted = self.spawn(blanks=(base.EPHEMERAL, base.SWAP))
        self.set_state(base.OFF)
        self.partitions.delete(wanted.lpar_uuid)

        self.removals.destroy(base.INSTANCE)

        self.assert_nothing_left()

    def test_lpar_that_the_plan_found_off_and_that_lost_its_slot(self):
        wanted = self.spawn(slots=(base.slot(base.GPU),))
        self.set_state(base.OFF)
        self.give(base.GPU, None)

        self.run_plan(SPAWN, wanted)

        self.assert_lpar(slots=[base.GPU])


class FailedSpawnTest(base.HostTestCase):
    """A spawn that fails leaves nothing, and quotes the host."""

    def test_failed_start_removes_everything(self):
        self.control.plan_job('PowerOn', 'HSCL0000 no power')

        self.failed(
            exception.RestError,
            SPAWN,
            self.describe(slots=(base.slot(base.GPU),), config_drive=True),
            'HSCL0000 no power',
        )

        self.assert_nothing_left()

    @proofs.proves('D78', 'device.passthrough.slot')
    def test_host_that_drops_slots_is_noticed(self):
        write = partitions.RestPartitions.write

        def lossy(found, wanted, before_write, *, creates):
            return write(
                found,
                dataclasses.replace(wanted, slots=()),
                before_write,
                creates=creates,
            )

        with base.unittest.mock.patch.object(
            partitions.RestPartitions, 'write', lossy
        ):
            self.failed(
                exception.DocumentDiffers,
                SPAWN,
                self.describe(slots=(base.slot(base.GPU),)),
                'slot 21010020 is missing',
            )

        self.assert_nothing_left()

    def test_slot_taken_after_the_disks_were_made_burns_nothing(self):
        wanted = self.describe(slots=(base.slot(base.GPU, one_time_use=True),))

        def image():
            self.give(base.GPU, 'archive')
            self._others = self._state_of_others()
            yield base.DATA

        self.failed(
            exception.ClaimFailed, SPAWN, wanted, 'archive', image=image
        )

        self.assert_nothing_left()
        self.assertEqual(set(), self.burned())

    def test_lpar_with_address_of_port_elsewhere_leaves_nothing(self):
        other = network_ports.Port(
            'other', base.PORT.mac, 'pvm_sea', vlan=base.VLAN
        )
        self.make_adapter('archive', other)
        self._others = self._state_of_others()

        self.failed(exception.RestError, SPAWN, self.describe(), base.PORT.mac)

        self.assert_nothing_left()
