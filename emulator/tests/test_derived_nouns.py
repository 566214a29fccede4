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

"""Nouns made of others, the management console, and empty feeds."""

import base64

from pypowervm import exceptions
from pypowervm.tasks import management_console as tasks
from pypowervm.wrappers import cluster
from pypowervm.wrappers import iocard
from pypowervm.wrappers import job
from pypowervm.wrappers import management_console
from pypowervm.wrappers import shared_proc_pool
from pypowervm.wrappers import storage as storage_wrappers
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import worlds

from . import base
from . import facts
from . import storage
from . import wire

SLOT = 'VirtualSlotNumber'


class ProcessorPoolTest(base.EmulatorTestCase):
    def pools(self):
        return shared_proc_pool.SharedProcPool.get(
            self.adapter, parent=self.system()
        )

    def test_system_has_default_pool_and_63_others(self):
        found = self.pools()
        self.assertEqual(list(range(64)), [pool.id for pool in found])
        self.assertEqual(
            ('DefaultPool', 'SharedPool01'), (found[0].name, found[1].name)
        )
        self.assertTrue(found[0].is_default)
        self.assertEqual(0, found[1].max_proc_units)
        self.assertEqual(64, len({pool.uuid for pool in found}))

    def test_pool_links_to_its_partitions_and_changes_with_them(self):
        before = self.pools()[0]
        self.assertIs(before, before.refresh())
        made = self.create()
        after = before.refresh()
        links = after.element.findall('AssignedPartitions/link')
        self.assertIn(made.uuid, ' '.join(link.get('href') for link in links))
        self.assertNotEqual(before.etag, after.etag)
        other = self.pools()[1]
        self.assertIsNone(other.element.find('AssignedPartitions'))


class SriovAdapterTest(wire.WireTestCase):
    def test_feed_has_adapters_of_system(self):
        path = f'uom/ManagedSystem/{self.system().uuid}'
        (found,) = self.get(f'{path}/SRIOVAdapter').contents
        shown = wire.child(
            self.get(path).content,
            'AssociatedSystemIOConfiguration/SRIOVAdapters/IOAdapterChoice/'
            'SRIOVAdapter',
        )
        for name in ('AdapterID', 'AdapterMode', 'PhysicalLocation'):
            self.assertEqual(
                wire.child(shown, name).text, wire.child(found, name).text
            )
        uuid = wire.child(found, 'Metadata/Atom/AtomID').text
        self.get(f'{path}/SRIOVAdapter/{uuid}')
        answer = self.ask('GET', f'{path}/SRIOVAdapter/{"0" * 8}')
        self.assert_refusal(answer, 'no SRIOVAdapter', status=404)


class ClientAdapterTest(storage.StorageTestCase, wire.WireTestCase):
    def feed(self, name, kind='VirtualSCSIClientAdapter'):
        answer = self.ask('GET', f'{self.path_of(name)}/{kind}')
        self.assertIn(answer.status, (200, 204), answer.text)
        return answer.contents if answer.status == 200 else []

    def test_partition_has_adapters_of_its_mappings(self):
        client, other = self.create(), self.create('vm2')
        self.assertEqual([], self.feed('vm1'))
        mapping = self.map(client, self.disk())
        # On the same adapters.
        vios = self.vios()
        vios.scsi_mappings.append(
            virtual_io_server.VSCSIMapping.bld_from_existing(
                vios.scsi_mappings[0], self.disk('disk2')
            )
        )
        vios.update()
        self.map(other, self.disk('disk3'))
        (found,) = self.feed('vm1')
        self.assertEqual(
            str(mapping.client_adapter.lpar_slot_num),
            wire.child(found, SLOT).text,
        )
        self.assertEqual(
            'disk1', wire.child(found, 'ServerAdapter/BackingDeviceName').text
        )
        uuid = wire.child(found, 'Metadata/Atom/AtomID').text
        path = f'VirtualSCSIClientAdapter/{uuid}'
        self.get(f'{self.path_of("vm1")}/{path}')
        self.assertEqual(
            404, self.ask('GET', f'{self.path_of("vm2")}/{path}').status
        )

    def test_captured_partition_has_fibre_channel_adapters(self):
        world = worlds.default()
        (system,) = world['systems']
        system.pop('network_bridges', None)
        file = 'fake_vios_ssp_npiv.txt'
        system['virtual_io_servers'] = [{'capture': {'file': file}}]
        system['slots'] = []
        mapping = next(
            node
            for name, root in wire.captured()
            if name == file
            for node in root.iter('{*}VirtualFibreChannelMapping')
            if wire.child(node, 'AssociatedLogicalPartition') is not None
        )
        link = wire.child(mapping, 'AssociatedLogicalPartition').get('href')
        system['partitions'][-1] = {
            'name': 'captured',
            'uuid': link.rpartition('/')[2],
            'memory': 1024,
            'processors': 1,
        }
        self.control.load_world(world)
        found = self.feed('captured', 'VirtualFibreChannelClientAdapter')
        self.assertIn(
            wire.child(mapping, f'ClientAdapter/{SLOT}').text,
            [wire.child(adapter, SLOT).text for adapter in found],
        )


