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

"""What hosts refuse, with the statuses and codes that they have sent."""

from lxml import etree
from pypowervm import util
from pypowervm.tasks import power
from pypowervm.wrappers import virtual_io_server

from . import storage
from . import wire

NOBODY = '00000013-abcd-4ef0-8abc-000000000013'
INVALID = 'INVALID_URL'
UNKNOWN = 'The supplied URI does not identify a known resource.'
INTERNAL = 'Unknown internal error.'
MEMORY = 'PartitionMemoryConfiguration'
PROCESSORS = 'PartitionProcessorConfiguration'
BOUNDS = ('Minimum', 'Desired', 'Maximum')


class RecordedRefusalTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.create()
        self.path = self.path_of('vm1')

    def assert_recorded(self, answer, status, message, reason):
        """Assert what a refusal has that clients look at."""
        self.assert_refusal(answer, message, status)
        for name, value in (
            ('HTTPStatus', str(status)),
            ('ReasonCode', reason),
        ):
            self.assertEqual(value, wire.child(answer.content, name).text)

    def test_reading_what_is_not_there_is_refused(self):
        missing = f'uom/LogicalPartition/{NOBODY}'
        for status, message, reason, path in (
            (404, '^REST029B ', UNKNOWN, missing),
            (404, '^REST029B ', UNKNOWN, f'{missing}/quick/PartitionState'),
            (404, '^REST0003 ', INVALID, f'{self.path}/quick/All'),
            (404, '^REST0005 ', UNKNOWN, 'uom/jobs/1787837921270'),
            (400, '^REST000B .*REST000E ', INVALID, f'uom/jobs/{NOBODY}'),
            (400, '^REST000B .*REST000E ', INVALID, 'uom/Job'),
            (400, '^REST000B ', INVALID, 'uom/schema/LogicalPartition.xsd'),
        ):
            with self.subTest(path):
                answer = self.ask('GET', path, Accept='*/*')
                self.assert_recorded(answer, status, message, reason)

    def test_search_that_cannot_be_parsed_is_refused(self):
        search = 'uom/LogicalPartition/search/(PartitionState=='
        answer = self.ask('GET', f'{search}not%20activated)')
        self.assert_recorded(answer, 500, 'is not a search', INTERNAL)
        for value in ('running', "'running'"):
            self.get(f'{search}{value})')
        found = self.get(f"{search}'not%20activated')").contents
        self.assertIn(
            'vm1', [wire.child(one, 'PartitionName').text for one in found]
        )

    def test_values_that_a_host_refuses_are_internal_errors(self):
        for code, path, value in (
            ('REST0126 .*HSCL05DE', 'PartitionName', 'database'),
            ('REST0264', f'{MEMORY}/DesiredMemory', '65536'),
        ):
            with self.subTest(code):
                document = self.get(self.path).content
                wire.child(document, path).text = value
                answer = self.ask('POST', self.path, document)
                self.assert_recorded(answer, 500, f'^{code}', INTERNAL)

    def test_server_among_logical_partitions_is_refused(self):
        document = etree.fromstring(
            self.build('vm2').entry.element.toxmlstring()
        )
        wire.child(document, 'PartitionType').text = 'Virtual IO Server'
        answer = self.ask('PUT', 'uom/LogicalPartition', document)
        self.assert_recorded(answer, 500, '^REST0140 ', INTERNAL)

    def test_failed_job_has_return_code(self):
        path = f'{self.path}/do/PowerOff'
        answer = self.ask(
            'PUT',
            path,
            self.get(path).content,
            Content_Type=wire.media_type('JobRequest', 'web'),
        )
        self.assertEqual(
            'COMPLETED_WITH_ERROR', wire.child(answer.content, 'Status').text
        )
        results = wire.child(answer.content, 'Results').iter('{*}JobParameter')
        found = {
            wire.child(one, 'ParameterName').text: wire.child(
                one, 'ParameterValue'
            ).text
            for one in results
        }
        self.assertEqual('1', found['returnCode'])
        self.assertRegex(found['result'], '^HSCL1558 ')


