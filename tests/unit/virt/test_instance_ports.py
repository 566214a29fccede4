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

import contextlib
import dataclasses
import types
import unittest
from unittest import mock

import nova.conf
from nova import exception as nova_exception
from nova import objects
from nova.network import model
from nova.network import neutron
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.virt import instance_ports
from tests.unit.virt import base

CONF = nova.conf.CONF


def vif(details=None, meta=None, **changes):
    """Make a VIF as Nova makes it of a port of Neutron."""
    return model.VIF(
        **{
            'id': 'port-1',
            'address': 'FA:16:3E:00:00:01',
            'type': 'pvm_sea',
            'vnic_type': 'normal',
            'details': details,
            'network': model.Network(id='net-1', **(meta or {})),
            'active': True,
        }
        | changes
    )


class PortTest(unittest.TestCase):
    def test_port_has_all_fields_of_vif(self):
        port = network_ports.Port(
            id='port-1',
            mac='fa:16:3e:00:00:01',
            vif_type='pvm_sea',
            vnic_type='normal',
            vlan=100,
            physical_network='default',
        )
        default = {'physical_network': 'default'}
        own = {'physical_network': 'own'}
        unbound = {'type': None, 'vnic_type': None}
        unknown = {'vlan': None, 'physical_network': None}
        for found, changes in (
            (vif({'vlan': 100}, default), {}),
            (vif({'vlan': '100'}, default), {}),
            # A flat network has no VLAN.
            *(
                (vif(details), unknown)
                for details in ({}, {'vlan': None}, None)
            ),
            (vif(own, default), {'vlan': None, **own}),
            (vif(**unbound), {'vif_type': 'unbound', **unknown}),
        ):
            with self.subTest(changes, found=found):
                self.assertEqual(
                    dataclasses.replace(port, **changes),
                    instance_ports.port(found),
                )

    def test_ports_keep_order_of_nova(self):
        found = instance_ports.ports([vif(id='b'), vif(id='a')])
        self.assertEqual(['b', 'a'], [port.id for port in found])
        self.assertEqual((), instance_ports.ports(None))
        self.assertEqual((), instance_ports.ports(model.NetworkInfo()))


class FailedAllocation:
    """Nova's wrapper of networks whose allocation has failed."""

    def __init__(self, key):
        self._key = key

    def __len__(self):
        raise KeyError(self._key)


class AwaitAllocationTest(unittest.TestCase):
    INSTANCE = types.SimpleNamespace(uuid='instance-1')

    def test_port_with_device_profile_is_refused_in_words(self):
        with self.assertRaises(exception.AcceleratorRefused) as caught:
            instance_ports.await_allocation(
                self.INSTANCE, FailedAllocation('physical_network')
            )

        self.assertIn('has a device profile', str(caught.exception))

    def test_different_error_of_nova_is_passed_on(self):
        with self.assertRaises(KeyError):
            instance_ports.await_allocation(
                self.INSTANCE, FailedAllocation('other')
            )

    def test_allocated_networks_are_accepted(self):
        instance_ports.await_allocation(self.INSTANCE, model.NetworkInfo())
        instance_ports.await_allocation(self.INSTANCE, None)


class PluggingTest(unittest.TestCase):
    """What Nova's options say about ports that Neutron has not plugged."""

    def setUp(self):
        super().setUp()
        self.asked = []
        for name in ('vif_plugging_timeout', 'vif_plugging_is_fatal'):
            self.addCleanup(CONF.clear_override, name)
        CONF.set_override('vif_plugging_is_fatal', False)

    def wait_for_instance_event(self, instance, events, **options):
        """Give up waiting, as Nova's VirtAPI does after the timeout."""
        self.asked += events
        return self.give_up()

    @contextlib.contextmanager
    def give_up(self):
        yield
        raise nova_exception.InstanceEventTimeout()

    def wait(self, *ports):
        """Wait for ports to be plugged."""
        with instance_ports.wait_for_plugging(self, None, ports):
            pass

    def test_missing_event_is_logged_if_it_is_not_fatal(self):
        with self.assertLogs(
            'nova_powervm.virt.instance_ports', 'WARNING'
        ) as logs:
            self.wait({'id': 'a', 'active': False})

        self.assertIn('port(s) a', logs.output[0])
        self.assertIn('started nevertheless', logs.output[0])

    def test_ports_that_are_active_are_not_waited_for(self):
        self.wait({'id': 'a', 'active': True}, {'id': 'b'})

        self.assertEqual([], self.asked)

    def test_build_does_not_wait_without_a_timeout(self):
        CONF.set_override('vif_plugging_timeout', 0)

        self.wait({'id': 'a', 'active': False})

        self.assertEqual([], self.asked)


class UnboundPortsTest(base.NoDBTestCase):
    """A live migration to host2 has not brought an instance of host1 there."""

    def unbind(self, bound_to):
        """Delete the bindings to the other host."""
        instance = objects.Instance(uuid=uuids.instance, host='host1')
        client = mock.Mock()
        client.list_ports.return_value = {
            'ports': [{'id': '2', 'binding:host_id': bound_to}]
        }
        with (
            mock.patch.object(neutron, 'get_client', return_value=client),
            mock.patch.object(neutron, 'API') as api,
        ):
            try:
                instance_ports.unbind_ports(instance, 'host2')
            finally:
                (call,) = api().migrate_instance_start.call_args_list
                self.assertEqual('host1', call.args[2].dest_compute)
                delete = api().cleanup_instance_network_on_host
                self.deleted = delete.mock_calls

    def test_other_bindings_are_deleted(self):
        self.unbind('host1')
        self.assertEqual(1, len(self.deleted))

    def test_binding_that_is_still_active_stays(self):
        # Nova only logs that Neutron has failed.
        with self.assertRaisesRegex(exception.PortsUnknown, 'to host host2'):
            self.unbind('host2')
        self.assertEqual([], self.deleted)
