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

"""Sites: several hosts that share storage pools."""

import base64
from concurrent import futures

from pypowervm import exceptions
from pypowervm.wrappers import storage

from powervm_emulator import client as client_module
from powervm_emulator import fixture
from powervm_emulator.core import errors

from . import base
from . import pools
from . import sites

ROUNDS = 5


class SerialTest(sites.SiteTestCase):
    def test_hosts_of_one_serial_are_refused(self):
        before = self.control2.state()
        with self.assertRaisesRegex(
            errors.WorldError,
            "'host1' and 'host1' are both the machine 9009-22A.EMU0001",
        ):
            self.control2.load_world(sites.world(1))
        self.assertEqual(before, self.control2.state())
        other = sites.world(1)
        other['systems'][0]['model'] = '22G'
        self.control2.load_world(other)


class SharingTest(sites.SiteTestCase):
    def test_hosts_have_one_pool_and_uuids_of_their_own(self):
        self.assertEqual(*(self.pool(one) for one in self.controls))
        self.assertEqual(*(one.cluster().uuid for one in self.clients))
        self.assertNotEqual(*(self.lpar(one)['uuid'] for one in self.controls))

    def test_cluster_links_only_to_servers_of_its_host(self):
        for client, own in ((self.client1, (0, 1)), (self.client2, (2, 3))):
            nodes = client.cluster().nodes
            linked = [i for i in range(4) if nodes[i].vios_uri]
            self.assertEqual(list(own), linked)
            self.assertEqual(
                {client.vios(name).uuid for name in ('vios1', 'vios2')},
                {nodes[i].vios_uuid for i in own},
            )
            self.assertEqual(
                ['EMU0001', 'EMU0001', 'EMU0002', 'EMU0002'],
                [node.mtms.serial for node in nodes],
            )
            self.assertEqual(4, len({node.hostname for node in nodes}))
            self.assertTrue(all(node.lpar_id for node in nodes))

    def test_unit_of_one_host_is_seen_by_the_other(self):
        unit = self.client1.image(data=b'image')
        (seen,) = self.client2.units()
        self.assertEqual((unit.uuid, unit.udid), (seen.uuid, seen.udid))
        self.assertEqual(b'image', self.control2.contents(unit.udid))
        clone = self.client2.clone(seen)
        sent = base64.b64encode(b'I').decode()
        self.control2.write_disk(clone.udid, sent)
        self.assertEqual(b'Image', self.control1.contents(clone.udid))
        self.assertEqual(b'image', self.control1.contents(unit.udid))

    def test_entity_tags_are_those_of_the_pool(self):
        unit = self.client1.unit()
        (seen,) = self.client2.units()
        unit = unit.refresh()
        self.assertEqual(unit.etag, seen.etag)
        seen._name('renamed')
        seen.update()
        with self.assertRaises(exceptions.HttpError) as caught:
            unit.adapter.delete_by_href(unit.href, etag=unit.etag)
        self.assertEqual(412, caught.exception.response.status)

    def test_events_of_pool_reach_clients_of_all_hosts(self):
        """Those of a host reach its own clients only."""
        for client in self.clients:
            client.adapter.read_by_path(base.EVENTS)
        unit = self.client1.unit()
        for client in self.clients:
            entries = client.adapter.read_by_path(base.EVENTS).feed.entries
            data = entries[0].element.findtext('EventData')
            port = client.adapter.session.port
            self.assertTrue(data.startswith(f'http://127.0.0.1:{port}/'), data)
            self.assertTrue(data.endswith(f'/LogicalUnit/{unit.uuid}'), data)
        self.control1.set_partition('vm', state='running')
        polled = self.client2.adapter.read_by_path(base.EVENTS)
        self.assertEqual(204, polled.status)
        self.assertEqual('not activated', self.lpar(self.control2)['state'])

    def test_unit_that_other_host_uses_only_grows(self):
        unit = self.client1.unit()
        self.map(self.client2, self.control2, unit)
        self.assert_refused(500, 'vios1 of host2 maps it', unit.delete)
        self.control2.set_partition('vm', state='running')
        unit = unit.refresh()
        self.assertTrue(unit.in_use)
        upload = self.client1.upload
        self.assert_refused(500, 'is active', upload, unit, b'data')
        unit._capacity(2)
        unit.update()
        (mapping,) = self.client2.vios().scsi_mappings
        self.assertEqual(2, mapping.backing_storage.capacity)
        (unit,) = self.client2.units()
        self.assertEqual((2, True), (unit.capacity, unit.in_use))

    def test_unit_is_mapped_by_servers_of_two_hosts(self):
        unit = self.client1.unit()
        for client, control in zip(self.clients, self.controls, strict=True):
            self.map(client, control, unit)
            (mapping,) = client.vios().scsi_mappings
            self.assertEqual(unit.udid, mapping.backing_storage.udid)


