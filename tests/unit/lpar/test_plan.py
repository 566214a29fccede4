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

"""The cells of the table of operations: what each row may do to an LPAR."""

import unittest

import ddt

from nova_powervm.devices import slots
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import steps
from nova_powervm.lpar import storage
from tests.unit.lpar import plan_values as values
from tests.unit.lpar.plan_values import FOREIGN
from tests.unit.lpar.plan_values import GPU
from tests.unit.lpar.plan_values import MOVED
from tests.unit.lpar.plan_values import OFF
from tests.unit.lpar.plan_values import ONCE
from tests.unit.lpar.plan_values import RUNNING
from tests.unit.lpar.plan_values import decide
from tests.unit.lpar.plan_values import lpar
from tests.unit.lpar.plan_values import wanted
from tests.unit.lpar.plan_values import words

SMALL = partition.Sizes(1024, 2, 1.0)
NOT_FOUND = 'PartitionNotFound'
REFUSED = 'PartitionNotStartable'
CONFLICT = 'PartitionConflict'
DIFFER = 'SlotsDiffer'
DISCONNECTED = 'DiskNotConnected'
IN_USE = 'DiskInUse'


@ddt.ddt
class CreationTest(unittest.TestCase):
    """The column "creates the LPAR"."""

    @ddt.named_data(
        ['spawn makes it', operations.SPAWN, 'root write map start'],
        ['arrival makes it', operations.ARRIVAL, 'keep write map start'],
        ['departure is refused', operations.DEPARTURE, NOT_FOUND],
        ['resize is refused', operations.RESIZE, NOT_FOUND],
        ['return makes it', operations.RETURN, 'keep write map start'],
        ['start is refused', operations.START, NOT_FOUND],
        ['soft reboot is refused', operations.SOFT_REBOOT, NOT_FOUND],
        [
            'hard reboot makes it',
            operations.HARD_REBOOT,
            'keep write map start',
        ],
        ['attachment is refused', operations.ATTACH_PORT, NOT_FOUND],
        ['detachment is harmless', operations.DETACH_PORT, 'detach'],
        ['plugging is refused', operations.PLUG_PORTS, NOT_FOUND],
    )
    def test_absent_lpar(self, row, expected):
        made = decide(
            row,
            wanted(ports=(values.port(),)),
            adapters=values.changes(missing=[1])
            if row not in values.carried_out()
            else values.changes(),
        )

        self.assertEqual(expected, words(made))

    @ddt.data(operations.RETURN, operations.HARD_REBOOT)
    def test_lpar_without_disks_is_not_made_again(self, row):
        self.assertEqual(NOT_FOUND, words(decide(row, wanted(), disks=())))
        self.assertEqual(
            NOT_FOUND, words(decide(row, wanted(), has_pool=False))
        )
        self.assertEqual(
            NOT_FOUND, words(decide(row, wanted(pool_is_current=False)))
        )

    def test_hard_reboot_of_lost_lpar_grows_its_disk(self):
        made = decide(operations.HARD_REBOOT, wanted(grow_root_gb=20))

        self.assertEqual('keep write map grow start', words(made))
        self.assertIn('there is none on this host', made.remarks[0])

    @ddt.named_data(
        ['spawn deletes disks, too', operations.SPAWN, True],
        ['arrival keeps disks', operations.ARRIVAL, False],
    )
    def test_remains_of_build(self, row, deletes):
        made = decide(row, wanted(), lpar())

        self.assertEqual(steps.RemoveRemains(deletes), made.steps[0])

    @ddt.data(*values.STATES)
    def test_build_spares_lpar_that_is_not_off(self, state):
        for row in (operations.SPAWN, operations.ARRIVAL):
            if state != OFF:
                self.assertEqual(
                    CONFLICT, words(decide(row, wanted(), lpar(state)))
                )

    def test_made_lpar_has_wanted_form(self):
        made = decide(operations.SPAWN, wanted(GPU, ONCE))

        self.assertTrue(made.makes)
        self.assertEqual(
            partition.PartitionSpec(
                values.LPAR,
                values.NAME,
                values.SIZES,
                tuple(map(partition.SlotAssignment, (GPU, ONCE))),
            ),
            made.document.spec,
        )
        self.assertEqual(
            tuple(map(values.claim_of, (GPU, ONCE))), made.document.added
        )
        self.assertEqual((values.claim_of(ONCE),), made.document.burns)

    def test_made_lpar_stays_off_if_wanted(self):
        made = decide(operations.ARRIVAL, wanted(power_on=False))

        self.assertEqual('keep write map', words(made))


