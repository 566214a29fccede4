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

"""What [DEFAULT]resize_confirm_window would end and confirm."""

import datetime
import unittest

from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import unconfirmed_moves

NOW = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
WAITS, ACTIVE = ('VERIFY_RESIZE', None), ('ACTIVE', None)


class DescribeTest(unittest.TestCase):
    def describe(self, **servers):
        """Say it of servers, given by age of their move, status and task."""
        return [
            *unconfirmed_moves.describe_windows(
                [
                    unconfirmed_moves.FinishedMove(
                        f'move-of-{uuid}',
                        uuid,
                        NOW - datetime.timedelta(seconds=age),
                    )
                    for uuid, (age, _) in servers.items()
                ],
                {
                    uuid: state and left_moves.Server(*state, 'host1')
                    for uuid, (_, state) in servers.items()
                },
                NOW,
            )
        ]

    def test_window_is_the_age_of_the_move_that_waits_in_vain(self):
        first, second = self.describe(stuck=(3600.9, ACTIVE))
        self.assertRegex(
            first,
            'move-of-stuck of server stuck .*resize_confirm_window = 3600,',
        )
        self.assertEqual('This also confirms: no other server', second)

    def test_servers_that_wait_as_long_are_named(self):
        delay = unconfirmed_moves.DELAY.total_seconds()
        lines = self.describe(
            stuck=(3600, ACTIVE),
            older=(7200, WAITS),
            # It is as old when nova-compute looks.
            younger=(3600 - delay, WAITS),
            young=(3600 - delay - 1, WAITS),
        )
        self.assertEqual('This also confirms: older, younger', lines[1])

    def test_other_finished_moves_are_left_alone(self):
        for state in (WAITS, ('RESIZE', 'resize_finish'), None):
            (line,) = self.describe(one=(3600, state))
            self.assertIn('has a server that waits', line)
