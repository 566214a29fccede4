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

"""What of the host's answers becomes which slot."""

import types
import unittest

from nova_powervm.powervm import views


def adapter(mode, index='553713699'):
    return types.SimpleNamespace(mode=mode, id=index)


class SriovTest(unittest.TestCase):
    def test_what_is_not_clearly_dedicated_counts_as_shared(self):
        for mode, expected in (
            ('Sriov', [0x21010023]),
            ('unknown', [0x21010023]),
            (None, [0x21010023]),
            ('Dedicated', []),
            ('ForceDedicated', []),
        ):
            with self.subTest(mode=mode):
                config = types.SimpleNamespace(sriov_adapters=[adapter(mode)])
                self.assertEqual(expected, list(views._sriov_indexes(config)))

    def test_an_adapter_without_a_slot(self):
        config = types.SimpleNamespace(sriov_adapters=[adapter('Sriov', None)])
        self.assertEqual([], list(views._sriov_indexes(config)))