class LoadingTest(sites.SiteTestCase):
    def test_reset_leaves_pool_and_other_host_alone(self):
        unit = self.client1.image(data=b'image')
        for client, control in zip(self.clients, self.controls, strict=True):
            self.map(client, control, unit)
            control.set_partition('vm', state='running')
        other = self.control2.state()
        self.control1.reset()
        self.assertEqual(other, self.control2.state())
        self.assertEqual(b'image', self.control1.contents(unit.udid))
        self.assertEqual([], list(self.client1.vios().scsi_mappings))

    def test_pool_goes_with_the_last_host_that_has_it(self):
        self.client1.unit()
        for number, control in enumerate(self.controls, 1):
            alone = sites.world(number)
            del alone['clusters']
            control.load_world(alone)
            if number == 1:
                self.assertEqual([], self.control1.state()['clusters'])
                self.assertEqual([], storage.SSP.get(self.client1.adapter))
                self.assertEqual(2, len(self.client2.cluster().nodes))
                self.assertEqual(1, len(self.client2.units()))
        self.control1.load_world(sites.world(1))
        self.assertEqual([], self.pool(self.control1)['logical_units'])

    def test_contradicting_and_failing_worlds_change_nothing(self):
        self.client1.unit()
        before = [control.state() for control in self.controls]
        renamed, failing = sites.world(1), sites.world(1, name='second')
        renamed['clusters'][0]['name'] = 'other'
        last = {'name': 'last', 'capacity': 1}
        failing['clusters'].append(
            {'name': 'last', 'nodes': ['nobody'], 'pool': last}
        )
        for message, changed in (
            ('another way', sites.world(1, capacity=11)),
            ('another way', renamed),
            ('nobody', failing),
        ):
            with self.assertRaisesRegex(errors.WorldError, message):
                self.control1.load_world(changed)
        self.assertEqual(before, [one.state() for one in self.controls])
        with self.assertRaisesRegex(errors.WorldError, 'another way'):
            fixture.Site([sites.world(1), sites.world(2, capacity=11)])

    def test_pools_of_different_names_are_not_shared(self):
        self.control2.load_world(sites.world(2, name='own'))
        unit = self.client1.unit()
        self.assertEqual([], self.client2.units())
        path = f'/rest/api/uom/SharedStoragePool/{self.client1.pool().uuid}'
        self.assert_refused(
            404, 'no SharedStorage', self.client2.adapter.read_by_path, path
        )
        unit.delete()


class StoppingTest(sites.SiteTestCase):
    def test_host_goes_on_when_its_peer_stops(self):
        unit = self.client1.image(data=b'image')
        self.map(self.client1, self.control1, unit)
        self.control1.set_partition('vm', state='running')
        self.site.emulators[0].stop()
        self.control2.set_partition('vm', state='running')
        self.assertEqual(2, len(self.client2.cluster().nodes))
        (seen,) = self.client2.units()
        self.assertFalse(seen.in_use)
        self.assertEqual(b'image', self.control2.contents(unit.udid))
        seen.delete()


