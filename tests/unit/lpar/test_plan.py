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

from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import steps
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes
from tests.unit.devices.values import settings_of
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

SMALL = settings_of(1024, 2, 1.0)
CHANGES = {'adapters': values.changes([1], [2])}
ADDS_SLOTS = [row for row in operations.ALL if row.adds_slots]


@ddt.ddt
class StepsTest(unittest.TestCase):
    """What each row plans in a situation, by the state of the LPAR."""

    @ddt.named_data(
        [
            'is right',
            {},
            {},
            """
            spawn: !taken | " | " | clear root write map start | !taken |\
 root write map start
            arrival: !taken | " | " | clear keep write map start | !taken |\
 keep write map start
            departure: stop | " | " | - | !state | !lost
            resize: - | !state | stop start | start | !state | !lost
            return: - | - | stop start | start | - | keep write map start
            start: - | !state | stop start | start | !state | !lost
            soft reboot: restart | stop start | " | start | !state | !lost
            hard reboot: restart | stop start | " | start | !state |\
 keep write map start
            rescue: root stop reconnect start | !state |\
 root stop reconnect start | root reconnect start | !state | !lost
            unrescue: stop reconnect start | " | " | reconnect start |\
 !state | !lost
            check of spawn: root write map start | " | " | " | " | "
            check of arrival, running: !taken
            """,
        ],
        [
            'lacks a slot',
            {},
            {'owned': ()},
            """
            departure: stop | " | " | - | !state | .
            resize: stop write start | !state | stop write start |\
 write start | !state | .
            return: - | " | stop write start | write start | - | .
            start: !slots | !state | stop write start | write start |\
 !state | .
            soft reboot: stop write start | " | " | write start | !state | .
            hard reboot: stop write start | " | " | write start | !state | .
            rescue: !slots | !state | !slots | !slots | !state | .
            unrescue: !slots | " | " | " | !state | .
            """,
        ],
        [
            'is to stay off',
            {'power_on': False},
            {},
            """
            arrival, absent: keep write map
            departure: stop | " | " | - | !state | .
            resize: - | !state | - | - | !state | .
            return: - | " | " | " | " | .
            start: - | !state | - | - | !state | .
            """,
        ],
        [
            'is to stay off and lacks a slot',
            {'power_on': False},
            {'owned': ()},
            'resize, running: stop write',
        ],
        [
            'has a slot of a move',
            {'moved_slots': {MOVED: 'move'}},
            {'owned': (GPU, MOVED)},
            """
            departure, off: !differ
            resize, off: write start
            return, off: !differ
            start, off: !differ
            soft reboot, off: !differ
            hard reboot, off: write start
            rescue, running: !differ
            unrescue, running: !differ
            """,
        ],
        [
            'has a wanted slot of a move',
            {'moved_slots': {GPU: 'move'}},
            {},
            'resize, off: start',
        ],
        [
            'has a slot of nobody',
            {'moved_slots': {MOVED: 'move'}},
            {'owned': (GPU, FOREIGN)},
            """
            departure, off: !differ
            resize, off: !differ
            return: - | . | . | !differ | . | .
            start, off: !differ
            soft reboot, off: !differ
            hard reboot, off: !differ
            """,
        ],
        [
            'has other sizes',
            {},
            {'settings': SMALL},
            """
            departure, off: -
            resize, off: write start
            return, off: start
            start, off: start
            soft reboot, off: start
            hard reboot, off: write start
            """,
        ],
        [
            'has unknown sizes',
            {'settings': None},
            {'settings': SMALL},
            'resize, off: start',
        ],
        [
            'lacks an adapter',
            {'ports': (values.port(),)},
            {'adapters': values.changes(missing=[1])},
            """
            spawn, absent: root prepare write plug map start
            arrival, absent: keep prepare write plug map start
            attachment of a port, absent: !lost
            detachment of a port, absent: detach
            plugging, absent: !lost
            """,
        ],
        [
            'has other adapters',
            {'ports': (values.port(2),)},
            CHANGES,
            """
            departure, off: -
            resize, off: prepare unplug plug start
            return, off: prepare unplug plug start
            start, off: prepare unplug plug start
            start, running: prepare unplug plug
            soft reboot, running: prepare stop unplug plug start
            hard reboot, running: prepare stop unplug plug start
            attachment of a port, running: prepare plug
            detachment of a port, running: detach
            plugging, running: prepare plug
            """,
        ],
        [
            'has other adapters and is to stay off',
            {'power_on': False},
            CHANGES,
            """
            resize, off: -
            return, off: -
            soft reboot, running: prepare stop unplug plug start
            hard reboot, running: prepare stop unplug plug start
            """,
        ],
        [
            'has unknown ports',
            {'ports': None},
            CHANGES,
            """
            resize, off: start
            return, off: start
            start, off: start
            soft reboot, off: start
            hard reboot, off: start
            """,
        ],
        [
            'is not connected to its disks',
            {},
            {'mappings': ()},
            """
            departure, off: -
            resize, off: !apart
            return, off: keep map start
            start, off: !apart
            soft reboot, off: !apart
            hard reboot, off: keep map start
            rescue: !rescue | !state | !rescue | !rescue | . | .
            unrescue, off: reconnect start
            """,
        ],
        [
            'has a rescue disk',
            {},
            {
                'has_rescue': True,
                'disks': (values.pool_disk(), values.pool_disk(values.RESCUE)),
            },
            """
            departure: !move | " | " | " | !state | .
            resize, off: start
            return, off: reconnect start
            start: - | !state | stop reconnect start | reconnect start | . | .
            soft reboot: restart | . | . | reconnect start | . | .
            hard reboot: stop reconnect start | " | " | reconnect start | . | .
            rescue: !rescue | !state | !rescue | !rescue | . | .
            unrescue: stop reconnect start | " | " | reconnect start | . | .
            """,
        ],
        [
            'runs its rescue system',
            {'rescued': True},
            {
                'has_rescue': True,
                'disks': (values.pool_disk(), values.pool_disk(values.RESCUE)),
            },
            'start: - | !state | stop start | start | . | .',
        ],
        [
            'has a rescue disk and local disks',
            {},
            {'has_pool': False, 'has_rescue': True},
            """
            start, off: reconnect start
            hard reboot: stop reconnect start | . | . | reconnect start | . | .
            """,
        ],
        [
            'has a rescue disk and is not connected to its disks',
            {'config_drive': True},
            {
                'mappings': (),
                'disks': (values.pool_disk(), values.pool_disk(values.RESCUE)),
            },
            """
            start, off: reconnect start
            hard reboot, off: reconnect start
            unrescue, off: reconnect start
            """,
        ],
        [
            'is not connected to its disks and config drive',
            {'config_drive': True},
            {'mappings': ()},
            'hard reboot, off: medium keep map start',
        ],
        [
            'is connected to its config drive only',
            {'config_drive': True},
            {'mappings': (storage.config_drive_name(values.LPAR),)},
            'hard reboot, off: keep map start',
        ],
        [
            'is not connected to its swap disk only',
            {},
            {'disks': (values.pool_disk(), values.pool_disk(values.SWAP))},
            'hard reboot, off: start',
        ],
        [
            'is not connected to disks of a former pool',
            {'pool_is_current': False},
            {'mappings': ()},
            """
            return: . | . | . | !apart | . | !lost
            hard reboot: . | . | . | !apart | . | !lost
            """,
        ],
        [
            'has local disks',
            {},
            {'has_pool': False, 'mappings': ()},
            """
            start, off: start
            return, absent: !lost
            hard reboot: . | . | . | start | . | !lost
            """,
        ],
        [
            'has no disks',
            {},
            {'disks': ()},
            'return, absent: !lost\nhard reboot, absent: !lost',
        ],
        [
            'has disks that another LPAR uses',
            {},
            {'disks': (values.pool_disk(in_use=True),)},
            """
            arrival, absent: !used
            departure, off: -
            resize, off: !used
            return: . | . | . | !used | . | !used
            start, off: !used
            soft reboot, off: !used
            hard reboot: . | . | . | !used | . | !used
            rescue: root stop reconnect start | . | . | !used | . | .
            unrescue: stop reconnect start | . | . | !used | . | .
            """,
        ],
        [
            'has a swap disk of another size',
            {'blanks': (values.SWAP,), 'checks_swap': True},
            {'swap_fits': False},
            """
            spawn, absent: root blank write map start
            arrival, absent: keep blank write map start
            departure, off: swap
            resize: stop swap start | . | . | swap start | . | .
            return, off: swap start
            hard reboot: stop swap start | . | . | swap start | . | .
            """,
        ],
        [
            'has the right swap disk',
            {'checks_swap': True},
            {},
            'resize, running: -\nhard reboot, running: restart',
        ],
        [
            'has a small root disk',
            {'grow_root_gb': 20},
            {},
            """
            hard reboot: stop grow start | . | . | . | . |\
 keep write map grow start
            """,
        ],
        [
            'needs an ephemeral disk',
            {'blanks': (values.EPHEMERAL,)},
            {},
            'arrival, absent: !disk',
        ],
        [
            'gets a config drive',
            {'config_drive': True},
            {},
            """
            arrival, absent: keep medium write map start
            rescue, off: root medium reconnect start
            unrescue, off: reconnect start
            """,
        ],
        [
            'is to be checked while its guest uses the disks',
            {'power_on': False, 'config_drive': True},
            {'disks': (values.pool_disk(in_use=True),)},
            'check of arrival, absent: write map',
        ],
    )
    def test_plan_of_lpar_that(self, described, host, text):
        host = dict(host)
        changes = {k: host.pop(k) for k in ('settings', 'owned') if k in host}
        owned = changes.pop('owned', (GPU,))
        for row, state, expected in values.table(text):
            present = state and lpar(state, owned, **changes)
            with self.subTest(row=str(row), state=state):
                made = decide(row, wanted(**described), present, **host)

                self.assertEqual(expected, words(made))

    def test_hard_reboot_connects_a_medium_beside_volumes_only(self):
        boot = volumes.Volume('v1', '', is_boot=True)
        has_medium = wanted(volumes=(boot,), config_drive=True)
        name = storage.config_drive_name(has_medium.lpar_uuid)
        for described, row, mappings, expected in (
            (has_medium, operations.HARD_REBOOT, (), True),
            (has_medium, operations.HARD_REBOOT, (name,), False),
            (has_medium, operations.START, (), False),
            (wanted(volumes=(boot,)), operations.HARD_REBOOT, (), False),
            (wanted(config_drive=True), operations.HARD_REBOOT, (), False),
        ):
            made = decide(
                row, described, lpar(), has_pool=False, mappings=mappings
            )
            found = any(isinstance(s, steps.Reconnect) for s in made.steps)
            self.assertEqual(expected, found, made)

    def test_plan_with_all_steps_has_fixed_order(self):
        everything = {
            'blanks': (values.SWAP,),
            'config_drive': True,
            'grow_root_gb': 20,
        }

        made = decide(
            operations.HARD_REBOOT,
            wanted(ONCE, **everything),
            adapters=values.changes(missing=[1]),
        )
        changed = decide(
            operations.HARD_REBOOT,
            wanted(
                ONCE,
                moved_slots={GPU: 'move'},
                checks_swap=True,
                **everything,
            ),
            lpar(),
            mappings=(),
            **CHANGES,
        )

        self.assertEqual(
            'keep blank medium prepare write plug map grow start', words(made)
        )
        self.assertEqual(
            'medium prepare unplug plug grow keep map swap write start',
            words(changed),
        )

    @ddt.named_data(
        ['departure', operations.DEPARTURE, (GPU,), 'it moves', 60],
        ['soft reboot for change', operations.SOFT_REBOOT, (), '', 60],
        ['hard reboot for change', operations.HARD_REBOOT, (), '', 60],
        ['resize', operations.RESIZE, (), '', 0],
        [
            'rescue',
            operations.RESCUE,
            (GPU,),
            'another system is to start',
            60,
        ],
        [
            'unrescue',
            operations.UNRESCUE,
            (GPU,),
            'another system is to start',
            60,
        ],
    )
    def test_guest_has_time_to_shut_down_in(self, row, owned, reason, timeout):
        made = decide(row, wanted(), lpar(RUNNING, owned))

        self.assertIn(steps.Stop(reason or 'it changes', timeout), made.steps)

    def test_guest_has_time_to_shut_down_in_restart_of_right_lpar(self):
        for row in (operations.SOFT_REBOOT, operations.HARD_REBOOT):
            made = decide(row, wanted(), lpar(RUNNING))

            self.assertEqual((steps.Restart(60),), made.steps)

    @ddt.data(values.SUSPENDED, values.FAILED)
    def test_guest_that_cannot_shut_down_is_stopped_hard(self, state):
        made = decide(operations.SOFT_REBOOT, wanted(), lpar(state))

        (stop,) = (s for s in made.steps if isinstance(s, steps.Stop))
        self.assertEqual(0, stop.timeout)


