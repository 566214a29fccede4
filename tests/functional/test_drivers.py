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

"""Drivers of disks, ports and volumes that another package has installed."""

from oslo_utils import uuidutils

from emulator.tests import san
from powervm_emulator import worlds
from tests import example_drivers
from tests.functional import moving
from tests.functional import networks
from tests.functional import volumes
from tests.functional.networks import SWITCH

EXAMPLE = {'binding:vif_type': example_drivers.VIF_TYPE}
#: A disk that the first server of a host has without Fibre Channel.
UDID = '01bG9jYWw='


class InstalledDriversTest(moving.MovingTestCase, networks.NetworkTestCase):
    """One host with the smallest drivers that work."""

    def setUp(self):
        super().setUp()
        self.useFixture(example_drivers.InstalledDrivers())
        self.start_host(disk_driver='example', volume_group_name=None)
        self.disk_driver = example_drivers.ExampleDisks.last
        self.vif_driver = example_drivers.ExampleVifDriver.last

    def test_installed_drivers_serve_servers(self):
        self.tell_stories()

    def story_server_has_its_disk_and_ports_of_both_types(self):
        root = self._get_provider_uuid_by_host('host1')
        inventory = self._get_provider_inventory(root)
        self.assertEqual(100, inventory['DISK_GB']['total'])
        own, shared = self.make_port(**EXAMPLE), self.make_port(vlan=100)

        server = self.boot_with(own, shared, disk=1)

        lpar = self.lpar_uuid(server)
        ((name, size),) = self.disk_driver.made.items()
        self.assertEqual(self.glance.show(None, self.image)['size'], size)
        self.assertEqual([name], self.disk_driver.mapped[lpar])
        self.assertEqual([], self.disks())
        self.assert_ports(lpar, [own])
        self.assertEqual(
            [(shared['mac_address'], 100, SWITCH)], self.connected(server)
        )

        self._stop_server(server)
        self.vif_driver.made.clear()
        self._start_server(server)

        self.assert_ports(lpar, [own])
        self.assertEqual(1, len(self.connected(server)))

        self._stop_server(server)
        more = self.make_port(**EXAMPLE)
        self._attach_interface(server, more['id'])
        self.assert_ports(lpar, [own, more])
        self._detach_interface(server, own['id'])
        self.assert_ports(lpar, [more])
        self.assertEqual(1, len(self.connected(server)))

        self._delete_server(server)

        self.assertEqual({}, self.disk_driver.made)
        self.assertEqual([], self.vlans())
        self.assertIn('release', self.vif_driver.called)

    def assert_ports(self, lpar, ports):
        """Assert which ports the example's adapters of an LPAR are for."""
        self.assertEqual(
            sorted(port['mac_address'] for port in ports),
            sorted(self.vif_driver.macs(lpar)),
        )

    def story_disk_driver_refuses_what_it_cannot_do(self):
        failed = self.boot({}, 'ERROR', disk=1, request={'config_drive': True})
        self.assertIn('does not support config drives', self.fault(failed))
        self.assertEqual({}, self.disk_driver.made)

        server = self.boot({}, disk=1)
        before = self.lpar(server), dict(self.disk_driver.made)

        reasons = (
            self.refuse_move(
                server, 'resize', flavorRef=self.make_flavor(disk=2)
            ),
            self.refuse_rebuild(server, self.create_image(b'other')),
            self.refuse_image(server),
            self.refuse_rescue(server),
        )

        for reason, words in zip(
            reasons,
            (
                'larger root disks',
                'rebuilding and rescuing servers',
                'images of servers',
                'rescuing servers',
            ),
            strict=True,
        ):
            self.assertIn(
                f'driver of this host does not support {words}', reason
            )
        self.assertEqual(
            before, (self.lpar(server), dict(self.disk_driver.made))
        )

    def refuse_image(self, server):
        """Ask for an image of a server; return why there is none."""
        self.api.post_server_action(
            server['id'], {'createImage': {'name': 'copy'}}
        )
        return self._wait_for_action('createImage', server, 'Error')['details']

    def refuse_rescue(self, server):
        """Ask for a rescue; return the fault of the server."""
        self.api.post_server_action(server['id'], {'rescue': None})
        self._wait_for_server_parameter(server, {'status': 'ERROR'})
        return self.fault(server)

    def story_port_of_unknown_type_is_refused_with_known_types(self):
        port = self.make_port(**{'binding:vif_type': 'ovs'})

        message = self.refused(port)

        self.assertIn(port['id'], message)
        self.assertIn("its VIF type is 'ovs'", message)
        self.assertIn('example, pvm_sea', message)


class InstalledVolumeDriverTest(volumes.VolumesTestCase):
    """One host with volumes of two types, of which one is an example."""

    def setUp(self):
        super().setUp()
        self.useFixture(example_drivers.InstalledDrivers())
        world = san.add_to(worlds.default())
        server = world['systems'][0]['virtual_io_servers'][0]
        server['physical_volumes'] = [
            {'name': 'hdisk7', 'capacity': 5, 'udid': UDID}
        ]
        self.start_host(world=world)
        self.driver = example_drivers.ExampleVolumes.last
        self.array_volume, self.volume = (
            uuidutils.generate_uuid() for _ in range(2)
        )
        self.cinder.told[self.volume] = {
            'driver_volume_type': example_drivers.VOLUME_TYPE,
            'data': {'udid': UDID},
        }

    def has(self, server):
        """Return which volumes a server has: the array's, the example's."""
        found = self.connected(server)
        udids = [{*of.values()} for of in found.values()]
        return (
            all(udids_of - {UDID} for udids_of in udids),
            any(UDID in udids_of for udids_of in udids),
        )

    def test_volumes_of_two_types_come_and_go_by_themselves(self):
        server = self.boot({})
        self.attach(server, self.array_volume)
        self.attach(server, self.volume)
        self.assertEqual((True, True), self.has(server))

        self._reboot_server(server, hard=True)
        self.assertEqual((True, True), self.has(server))

        self.detach(server, self.array_volume)
        self.assertEqual((False, True), self.has(server))
        self.attach(server, self.array_volume)
        self.detach(server, self.volume)
        self.assertEqual((True, False), self.has(server))

        self.attach(server, self.volume)
        self._delete_server(server)
        self.assertEqual((False, False), self.has(server))
        self.assert_no_volumes()
