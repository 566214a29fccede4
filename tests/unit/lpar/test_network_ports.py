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

from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet

MACS = st.sampled_from([f'fa:16:3e:00:00:0{n}' for n in range(4)])
VLANS = st.sampled_from([1, 100, 200])
ADAPTERS = st.lists(
    st.builds(shared_ethernet.Adapter, MACS, VLANS, st.just('ETHERNET0')),
    unique_by=lambda adapter: adapter.mac,
)
PORTS = st.lists(
    st.builds(
        network_ports.Port,
        id=MACS,
        mac=MACS,
        vif_type=st.just(shared_ethernet.VIF_TYPE),
        vlan=st.none() | VLANS,
    ),
    unique_by=lambda port: port.mac,
)


def compare(ports, adapters):
    return network_ports.compare(
        ports, adapters, shared_ethernet.Adapter.serves
    )


class DifferencesTest(unittest.TestCase):
    @hypothesis.given(PORTS, ADAPTERS)
    def test_carried_out_differences_leave_none(self, ports, adapters):
        mismatch = compare(ports, adapters)
        changed = [
            adapter for adapter in adapters if adapter not in mismatch.surplus
        ] + [
            shared_ethernet.Adapter(port.mac, port.vlan or 1, 'ETHERNET0')
            for port in mismatch.missing
        ]

        self.assertFalse(compare(ports, changed))

    @hypothesis.given(PORTS, ADAPTERS)
    def test_adapter_of_port_is_never_surplus(self, ports, adapters):
        mismatch = compare(ports, adapters)

        missing = {port.mac for port in mismatch.missing}
        kept = {port.mac for port in ports} - missing
        self.assertFalse(kept & {adapter.mac for adapter in mismatch.surplus})

    @hypothesis.given(ADAPTERS)
    def test_adapters_are_all_surplus_without_ports(self, adapters):
        self.assertEqual(adapters, list(compare([], adapters).surplus))
