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

import dataclasses
import types
import unittest

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import shared_ethernet
from nova_powervm.lpar import spec
from nova_powervm.ops import apply
from nova_powervm.ops import network as network_ops
from nova_powervm.ops import survey
from nova_powervm.ops import volumes as volume_ops
from nova_powervm.powervm.vif import sea
from nova_powervm.powervm.vif import vlans
from tests import example_drivers
from tests.unit.devices import values

INSTANCE = values.LPAR.lower()
LPAR = partition.lpar_uuid(INSTANCE)
FOUND = values.lpar(slots={})


class VirtualEthernet:
    """The virtual Ethernet of a host, in memory."""

    def __init__(self, *bridges):
        self.present = list(bridges)
        self.made = []
        self.requests = []

    def bridges(self):
        self.requests.append('bridges')
        return self.present

    def provision(self, bridge, vlans):
        self.requests.append(('provision', bridge.uuid, sorted(vlans)))
        (bridge,) = self.present
        self.present = [
            dataclasses.replace(bridge, vlans=bridge.vlans | set(vlans))
        ]

    def withdraw(self, bridge, vlan):
        (bridge,) = self.present
        self.present = [
            dataclasses.replace(bridge, vlans=bridge.vlans - {vlan})
        ]

    def occupied(self):
        return {('ETHERNET0', made.vlan) for made in self.made}

    def adapters(self, lpar_uuid):
        return self.made

    def plug(self, lpar, adapter):
        self.requests.append(('plug', lpar.uuid, adapter.mac))
        self.made.append(adapter)

    def unplug(self, lpar_uuid, mac, only=None):
        self.requests.append(('unplug', lpar_uuid, mac))
        self.made = [
            adapter
            for adapter in self.made
            if adapter.mac != mac or only not in (None, adapter)
        ]


class Records:
    """Nova's records of a host whose instances have no port."""

    def metadata_keys(self):
        return ()

    def awaited_keys(self):
        return ()

    def ports(self):
        return ()

    def remove_key(self, key):
        pass


class Partitions:
    """The LPAR of a host, in memory."""

    virtual_slots = 64

    def find(self, uuid):
        return FOUND

    def power_on(self, lpar):
        pass

    def state(self, uuid):
        return 'running'


def port(number=1, **changes):
    return network_ports.Port(
        **{
            'id': f'port-{number}',
            'mac': f'fa:16:3e:00:00:{number:02x}',
            'vif_type': shared_ethernet.VIF_TYPE,
            'vlan': 100,
        }
        | changes
    )


