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

"""Management adapters of LPARs, and the RMC that guests answer by them."""

import json

from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import operations
from nova_powervm.lpar import virtual_slots
from nova_powervm.virt import config_drives
from tests.ops import base

ALL, NEW, NONE = (
    management_adapter.Choice.ALL,
    management_adapter.Choice.NEW,
    management_adapter.Choice.NONE,
)
MAC = management_adapter.port(base.INSTANCE).mac
SLOT = management_adapter.SLOT


def make_drive(slots, mac):
    """Make a config drive, as for a guest without ports."""
    data = management_adapter.describe(None, mac) if mac else None
    path = 'openstack/latest/network_data.json'
    return config_drives.make_iso([(path, json.dumps(data).encode())])


class ManagementTestCase(base.HostTestCase):
    """A host with a management switch, whose guests have RSCT.

    :cvar mode: The mode of the switch.
    """

    mode = 'Vepa'

    def world(self):
        """Return the world of a story."""
        world = super().world() | {'guests_have_rsct': True}
        (system,) = world['systems']
        switch = {'name': management_adapter.SWITCH, 'mode': self.mode}
        system['virtual_switches'].append(switch)
        return world

    def run_plan(self, operation, wanted, **asked):
        """Run an operation, for which config drives name the adapter."""
        asked.setdefault('make_config_drive', make_drive)
        return super().run_plan(operation, wanted, **asked)

    def build(self, management, **fields):
        """Spawn an instance with a config drive, and return it."""
        return self.spawn(management=management, config_drive=True, **fields)

    def own(self):
        """Return the slots of management adapters by MAC address."""
        return {
            adapter['mac']: adapter['slot']
            for adapter in self.lpar(base.NAME)['adapters']
            if adapter['switch'] == management_adapter.SWITCH
        }

    def slots(self):
        """Return the slots of all adapters by MAC address."""
        adapters = self.lpar(base.NAME)['adapters']
        return {adapter['mac']: adapter['slot'] for adapter in adapters}

    def rmc(self):
        """Return the state of RMC."""
        return self.lpar(base.NAME)['rmc_state']