class ProfileTest(wire.WireTestCase):
    KIND = 'LogicalPartitionProfile'

    def setUp(self):
        super().setUp()
        world = worlds.default()
        (system,) = world['systems']
        for one in (*system['partitions'], *system['virtual_io_servers']):
            if one['name'] in ('archive', 'vios1'):
                one['profile'] = 'usual'
        system['partitions'].append(
            {'capture': {'file': 'lpar.txt', 'entry': 0}, 'uuid': 'random'}
        )
        self.control.load_world(world)

    def feed(self, name):
        answer = self.ask('GET', f'{self.path_of(name)}/{self.KIND}')
        self.assertIn(answer.status, (200, 204), answer.text)
        return answer.contents if answer.status == 200 else []

    def linked(self, name):
        """Return what the link of a partition leads to."""
        shown = self.get(self.path_of(name)).content
        link = wire.child(shown, 'AssociatedPartitionProfile').get('href')
        return self.get(link.partition('/rest/api/')[2]).content

    def value(self, element, path):
        return wire.child(element, path).text

    def test_partition_links_to_its_profile(self):
        for name in ('archive', 'vios1'):
            with self.subTest(name):
                (listed,) = self.feed(name)
                found = self.linked(name)
                self.assertEqual(
                    self.value(listed, 'Metadata/Atom/AtomID'),
                    self.value(found, 'Metadata/Atom/AtomID'),
                )
                self.assertEqual('usual', self.value(found, 'ProfileName'))
                self.assertEqual(
                    'REG_LPAR_PROFILE_TYPE', self.value(found, 'ProfileType')
                )
                shown = self.get(self.path_of(name)).content
                self.assertEqual('On', self.value(shown, 'CurrentProfileSync'))
        self.assertEqual([], self.feed('database'))

    def test_profile_follows_partition(self):
        path = 'ProfileMemory/DesiredMemory'
        before = self.linked('archive')
        self.assertEqual('4096', self.value(before, path))
        self.assertEqual(
            '0.5',
            self.value(
                before,
                'ProcessorAttributes/SharedProcessorConfiguration/'
                'DesiredProcessingUnits',
            ),
        )
        self.assertEqual(
            'false',
            self.value(before, 'ProcessorAttributes/HasDedicatedProcessors'),
        )
        partition = self.read(self.path_of('archive').rpartition('/')[2])
        partition.mem_config.desired = 2048
        partition.mem_config.min = 1024
        partition.update()
        self.assertEqual('2048', self.value(self.linked('archive'), path))

    def test_captured_partition_has_the_profile_that_it_links_to(self):
        (captured, *_) = (
            wire.contents(root)
            for name, root in wire.captured()
            if name == 'lpar.txt'
        )
        link = wire.child(captured[0], 'AssociatedPartitionProfile')
        name = wire.child(captured[0], 'PartitionName').text
        (found,) = self.feed(name)
        self.assertEqual(
            link.get('href').rpartition('/')[2],
            self.value(found, 'Metadata/Atom/AtomID'),
        )
        self.assertEqual('default_profile', self.value(found, 'ProfileName'))

    def test_client_cannot_change_profile(self):
        path = self.path_of('archive')
        (found,) = self.feed('archive')
        uuid = self.value(found, 'Metadata/Atom/AtomID')
        for method, below in (('PUT', ''), ('POST', uuid), ('DELETE', uuid)):
            answer = self.ask(
                method, f'{path}/{self.KIND}/{below}'.rstrip('/')
            )
            self.assertEqual(405, answer.status)

    def test_partition_starts_with_its_own_profile_only(self):
        partition = self.read(self.path_of('archive').rpartition('/')[2])
        uuid = self.value(self.linked('archive'), 'Metadata/Atom/AtomID')
        other = self.value(self.linked('vios1'), 'Metadata/Atom/AtomID')
        for wanted in (other, 'usual'):
            with self.assertRaisesRegex(
                exceptions.JobRequestFailed, 'archive has no profile'
            ):
                self.start(partition, wanted)
            self.assertEqual('not activated', partition.refresh().state)
        self.start(partition, uuid)
        self.assertEqual('running', partition.refresh().state)

    def start(self, partition, profile):
        request = job.Job.wrap(
            self.adapter.read(
                *('LogicalPartition', partition.uuid),
                suffix_type='do',
                suffix_parm='PowerOn',
            )
        )
        parameter = request.create_job_parameter(self.KIND, profile)
        request.run_job(partition.uuid, job_parms=[parameter])