@ddt.ddt
class StopTest(unittest.TestCase):
    """The column "stops the guest", in each state of the LPAR."""

    @ddt.named_data(
        [
            'departure stops it',
            operations.DEPARTURE,
            'stop',
            '',
            'stop',
            'stop',
            REFUSED,
        ],
        [
            'resize starts it',
            operations.RESIZE,
            '',
            'start',
            REFUSED,
            'stop start',
            REFUSED,
        ],
        [
            'return starts it',
            operations.RETURN,
            '',
            'start',
            '',
            'stop start',
            '',
        ],
        [
            'start starts it',
            operations.START,
            '',
            'start',
            REFUSED,
            'stop start',
            REFUSED,
        ],
        [
            'soft reboot restarts it',
            operations.SOFT_REBOOT,
            'restart',
            'start',
            'stop start',
            'stop start',
            REFUSED,
        ],
        [
            'hard reboot restarts it',
            operations.HARD_REBOOT,
            'restart',
            'start',
            'stop start',
            'stop start',
            REFUSED,
        ],
    )
    def test_lpar_that_is_right(self, row, *expected):
        found = [
            words(decide(row, wanted(), lpar(state)))
            for state in values.STATES
        ]

        self.assertEqual([*expected], found)

    @ddt.named_data(
        [
            'departure leaves gap',
            operations.DEPARTURE,
            'stop',
            '',
            'stop',
            'stop',
            REFUSED,
        ],
        [
            'resize stops for it',
            operations.RESIZE,
            'stop write start',
            'write start',
            REFUSED,
            'stop write start',
            REFUSED,
        ],
        [
            'return spares running guest',
            operations.RETURN,
            '',
            'write start',
            '',
            'stop write start',
            '',
        ],
        [
            'start spares running guest',
            operations.START,
            'SlotsMissing',
            'write start',
            REFUSED,
            'stop write start',
            REFUSED,
        ],
        [
            'soft reboot stops for it',
            operations.SOFT_REBOOT,
            'stop write start',
            'write start',
            'stop write start',
            'stop write start',
            REFUSED,
        ],
        [
            'hard reboot stops for it',
            operations.HARD_REBOOT,
            'stop write start',
            'write start',
            'stop write start',
            'stop write start',
            REFUSED,
        ],
    )
    def test_lpar_without_slot(self, row, *expected):
        found = [
            words(decide(row, wanted(), lpar(state, ())))
            for state in values.STATES
        ]

        self.assertEqual([*expected], found)

    @ddt.named_data(
        [
            'departure',
            operations.DEPARTURE,
            'stop',
            '',
            'stop',
            'stop',
            REFUSED,
        ],
        ['resize', operations.RESIZE, '', '', REFUSED, '', REFUSED],
        ['return', operations.RETURN, '', '', '', '', ''],
        ['start', operations.START, '', '', REFUSED, '', REFUSED],
    )
    def test_lpar_that_is_to_stay_off_is_not_started(self, row, *expected):
        found = [
            words(decide(row, wanted(power_on=False), lpar(state)))
            for state in values.STATES
        ]

        self.assertEqual([*expected], found)

    def test_resize_stops_running_lpar_that_is_to_stay_off(self):
        described = wanted(power_on=False)

        made = decide(operations.RESIZE, described, lpar(RUNNING, ()))

        self.assertEqual('stop write', words(made))

    @ddt.named_data(
        ['departure', operations.DEPARTURE, steps.Stop('it moves', 60)],
        ['soft reboot', operations.SOFT_REBOOT, steps.Restart(60)],
        ['hard reboot', operations.HARD_REBOOT, steps.Restart(60)],
    )
    def test_guest_gets_time_to_shut_down(self, row, expected):
        self.assertIn(expected, decide(row, wanted(), lpar(RUNNING)).steps)

    @ddt.named_data(
        ['soft reboot', operations.SOFT_REBOOT, 60],
        ['hard reboot', operations.HARD_REBOOT, 60],
        ['resize', operations.RESIZE, 0],
    )
    def test_guest_is_stopped_for_change(self, row, timeout):
        made = decide(row, wanted(), lpar(RUNNING, ()))

        self.assertEqual(steps.Stop('it changes', timeout), made.stop)

    @ddt.data(values.SUSPENDED, values.FAILED)
    def test_guest_that_cannot_shut_down_is_stopped_hard(self, state):
        made = decide(operations.SOFT_REBOOT, wanted(), lpar(state))

        self.assertEqual(0, made.stop.timeout)

    def test_return_says_that_it_leaves_running_lpar(self):
        made = decide(operations.RETURN, wanted(), lpar(RUNNING, ()))

        self.assertEqual(('it is running, and left as it is.',), made.remarks)


