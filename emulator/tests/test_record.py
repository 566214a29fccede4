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

"""A recorded world gives pypowervm the facts of the host it was read from."""

import io
import pathlib
import tempfile
import unittest
from unittest import mock

from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as tasks
from pypowervm.wrappers import network
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import certificate
from powervm_emulator import fixture
from powervm_emulator import main
from powervm_emulator import worlds
from powervm_emulator.core import errors

from . import base
from . import facts
from . import pools
from . import test_captures


class RecordTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.password = self.folder / 'password'
        self.password.write_text('abc123\n')
        self.output = self.folder / 'world.yaml'

    def run_record(self, url, *options):
        """Record; return exit status and what standard error has."""
        with mock.patch('sys.stderr', io.StringIO()) as said:
            status = main.main(
                [
                    *('record', url, '--username', 'admin'),
                    *('--password-file', str(self.password)),
                    *('--output', str(self.output), *options),
                ]
            )
        return status, said.getvalue()

    def record(self, emulator, *options):
        """Record an emulator; return the world and what was said."""
        status, said = self.run_record(emulator.url, *options)
        self.assertEqual(0, status, said)
        return worlds.load_file(str(self.output)), said

    def facts(self, emulator):
        adapter = base.adapter_for(emulator)
        self.addCleanup(base.forget, adapter.session)
        return facts.read(adapter)

    def assert_same_facts(self, emulator):
        """Record an emulator, load that into another, and compare."""
        before = self.facts(emulator)
        other = base.start(self, self.record(emulator)[0], seed=99)
        after = self.facts(other)
        for kind, expected in before.items():
            self.assertEqual(list(expected), list(after[kind]), kind)
            for uuid, properties in expected.items():
                with self.subTest(kind=kind, uuid=uuid):
                    self.assertEqual(properties, after[kind][uuid])
        return other


