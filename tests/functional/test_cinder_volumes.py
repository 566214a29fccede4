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

"""Volumes of real Cinder on real Nova, from an array that nobody here wrote.

What the driver does in each case is told in ``test_volumes.py``. These stories
begin in Cinder and end in the array.
"""

import base64
import itertools

from demo import volume_world
from tests.functional import base
from tests.functional import real_cinder

#: What the disks of an array say that they are.
ARRAY = b'3IBM'
SERVERS = tuple(volume_world.wwpns())
WWPNS = sorted(itertools.chain(*volume_world.wwpns().values()))
DATA = b'\x01boot sector of a volume'
WRITTEN = b'written by the guest'


class CinderVolumesTest(base.PowerVMTestCase):
    def setUp(self):
        super().setUp()
        self.start_host(world=volume_world.make())
        self.cinder = self.useFixture(real_cinder.RealCinder(self))

    def test_cinder_array_and_host_agree(self):
        self.tell_stories()

    def forget(self):
        super().forget()
        for name in SERVERS:
            self.assertEqual({}, self.disks_of(name))
        self.assertEqual(([], []), self.maps_of_array())

    # What is there

    def disks_of(self, name):
        """Return the disks of the array that a VIOS has, by UDID."""
        (found,) = (
            partition['physical_volumes']
            for partition in self.host_state()['partitions']
            if partition['name'] == name
        )
        return {
            disk['udid']: disk
            for disk in found
            if base64.b64decode(disk['udid'][2:]).startswith(ARRAY)
        }

    def clients_of(self, name):
        """Return the clients of the disks of a VIOS, by UDID."""
        (found,) = (
            partition['scsi_mappings']
            for partition in self.host_state()['partitions']
            if partition['name'] == name
        )
        return {
            mapping['udid']: mapping['client']
            for mapping in found
            if mapping['kind'] == 'PhysicalVolume'
        }

    def maps_of_array(self):
        """Return the hosts that the array knows, and what it maps."""
        (array,) = self.cinder.network.told
        return array['hosts'], array['maps']

    def assert_connected(self, server, volume, megabytes=1024):
        """Assert that Cinder, array and host agree on who has a volume."""
        self.cinder.await_status(volume, 'in-use')
        found = self.cinder.find(volume)
        self.assertEqual(WWPNS, found.wwpns)
        for name in SERVERS:
            disk = self.disks_of(name)[found.udid]
            self.assertEqual(
                (megabytes, False), (disk['capacity'], disk['stale'])
            )
            client = self.instance(server).name
            self.assertEqual(client, self.clients_of(name)[found.udid])
        return found

    def assert_nobody_has(self, volume):
        """Assert that a volume is available, and that no host knows it."""
        self.cinder.await_status(volume, 'available')
        found = self.cinder.find(volume)
        self.assertEqual([], found.wwpns)
        for name in SERVERS:
            self.assertNotIn(found.udid, self.disks_of(name))

    # What is done

    def attach(self, server, volume, result='success'):
        """Attach a volume; return the event that ends this."""
        earlier = len(self.admin_api.get_instance_actions(server['id']))
        body = {'volumeAttachment': {'volumeId': volume}}
        self.api.post_server_volume(server['id'], body)

        def find_event():
            last, *others = self.admin_api.get_instance_actions(server['id'])
            (event,) = self.admin_api.get_instance_action_details(
                server['id'], last['request_id']
            )['events'] or (None,)
            return (
                event if len(others) == earlier and event['result'] else None
            )

        event = self.await_found(find_event, 'the attachment does not end')
        self.assertEqual(result, event['result'].lower())
        return event

    def detach(self, server, volume):
        """Detach a volume, and wait until nobody has it."""
        self.api.delete_server_volume(server['id'], volume)
        self._wait_for_instance_action_event(
            server, 'detach_volume', 'compute_detach_volume', 'success'
        )
        self.assert_nobody_has(volume)

    def boot_from(self, volume, **options):
        """Boot a server with a GPU from a volume."""
        disk = {
            'source_type': 'volume',
            'destination_type': 'volume',
            'uuid': volume,
            'boot_index': 0,
        }
        return self.boot(
            base.gpu_groups(1),
            image='',
            request={'block_device_mapping_v2': [disk]},
            **options,
        )

    # Stories

    def story_volume_goes_through_its_life(self):
        server = self.boot({})
        other = self.cinder.create()
        volume = self.cinder.create(data=DATA)
        self.attach(server, other)
        self.attach(server, volume)
        found = self.assert_connected(server, volume)
        self.control().write_disk(
            found.udid, base64.b64encode(WRITTEN).decode(), len(DATA)
        )
        self.cinder.act(volume, 'os-extend', new_size=3)
        self._wait_for_instance_action_event(
            server, 'extend_volume', 'compute_extend_volume', 'success'
        )
        self.assert_connected(server, volume, 3072)
        self.detach(server, volume)
        self.assertEqual(DATA + WRITTEN, found.file.read_bytes())
        # With the number that is free then, and the uid of its predecessor.
        self.cinder.delete(volume)
        successor = self.cinder.create(data=b'of somebody else')
        self.assertEqual(found.uid, self.cinder.find(successor).uid)
        self.attach(server, successor)
        self.assert_connected(server, successor)
        self.assertEqual(
            b'of somebody else', self.control().contents(found.udid)
        )
        self._delete_server(server)
        self.assert_nobody_has(successor)
        self.assert_nobody_has(other)

    def story_array_that_differs_by_a_digit_shows_no_disk(self):
        def change_initiators(array):
            for host in array['hosts']:
                host['wwpns'] = [real_cinder.other(w) for w in host['wwpns']]

        def change_target(array):
            for port in array['ports']:
                port['wwpn'] = real_cinder.other(port['wwpn'])

        def change_number(array):
            for one in array['maps']:
                one['lun'] += 1

        server, volume = self.boot({}), self.cinder.create_bootable(DATA)
        network = self.cinder.network
        for alter in (change_initiators, change_target, change_number):
            network.alter = alter
            event = self.attach(server, volume, 'error')
            self.assertIn(volume, event['details'])
            self.assert_nobody_has(volume)
            self.await_found(
                lambda: not self.api.get_server_volumes(server['id']),
                'the server still has a volume',
            )
        failed = self.boot_from(volume, expected='ERROR')
        self._delete_server(failed)
        self.assert_nobody_has(volume)
        network.alter = lambda array: None
        self.attach(server, volume)
        self.assert_connected(server, volume)
        self.detach(server, volume)

    def story_server_with_a_device_boots_from_a_volume(self):
        volume = self.cinder.create_bootable(DATA)
        server = self.boot_from(volume)
        found = self.assert_connected(server, volume)
        self.assertEqual([], self.disks())
        for name in SERVERS:
            self.assertEqual(DATA, self.control().contents(found.udid, name))
        (index,) = self.allocated_slots(server)
        self.assertEqual({index: True}, self.lpar(server).slots)
        self._delete_server(server)
        self.assert_nobody_has(volume)