@ddt.ddt
class DocumentTest(unittest.TestCase):
    """What is written: slots, burns, and sizes."""

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

    @ddt.data(*ADDS_SLOTS)
    def test_missing_slots_are_added_and_burned(self, row):
        if row in (operations.SPAWN, operations.ARRIVAL):
            present = None
        else:
            present = lpar(RUNNING if row.restarts else OFF, ())

        document = decide(row, wanted(GPU, ONCE), present).document

        self.assertEqual(
            tuple(map(values.claim_of, (GPU, ONCE))), document.added
        )
        self.assertEqual((values.claim_of(ONCE),), document.burns)
        self.assertEqual({GPU, ONCE}, document.spec.drc_indexes)

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

    def test_check_of_rebuild_asks_whether_device_is_allocated(self):
        made = decide(operations.SPAWN.as_check(), wanted(ONCE), allocated=())

        self.assertEqual('!claim', words(made))

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

    @ddt.data(operations.RESIZE, operations.HARD_REBOOT)
    def test_slot_of_move_is_freed(self, row):
        described = wanted(moved_slots={MOVED: 'move'})

        document = decide(row, described, lpar(OFF, (GPU, MOVED))).document

        self.assertEqual({MOVED}, document.spec.freed)
        self.assertEqual({GPU}, document.spec.drc_indexes)
        self.assertEqual((), document.added)

    def test_check_of_resize_plans_change_of_running_lpar(self):
        made = decide(
            operations.RESIZE.as_check(),
            wanted(
                ONCE,
                power_on=False,
                moved_slots=dict.fromkeys([GPU, ONCE], 'move'),
            ),
            lpar(RUNNING),
        )

        self.assertEqual('stop write', words(made))
        self.assertEqual({GPU}, made.document.spec.freed)

    def test_resize_and_hard_reboot_write_sizes_and_keep_name(self):
        for row in (operations.RESIZE, operations.HARD_REBOOT):
            made = decide(
                row,
                wanted(
                    name='renamed',
                    other_settings=[
                        lpar_settings.FlavorSettings(1024, 2, 0.5)
                    ],
                ),
                lpar(settings=SMALL),
            )

            self.assertEqual(values.SIZES, made.document.spec.settings)
            self.assertEqual(values.NAME, made.document.spec.name)

    @ddt.data(operations.SPAWN, operations.ARRIVAL, operations.RETURN)
    def test_new_lpar_gets_sizes(self, row):
        made = decide(row, wanted())

        self.assertEqual(values.SIZES, made.document.spec.settings)

    @ddt.data(operations.RETURN, operations.START, operations.SOFT_REBOOT)
    def test_slots_are_added_without_sizes(self, row):
        made = decide(row, wanted(), lpar(OFF, (), SMALL))

        self.assertIsNone(made.document.spec.settings)

    def test_bus_group_of_host_is_passed_back(self):
        host = values.values.slot(drc_index=GPU, bus_group_required=True)
        managed = values.managed_system(io_slots=(host,))

        made = decide(operations.SPAWN, wanted(), slots=managed)

        self.assertEqual(
            (partition.SlotAssignment(GPU, True),), made.document.spec.slots
        )


