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

"""The control plane, in the process and over HTTP."""

import io
import json
import socket
import unittest
import unittest.mock
import urllib.error
import urllib.request

from pypowervm.tasks import storage as storage_tasks
from pypowervm.wrappers import managed_system as ms
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import client
from powervm_emulator import worlds
from powervm_emulator.control import http as control_http
from powervm_emulator.control import summary
from powervm_emulator.control import verbs as control
from powervm_emulator.core import captures
from powervm_emulator.core import errors

from . import base


class ControlVerbsTest(base.EmulatorTestCase):
    """The verbs, over HTTP. Other tests call them in the same process."""

    def setUp(self):
        super().setUp()
        self.control = client.Client(self.emulator.url)

    def test_state_shows_slots_and_partitions(self):
        (system,) = self.control.state()['systems']
        self.assertEqual(self.system().uuid, system['uuid'])
        self.assertEqual(225792, system['memory_available'])
        self.assertTrue(system['reports_slot_owners'])
        slots = {slot['drc_index']: slot for slot in system['slots']}
        self.assertEqual(
            {
                'drc_index': '21010020',
                'drc_name': 'U78D2.001.EMU0001-P1-C3',
                'description': '3D Controller',
                'vendor_id': '10DE',
                'device_id': '1DB6',
                'subsystem_vendor_id': '10DE',
                'subsystem_device_id': '124A',
                'revision_id': 'A1',
                'class': '0302',
                'owner': None,
                'assignable': True,
                'sriov': False,
            },
            slots['21010020'],
        )
        self.assertEqual('vios1', slots['21010011']['owner'])
        self.assertTrue(slots['21010023']['sriov'])
        partitions = {item['name']: item for item in system['partitions']}
        self.assertEqual('running', partitions['vios1']['state'])
        self.assertEqual(
            [{'drc_index': '2101002B', 'required': False}],
            partitions['database']['slots'],
        )

    def test_plug_fills_empty_slot(self):
        slot = self.control.plug(
            '21010040',
            {'description': 'FPGA', 'vendor_id': '10EE', 'class': '1200'},
        )
        self.assertEqual('FPGA', slot['description'])
        read = self.slot(0x21010040)
        self.assertEqual(0x10EE, read.pci_vendor_id)
        self.assertEqual(0x1200, read.pci_class)
        self.assertIsNone(read.pci_dev_id)
        self.assertEqual('U78D2.001.EMU0001-P1-C1', read.drc_name)

    def test_plug_creates_slot_with_or_without_card(self):
        slot = self.control.plug('2101FFF0')
        self.assertEqual('Empty slot', slot['description'])
        self.control.plug('2101fff1', {'description': 'FPGA'})
        self.assertEqual('FPGA', self.slot(0x2101FFF1).description)
        self.create(slots=[0x2101FFF1])

    def test_plug_keeps_slot_owner_and_order_of_profile(self):
        created = self.create(slots=base.GPUS[:3])
        slot = self.control.plug('21010020', {'description': 'FPGA'})
        self.assertEqual('vm1', slot['owner'])
        self.assertEqual('vm1', self.slot(base.GPUS[0]).part_name)
        shown = self.read(created.uuid).io_config.io_slots
        self.assertEqual(
            list(base.GPUS[:3]), [slot.drc_index for slot in shown]
        )
        self.assertEqual('FPGA', shown[0].description)
        self.assertTrue(shown[0].required)

    def test_plug_adds_adapter_in_sriov_mode(self):
        self.control.plug('21010048', {'description': 'NIC', 'sriov': True})
        ids = {
            adapter.id for adapter in self.system().asio_config.sriov_adapters
        }
        self.assertEqual({str(base.SRIOV), str(0x21010048)}, ids)
        self.assert_refused(
            500, 'SR-IOV', self.build(slots=[0x21010048]).create
        )

    def test_plug_replaces_adapter_in_sriov_mode(self):
        for card in ({'sriov': False}, {'description': 'NIC'}):
            with self.subTest(card):
                self.control.reset()
                slot = self.control.plug(f'{base.SRIOV:08X}', card)
                self.assertFalse(slot['sriov'])
                config = self.system().asio_config
                self.assertEqual([], list(config.sriov_adapters))

    def test_plug_refuses_invalid_arguments(self):
        for index, card in (
            ('xyz', None),
            ('21010040', {'vendor_id': 'nope'}),
            ('21010040', {'colour': 'red'}),
            ('21010040', {'owner': 'database'}),
            ('21010040', {'drc_index': '21010048', 'description': 'NIC'}),
            ('21010040', None),
            ('123456789', None),
        ):
            with self.assertRaises(errors.ControlError):
                self.control.plug(index, card)

    def test_failed_plug_changes_nothing(self):
        created = self.create(slots=base.GPUS[:1])
        before = self.control.state()
        for drc_index in ('21010021', '21010040', '2101FFF0'):
            card = {
                'description': 'NIC',
                'drc_name': 'elsewhere',
                'assignable': False,
                'sriov': True,
            }
            # The ports of an adapter in SR-IOV mode come from a capture.
            with (
                unittest.mock.patch.object(captures, '_FOLDER', ('none',)),
                self.assertRaisesRegex(errors.ControlError, 'not installed'),
            ):
                self.control.plug(drc_index, card)
        self.assertEqual(before, self.control.state())
        (slot,) = self.read(created.uuid).io_config.io_slots
        self.assertEqual('3D Controller', slot.description)
        self.control.set_owner('21010020', None)
        self.assertIsNone(self.slot(base.GPUS[0]).part_name)

    def test_contents_returns_uploaded_bytes(self):
        (server,) = virtual_io_server.VIOS.get(self.adapter)
        group = storage_tasks.find_vg(self.adapter, 'image_pool')[1]
        data = bytes(range(256))
        target = (self.adapter, server.uuid, group.uuid)
        disk, _ = storage_tasks.upload_new_vdisk(
            *target, io.BytesIO(data), 'disk1', len(data)
        )
        for name in (None, 'vios1', 2, server.uuid):
            self.assertEqual(data, self.control.contents(disk.udid, name))
        for udid, name in ((disk.udid, 'novalink'), ('03none', None)):
            with self.assertRaisesRegex(errors.ControlError, '0 contents'):
                self.control.contents(udid, name)

    def test_pull_leaves_empty_slot_or_removes_it(self):
        self.control.pull('21010020')
        slot = self.slot(base.GPUS[0])
        self.assertEqual('Empty slot', slot.description)
        self.assertEqual(0xFFFF, slot.pci_vendor_id)
        self.control.pull('21010020', remove=True)
        slots = self.system().asio_config.io_slots
        self.assertNotIn(base.GPUS[0], [slot.drc_index for slot in slots])
        with self.assertRaisesRegex(errors.ControlError, '21010020'):
            self.control.pull('21010020')

    def test_pull_removes_adapter_in_sriov_mode(self):
        for remove in (False, True):
            self.control.reset()
            self.control.pull('21010023', remove=remove)
            adapters = self.system().asio_config.sriov_adapters
            self.assertEqual([], list(adapters))

    def test_set_owner_moves_slot_between_partitions(self):
        created = self.create(slots=base.GPUS[:1])
        for name in ('archive', 4, created.uuid, None):
            self.control.set_owner('21010020', name)
        self.assertIsNone(self.slot(base.GPUS[0]).part_uuid)
        self.assertEqual([], list(self.read(created.uuid).io_config.io_slots))
        self.control.set_owner('21010020', 'archive')
        self.assertEqual(4, self.slot(base.GPUS[0]).part_id)

    def test_set_owner_without_profiles_leaves_profiles_unchanged(self):
        created = self.create(slots=base.GPUS[:1])
        self.control.set_owner('21010020', 'archive', profiles=False)
        (slot,) = self.read(created.uuid).io_config.io_slots
        self.assertEqual(base.GPUS[0], slot.drc_index)
        self.assertEqual('archive', self.slot(base.GPUS[0]).part_name)
        self.read(created.uuid).delete()
        self.assertEqual('archive', self.slot(base.GPUS[0]).part_name)

    def test_verbs_refuse_invalid_values(self):
        self.control.set_job_mode('manual')
        self.control.plan_job('PowerOn', 'no')
        for message, verb, *arguments in (
            ('nobody', 'set_owner', '21010020', 'nobody'),
            ("'asleep'", 'set_partition', 'archive', 'asleep'),
            ("'slow'", 'set_job_mode', 'slow'),
            ("'7'", 'advance_jobs', '7'),
            ('COMPLETED_OK', 'plan_job', 'PowerOn', 'no', 'COMPLETED_OK'),
            ("'Explode'", 'plan_job', 'Explode', 'no'),
            (
                "'LUARecovery'",
                'plan_job',
                'LUARecovery',
                '',
                'FAILED_BEFORE_COMPLETION',
                'error',
            ),
            ("'asleep'", 'plan_job', 'PowerOn', '', 'COMPLETED_OK', 'asleep'),
        ):
            with (
                self.subTest(verb),
                self.assertRaisesRegex(errors.ControlError, message),
            ):
                getattr(self.control, verb)(*arguments)
        self.assertEqual('manual', self.control.state()['job_mode'])
        self.assertEqual([], self.control.jobs())

    def test_set_partition_changes_state_and_rmc_state(self):
        state = self.control.set_partition('archive', 'open firmware', 'none')
        self.assertEqual('open firmware', state['state'])
        self.assertEqual('none', state['rmc_state'])

    def test_set_partition_shows_reference_code_until_next_state(self):
        lpar = self.create()
        self.control.set_partition(
            lpar.name, 'error', reference_code='B2001230'
        )
        self.assertEqual('B2001230', self.read(lpar.uuid).ref_code)
        self.control.set_partition(lpar.name, 'not activated')
        self.assertEqual('00000000', self.read(lpar.uuid).ref_code)

    def test_reset_restores_world_and_keeps_sessions(self):
        before = self.control.state()
        self.create(slots=base.GPUS)
        self.control.set_job_mode('manual')
        self.control.add_fault(status=500, nth=99)
        self.control.reset()
        self.assertEqual(before, self.control.state())
        self.assertEqual([], self.control.faults())
        self.assertEqual([], self.control.journal())
        # The session is still good.
        self.system()

    def test_load_world_replaces_world(self):
        self.control.load_world({'systems': [{'name': 'other'}]})
        self.assertEqual('other', self.system().system_name)

    def test_load_world_keeps_old_world_if_new_one_is_invalid(self):
        before = self.control.state()
        for world in (
            {'systems': []},
            {'systems': [{'capture': {'file': 'none.txt'}}]},
        ):
            with self.assertRaises(errors.ControlError):
                self.control.load_world(world)
        self.assertEqual(before, self.control.state())

    def test_events_sessions_faults_and_journal_have_verbs(self):
        self.control.emit_event('CACHE_CLEARED')
        self.control.set_password('new')
        self.assertEqual(1, self.control.expire_sessions())
        self.control.clear_faults()
        self.control.clear_journal()
        self.assertEqual({}, self.control.journal_counts())


