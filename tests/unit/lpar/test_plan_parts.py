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

import dataclasses
import unittest

import ddt

from nova_powervm import exception
from nova_powervm.lpar import operations
from tests.unit.lpar import plan_values as values
from tests.unit.lpar.plan_values import GPU
from tests.unit.lpar.plan_values import MOVED
from tests.unit.lpar.plan_values import ONCE
from tests.unit.lpar.plan_values import lpar
from tests.unit.lpar.plan_values import wanted

BURNS = {'slots': (values.slot(ONCE),)}


@ddt.ddt
class PartsTest(unittest.TestCase):
    @ddt.named_data(
        [
            'is right',
            {},
            {},
            """
            spawn, absent: slots adapters lpar image
            arrival, absent: slots adapters lpar disks
            check of spawn, absent: slots lpar adapters image
            departure: lpar has_rescue | . | . | lpar has_rescue | lpar | "
            resize: lpar rules adapters | . | . |\
 lpar rules adapters disks mappings | lpar | "
            return: lpar | . | . | lpar adapters disks mappings | lpar |\
 lpar disks slots adapters
            start: lpar adapters | . | . | lpar adapters disks mappings |\
 lpar | "
            soft reboot: lpar adapters | . | . |\
 lpar adapters disks mappings | lpar | "
            hard reboot: lpar rules adapters has_rescue | . | . |\
 lpar rules adapters disks mappings | lpar | lpar disks slots adapters
            rescue: lpar rules has_rescue mappings image | . | . |\
 lpar disks rules has_rescue mappings image | lpar | "
            unrescue: lpar | . | . | lpar disks | lpar | "
            attachment of a port, running: adapters
            detachment of a port, running: -
            plugging, running: adapters
            """,
        ],
        [
            'has no pool',
            {},
            {'has_pool': False},
            """
            start, off: lpar adapters has_rescue
            hard reboot, off: lpar rules adapters has_rescue
            """,
        ],
        [
            'needs no slots',
            {'slots': ()},
            {},
            """
            spawn, absent: rules adapters lpar image
            arrival, absent: rules adapters lpar disks
            hard reboot, absent: lpar disks rules adapters
            """,
        ],
        [
            'needs a device to burn',
            BURNS,
            {'owned': ()},
            """
            spawn, absent: slots allocated adapters lpar image
            check of arrival, absent: slots adapters lpar
            departure, running: lpar has_rescue
            resize, running: lpar slots allocated adapters
            return: lpar | . | . | . | . |\
 lpar disks slots allocated adapters
            start, running: lpar slots allocated adapters
            soft reboot, running: lpar slots allocated adapters
            hard reboot, running: lpar slots allocated adapters has_rescue
            """,
        ],
        [
            'lacks a slot',
            {},
            {'owned': ()},
            """
            resize, off: lpar slots adapters disks mappings
            start, off: lpar slots adapters disks mappings
            hard reboot, off: lpar slots adapters disks mappings
            """,
        ],
        [
            'has a slot of a move',
            {'moved_slots': {MOVED: 'move'}},
            {'owned': (GPU, MOVED)},
            """
            resize, running: lpar rules adapters
            hard reboot, running: lpar rules adapters has_rescue
            start, running: lpar allocated
            """,
        ],
        [
            'lacks an adapter',
            {'ports': (values.port(),)},
            {'adapters': values.changes(missing=[1])},
            """
            attachment of a port, running: adapters lpar
            detachment of a port, running: -
            plugging, running: adapters lpar
            soft reboot, running: lpar adapters
            """,
        ],
        [
            'has a swap disk that may differ',
            {'checks_swap': True},
            {},
            """
            departure, running: lpar has_rescue
            resize: lpar rules adapters swap_fits | . | . |\
 lpar rules adapters disks mappings | . | .
            hard reboot: lpar rules adapters swap_fits has_rescue | . | . |\
 lpar rules adapters disks mappings | . | .
            """,
        ],
        [
            'stays off',
            {'power_on': False},
            {},
            # Its disks are connected again, whether it starts or not.
            'resize, off: lpar rules\nreturn, off: lpar disks mappings',
        ],
        [
            'has unknown ports',
            {'ports': None},
            {},
            """
            start, off: lpar disks mappings
            hard reboot, off: lpar rules disks mappings
            """,
        ],
        [
            'has its config drive',
            {'config_drive': True},
            {},
            """
            spawn, absent: slots adapters lpar image medium
            check of arrival, absent: slots adapters lpar
            hard reboot, off: lpar rules adapters disks mappings
            """,
        ],
        [
            'lacks its config drive',
            {'config_drive': True},
            {'mappings': ()},
            'hard reboot, off: lpar rules adapters disks mappings medium',
        ],
    )
    def test_parts_for_lpar_that(self, described, host, text):
        host = dict(host)
        owned = host.pop('owned', (GPU,))
        has_pool = host.pop('has_pool', True)
        for row, state, expected in values.table(text):
            present = state and lpar(state, owned)
            with self.subTest(row=str(row), state=state):
                _, read = values.survey(
                    row,
                    wanted(**described),
                    values.parts(present, **host),
                    has_pool=has_pool,
                )

                self.assertEqual(
                    expected, ' '.join(part.name.lower() for part in read)
                )


class OneReadingTest(unittest.TestCase):
    """A plan does not mix two readings of the host."""

    def test_fresh_reading_decides_also_what_host_supports(self):
        old = dataclasses.replace(values.managed_system(), proc_units_free=0.0)
        fresh = dataclasses.replace(
            old, proc_units_free=4.0, memory_region_mb=4096
        )

        made, read = values.survey(
            operations.SPAWN,
            wanted(slots=()),
            values.parts(rules=old, slots=fresh),
        )

        self.assertEqual(['RULES', 'SLOTS'], [part.name for part in read[:2]])
        self.assertIsInstance(made.refusal, exception.MemorySizeRefused)
        self.assertIn('4096', str(made.refusal))
