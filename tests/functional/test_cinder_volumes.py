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
import contextlib
import copy
import itertools
import json

from nova import context as nova_context
from nova import objects
from nova.volume import cinder as nova_cinder

from demo import volume_world
from nova_powervm.lpar import supported_features
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.powervm.volume import volume_mappings
from tests import proofs
from tests.functional import base
from tests.functional import killed_threads
from tests.functional import real_cinder
from tests.functional import refreshes
from tests.functional import volumes
from tests.unit.docs import pages

#: What the disks of an array say that they are.
ARRAY = b'3IBM'
SERVERS = tuple(volume_world.wwpns())
WWPNS = sorted(itertools.chain(*volume_world.wwpns().values()))
DATA = b'\x01boot sector of a volume'
WRITTEN = b'written by the guest'


def from_volumes(*volumes):
    """Describe a server with a GPU that boots from the first volume."""
    disks = [
        {
            'source_type': 'volume',
            'destination_type': 'volume',
            'uuid': volume,
            'boot_index': -1 if number else 0,
        }
        for number, volume in enumerate(volumes)
    ]
    return {
        'extra_specs': base.gpu_groups(1),
        'image': '',
        'request': {'block_device_mapping_v2': disks},
    }


class CinderVolumesTestCase(base.PowerVMTestCase):
    """Starts a host with two Virtual I/O Servers, and Cinder with an array."""

    def setUp(self):
        super().setUp()
        # Its guests need no config drive to answer RMC.
        world = volume_world.make() | {'guests_configure_rmc': True}
        self.start_host(world=world)
        self.cinder = self.useFixture(real_cinder.RealCinder(self))

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
        find_event = self.start_attach(server, volume)
        event = self.await_found(find_event, 'the attachment does not end')
        self.assertEqual(result, event['result'].lower())
        return event

    def start_attach(self, server, volume):
        """Request what :meth:`attach` does; return what finds its event."""
        of_kind = 'attach_volume', 'compute_attach_volume'
        earlier = len(self.events(server, *of_kind))
        body = {'volumeAttachment': {'volumeId': volume}}
        self.api.post_server_volume(server['id'], body)

        def find_event():
            found = self.events(server, *of_kind)
            return len(found) > earlier and found[0]['result'] and found[0]

        return find_event

    def detach(self, server, volume):
        """Detach a volume, and wait until nobody has it."""
        self.api.delete_server_volume(server['id'], volume)
        self._wait_for_instance_action_event(
            server, 'detach_volume', 'compute_detach_volume', 'success'
        )
        self.assert_nobody_has(volume)

    def set_in_use(self, volume):
        """Run ``openstack volume set --state in-use --attached``."""
        self.cinder.act(
            volume,
            'os-reset_status',
            status='in-use',
            attach_status='attached',
        )

    def boot_from(self, *volumes, **options):
        """Boot a server with a GPU from the first of some volumes."""
        return self.boot(**from_volumes(*volumes), **options)


class FailedOver:
    """A host that reaches copies of volumes, which have other uids.

    :param control: The control plane of the host.
    """

    def __init__(self, control):
        self._control = control

    @staticmethod
    def uid(original):
        """Return the uid of the copy of a volume."""
        return f'7{original[1:]}'

    def set_san(self, arrays):
        """Tell the host what it reaches."""
        arrays = copy.deepcopy(arrays)
        for array in arrays:
            for volume in array['volumes']:
                volume['uid'] = self.uid(volume['uid'])
        self._control.set_san(arrays)


