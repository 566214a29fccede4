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

from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network as pvm_network

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.emulator import fixture
from nova_powervm.powervm import seas
from nova_powervm.powervm import session
from nova_powervm.powervm import system


class SeaTest(unittest.TestCase):
    """A host whose virtual Ethernet is not as one expects."""

    def setUp(self):
        super().setUp()
        emulator = fixture.Emulator()
        emulator.start()
        self.addCleanup(emulator.stop)
        server = options.Server(
            url=emulator.url,
            username=emulator.username,
            password=emulator.password,
            connect_timeout=0,
        )
        self.adapter = session.connect(server)
        self.addCleanup(self.adapter.session.close)
        self.networks = seas.SeaNetworks(
            self.adapter, system.RestSystem(self.adapter, server)
        )

    def bridge(self):
        """Read the one bridge with pypowervm."""
        (managed,) = managed_system.System.get(self.adapter)
        (found,) = pvm_network.NetBridge.get(self.adapter, parent=managed)
        return found

    def test_the_bridge_of_the_host(self):
        (found,) = self.networks.bridges()
        self.assertEqual(
            ('ETHERNET0', 1, frozenset([1])),
            (found.switch, found.pvid, found.vlans),
        )

    def test_a_bridge_without_an_adapter_is_passed_over(self):
        bridge = self.bridge()
        bridge.seas.remove(bridge.seas[0])
        self.assertIsNone(self.networks._describe(bridge))

    def test_a_switch_that_the_host_does_not_list(self):
        with self.assertRaises(exception.RestError) as caught:
            self.networks._switch(7)
        self.assertIn('virtual switch 7', str(caught.exception))
