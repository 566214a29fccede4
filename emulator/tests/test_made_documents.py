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

"""Documents that the emulator makes have the elements that hosts have."""

import collections
import copy
import functools
import ipaddress
import itertools
import time
from typing import ClassVar

from lxml import etree
from pypowervm.tasks import cna
from pypowervm.tasks import power
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import virtual_io_server as vios

from . import base
from . import storage
from . import wire

UNITS = [
    'DesiredProcessingUnits',
    'DesiredVirtualProcessors',
    'MaximumProcessingUnits',
    'MaximumVirtualProcessors',
    'MinimumProcessingUnits',
    'MinimumVirtualProcessors',
    'SharedProcessorPoolID',
    'UncappedWeight',
]
SLOTS = [
    'MaximumVirtualIOSlots',
    'ProfileIOSlots',
    'CurrentMaximumVirtualIOSlots',
]
IO = 'PartitionIOConfiguration'
UNMARKED = {'link', 'Metadata', 'Atom', 'AtomID', 'AtomCreated'}


@functools.cache
def captured_marks():
    """Return the values of kb and kxe by name of parent and element."""
    found = collections.defaultdict(set)
    for _file, root in wire.captured():
        for content in wire.contents(root):
            for node in content.iterdescendants(etree.Element):
                key = wire.name(node.getparent()), wire.name(node)
                if node.get('kb'):
                    found[key].add((node.get('kb'), node.get('kxe')))
    return found


@functools.cache
def captured_pairs():
    """Return pairs of siblings in captured order, with their parent.

    Some captures have been edited by hand; wrappers know the order, too.
    """
    found = set()
    for wrapper in (lpar.LPAR, vios.VIOS):
        for pair in itertools.combinations(wrapper._child_order, 2):
            found.add((wrapper.schema_type, *pair))
    for _file, root in wire.captured():
        for node in root.iter(etree.Element):
            names = wire.names(node)
            for position, first in enumerate(names):
                for second in names[position + 1 :]:
                    found.add((wire.name(node), first, second))
    return found


class ElementOrderTest(wire.WireTestCase):
    def test_shared_processors_alternate_units_and_processors(self):
        """Also once they have been changed."""
        self.create()
        changed = self.create('vm2')
        changed.proc_config.shared_proc_cfg.desired_virtual = 2
        changed.proc_config.shared_proc_cfg.desired_units = 0.5
        changed.update()
        path = 'PartitionProcessorConfiguration/SharedProcessorConfiguration'
        for name in ('novalink', 'vios1', 'vm1', 'vm2'):
            with self.subTest(name):
                document = self.get(self.path_of(name)).content
                found = wire.child(document, path)
                self.assertEqual(UNITS, wire.names(found)[1:])

    def test_current_virtual_slots_follow_profile_slots(self):
        self.create(slots=base.GPUS[:1])
        self.create('vm2')
        self.control.set_owner(f'{base.GPUS[1]:08x}', 'vm2')
        for name in ('vm1', 'vm2', 'vios1', 'database', 'archive'):
            with self.subTest(name):
                document = self.get(self.path_of(name)).content
                found = wire.names(wire.child(document, IO))
                expected = [item for item in SLOTS if item in found]
                self.assertEqual(expected, found[1:])

    def test_network_adapters_follow_managed_system(self):
        created = self.create()
        cna.crt_cna(self.adapter, None, created.uuid, 7)
        found = wire.names(self.get(self.path_of('vm1')).content)
        position = found.index('ClientNetworkAdapters')
        self.assertEqual('AssociatedManagedSystem', found[position - 1])
        self.assertEqual('MACAddressPrefix', found[position + 1])


class CapturedOrderTest(storage.StorageTestCase, wire.WireTestCase):
    def test_siblings_are_in_captured_order(self):
        created = self.create(slots=base.GPUS[:1])
        cna.crt_cna(self.adapter, None, created.uuid, 7)
        answer = self.ask(
            'PUT',
            f'{self.path_of("vios1")}/ClientNetworkAdapter',
            f'<ClientNetworkAdapter xmlns="{wire.UOM}" schemaVersion="V1_0">'
            '<UseNextAvailableSlotID>true</UseNextAvailableSlotID>'
            '<PortVLANID>7</PortVLANID></ClientNetworkAdapter>',
        )
        self.assertEqual(200, answer.status, answer.text)
        self.map(created, self.disk())
        system = f'uom/ManagedSystem/{self.system().uuid}'
        server = self.path_of('vios1')
        paths = (
            system,
            self.path_of('vm1'),
            server,
            f'{self.path_of("vm1")}/ClientNetworkAdapter',
            f'{server}/VolumeGroup',
            f'{system}/NetworkBridge',
            f'{system}/VirtualSwitch',
        )
        known, wrong = captured_pairs(), set()
        for path in paths:
            for document in self.get(path).contents:
                for node in document.iter(etree.Element):
                    parent, names = wire.name(node), wire.names(node)
                    for pair in itertools.combinations(names, 2):
                        if (parent, *pair) in known:
                            continue
                        if (parent, *reversed(pair)) in known:
                            wrong.add((parent, *pair))
        self.assertFalse(wrong)


