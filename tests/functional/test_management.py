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

"""Guests that answer RMC by their management adapters."""

from tests.functional import moving
from tests.functional import pools

SWITCH = 'MGMTSWITCH'


def world(number):
    """Return a world whose guests have the RSCT packages, and no more."""
    made = pools.numbered_world(number) | {'guests_have_rsct': True}
    made['systems'][0]['virtual_switches'].append(
        {'name': SWITCH, 'mode': 'Vepa'}
    )
    return made


class ManagementAdapterTest(moving.MovingTestCase, pools.PoolTestCase):
    """Two hosts with the switch; a server with a config drive moves."""

    def setUp(self):
        super().setUp()
        self.start_site(described=[world(1), world(2)])

    def test_guests_answer_rmc_and_keep_names_of_interfaces(self):
        self.tell_stories()

    def boot_answering(self, **options):
        """Boot a server with a port and a config drive on the first host."""
        request = {'config_drive': True, **options.pop('request', {})}
        return self.boot_on_first(
            {} | options.pop('extra_specs', {}),
            networks=[{'port': self.make_port()['id']}],
            request=request,
            **options,
        )

    def assert_answers(self, server, expected, host):
        """Verify RMC, and the adapters with their slots.

        :param expected: Slots by MAC address.
        """
        summary = self.lpar_summary(server, host)
        found = {one['mac']: one['slot'] for one in summary['adapters']}
        self.assertEqual(expected, found)
        self.assertEqual('active', summary['rmc_state'])

    def lpar_summary(self, server, host='host1'):
        """Return the LPAR as the emulator summarizes it."""
        name = server['OS-EXT-SRV-ATTR:instance_name']
        (system,) = self.control(host).state()['systems']
        (found,) = (
            lpar for lpar in system['partitions'] if lpar['name'] == name
        )
        return found

    def story_running_server_gets_port_and_keeps_rmc_in_moves(self):
        server = self.boot_answering()
        self.assertEqual('active', self.lpar_summary(server)['rmc_state'])
        self._attach_interface(server, self.make_port()['id'])
        self.notifier.reset()
        adapters = self.lpar_summary(server)['adapters']
        self.assertEqual(3, len(adapters))
        slots = {one['mac']: one['slot'] for one in adapters}
        (own,) = (one['mac'] for one in adapters if one['switch'] == SWITCH)
        self.assertEqual(max(slots.values()), slots[own])
        self.reboot_hard(server)
        self.assert_answers(server, slots, 'host1')
        self.migrate(server)
        self.confirm(server)
        self.assert_answers(server, slots, 'host2')
        # Nova knows its ports, and no other adapter.
        ports = self.api.get_port_interfaces(server['id'])
        self.assertEqual(
            {*slots} - {own}, {port['mac_addr'] for port in ports}
        )

    def story_flavor_and_image_exempt_servers(self):
        image = self.create_image(
            pools.base.IMAGE, properties={'powervm_rmc_adapter': 'false'}
        )
        for options in (
            {'extra_specs': {'powervm:rmc_adapter': 'false'}},
            {'image': image},
        ):
            self.assert_does_not_answer(self.boot_answering(**options))

    def story_host_can_do_without(self):
        self.restart_host(rmc_adapter='none')
        self.assert_does_not_answer(self.boot_answering())
        self.restart_host(rmc_adapter='new')

    def assert_does_not_answer(self, server):
        """Verify that a server has its port only."""
        summary = self.lpar_summary(server)
        self.assertEqual(1, len(summary['adapters']))
        self.assertEqual('inactive', summary['rmc_state'])