class NewPartitionTest(wire.WireTestCase):
    """What a document of a new partition must have, and what it need not."""

    def new(self, remove=(), **options):
        """Return a new partition's document without some elements."""
        built = self.build('vm2', **options).entry.element.toxmlstring()
        document = etree.fromstring(built)
        for path in remove:
            found = wire.child(document, path)
            found.getparent().remove(found)
        return document

    def put(self, document):
        return self.ask('PUT', 'uom/LogicalPartition', document)

    def test_section_without_schema_version_is_refused(self):
        document = self.new()
        for name in (PROCESSORS, MEMORY):
            section = wire.child(document, name)
            version = section.attrib.pop('schemaVersion')
            answer = self.put(document)
            self.assert_refusal(answer, f'^REST0001 .*{name}.*schemaVersion')
            section.set('schemaVersion', version)
        self.assertEqual(200, self.put(document).status)

    def test_missing_attributes_of_processors_are_named(self):
        shared = f'{PROCESSORS}/SharedProcessorConfiguration'
        for missing, path, options in (
            ('sharing_mode', 'SharingMode', {'dedicated_proc': 'true'}),
            ('proc_mode', 'HasDedicatedProcessors', {}),
        ):
            with self.subTest(missing):
                document = self.new([f'{PROCESSORS}/{path}'], **options)
                answer = self.put(document)
                self.assert_refusal(answer, f'^REST0126 .* {missing}', 500)
        units = [f'{shared}/{one}ProcessingUnits' for one in BOUNDS]
        answer = self.put(
            self.new([*units, f'{shared}/MinimumVirtualProcessors'])
        )
        self.assert_refusal(
            answer,
            'min_procs, min_proc_units, desired_proc_units, max_proc_units',
            500,
        )

    def test_partition_without_processors_gets_one_dedicated(self):
        answer = self.put(self.new([PROCESSORS]))
        self.assertEqual(200, answer.status, answer.text[:2000])
        found = self.read(self.partition('vm2')['uuid']).proc_config
        self.assertTrue(found.has_dedicated)
        self.assertEqual('sre idle proces', found.sharing_mode)
        amounts = found.dedicated_proc_cfg
        self.assertEqual(
            (1, 1, 1), (amounts.min, amounts.desired, amounts.max)
        )


# Without ~, which pypowervm replaces although it says that it is legal.
ASCII = ''.join(map(chr, range(0x20, 0x7E)))
SLOTS = 'PartitionIOConfiguration/MaximumVirtualIOSlots'


class PlatformRulesTest(storage.StorageTestCase, wire.WireTestCase):
    def change(self, path, value):
        """Post a partition with another value; return the answer."""
        where = self.path_of('vm1')
        document = self.get(where).content
        wire.child(document, path).text = value
        return self.ask('POST', where, document)

    def test_names_have_characters_that_pypowervm_knows(self):
        made = self.create()
        for character in ASCII + 'ä¿':
            name = f'a{character}b'
            with self.subTest(name):
                made = self.read(made.uuid)
                made.name = name
                if util.sanitize_partition_name_for_api(name) == name:
                    self.assertEqual(name, made.update().name)
                else:
                    self.assert_refused(500, 'partition name', made.update)

    def test_id_is_within_partitions_of_system(self):
        system = self.get('uom/ManagedSystem').content
        most = wire.child(system, 'MaximumPartitions')
        last = 65535 if most is None else int(most.text)
        self.create('last', id=last)
        self.assert_refused(
            500, f'these are 1 to {last}', self.create, id=last + 1
        )

    def test_virtual_slots_are_within_bounds_of_pypowervm(self):
        self.create()
        for value in ('0', '1', '65535', '100000'):
            with self.subTest(value):
                answer = self.change(SLOTS, value)
                self.assert_refusal(answer, 'these are 2 to 65534', 500)
        for value in ('2', '65534'):
            self.assertEqual(200, self.change(SLOTS, value).status)

    def test_partition_without_virtual_slots_gets_six(self):
        built = self.build()
        section = built.io_config.element
        section.remove(section.find('MaximumVirtualIOSlots'))
        self.assertEqual(6, built.create().io_config.max_virtual_slots)

    def test_disk_has_name_of_no_device(self):
        names = {pv.name for pv in self.vios(['ViosStorage']).phys_vols}
        for name in (*sorted(names)[:1], 'rootvg', 'image_pool'):
            with self.subTest(name):
                self.assert_refused(500, 'by a device', self.disk, name)

    def test_new_disk_needs_running_server(self):
        self.control.set_partition('vios1', state='not activated')
        self.assert_refused(500, 'is not running', self.disk)
        self.control.set_partition('vios1', state='running')
        self.disk()

    def test_server_with_disk_of_running_client_is_not_deleted(self):
        client = self.create()
        self.map(client, self.disk())
        power.power_on(client, None)
        self.control.set_partition(
            'vios1', state='not activated', rmc_state='inactive'
        )
        server = virtual_io_server.VIOS.get(self.adapter)[0]
        self.assert_refused(500, "'vm1' is active", server.delete)
        power.power_off(self.read(client.uuid), None, force_immediate=True)
        server.delete()
