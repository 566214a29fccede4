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

"""Live migration between two hosts of a site, through pypowervm's tasks."""

import base64
import contextlib
import io
import json
import time
from concurrent import futures

from pypowervm import const
from pypowervm import exceptions
from pypowervm.tasks import hdisk
from pypowervm.tasks import management_console
from pypowervm.tasks import migration
from pypowervm.tasks import power
from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as storage_tasks
from pypowervm.tasks import vfc_mapper
from pypowervm.tasks import vopt
from pypowervm.wrappers import job
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import app
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.managed_system import model as system_module
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.state import hosts

from . import san
from . import sites

Partition = partition_module.Partition
System = system_module.System

ADDRESS = '192.0.2.2'
VLAN = 100
SIZE = {'memory': 2048, 'processors': 1}


def world(number):
    """Return the world of a host with a bridge and a guest's network."""
    made = sites.world(number)
    (system,) = made['systems']
    system['network_bridges'] = [{'vios': 'vios1', 'pvid': 1, 'vlans': [VLAN]}]
    del system['partitions'][1:]
    if number == 1:
        system['partitions'].append(
            {
                'name': 'vm',
                'id': 9,
                **SIZE,
                'state': 'running',
                'rmc_state': 'active',
                'uptime': 1000,
                'adapters': [{'vlan': VLAN}],
            }
        )
    return made


class MigrationTestCase(sites.SiteTestCase):
    """The first host has a partition with a logical unit, by two servers."""

    @staticmethod
    def worlds():
        return [world(1), world(2)]

    def setUp(self):
        super().setUp()
        # As if it had booted, whereupon its system is known.
        self.control1.set_partition('vm', rmc_state='active')
        self.unit = self.client1.image(data=b'image')
        self.vm = self.read(self.client1)
        self.client1.map(self.vm, self.unit, lua='0x8500000000000000')
        self.client1.map(self.vm, self.unit, 'vios2')
        self.authorize()
        self.start = [one.state()['systems'] for one in self.controls]

    def authorize(self):
        """Let the first host log on to the second one."""
        key = management_console.get_public_key(self.client1.adapter)
        management_console.add_authorized_key(self.client2.adapter, key)

    def read(self, client):
        """Read and return the partition of a host, None without one."""
        found = lpar.LPAR.search(client.adapter, name='vm')
        return found[0] if found else None

    def migrate(self, **options):
        """Migrate the partition to the second host."""
        options = {'tgt_mgmt_svr': ADDRESS, 'tgt_mgmt_usr': 'wlp'} | options
        migration.migrate_lpar(self.vm, 'host2', **options)

    def adapters(self, client):
        """Read and return the adapters of the partition of a host."""
        return [
            (one.mac, one.slot, one.pvid)
            for one in network.CNA.get(client.adapter, parent=self.vm)
        ]

    def disks(self, client):
        """Return slots, addresses and servers of the partition's disks."""
        return {
            (one.client_adapter.lpar_slot_num, one.target_dev.lua): (
                one.backing_storage.udid,
                vios,
            )
            for vios in ('vios1', 'vios2')
            for one in client.vios(vios).scsi_mappings
            if one.client_lpar_href and self.vm.uuid in one.client_lpar_href
        }


