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

"""Errors of the compute API."""

import unittest

import fixtures

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import flavor_client


class FlavorClientTest(unittest.TestCase):
    def test_unknown_cloud_is_reported_once_with_its_cure(self):
        with (
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', '/dev/null'),
            self.assertRaises(errors.ComputeApiError) as caught,
        ):
            flavor_client.FlavorClient('nowhere')
        text = str(caught.exception)
        self.assertEqual(1, text.lower().count('the compute api'), text)
        self.assertIn('Cloud nowhere was not found', text)
        self.assertIn('--os-cloud', text)
