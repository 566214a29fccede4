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

"""Something happens at each write of a first report to Cyborg."""

from tests.functional import test_cyborg_driver


class ReportSweepTest(test_cyborg_driver.ReportTest):
    """Placement refuses a write, or the services are killed at it."""

    def setUp(self):
        super().setUp()
        self.cyborg.placement.take()
        self.prepare()
        writes = sum(
            not line.startswith('GET') for line in self.cyborg.placement.take()
        )
        self.assertGreater(writes, 6)
        self.places = [
            (number, passing)
            for number in range(1, writes + 1)
            for passing in (False, True)
        ]

    def story_write_that_placement_refuses_is_made_good(self):
        self.interrupt(self.places, lambda: None)

    def story_killed_services_make_good_what_they_left(self):
        """Agent and conductor are killed between database and Placement."""
        self.interrupt(self.places, self.cyborg.kill, self.cyborg.restart)