@ddt.ddt
class AddedSlotsTest(unittest.TestCase):
    """The column "adds slots (burns)"."""

    @ddt.named_data(
        ['spawn', operations.SPAWN, None],
        ['arrival', operations.ARRIVAL, None],
        ['resize', operations.RESIZE, OFF],
        ['return', operations.RETURN, OFF],
        ['start', operations.START, OFF],
        ['soft reboot', operations.SOFT_REBOOT, RUNNING],
        ['hard reboot', operations.HARD_REBOOT, RUNNING],
    )
    def test_missing_slots_are_added_and_burned(self, row, state):
        found = state and lpar(state, ())

        document = decide(row, wanted(GPU, ONCE), found).document

        self.assertEqual(
            tuple(map(values.claim_of, (GPU, ONCE))), document.added
        )
        self.assertEqual((values.claim_of(ONCE),), document.burns)
        self.assertEqual({GPU, ONCE}, document.spec.drc_indexes)

    def test_departure_adds_nothing(self):
        made = decide(operations.DEPARTURE, wanted(ONCE), lpar(OFF, ()))

        self.assertEqual((), made.steps)

    def test_owned_slot_is_not_burned_again(self):
        made = decide(operations.START, wanted(GPU, ONCE), lpar(OFF, (ONCE,)))

        self.assertEqual((values.claim_of(GPU),), made.document.added)
        self.assertEqual((), made.document.burns)

    def test_slot_that_is_not_required_is_assigned_anew(self):
        made = decide(operations.START, wanted(ONCE), lpar(OFF, {ONCE: False}))

        self.assertEqual('write start', words(made))
        self.assertEqual((), made.document.added)
        self.assertEqual((), made.document.burns)
        self.assertEqual(
            f'slot {ONCE:08X} is not required', made.document.reason
        )

    def test_lost_slots_are_remarked(self):
        made = decide(operations.START, wanted(), lpar(OFF, ()))

        self.assertEqual(
            ('it lacks the slots 21010020; assigning them again.',),
            made.remarks,
        )

    def test_slots_of_move_are_not_remarked(self):
        described = wanted(moved_slots=frozenset({GPU}))

        made = decide(operations.RESIZE, described, lpar(OFF, ()))

        self.assertEqual((), made.remarks)

    def test_check_of_rebuild_asks_whether_device_is_allocated(self):
        made = decide(operations.SPAWN.as_check(), wanted(ONCE), allocated=())

        self.assertEqual('ClaimFailed', words(made))

    @ddt.data(operations.ARRIVAL, operations.RESIZE)
    def test_check_of_move_burns_nothing(self, row):
        made = decide(
            row.as_check(),
            wanted(GPU, ONCE),
            None if row is operations.ARRIVAL else lpar(),
            allocated=(),
        )

        self.assertEqual((), made.document.burns)

    def test_duplicates_of_device_are_burned_with_it(self):
        duplicates = (values.claim_of(ONCE), values.claim_of(FOREIGN))
        described = wanted(slots=(values.slot(ONCE, burns=duplicates),))

        made = decide(operations.SPAWN, described)

        self.assertEqual(duplicates, made.document.burns)