KEY = 'ssh-rsa AAAAB3NzaC1yc2E= nova@compute1'


class ConsoleTest(wire.WireTestCase):
    def read(self):
        (found,) = management_console.ManagementConsole.get(self.adapter)
        return found

    def test_console_is_that_of_the_system(self):
        found = self.read()
        self.assertEqual('localhost', found.name)
        self.assertEqual(self.system().mtms.mtms_str, found.mtms.mtms_str)
        _, key, name = tasks.get_public_key(self.adapter).split()
        self.assertIn(b'ssh-rsa', base64.b64decode(key))
        self.assertEqual('localhost', name)
        self.assertEqual((), tasks.get_authorized_keys(self.adapter))

    def test_key_is_added_once(self):
        for key in (KEY, 'ssh-ed25519 AAAA', KEY):
            tasks.add_authorized_key(self.adapter, key)
        self.assertEqual(
            (KEY, 'ssh-ed25519 AAAA'), tasks.get_authorized_keys(self.adapter)
        )

    def test_update_changes_nothing_but_keys(self):
        found = self.read()
        before = facts.read_properties(found)
        found.ssh_authorized_keys = [KEY]
        found.set_parm_value('ManagementConsoleName', 'other')
        found.set_parm_value('PublicSSHKey', KEY)
        found.update()
        after = facts.read_properties(self.read())
        self.assertEqual([KEY], list(after.pop('ssh_authorized_keys')))
        before.pop('ssh_authorized_keys')
        self.assertEqual(before, after)

    def test_update_refuses_what_is_no_key(self):
        for key in ('', 'ssh-rsa', 'ssh-rsa AAAA\nssh-rsa BBBB', 'a\tb'):
            with self.subTest(key):
                found = self.read()
                found.ssh_authorized_keys = [KEY, key]
                self.assert_refused(500, 'not a key', found.update)
        self.assertEqual((), tasks.get_authorized_keys(self.adapter))

    def test_console_cannot_be_created_or_deleted(self):
        path = f'uom/ManagementConsole/{self.read().uuid}'
        self.assertEqual(405, self.ask('DELETE', path).status)
        self.assertEqual(405, self.ask('PUT', 'uom/ManagementConsole').status)

    def test_console_of_world_has_its_name(self):
        world = worlds.default()
        world['management_consoles'] = [{'name': 'novalink1'}]
        self.control.load_world(world)
        self.assertEqual('novalink1', self.read().name)

    def test_captured_console_is_served_and_takes_a_key(self):
        world = worlds.default()
        for file in ('managementconsole.txt', 'managementconsole_ssh.txt'):
            with self.subTest(file):
                world['management_consoles'] = [{'capture': {'file': file}}]
                self.control.load_world(world)
                (captured,) = (
                    wire.contents(root)[0]
                    for name, root in wire.captured()
                    if name == file
                )
                (served,) = self.get('uom/ManagementConsole').contents
                self.assertEqual(wire.names(captured), wire.names(served))
                before = tasks.get_authorized_keys(self.adapter)
                tasks.add_authorized_key(self.adapter, KEY)
                self.assertEqual(
                    (*before, KEY), tasks.get_authorized_keys(self.adapter)
                )


