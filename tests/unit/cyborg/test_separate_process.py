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

"""The driver in a process of its own, where nova must not be loaded."""

import subprocess
import sys
import unittest

_PROGRAM = """
import sys
import nova_powervm.cyborg.driver
print(*sorted(name for name in sys.modules if name.split('.')[0] == 'nova'))
import nova.conf
"""


class SeparateProcessTest(unittest.TestCase):
    def test_driver_loads_no_nova_which_could_not_be_loaded_anyway(self):
        done = subprocess.run(
            [sys.executable, '-c', _PROGRAM],
            capture_output=True,
            text=True,
            check=False,
        )

        self.assertEqual('', done.stdout.strip())
        self.assertIn('DuplicateOptError', done.stderr)