@ddt.ddt
class FreedSlotsTest(unittest.TestCase):
    """The column "frees slots"."""

    @ddt.named_data(
        ['departure refuses it', operations.DEPARTURE, DIFFER],
        ['resize frees it', operations.RESIZE, 'write start'],
        ['return refuses it', operations.RETURN, DIFFER],
        ['start refuses it', operations.START, DIFFER],
        ['soft reboot refuses it', operations.SOFT_REBOOT, DIFFER],
        ['hard reboot frees it', operations.HARD_REBOOT, 'write start'],
    )
    def test_slot_of_move(self, row, expected):
        described = wanted(moved_slots=frozenset({MOVED}))

        made = decide(row, described, lpar(OFF, (GPU, MOVED)))

        self.assertEqual(expected, words(made))
        if made.document:
            self.assertEqual({MOVED}, made.document.spec.freed)
            self.assertEqual({GPU}, made.document.spec.drc_indexes)
            self.assertEqual((), made.document.added)

    def test_wanted_slot_of_move_stays(self):
        described = wanted(moved_slots=frozenset({GPU}))

        made = decide(operations.RESIZE, described, lpar())

        self.assertEqual('start', words(made))

    @ddt.data(
        operations.DEPARTURE,
        operations.RESIZE,
        operations.RETURN,
        operations.START,
        operations.SOFT_REBOOT,
        operations.HARD_REBOOT,
    )
    def test_slot_of_nobody_is_refused(self, row):
        described = wanted(moved_slots=frozenset({MOVED}))

        made = decide(row, described, lpar(OFF, (GPU, FOREIGN)))

        self.assertEqual(DIFFER, words(made))

    def test_return_leaves_running_lpar_with_slot_of_nobody(self):
        made = decide(
            operations.RETURN, wanted(), lpar(RUNNING, (GPU, FOREIGN))
        )

        self.assertEqual('', words(made))


@ddt.ddt
class SizesTest(unittest.TestCase):
    """The column "sizes"."""

    @ddt.named_data(
        ['departure leaves them', operations.DEPARTURE, ''],
        ['resize sets them', operations.RESIZE, 'write start'],
        ['return leaves them', operations.RETURN, 'start'],
        ['start leaves them', operations.START, 'start'],
        ['soft reboot leaves them', operations.SOFT_REBOOT, 'start'],
        ['hard reboot sets them', operations.HARD_REBOOT, 'write start'],
    )
    def test_row_treats_other_sizes(self, row, expected):
        made = decide(row, wanted(), lpar(sizes=SMALL))

        self.assertEqual(expected, words(made))
        if made.document:
            self.assertEqual(values.SIZES, made.document.spec.sizes)

    @ddt.data(operations.SPAWN, operations.ARRIVAL, operations.RETURN)
    def test_new_lpar_gets_sizes(self, row):
        made = decide(row, wanted())

        self.assertEqual(values.SIZES, made.document.spec.sizes)

    @ddt.data(operations.RETURN, operations.START, operations.SOFT_REBOOT)
    def test_slots_are_added_without_sizes(self, row):
        made = decide(row, wanted(), lpar(OFF, (), SMALL))

        self.assertIsNone(made.document.spec.sizes)

    def test_unknown_sizes_stay(self):
        made = decide(operations.RESIZE, wanted(sizes=None), lpar(sizes=SMALL))

        self.assertEqual('start', words(made))

    def test_change_keeps_name_of_lpar(self):
        found = lpar(sizes=SMALL)

        made = decide(operations.RESIZE, wanted(name='renamed'), found)

        self.assertEqual(values.NAME, made.document.spec.name)


