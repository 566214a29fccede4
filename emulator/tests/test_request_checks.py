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

"""Requests of the wrong form, also those that a fuzzer found."""

import threading

from lxml import etree
from pypowervm import const
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import event
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network

from powervm_emulator import worlds
from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors

from . import base
from . import wire

GROUPS = (
    'None',
    'All',
    'Advanced',
    'EnergyManagement',
    'Hypervisor',
    'NVRAM',
    'SystemNetwork',
    'TierThreshold',
    'ViosFCMapping',
    'ViosNetwork',
    'ViosSCSIMapping',
    'ViosStorage',
    'VNIC',
)


class ContentTypeTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.create()
        self.path = self.path_of('vm1')

    def post(self, media_type):
        """Post the partition as it is with a Content-Type."""
        document = self.get(self.path).content
        return self.ask('POST', self.path, document, Content_Type=media_type)

    def test_body_without_content_type_is_refused(self):
        self.assert_refusal(self.post(None), 'Content-Type')

    def test_body_of_other_media_type_is_refused(self):
        for media_type in (
            'text/plain',
            'application/json',
            'application/octet-stream',
            wire.media_type('LogicalPartition', 'web'),
            wire.media_type('VirtualIOServer'),
            'application/vnd.ibm.powervm.uom+xml',
            'application/vnd.ibm.powervm.uom+xml; charset=UTF-8',
        ):
            with self.subTest(media_type):
                answer = self.post(media_type)
                self.assert_refusal(answer, 'Content-Type', status=415)

    def test_media_types_of_clients_are_accepted(self):
        for media_type in (
            wire.media_type('LogicalPartition'),
            wire.media_type('LogicalPartition').replace(' ', ''),
            wire.media_type('LogicalPartition') + '; charset=UTF-8',
            'Application/VND.ibm.powervm.uom+xml; type="LogicalPartition"',
        ):
            with self.subTest(media_type):
                answer = self.post(media_type)
                self.assertEqual(200, answer.status, answer.text[:2000])

    def test_job_of_other_media_type_is_refused(self):
        path = f'{self.path}/do/PowerOn'
        answer = self.ask('PUT', path, self.get(path).content)
        self.assertIn(answer.status, (400, 415))
        self.assertEqual('not activated', self.partition('vm1')['state'])

    def test_request_without_body_needs_no_content_type(self):
        path = f'{self.path}/do/PowerOn'
        self.control.set_job_mode('manual')
        job = self.ask(
            'PUT',
            path,
            self.get(path).content,
            Content_Type=wire.media_type('JobRequest', 'web'),
        )
        number = wire.child(job.content, 'JobID').text
        for headers in ({}, {'Content_Type': wire.media_type(number)}):
            answer = self.ask(
                'POST', f'uom/jobs/{number}/cancel?group=None', **headers
            )
            self.assertLess(answer.status, 300, answer.text[:2000])


class JobRequestTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.create()
        self.path = f'{self.path_of("vm1")}/do/PowerOn'
        self.document = self.get(self.path).content
        self.operation = wire.child(self.document, 'RequestedOperation')

    def put(self):
        media_type = wire.media_type('JobRequest', 'web')
        return self.ask(
            'PUT', self.path, self.document, Content_Type=media_type
        )

    def test_job_request_has_type_of_progress(self):
        """IBM's Ansible collection and others send it."""
        name = f'{{{wire.WEB}}}ProgressType'
        etree.SubElement(self.operation, name).text = 'DISCRETE'
        self.assertEqual(200, self.put().status)
        self.assertEqual('running', self.partition('vm1')['state'])

    def test_job_request_for_other_operation_than_its_uri_is_refused(self):
        for name, value in (
            ('OperationName', 'PowerOff'),
            ('GroupName', 'VirtualIOServer'),
        ):
            with self.subTest(name):
                self.document = self.get(self.path).content
                found = wire.child(self.document, f'RequestedOperation/{name}')
                found.text = value
                self.assert_refusal(self.put(), f"{name} .* '{value}'")
                self.assertEqual(
                    'not activated', self.partition('vm1')['state']
                )