class MetadataTest(storage.StorageTestCase, wire.WireTestCase):
    def assert_single(self, document):
        """Assert that Metadata come once, first, and with an Atom only."""
        for node in document.iter(etree.Element):
            found = wire.names(node)
            if 'Metadata' in found:
                self.assertEqual(1, found.count('Metadata'), node)
                self.assertEqual('Metadata', found[0], node)
        for node in document.iter('{*}Metadata'):
            self.assertEqual(['Atom'], wire.names(node))
            for inner in wire.child(node, 'Atom'):
                self.assertIn(wire.name(inner), ('AtomID', 'AtomCreated'))

    def send_bare(self, method, path, document):
        """Send a document without its Metadata; check the answer's."""
        for node in list(document.iter('{*}Metadata')):
            node.getparent().remove(node)
        answer = self.ask(method, path, document)
        self.assertEqual(200, answer.status, answer.text)
        self.assert_single(answer.content)

    def test_created_partition_has_metadata_once(self):
        document = self.build().entry.element.element
        document = etree.fromstring(etree.tostring(document))
        self.send_bare('PUT', 'uom/LogicalPartition', document)
        self.assert_single(self.get(self.path_of('vm1')).content)

    def test_updated_resource_has_metadata_once(self):
        created = self.create(slots=base.GPUS[:2])
        self.disk()
        made = cna.crt_cna(self.adapter, None, created.uuid, 7)
        lpar_path, group = self.path_of('vm1'), self.group().uuid.lower()
        for path in (
            lpar_path,
            f'{self.path_of("vios1")}/VolumeGroup/{group}',
            f'{lpar_path}/ClientNetworkAdapter/{made.uuid}',
        ):
            with self.subTest(path):
                self.send_bare('POST', path, self.get(path).content)
                self.assert_single(self.get(path).content)


class EventElementTest(wire.WireTestCase):
    def entries(self):
        query = (
            'QUEUE_CLIENTKEY_METHOD=USE_APPLICATIONID'
            '&QUEUE_APPLICATIONID=client&group=None'
        )
        return list(self.get(f'uom/Event?{query}').root.iter('{*}entry'))

    def test_event_has_atom_id_of_its_entry_and_entity_tag(self):
        self.entries()
        self.create()
        for entry in self.entries():
            found = wire.child(entry, 'content/Event/Metadata/Atom/AtomID')
            self.assertEqual(wire.child(entry, 'id').text, found.text)
            self.assertRegex(wire.child(entry, 'etag').text, r'\A-?\d+\Z')


class JobElementTest(wire.WireTestCase):
    def run_job(self):
        """Power a partition on with a job; return the answer's element."""
        self.create()
        path = f'{self.path_of("vm1")}/do/PowerOn'
        request = copy.deepcopy(self.get(path).content)
        media_type = wire.media_type('JobRequest', 'web')
        answer = self.ask('PUT', path, request, Content_Type=media_type)
        self.assertEqual(200, answer.status, answer.text)
        return answer.content

    def test_job_has_captured_elements_and_tells_its_times(self):
        before = int(time.time() * 1000) - 1000
        job = self.run_job()
        expected = (
            'Metadata RequestURL TargetUuid JobID TimeStarted TimeCompleted '
            'Status JobRequestInstance Progress Results'
        )
        self.assertEqual(expected.split(), wire.names(job))
        times = [
            int(wire.child(job, name).text)
            for name in ('TimeStarted', 'TimeCompleted')
        ]
        after = int(time.time() * 1000) + 1000
        self.assertEqual(
            sorted([before, *times, after]), [before, *times, after]
        )

    def test_job_that_has_not_started_has_no_times(self):
        self.control.set_job_mode('manual')
        job = self.run_job()
        for name, text in (
            ('Status', 'NOT_STARTED'),
            ('TimeStarted', '0'),
            ('TimeCompleted', '0'),
        ):
            self.assertEqual(text, wire.child(job, name).text)
        self.assertEqual(['Metadata'], wire.names(wire.child(job, 'Progress')))