class CinderVolumesTest(CinderVolumesTestCase, refreshes.RefreshTestCase):
    def setUp(self):
        super().setUp()
        self.threads = self.useFixture(killed_threads.Threads())

    def test_cinder_array_and_host_agree(self):
        self.tell_stories()

    @proofs.proves('operation.attach-volume')
    def story_volume_goes_through_its_life(self):
        server = self.boot({})
        other = self.cinder.create()
        volume = self.cinder.create(data=DATA)
        self.attach(server, other)
        self.attach(server, volume)
        self.assert_words_are_known(server)
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

    def assert_words_are_known(self, server):
        """Assert that a rule or the page knows all that Cinder says."""
        known = pages.keys('admin/volumes', 'Properties of volumes')
        for disk in objects.BlockDeviceMappingList.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        ):
            if disk.is_volume:
                data = json.loads(disk.connection_info)['data']
                for key in data.keys() - {lpar_volumes.UDID_KEY}:
                    rule = supported_features.rule_of_connection(key)
                    self.assertTrue(rule or key in known, key)

    @contextlib.contextmanager
    def killed(self, name):
        """Kill nova-compute when one server has done a thing; start it."""
        second = itertools.count().__next__
        owner = volume_mappings.VolumeMappings
        with self.threads.killed(owner, name, when=second):
            yield
        self.restart_host()

    def assert_only_first_has(self, server, volume):
        """Assert that one server maps a volume, which both reach."""
        udid = self.cinder.find(volume).udid
        self.assertEqual(
            [self.instance(server).name, None],
            [self.clients_of(name).get(udid) for name in SERVERS],
        )
        for name in SERVERS:
            self.assertFalse(self.disks_of(name)[udid]['stale'])

    @proofs.proves('operation.resize')
    def story_resize_maps_volumes_anew_even_if_it_is_killed(self):
        root = self.cinder.create_bootable(DATA)
        volume = self.cinder.create(data=DATA)
        server = self.boot_from(root, volume)
        server = self.resize(server, memory_mb=1024)
        self.assert_connected(server, root)
        before = self.assert_connected(server, volume)
        # Cinder maps it to no host then, and Nova has not recorded that.
        is_second = itertools.count().__next__
        with self.threads.killed(
            nova_cinder.API, 'attachment_delete', lambda _: is_second()
        ):
            self.api.post_server_action(server['id'], {'revertResize': None})
        self.assertEqual([], self.cinder.find(volume).wwpns)
        self.assertEqual('reserved', self.cinder.status(volume))
        self.restart_host()
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'error'}}
        )
        server = self.reboot_hard(server)
        self.assert_connected(server, root)
        found = self.assert_connected(server, volume)
        self.assertEqual(before.udid, found.udid)
        self.assertEqual(DATA, found.file.read_bytes())
        with self.failed_over():
            self.accept_other_udids(server, root, volume)
            self._delete_server(server)

    @contextlib.contextmanager
    def failed_over(self):
        """Have the host reach copies of volumes."""
        network = self.cinder.network
        hosts = network.hosts[:]
        network.hosts[:] = map(FailedOver, hosts)
        network.tell()
        yield
        network.hosts[:] = hosts

    def accept_other_udids(self, server, *ids):
        """Have a move refuse volumes until they are refreshed."""
        before = volumes.recorded_udids(server)
        flavor = self.make_flavor(base.gpu_groups(1), memory_mb=2048)
        self.api.post_server_action(
            server['id'], {'resize': {'flavorRef': flavor}}
        )
        server = self._wait_for_state_change(server, 'ERROR')
        self.assertIn('Refresh it if it is a copy', self.fault(server))
        self.reboot_hard(server, 'ERROR')
        for name in SERVERS:
            self.assertEqual({}, self.clients_of(name))
        self.assertEqual(before, volumes.recorded_udids(server))

        server = self.refresh(server, *ids)
        after = volumes.recorded_udids(server)
        self.assertEqual({*ids}, after.keys())
        for volume in ids:
            self.cinder.await_status(volume, 'in-use')
            found = self.cinder.find(volume)
            self.assertEqual(WWPNS, found.wwpns)
            read = self.read_udid(after[volume])
            self.assertEqual(FailedOver.uid(found.uid), read[-32:])
        client = self.instance(server).name
        for name in SERVERS:
            self.assertEqual(
                dict.fromkeys(after.values(), client), self.clients_of(name)
            )

    def story_killed_in_attachment(self):
        server, volume = self.boot({}), self.cinder.create()
        with self.killed('map'):
            self.start_attach(server, volume)
        self.assertEqual('attaching', self.cinder.status(volume))
        self.assert_only_first_has(server, volume)
        self.set_in_use(volume)
        self.detach(server, volume)

    def story_killed_in_boot(self):
        volume = self.cinder.create_bootable(DATA)
        with self.killed('map'):
            server = self.start_boot(**from_volumes(volume))
        self._wait_for_server_parameter(
            server, {'status': 'ERROR'}, wait_for_fault_key=False
        )
        self.assert_only_first_has(server, volume)
        self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.assert_nobody_has(volume)