class MoveTest(MigrationTestCase):
    def test_partition_moves_with_all_it_has(self):
        before = self.disks(self.client1), self.adapters(self.client1)
        slots = sorted(slot for slot, _ in before[0])
        mappings = [f'{slots[0]}/vios1/', f'{slots[1]}/vios2/']
        self.migrate(virtual_scsi_mappings=mappings)
        self.assertIsNone(self.read(self.client1))
        moved = self.read(self.client2)
        self.assertEqual(self.vm.uuid, moved.uuid)
        self.assertEqual(
            ('running', 'active', 'Not_Migrating', 1000),
            (
                moved.state,
                moved.rmc_state,
                moved.migration_state,
                moved.uptime,
            ),
        )
        self.assertEqual(5, moved.id)
        after = self.disks(self.client2), self.adapters(self.client2)
        self.assertEqual(before, after)
        self.assertEqual({}, self.disks(self.client1))
        # It has given back what it had.
        now = [one.state()['systems'][0] for one in self.controls]
        had = [one[0] for one in self.start]
        given, taken = (
            one['memory_available'] - before['memory_available']
            for one, before in zip(now, had, strict=True)
        )
        self.assertEqual((given, given), (-taken, max(given, 2048)))
        orphans = [
            one
            for vios in ('vios1', 'vios2')
            for one in self.client1.vios(vios).scsi_mappings
        ]
        self.assertEqual([], orphans)

    def test_vlans_are_mapped_and_need_no_bridge_if_that_is_said(self):
        ((mac, slot, _),) = self.adapters(self.client1)
        mapping = [f'{mac}/7/8 9']
        self.migrate(vlan_mappings=mapping, vlan_check_override=True)
        (moved,) = network.CNA.get(self.client2.adapter, parent=self.vm)
        self.assertEqual((mac, slot, 7), (moved.mac, moved.slot, moved.pvid))
        self.assertEqual([8, 9], moved.tagged_vlans)

    def test_network_without_virtual_io_server_moves_if_that_is_said(self):
        made = world(1)
        del made['systems'][0]['network_bridges']
        self.control1.load_world(made)
        self.authorize()
        self.vm = self.read(self.client1)
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, f'host1 bridges the VLAN {VLAN} '
        ):
            self.migrate()
        # A trunk adapter of the management partition is none of a server.
        (manager,) = lpar.LPAR.search(self.client1.adapter, name='novalink')
        (system,) = managed_system.System.get(self.client1.adapter)
        (switch,) = network.VSwitch.get(self.client1.adapter, parent=system)
        trunk = network.CNA.bld(
            self.client1.adapter, VLAN, switch.related_href, trunk_pri=1
        ).create(parent=manager)
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, f'host1 bridges the VLAN {VLAN} '
        ):
            self.migrate()
        trunk.delete()
        self.assertEqual([1, 1], self.networks())
        self.migrate(sdn_override=True)
        self.assertEqual([0, 1], self.networks())

    def networks(self):
        """Return how many networks of the VLAN both hosts have."""
        found = []
        for client in self.clients:
            (system,) = managed_system.System.get(client.adapter)
            vlans = [
                one.vlan
                for one in network.VNet.get(client.adapter, parent=system)
            ]
            found.append(vlans.count(VLAN))
        return found