NOBODY = '00000000-0000-0000-0000-000000000000'
ROOTS = ('Cluster', 'Group', 'SharedStoragePool', 'Tier')
OF_PARTITION = (
    'LogicalPartitionProfile',
    'VirtualNICDedicated',
    'SRIOVEthernetLogicalPort',
)


class EmptyFeedTest(wire.WireTestCase):
    def assert_empty(self, path):
        """Assert that a feed is there and has nothing in it."""
        for query in ('', '?group=None'):
            with self.subTest(path + query):
                answer = self.ask('GET', path + query)
                self.assertEqual(204, answer.status, answer.text)
                self.assertEqual('', answer.text)

    def test_feed_at_root_is_empty(self):
        for kind in ROOTS:
            self.assert_empty(f'uom/{kind}')

    def test_feed_of_partition_is_empty(self):
        for kind in OF_PARTITION:
            self.assert_empty(f'{self.path_of("database")}/{kind}')

    def test_feed_of_virtual_io_server_is_empty(self):
        for kind in ('LogicalPartitionProfile', 'SRIOVEthernetLogicalPort'):
            self.assert_empty(f'{self.path_of("vios1")}/{kind}')

    def test_feed_of_system_is_empty(self):
        for kind in ('HostEthernetAdapter', 'SharedMemoryPool'):
            self.assert_empty(f'uom/ManagedSystem/{self.system().uuid}/{kind}')

    def test_member_of_empty_feed_is_not_found(self):
        for path in (
            *(f'uom/{kind}' for kind in ROOTS),
            *(f'{self.path_of("database")}/{kind}' for kind in OF_PARTITION),
        ):
            with self.subTest(path):
                answer = self.ask('GET', f'{path}/{NOBODY}')
                self.assert_refusal(answer, 'REST029B ', status=404)

    def test_feed_of_unknown_partition_is_not_found(self):
        for kind in OF_PARTITION:
            with self.subTest(kind):
                answer = self.ask(
                    'GET', f'uom/LogicalPartition/{NOBODY}/{kind}'
                )
                self.assert_refusal(answer, 'REST029B ', status=404)

    def test_journal_labels_empty_feeds(self):
        self.control.clear_journal()
        self.ask('GET', 'uom/Cluster')
        (record,) = self.control.journal()
        self.assertEqual('Cluster.feed', record['label'])


class WrapperTest(wire.WireTestCase):
    def test_wrappers_find_nothing(self):
        for wrapper in (cluster.Cluster, storage_wrappers.SSP):
            with self.subTest(wrapper.schema_type):
                self.assertEqual([], wrapper.get(self.adapter))

    def test_wrappers_find_nothing_in_partition(self):
        created = self.create()
        for wrapper in (iocard.VNIC, iocard.SRIOVEthLPort):
            with self.subTest(wrapper.schema_type):
                self.assertEqual([], wrapper.get(self.adapter, parent=created))