class SameFactsTest(RecordTestCase):
    def test_default_world_is_the_same(self):
        self.assert_same_facts(base.start(self))

    def test_world_with_changes_of_clients_is_the_same(self):
        emulator = base.start(self)
        helper = base.EmulatorTestCase()
        helper.adapter = adapter = base.adapter_for(emulator)
        self.addCleanup(base.forget, adapter.session)
        made = helper.create('vm1', [base.GPUS[0]])
        vswitch = network.VSwitch.get(adapter, parent=helper.system())[0]
        network.CNA.bld(adapter, 7, vswitch.related_href).create(parent=made)
        (vios,) = virtual_io_server.VIOS.get(adapter)
        group = tasks.find_vg(adapter, 'image_pool')[1]
        disk = tasks.crt_vdisk(adapter, vios.uuid, group.uuid, 'disk1', 2)
        scsi_mapper.add_vscsi_mapping(None, vios.uuid, made.uuid, disk)
        other = self.assert_same_facts(emulator)
        # It goes on from there: new disks and slots are not those in use.
        again = base.adapter_for(other)
        self.addCleanup(base.forget, again.session)
        group = tasks.find_vg(again, 'image_pool')[1]
        new = tasks.crt_vdisk(again, vios.uuid, group.uuid, 'disk2', 1)
        self.assertNotEqual(disk.udid, new.udid)
        self.assertEqual(
            'vm1',
            {
                slot['drc_index']: slot['owner']
                for slot in other.control.state()['systems'][0]['slots']
            }['21010020'],
        )

    def test_world_with_shared_storage_pool_is_the_same(self):
        world = pools.world(
            tiers=[
                {'name': 'SYSTEM', 'capacity': 6},
                {'name': 'fast', 'capacity': 4},
            ],
            logical_units=[
                {'name': 'image', 'capacity': 1, 'type': 'image'},
                {'name': 'thick', 'capacity': 2, 'thin': False},
            ],
        )
        world['systems'][0]['network_bridges'] = [{'vios': 'vios1', 'pvid': 1}]
        emulator = base.start(self, world)
        adapter = base.adapter_for(emulator)
        self.addCleanup(base.forget, adapter.session)
        client = pools.Client(adapter)
        unit = tasks.crt_lu(client.tier('fast'), 'disk', 1)[1]
        (vios,) = virtual_io_server.VIOS.search(adapter, name='vios1')
        (lpar,) = (
            one
            for one in emulator.control.state()['systems'][0]['partitions']
            if one['name'] == 'novalink'
        )
        scsi_mapper.add_vscsi_mapping(None, vios.uuid, lpar['uuid'], unit)
        other = self.assert_same_facts(emulator)
        self.assertEqual(
            emulator.control.state()['clusters'],
            other.control.state()['clusters'],
        )

    def test_free_space_of_pool_is_that_of_the_recorded_one(self):
        emulator = base.start(
            self, pools.world(logical_units=[{'name': 'disk', 'capacity': 2}])
        )
        (unit,) = emulator.control.state()['clusters'][0]['pool'][
            'logical_units'
        ]
        emulator.control.write_disk(unit['udid'], 'YWJj')
        other = base.start(self, self.record(emulator)[0])
        free = [
            one.control.state()['clusters'][0]['pool']['free']
            for one in (emulator, other)
        ]
        self.assertEqual([9.999023, 9.999023], free)

    def test_captured_worlds_are_the_same(self):
        for file in (
            'fake_vios_feed.txt',
            'fake_vios_ssp_npiv.txt',
            'fake_lpar_feed.txt',
            'managedsystem.txt',
            'sys_with_sriov.txt',
        ):
            with self.subTest(file=file):
                self.output.unlink(missing_ok=True)
                world = test_captures.world_of(file)
                self.assert_same_facts(base.start(self, world))

    def test_captured_consoles_are_the_same(self):
        world = worlds.default()
        for file in ('managementconsole.txt', 'managementconsole_ssh.txt'):
            with self.subTest(file=file):
                self.output.unlink(missing_ok=True)
                world['management_consoles'] = [{'capture': {'file': file}}]
                self.assert_same_facts(base.start(self, world))

    def start_site(self):
        """Start two hosts with one pool; return their emulators."""
        described = [pools.world(), pools.world()]
        described[1]['systems'][0] |= {'name': 'host2', 'serial': 'EMU0002'}
        return self.enterContext(fixture.Site(described)).emulators

    def test_nodes_of_other_hosts_are_the_same(self):
        self.assert_same_facts(self.start_site()[0])

    def test_state_of_recorded_node_is_that_of_its_server(self):
        other = base.start(
            self, self.record(base.start(self, pools.world()))[0]
        )
        other.control.set_partition('vios2', state='not activated')
        adapter = base.adapter_for(other)
        self.addCleanup(base.forget, adapter.session)
        self.assertEqual(
            ['Down', 'Up'],
            sorted(
                node.state for node in pools.Client(adapter).cluster().nodes
            ),
        )

    def test_hosts_that_are_recorded_share_their_pool(self):
        recorded = []
        for emulator in self.start_site():
            self.output.unlink(missing_ok=True)
            recorded.append(self.record(emulator)[0])
        with fixture.Site(recorded) as site:
            found = [
                one.control.state()['clusters'][0] for one in site.emulators
            ]
        self.assertEqual(*found)
        self.assertEqual(4, len(found[0]['nodes']))


