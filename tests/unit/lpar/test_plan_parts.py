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

"""The parts of the host that an operation asks for, and in which order.

Each costs requests. The cheapest checks come first, so that an operation that
is refused has asked for little.
"""

import unittest

import ddt

from nova_powervm.lpar import operations
from tests.unit.lpar import plan_values as values
from tests.unit.lpar.plan_values import GPU
from tests.unit.lpar.plan_values import MOVED
from tests.unit.lpar.plan_values import OFF
from tests.unit.lpar.plan_values import ONCE
from tests.unit.lpar.plan_values import RUNNING
from tests.unit.lpar.plan_values import lpar
from tests.unit.lpar.plan_values import wanted

#: An LPAR that has no slots.
BARE = lpar(OFF, ())
NO_SLOTS = {'slots': ()}


@ddt.ddt
class PartsTest(unittest.TestCase):
    def check(self, row, described, found, expected, **more):
        """Compare the parts with their names, separated by spaces."""
        host = values.parts(found, **more)

        _, asked = values.survey(row, described, host)

        self.assertEqual(
            expected, ' '.join(part.name.lower() for part in asked)
        )

    @ddt.named_data(
        ['spawn', operations.SPAWN, 'slots adapters lpar image'],
        [
            'spawn without slots',
            operations.SPAWN,
            'rules adapters lpar image',
            NO_SLOTS,
        ],
        [
            'spawn that burns',
            operations.SPAWN,
            'slots allocated adapters lpar image',
            {'once': True},
        ],
        [
            'spawn with config drive',
            operations.SPAWN,
            'slots adapters lpar image medium',
            {'config_drive': True},
        ],
        ['arrival', operations.ARRIVAL, 'slots adapters lpar disks'],
        [
            'arrival without slots',
            operations.ARRIVAL,
            'rules adapters lpar disks',
            NO_SLOTS,
        ],
        [
            'check of spawn',
            operations.SPAWN.as_check(),
            'slots adapters image',
        ],
        [
            'check of arrival',
            operations.ARRIVAL.as_check(),
            'slots adapters lpar',
            {'config_drive': True},
        ],
        [
            'check of arrival that burns',
            operations.ARRIVAL.as_check(),
            'slots adapters lpar',
            {'once': True},
        ],
        ['departure', operations.DEPARTURE, 'lpar'],
        ['resize', operations.RESIZE, 'lpar'],
        ['return', operations.RETURN, 'lpar disks slots adapters'],
        [
            'return that burns',
            operations.RETURN,
            'lpar disks slots allocated adapters',
            {'once': True},
        ],
        ['start', operations.START, 'lpar'],
        ['soft reboot', operations.SOFT_REBOOT, 'lpar'],
        ['hard reboot', operations.HARD_REBOOT, 'lpar disks slots adapters'],
        [
            'hard reboot without slots',
            operations.HARD_REBOOT,
            'lpar disks rules adapters',
            NO_SLOTS,
        ],
    )
    def test_absent_lpar(self, row, expected, changes=()):
        changes = dict(changes)
        if changes.pop('once', False):
            changes['slots'] = (values.slot(ONCE),)

        self.check(row, wanted(**changes), None, expected)

    @ddt.named_data(
        ['departure', operations.DEPARTURE, 'lpar'],
        ['resize', operations.RESIZE, 'lpar rules adapters'],
        ['return', operations.RETURN, 'lpar'],
        ['start', operations.START, 'lpar adapters'],
        ['soft reboot', operations.SOFT_REBOOT, 'lpar adapters'],
        ['hard reboot', operations.HARD_REBOOT, 'lpar rules adapters'],
        ['attachment', operations.ATTACH_PORT, 'adapters'],
        ['detachment', operations.DETACH_PORT, ''],
        ['plugging', operations.PLUG_PORTS, 'adapters'],
    )
    def test_running_lpar(self, row, expected):
        self.check(row, wanted(), lpar(RUNNING), expected)

    @ddt.named_data(
        ['attachment', operations.ATTACH_PORT, 'adapters lpar'],
        ['detachment', operations.DETACH_PORT, ''],
        ['plugging', operations.PLUG_PORTS, 'adapters lpar'],
        ['soft reboot', operations.SOFT_REBOOT, 'lpar adapters'],
    )
    def test_running_lpar_without_adapter(self, row, expected):
        self.check(
            row,
            wanted(ports=(values.port(),)),
            lpar(RUNNING),
            expected,
            adapters=values.changes(missing=[1]),
        )

    @ddt.named_data(
        ['departure', operations.DEPARTURE, 'lpar'],
        ['resize', operations.RESIZE, 'lpar rules adapters disks mappings'],
        ['return', operations.RETURN, 'lpar adapters disks mappings'],
        ['start', operations.START, 'lpar adapters disks mappings'],
        [
            'soft reboot',
            operations.SOFT_REBOOT,
            'lpar adapters disks mappings',
        ],
        [
            'hard reboot',
            operations.HARD_REBOOT,
            'lpar rules adapters disks mappings',
        ],
    )
    def test_lpar_that_is_off(self, row, expected):
        self.check(row, wanted(), lpar(), expected)

    @ddt.named_data(
        ['departure', operations.DEPARTURE, 'lpar'],
        ['resize', operations.RESIZE, 'lpar slots allocated adapters'],
        ['return', operations.RETURN, 'lpar'],
        ['start', operations.START, 'lpar slots allocated adapters'],
        [
            'soft reboot',
            operations.SOFT_REBOOT,
            'lpar slots allocated adapters',
        ],
        [
            'hard reboot',
            operations.HARD_REBOOT,
            'lpar slots allocated adapters',
        ],
    )
    def test_running_lpar_without_device_to_burn(self, row, expected):
        self.check(row, wanted(ONCE), lpar(RUNNING, ()), expected)

    @ddt.named_data(
        ['resize', operations.RESIZE, 'lpar slots adapters disks mappings'],
        ['start', operations.START, 'lpar slots adapters disks mappings'],
        [
            'hard reboot',
            operations.HARD_REBOOT,
            'lpar slots adapters disks mappings',
        ],
    )
    def test_lpar_that_is_off_without_slot(self, row, expected):
        self.check(row, wanted(), BARE, expected)

    @ddt.named_data(
        ['resize', operations.RESIZE, 'lpar rules adapters'],
        ['hard reboot', operations.HARD_REBOOT, 'lpar rules adapters'],
        ['start', operations.START, 'lpar'],
    )
    def test_running_lpar_with_slot_of_move(self, row, expected):
        self.check(
            row,
            wanted(moved_slots=frozenset({MOVED})),
            lpar(RUNNING, (GPU, MOVED)),
            expected,
        )

    @ddt.named_data(
        ['departure', operations.DEPARTURE, RUNNING, 'lpar'],
        [
            'resize',
            operations.RESIZE,
            RUNNING,
            'lpar rules adapters swap_fits',
        ],
        [
            'resize of LPAR that is off',
            operations.RESIZE,
            OFF,
            'lpar rules adapters disks mappings',
        ],
        [
            'hard reboot',
            operations.HARD_REBOOT,
            RUNNING,
            'lpar rules adapters swap_fits',
        ],
        [
            'hard reboot of LPAR that is off',
            operations.HARD_REBOOT,
            OFF,
            'lpar rules adapters disks mappings',
        ],
    )
    def test_swap_disk_that_may_differ(self, row, state, expected):
        self.check(row, wanted(checks_swap=True), lpar(state), expected)

    @ddt.named_data(
        ['resize', operations.RESIZE, 'lpar rules'],
        # Its disks are connected again, whether it starts or not.
        ['return', operations.RETURN, 'lpar disks mappings'],
    )
    def test_lpar_that_stays_off_needs_no_adapters(self, row, expected):
        self.check(row, wanted(power_on=False), lpar(), expected)

    @ddt.named_data(
        ['start', operations.START, 'lpar disks mappings'],
        ['hard reboot', operations.HARD_REBOOT, 'lpar rules disks mappings'],
    )
    def test_unknown_ports_need_no_adapters(self, row, expected):
        self.check(row, wanted(ports=None), lpar(), expected)

    def test_refused_lpar_is_all_that_is_read(self):
        for row in values.carried_out()[2:]:
            self.check(row, wanted(), lpar(values.UNKNOWN), 'lpar')

    def test_config_drive_is_made_only_if_it_is_missing(self):
        self.check(
            operations.HARD_REBOOT,
            wanted(config_drive=True),
            lpar(),
            'lpar rules adapters disks mappings medium',
            mappings=(),
        )
        self.check(
            operations.HARD_REBOOT,
            wanted(config_drive=True),
            lpar(),
            'lpar rules adapters disks mappings',
        )
