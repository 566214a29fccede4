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
"""Who burned a device."""

import unittest

from nova_powervm.devices import one_time_use

NOON, HOUR = 1_800_000_000.0, 3600


def holder(number, since=NOON, providers=('p1',), **changes):
    """Make an instance of a project of its own."""
    return one_time_use.Holder(
        f'i{number}',
        f'project{number}',
        frozenset(providers),
        since,
        **changes,
    )


class LastTest(unittest.TestCase):
    """The last holder of each device."""

    def test_last_holder_is_found_in_any_order(self):
        early, late = holder(1, NOON), holder(2, NOON + HOUR)
        for holders in ([early, late], [late, early]):
            self.assertEqual(
                {'p1': late}, one_time_use.find_last(holders, ['p1', 'p2'])
            )

    def test_devices_that_are_not_asked_for_are_left_out(self):
        last = one_time_use.find_last(
            [holder(1, providers=('p1', 'p2'))], ['p2']
        )
        self.assertEqual(['p2'], [*last])


class NameTest(unittest.TestCase):
    """The project that a device is put down to."""

    def test_project_of_last_holder_has_burned_device(self):
        for last, reserved_at in (
            (holder(1), None),
            (holder(1), NOON + HOUR),
            (holder(1, until=NOON + HOUR), NOON),
            # The clocks of Nova and Placement differ a little.
            (
                holder(1, until=NOON),
                NOON + 30,
            ),
        ):
            with self.subTest(last=last, reserved_at=reserved_at):
                self.assertEqual(
                    'project1', one_time_use.name_project(last, reserved_at)
                )

    def test_device_reserved_after_last_holder_is_unknown(self):
        self.assertEqual('unknown', one_time_use.name_project(None, NOON))
        self.assertEqual(
            'unknown',
            one_time_use.name_project(holder(1, until=NOON), NOON + HOUR),
        )