class LoadedWorldTest(base.EmulatorTestCase):
    """Worlds that the verbs get in the same process."""

    def test_later_change_of_document_has_no_effect(self):
        world = {'systems': [{'name': 'other'}]}
        self.control.load_world(world)
        world['systems'][0]['name'] = 'changed'
        self.control.reset()
        self.assertEqual('other', self.system().system_name)


class ControlOverHttpTest(base.EmulatorTestCase):
    """The server's errors."""

    def request(self, path, body=None, method=None, **headers):
        """Send a request; return the status and the value of its answer.

        :param headers: by their names with ``_``.
        """
        sent = {'Content-Type': 'application/json'}
        for name, value in headers.items():
            sent[name.replace('_', '-')] = value
        request = urllib.request.Request(
            f'{self.emulator.url}/control/v1/{path}',
            data=body,
            method=method,
            headers=sent,
        )
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def test_get_serves_reading_verbs_only(self):
        for verb in control_http.READING:
            self.assertEqual(200, self.request(verb)[0])
        self.assertEqual(405, self.request('reset')[0])
        status, answer = self.request('_host', b'{}')
        self.assertEqual(404, status)
        self.assertIn('_host', answer['error'])

    def test_missing_or_malformed_arguments_are_refused(self):
        wrong_type = 'cannot be'
        for message, verb, arguments in (
            (wrong_type, 'set_password', {'password': 1}),
            (wrong_type, 'pull', {'drc_index': 5}),
            (wrong_type, 'plug', {'drc_index': '21010020', 'card': []}),
            (wrong_type, 'set_partition', {'partition': None, 'state': 'on'}),
            (wrong_type, 'add_fault', {'status': '500'}),
            (wrong_type, 'add_fault', {'status': True}),
            (wrong_type, 'add_fault', {'delay': '1'}),
            (wrong_type, 'load_world', {'world': 'default'}),
            (wrong_type, 'contents', {'udid': None}),
            ('is empty', 'set_password', {'password': ''}),
            ('drc_index', 'plug', {}),
            ('nonsense', 'plug', {'drc_index': '21010020', 'nonsense': 1}),
            ('not JSON', 'plug', '{'),
            ('not a JSON object', 'plug', []),
        ):
            with self.subTest(verb, arguments=arguments):
                text = arguments if arguments == '{' else json.dumps(arguments)
                status, answer = self.request(verb, text.encode())
                self.assertEqual(400, status)
                self.assertIn(message, answer['error'])

    def test_page_of_other_site_changes_and_reads_nothing(self):
        """What browsers send for a page, by fetch, a form or rebinding."""
        body = b'{"password": "of the page"}'
        page = 'http://page.example'
        for status, headers in (
            (403, {'Origin': page}),
            (403, {'Origin': 'null'}),
            (403, {'Origin': page, 'Content_Type': 'text/plain'}),
            (403, {'Host': 'page.example'}),
            (403, {'Host': 'page.example:80', 'Origin': page}),
            (403, {'Host': '['}),
            (415, {'Content_Type': 'text/plain'}),
            (415, {'Content_Type': 'application/x-www-form-urlencoded'}),
        ):
            with self.subTest(**headers):
                found, answer = self.request('set_password', body, **headers)
                self.assertEqual((status, ['error']), (found, list(answer)))
        base.forget(base.session_for(self.emulator))
        for headers in ({'Origin': page}, {'Host': 'page.example'}):
            self.assertEqual(403, self.request('journal', **headers)[0])

    def test_own_addresses_and_origin_are_accepted(self):
        port = self.emulator.port
        for headers in (
            {'Host': f'127.0.0.1:{port}'},
            {'Host': '192.0.2.1'},
            {'Host': f'[::1]:{port}'},
            {'Host': f'LOCALHOST:{port}'},
            {'Host': socket.gethostname()},
            {'Origin': self.emulator.url},
            {'Content_Type': 'application/json; charset=utf-8'},
        ):
            with self.subTest(**headers):
                self.assertEqual(
                    200, self.request('jobs', b'{}', **headers)[0]
                )

    def test_server_error_is_reported_as_json(self):
        with unittest.mock.patch.object(
            summary, 'state', side_effect=KeyError
        ):
            status, answer = self.request('state')
        self.assertEqual(500, status)
        self.assertIn('defect', answer['error'])

    def test_journal_omits_control_requests(self):
        self.control.clear_journal()
        self.control.state()
        self.assertEqual([], self.control.journal())


