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

"""Ports that are attached, detached, and plugged as a service starts."""

import contextlib
import dataclasses

import ddt

from nova_powervm import exception
from nova_powervm.lpar import operations
from tests.ops import base

ATTACH, DETACH = operations.ATTACH_PORT, operations.DETACH_PORT
PLUG = operations.PLUG_PORTS
#: More than there are slots for below those of disks.
MANY = tuple(
    dataclasses.replace(
        base.PORT, id=f'many{number}', mac=f'fa:16:3e:00:01:{number:02x}'
    )
    for number in range(31)
)
OTHER_VLAN = dataclasses.replace(base.PORT, vlan=200)


class PortsTestCase(base.HostTestCase):
    """Has a running LPAR with a slot and one port."""

    def setUp(self):
        super().setUp()
        self.spawn(slots=(base.slot(base.GPU),))

    def wanted(self, *ports):
        """Describe the instance as Nova does for ports alone."""
        return base.spec.Wanted(base.INSTANCE, ports=ports)

    def assert_ports(self, *ports, state=base.RUNNING):
        """Assert the ports of the LPAR, which is otherwise as it was."""
        self.assert_lpar(state, slots=[base.GPU], ports=ports)
        self.assertEqual([], self.jobs)


class AttachTest(PortsTestCase):
    def test_stopped_lpar_gets_and_loses_port(self):
        self.set_state(base.OFF)

        self.run_plan(ATTACH, self.wanted(base.PORT2))
        self.assert_ports(base.PORT, base.PORT2, state=base.OFF)
        done = self.run_plan(DETACH, self.wanted(base.PORT2))
        self.assert_ports(base.PORT, state=base.OFF)
        self.assertEqual({base.PORT2.mac}, done.removed)

    def test_running_lpar_with_rmc_gets_and_loses_port(self):
        self.set_state(base.RUNNING, rmc_state='active')

        self.run_plan(ATTACH, self.wanted(base.PORT2))
        self.assert_ports(base.PORT, base.PORT2)
        self.run_plan(DETACH, self.wanted(base.PORT2))
        self.assert_ports(base.PORT)

    def test_running_lpar_without_rmc_refuses(self):
        self.failed(
            exception.RestError, ATTACH, self.wanted(base.PORT2), 'RMC'
        )
        self.assert_ports(base.PORT)

        self.failed(exception.RestError, DETACH, self.wanted(base.PORT))
        self.assert_ports(base.PORT)

    def test_port_that_is_attached_already_changes_nothing(self):
        self.run_plan(ATTACH, self.wanted(base.PORT))

        self.assertEqual([], self.changes())

    def test_address_on_another_network_is_refused(self):
        self.refused(
            exception.PortRefused,
            ATTACH,
            self.wanted(OTHER_VLAN),
            'has an adapter with its MAC address on another network',
        )
        self.assert_ports(base.PORT)

    def test_attachment_leaves_other_adapters_alone(self):
        self.set_state(base.OFF)
        self.make_adapter(base.NAME, base.PORT2)
        third = dataclasses.replace(
            base.PORT, id='port3', mac='fa:16:3e:00:00:03'
        )

        self.run_plan(ATTACH, self.wanted(third))

        self.assert_ports(base.PORT, base.PORT2, third, state=base.OFF)

    def test_type_without_driver_is_refused(self):
        port = dataclasses.replace(base.PORT2, vif_type='ovs')

        self.refused(
            exception.PortRefused, ATTACH, self.wanted(port), "type is 'ovs'"
        )

    def test_lpar_that_is_gone_gets_no_port(self):
        self.removals.destroy(base.INSTANCE)

        self.refused(
            exception.PartitionNotFound, ATTACH, self.wanted(base.PORT2)
        )

    def test_port_beyond_slots_for_ports_is_refused(self):
        words = f'Port {MANY[29].id} cannot be connected: it would be port 30'
        self.removals.destroy(base.INSTANCE)
        self.forget()
        self.refused(
            exception.PortRefused,
            operations.SPAWN,
            self.describe(ports=MANY),
            words,
        )
        self.spawn(ports=MANY[:29])
        self.set_state(base.OFF)
        self.forget()
        self.refused(
            exception.PortRefused, ATTACH, self.wanted(MANY[29]), words
        )
        self.assertEqual(
            [*range(2, 31)],
            sorted(one['slot'] for one in self.lpar()['adapters']),
        )

    def test_vlan_is_added_to_bridge_before_adapter_is_created(self):
        self.set_state(base.OFF)
        port = dataclasses.replace(base.PORT2, vlan=9)

        self.run_plan(ATTACH, self.wanted(port))

        self.assertEqual(
            ['POST NetworkBridge.update', 'PUT ClientNetworkAdapter.create'],
            self.changes(),
        )


@ddt.ddt
class DetachTest(PortsTestCase):
    def test_port_without_adapter_is_detached(self):
        self.run_plan(DETACH, self.wanted(base.PORT2))

        self.assertEqual([], self.changes())

    @ddt.data('unbound', 'binding_failed')
    def test_port_that_has_lost_its_binding_is_detached(self, vif_type):
        self.set_state(base.OFF)
        port = dataclasses.replace(base.PORT, vif_type=vif_type)

        self.run_plan(DETACH, self.wanted(port))

        self.assert_ports(state=base.OFF)


class PlugTest(PortsTestCase):
    """What Nova asks for while nova-compute starts."""

    def test_missing_adapter_is_created(self):
        self.set_state(base.OFF)

        self.run_plan(PLUG, self.wanted(base.PORT, base.PORT2))

        self.assert_ports(base.PORT, base.PORT2, state=base.OFF)

    def test_surplus_adapter_stays_until_the_next_start(self):
        with self.logged('WARNING') as logged:
            done = self.run_plan(PLUG, self.wanted())

        self.assertIn('belongs to no port of its instance', logged.output[0])
        self.assertEqual({}, done.slots)
        self.assert_ports(base.PORT)

    def test_running_lpar_without_rmc_gets_no_adapter(self):
        self.failed(
            exception.RestError, PLUG, self.wanted(base.PORT, base.PORT2)
        )

        self.assert_ports(base.PORT)

    def test_cached_port_gets_no_adapter_that_neutron_does_not_tell(self):
        def ports():
            raise exception.PortsUnknown(
                instance_uuid=base.INSTANCE, reason='503'
            )

        for answer in (lambda: (base.PORT,), ports):
            with contextlib.suppress(exception.PortsUnknown):
                self.run_plan(
                    PLUG, self.wanted(base.PORT, base.PORT2), ports=answer
                )

        self.assertEqual([], self.changes())
        self.assert_ports(base.PORT)

    def test_guest_gets_no_second_adapter_with_an_address(self):
        self.run_plan(PLUG, self.wanted(OTHER_VLAN))

        self.assertEqual([], self.changes())
        self.assert_ports(base.PORT)

    def test_instance_without_lpar_is_not_found(self):
        self.removals.destroy(base.INSTANCE)

        self.refused(exception.PartitionNotFound, PLUG, self.wanted(base.PORT))