class PowerTest(sites.SiteTestCase):
    def test_host_without_power_answers_nobody(self):
        self.control1.power_off_system()
        with self.assertRaises(exceptions.ConnectionError):
            self.client1.units()
        self.assertEqual([], self.client2.units())
        remote = client_module.Client(self.site.emulators[0].url)
        self.assertFalse(remote.state()['powered_on'])
        remote.power_on_system()
        self.assertTrue(remote.state()['powered_on'])
        self.assertEqual([], self.client1.units())

    def test_partitions_stop_and_only_servers_that_ran_start_again(self):
        self.control1.set_partition('vios2', state='not activated')
        before = self.lpars(self.control1)
        self.control1.set_partition('vm', state='running')
        self.control1.power_off_system()
        stopped = self.lpars(self.control1).values()
        self.assertEqual({'not activated'}, {one['state'] for one in stopped})
        self.control1.power_on_system()
        self.assertEqual(before, self.lpars(self.control1))

    def test_nodes_are_down_until_power_is_given_back(self):
        for give_back in (self.control1.power_on_system, self.control1.reset):
            self.control1.power_off_system()
            nodes = self.client2.cluster().nodes
            self.assertEqual(
                ['Down', 'Down', 'Up', 'Up'], [node.state for node in nodes]
            )
            give_back()
            self.assertTrue(self.control1.state()['powered_on'])
            nodes = self.client2.cluster().nodes
            self.assertEqual({'Up'}, {node.state for node in nodes})

    def test_sessions_have_to_log_on_again(self):
        old = self.client1.adapter.session._sessToken
        self.control1.power_off_system()
        self.assertEqual(0, self.control1.state()['sessions'])
        self.control1.power_on_system()
        self.client1.units()
        self.assertNotEqual(old, self.client1.adapter.session._sessToken)

    def test_unit_in_use_becomes_free_and_can_go(self):
        unit = self.client1.unit()
        self.map(self.client1, self.control1, unit)
        self.control1.set_partition('vm', state='running')
        self.assertTrue(self.client2.units()[0].in_use)
        self.control1.power_off_system()
        (seen,) = self.client2.units()
        self.assertFalse(seen.in_use)
        seen.delete()
        self.control1.power_on_system()
        (mapping,) = self.client1.vios().scsi_mappings
        self.assertIsNone(mapping.backing_storage)

    def test_mapping_of_unit_that_is_there_survives(self):
        unit = self.client1.unit()
        self.map(self.client1, self.control1, unit)
        self.cycle_power()
        (mapping,) = self.client1.vios().scsi_mappings
        self.assertEqual(unit.udid, mapping.backing_storage.udid)
        (seen,) = self.client2.units()
        self.assert_refused(500, 'vios1 of host1', seen.delete)

    def test_upload_in_progress_is_lost(self):
        unit = self.client1.image(data=b'before')
        control = self.control1

        parts = [b'x' * 100, b'y' * 100]

        class Stream:
            def read(self, _size=-1):
                if len(parts) == 1:
                    control.power_off_system()
                return parts.pop(0) if parts else b''

        file = self.client1.file(unit)
        with self.assertRaises(exceptions.ConnectionError):
            self.client1.adapter.upload_file(file.element, Stream())
        self.assertEqual(b'before', self.control2.contents(unit.udid))
        control.power_on_system()
        self.assert_refused(
            404,
            'no File',
            self.client1.adapter.upload_file,
            file.element,
            pools.io.BytesIO(b'z'),
        )

    def test_waiting_poll_is_dropped(self):
        self.site.emulators[0]._application._emulation.event_wait = 600
        poll = self.client1.adapter.read_by_path
        poll(base.EVENTS)
        self.control1.clear_journal()
        with futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(poll, base.EVENTS)
            while not self.control1.journal():
                self.assertFalse(waiting.done())
            self.control1.power_off_system()
            with self.assertRaises(exceptions.ConnectionError):
                waiting.result(60)

    def test_second_pull_of_the_plug_changes_nothing(self):
        for verb in ('power_on_system', 'power_off_system'):
            getattr(self.control1, verb)()
            before = self.control1.state()
            getattr(self.control1, verb)()
            self.assertEqual(before, self.control1.state())


class ConcurrencyTest(sites.SiteTestCase):
    def test_hosts_change_the_pool_at_once(self):
        image = self.client1.image(data=b'image')
        with futures.ThreadPoolExecutor(2) as executor:
            images = (image, image)
            list(executor.map(self.work, self.clients, self.controls, images))
        pool = self.pool(self.control1)
        kept = [one for one in pool['logical_units'] if not one['thin']]
        self.assertEqual(2 * ROUNDS, len(kept))
        self.assertEqual(1 + 4 * ROUNDS, len(pool['logical_units']))
        used = sum(one['used'] for one in pool['logical_units'])
        self.assertAlmostEqual(10 - used, pool['free'], places=5)
        self.assertEqual(b'image', self.control1.contents(image.udid))

    def work(self, client, control, image):
        """Make, fill, map and delete units."""
        for number in range(ROUNDS):
            client.unit(f'thick{number}', 1 / 64, thin=False)
            self.map(client, control, client.clone(image, f'clone{number}'))
            unit = client.unit('gone')
            client.upload(unit, b'data' * 1000)
            unit.refresh().delete()
            control.state()
