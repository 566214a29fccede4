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

"""Captured switches, networks, bridges and adapters are served unchanged."""

from pypowervm.tasks import network_bridger
from pypowervm.wrappers import network

from powervm_emulator.core import captures

from . import base
from . import facts
from . import test_captures

WRAPPERS = {
    'VirtualSwitch': network.VSwitch,
    'VirtualNetwork': network.VNet,
    'NetworkBridge': network.NetBridge,
    'ClientNetworkAdapter': network.CNA,
}
KEYS = {
    'VirtualSwitch': 'virtual_switches',
    'VirtualNetwork': 'virtual_networks',
    'NetworkBridge': 'network_bridges',
}
FILES = (
    'cna_feed.txt',
    'cna_feed1.txt',
    'fake_cna.txt',
    'fake_network_bridge.txt',
    'fake_virtual_network_feed.txt',
    'fake_virtual_switch.txt',
    'fake_vswitch_feed.txt',
    'nbbr_network_bridge.txt',
    'nbbr_network_bridge_failover.txt',
    'nbbr_network_bridge_peer.txt',
    'nbbr_virtual_network.txt',
    'nbbr_virtual_switch.txt',
    'vswitch_feed.txt',
)


def world_of(file, kind):
    """Return a world with every resource of a capture."""
    entries = [
        {'capture': {'file': file, 'entry': number}}
        for number, _ in enumerate(captures.read(file))
    ]
    partition = {'name': 'vm', 'memory': 1024, 'processors': 1}
    system = {'name': 'any', 'partitions': [partition]}
    if kind in KEYS:
        system[KEYS[kind]] = entries
    else:
        partition['adapters'] = entries
    return {'systems': [system]}


class NetworkRoundTripTest(base.EmulatorTestCase):
    maxDiff = 2000
    direct = test_captures.CaptureRoundTripTest.direct
    entries = staticmethod(test_captures.CaptureRoundTripTest.entries)

    def served(self, kind):
        state = self.control.state()['systems'][0]
        parent = ('ManagedSystem', state['uuid'])
        if kind == 'ClientNetworkAdapter':
            parent = ('LogicalPartition', state['partitions'][0]['uuid'])
        response = self.adapter.read(*parent, child_type=kind, xag=[])
        return self.entries(response)

    def check_file(self, file):
        (kind,) = set(test_captures.kinds_of(file))
        captured = self.entries(self.direct(file))
        self.control.load_world(world_of(file, kind))
        served = self.served(kind)
        wrapper = WRAPPERS[kind]
        self.assertEqual(
            [entry.uuid for entry in captured],
            [entry.uuid for entry in served],
        )
        for expected, actual in zip(captured, served, strict=True):
            self.assertEqual(
                facts.read_properties(wrapper.wrap(expected)),
                facts.read_properties(wrapper.wrap(actual)),
            )
            self.assertEqual(
                test_captures.leaves(expected.element.element),
                test_captures.leaves(actual.element.element),
            )

    def test_file_list_names_every_network_capture(self):
        found = {
            path.name
            for path in captures.folder().glob('*.txt')
            if set(test_captures.kinds_of(path.name)) & set(WRAPPERS)
        }
        self.assertEqual(found, set(FILES))


def _add_tests():
    for file in FILES:

        def test(self, file=file):
            self.check_file(file)

        name = file.partition('.')[0]
        setattr(NetworkRoundTripTest, f'test_{name}', test)


_add_tests()


# Two bridges of one server.
PEERS = {
    'systems': [
        {
            'name': 'any',
            'virtual_switches': [
                {'capture': {'file': 'nbbr_virtual_switch.txt'}}
            ],
            'network_bridges': [
                {
                    'capture': {
                        'file': 'nbbr_network_bridge_peer.txt',
                        'entry': entry,
                    }
                }
                for entry in range(2)
            ],
            'virtual_io_servers': [
                {
                    'capture': {'file': 'fake_vios_feed2.txt'},
                    'rmc_state': 'active',
                }
            ],
        }
    ]
}


class CapturedBridgeTest(base.EmulatorTestCase):
    """A captured bridge together with its captured VIOS."""

    world = PEERS

    def bridges(self):
        return self.control.state()['systems'][0]['network_bridges']

    def test_captured_bridge_gains_and_loses_vlan(self):
        uuid = self.bridges()[0]['uuid']
        system = self.control.state()['systems'][0]['uuid']
        self.assertEqual([1000], self.bridges()[0]['vlans'])
        network_bridger.ensure_vlan_on_nb(self.adapter, system, uuid, 77)
        self.assertEqual([77, 1000], self.bridges()[0]['vlans'])
        network_bridger.remove_vlan_from_nb(self.adapter, system, uuid, 1000)
        self.assertEqual([77], self.bridges()[0]['vlans'])
