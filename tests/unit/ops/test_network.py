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
        self.known = list(bridges)
        self.made = []
        self.asked = []

    def bridges(self):
        self.asked.append('bridges')
        return self.known

    def provision(self, bridge, vlans):
        self.asked.append(('provision', bridge.uuid, sorted(vlans)))
        (found,) = self.known
        self.known = [
            dataclasses.replace(found, vlans=found.vlans | set(vlans))
        ]

    def withdraw(self, bridge, vlan):
        (found,) = self.known
        self.known = [dataclasses.replace(found, vlans=found.vlans - {vlan})]

    def occupied(self):
        return {('ETHERNET0', made.vlan) for made in self.made}

    def adapters(self, lpar):
        return self.made

    def plug(self, lpar, adapter):
        self.asked.append(('plug', lpar.uuid, adapter.mac))
        self.made.append(adapter)

    def unplug(self, lpar, mac, only=None):
        self.asked.append(('unplug', lpar, mac))
        self.made = [
            found
            for found in self.made
            if found.mac != mac or only not in (None, found)
        ]


class Records:
    """Nova's records of a host whose instances have no port."""

    def metadata_keys(self):
        return ()

    def ports(self):
        return ()

    def remove_key(self, key):
        pass


class Partitions:
    """LPARs of a host, in memory."""

    def __init__(self, *found):
        self._found = {lpar.uuid: lpar for lpar in found}

    def find(self, uuid):
        return self._found.get(uuid)

    def power_on(self, lpar):
        pass


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


class NetworkOpsTest(unittest.TestCase):
    def setUp(self):
        self.networks = VirtualEthernet(
            shared_ethernet.Bridge('b1', 'ETHERNET0', 1, frozenset((1, 50)))
        )
        self.ops = self.make_ops()
        self.lpars = self.make_lpars(FOUND)

    def make_lpars(self, *known):
        """Return operations on LPARs without disks and devices."""
        return apply.LparOps(
            survey.Readers(
                partitions=Partitions(*known),
                host=types.SimpleNamespace(managed_system=None),
                placement=None,
                disks=types.SimpleNamespace(pool=None),
                images=None,
                networks=self.ops,
            ),
            burns=None,
            removals=None,
        )

    def run_with(self, operation, *known, asked=None):
        """Run an operation on an LPAR.

        :param known: The ports as Nova knows them.
        :param asked: What Neutron says; None if it does not answer.
        """

        def ask():
            if asked is None:
                raise exception.PortsUnknown(instance='i', reason='it is down')
            return asked

        self.lpars.run(
            operation,
            spec.Wanted(INSTANCE, ports=known),
            survey.Askers(ports=ask),
        )

    def attach(self, *wanted):
        self.run_with(operations.ATTACH_PORT, *wanted)

    def detach(self, *unwanted):
        self.run_with(operations.DETACH_PORT, *unwanted)

    def reconcile(self, *known, **asked):
        """Start the LPAR."""
        self.run_with(operations.START, *known, **asked)

    def make_ops(self, provision=True, **others):
        """Make operations with the driver pvm_sea and others."""
        shared = sea.SeaVifDriver(
            self.networks,
            {},
            vlans.ProvisionedVlans(
                self.networks, Records(), provision=provision
            ),
        )
        return network_ops.NetworkOps(
            {shared_ethernet.VIF_TYPE: shared, **others}
        )

    def plug(self, *wanted):
        """Connect ports to the LPAR as its build does."""
        connections = self.ops.connect(wanted)
        self.ops.prepare_host(connections, network_ops.UNRECORDED)
        self.ops.create(FOUND, connections, network_ops.UNRECORDED)

    def plugged(self):
        """Give what was plugged and unplugged, in its order."""
        return [
            (verb, rest[-1])
            for verb, *rest in self.networks.asked
            if verb in ('plug', 'unplug')
        ]

    def test_attach_refuses_adapter_with_same_address_on_other_vlan(self):
        self.attach(port(vlan=50))

        with self.assertRaises(exception.PortRefused) as caught:
            self.attach(port(vlan=100))

        self.assertIn('on VLAN 50', str(caught.exception))

    def test_connect_without_ports_asks_nothing(self):
        self.assertEqual((), self.ops.connect([]))
        self.plug()
        self.assertEqual([], self.networks.asked)

    def test_connect_refuses_port_before_asking_host(self):
        with self.assertRaises(exception.PortRefused):
            self.ops.connect([port(), port(2, vif_type='ovs')])
        self.assertEqual([], self.networks.asked)

    def test_connect_changes_nothing(self):
        self.ops.connect([port()])
        self.assertEqual(['bridges'], self.networks.asked)

    def test_plug_provisions_new_vlans_once_and_first(self):
        wanted = [port(1), port(2), port(3, vlan=99), port(4, vlan=50)]
        self.plug(*wanted)
        self.assertEqual(
            [
                'bridges',
                # Somebody else may have added one meanwhile.
                'bridges',
                ('provision', 'b1', [99, 100]),
                *(('plug', LPAR, each.mac) for each in wanted),
            ],
            self.networks.asked,
        )

    def test_connect_refuses_new_vlan_if_provisioning_is_off(self):
        ops = self.make_ops(provision=False)
        ops.connect([port(vlan=50)])
        with self.assertRaises(exception.PortRefused) as caught:
            ops.connect([port(vlan=51)])
        self.assertIn('provision_vlans is false', str(caught.exception))

    def test_reconcile_unplugs_before_it_plugs(self):
        self.attach(port(1))
        self.networks.asked.clear()

        self.reconcile(port(2), asked=[port(2)])

        self.assertEqual(
            [('unplug', port(1).mac), ('plug', port(2).mac)], self.plugged()
        )

    def test_reconcile_replaces_adapter_on_other_vlan(self):
        self.attach(port(vlan=50))

        self.reconcile(port(), asked=[port()])

        self.assertEqual([100], [made.vlan for made in self.networks.made])

    def test_reconcile_keeps_adapter_of_port_if_two_have_its_address(self):
        others = shared_ethernet.Adapter(port().mac, 50, 'ETHERNET0')
        self.attach(port())
        (own,) = self.networks.made
        self.networks.made.append(others)

        self.reconcile(asked=[port()])

        self.assertEqual([own], self.networks.made)

    def test_complete_removes_no_adapter(self):
        self.attach(port(1))
        # Neither is made anew what has another VLAN.
        self.attach(port(2, vlan=50))
        self.networks.asked.clear()
        now = [port(2), port(3)]

        with self.assertLogs(apply.LOG.logger, 'WARNING') as logged:
            self.run_with(operations.PLUG_PORTS, asked=now)

        self.assertEqual([('plug', port(3).mac)], self.plugged())
        self.assertEqual(2, len(logged.output))

    def test_reconcile_believes_neutron_rather_than_cache(self):
        self.attach(port(1))
        self.networks.asked.clear()

        self.reconcile(port(2), asked=[port(1)])

        self.assertEqual([], self.networks.asked)

    def test_reconcile_changes_nothing_if_neutron_is_silent(self):
        self.attach(port(1))
        self.networks.asked.clear()

        with self.assertRaises(exception.PortsUnknown):
            self.reconcile()

        self.assertEqual([], self.networks.asked)

    def test_refused_port_costs_no_adapter(self):
        self.attach(port(1))
        self.networks.asked.clear()

        with self.assertRaises(exception.PortRefused):
            self.reconcile(asked=[port(2, vif_type='ovs')])

        self.assertEqual([], self.networks.asked)

    def test_matching_adapters_cost_no_request(self):
        self.attach(port())
        self.networks.asked.clear()

        # Its binding may be lost meanwhile: the adapter is there.
        lost = port(vif_type='binding_failed', vlan=None)
        self.reconcile(lost)

        self.assertEqual([], self.networks.asked)

    def test_full_bridge_refuses_new_vlans_only(self):
        (bridge,) = self.networks.known
        self.networks.known = [dataclasses.replace(bridge, free_vlans=1)]
        self.ops.connect([port(1), port(2), port(3, vlan=50)])

        with self.assertRaises(exception.PortRefused) as caught:
            self.ops.connect([port(1), port(2, vlan=101)])

        self.assertIn('it is full', str(caught.exception))
        self.assertIn('port-2', str(caught.exception))

    def test_attach_needs_lpar(self):
        self.lpars = self.make_lpars()
        with self.assertRaises(exception.PartitionNotFound):
            self.attach(port())
        self.assertEqual(['bridges'], self.networks.asked)

    def test_vlan_of_failed_attachment_is_removed(self):
        # What has happened before the start was looked at.
        for _ in range(2):
            self.ops.clean_up()

        def refuse(lpar, adapter):
            raise exception.RestError(action='plugging', reason='no')

        self.networks.plug = refuse
        with self.assertRaises(exception.RestError):
            self.attach(port())
        self.ops.clean_up()

        (bridge,) = self.networks.known
        self.assertEqual({1, 50}, bridge.vlans)

    def test_detach_twice_is_fine(self):
        self.attach(port())
        for _ in range(2):
            self.detach(port())
            self.assertEqual([], self.networks.made)