class AcceptTest(wire.WireTestCase):
    def test_unknown_uri_is_not_found_whatever_is_accepted(self):
        for status, path in (
            (400, 'uom/ManagedSystem/a/b'),
            (404, 'templates/PartitionTemplate'),
        ):
            answer = self.ask('GET', path, Accept='text/html')
            self.assertEqual(status, answer.status)

    def test_request_that_accepts_other_media_types_is_refused(self):
        uuid = self.system().uuid
        console = self.get('uom/ManagementConsole').contents[0]
        console = wire.child(console, 'Metadata/Atom/AtomID').text
        remote = f'uom/ManagementConsole/{console}?group=RemoteAccess'
        web = 'application/vnd.ibm.powervm.web+xml; type=ManagementConsole'
        uom = 'application/vnd.ibm.powervm.uom+xml'
        for path, accepted in (
            ('uom/ManagedSystem', 'text/html'),
            ('uom/ManagedSystem', 'image/png, text/*'),
            ('uom/ManagedSystem', 'application/pdf'),
            # Recorded.
            (remote, web),
            (f'pcm/ManagedSystem/{uuid}/preferences', uom),
            (f'pcm/ManagedSystem/{uuid}/preferences', 'application/xml'),
        ):
            with self.subTest(f'{path} {accepted}'):
                answer = self.ask('GET', path, Accept=accepted)
                self.assertEqual(406, answer.status)

    def test_writer_gets_whole_entry_or_nothing(self):
        self.create()
        path = self.path_of('vm1')
        document = self.get(path).content
        uom = wire.media_type('LogicalPartition')
        answer = self.ask('POST', path, document, Accept=uom)
        self.assertEqual(406, answer.status)
        job = wire.media_type('JobResponse', 'web')
        answer = self.ask(
            'PUT',
            f'{path}/do/PowerOn',
            self.get(f'{path}/do/PowerOn', Accept=job).content,
            Content_Type=wire.media_type('JobRequest', 'web'),
            Accept=job,
        )
        self.assertEqual(406, answer.status)
        self.assertEqual('not activated', self.partition('vm1')['state'])
        self.assertEqual(204, self.ask('DELETE', path, Accept=uom).status)

    def test_refused_accept_header_creates_nothing(self):
        document = self.build().entry.element.toxmlstring().decode()
        answer = self.ask(
            'PUT', 'uom/LogicalPartition', document, Accept='text/html'
        )
        self.assertEqual(406, answer.status)
        names = [
            partition['name']
            for partition in self.control.state()['systems'][0]['partitions']
        ]
        self.assertNotIn('vm1', names)

    def test_media_types_that_clients_accept_are_served(self):
        for accepted in (
            None,
            '*/*',
            'application/*',
            'application/atom+xml',
            'application/atom+xml; charset=UTF-8',
            'application/vnd.ibm.powervm.uom+xml',
            'application/vnd.ibm.powervm.uom+xml; type=ManagedSystem',
            'text/html, application/xhtml+xml, */*; q=0.8',
        ):
            with self.subTest(accepted):
                answer = self.ask('GET', 'uom/ManagedSystem', Accept=accepted)
                self.assertEqual(200, answer.status, answer.text[:2000])

    def test_quick_properties_are_served_as_json_only(self):
        path = 'uom/LogicalPartition/quick/All'
        for accepted in ('*/*', 'application/json'):
            self.assertEqual(
                200, self.ask('GET', path, Accept=accepted).status
            )
        answer = self.ask('GET', path, Accept='text/html')
        self.assertEqual(406, answer.status)


class AnchorTest(wire.WireTestCase):
    """What hosts say of themselves, and clients ask for first."""

    def test_anchors_list_what_can_be_asked_for(self):
        for path, kind in (
            ('LogicalPartition/quick', 'QuickPropertyCollection'),
            ('LogicalPartition/search', 'SearchParameterSet'),
            ('ManagedSystem/search', 'SearchParameterSet'),
            ('VirtualIOServer/search', 'SearchParameterSet'),
        ):
            with self.subTest(path):
                answer = self.get(f'uom/{path}', Accept='*/*')
                self.assertEqual(
                    [kind], [wire.name(one) for one in answer.contents]
                )
                self.assertIn('Name<', answer.text)

    def test_schema_lists_elements_in_their_order(self):
        path = 'web/schema/SharedProcessorConfiguration.xsd'
        answer = self.get(path, Accept='*/*')
        self.assertEqual('application/xml', answer.headers['content-type'])
        names = [node.get('name') for node in answer.root.iter('{*}element')]
        order = elements.ORDERS['SharedProcessorConfiguration']
        self.assertEqual(list(order[1:]), names[1:])

    def test_schema_of_unknown_type_is_empty(self):
        for path in ('Colour.xsd', 'inc/Enumerations.xsd'):
            answer = self.get(f'web/schema/{path}', Accept='*/*')
            self.assertEqual('', answer.text)
        answer = self.ask('GET', f'web/schema/{path}', Accept='text/xml')
        self.assertEqual(406, answer.status)