class DescribedSystemTest(wire.WireTestCase):
    world: ClassVar = {
        'systems': [
            {
                'name': 'described',
                'memory': {'configurable': 65536, 'hypervisor': 4096},
                'processors': {'configurable': 16},
                'virtual_io_servers': [
                    {
                        'name': 'vios1',
                        'state': 'running',
                        'rmc_state': 'active',
                        'memory': 4096,
                        'processors': 2,
                        'volume_groups': [
                            {'name': 'rootvg', 'capacity': 100},
                            {'name': 'other', 'capacity': 50},
                        ],
                    }
                ],
                'partitions': [
                    {
                        'name': 'novalink',
                        'state': 'running',
                        'rmc_state': 'active',
                        'memory': 2560,
                        'processors': 1,
                        'management': True,
                    }
                ],
            }
        ]
    }

    def assert_links(self, count, section, kind):
        """Assert that the system links its partitions of a kind."""
        (system,) = self.control.state()['systems']
        expected = {
            f'/rest/api/uom/ManagedSystem/{system["uuid"]}/{kind}/'
            f'{partition["uuid"]}'
            for partition in system['partitions']
            if partition['kind'] == kind
        }
        (document,) = self.get('uom/ManagedSystem?group=None').contents
        links = wire.child(document, section).iterchildren('{*}link')
        found = {
            base.without_host(link.get('href')).partition('?')[0]
            for link in links
        }
        self.assertEqual(expected, found)
        self.assertEqual(count, len(found))

    def test_system_links_its_partitions_while_they_are_there(self):
        self.assert_links(1, 'AssociatedVirtualIOServers', 'VirtualIOServer')
        lpars = ('AssociatedLogicalPartitions', 'LogicalPartition')
        created = self.create()
        self.assert_links(2, *lpars)
        created.delete()
        self.assert_links(1, *lpars)

    def test_vios_has_physical_volumes_of_its_groups(self):
        path = self.path_of('vios1')
        document = self.get(f'{path}?group=ViosStorage').content
        volumes = wire.child(document, 'PhysicalVolumes')
        self.assertEqual('ViosStorage', volumes.get('group'))
        served = set()
        for volume in volumes.iterchildren('{*}PhysicalVolume'):
            served.add(wire.child(volume, 'VolumeName').text)
            expected = (
                'UniqueDeviceID AvailableForUsage VolumeCapacity VolumeName '
                'VolumeState'
            )
            self.assertLessEqual(
                set(expected.split()), set(wire.names(volume))
            )
        self.assertEqual(2, len(served))
        groups = self.get(f'{path}/VolumeGroup?group=None').contents
        used = {
            found.text
            for group in groups
            for found in wire.child(group, 'PhysicalVolumes').iter(
                '{*}VolumeName'
            )
        }
        self.assertEqual(served, used)


class MarkTest(storage.StorageTestCase, wire.WireTestCase):
    def assert_marked(self, document):
        """Assert that all elements have kb and kxe as in captures."""
        known = captured_marks()
        wrong = set()
        for node in document.iterdescendants(etree.Element):
            key = wire.name(node.getparent()), wire.name(node)
            if key[1] in UNMARKED or (len(node) and key not in known):
                continue
            marks = node.get('kb'), node.get('kxe')
            if None in marks or marks not in known.get(key, {marks}):
                wrong.add((*key, marks))
        self.assertFalse(wrong)

    def test_elements_are_marked_as_captured(self):
        created = self.create(slots=base.GPUS[:1])
        cna.crt_cna(self.adapter, None, created.uuid, 7)
        self.disk()
        self.repository()
        system = f'uom/ManagedSystem/{self.system().uuid}'
        vm, server = self.path_of('vm1'), self.path_of('vios1')
        for path in (
            vm,
            self.path_of('novalink'),
            server,
            f'{vm}/do/PowerOn',
            f'uom/ManagedSystem/{"0" * 8}',
        ):
            with self.subTest(path):
                self.assert_marked(self.ask('GET', path).content)
        for path in (
            'uom/ManagedSystem?group=None',
            f'{server}/VolumeGroup?group=None',
            f'{vm}/ClientNetworkAdapter?group=None',
            f'{system}/VirtualSwitch?group=None',
            f'{system}/VirtualNetwork?group=None',
            f'{system}/NetworkBridge?group=None',
            'uom/Event?QUEUE_APPLICATIONID=client&group=None',
        ):
            documents = self.get(path).contents
            self.assertTrue(documents, path)
            for document in documents:
                with self.subTest(path):
                    self.assert_marked(document)


class AddressTest(wire.WireTestCase):
    def address(self, name):
        document = self.get(self.path_of(name)).content
        found = wire.child(document, 'ResourceMonitoringIPAddress')
        if found is None:
            return None
        state = wire.name(found.getprevious())
        self.assertEqual('ResourceMonitoringControlState', state)
        return str(ipaddress.IPv4Address(found.text))

    def test_active_partition_has_address_with_rmc_only(self):
        found = {
            self.address(name) for name in ('novalink', 'vios1', 'database')
        }
        self.assertEqual(3, len(found - {None}))
        power.power_on(self.create(), None)
        self.assertIsNone(self.address('vm1'))
        self.control.set_partition('vm1', rmc_state='active')
        self.assertTrue(self.address('vm1'))

    def test_address_is_kept_while_partition_exists(self):
        first = self.address('database')
        self.control.set_partition('database', rmc_state='inactive')
        self.control.set_partition('database', rmc_state='active')
        self.assertEqual(first, self.address('database'))
