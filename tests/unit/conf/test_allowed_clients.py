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

"""Which clients of consoles can be allowed."""

import ipaddress
import unittest

import ddt
from oslo_config import cfg

from nova_powervm import conf
from nova_powervm import exception
from nova_powervm.conf import powervm as options


def read(*clients):
    """Return the settings of a service with allowed clients."""
    made = cfg.ConfigOpts()
    conf.register_opts(made)
    made.set_override('vnc_allowed_clients', clients, group='powervm')
    return options.read_settings(made.powervm)


@ddt.ddt
class AllowedClientsTest(unittest.TestCase):
    def test_addresses_and_networks_are_read(self):
        networks = ['192.0.2.10', '198.51.100.0/24', '2001:db8::/64']
        self.assertEqual(
            [ipaddress.ip_network(one) for one in networks],
            read(*networks).vnc_allowed_clients,
        )

    @ddt.data('proxy.example.org', '192.0.2.1/24', '192.0.2.256', '')
    def test_read_refuses_other_values_by_name(self, value):
        with self.assertRaises(exception.ConfigurationError) as caught:
            read('192.0.2.10', value)
        self.assertIn('[powervm]vnc_allowed_clients', str(caught.exception))
        self.assertIn(f"'{value}'", str(caught.exception))
