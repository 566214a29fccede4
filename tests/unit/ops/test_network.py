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

from nova_powervm import exception
from nova_powervm.domain import network
from nova_powervm.domain import partition
from nova_powervm.ops import network as network_ops

LPAR = 'LPAR-1'
FOUND = partition.Partition(
    uuid=LPAR,
    name='vm1',
    state='not activated',
    memory_mb=512,
    vcpus=1,
    proc_units=0.1,
    slots={},
    handle=None,
)


class Networks:
    """The virtual Ethernet of a host, in memory."""

    def __init__(self, *bridges):
        self.known = list(bridges)
        self.made = []
        self.asked = []

    def bridges(self):
        self.asked.append('bridges')
        return self.known

    def provision(self, bridge, vlans):
        self.asked.append(('provision', bridge.uuid, sorted(vlans)))

    def adapters(self, lpar):
        return self.made

    def plug(self, lpar, adapter):
        self.asked.append(('plug', lpar.uuid, adapter.mac))
        self.made.append(adapter)

    def unplug(self, lpar, mac):
        self.made = [found for found in self.made if found.mac != mac]


class Partitions:
    """LPARs of a host, in memory."""

    def __init__(self, *found):
        self._found = {lpar.uuid: lpar for lpar in found}

    def find(self, uuid):
        return self._found.get(uuid)


def port(number=1, **changes):
    return network.Port(
        **{
            'id': f'port-{number}',
            'mac': f'fa:16:3e:00:00:{number:02x}',
            'vif_type': network.VIF_TYPE,
            'vlan': 100,
        }
        | changes
    )


class NetworkOpsTest(unittest.TestCase):
    def test_an_adapter_on_another_vlan_is_not_taken_for_the_ports(self):
        self.ops.attach(LPAR, port(vlan=50))

        for attempt in (self.ops.attach, self.restore_one):
            with self.assertRaises(exception.PortRefused) as caught:
                attempt(LPAR, port(vlan=100))
            self.assertIn('on VLAN 50', str(caught.exception))

    def restore_one(self, lpar, wanted):
        self.ops.restore(lpar, [wanted])

    def setUp(self):
        self.networks = Networks(
            network.Bridge('b1', 'ETHERNET0', 1, frozenset((1, 50)))
        )
        self.ops = self.make_ops()

    def make_ops(self, provision=True, lpars=(FOUND,)):
        return network_ops.NetworkOps(
            self.networks, Partitions(*lpars), {}, provision=provision
        )

    def test_no_ports_ask_nothing(self):
        self.assertEqual((), self.ops.connect([]))
        self.ops.plug(FOUND, ())
        self.assertEqual([], self.networks.asked)

    def test_a_bad_port_is_refused_before_the_host_is_asked(self):
        with self.assertRaises(exception.PortRefused):
            self.ops.connect([port(), port(2, vif_type='ovs')])
        self.assertEqual([], self.networks.asked)

    def test_connecting_changes_nothing(self):
        self.ops.connect([port()])
        self.assertEqual(['bridges'], self.networks.asked)

    def test_new_vlans_are_provisioned_once_and_first(self):
        wanted = [port(1), port(2), port(3, vlan=99), port(4, vlan=50)]
        self.ops.plug(FOUND, self.ops.connect(wanted))
        self.assertEqual(
            [
                'bridges',
                ('provision', 'b1', [99, 100]),
                *(('plug', LPAR, each.mac) for each in wanted),
            ],
            self.networks.asked,
        )

    def test_a_bridge_that_others_provision_is_not_changed(self):
        ops = self.make_ops(provision=False)
        ops.connect([port(vlan=50)])
        with self.assertRaises(exception.PortRefused) as caught:
            ops.connect([port(vlan=51)])
        self.assertIn('provision_vlans is false', str(caught.exception))

    def test_restoring_adds_only_what_is_missing(self):
        self.ops.restore(LPAR, [port(1), port(2)])
        self.networks.unplug(LPAR, port(2).mac)
        self.networks.asked.clear()

        self.ops.restore(LPAR, [port(1), port(2)])

        self.assertEqual(('plug', LPAR, port(2).mac), self.networks.asked[-1])
        plugged = [asked for asked in self.networks.asked if 'plug' in asked]
        self.assertEqual(1, len(plugged))

    def test_restoring_what_is_there_asks_for_no_bridge(self):
        self.ops.restore(LPAR, [port()])
        self.networks.asked.clear()

        # Its binding may be lost meanwhile: the adapter is there.
        self.ops.restore(LPAR, [port(vif_type='binding_failed')])

        self.assertEqual([], self.networks.asked)

    def test_attaching_needs_the_lpar(self):
        ops = self.make_ops(lpars=())
        with self.assertRaises(exception.PartitionNotFound):
            ops.attach(LPAR, port())
        self.assertEqual(['bridges'], self.networks.asked)

    def test_detaching_twice_is_fine(self):
        self.ops.attach(LPAR, port())
        for _ in range(2):
            self.ops.detach(LPAR, [port()])
            self.assertEqual([], self.networks.made)
