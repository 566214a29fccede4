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

"""Volumes in plans: which are connected, when, and which are not."""

import unittest

import ddt

from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.lpar import steps
from nova_powervm.lpar import volumes
from tests.unit.lpar import plan_values as values
from tests.unit.lpar.plan_values import decide
from tests.unit.lpar.plan_values import lpar
from tests.unit.lpar.plan_values import wanted
from tests.unit.lpar.plan_values import words

DATA = volumes.Volume('data', 'any')
BOOT = volumes.Volume('boot', 'any', is_boot=True)
CONNECTED = volumes.Connected()
BOTH = frozenset({'data', 'boot'})


@ddt.ddt
class VolumePlanTest(unittest.TestCase):
    def assert_plan(self, expected, row, described, present=None, **host):
        """Assert what an operation does to an LPAR with volumes."""
        made = decide(row, wanted(**described), present, **host)
        self.assertEqual(expected, words(made))
        return made

    def test_volumes_are_found_before_anything_is_made(self):
        made = self.assert_plan(
            'find root write map connect start',
            operations.SPAWN,
            {'volumes': (DATA,)},
        )
        self.assertIn('find volume data;', str(made))
        self.assertIn('connect volume data;', str(made))

    def test_boot_volume_is_in_place_of_a_root_disk(self):
        made = self.assert_plan(
            'find write connect start',
            operations.SPAWN,
            {'volumes': (DATA, BOOT), 'root': None},
        )
        (connected,) = (
            step for step in made.steps if type(step) is steps.ConnectVolumes
        )
        self.assertEqual((BOOT, DATA), connected.volumes)
        self.assert_plan(
            'find blank medium write map connect start',
            operations.SPAWN,
            {
                'volumes': (BOOT,),
                'root': None,
                'blanks': (values.SWAP,),
                'config_drive': True,
            },
        )

    def test_check_of_rebuild_leaves_the_present_volumes(self):
        self.assert_plan(
            'root write map start',
            operations.SPAWN.as_check(),
            {'volumes': (DATA,)},
            lpar(values.RUNNING),
        )

    @ddt.named_data(
        # A user may just be detaching the volume: Nova locks only reboots.
        ['start', operations.START, values.OFF, 'start'],
        ['soft', operations.SOFT_REBOOT, values.RUNNING, 'restart'],
        [
            'hard',
            operations.HARD_REBOOT,
            values.RUNNING,
            'find stop connect start',
        ],
        # Nova attaches and detaches nothing while a server moves.
        ['moved', operations.RESIZE, values.OFF, 'find connect start'],
        ['returned', operations.RETURN, values.OFF, 'find connect start'],
        ['left alone', operations.RETURN, values.RUNNING, ''],
    )
    def test_hard_reboot_and_ends_of_moves_connect_missing(
        self, row, state, expected
    ):
        self.assert_plan(expected, row, {'volumes': (DATA,)}, lpar(state))

    def test_mappings_of_disks_are_not_read_without_disks(self):
        made, read = values.survey(
            operations.HARD_REBOOT,
            wanted(volumes=(BOOT,), root=None, pool_is_current=True),
            values.parts(lpar(), disks=(), volumes={'boot': CONNECTED}),
        )
        self.assertEqual('start', words(made))
        self.assertNotIn(spec.Part.MAPPINGS, read)

    def test_volume_that_lacks_a_path_is_connected_again(self):
        for is_complete, expected in (
            (True, 'restart'),
            (False, 'find stop connect start'),
        ):
            self.assert_plan(
                expected,
                operations.HARD_REBOOT,
                {'volumes': (DATA,)},
                lpar(values.RUNNING),
                volumes={'data': volumes.Connected(is_complete)},
            )

    def test_hard_reboot_disconnects_what_nova_does_not_know(self):
        host = {
            'volumes': {
                'data': CONNECTED,
                'other': CONNECTED,
            }
        }
        for recorded, expected in (
            (None, 'restart'),
            (frozenset({'data', 'other'}), 'restart'),
            (frozenset({'data'}), 'stop disconnect start'),
        ):
            self.assert_plan(
                expected,
                operations.HARD_REBOOT,
                {'volumes': (DATA,), 'known_volumes': recorded},
                lpar(values.RUNNING),
                **host,
            )

    @ddt.named_data(
        ['attached', operations.ATTACH_VOLUME, 'find connect'],
        ['detached', operations.DETACH_VOLUME, 'disconnect'],
    )
    def test_volume_alone_is(self, row, expected):
        described = {'volumes': (DATA,)}
        for state in (values.RUNNING, values.OFF):
            self.assert_plan(expected, row, described, lpar(state))
            self.assert_plan(
                'VolumesImpossible', row, described, lpar(obstacle='no RMC.')
            )

    @ddt.named_data(
        ['running', values.RUNNING, False, 'stop disconnect'],
        ['off', values.OFF, False, 'disconnect'],
        ['swap', values.RUNNING, True, 'stop disconnect swap'],
    )
    def test_departure_disconnects_volumes(self, state, checks_swap, expected):
        made = self.assert_plan(
            expected,
            operations.DEPARTURE,
            {
                'volumes': (DATA, BOOT),
                'checks_swap': checks_swap,
                'virtual_slots': {'data@0': 70, 'boot@0': 48, '02': 66},
            },
            lpar(state),
            volumes={'data': volumes.Connected(slots={0: 64, 1: 65})},
        )
        (left,) = (
            step
            for step in made.steps
            if type(step) is steps.DisconnectVolumes
        )
        # Where they were, if they have to be connected again.
        self.assertEqual(
            [
                ('boot', {0: 48}, {64, 65, 66}),
                ('data', {0: 64, 1: 65}, {48, 66}),
            ],
            [(v.id, v.slots, v.avoided) for v in left.volumes],
        )

    def test_departure_without_volumes_does_not_look_for_any(self):
        made, read = values.survey(
            operations.DEPARTURE,
            wanted(volumes=()),
            values.parts(lpar(values.RUNNING)),
        )
        self.assertEqual('stop', words(made))
        self.assertNotIn(spec.Part.VOLUMES, read)

    @ddt.named_data(
        ['volume', {}, 'find write connect start'],
        [
            'config drive',
            {'config_drive': True},
            'find medium write map connect start',
        ],
        # Swap space has nothing to lose.
        [
            'swap disk',
            {'blanks': (values.SWAP,)},
            'find blank write map connect start',
        ],
        ['other disk', {'blanks': (values.EPHEMERAL,)}, '!lost'],
        ['root disk', {'volumes': (DATA,)}, '!lost'],
    )
    def test_lost_lpar_is_made_around(self, described, expected):
        """Without a pool, an instance has nothing but volumes elsewhere."""
        described = {'volumes': (BOOT,), 'root': None} | described
        for row in (operations.HARD_REBOOT, operations.RETURN):
            self.assert_plan(expected, row, described, has_pool=False)

    def test_arrival_keeps_disks_beside_a_boot_volume(self):
        disk = values.pool_disk(values.EPHEMERAL)
        described = {
            'volumes': (BOOT,),
            'root': None,
            'blanks': (values.EPHEMERAL,),
            'config_drive': True,
        }
        for row, expected in (
            (operations.ARRIVAL, 'find keep medium write map connect start'),
            (
                operations.HARD_REBOOT,
                'find keep medium write map connect start',
            ),
            # The guest still has all of it.
            (operations.ARRIVAL.as_check(), 'write start'),
        ):
            self.assert_plan(expected, row, described, disks=(disk,))
        missing = {**described, 'volumes': (DATA,)}
        self.assert_plan('!disk', operations.ARRIVAL, missing, disks=(disk,))

    def test_lpar_that_is_gone_can_only_lose_a_volume(self):
        described = {'volumes': (DATA,)}
        self.assert_plan('!lost', operations.ATTACH_VOLUME, described)
        self.assert_plan('disconnect', operations.DETACH_VOLUME, described)
