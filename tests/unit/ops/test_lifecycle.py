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

"""What becomes of that which a failed build has left."""

import unittest
import unittest.mock

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.ops import lifecycle
from nova_powervm.ops import removal
from tests.emulator import base

INSTANCE = '5487ce1e-af19-422a-99b8-a714e61a441c'
SILENT = exception.RestSilent(server='it', reason='no answer')
FAILED = exception.RestError(action='it', reason='HTTP 500')


class Host:
    """At most one LPAR, which can't be started, and its disks."""

    def __init__(self):
        self.uuid = partition.lpar_uuid(INSTANCE)
        self.state = None
        self.creation = None
        self.deletion = None
        self.done = []

    def find(self, uuid):
        if self.state is None:
            return None
        return partition.Partition(uuid, 'vm1', self.state, 512, 1, 0.1, {})

    def create(self, spec):
        if self.creation:
            raise self.creation
        self.state = 'not activated'
        return self.find(spec.uuid)

    def power_on(self, lpar):
        raise FAILED

    def power_off(self, lpar, *, hard):
        self.state = 'not activated'

    def delete(self, uuid):
        if self.deletion:
            raise self.deletion
        self.state = None
        self.done.append('delete')

    def remove(self, uuid, *, delete):
        self.done.append('remove disks')

    pool = None

    def attach(self, uuid, stored):
        """Attach nothing."""


class TidyTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)
        self.host = Host()
        self.now = 0
        self.removal = removal.RemovalOps(
            self.host, self.host, clock=lambda: self.now
        )
        self.ops = lifecycle.LifecycleOps(
            self.host,
            unittest.mock.Mock(),
            unittest.mock.Mock(),
            self.host,
            unittest.mock.MagicMock(),
            unittest.mock.Mock(),
            self.removal,
            unittest.mock.Mock(),
        )
        spec = partition.PartitionSpec(
            self.host.uuid, 'vm1', 512, 1, 0.1, slots=()
        )
        self.enterContext(
            unittest.mock.patch.multiple(
                self.ops,
                _plan=unittest.mock.Mock(
                    return_value=lifecycle._Plan(spec, (), (), None)
                ),
            )
        )

    def fail_to_build(self):
        build = unittest.mock.MagicMock(uuid=INSTANCE)
        with self.assertRaises(exception.PowerVMError) as caught:
            self.ops.spawn(build)
        self.host.done.clear()
        return caught.exception

    def leave(self):
        """Leave an LPAR that could neither be started nor deleted."""
        self.host.deletion = FAILED
        self.assertIs(FAILED, self.fail_to_build())
        self.host.deletion = None

    def tidy(self, *instances):
        self.removal.remove_leftovers(lambda: instances)

    def test_leftover_lpar_is_removed_once_nova_moves_its_instance_away(self):
        self.leave()

        # Nova has not taken it from this host yet.
        self.tidy(INSTANCE)
        self.assertEqual([], self.host.done)
        self.tidy()

        self.assertEqual(['remove disks', 'delete'], self.host.done)

    def test_leftover_lpar_started_by_user_is_kept(self):
        self.leave()
        self.host.state = 'running'

        self.tidy(INSTANCE)
        self.tidy()

        self.assertEqual(([], 'running'), (self.host.done, self.host.state))

    def test_running_leftover_lpar_without_instance_is_removed(self):
        self.leave()
        self.host.state = 'running'

        self.tidy()

        self.assertIsNone(self.host.state)

    def test_lpar_that_appears_late_is_removed(self):
        self.host.creation = SILENT
        self.assertIs(SILENT, self.fail_to_build())
        self.tidy()
        self.now += removal.LATE_SECONDS - 1
        self.tidy()
        self.host.state = 'not activated'

        self.tidy()

        self.assertIsNone(self.host.state)

    def test_late_lpar_is_not_looked_for_after_limit(self):
        self.host.creation = SILENT
        self.fail_to_build()
        self.now += removal.LATE_SECONDS
        self.tidy()
        self.host.done.clear()

        self.tidy()

        self.assertEqual([], self.host.done)

    def test_nova_is_asked_only_where_something_was_left(self):
        self.removal.remove_leftovers(self.fail)
        self.host.creation = FAILED
        self.fail_to_build()

        self.removal.remove_leftovers(self.fail)