class RootTypeTest(wire.WireTestCase):
    def test_unknown_root_type_is_refused(self):
        for method, path in (
            ('GET', 'uom/Foo'),
            ('GET', 'uom/Foo?group=None'),
            ('GET', f'uom/Foo/{"0" * 8}-0000-0000-0000-{"0" * 12}'),
            ('GET', 'uom/Foo/quick/All'),
            ('GET', "uom/Foo/search/(Name=='a')"),
            ('PUT', 'uom/Foo'),
            ('GET', 'web/Foo'),
        ):
            with self.subTest(f'{method} {path}'):
                body = (
                    f'<Foo xmlns="{wire.UOM}"/>' if method == 'PUT' else None
                )
                answer = self.ask(method, path, body)
                self.assert_refusal(
                    answer, r'REST000E Unrecognized root REST type of Foo'
                )

    def test_refusal_names_what_only_hmcs_have(self):
        uuid = self.system().uuid
        for path, status in (
            ('web/HmcUser', 400),
            ('uom/PowerEnterprisePool', 400),
            ('templates/PartitionTemplate/x', 404),
            (f'pcm/ManagedSystem/{uuid}/ProcessedMetrics', 404),
        ):
            with self.subTest(path):
                self.assert_refusal(
                    self.ask('GET', path), 'an HMC has it, NovaLink', status
                )
        for path in ('web/Foo', 'web/File/x/HmcUser'):
            self.assertNotIn('HMC', self.ask('GET', path).message)

    def test_unknown_uuid_of_known_type_is_not_found(self):
        uuid = '00000000-0000-0000-0000-000000000000'
        for kind in ('LogicalPartition', 'VirtualIOServer', 'ManagedSystem'):
            with self.subTest(kind):
                answer = self.ask('GET', f'uom/{kind}/{uuid}')
                self.assert_refusal(answer, 'REST029B ', status=404)
                self.assertEqual(
                    'The supplied URI does not identify a known resource.',
                    wire.child(answer.content, 'ReasonCode').text,
                )


class GroupTest(wire.WireTestCase):
    def test_unknown_group_is_refused(self):
        system = f'uom/ManagedSystem/{self.system().uuid}'
        server, archive = self.path_of('vios1'), self.path_of('archive')
        document = self.get(archive).content
        for method, path, *body in (
            ('GET', 'uom/ManagedSystem?group=Foo'),
            ('GET', 'uom/LogicalPartition?group=Foo'),
            ('GET', f'{server}?group=Foo'),
            ('GET', f'{server}?group=ViosStorage,Foo'),
            ('GET', f'{self.path_of("novalink")}?group=Foo'),
            ('GET', f'{server}/VolumeGroup?group=Foo'),
            ('GET', f'{system}/VirtualSwitch?group=Foo'),
            ('POST', f'{archive}?group=Foo', document),
        ):
            with self.subTest(f'{method} {path}'):
                answer = self.ask(method, path, *body)
                self.assert_refusal(
                    answer, 'REST0026 Unknown extended attribute group .*Foo'
                )

    def test_groups_of_pypowervm_are_known(self):
        known = {
            value
            for name, value in vars(const.XAG).items()
            if not name.startswith('_')
        }
        self.assertLessEqual(known, set(GROUPS))
        for group in GROUPS:
            for path in ('uom/ManagedSystem', 'uom/LogicalPartition'):
                with self.subTest(f'{path} {group}'):
                    self.get(f'{path}?group={group}')


class EventQueryTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.emulator = base.start(self, event_wait=0)
        self.control = self.emulator.control
        self.adapter = base.adapter_for(self.emulator)
        self.addCleanup(base.forget, self.adapter.session)

    def types(self, path):
        answer = self.ask('GET', path)
        self.assertIn(answer.status, (200, 204), answer.text)
        if answer.status == 204:
            return []
        return [
            wire.child(document, 'EventType').text
            for document in answer.contents
        ]

    def test_events_without_application_id_are_of_the_session(self):
        self.assertEqual(['NEW_CLIENT'], self.types('uom/Event?group=None'))
        self.create()
        self.assertEqual(['ADD_URI'], self.types('uom/Event'))
        self.assertEqual([], self.types('uom/Event'))
        self.assertEqual(
            ['NEW_CLIENT'],
            [item.etype for item in event.Event.get(self.adapter, 'client')],
        )