class ReadingTest(RecordTestCase):
    def test_record_writes_only_to_log_on_and_off(self):
        emulator = base.start(self, pools.world())
        self.record(emulator)
        writing = [
            key
            for key in emulator.control.journal_counts()
            if not key.startswith('GET ')
        ]
        self.assertEqual(['PUT Logon.create', 'DELETE Logon.delete'], writing)
        self.assertEqual(0, emulator.control.state()['sessions'])

    def assert_failed(self, words, url, *options):
        """Assert that a record fails with these words, and writes nothing."""
        status, said = self.run_record(url, *options)
        self.assertEqual(1, status)
        self.assertIn(words, said)
        self.assertNotIn('Traceback', said)
        return said

    def test_session_ends_if_reading_fails(self):
        emulator = base.start(self)
        emulator.control.add_fault(match='ManagedSystem.feed', status=500)
        words = 'cannot read the systems: it answers 500'
        self.assert_failed(words, emulator.url)
        self.assertEqual(0, emulator.control.state()['sessions'])
        self.assertFalse(self.output.exists())

    def test_feed_that_is_refused_is_named(self):
        emulator = base.start(self)
        emulator.control.add_fault(match='NetworkBridge.feed', status=403)
        world, said = self.record(emulator)
        self.assertEqual([], world['systems'][0]['network_bridges'])
        self.assertRegex(said, 'not recorded: .*NetworkBridge: it answers 403')
        self.assertIn('NetworkBridge: it answers 403', self.output.read_text())

    def test_record_refuses_what_no_world_can_have(self):
        system = {'name': 'small', 'memory': {'hypervisor': 1}}
        world = {'systems': [system], 'clusters': []}
        document = 'powervm_emulator.record.world.document'
        with mock.patch(document, return_value=world):
            self.assert_failed(
                'the server has what worlds cannot have: ',
                base.start(self).url,
            )
        self.assertFalse(self.output.exists())

    def test_links_to_what_worlds_do_not_have_are_counted(self):
        emulator = base.start(
            self, test_captures.world_of('fake_vios_ssp_npiv.txt')
        )
        _, said = self.record(emulator)
        self.assertRegex(
            said,
            r'not recorded: \w+: [0-9]+ that others link to, which worlds do '
            'not have',
        )

    def test_server_that_refuses_or_is_not_there_is_told(self):
        refusing, nowhere = base.start(self).url, 'http://127.0.0.1:9'
        self.password.write_text('wrong\n')
        words = f'cannot log on to {refusing}: it answers 401'
        self.assertNotIn('wrong', self.assert_failed(words, refusing))
        self.assert_failed(f'cannot log on to {nowhere}: ', nowhere)
        for url in ('host', 'ftp://host', 'file:///etc/passwd', 'https://'):
            with self.subTest(url):
                self.assert_failed('is not the URL of a REST server', url)

    def test_file_that_is_there_is_left_alone(self):
        self.output.write_text('mine')
        emulator = base.start(self)
        self.assert_failed('is there; name a new file', emulator.url)
        self.assertEqual('mine', self.output.read_text())
        self.assertEqual({}, emulator.control.journal_counts())

    def test_world_goes_to_standard_output_without_file(self):
        emulator = base.start(self)
        with (
            mock.patch('sys.stdout', io.StringIO()) as written,
            mock.patch('sys.stderr', io.StringIO()),
        ):
            status = main.main(
                [
                    *('record', emulator.url, '--username', 'admin'),
                    *('--password-file', str(self.password)),
                ]
            )
        self.assertEqual(0, status)
        worlds.parse(written.getvalue(), 'it')


class TlsTest(RecordTestCase):
    def setUp(self):
        super().setUp()
        files = certificate.make(self.folder, '127.0.0.1')
        self.cafile = files.certificate
        self.emulator = base.start(self, tls=(files.certificate, files.key))

    def test_server_is_verified_by_cafile(self):
        self.record(self.emulator, '--cafile', self.cafile)

    def test_unknown_certificate_is_refused_before_the_logon(self):
        status, said = self.run_record(self.emulator.url)
        self.assertEqual(1, status)
        self.assertIn('CERTIFICATE_VERIFY_FAILED', said)
        self.assertEqual({}, self.emulator.control.journal_counts())

    def test_missing_cafile_is_told(self):
        status, said = self.run_record(
            self.emulator.url, '--cafile', '/no/file'
        )
        self.assertEqual(1, status)
        self.assertIn('cannot read the certificates in /no/file', said)


class DocumentTest(unittest.TestCase):
    """Documents in worlds, which record writes."""

    def test_document_of_system_is_checked(self):
        uuid = {'uuid': '00000000-0000-4000-8000-000000000000'}
        for words, document, keys in (
            ("'uuid' is a required property", '<a/>', {}),
            (
                'document and file exclude each other',
                '<a/>',
                {**uuid, 'file': 'lpar.txt'},
            ),
            (
                'a document of a ManagedSystem is a LogicalPartition',
                '<LogicalPartition/>',
                uuid,
            ),
            ('not well-formed', 'hello', uuid),
        ):
            with (
                self.subTest(words),
                self.assertRaisesRegex(errors.WorldError, words),
            ):
                capture = {'document': document, **keys}
                fixture.Emulator({'systems': [{'capture': capture}]})