class StagesTest(MigrationTestCase):
    """The job waits at each stage."""

    def setUp(self):
        super().setUp()
        self.control1.set_job_mode('manual', 'Migrate')

    def begin(self, stages):
        """Start the job without waiting for it, and let it come so far."""
        request = job.Job.wrap(
            self.vm.adapter.read(
                'LogicalPartition', self.vm.uuid, 'do', 'Migrate'
            )
        )
        values = {
            'TargetManagedSystemName': 'host2',
            'TargetRemoteHMCIPAddress': ADDRESS,
        }
        request.add_job_parameters_to_existing(
            *(request.create_job_parameter(*item) for item in values.items())
        )
        started = self.vm.adapter.create_job(
            request.entry.element, 'LogicalPartition', self.vm.uuid
        )
        self.job_id = job.Job.wrap(started.entry).job_id
        self.advance(stages)

    def advance(self, stages=1):
        for _ in range(stages):
            self.control1.advance_jobs(self.job_id)

    def job(self):
        """Return the status and the message of the job."""
        read = self.vm.adapter.read_job(self.job_id)
        wrapper = job.Job.wrap(read.entry)
        return wrapper.job_status, wrapper.get_job_message()

    def states(self):
        """Return the states of the partition on both hosts."""
        return [
            one and (one.state, one.migration_state)
            for one in map(self.read, self.clients)
        ]

    def storage(self):
        """Return how many mappings the partition has on both hosts."""
        return [len(self.disks(one)) for one in self.clients]

    def counts(self):
        """Return how many migrations both systems have in progress."""
        found = []
        for client in self.clients:
            (system,) = managed_system.System.get(client.adapter)
            data = system.migration_data
            found.append(data['active_migrations_in_progress'])
        return found

    def assert_as_before(self):
        """Assert that both hosts have what they had."""
        now = [one.state()['systems'] for one in self.controls]
        self.assertEqual(self.start, now)

    def test_both_hosts_show_partition_while_it_runs(self):
        working, none = 'migrating running', ('running', 'Not_Migrating')
        self.begin(stages=0)
        self.assertEqual([none, None], self.states())
        self.advance()
        self.assertEqual([(working, 'Migration_Starting')] * 2, self.states())
        self.assertEqual([[2, 0], [1, 1]], [self.storage(), self.counts()])
        self.advance()
        self.assertEqual(
            [(working, 'Migration_In_Progress')] * 2, self.states()
        )
        self.assertEqual([[2, 2], [1, 1]], [self.storage(), self.counts()])
        self.advance()
        self.assertEqual([None, none], self.states())
        self.assertEqual([[0, 2], [0, 0]], [self.storage(), self.counts()])
        self.assertEqual('COMPLETED_OK', self.job()[0])

    def test_abort_at_each_stage_leaves_all_as_before(self):
        for stages in (1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                migration.migrate_abort(self.vm)
                self.assertEqual('COMPLETED_WITH_ERROR', self.job()[0])
                self.assertIn('has been stopped', self.job()[1])
                self.assert_as_before()
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'no migration of vm to stop'
        ):
            migration.migrate_abort(self.vm)
        self.advance()
        self.assert_as_before()

    def test_job_is_about_its_own_migration_only(self):
        self.begin(stages=2)
        first = self.job_id
        self.begin(stages=0)
        path = {'root_type': 'jobs', 'root_id': self.job_id}
        self.vm.adapter.update(None, None, **path, suffix_type='cancel')
        self.assertEqual([1, 1], self.counts())
        migration.migrate_abort(self.vm)
        self.begin(stages=1)
        self.job_id = first
        self.assertIn('has been stopped', self.job()[1])
        self.assertEqual([1, 1], self.counts())

    def test_destination_that_begins_anew_stops_it(self):
        self.begin(stages=2)
        self.control2.reset()
        self.assertIn('has been stopped', self.job()[1])
        migration.migrate_abort(self.vm)
        self.assert_as_before()

    def test_failure_at_each_stage_leaves_all_as_before(self):
        for stages in (0, 1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                self.control1.plan_job('Migrate', 'HSCL0000 lost')
                self.advance(3)
                self.assertEqual('COMPLETED_WITH_ERROR', self.job()[0])
                self.assertIn('HSCL0000 lost', self.job()[1])
                self.assert_as_before()

    def test_recover_after_failure_at_each_stage(self):
        """Both hosts have it until then; the guest is on the first one."""
        for stages in (1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                self.control1.plan_job('Migrate', 'lost', state='running')
                self.advance()
                self.assertEqual(
                    [
                        ('running', 'Migration_Failed'),
                        ('not activated', 'Migration_Failed'),
                    ],
                    self.states(),
                )
                self.assertEqual([0, 0], self.counts())
                with self.assertRaisesRegex(
                    exceptions.HttpError, 'migration is .Migration_Failed'
                ):
                    self.read(self.client2).delete()
                with self.assertRaisesRegex(
                    exceptions.JobRequestFailed, 'has the state Migration_F'
                ):
                    self.migrate(validate_only=True)
                migration.migrate_recover(self.vm)
                self.assert_as_before()

    def recover_arrived(self, stages, client):
        """Recover when the guest has gone on at the destination."""
        self.begin(stages)
        self.control1.plan_job('Migrate', 'lost', state='not activated')
        self.advance()
        self.assertEqual(
            [
                ('not activated', 'Migration_Failed'),
                ('running', 'Migration_Failed'),
            ],
            self.states(),
        )
        self.assertEqual([2, 2], self.storage())
        self.assertEqual(1000, self.read(self.client2).uptime)
        migration.migrate_recover(self.read(client))
        self.assertEqual([None, ('running', 'Not_Migrating')], self.states())
        self.assertEqual([0, 2], self.storage())

    def test_recover_at_source_after_guest_has_gone_on(self):
        self.recover_arrived(1, self.client1)

    def test_recover_at_destination_after_guest_has_gone_on(self):
        self.recover_arrived(2, self.client2)

    def test_guest_counts_on_at_one_side_at_any_time(self):
        """What is on its disk is what the one guest has written."""
        counts = [self.count() for _ in range(2)]
        self.begin(stages=0)
        for _ in range(2):
            self.advance()
            counts.append(self.count())
        written = self.unit.udid, base64.b64encode(b'i').decode()
        self.control1.write_disk(*written)
        with self.assertRaisesRegex(
            errors.ControlError, "guest of 'vm' is on another system"
        ):
            self.control2.write_disk(*written)
        self.advance()
        counts.append(self.count())
        self.assertEqual([1, 2, 3, 4, 5], counts)
        data = self.control2.contents(self.unit.udid)
        self.assertEqual((5, b'image'), (data[4103], data[:5]))
        self.control2.set_partition('vm', state='not activated')
        self.control2.set_partition('vm', state='running')
        self.assertEqual(1, self.count())

    def count(self):
        """Let the guest count where it is; return how far it has come."""
        found = []
        for control in self.controls:
            with contextlib.suppress(errors.ControlError):
                found.append(control.tick('vm'))
        (one,) = found
        self.assertEqual(self.unit.udid, one['udid'])
        return one['count']

    def test_partition_does_not_change_while_it_runs(self):
        self.begin(stages=2)
        adapter = network.CNA.get(self.client1.adapter, parent=self.vm)[0]
        adapter.pvid = 7
        for client in self.clients:
            found = self.read(client)
            found.name = 'other'
            for change in (
                found.update,
                adapter.update,
                adapter.delete,
                lambda: power.power_off_progressive(self.vm),
            ):
                with self.assertRaisesRegex(
                    exceptions.Error, 'migration is .Migration_In_Progress'
                ):
                    change()
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'stopped at the other system'
        ):
            migration.migrate_abort(self.read(self.client2))
        self.advance()
        self.assertEqual('COMPLETED_OK', self.job()[0])

    def test_source_without_power_loses_the_guest(self):
        for stages in (1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                self.control1.power_off_system()
                off = 'not activated', 'Migration_Failed'
                there = self.read(self.client2)
                self.assertEqual(off, (there.state, there.migration_state))
                with self.assertRaisesRegex(
                    exceptions.JobRequestFailed, 'host1 does not answer'
                ):
                    migration.migrate_recover(there)
                self.control1.power_on_system()
                self.log_on_again()
                self.assertEqual([off, off], self.states())
                migration.migrate_recover(self.vm)
                self.assertEqual(
                    [('not activated', 'Not_Migrating'), None], self.states()
                )
                self.assertEqual([2, 0], self.storage())
                self.control1.set_partition(
                    'vm', state='running', rmc_state='active'
                )

    def log_on_again(self):
        self.clients[0] = self.client1 = self.log_on(self.site.emulators[0])
        self.vm = self.read(self.client1)

    def test_destination_without_power_does_not_harm_the_guest(self):
        for stages in (1, 2):
            with self.subTest(stages=stages):
                self.begin(stages)
                self.control2.power_off_system()
                here = self.read(self.client1)
                self.assertEqual(
                    ('running', 'Migration_Failed', 1000),
                    (here.state, here.migration_state, here.uptime),
                )
                self.assertIn('has been stopped', self.job()[1])
                with self.assertRaisesRegex(
                    exceptions.JobRequestFailed, 'host2 does not answer'
                ):
                    migration.migrate_recover(here)
                migration.migrate_recover(here, force=True)
                self.control2.power_on_system()
                self.clients[1] = self.client2 = self.log_on(
                    self.site.emulators[1]
                )
                self.assertEqual(
                    [
                        ('running', 'Not_Migrating'),
                        ('not activated', 'Migration_Failed'),
                    ],
                    self.states(),
                )
                with self.assertRaisesRegex(
                    exceptions.JobRequestFailed, 'the uuid .* exists'
                ):
                    self.migrate(validate_only=True)
                migration.migrate_recover(self.read(self.client2))
                self.assert_as_before()

    def test_emulator_that_is_killed_has_a_failed_migration(self):
        self.begin(stages=2)
        served = [one._application.emulation for one in self.site.emulators]
        saved = json.loads(json.dumps(hosts.save(served)))
        site = host_module.Site(0)
        states = []
        for number in range(2):
            made = app.make_emulation(
                username='',
                password='',
                seed=number,
                event_wait=0,
                site=site,
                host_root=None,
            )
            self.addCleanup(made.close)
            hosts.load(made, saved, number)
            (found,) = (
                one for one in made.host.of_type(Partition) if one.name == 'vm'
            )
            (system,) = made.host.of_type(System)
            states.append(
                (
                    found.state,
                    found.migration_state,
                    found.is_shell,
                    system.migrations,
                )
            )
        self.assertEqual(
            [
                ('running', 'Migration_Failed', False, 0),
                ('not activated', 'Migration_Failed', True, 0),
            ],
            states,
        )


class WaitingTest(MigrationTestCase):
    def test_abort_ends_the_job_that_a_client_waits_for(self):
        self.control1.set_job_mode('manual', 'Migrate')
        with futures.ThreadPoolExecutor(1) as executor:
            waiting = executor.submit(self.migrate)
            while not self.control1.advance_jobs():
                time.sleep(0.01)
            other = self.log_on(self.site.emulators[0])
            migration.migrate_abort(self.read(other))
            with self.assertRaisesRegex(
                exceptions.JobRequestFailed, 'has been stopped'
            ):
                waiting.result(30)


class RefusalTest(MigrationTestCase):
    """Each is refused before anything has changed."""

    def assert_refused(self, message, **options):
        """Assert that neither job migrates, and that nothing changes."""
        before = [one.state()['systems'] for one in self.controls]
        for validate_only in (True, False):
            with self.assertRaisesRegex(exceptions.JobRequestFailed, message):
                self.migrate(validate_only=validate_only, **options)
        now = [one.state()['systems'] for one in self.controls]
        self.assertEqual(before, now)

    def test_parameters(self):
        mac = self.adapters(self.client1)[0][0]
        self.assert_refused('address is missing', tgt_mgmt_svr=None)
        self.assert_refused("no pool 'big'", spp_id='big')
        self.assert_refused(
            'No virtual Fibre Channel', virtual_fc_mappings=['4//1//fcs0']
        )
        for message, mapping in (
            ("'two/vios1/' is no mapping", 'two/vios1/'),
            ("'3//' is no mapping", '3//'),
            ("'3/vios1//x' is no mapping", '3/vios1//x'),
            ("as in '3/vios9/'", '3/vios9/'),
            ('adapter in the slot 17', '17//2'),
            ('slot 2 of vios1 is taken', '3/vios1//2'),
            ('vios3 does not see the unit image1', '3/vios3/'),
        ):
            with self.subTest(mapping=mapping):
                self.assert_refused(message, virtual_scsi_mappings=[mapping])
        for message, mapping in (
            (f"'{mac}/x' is no mapping", f'{mac}/x'),
            ('network adapter 00AA', '00AA/7'),
            ('bridges the VLAN 7 on ETHERNET0', f'{mac}/7'),
        ):
            with self.subTest(mapping=mapping):
                self.assert_refused(message, vlan_mappings=[mapping])

    def test_destination(self):
        for name in ('host1', 'host9'):
            with self.assertRaisesRegex(
                exceptions.JobRequestFailed, f'{name}.* no system to migrate'
            ):
                migration.migrate_lpar(self.vm, name, tgt_mgmt_svr=ADDRESS)
        self.control2.reset()
        self.assert_refused("does not let 'wlp' log on")
        self.control2.power_off_system()
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'console 192.0.2.2 does not answer'
        ):
            self.migrate()

    def test_partition(self):
        for name, value, message in (
            ('MigrationDisable', 'true', 'Its migration is disabled'),
            (
                'MigrationStorageViosDataStatus',
                'Update_Failed',
                'have the state Update_Failed',
            ),
        ):
            with self.subTest(name=name):
                found = self.read(self.client1)
                found.set_parm_value(name, value)
                found.update()
                self.assert_refused(message)
        self.control1.set_partition('vm', rmc_state='inactive')
        for name in ('vios1', 'vios2', 'vios3'):
            self.control2.set_partition(name, rmc_state='inactive')
        self.assert_refused(
            'HSCLA246 .* RMC connection is inactive.*host2 has no Virtual I/O '
            'Server to move it.*vios1 does not answer.*vios2 does not answer'
        )
        self.control1.set_partition('vm', state='not activated')
        self.assert_refused('Its state is not activated')

    def load(self, control, change):
        """Load another world on a host; the key is good as before."""
        number = 1 + self.controls.index(control)
        made = world(number)
        change(made['systems'][0])
        control.load_world(made)
        self.authorize()

    def assert_worlds_refused(self, *cases):
        """Assert that each (message, change) of the second world is."""
        for message, change in cases:
            with self.subTest(message=message):
                self.load(self.control2, change)
                self.assert_refused(message)

    def test_sizes(self):
        def region(system):
            system['memory']['region_size'] = 128

        def little(system):
            system['memory']['configurable'] = 40000
            system['partitions'][0]['memory'] = 16384

        def busy(system):
            system['partitions'][0]['processors'] = 29

        def old(system):
            modes = ['default', 'POWER7']
            system['processors']['compatibility_modes'] = modes

        def narrow(system):
            for vios in system['virtual_io_servers']:
                vios['virtual_slots'] = 4

        def full(system):
            system['migrations'] = 0
            system['capabilities'] = {'live_migration': False}

        self.assert_worlds_refused(
            ('memory regions have 256 and 128 MB', region),
            ('MB of memory and .* were asked for', little),
            ('processor units were asked for', busy),
            ('host2 does not have its processor mode POWER', old),
            ('vios1 has 0 free virtual slots', narrow),
            (
                'host2 is not capable .* host2 has 0 of at most 0 migrations',
                full,
            ),
        )

    def test_twins(self):
        def twin(system):
            system['partitions'].append(
                {'name': 'twin', 'uuid': self.vm.uuid, **SIZE}
            )

        def namesake(system):
            system['partitions'].append({'name': 'vm', **SIZE})

        def neighbour(system):
            mac = self.adapters(self.client1)[0][0]
            pairs = [mac[at : at + 2] for at in range(0, 12, 2)]
            system['partitions'][0]['adapters'] = [
                {'vlan': 7, 'mac': ':'.join(pairs)}
            ]

        self.assert_worlds_refused(
            ('uuid .* exists', twin),
            ("name 'vm' is in use", namesake),
            ('MAC address .* is in use', neighbour),
        )

    def test_things_that_cannot_leave(self):
        def device(system):
            system['slots'] = [
                {
                    'drc_index': '21010020',
                    'description': '3D Controller',
                    'owner': 'vm',
                }
            ]

        def other_switch(system):
            system['virtual_switches'] = [
                {'name': 'ETHERNET0(Default)'},
                {'name': 'FABRIC'},
            ]
            system['partitions'][1]['adapters'] = [
                {'vlan': 7, 'switch': 'FABRIC'}
            ]

        def unbridged(system):
            system['partitions'][1]['adapters'] = [{'vlan': 7}]

        def managing(system):
            system['partitions'][1]['management'] = True

        def ibm_i(system):
            system['partitions'][1]['type'] = 'OS400'

        for message, change in (
            ('IBM i partition without restricted I/O', ibm_i),
            ('physical I/O slot 21010020', device),
            ("no virtual switch 'FABRIC'", other_switch),
            ('host1 bridges the VLAN 7 of its network', unbridged),
            ('It manages its host', managing),
        ):
            with self.subTest(message=message):
                self.load(self.control1, change)
                self.vm = self.read(self.client1)
                self.assert_refused(message)


class StorageTest(MigrationTestCase):
    """Both hosts reach a volume, by another LUN; one has a volume group."""

    @staticmethod
    def worlds():
        made = [world(1), world(2)]
        for number, one in enumerate(made, 1):
            (system,) = one['systems']
            slots = [san.adapter(at, f'vios{at}') for at in (1, 2)]
            for slot in slots:
                for port in slot['fibre_channel_ports']:
                    port['wwpn'] = f'{number}{port["wwpn"][1:]}'
            system['slots'] = slots
            system['virtual_io_servers'][0]['volume_groups'] = [
                {'name': 'rootvg', 'capacity': 20}
            ]
        return made

    def setUp(self):
        super().setUp()
        self.array = san.array()
        self.array['hosts'] = [
            {
                'name': f'host{number}',
                'wwpns': [
                    f'{number}{wwpn[1:]}'
                    for wwpns in san.WWPNS.values()
                    for wwpn in wwpns
                ],
            }
            for number in (1, 2)
        ]
        self.array['maps'] = [
            {'host': f'host{number}', 'volume': 'v1', 'lun': number}
            for number in (1, 2)
        ]
        self.control1.set_san([self.array])
        for vios in ('vios1', 'vios2'):
            _, name, _ = self.look(1, vios)
            volume = storage.PV.bld(self.client1.adapter, name, tag='v1')
            self.map(volume, vios)

    def set_reserve(self, policy):
        self.array['volumes'][0]['reserve_policy'] = policy
        self.control1.set_san([self.array])

    def look(self, number, vios):
        """Let a server of a host discover the volume."""
        client = self.clients[number - 1]
        wwpn = f'{number}{san.WWPNS[vios][0][1:]}'
        itls = hdisk.build_itls([wwpn], [san.TARGETS[0]], number)
        uuid = client.vios(vios).uuid
        return hdisk.lua_recovery(client.adapter, uuid, itls)

    def map(self, element, vios='vios1', **options):
        """Map storage to the partition of the first host."""
        found = self.client1.vios(vios)
        scsi_mapper.add_vscsi_mapping(
            None, found, self.vm.uuid, element, **options
        )

    def volumes(self, number):
        """Return whether the volume is free, by server of a host."""
        (system,) = self.controls[number - 1].state()['systems']
        return {
            one['name']: [
                disk['available']
                for disk in one['physical_volumes']
                if disk['udid'] == san.UDID
            ]
            for one in system['partitions']
            if one['name'] in ('vios1', 'vios2')
        }

    def named(self):
        """Return a server of the destination for each slot."""
        return sorted(
            {
                f'{slot}/{vios}/'
                for (slot, _), (_, vios) in self.disks(self.client1).items()
            }
        )

    def test_volume_moves_that_both_servers_have_discovered(self):
        before = self.disks(self.client1)
        self.look(2, 'vios1')
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed,
            f'vios2 does not see the disk {san.UDID}',
        ):
            self.migrate(virtual_scsi_mappings=self.named())
        self.look(2, 'vios2')
        self.migrate(virtual_scsi_mappings=self.named())
        self.assertEqual(before, self.disks(self.client2))
        self.assertEqual(4, len(before))
        tags = {
            one.backing_storage.tag
            for one in self.client2.vios().scsi_mappings
            if isinstance(one.backing_storage, storage.PV)
        }
        self.assertEqual({'v1'}, tags)
        free, taken = [True], [False]
        self.assertEqual({'vios1': free, 'vios2': free}, self.volumes(1))
        self.assertEqual({'vios1': taken, 'vios2': taken}, self.volumes(2))

    def test_both_paths_can_be_on_one_server(self):
        """Nothing else has been asked for."""
        self.look(2, 'vios1')
        self.migrate()
        servers = [one[1] for one in self.disks(self.client2).values()]
        self.assertEqual(['vios1'] * 4, servers)

    def test_volume_is_in_use_or_reserved_or_out_of_reach(self):
        self.look(2, 'vios1')
        self.set_reserve('SinglePath')
        self.look(2, 'vios2')
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'hdisk0 of vios2 is reserved'
        ):
            self.migrate(virtual_scsi_mappings=self.named())
        del self.array['maps'][1]
        self.control1.set_san([self.array])
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'vios1 does not see the disk'
        ):
            self.migrate()

    def load_drive(self):
        """Give the partition a drive with a medium; return this."""
        self.look(2, 'vios1')
        vopt._cur_vios_uuid = vopt._cur_vg_uuid = None
        vopt.validate_vopt_repo_exists(self.client1.adapter)
        vios = self.client1.vios()
        medium, _ = storage_tasks.upload_vopt(
            self.client1.adapter, vios.uuid, io.BytesIO(b'x'), 'cfg.iso'
        )
        # On an adapter of its own.
        self.map(medium, fuse_limit=1)
        return medium

    def test_drive_moves_without_medium(self):
        medium = self.load_drive()
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'slot [0-9]+ has the medium cfg.iso'
        ):
            self.migrate()
        vios = self.client1.vios()
        (loaded,) = scsi_mapper.find_maps(
            vios.scsi_mappings, self.vm.uuid, stg_elem=medium
        )
        loaded.element.remove(loaded.element.find('Storage'))
        vios.update()
        self.migrate()
        (drive,) = (
            one
            for one in self.client2.vios().scsi_mappings
            if not one.backing_storage
        )
        self.assertEqual(
            'VirtualOpticalTargetDevice', drive.target_dev.schema_type
        )

    def test_adapter_moves_without_drive(self):
        self.load_drive()
        vios = self.client1.vios()
        (loaded,) = scsi_mapper.detach_storage(
            vios,
            self.vm.uuid,
            lambda element: isinstance(element, storage.VOptMedia),
        )
        vios.update()
        self.migrate()
        vios = self.client2.vios()
        (empty,) = (
            one for one in vios.scsi_mappings if not one.backing_storage
        )
        self.assertIsNone(empty.target_dev)
        slot = loaded.client_adapter.lpar_slot_num
        self.assertEqual(slot, empty.client_adapter.lpar_slot_num)

    def test_disk_of_volume_group_stays(self):
        (group,) = storage.VG.get(
            self.client1.adapter, parent=self.client1.vios()
        )
        disk = storage_tasks.crt_vdisk(
            self.client1.adapter,
            self.client1.vios().uuid,
            group.uuid,
            'disk1',
            2,
        )
        self.map(disk)
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'disk1 is in a volume group'
        ):
            self.migrate(validate_only=True)

    def test_virtual_fibre_channel_stays(self):
        (vios,) = (
            one
            for one in virtual_io_server.VIOS.get(
                self.client1.adapter,
                xag=[const.XAG.VIO_FMAP, const.XAG.VIO_STOR],
            )
            if one.name == 'vios1'
        )
        wwpns = 'C05076065A7C02E0 C05076065A7C02E1'
        port = f'1{san.WWPNS["vios1"][0][1:]}'
        vfc_mapper.add_map(vios, None, self.vm.uuid, (port, wwpns))
        vios.update()
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed,
            'virtual Fibre Channel adapter of vios1',
        ):
            self.migrate(validate_only=True)
