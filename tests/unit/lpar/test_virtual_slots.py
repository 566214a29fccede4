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

"""The virtual slots of ports and volumes: kept, chosen, or refused."""

import dataclasses
import unittest

import ddt

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import steps
from nova_powervm.lpar import storage
from nova_powervm.lpar import virtual_slots
from nova_powervm.lpar import volumes
from tests.unit.lpar import plan_values as values

MACS = {number: values.port(number).mac for number in range(1, 5)}
#: Two volumes that are connected by two servers.
A, B, C = (volumes.Volume(name, 'any') for name in 'abc')
RECORD = {
    MACS[1]: 2,
    MACS[2]: 49,
    'a@0': 66,
    'a@1': 67,
    'b@0': 64,
    'b@1': 65,
}


def ports(*numbers):
    """Return ports of an instance."""
    return tuple(map(values.port, numbers))


def adapter(number, slot):
    """Return an adapter that an LPAR has."""
    return values.Adapter(MACS[number], slot=slot)


def made_slots(made):
    """Return number of the port -> slot, of the adapters that are made."""
    return {
        int(connection.port.id.removeprefix('port')): connection.slot
        for step in made.steps
        if isinstance(step, steps.CreateAdapters)
        for connection in step.connections
    }


def connected(made):
    """Return the volumes that a plan connects."""
    (chosen,) = (
        step.volumes
        for step in made.steps
        if isinstance(step, steps.ConnectVolumes)
    )
    return chosen


def decide(operation, lpar=None, *, missing=(), limit=128, **changes):
    """Plan an operation whose LPAR has recorded slots.

    :param missing: Numbers of the ports without an adapter.
    :param limit: How many virtual slots a new LPAR gets.
    :param changes: What is wanted; ``present`` and ``surplus`` adapters; and
        ``more`` parts of the host.
    """
    present = changes.pop('present', ())
    surplus = changes.pop('surplus', ())
    host = values.parts(
        lpar,
        adapters=network_ports.Changes(
            surplus, values.changes(missing=missing).connections, present
        ),
        **changes.pop('more', {}),
    )
    described = values.wanted(
        **{
            'virtual_slots': RECORD,
            'ports': ports(*missing),
            'pool_is_current': True,
            **changes,
        }
    )
    made, _ = values.survey(operation, described, host, virtual_slots=limit)
    return made