class ControlClientTest(unittest.TestCase):
    def test_client_has_every_verb_of_control_plane(self):
        self.assertLessEqual(
            control.VERBS.keys(), set(dir(client.Client('http://host')))
        )

    def test_client_refuses_other_verbs_and_arguments_unsent(self):
        with self.assertRaisesRegex(AttributeError, "no verb 'explode'"):
            client.Client('http://host').explode()
        with self.assertRaisesRegex(TypeError, 'colour'):
            client.Client('http://host').plug('21010020', colour='red')

    def test_reading_verbs_are_verbs_of_control_plane(self):
        self.assertLessEqual(control_http.READING, control.VERBS.keys())


class MultipleSystemsTest(base.EmulatorTestCase):
    def setUp(self):
        self.world = {
            'systems': [
                {
                    'name': name,
                    'serial': f'EMU000{number}',
                    'slots': [{'drc_index': '21010020'}],
                }
                for number, name in enumerate(('first', 'second'))
            ]
        }
        super().setUp()

    def test_plug_changes_named_system_only(self):
        self.control.plug('21010020', {'description': 'FPGA'}, system='second')
        descriptions = {
            system['name']: [slot['description'] for slot in system['slots']]
            for system in self.control.state()['systems']
        }
        self.assertEqual(
            {'first': ['Empty slot'], 'second': ['FPGA']}, descriptions
        )
        with self.assertRaisesRegex(errors.ControlError, '2 systems'):
            self.control.pull('21010020')

    def test_partitions_belong_to_their_parent_system(self):
        first, second = ms.System.get(self.adapter)
        standard = self.build_for(first)
        self.assert_refused(400, 'several systems', standard.create)
        standard.create(parent=second)
        # Names are unique on one system only.
        self.build_for(first).create(parent=first)
        counts = [
            len(system['partitions'])
            for system in self.control.state()['systems']
        ]
        self.assertEqual([1, 1], counts)

    def build_for(self, system):
        self.system = lambda: system
        return self.build(memory=256)


