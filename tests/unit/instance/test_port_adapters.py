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

import hypothesis
from hypothesis import strategies as st

from nova_powervm.instance import network
from nova_powervm.instance import port_adapters

MACS = st.sampled_from([f'fa:16:3e:00:00:0{n}' for n in range(4)])
VLANS = st.sampled_from([1, 100, 200])
ADAPTERS = st.lists(
    st.builds(
        network.Adapter,
        MACS,
        VLANS,
        st.sampled_from(['ETHERNET0', port_adapters.MANAGEMENT_SWITCH]),
    ),
    unique_by=lambda adapter: adapter.mac,
)
PORTS = st.lists(
    st.builds(
        network.Port,
        id=MACS,
        mac=MACS,
        vif_type=st.just(network.VIF_TYPE),
        vlan=st.none() | VLANS,
    ),
    unique_by=lambda port: port.mac,
)


class DifferencesTest(unittest.TestCase):
    @hypothesis.given(PORTS, ADAPTERS)
    def test_applied_differences_leave_none(self, ports, adapters):
        found = port_adapters.differences(ports, adapters)
        changed = [
            adapter for adapter in adapters if adapter not in found.surplus
        ] + [
            network.Adapter(port.mac, port.vlan or 1, 'ETHERNET0')
            for port in found.missing
        ]

        self.assertFalse(port_adapters.differences(ports, changed))

    @hypothesis.given(PORTS, ADAPTERS)
    def test_adapter_of_port_is_not_surplus(self, ports, adapters):
        found = port_adapters.differences(ports, adapters)

        missing = {port.mac for port in found.missing}
        kept = {port.mac for port in ports} - missing
        self.assertFalse(kept & {adapter.mac for adapter in found.surplus})

    @hypothesis.given(ADAPTERS)
    def test_management_adapters_are_kept_without_ports(self, adapters):
        surplus = port_adapters.differences([], adapters).surplus

        self.assertEqual(
            [a for a in adapters if a.switch == 'ETHERNET0'], list(surplus)
        )

    def test_adapter_on_management_switch_does_not_count_for_port(self):
        mac = 'fa:16:3e:00:00:01'
        port = network.Port(mac, mac, network.VIF_TYPE, vlan=100)
        there = network.Adapter(mac, 100, port_adapters.MANAGEMENT_SWITCH)

        self.assertEqual(
            port_adapters.Differences(missing=(port,)),
            port_adapters.differences([port], [there]),
        )


class BridgeRoomTest(unittest.TestCase):
    def test_trunk_adapter_has_room_for_twenty_vlans(self):
        self.assertEqual(300, network.room_of([]))
        self.assertEqual(280 + 13, network.room_of([7]))
        self.assertEqual(0, network.room_of([20] * 15))
        self.assertEqual(0, network.room_of([21] * 16))
