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

"""What a host that cannot run AIX does with it."""

import dataclasses

from nova_powervm import exception
from nova_powervm.lpar import operations
from tests.ops import base

REFUSED = exception.AixUnsupported
WORDS = 'os_distro=aix'


class AixTest(base.HostTestCase):
    def world(self):
        world = super().world()
        world['systems'][0]['capabilities']['aix'] = 'Inactive'
        return world

    def test_new_server_is_refused(self):
        self.refused(
            REFUSED, operations.SPAWN, self.describe(os_distro='aix'), WORDS
        )

    def test_server_of_linux_stays_as_it_is(self):
        self.wanted = self.spawn()
        aix = dataclasses.replace(self.wanted, os_distro='aix')
        for row in (operations.SPAWN, operations.ARRIVAL):
            with self.subTest(check=row):
                self.forget()
                with self.assertRaises(REFUSED):
                    self.lpars.check(row, aix)
                self.assertEqual([], self.changes())
        with self.subTest('rescue'):
            self.refused(REFUSED, operations.RESCUE, aix, WORDS)
        with self.subTest('reboot'):
            # Of an LPAR that is there.
            self.run_plan(operations.HARD_REBOOT, aix)
        self.assert_lpar(base.RUNNING)