@ddt.ddt
class AdaptersTest(unittest.TestCase):
    """The column "adapters": one belongs to no port, one is missing."""

    @ddt.named_data(
        [
            'spawn makes them',
            operations.SPAWN,
            None,
            'root prepare write plug map start',
        ],
        [
            'arrival makes them',
            operations.ARRIVAL,
            None,
            'keep prepare write plug map start',
        ],
        ['departure leaves them', operations.DEPARTURE, OFF, ''],
        [
            'resize fits them',
            operations.RESIZE,
            OFF,
            'prepare unplug plug start',
        ],
        [
            'return fits them',
            operations.RETURN,
            OFF,
            'prepare unplug plug start',
        ],
        [
            'start fits them',
            operations.START,
            OFF,
            'prepare unplug plug start',
        ],
        [
            'start fits them on running LPAR',
            operations.START,
            RUNNING,
            'prepare unplug plug',
        ],
        [
            'soft reboot fits them',
            operations.SOFT_REBOOT,
            RUNNING,
            'prepare stop unplug plug start',
        ],
        [
            'hard reboot fits them',
            operations.HARD_REBOOT,
            RUNNING,
            'prepare stop unplug plug start',
        ],
        [
            'attachment adds one',
            operations.ATTACH_PORT,
            RUNNING,
            'prepare plug',
        ],
        ['detachment removes one', operations.DETACH_PORT, RUNNING, 'detach'],
        ['plugging adds one', operations.PLUG_PORTS, RUNNING, 'prepare plug'],
    )
    def test_row_treats_other_adapters(self, row, state, expected):
        made = decide(
            row,
            wanted(ports=(values.port(2),)),
            state and lpar(state),
            adapters=values.changes(surplus=[1] if state else [], missing=[2]),
        )

        self.assertEqual(expected, words(made))

    @ddt.data(
        operations.RESIZE,
        operations.RETURN,
        operations.START,
        operations.SOFT_REBOOT,
        operations.HARD_REBOOT,
    )
    def test_adapters_of_unknown_ports_stay(self, row):
        made = decide(
            row,
            wanted(ports=None),
            lpar(),
            adapters=values.changes([1], [2]),
        )

        self.assertEqual('start', words(made))

    @ddt.data(operations.RESIZE, operations.RETURN)
    def test_adapters_of_lpar_that_stays_off_stay(self, row):
        made = decide(
            row,
            wanted(power_on=False),
            lpar(),
            adapters=values.changes([1], [2]),
        )

        self.assertEqual('', words(made))

    @ddt.data(operations.SOFT_REBOOT, operations.HARD_REBOOT)
    def test_reboot_fits_adapters_of_what_nova_calls_off(self, row):
        made = decide(
            row,
            wanted(power_on=False),
            lpar(RUNNING),
            adapters=values.changes([1], [2]),
        )

        self.assertEqual('prepare stop unplug plug start', words(made))

    def test_plugging_remarks_adapter_of_no_port(self):
        made = decide(
            operations.PLUG_PORTS,
            wanted(),
            lpar(RUNNING),
            adapters=values.changes([1]),
        )

        self.assertEqual('', words(made))
        self.assertIn('it has the network adapter', made.remarks[0])

    def test_plugging_adds_no_second_adapter_with_one_address(self):
        made = decide(
            operations.PLUG_PORTS,
            wanted(),
            lpar(RUNNING),
            adapters=values.changes([1, 2], [2, 3]),
        )

        self.assertEqual(
            (values.changes(missing=[3]).connections,) * 2,
            tuple(step.connections for step in made.steps),
        )

    def test_attachment_leaves_adapters_of_other_ports(self):
        made = decide(
            operations.ATTACH_PORT,
            wanted(ports=(values.port(2),)),
            lpar(RUNNING),
            adapters=values.changes([1]),
        )

        self.assertEqual(('', ()), (words(made), made.remarks))

    def test_ports_are_detached(self):
        ports = (values.port(1), values.port(2))

        made = decide(operations.DETACH_PORT, wanted(ports=ports))

        self.assertEqual(tuple(map(steps.RemovePort, ports)), made.steps)


