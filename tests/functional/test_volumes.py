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

"""Volumes of servers on real Nova.

What each fault and each way to find or not to find a volume does on the host,
is in ``tests/ops/test_volumes.py``.
"""

import contextlib

import fixtures
from nova import utils
from nova.tests.functional.api import client
from oslo_utils import uuidutils

from emulator.tests import san
from nova_powervm.lpar import volumes as lpar_volumes
from powervm_emulator import worlds
from tests import proofs
from tests.functional import moving
from tests.functional import volumes


class VolumesTest(volumes.VolumesTestCase):
    def setUp(self):
        super().setUp()
        self.start_host(world=san.add_to(worlds.default()))

    def test_servers_have_volumes(self):
        self.tell_stories()

    def forget(self):
        super().forget()
        self.assert_no_volumes()

    @proofs.proves(
        'operation.attach-tagged-volume',
        'operation.attach-volume',
        'operation.detach-volume',
        'operation.extend-volume',
    )
    def story_volumes_come_and_go_while_their_server_runs(self):
        server = self.boot({})
        self.attach_extend_and_detach(server)
        volume = self.promise_for_new_volumes_only(server)
        self.detach_with_a_path_down(server, volume)

    def attach_extend_and_detach(self, server):
        volume = uuidutils.generate_uuid()
        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.control().set_partition(name, rmc_state='inactive')
        event = self.attach(server, volume, 'error')
        self.assertIn('Stop the server first', event['details'])
        self.assertEqual([], self.api.get_server_volumes(server['id']))
        # Cinder was not asked to do anything.
        self.assertEqual({}, {**self.cinder.volumes})
        self.control().set_partition(name, rmc_state='active')

        self.attach(server, volume, tag='database')

        (disk,) = self.instance(server).device_metadata.devices
        self.assertEqual((volume, ['database']), (disk.serial, disk.tags))
        self.assertEqual([64, 65], self.slots(server))
        (udid,) = volumes.recorded_udids(server).values()
        self.assertEqual('01M0l', udid[:5])

        self.extend(server, volume, 2, 'success')
        self.cinder.sizes[volume] = 3
        event = self.extend(server, volume, 3, 'error', published=False)
        self.assertIn('Restart the guest', event['details'])

        self.detach(server, volume)
        self.assert_no_volumes()
        self.assertEqual('running', self.lpar(server).state)

    def extend(self, server, volume, size, expected, published=True):
        """Extend a volume; return the event that ends this."""
        self.cinder.sizes[volume] = size
        if published:
            self.cinder.publish()
        events = [
            {
                'name': 'volume-extended',
                'server_uuid': server['id'],
                'tag': volume,
            }
        ]
        self.admin_api.api_post(
            '/os-server-external-events', {'events': events}
        )
        return self._wait_for_instance_action_event(
            server, 'extend_volume', 'compute_extend_volume', expected
        )

    def promise_for_new_volumes_only(self, server):
        """Attach a volume; return it."""
        volume = uuidutils.generate_uuid()
        self.cinder.promises = {'qos_specs': {'total_iops_sec': '100'}}
        event = self.attach(server, volume, 'error')
        self.assertIn('has qos_specs, but the host', event['details'])
        self.assert_no_volumes()
        refused = self.boot_from_volume(extra_specs={}, expected='ERROR')
        self.assertIn('has qos_specs, but the host', self.fault(refused))
        self._delete_server(refused)
        self.assert_no_volumes()

        # One that was attached before the rule stays.
        self.cinder.promises = {}
        self.attach(server, volume)
        self.cinder.promises = {'qos_specs': {'total_iops_sec': '100'}}
        self._rebuild_server(server, self.create_image(b'another' * 1000))
        self.cinder.promises = {}
        self.assertEqual([64, 65], self.slots(server))
        self._reboot_server(server, hard=True)
        self.assertEqual([64, 65], self.slots(server))
        self.assertEqual([volume], self.cinder.mapped())
        self.assertIn(f'volume {volume} stays attached', self.logged())
        return volume

    def detach_with_a_path_down(self, server, volume):
        """Let no volume go while a server with a path to it is down."""
        with self.vios2_down():
            event = self.detach(server, volume, 'error')
            self.assertIn('stays connected', event['details'])
            self.assertNotIn('vios2', event['details'])
            self.assertIn('vios2 does not answer', self.logged())
            self.assertEqual([64, 65], self.slots(server))
            self.assertEqual([volume], self.cinder.mapped())
            self.api.delete_server(server['id'])
            self._wait_for_state_change(server, 'ERROR')
            self.assertEqual('not activated', self.lpar(server).state)
            self.assertEqual([64, 65], self.slots(server))
            self.assertEqual([volume], self.cinder.mapped())
        self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.assert_no_volumes()

    @contextlib.contextmanager
    def vios2_down(self):
        self.control().set_partition('vios2', state='not activated')
        yield
        self.control().set_partition(
            'vios2', state='running', rmc_state='active'
        )

    @proofs.proves('operation.rebuild-volume-backed', 'storage.block')
    def story_server_with_a_device_boots_from_a_volume(self):
        more = uuidutils.generate_uuid()
        server = self.boot_from_volume(more)

        self.assertEqual([32, 48, 64, 65], self.slots(server))
        self.assertEqual([], self.disks())
        recorded = volumes.recorded_udids(server)
        self.assertEqual(2, len(recorded))
        self.assertTrue(all(recorded.values()))
        self.assertEqual([volumes.BOOT_VOLUME], self.boot_volumes(server))
        self.assert_has_device(server)
        self.assertEqual('running', self.lpar(server).state)

        # What somebody has removed comes back.
        self.unmap(server, volumes.BOOT_VOLUME, more)
        self.assertEqual([], self.slots(server))
        self._reboot_server(server, hard=True)
        self.assertEqual([32, 48, 64, 65], self.slots(server))
        self._reboot_server(server, hard=True)
        self.assertEqual(recorded, volumes.recorded_udids(server))

        self._stop_server(server)
        self._start_server(server)
        self.assertEqual('running', self.lpar(server).state)

        self.write_boot_volume_anew(server)
        self.assertEqual([32, 48, 64, 65], self.slots(server))
        self.assert_has_device(server)

        self.rebuild_with_exchanged(server, volumes.BOOT_VOLUME)
        self.refuse_rescue(server)

        self._delete_server(server)
        self.assert_no_volumes()
        self.assertIsNone(self.lpar(server))

    def refuse_rescue(self, server):
        """Refuse what Nova has for servers that boot from volumes."""
        before = self.connected(server)
        image = self.create_image(
            bytes(512),
            properties={'hw_rescue_bus': 'scsi', 'hw_rescue_device': 'disk'},
        )
        with utils.temporary_mutation(self.api, microversion='2.87'):
            error = self.assertRaises(
                client.OpenStackApiException,
                self.api.post_server_action,
                server['id'],
                {'rescue': {'rescue_image_ref': image}},
            )
        self.assertEqual(400, error.response.status_code)
        self.assertIn('Host unable to rescue a volume-backed', str(error))
        self.assertEqual('running', self.lpar(server).state)
        self.assertEqual(before, self.connected(server))

    def rebuild_with_exchanged(self, server, volume):
        """Rebuild a server when a volume's place leads to another disk."""
        allocations = self._get_allocations_by_server_uuid(server['id'])
        before = self.connected(server)
        self.cinder.exchange(volume)
        self.write_boot_volume_anew(server, 'ERROR')
        self.assertIn('leads to another disk now', self.fault(server))
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.array_disks())
        self.cinder.exchange()

        # Nova has deleted them, and the page has the command.
        self.wait_until_unallocated(server)
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_server_parameter(
            server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
        )
        (event, *_) = self.events(server, 'reboot', 'powervm_reboot')
        self.assertIn('0 of its allocations are slots', event['details'])
        self.set_allocations(server, allocations)
        self._reboot_server(server, hard=True)
        self.assertEqual(before, self.connected(server))
        self.assert_has_device(server)

    def set_allocations(self, server, allocations):
        """Run ``openstack resource provider allocation set``."""
        answer = self.placement.put(
            f'/allocations/{server["id"]}',
            {
                'allocations': {
                    uuid: {'resources': allocated['resources']}
                    for uuid, allocated in allocations.items()
                },
                'consumer_generation': None,
                'project_id': server['tenant_id'],
                'user_id': server['user_id'],
            },
            version='1.28',
        )
        self.assertEqual(204, answer.status, answer.body)

    def assert_has_device(self, server):
        """Assert that a server has the one device that it asked for."""
        (index,) = self.allocated_slots(server)
        self.assertEqual({index: True}, self.lpar(server).slots)

    def unmap(self, server, *ids):
        """Unmap volumes on both servers, as an administrator does."""
        driver = self.computes['host1'].manager.driver
        for volume_id in ids:
            driver.services.host.volumes.disconnect(
                lpar_volumes.Volume(volume_id, ''), self.lpar_uuid(server)
            )

    def exchange_volumes(self, server):
        """Attach volumes so that their order is not that of their slots.

        :returns: What Cinder and the host have mapped then.
        """
        lost, first, second = (uuidutils.generate_uuid() for _ in range(3))
        self.attach(server, lost)
        self.attach_more(server, first)
        self.detach(server, lost)
        self.attach_more(server, second, device='/dev/sdz')
        before = self.connected(server)
        self.assertLess({64, 66}, {48, *before['vios1']})
        # As a server of an earlier version.
        self.forget_virtual_slots(server)
        return self.cinder.mapped(), before

    def attach_more(self, server, volume_id, **options):
        """Attach another volume by two paths, and wait for them."""
        paths = len(self.slots(server)) + 2
        self.attach(server, volume_id, **options)
        self.await_found(
            lambda: len(self.slots(server)) == paths,
            f'volume {volume_id} is not attached',
        )
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )

    def write_boot_volume_anew(self, server, expected='ACTIVE'):
        image = self.create_image(b'another' * 1000)
        with utils.temporary_mutation(self.api, microversion='2.93'):
            self.api.post_server_action(
                server['id'], {'rebuild': {'imageRef': image}}
            )
            self.await_found(
                lambda: self.reimaged(server), 'no volume is reimaged'
            )
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None, 'status': expected}
        )

    def reimaged(self, server):
        """Tell Nova that Cinder has written the volume, if it waits."""
        events = [
            {
                'name': 'volume-reimaged',
                'server_uuid': server['id'],
                'tag': volumes.BOOT_VOLUME,
            }
        ]
        waiting = self.computes['host1'].manager.instance_events._events
        if not waiting.get(server['id']):
            return False
        self.admin_api.api_post(
            '/os-server-external-events', {'events': events}
        )
        return True

    @proofs.proves('storage.block')
    def story_server_with_a_boot_volume_is_shelved_without_an_image(self):
        server = self.boot_from_volume(extra_specs={})
        mapped, before = self.exchange_volumes(server)
        self.api.post_server_action(server['id'], {'shelve': None})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        self.assert_no_volumes()
        self.assertIsNone(self.lpar(server))

        self.api.post_server_action(server['id'], {'unshelve': None})
        self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual(before, self.connected(server))
        self.assertEqual(mapped, self.cinder.mapped())
        self.assert_image_has_no_keys(server)

    def assert_image_has_no_keys(self, server):
        """Assert that an image of volumes has nothing that the driver keeps.

        The driver is not asked, and could not remove it.
        """
        self.keep_all(server)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.volume.cinder.API.get_absolute_limits',
                lambda *_: {'totalSnapshotsUsed': 0, 'maxTotalSnapshots': -1},
            )
        )
        self.api.post_server_action(
            server['id'], {'createImage': {'name': 'of volumes'}}
        )
        (image,) = (
            image
            for image in self.glance.detail(None)
            if image['name'] == 'of volumes'
        )
        self.assertEqual('true', str(image['properties']['bdm_v2']).lower())
        self.assert_has_no_keys(image)


