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

"""Whatever happens, in whatever order, devices stay where they belong.

The driver's core, its translation for Nova, Nova's report client and resource
tracker are real, and so are the inventory file and the journal. The host,
Placement and Nova's manager are models, in :mod:`.simulation`.
"""

import unittest

from hypothesis import settings
from hypothesis import stateful

from tests.property.simulation import machine


class SimulationTest(unittest.TestCase):
    def test_no_order_of_events_breaks_an_invariant(self):
        stateful.run_state_machine_as_test(
            machine.Simulation,
            settings=settings(
                max_examples=30, stateful_step_count=40, deadline=None
            ),
        )
