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

import contextlib

from tests.functional import real_cyborg
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

    # Something happens at one of the writes of a first report, of which each
    # slot has some: class, provider, inventory and traits.

    def interrupt(self, places, spring, repair=lambda: None):
        """Let something happen at some writes, one after the other.

        :param places: For each, the number of the write, counted from 1, and
            whether Placement gets it.
        :param spring: What happens.
        :param repair: What an operator does afterwards.
        """
        wanted = self.contents()
        for number, passing in places:
            with self.subTest(f'write {number}, {passing}'):
                self.begin_anew()
                self.cyborg.placement.set_trap(number, spring, passing=passing)
                with contextlib.suppress(real_cyborg.ServiceError):
                    self.cyborg.report()
                self.assertTrue(self.cyborg.placement.remove_trap())
                repair()
                self.assert_made_good(wanted)

    def assert_made_good(self, wanted):
        """Assert that all is as wanted after a few more reports."""
        self.look(3)
        self.assertEqual(wanted, self.contents())
        tables = self.cyborg.call('tables')
        self.assertEqual(
            sorted(uuid for uuid, _, _ in wanted.values()),
            sorted(row['rp_uuid'] for row in tables['deployables']),
        )
        self.assertEqual(2, len(tables['attach_handles']))