@ddt.ddt
class NewLparTest(unittest.TestCase):
    """An LPAR that is made anew."""

    @ddt.named_data(
        ['unshelve_or_rebuild', operations.SPAWN],
        ['move', operations.ARRIVAL],
        ['loss', operations.HARD_REBOOT],
        ['revert', operations.RETURN],
    )
    def test_devices_have_the_slots_on_record_after(self, operation):
        made = decide(operation, missing=(2, 1), volumes=(A, B))

        self.assertEqual({1: 2, 2: 49}, made_slots(made))
        if operation is not operations.RETURN:
            self.assertEqual(
                {'a': {0: 66, 1: 67}, 'b': {0: 64, 1: 65}},
                {volume.id: volume.slots for volume in connected(made)},
            )

    def test_host_numbers_the_first_adapters(self):
        made = decide(operations.SPAWN, missing=(1, 2), virtual_slots={})

        self.assertEqual({1: None, 2: None}, made_slots(made))

    def test_port_that_is_not_on_record_takes_no_slot_of_others(self):
        record = {MACS[1]: 16, MACS[4]: 20}
        made = decide(operations.ARRIVAL, missing=(2, 1), virtual_slots=record)

        self.assertEqual({1: 16, 2: 21}, made_slots(made))

    def test_ports_beside_one_on_record_take_no_slot_of_a_disk(self):
        made = decide(
            operations.SPAWN,
            missing=range(1, 21),
            virtual_slots={MACS[1]: 47},
        )
        slots = made_slots(made)

        self.assertEqual(47, slots.pop(1))
        self.assertEqual({*range(2, 6), *range(16, 31)}, {*slots.values()})

    def test_volumes_that_are_not_on_record_have_the_order_of_nova(self):
        names = ('/dev/sdaa', '/dev/sdc', '/dev/sdb', '/dev/sdz')
        data = [volumes.Volume(name, 'any', device=name) for name in names]
        boot = volumes.Volume('v', 'any', is_boot=True, device='/dev/sdzz')
        made = decide(operations.SPAWN, volumes=(*data, boot), root=None)

        self.assertEqual(
            ['v', '/dev/sdb', '/dev/sdc', '/dev/sdz', '/dev/sdaa'],
            [volume.id for volume in connected(made)],
        )

    def test_volume_avoids_the_slots_of_the_other_devices(self):
        made = decide(
            operations.SPAWN,
            missing=(2,),
            volumes=(C, A),
            virtual_slots=RECORD,
        )
        # The second one is gone.
        self.assertEqual(
            {'a': {49}, 'c': {49, 66, 67}},
            {volume.id: {*volume.avoided} for volume in connected(made)},
        )

    def test_volume_gets_the_slot_of_one_that_is_gone(self):
        record = {'gone@0': 63, 'gone@1': 62}
        for operation in (operations.SPAWN, operations.ATTACH_VOLUME):
            made = decide(
                operation, values.lpar(), volumes=(A,), virtual_slots=record
            )
            (volume,) = connected(made)
            self.assertEqual(63, volumes.choose_slot(volume, 0, 64, ()))
            self.assertEqual(62, volumes.choose_slot(volume, 1, 64, {63}))

    @ddt.named_data(
        ['port_beyond_the_end', {'missing': (2,), 'limit': 49}, '49 virtual'],
        ['volume_beyond_the_end', {'volumes': (A,), 'limit': 64}, '64 virt'],
        [
            'disk_at_the_place',
            {'missing': (2,), 'blanks': (values.EPHEMERAL,)},
            'another device of the server has it',
        ],
        [
            'config_drive_at_the_place',
            {
                'missing': (1,),
                'virtual_slots': {MACS[1]: 60},
                'config_drive': True,
            },
            'another device of the server has it',
        ],
        [
            'two_devices_at_one_place',
            {
                'missing': (1, 2),
                'virtual_slots': dict.fromkeys((MACS[1], MACS[2]), 5),
            },
            'another device of the server has it',
        ],
    )
    def test_check_refuses_slot_that_cannot_be_had_with(self, changes, words):
        for operation in (operations.SPAWN, operations.ARRIVAL):
            with self.subTest(operation.name):
                text = values.refusal(decide(operation.as_check(), **changes))
                self.assertIn(words, text)
                self.assertIn('attach it again', text)
        # Its guest is gone, and Nova lets nobody detach anything.
        made = decide(operations.SPAWN, **changes)
        self.assertIsNone(made.refusal)
        self.assertIn('and gets another one: ', str(made.remarks))

    @ddt.named_data(
        ['whose_server_has_another_number', {'a@0': 65, 'a@1': 65}],
        ['that_keeps_one_path', {'a@0': 63, 'a@1': 64}],
    )
    def test_check_accepts_volume(self, record):
        made = decide(
            operations.SPAWN.as_check(),
            volumes=(A,),
            virtual_slots=record,
            limit=64 if 64 in record.values() else 128,
        )

        self.assertIsNone(made.refusal)

    @ddt.data(
        operations.SPAWN,
        operations.ARRIVAL,
        operations.HARD_REBOOT,
        operations.RETURN,
    )
    def test_slot_changes_with_a_remark_after_the_loss_of(self, operation):
        made = decide(operation, missing=(1, 2), limit=49)

        self.assertEqual({1: 2, 2: 16}, made_slots(made))
        self.assertIn('port port2 had virtual slot 49', str(made.remarks))

    def test_port_gets_no_slot_of_a_disk(self):
        made = decide(
            operations.SPAWN,
            missing=(1, 2),
            virtual_slots={MACS[1]: 59, MACS[2]: 2},
            blanks=(values.SWAP,),
        )

        self.assertEqual({1: 16, 2: 2}, made_slots(made))

    def test_boot_volume_may_have_the_slot_of_a_root_disk(self):
        boot = dataclasses.replace(A, is_boot=True)
        made = decide(
            operations.SPAWN,
            volumes=(boot,),
            root=None,
            virtual_slots={'a@0': 48, 'a@1': 32},
        )

        self.assertEqual({0: 48, 1: 32}, connected(made)[0].slots)

    def test_users_are_told_neither_options_nor_hosts(self):
        for changes in ({'missing': (2,)}, {'volumes': (A,)}):
            made = decide(operations.SPAWN.as_check(), limit=10, **changes)
            text = made.refusal.summary
            self.assertNotIn('powervm]', text)
            self.assertIn('attach it again', text)
            self.assertLess(len(text), 255)