class NewTest(ManagementTestCase):
    """New LPARs get a management adapter."""

    def test_guest_answers_rmc_and_gets_port_while_it_runs(self):
        wanted = self.build(NEW)
        self.assertEqual({MAC: SLOT}, self.own())
        self.assertEqual('active', self.rmc())
        more = self.describe(ports=(base.PORT2,), management=NEW)
        self.run_plan(operations.ATTACH_PORT, more)
        before = self.slots()
        self.assertEqual({base.PORT.mac, base.PORT2.mac, MAC}, before.keys())
        # It comes back after somebody has deleted it.
        kept = self.describe(
            ports=(base.PORT, base.PORT2),
            management=NONE,
            virtual_slots=before,
        )
        self.networks.detach(
            kept.lpar_uuid, management_adapter.port(kept.lpar_uuid)
        )
        self.assertEqual({}, self.own())
        self.run_plan(operations.HARD_REBOOT, kept)
        self.assertEqual(before, self.slots())
        both = self.describe(
            ports=(base.PORT, base.PORT2),
            management=NONE,
            config_drive=True,
            virtual_slots=before,
        )
        for operation in (operations.HARD_REBOOT, operations.PLUG_PORTS):
            self.run_plan(operation, both)
            self.assertEqual(before, self.slots(), operation)
        self.assertEqual('active', self.rmc())
        self.run_plan(operations.DETACH_PORT, more)
        self.assertEqual({base.PORT.mac, MAC}, self.slots().keys())
        self.assertEqual(wanted.ports, (base.PORT,))

    def test_new_lpar_of_same_server_has_same_address_and_slots(self):
        self.build(NEW, ports=(base.PORT, base.PORT2))
        before = self.slots()
        self.begin()
        self.build(
            NEW,
            ports=(base.PORT2, base.PORT),
            virtual_slots={mac: before[mac] for mac in before if mac != MAC},
        )
        self.assertEqual(before, self.slots())

    def test_existing_lpar_gets_adapter_only_when_it_starts_and_all_do(self):
        self.build(NONE)
        self.assertEqual({}, self.own())
        self.assertEqual('inactive', self.rmc())
        for choice, operation in (
            (NONE, operations.HARD_REBOOT),
            (NEW, operations.HARD_REBOOT),
            (ALL, operations.PLUG_PORTS),
            (ALL, operations.RESIZE),
            (ALL, operations.START),
        ):
            with self.subTest(choice=choice, operation=str(operation)):
                self.run_plan(operation, self.describe(management=choice))
                self.assertEqual({}, self.own())
        self.run_plan(operations.HARD_REBOOT, self.describe(management=ALL))
        self.assertEqual({MAC: SLOT}, self.own())
        self.run_plan(operations.HARD_REBOOT, self.describe(management=ALL))
        self.assertEqual({MAC: SLOT}, self.own())
        # Nothing in its config drive names the interface.
        self.assertEqual('inactive', self.rmc())

    def test_stopped_lpar_gets_adapter_when_it_is_started(self):
        self.build(NONE)
        self.set_state(base.OFF)
        self.run_plan(operations.START, self.describe(management=ALL))
        self.assertEqual({MAC: SLOT}, self.own())

    def test_thirtieth_port_keeps_its_slot(self):
        taken = {base.PORT.mac: virtual_slots.MANAGEMENT}
        with self.logged('WARNING') as logged:
            self.build(NEW, virtual_slots=taken)
        self.assertIn('another device of the server', logged.output[0])
        self.assertEqual(taken, self.slots())

    def test_adapter_of_another_on_the_switch_stays_foreign(self):
        self.build(NONE)
        self.set_state(base.OFF)
        other = management_adapter.port('another')
        self.make_adapter(base.NAME, other)
        for choice in (NONE, ALL):
            self.run_plan(
                operations.HARD_REBOOT, self.describe(management=choice)
            )
            self.assertEqual({other.mac: SLOT}, self.own(), choice)

    def test_drive_of_rescue_names_adapter(self):
        wanted = self.build(NEW)
        seen = []

        def make(slots, mac):
            seen.append(mac)
            return make_drive(slots, mac)

        self.run_plan(operations.RESCUE, wanted, make_config_drive=make)
        self.assertEqual([MAC], seen)


class ArrivalTest(ManagementTestCase):
    """A server with disks in a pool comes from another host."""

    disk_driver = 'ssp'

    def test_server_without_adapter_gets_none_by_moving(self):
        self.build(NEW)
        for recorded, expected in (({}, {}), ({MAC: SLOT}, {MAC: SLOT})):
            self.removals.destroy(base.INSTANCE, delete_disks=False)
            self.run_plan(
                operations.ARRIVAL,
                self.describe(management=NEW, virtual_slots=recorded),
            )
            self.assertEqual(expected, self.own())


class BridgedSwitchTest(ManagementTestCase):
    """On a Virtual Ethernet Bridge, guests would reach each other."""

    mode = 'Veb'

    def test_no_adapter_is_made_and_log_says_why(self):
        with self.logged('WARNING') as logged:
            self.build(ALL)
        self.assertIn('LPARs get no management adapter', logged.output[0])
        self.assertEqual([base.PORT.mac], [*self.slots()])
        self.assertEqual('inactive', self.rmc())


class OtherGuestsTest(ManagementTestCase):
    """Guests that configure the interface by themselves, or cannot answer."""

    def test_guest_that_configures_interface_needs_no_config_drive(self):
        world = self.world()
        for configures, state in ((True, 'active'), (False, 'inactive')):
            world['guests_configure_rmc'] = configures
            self.control.load_world(world)
            self.start_service()
            self.spawn(management=NEW)
            self.assertEqual(state, self.rmc())

    def test_guest_without_rsct_never_answers(self):
        self.control.load_world(self.world() | {'guests_have_rsct': False})
        self.start_service()
        self.build(NEW)
        self.assertEqual('inactive', self.rmc())
