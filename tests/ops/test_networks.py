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

"""Bridges that carry the VLANs of ports, and those that refuse them."""

import dataclasses

import ddt
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import network as pvm_network

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import shared_ethernet
from tests.ops import base

FIRST, SECOND = 'ETHERNET0(Default)', 'ETHERNET1'
#: Bridges on two switches, and on one, each with the names of its networks.
TWO_SWITCHES = {'front': (FIRST, 1, []), 'back': (SECOND, 1, [])}
ONE_SWITCH = {'front': (FIRST, 1, []), 'back': (FIRST, 2, [200])}
CHANGE = 'POST NetworkBridge.update'
_PORTS = (base.PORT, base.PORT2)


def port(network=None, vlan=base.VLAN, number=0):
    """Return a port of a physical network."""
    return dataclasses.replace(
        _PORTS[number], physical_network=network, vlan=vlan
    )


class BridgeTestCase(base.HostTestCase):
    """Has a host with bridges of a story's own."""

    def world(self):
        """Return a host with one bridge that carries two VLANs."""
        return self.world_with(
            getattr(self, 'bridges', [(FIRST, 7, [base.VLAN, 50])])
        )

    def world_with(self, bridges):
        """Return a host with the bridges (switch, PVID and VLANs)."""
        world = super().world()
        (system,) = world['systems']
        system['virtual_switches'] = [{'name': FIRST}, {'name': SECOND}]
        system['network_bridges'] = [
            {'vios': 'vios1', 'switch': switch, 'pvid': pvid, 'vlans': vlans}
            for switch, pvid, vlans in bridges
        ]
        return world

    def begin_with(self, networks):
        """Begin anew with a bridge for each physical network."""
        self.bridges = list(networks.values())
        self.begin()
        several = len({switch for switch, *_ in self.bridges}) == 1
        self.start_service(
            bridge_mappings={
                name: shared_ethernet.BridgeName(
                    switch.removesuffix('(Default)'), pvid if several else None
                )
                for name, (switch, pvid, _) in networks.items()
            }
        )

    def carried(self):
        """Return the tagged VLANs of each bridge."""
        return [each['vlans'] for each in self._system()['network_bridges']]

    def connected(self):
        """Return VLAN and switch of each adapter of the LPAR."""
        return [(a['vlan'], a['switch']) for a in self.lpar()['adapters']]

    def refuse(self, *words, ports):
        """Have a build refused; nothing changes."""
        self.refused(
            exception.PortRefused,
            operations.SPAWN,
            self.describe(ports=ports),
            *words,
        )
        self.assertIsNone(self.lpar())


@ddt.ddt
class ProvisionTest(BridgeTestCase):
    """VLANs that a bridge gets for ports."""

    @ddt.named_data(
        ['present', [base.VLAN, 50], [], [50, base.VLAN]],
        ['flat', [None], [], [50, base.VLAN]],
        ['new', [9], [CHANGE], [9, 50, base.VLAN]],
        ['one for two ports', [9, 9], [CHANGE], [9, 50, base.VLAN]],
        ['two', [9, 8], [CHANGE], [8, 9, 50, base.VLAN]],
    )
    def test_bridge_gets_missing_vlans_in_one_change(
        self, wanted, changes, carried
    ):
        ports = [
            port(vlan=vlan, number=number)
            for number, vlan in enumerate(wanted)
        ]

        self.spawn(ports=tuple(ports))

        self.assertEqual(
            [(vlan or 7, FIRST) for vlan in wanted], self.connected()
        )
        self.assertEqual(
            changes, [found for found in self.changes() if found == CHANGE]
        )
        self.assertEqual([carried], [sorted(v) for v in self.carried()])

    @ddt.data(50, None)
    def test_bridge_that_others_provision_serves_its_own_vlans(self, vlan):
        self.start_service(provision_vlans=False)

        self.spawn(ports=(port(vlan=vlan),))

        self.assertEqual([(vlan or 7, FIRST)], self.connected())

    @ddt.named_data(
        ['any by default', False, 'ALL'], ['none if fixed', True, 'NONE']
    )
    def test_new_adapter_tells_what_addresses_guest_can_set(
        self, fixed, expected
    ):
        """Before, each guest could take the address of another one."""
        self.start_service(fixed_mac_addresses=fixed)

        wanted = self.spawn(ports=(port(),))

        (found,) = pvm_network.CNA.get(
            self.adapter,
            parent_type=logical_partition.LPAR,
            parent_uuid=wanted.lpar_uuid,
        )
        self.assertEqual(
            expected,
            found.element.findtext('AllowedOperatingSystemMACAddresses'),
        )

    def test_full_bridge_is_warned_of_and_then_refuses_new_vlan(self):
        limit = shared_ethernet.TRUNKS * shared_ethernet.VLANS_PER_TRUNK
        self.bridges = [(FIRST, 1, list(range(1000, 1000 + limit - 1)))]
        self.begin()

        with self.logged('WARNING') as logged:
            wanted = self.spawn(ports=(port(vlan=9),))
        self.assertIn('it can have 0 more VLANs', logged.output[0])
        self.removals.destroy(wanted.instance_uuid)
        self.refuse('it is full', 'ETHERNET0/1', ports=(port(vlan=8),))

        self.spawn(ports=(port(vlan=1000), port(vlan=9, number=1)))
        self.assertEqual([(1000, FIRST), (9, FIRST)], self.connected())

    def test_host_without_bridge_builds_without_ports_only(self):
        self.bridges = []
        self.begin()

        self.refuse('no Shared Ethernet bridge', ports=(port(),))
        self.spawn(ports=())

        self.assert_lpar(ports=())


class MappingTest(BridgeTestCase):
    """Bridges of physical networks.

    All reasons of a refusal are in tests/unit/lpar/test_networks.py.
    """

    def test_mappings_choose_bridge_by_its_switch(self):
        self.begin_with(TWO_SWITCHES)

        self.spawn(ports=(port('front', 8), port('back', 9, number=1)))

        self.assertEqual([(8, FIRST), (9, SECOND)], self.connected())
        self.assertEqual([[8], [9]], self.carried())

    def test_vlan_id_on_two_switches_is_two_networks(self):
        self.begin_with(TWO_SWITCHES | {'back': (SECOND, 1, [base.VLAN])})

        self.spawn(ports=(port('front'),))

        self.assertEqual([(base.VLAN, FIRST)], self.connected())
        self.assertEqual([[base.VLAN], [base.VLAN]], self.carried())

    def test_mappings_choose_bridge_by_its_pvid(self):
        self.begin_with(ONE_SWITCH)

        self.spawn(ports=(port('back', 9),))

        self.assertEqual([[], [9, 200]], [sorted(v) for v in self.carried()])

    def test_vlan_of_another_bridge_of_the_switch_is_refused(self):
        self.begin_with(ONE_SWITCH)

        for vlan in (200, 2):
            self.refuse(
                f'VLAN {vlan} belongs to',
                'ETHERNET0/2',
                ports=(port('front', vlan),),
            )