@ddt.ddt
class DisksTest(unittest.TestCase):
    """The column "disks"."""

    @ddt.named_data(
        [
            'spawn makes new ones',
            operations.SPAWN,
            None,
            'root write map start',
        ],
        [
            'arrival keeps them',
            operations.ARRIVAL,
            None,
            'keep write map start',
        ],
        ['departure leaves them', operations.DEPARTURE, OFF, ''],
        ['resize is refused', operations.RESIZE, OFF, DISCONNECTED],
        ['return connects them', operations.RETURN, OFF, 'keep map start'],
        ['start is refused', operations.START, OFF, DISCONNECTED],
        ['soft reboot is refused', operations.SOFT_REBOOT, OFF, DISCONNECTED],
        [
            'hard reboot connects them',
            operations.HARD_REBOOT,
            OFF,
            'keep map start',
        ],
    )
    def test_disks_that_are_not_connected(self, row, state, expected):
        made = decide(row, wanted(), state and lpar(state), mappings=())

        self.assertEqual(expected, words(made))

    @ddt.named_data(
        ['arrival', operations.ARRIVAL, None, IN_USE],
        ['departure', operations.DEPARTURE, OFF, ''],
        ['resize', operations.RESIZE, OFF, IN_USE],
        ['return', operations.RETURN, OFF, IN_USE],
        ['start', operations.START, OFF, IN_USE],
        ['soft reboot', operations.SOFT_REBOOT, OFF, IN_USE],
        ['hard reboot', operations.HARD_REBOOT, OFF, IN_USE],
        ['lost return', operations.RETURN, None, IN_USE],
        ['lost hard reboot', operations.HARD_REBOOT, None, IN_USE],
    )
    def test_disks_that_another_lpar_uses(self, row, state, expected):
        made = decide(
            row,
            wanted(),
            state and lpar(state),
            disks=(values.pool_disk(in_use=True),),
        )

        self.assertEqual(expected, words(made))

    @ddt.named_data(
        [
            'spawn makes it',
            operations.SPAWN,
            None,
            'root blank write map start',
        ],
        [
            'arrival makes it',
            operations.ARRIVAL,
            None,
            'keep blank write map start',
        ],
        ['departure removes it', operations.DEPARTURE, OFF, 'swap'],
        ['resize fits it', operations.RESIZE, OFF, 'swap start'],
        ['resize stops for it', operations.RESIZE, RUNNING, 'stop swap start'],
        ['return fits it', operations.RETURN, OFF, 'swap start'],
        ['hard reboot fits it', operations.HARD_REBOOT, OFF, 'swap start'],
        [
            'hard reboot stops for it',
            operations.HARD_REBOOT,
            RUNNING,
            'stop swap start',
        ],
    )
    def test_swap_disk_of_other_size(self, row, state, expected):
        made = decide(
            row,
            wanted(blanks=(values.SWAP,), checks_swap=True),
            state and lpar(state),
            swap_fits=False,
        )

        self.assertEqual(expected, words(made))
        for step in made.steps:
            if isinstance(step, steps.FitSwap):
                self.assertEqual(
                    None if row is operations.DEPARTURE else values.SWAP,
                    step.swap,
                )

    @ddt.data(operations.RESIZE, operations.HARD_REBOOT)
    def test_running_lpar_with_right_swap_disk_is_not_stopped(self, row):
        made = decide(row, wanted(checks_swap=True), lpar(RUNNING))

        self.assertIsNone(made.stop)

    def test_spawn_makes_disks_in_order_of_guest(self):
        described = wanted(
            blanks=(values.EPHEMERAL, values.SWAP), config_drive=True
        )

        made = decide(operations.SPAWN, described)

        self.assertEqual(
            'root blank blank medium write map start', words(made)
        )
        self.assertEqual(
            (
                steps.MakeRoot(values.ROOT, 'image1'),
                steps.MakeBlank(values.EPHEMERAL),
                steps.MakeBlank(values.SWAP),
                steps.MakeMedium(3),
            ),
            made.steps[:4],
        )

    @ddt.named_data(
        ['missing swap disk is made', (values.ROOT,), 'keep blank', 0],
        ['swap disk is kept', (values.ROOT, values.SWAP), 'keep', 0],
        [
            'swap disk of other size is kept',
            (values.ROOT, storage.Disk('s', 4)),
            'keep',
            1,
        ],
    )
    def test_arrival_finds_disks(self, found, expected, remarks):
        made = decide(
            operations.ARRIVAL,
            wanted(blanks=(values.SWAP,)),
            disks=tuple(map(values.pool_disk, found)),
        )

        self.assertEqual(f'{expected} write map start', words(made))
        self.assertEqual(remarks, len(made.remarks))

    def test_arrival_needs_each_disk(self):
        made = decide(operations.ARRIVAL, wanted(blanks=(values.EPHEMERAL,)))

        self.assertEqual('DiskMissing', words(made))

    def test_arrival_makes_config_drive(self):
        made = decide(operations.ARRIVAL, wanted(config_drive=True))

        self.assertEqual('keep medium write map start', words(made))

    @ddt.named_data(
        ['spawn starts at once', operations.SPAWN, False],
        ['arrival asks whether disks are used', operations.ARRIVAL, True],
        ['return asks whether disks are used', operations.RETURN, True],
    )
    def test_start_of_new_lpar(self, row, asks):
        self.assertEqual(
            steps.Start(asks_again=asks), decide(row, wanted()).steps[-1]
        )

    def test_hard_reboot_makes_missing_config_drive(self):
        made = decide(
            operations.HARD_REBOOT,
            wanted(config_drive=True),
            lpar(),
            mappings=(),
        )

        self.assertEqual('keep medium map start', words(made))

    def test_hard_reboot_keeps_connected_config_drive(self):
        made = decide(
            operations.HARD_REBOOT,
            wanted(config_drive=True),
            lpar(),
            mappings=(storage.config_drive_name(values.LPAR),),
        )

        self.assertEqual('keep map start', words(made))

    def test_swap_disk_alone_is_not_connected_again(self):
        made = decide(
            operations.HARD_REBOOT,
            wanted(),
            lpar(),
            disks=(values.pool_disk(), values.pool_disk(values.SWAP)),
        )

        self.assertEqual('start', words(made))

    @ddt.data(operations.RETURN, operations.HARD_REBOOT)
    def test_disks_of_other_pool_are_not_connected(self, row):
        made = decide(row, wanted(pool_is_current=False), lpar(), mappings=())

        self.assertEqual(DISCONNECTED, words(made))

    @ddt.data(operations.START, operations.HARD_REBOOT)
    def test_disks_without_pool_are_not_checked(self, row):
        made = decide(row, wanted(), lpar(), has_pool=False, mappings=())

        self.assertEqual('start', words(made))

    def test_hard_reboot_grows_root_disk_of_running_lpar(self):
        made = decide(
            operations.HARD_REBOOT, wanted(grow_root_gb=20), lpar(RUNNING)
        )

        self.assertEqual('grow restart', words(made))