class PresentLparTest(unittest.TestCase):
    """An LPAR that gets further devices."""

    def test_port_is_attached_below_the_disks(self):
        for present, expected in (
            ((), 16),
            ((adapter(1, 2), adapter(2, 17)), 18),
            ((adapter(1, 31), adapter(2, 16)), 17),
        ):
            with self.subTest(present):
                made = decide(
                    operations.ATTACH_PORT,
                    values.lpar(),
                    missing=(3,),
                    surplus=present,
                    present=present,
                    virtual_slots={},
                )
                self.assertEqual({3: expected}, made_slots(made))

    def test_port_gets_no_slot_that_is_on_record_for_another(self):
        made = decide(
            operations.ATTACH_PORT,
            values.lpar(),
            missing=(3,),
            virtual_slots={MACS[4]: 16},
        )

        self.assertEqual({3: 17}, made_slots(made))

    def test_host_chooses_when_all_others_are_taken(self):
        present = tuple(
            values.Adapter(f'mac{slot}', slot=slot) for slot in range(16, 32)
        )
        made = decide(
            operations.ATTACH_PORT,
            values.lpar(),
            missing=(3,),
            present=present,
        )

        self.assertEqual({3: None}, made_slots(made))

    def test_lost_adapter_comes_back_to_its_slot(self):
        for present, expected in (((), 49), ((adapter(1, 49),), 16)):
            made = decide(
                operations.START,
                values.lpar(),
                missing=(2,),
                present=present,
            )
            self.assertEqual({2: expected}, made_slots(made))

    def test_lost_adapter_takes_no_slot_of_storage(self):
        for slot, limit in ((66, 64), (64, 128), (48, 128), (49, 128)):
            with self.subTest(slot):
                made = decide(
                    operations.START,
                    values.lpar(virtual_slots=limit),
                    missing=(2,),
                    virtual_slots={MACS[2]: slot},
                    more={
                        'mappings': [
                            storage.unit_name(values.LPAR, role)
                            for role in 'r0'
                        ],
                        'volumes': {'a': volumes.Connected(slots={0: 64})},
                    },
                )
                self.assertEqual({2: 16}, made_slots(made))
                self.assertIn(f'had virtual slot {slot}', str(made.remarks))

    def test_adapter_on_another_network_comes_to_the_slot_of_the_old(self):
        old = adapter(3, 7)
        made = decide(
            operations.START,
            values.lpar(),
            missing=(3,),
            surplus=(old,),
            present=(old,),
        )

        self.assertEqual({3: 7}, made_slots(made))

    def test_volume_is_attached_where_no_adapter_is(self):
        made = decide(
            operations.ATTACH_VOLUME,
            values.lpar(),
            volumes=(A,),
            virtual_slots={MACS[1]: 65, 'a@0': 64},
        )
        (volume,) = connected(made)

        self.assertEqual(
            (64, 66),
            (
                volumes.choose_slot(volume, 0, 128, ()),
                volumes.choose_slot(volume, 1, 128, {64}),
            ),
        )
        # It was attached elsewhere meanwhile.
        self.assertEqual(66, volumes.choose_slot(volume, 0, 128, {64}))

    def test_rescue_without_room_for_its_disks_is_refused(self):
        for slot, has_room in ((49, False), (61, False), (2, True)):
            made = decide(
                operations.RESCUE,
                values.lpar(state=values.RUNNING),
                ports=ports(1),
                virtual_slots={MACS[1]: slot},
                more={
                    'mappings': [
                        storage.disk_name(values.LPAR, storage.ROOT),
                        storage.config_drive_name(values.LPAR),
                    ]
                },
                config_drive=True,
            )
            if has_room:
                self.assertIsNone(made.refusal)
            else:
                self.assertIn(
                    f'port port1 has virtual slot {slot}, which its disks '
                    'need meanwhile. Detach the port, and attach it again',
                    values.refusal(made),
                )


class KeysTest(unittest.TestCase):
    def test_keys_fit_into_a_column_of_nova(self):
        slots = virtual_slots.of_volume(values.INSTANCE, {0: 64, 1: 65})

        self.assertEqual([64, 65], [*slots.values()])
        for key in slots:
            self.assertEqual(values.INSTANCE, virtual_slots.owner_of(key))
        self.assertEqual(MACS[1], virtual_slots.owner_of(MACS[1]))


class LossTest(unittest.TestCase):
    """What users read of a slot that is lost."""

    def test_nova_keeps_all_of_refusal(self):
        volume = volumes.Volume('v' * 36, '')
        loss = virtual_slots.Loss(volume, 130, 'another one has it')

        # 48 characters are those of the id of the request.
        self.assertLessEqual(len(loss.refusal.summary), 190 - 48)
        self.assertTrue(loss.refusal.summary.endswith('slot 130.'))


class NumberTest(unittest.TestCase):
    """How many ports have slots that are not for disks or volumes."""

    CONNECTIONS = tuple(
        network_ports.Connection(
            network_ports.Port(f'port{number}', f'mac{number}', 'any')
        )
        for number in range(40)
    )

    def test_new_port_beyond_them_is_refused(self):
        recorded = [f'mac{number}' for number in range(28)]

        virtual_slots.check_number(self.CONNECTIONS[:29], recorded)
        for connections, present in (
            (self.CONNECTIONS[:30], 0),
            (self.CONNECTIONS[28:30], 28),
        ):
            with self.subTest(present=present):
                self.assertRaisesRegex(
                    exception.PortRefused,
                    'Port port29 .* it would be port 30',
                    virtual_slots.check_number,
                    connections,
                    recorded,
                    present,
                )

    def test_server_that_has_more_stays_as_it_is(self):
        recorded = [f'mac{number}' for number in range(40)]

        virtual_slots.check_number(self.CONNECTIONS, recorded)
        virtual_slots.check_number(self.CONNECTIONS[39:], recorded, 39)