class MovesTest(moving.MovingTestCase, volumes.VolumesTestCase):
    """Servers with volumes are resized in place, and stay if they must."""

    def setUp(self):
        super().setUp()
        self.start_host(world=san.add_to(worlds.default()))
        self.volume = uuidutils.generate_uuid()

    @proofs.proves('storage.block', 'device.resize')
    def test_resize_in_place_keeps_volumes_and_evacuation_needs_ports(self):
        self.server = self.boot_from_volume(self.volume, extra_specs={})
        before = self.connected(self.server)
        for end, size in ((self.revert, 1024), (self.confirm, 2048)):
            self.resize(
                self.server, volumes.base.gpu_groups(1), memory_mb=size
            )
            self.assertEqual(before, self.connected(self.server))
            self.assertEqual(1, len(self.owned(self.server)))
            end(self.server)
            self.assertEqual(before, self.connected(self.server))
        self.assertEqual(4, len(self.array_disks()))
        self.refuse_evacuation()

    def refuse_evacuation(self):
        self.start_host('host2')
        self.computes['host1'].stop()
        self.admin_api.put_service_force_down(
            self.computes['host1'].service_ref.uuid, True
        )
        self.api.post_server_action(self.server['id'], {'evacuate': {}})
        server = self._wait_for_state_change(self.server, 'ERROR')

        self.assertIn('no Virtual I/O Server has a Fibre', self.fault(server))
        # Cinder has not been asked to unmap it.
        self.assertIn(self.volume, self.cinder.mapped())
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual(4, len(self.slots(server)))