class OwnersWithoutCapabilityTest(base.EmulatorTestCase):
    """A host that reports slot owners without claiming the capability."""

    def setUp(self):
        self.world = worlds.default()
        self.world['systems'][0]['slot_owner_capability'] = False
        super().setUp()

    def test_slots_show_owners_without_capability(self):
        self.assertFalse(
            self.system().get_capability('ioslot_owner_assignment_capable')
        )
        self.assertEqual('vios1', self.slot(base.VIOS_SLOT).part_name)
        created = self.create(slots=base.GPUS[:1])
        self.assertEqual(created.name, self.slot(base.GPUS[0]).part_name)

    def test_world_refuses_capability_without_owners(self):
        (system,) = self.world['systems']
        system.update(reports_slot_owners=False, slot_owner_capability=True)
        with self.assertRaisesRegex(errors.WorldError, 'slot_owner_capab'):
            worlds.check(self.world)

    def test_captured_slot_owners_stay_unless_they_are_not_reported(self):
        for keys, owners, capable in (
            ({}, {None, 'vios1'}, True),
            ({'slot_owner_capability': False}, {None, 'vios1'}, False),
            ({'reports_slot_owners': False}, {None}, False),
        ):
            with self.subTest(**keys):
                capture = {'file': 'managedsystem.txt', 'entry': 0}
                self.control.load_world(
                    {'systems': [{'capture': capture, **keys}]}
                )
                found = self.system()
                names = {s.part_name for s in found.asio_config.io_slots}
                self.assertEqual(owners, names)
                claimed = found.get_capability(
                    'ioslot_owner_assignment_capable'
                )
                self.assertEqual(capable, claimed)


class UnreportedOwnersTest(base.EmulatorTestCase):
    """A host that does not report slot owners."""

    def setUp(self):
        self.world = worlds.default()
        self.world['systems'][0]['reports_slot_owners'] = False
        super().setUp()

    def test_profiles_alone_show_slot_owners(self):
        self.assertFalse(
            self.system().get_capability('ioslot_owner_assignment_capable')
        )
        self.assertIsNone(self.slot(base.VIOS_SLOT).part_name)
        created = self.create(slots=base.GPUS[:1])
        self.assertIsNone(self.slot(base.GPUS[0]).part_uuid)
        self.assertEqual(1, len(created.io_config.io_slots))

    def test_owned_slot_is_refused_after_failed_plug(self):
        with (
            unittest.mock.patch.object(captures, '_FOLDER', ('none',)),
            self.assertRaisesRegex(errors.ControlError, 'not installed'),
        ):
            self.control.plug(
                '21010040', {'description': 'NIC', 'sriov': True}
            )
        self.test_owned_slot_is_refused()

    def test_owned_slot_is_refused(self):
        self.assert_refused(
            500, 'vios1', self.build(slots=[base.VIOS_SLOT]).create
        )