@ddt.ddt
class AdaptersTest(unittest.TestCase):
    def test_plugging_adds_no_second_adapter_with_one_address(self):
        made = decide(
            operations.PLUG_PORTS,
            wanted(),
            lpar(RUNNING),
            adapters=values.changes([1, 2], [2, 3]),
        )

        self.assertEqual(
            [[values.port(3)]] * 2,
            [
                [connection.port for connection in step.connections]
                for step in made.steps
            ],
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
    def test_spawn_deletes_disks_of_its_remains_and_arrival_does_not(self):
        for row in (operations.SPAWN, operations.ARRIVAL):
            made = decide(row, wanted(), lpar())

            self.assertEqual(
                steps.RemoveRemains(row is operations.SPAWN), made.steps[0]
            )

    @ddt.data(operations.DEPARTURE, operations.RESIZE, operations.HARD_REBOOT)
    def test_swap_disk_is_fitted_or_removed(self, row):
        made = decide(
            row,
            wanted(blanks=(values.SWAP,), checks_swap=True),
            lpar(),
            swap_fits=False,
        )

        fits = None if row is operations.DEPARTURE else values.SWAP
        self.assertIn(steps.FitSwap(fits), made.steps)

    def test_spawn_makes_disks_in_order_of_guest(self):
        described = wanted(
            blanks=(values.EPHEMERAL, values.SWAP), config_drive=True
        )

        made = decide(operations.SPAWN, described)

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
    def test_arrival_finds_disks(self, disks, expected, remarks):
        made = decide(
            operations.ARRIVAL,
            wanted(blanks=(values.SWAP,)),
            disks=tuple(map(values.pool_disk, disks)),
        )

        self.assertEqual(f'{expected} write map start', words(made))
        self.assertEqual(remarks, len(made.remarks))

    def test_rescue_disk_has_size_of_its_image(self):
        made = decide(
            operations.RESCUE,
            wanted(config_drive=True),
            lpar(RUNNING),
            image=values.image.Contents(1, 'qcow2', 11 * 1024**3),
        )

        self.assertEqual(
            (
                steps.MakeRoot(storage.Disk(storage.RESCUE, 11), 'image1'),
                steps.MakeMedium(3, rescue=True),
            ),
            made.steps[:2],
        )

    def test_interrupted_rescue_whose_disk_another_lpar_uses_is_not_ended(
        self,
    ):
        made = decide(
            operations.START,
            wanted(),
            lpar(),
            disks=(
                values.pool_disk(in_use=True),
                values.pool_disk(values.RESCUE),
            ),
        )

        self.assertEqual('!used', words(made))

    @ddt.data(operations.SPAWN, operations.ARRIVAL, operations.RETURN)
    def test_start_of_new_lpar_asks_whether_kept_disks_are_used(self, row):
        self.assertEqual(
            steps.Start(asks_again=row is not operations.SPAWN),
            decide(row, wanted()).steps[-1],
        )


@ddt.ddt
class WordsTest(unittest.TestCase):
    """Remarks, and plans as they are printed."""

    @ddt.named_data(
        [
            'return that leaves running LPAR',
            operations.RETURN,
            {},
            lpar(RUNNING, ()),
            {},
            'it is running, and left as it is.',
        ],
        [
            'start of LPAR without slot',
            operations.START,
            {},
            lpar(OFF, ()),
            {},
            'it lacks the slots 21010020; assigning them again.',
        ],
        [
            'hard reboot of lost LPAR',
            operations.HARD_REBOOT,
            {},
            None,
            {},
            "Nova's records, without the NVRAM that it had.",
        ],
        [
            'plugging that leaves adapter',
            operations.PLUG_PORTS,
            {},
            lpar(RUNNING),
            {'adapters': values.changes([1])},
            'it has the network adapter',
        ],
        [
            'resize that gives slot of move',
            operations.RESIZE,
            {'moved_slots': {GPU: 'move'}},
            lpar(OFF, ()),
            {},
            '',
        ],
    )
    def test_remarks_of(self, row, described, present, host, expected):
        remarks = decide(row, wanted(**described), present, **host).remarks

        self.assertEqual(1 if expected else 0, len(remarks))
        self.assertIn(expected, ''.join(remarks))

    @ddt.named_data(
        ['changes', operations.HARD_REBOOT, RUNNING, 'restart it within'],
        ['nothing', operations.DEPARTURE, OFF, 'nothing to do'],
    )
    def test_printed_plan_names_row_and(self, row, state, expected):
        made = decide(row, wanted(), lpar(state))

        self.assertTrue(str(made).startswith(f'{row}: {expected}'), made)

    def test_printed_plan_has_reasons(self):
        made = decide(
            operations.RESIZE,
            wanted(ONCE, moved_slots={GPU: 'move'}, blanks=(values.SWAP,)),
            lpar(RUNNING, settings=SMALL),
        )

        self.assertEqual(
            'resize within the host: stop it hard (it changes); burn the '
            'one-time-use devices in 21010021 and change it: memory 1024 '
            'instead of 2048; slot 21010021 is missing; slot 21010020 is '
            'given up for migration move; start it',
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

    def test_arrival_brings_nvram_that_nobody_can_read_in_the_plan(self):
        described = wanted(nvram='c2VjcmV0')

        made = decide(operations.ARRIVAL, described)

        self.assertEqual('c2VjcmV0', made.document.spec.nvram)
        self.assertIn('slots: 21010020, and its former NVRAM;', str(made))
        self.assertNotIn('c2VjcmV0', f'{made} {made!r} {described!r}')

    def test_printed_steps_say_what_they_do(self):
        changed = decide(
            operations.HARD_REBOOT,
            wanted(blanks=(values.SWAP,), checks_swap=True, grow_root_gb=20),
            lpar(),
            mappings=(),
            swap_fits=False,
            **CHANGES,
        )
        others = (
            decide(operations.ARRIVAL, wanted(), lpar()),
            decide(operations.DEPARTURE, wanted(checks_swap=True), lpar()),
            decide(operations.DETACH_PORT, wanted(ports=(values.port(),))),
            decide(operations.RESCUE, wanted(config_drive=True), lpar()),
            decide(operations.UNRESCUE, wanted(), lpar()),
        )
        text = '; '.join(map(str, (changed, *others)))
        for expected in (
            'prepare the host for port port2;',
            'remove the adapter fa:16:3e:00:00:01, which belongs to no port',
            'create the adapters of port port2;',
            'have a root disk of at least 20 GB',
            'have swap disk of 1 GB, and no other swap disk',
            'left, but not its disks',
            'remove the adapter of port port1',
            'make the rescue disk of 1 GB from image image1; '
            'make the config drive of the rescue system (3 bytes); '
            'connect its disks anew, the rescue disk first',
            'connect its disks as before the rescue, delete the rescue disk',
        ):
            self.assertIn(expected, text)
