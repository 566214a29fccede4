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

import unittest

from demo import cloud


def _server(status, fault=''):
    return cloud.Server('a-uuid', 'a-name', 'instance-1', status, fault)


class ServerTest(unittest.TestCase):
    """Waiting for a server ends at its final status."""

    def test_active_server_is_settled(self):
        self.assertFalse(_server('BUILD').is_settled)
        self.assertTrue(_server('ACTIVE').is_settled)

    def test_failed_server_is_settled_once_its_fault_is_set(self):
        self.assertFalse(_server('ERROR').is_settled)
        self.assertTrue(_server('ERROR', 'No valid host').is_settled)
