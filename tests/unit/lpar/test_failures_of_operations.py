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

"""The table of operations says what becomes of a server after a failure."""

import unittest

from nova_powervm.lpar import operations


class FailureTest(unittest.TestCase):
    def test_nova_sets_servers_to_error_after_moves_and_unrescue_only(self):
        """A failed start or attachment leaves the server's state as it was."""
        self.assertEqual(
            [operations.RESIZE, operations.RETURN, operations.UNRESCUE],
            [
                row
                for row in operations.ALL
                if row.failure is operations.Failure.LEAVE
            ],
        )