_SWITCH = (
    '<VirtualSwitch xmlns="{}"><SwitchName>x</SwitchName></VirtualSwitch>'
)


class StrangeRequestTest(wire.WireTestCase):
    def switches(self):
        """Return the path of the feed of switches, and their names."""
        system = self.system()
        names = [
            switch.name
            for switch in network.VSwitch.get(self.adapter, parent=system)
        ]
        return f'uom/ManagedSystem/{system.uuid}/VirtualSwitch', names

    def test_document_of_another_namespace_is_refused(self):
        path, before = self.switches()
        for namespace in ('urn:x', content.WEB_NS):
            answer = self.ask(
                'PUT',
                path,
                _SWITCH.format(namespace),
                Content_Type=wire.media_type('VirtualSwitch'),
            )
            self.assertIn(answer.status, (400, 415))
        self.assertEqual(before, self.switches()[1])

    def test_head_is_refused_and_loses_no_event(self):
        path = 'uom/Event?QUEUE_APPLICATIONID=a'
        self.ask('GET', path)
        self.control.emit_event('CUSTOM_CLIENT_EVENT', 'kept')
        self.assertEqual(405, self.ask('HEAD', path).status)
        self.assertIn('kept', self.ask('GET', path).text)

    def test_if_match_with_star_names_every_revision(self):
        lpar = self.create()
        path = f'uom/LogicalPartition/{lpar.uuid}'
        self.assertEqual(204, self.ask('DELETE', path, If_Match='*').status)

    def test_partition_id_beyond_limit_is_refused(self):
        self.assert_refused(
            500, '65536 is not a PartitionID', self.create, id=65536
        )

    def test_slots_can_be_added_to_partition_without_slots(self):
        (lpar,) = (
            one
            for one in self.all_partitions()
            if not one.io_config.io_slots and one.state == 'not activated'
        )
        lpar.io_config.io_slots = [
            bp.IOSlot.bld(self.adapter, False, base.NVME)
        ]
        lpar.update()
        (slot,) = self.read(lpar.uuid).io_config.io_slots
        self.assertEqual(base.NVME, slot.drc_index)

    def all_partitions(self):
        """Read and return all logical partitions."""
        return logical_partition.LPAR.get(self.adapter)


class EndedSessionTest(wire.WireTestCase):
    def test_waiting_poll_ends_at_logoff(self):
        path = 'uom/Event?QUEUE_APPLICATIONID=a'
        self.ask('GET', path)
        answers = []
        poll = threading.Thread(
            target=lambda: answers.append(self.ask('GET', path).status)
        )
        poll.start()
        while self.control.journal_counts().get('GET Event.feed', 0) < 2:
            pass
        self.assertEqual(204, self.ask('DELETE', 'web/Logon').status)
        poll.join(timeout=5)
        self.assertFalse(poll.is_alive())


class StrangeWorldTest(base.EmulatorTestCase):
    def assert_world_refused(self, message, world):
        self.assertRaisesRegex(
            errors.WorldError, message, self.control.load_world, world
        )

    def test_number_that_is_none_is_refused(self):
        for value in (float('nan'), float('inf'), 1e308):
            world = worlds.default()
            (system,) = world['systems']
            vios = system['virtual_io_servers'][0]
            vios['volume_groups'][0]['capacity'] = value
            self.assert_world_refused('capacity.*no size', world)

    def test_capture_that_is_there_twice_is_refused(self):
        world = worlds.default()
        capture = {'capture': {'file': 'fake_vswitch_feed.txt'}}
        world['systems'][0]['virtual_switches'] = [capture, capture]
        self.assert_world_refused('more than once', world)

    def test_path_that_is_too_long_is_refused(self):
        world = {'systems': [{'capture': {'file': '/' + 'a' * 5000}}]}
        self.assert_world_refused('is not a capture', world)

    def test_refused_world_leaves_random_choices_as_they_were(self):
        other = base.start(self)
        self.assert_world_refused(
            'capture', {'systems': [{'capture': {'file': 'nothing.txt'}}]}
        )
        adapters = self.adapter, base.adapter_for(other)
        self.addCleanup(base.forget, adapters[1].session)
        uuids = {
            network.VSwitch.bld(adapter, 'made')
            .create(parent=managed_system.System.get(adapter)[0])
            .uuid
            for adapter in adapters
        }
        self.assertEqual(1, len(uuids))


class ParserTest(base.EmulatorTestCase):
    def test_documents_share_no_parser(self):
        self.assertIsNot(content.parser(), content.parser())