class SeveralTypesTest(NetworkOpsTest):
    """Ports of different types; those of pvm_sea work as they do alone."""

    def setUp(self):
        self.example = example_drivers.ExampleVifDriver()
        super().setUp()
        self.other = port(9, vif_type=example_drivers.VIF_TYPE, vlan=None)

    def make_ops(self, **options):
        others = {example_drivers.VIF_TYPE: self.example}
        return super().make_ops(**others, **options)

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
        self.assertEqual([], self.networks.asked)

    def test_unknown_type_is_refused_with_the_known_ones(self):
        with self.assertRaises(exception.PortRefused) as caught:
            self.ops.check([port(vif_type='hw_veb')])

        text = str(caught.exception)
        self.assertIn('port-1', text)
        self.assertIn("its VIF type is 'hw_veb'", text)
        self.assertIn('example, pvm_sea', text)

    def test_failed_binding_is_refused_with_neutrons_log(self):
        with self.assertRaises(exception.PortRefused) as caught:
            self.ops.check([port(vif_type='binding_failed')])

        self.assertIn('Neutron could not bind it', str(caught.exception))

    def test_reconcile_changes_adapters_of_both_types(self):
        for each in (port(1), self.other):
            self.attach(each)
        new = port(3, vif_type=example_drivers.VIF_TYPE, vlan=None)

        self.reconcile(asked=[port(2), new])

        self.assertEqual(
            [port(2).mac], [made.mac for made in self.networks.made]
        )
        self.assertEqual([new.mac], self.example.macs(LPAR))

    def test_reconcile_replaces_adapter_of_rebound_port(self):
        self.attach(port(9))

        self.reconcile(asked=[self.other])

        self.assertEqual([], self.networks.made)
        self.assertEqual([self.other.mac], self.example.macs(LPAR))

    def test_reconcile_keeps_adapter_of_port_with_lost_binding(self):
        self.attach(self.other)
        lost = port(9, vif_type='unbound', vlan=None)

        self.reconcile(lost)

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
        self.ops.release_unused(network_ops.UNRECORDED)
        self.ops.clean_up()

        self.assertEqual(['release', 'tidy'], self.example.called)
