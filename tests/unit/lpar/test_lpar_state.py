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

"""Translation of PowerVM's states."""

import unittest

import ddt

from nova_powervm.lpar import lpar_state
from nova_powervm.lpar.lpar_state import Power


@ddt.ddt
class PowerStateTest(unittest.TestCase):
    @ddt.named_data(
        ['running', 'running', Power.RUNNING],
        ['off', 'not activated', Power.OFF],
        ['suspended', 'suspended', Power.SUSPENDED],
        ['error', 'error', Power.FAILED],
        ['not available', 'not available', Power.UNKNOWN],
        ['other letters', ' Open Firmware ', Power.RUNNING],
        ['a word of tomorrow', 'levitating', Power.UNKNOWN],
        ['nothing', '', Power.UNKNOWN],
    )
    def test_power_translates_state_of_lpar(self, word, expected):
        self.assertIs(expected, lpar_state.power(word))