class SeveralTypesTest(unittest.TestCase):
    """Ports of two types of VIFs, each with its driver.

    What pvm_sea does is in tests/ops.
    """

    def setUp(self):
        self.example = example_drivers.ExampleVifDriver()
        self.other = port(9, vif_type=example_drivers.VIF_TYPE, vlan=None)
        self.networks = VirtualEthernet(
            shared_ethernet.Bridge('b1', 'ETHERNET0', 1, frozenset((1, 50)))
        )
        self.ops = self.make_ops()
        self.lpars = self.make_lpars()

    def make_lpars(self):
        """Return operations on LPARs without disks and devices."""
        return apply.LparOperations(
            survey.Readers(
                partitions=Partitions(),
                host=types.SimpleNamespace(managed_system=None),
                placement=None,
                disks=types.SimpleNamespace(
                    pool=None,
                    end_read=lambda lpar_uuid: False,
                    has_rescue=lambda lpar_uuid: False,
                ),
                images=None,
                networks=self.ops,
                volumes=volume_ops.VolumeOps({}),
            ),
            burns=None,
            removals=None,
        )

    def run_with(self, operation, *cached, neutron_ports=None):
        """Run an operation on an LPAR.

        :param cached: The ports as Nova knows them.
        :param neutron_ports: The ports as Neutron knows them.
        """
        asker = survey.Askers()
        asker.ports = lambda: neutron_ports
        self.lpars.run(
            operation,
            spec.Wanted(INSTANCE, ports=cached),
            asker,
        )

    def attach(self, *wanted):
        self.run_with(operations.ATTACH_PORT, *wanted)

    def detach(self, *unwanted):
        self.run_with(operations.DETACH_PORT, *unwanted)

    def reconcile(self, *cached, **neutron):
        """Start the LPAR."""
        self.run_with(operations.START, *cached, **neutron)

    def make_ops(self):
        """Make operations with both drivers."""
        shared = sea.SeaVifDriver(
            self.networks,
            {},
            vlans.ProvisionedVlans(self.networks, Records(), provision=True),
        )
        return network_ops.NetworkOps(
            {
                shared_ethernet.VIF_TYPE: shared,
                example_drivers.VIF_TYPE: self.example,
            }
        )

    def plug(self, *wanted):
        """Connect ports to the LPAR as its build does."""
        connections = self.ops.connect(wanted)
        self.ops.prepare_host(connections, network_ops.NO_METADATA)
        self.ops.create(FOUND, connections, network_ops.NO_METADATA)

    def test_connect_without_ports_asks_nothing(self):
        self.assertEqual((), self.ops.connect([]))
        self.plug()
        self.assertEqual([], self.networks.requests)

    def test_connect_refuses_port_before_asking_host(self):
        with self.assertRaises(exception.PortRefused):
            self.ops.connect([port(), port(2, vif_type='ovs')])
        self.assertEqual([], self.networks.requests)

    def test_reconcile_keeps_adapter_of_port_if_two_have_its_address(self):
        others = shared_ethernet.Adapter(port().mac, 50, 'ETHERNET0')
        self.attach(port())
        (own,) = self.networks.made
        self.networks.made.append(others)

        self.reconcile(neutron_ports=[port()])

        self.assertEqual([own], self.networks.made)

    def test_matching_adapters_cost_no_request(self):
        self.attach(port())
        self.networks.requests.clear()

        # Its binding may be lost meanwhile: the adapter is there.
        lost = port(vif_type='binding_failed', vlan=None)
        self.reconcile(lost)

        self.assertEqual([], self.networks.requests)

    def test_drivers_plug_only_their_own_ports(self):
        wanted = [port(1), self.other, port(2)]

        self.plug(*wanted)

        self.assertEqual(
            wanted, [each.port for each in self.ops.connect(wanted)]
        )
        self.assertEqual(
            [port(1).mac, port(2).mac],
            [made.mac for made in self.networks.made],
        )
        self.assertEqual([self.other.mac], self.example.macs(LPAR))

    def test_connect_refuses_all_ports_if_one_is_refused(self):
        self.example.refused = {self.other.id}

        with self.assertRaises(exception.PortRefused) as caught:
            self.ops.connect([port(1), self.other])

        self.assertEqual(self.other.id, caught.exception.fields['port'])
        self.assertEqual([], self.networks.requests)

    def test_unknown_type_is_refused_with_the_known_ones(self):
        with self.assertRaises(exception.PortRefused) as caught:
            self.ops.check([port(vif_type='hw_veb')])

        text = str(caught.exception)
        self.assertIn('port-1', text)
        self.assertIn("its VIF type is 'hw_veb'", text)
        self.assertIn('example, pvm_sea', text)

    def test_port_without_host_is_refused_with_command(self):
        with self.assertRaises(exception.PortRefused) as caught:
            self.ops.check([port(vif_type='unbound')])

        self.assertIn(
            'Port port-1 cannot be connected: it is bound to no host. Run '
            '`openstack port set --host <host> port-1`',
            str(caught.exception),
        )
        self.assertNotIn('openstack', caught.exception.summary)

    def test_failed_binding_is_refused_with_neutrons_log(self):
        with self.assertRaises(exception.PortRefused) as caught:
            self.ops.check([port(vif_type='binding_failed')])

        self.assertIn('Neutron could not bind it', str(caught.exception))

    def test_reconcile_changes_adapters_of_both_types(self):
        for each in (port(1), self.other):
            self.attach(each)
        new = port(3, vif_type=example_drivers.VIF_TYPE, vlan=None)

        self.reconcile(neutron_ports=[port(2), new])

        self.assertEqual(
            [port(2).mac], [made.mac for made in self.networks.made]
        )
        self.assertEqual([new.mac], self.example.macs(LPAR))

    def test_reconcile_replaces_adapter_of_rebound_port(self):
        self.attach(port(9))

        self.reconcile(neutron_ports=[self.other])

        self.assertEqual([], self.networks.made)
        self.assertEqual([self.other.mac], self.example.macs(LPAR))

    def test_reconcile_keeps_adapter_of_port_with_lost_binding(self):
        self.attach(self.other)
        lost = port(9, vif_type='unbound', vlan=None)

        self.reconcile(lost, neutron_ports=[lost])

        self.assertEqual([self.other.mac], self.example.macs(LPAR))

    def test_detach_leaves_adapter_of_other_type(self):
        for each in (port(1), self.other):
            self.attach(each)

        self.detach(port(1))

        self.assertEqual([], self.networks.made)
        self.assertEqual([self.other.mac], self.example.macs(LPAR))

    def test_detach_finds_adapter_of_port_with_lost_binding(self):
        self.attach(self.other)

        self.detach(port(9, vif_type='unbound'))

        self.assertEqual([], self.example.macs(LPAR))

    def test_release_and_tidy_reach_each_driver(self):
        self.ops.release_unused(network_ops.NO_METADATA)
        self.ops.clean_up()

        self.assertEqual(['release', 'tidy'], self.example.called)