@ddt.ddt
class FailureTest(unittest.TestCase):
    """The column "after a failure"."""

    @ddt.named_data(
        ['spawn', operations.SPAWN, operations.Failure.REMOVE],
        ['arrival', operations.ARRIVAL, operations.Failure.REMOVE_LPAR],
        ['departure', operations.DEPARTURE, operations.Failure.RESTART],
        ['resize', operations.RESIZE, operations.Failure.LEAVE],
        ['return', operations.RETURN, operations.Failure.LEAVE],
        ['start', operations.START, operations.Failure.NOTHING],
        ['soft reboot', operations.SOFT_REBOOT, operations.Failure.RESTART],
        ['hard reboot', operations.HARD_REBOOT, operations.Failure.RESTART],
        ['attachment', operations.ATTACH_PORT, operations.Failure.NOTHING],
        ['detachment', operations.DETACH_PORT, operations.Failure.NOTHING],
        ['plugging', operations.PLUG_PORTS, operations.Failure.NOTHING],
    )
    def test_row_says_what_follows_failure(self, row, expected):
        self.assertIs(expected, row.failure)

    def test_only_checks_are_not_carried_out(self):
        for row in operations.ALL:
            self.assertFalse(row.is_check)
            self.assertTrue(row.as_check().is_check)
            self.assertEqual(f'check of {row}', str(row.as_check()))


