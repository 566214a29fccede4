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

"""Guests that answer RMC requests on the management network."""

import json

from pypowervm.tasks import power
from pypowervm.wrappers import network

from emulator.tests import storage
from powervm_emulator import worlds

SWITCH = 'MGMTSWITCH'
MAC = '06:00:00:00:00:01'


def drive(mac):
    """Return what is on a config drive, as far as a guest looks at it."""
    links = [{'id': 'any', 'ethernet_mac_address': mac}]
    return b'CD001 config-2 ' + json.dumps({'links': links}).encode()


class RmcTest(storage.StorageTestCase):
    """An LPAR with one adapter, and perhaps a config drive, starts."""

    def begin(self, **world):
        """Load a world with the switch; keys are further ones of it."""
        made = worlds.default() | world
        made['systems'][0]['virtual_switches'].append(
            {'name': SWITCH, 'mode': 'Vepa'}
        )
        self.control.load_world(made)
        self.repository()

    def boot(self, name, vlan=4094, switch=SWITCH, medium=None):
        """Return the RMC state of a new LPAR after its start."""
        vm = self.create(name)
        if switch:
            href = network.VSwitch.search(
                self.adapter, parent=self.system(), name=switch
            )[0].related_href
            network.CNA.bld(self.adapter, vlan, href, mac_addr=MAC).create(
                parent=vm
            )
        if medium:
            self.map(vm, self.medium(f'{name}.iso', medium))
        power.power_on(vm, None)
        state = self.read(vm.uuid).rmc_state
        power.power_off(self.read(vm.uuid), None, force_immediate=True)
        self.read(vm.uuid).delete()
        return state

    def test_guest_with_rsct_answers_by_adapter_that_its_drive_names(self):
        self.begin(guests_have_rsct=True)
        for number, (expected, options) in enumerate(
            (
                ('active', {'medium': drive(MAC)}),
                ('inactive', {'medium': drive('06:00:00:00:00:02')}),
                ('inactive', {'medium': drive(MAC).replace(b'-2', b'-3')}),
                ('inactive', {}),
                ('inactive', {'medium': drive(MAC), 'vlan': 4093}),
                ('inactive', {'medium': drive(MAC), 'switch': None}),
            )
        ):
            with self.subTest(number=number):
                self.assertEqual(expected, self.boot(f'vm{number}', **options))

    def test_other_guests_answer_by_themselves_or_never(self):
        for expected, world in (
            (
                'active',
                {'guests_have_rsct': True, 'guests_configure_rmc': True},
            ),
            ('inactive', {'guests_configure_rmc': True}),
            ('active', {'rmc_after_power_on': 'active'}),
        ):
            with self.subTest(world=world):
                self.begin(**world)
                self.assertEqual(expected, self.boot('vm1'))
