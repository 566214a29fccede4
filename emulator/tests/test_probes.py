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

"""What a fuzzer found is refused, and leaves the host as it was."""

import threading

from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network

from powervm_emulator import worlds
from powervm_emulator.core import content
from powervm_emulator.core import errors

from . import base
from . import wire

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