@ddt.ddt
class CheckTest(unittest.TestCase):
    """The row "check of a move, of a rebuild"."""

    @ddt.data(*values.STATES)
    def test_check_of_rebuild_ignores_present_lpar(self, state):
        made = decide(operations.SPAWN.as_check(), wanted(), lpar(state))

        self.assertEqual('root write map start', words(made))

    def test_check_of_arrival_leaves_disks_to_their_guest(self):
        made = decide(
            operations.ARRIVAL.as_check(),
            wanted(power_on=False, config_drive=True),
            disks=(values.pool_disk(in_use=True),),
        )

        self.assertEqual('write map', words(made))

    def test_check_of_arrival_refuses_running_lpar(self):
        made = decide(operations.ARRIVAL.as_check(), wanted(), lpar(RUNNING))

        self.assertEqual(CONFLICT, words(made))

    def test_check_of_resize_plans_change_of_running_lpar(self):
        made = decide(
            operations.RESIZE.as_check(),
            wanted(ONCE, power_on=False, moved_slots=frozenset({GPU, ONCE})),
            lpar(RUNNING),
        )

        self.assertEqual('stop write', words(made))
        self.assertEqual({GPU}, made.document.spec.freed)


@ddt.ddt
class OrderTest(unittest.TestCase):
    """The steps of plans that have as many of them as they can."""

    def test_lpar_is_made_in_fixed_order(self):
        made = decide(
            operations.HARD_REBOOT,
            wanted(
                ONCE,
                blanks=(values.SWAP,),
                config_drive=True,
                grow_root_gb=20,
            ),
            adapters=values.changes(missing=[1]),
        )

        self.assertEqual(
            'keep blank medium prepare write plug map grow start', words(made)
        )

    def test_lpar_is_changed_in_fixed_order(self):
        made = decide(
            operations.HARD_REBOOT,
            wanted(
                ONCE,
                moved_slots=frozenset({GPU}),
                blanks=(values.SWAP,),
                checks_swap=True,
                config_drive=True,
                grow_root_gb=20,
            ),
            lpar(),
            mappings=(),
            adapters=values.changes([1], [2]),
        )

        self.assertEqual(
            'prepare unplug plug grow keep medium map swap write start',
            words(made),
        )

    @ddt.named_data(
        ['changes', operations.HARD_REBOOT, RUNNING, 'restart it within'],
        ['nothing', operations.DEPARTURE, OFF, 'nothing to do'],
        ['refusal', operations.START, values.UNKNOWN, 'refused: LPAR'],
    )
    def test_printed_plan_names_row_and(self, row, state, expected):
        made = decide(row, wanted(), lpar(state))

        self.assertTrue(str(made).startswith(f'{row}: {expected}'), made)

    def test_printed_plan_has_reasons(self):
        made = decide(
            operations.RESIZE,
            wanted(ONCE, moved_slots=frozenset({GPU}), blanks=(values.SWAP,)),
            lpar(RUNNING, sizes=SMALL),
        )

        self.assertEqual(
            'resize within the host: stop it hard (it changes); burn the '
            'one-time-use devices in 21010021 and change it: memory 1024 '
            'instead of 2048; slot 21010021 is missing; slot 21010020 was '
            'not asked for; start it',
            str(made),
        )

    def test_printed_build_has_sizes_slots_and_disks(self):
        made = decide(
            operations.SPAWN,
            wanted(blanks=(values.SWAP,), config_drive=True),
            lpar(),
            adapters=values.changes(missing=[1, 2]),
        )

        self.assertEqual(
            'spawn: remove what an interrupted build left; make the root '
            'disk of 10 GB from image image1; make the swap disk of 1 GB; '
            'make the config drive (3 bytes); prepare the host for ports '
            'port1, port2; create it with 2048 MiB, 2 virtual processors, 1 '
            'processing units, slots: 21010020; create the adapters of ports '
            'port1, port2; connect its disks; start it',
            str(made),
        )

    def test_bus_group_of_host_is_passed_back(self):
        host = values.values.slot(drc_index=GPU, bus_group_required=True)
        found = values.managed_system(io_slots=(host,))

        made = decide(operations.SPAWN, wanted(), slots=found)

        self.assertEqual(
            (partition.SlotAssignment(GPU, True),), made.document.spec.slots
        )
        self.assertEqual('21010020', slots.format_drc_index(GPU))
