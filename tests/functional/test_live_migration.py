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

"""Servers that migrate live between two hosts of one pool and one array."""

import contextlib
import functools
import pathlib
import sys
import textwrap
from unittest import mock

import fixtures
from cinderclient import exceptions as cinder_exception
from neutronclient.common import exceptions as neutron_exception
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.network import neutron
from nova.volume import cinder
from oslo_utils import uuidutils
from pypowervm import adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import job
from pypowervm.wrappers import logical_partition

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.lpar import storage
from nova_powervm.powervm import live_migration as jobs
from nova_powervm.virt import live_config_drives
from nova_powervm.virt import live_migrations
from nova_powervm.virt import lpar_locations
from nova_powervm.virt import system_metadata
from tests import proofs
from tests.functional import killed_threads
from tests.functional import test_volume_moves
from tests.unit.docs import pages

EVENT = 'powervm_live_migration'
PAGE = pathlib.Path(__file__).parents[2] / 'doc/source/admin/stuck-servers.rst'
MISPLACED = live_migration.Path(4, '0x8200000000000000', 'a disk')
_MOVED = 'and PowerVM has moved it to'
_LOGON = 'rest = adapter.Adapter(adapter.Session())\n'


def _script():
    """Return the script of the page on stuck servers."""
    _, _, rest = PAGE.read_text().partition('.. code-block:: python\n')
    lines = []
    for line in rest.splitlines():
        if line.strip() and not line.startswith(' ' * 6):
            break
        lines.append(line)
    return textwrap.dedent('\n'.join(lines))


def _unfinished(control):
    """Return the jobs of a host that have not ended."""
    return [
        found for found in control.jobs() if 'COMPLETED' not in found['status']
    ]


class Bindings(fixtures.Fixture):
    """Bindings of ports, of which Neutron has one for each host at most.

    Nova's stand-in overwrites one by another, keeps former ones, and takes it
    for no error if none is active.

    :param neutron: The stand-in.
    """

    def __init__(self, neutron):
        self._neutron = neutron

    def _setUp(self):
        for name in (
            'update_port',
            'create_port_binding',
            'activate_port_binding',
        ):
            original = getattr(self._neutron, name)
            self.useFixture(
                fixtures.MockPatchObject(
                    self._neutron,
                    name,
                    new=functools.partial(getattr(self, name), original),
                )
            )

    def update_port(self, original, port_id, body=None):
        """Bind a port to another host instead."""
        found = self._neutron._port_bindings[port_id]
        former = self._active(port_id)
        host = body['port'].get('binding:host_id')
        if (host in found and host not in former) or (found and not former):
            raise neutron_exception.InternalServerError
        answer = original(port_id, body)
        for one in former - {host} if host else ():
            del found[one]
        return answer

    def create_port_binding(self, original, port_id, body):
        """Bind a port to one more host."""
        if body['binding']['host'] in self._neutron._port_bindings[port_id]:
            raise neutron_exception.Conflict
        return original(port_id, body)

    def activate_port_binding(self, original, port_id, host):
        """Activate a binding in place of the one that is active."""
        if not self._active(port_id):
            raise neutron_exception.InternalServerError
        return original(port_id, host)

    def _active(self, port_id):
        found = self._neutron._port_bindings[port_id]
        return {host for host in found if found[host]['status'] == 'ACTIVE'}


class LiveMigrationTestCase(test_volume_moves.VolumeMoveTestCase):
    """Two hosts with one pool, and one array."""

    def setUp(self):
        super().setUp()
        self.flags(auth_type='password', group='cinder')
        self.useFixture(Bindings(self.neutron))
        self.stub_out(f'{live_migrations.__name__}._PAUSE_SECONDS', 0.01)
        self.start_site(described=[test_volume_moves.world(n) for n in (1, 2)])

    def boot_live(self, extra_specs=(), volumes=0, **options):
        """Boot a server on the first host whose guest answers RMC.

        :param volumes: How many volumes to attach.
        """
        server = self.boot_on_first(dict(extra_specs), **options)
        self.control().set_partition(self.name(server), rmc_state='active')
        for _ in range(volumes):
            self.attach(server, uuidutils.generate_uuid())
        return server

    def name(self, server):
        """Return the name of a server's LPAR."""
        return server['OS-EXT-SRV-ATTR:instance_name']

    def ask_to_migrate(self, server, host=None, block_migration=False):
        """Ask Nova to migrate a server live."""
        live = {'host': host, 'block_migration': block_migration}
        self.admin_api.post_server_action(
            server['id'], {'os-migrateLive': live}
        )

    def migrate_live(self, server, status, host=None, **options):
        """Migrate a server live; return it when this has ended.

        :param status: The expected status of the migration.
        """
        count = len(self.migrations(server))
        self.ask_to_migrate(server, host, **options)
        return self.await_end(server, status, count)

    def await_end(self, server, status, count):
        """Return a server when its live migration has ended.

        :param count: How many migrations it had before.
        """
        ends = {status, 'failed', 'completed'}
        if status != 'failed':
            # Nova begins with this when it takes a preparation back.
            ends.add('error')

        def find_end():
            found = self.migrations(server)[count:]
            return found and found[-1]['status'] in ends

        self.await_found(find_end, 'the migration has no end')
        self.assertEqual(status, self.migration(server)['status'])
        return self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )

    def migrations(self, server):
        """Return the migrations of a server, the last one last."""
        path = f'/os-migrations?instance_uuid={server["id"]}'
        found = self.admin_api.api_get(path).body['migrations']
        return sorted(found, key=lambda migration: migration['id'])

    def migration(self, server):
        """Return the last migration of a server."""
        return self.migrations(server)[-1]

    def host_of(self, server):
        """Return the host that Nova records for a server."""
        found = self.admin_api.get_server(server['id'])
        return found['OS-EXT-SRV-ATTR:host']

    def bind_to_vlans(self, mac, **vlans):
        """Have Neutron bind a port to a VLAN of its own on each host."""
        bind = self.neutron.create_port_binding

        def bind_to_vlan(port_id, body):
            answer = bind(port_id, body)
            binding = answer['binding']
            if self.neutron._ports[port_id]['mac_address'] == mac:
                vlan = vlans[binding['host']]
                details = binding['vif_details'] | {'vlan': vlan}
                # The dictionary that Nova's fixture keeps.
                binding['vif_details'] = details
            return answer

        self.useFixture(
            fixtures.MockPatchObject(
                self.neutron, 'create_port_binding', bind_to_vlan
            )
        )

    def mark(self, server):
        """Return where a live migration moves a server, if Nova records it."""
        metadata = self.instance(server).system_metadata
        return system_metadata.live_migration(metadata)

    def whole(self, server, host):
        """Return what a server has on a host, without disk addresses."""
        return (
            self.connected(server, host),
            {
                mapped
                for mapped in self.mapped_to(server, host)
                if not mapped[0].startswith('hdisk')
            },
            self.ports_of(server, host),
            self.bytes_of(server, host),
        )

    def attachments(self, server):
        """Return the ids of the attachments that Nova records, and Cinder."""
        disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        )
        recorded = {disk.attachment_id for disk in disks if disk.is_volume}
        real = {
            attachment_id
            for disk in disks
            if disk.is_volume
            for attachment_id in self.cinder.volume_to_attachment[
                disk.volume_id
            ]
        }
        return recorded, real

    def vlans(self, host):
        """Return the tagged VLANs of the bridge of a host."""
        (bridge,) = self.host_state(host)['network_bridges']
        return bridge['vlans']

    def bound(self, server):
        """Return the hosts that ports of a server have bindings to."""
        return {
            host for bindings in self._bindings(server) for host in bindings
        }

    def active(self, server):
        """Return the hosts that ports of a server are bound to."""
        return {
            host
            for bindings in self._bindings(server)
            for host, binding in bindings.items()
            if binding['status'] == 'ACTIVE'
        }

    def _bindings(self, server):
        return [
            self.neutron._port_bindings[port['id']]
            for port in self.neutron._ports.values()
            if port.get('device_id') == server['id']
        ]

    def assert_at(self, server, host, before):
        """Verify that a server is on one host, and all that belongs to it."""
        other = {'host1': 'host2', 'host2': 'host1'}[host]
        self.assertEqual(host, self.host_of(server))
        self.assertEqual(before, self.whole(server, host))
        self.assertEqual('running', self.lpar(server, host).state)
        self.assertIsNone(self.lpar(server, other))
        self.assertEqual([], self.array_disks(other))
        self.assertEqual([], self.media(other))
        self.assertEqual([], self.mappings(other))
        recorded, real = self.attachments(server)
        self.assertEqual(recorded, real)
        self.assertLessEqual(recorded, self.cinder.complete)
        self.assertIsNone(self.mark(server))
        held = self._get_allocations_by_server_uuid(server['id'])
        self.assertEqual([self._get_provider_uuid_by_host(host)], [*held])
        consumer = self.migration(server)['uuid']
        self.assertEqual({}, self._get_allocations_by_server_uuid(consumer))


class LiveMigrationsTest(LiveMigrationTestCase):
    """Live migrations, all of whose ends are known."""

    def test_servers_migrate_live(self):
        self.tell_stories()

    @proofs.proves('operation.live-migrate')
    def story_server_moves_and_comes_back_with_all_it_has(self):
        ports = [self.make_port() for _ in range(2)]
        server = self.boot_live(
            volumes=2,
            disk=1,
            networks=[{'port': port['id']} for port in ports],
            request={'config_drive': True},
        )
        before = self.whole(server, 'host1')
        self.assertEqual(2, len(before[1]))
        self.assertEqual(2, len(before[2]))
        # One network has another VLAN on the other host.
        *rest, (stays, (mac, slot, vlan)), written = before
        self.bind_to_vlans(mac, host1=vlan, host2=vlan + 1)
        there = (*rest, [stays, (mac, slot, vlan + 1)], written)
        self.migrate_live(server, 'completed')
        self.assert_at(server, 'host2', there)
        self.assertNotIn(_MOVED, self.stdlog.logger.output)
        # To a host that an administrator names.
        with mock.patch.object(
            jobs.RestLiveMigrations, 'paths', lambda *_: [MISPLACED]
        ):
            self.migrate_live(server, 'completed', 'host1')
        self.assert_at(server, 'host1', before)
        # Both volumes, and the root disk.
        self.assertEqual(3, self.stdlog.logger.output.count(_MOVED))

    def story_server_without_disks_in_pool_moves(self):
        server = self.boot_from_volume(
            extra_specs={}, request={'host': 'host1'}
        )
        self.control().set_partition(self.name(server), rmc_state='active')
        connected = self.connected(server)
        self.migrate_live(server, 'completed')
        self.assert_on('host2', 'host1', server, connected)

    def refused(self, server, **options):
        """Have a migration refused; return what its events say."""
        before = self.whole(server, 'host1')
        after = self.migrate_live(server, 'error', **options)
        self.assertEqual('ACTIVE', after['status'])
        self.assert_at(server, 'host1', before)
        events = self.events(server, 'live-migration')
        return ' '.join(str(event.get('details')) for event in events)

    @proofs.proves('operation.live-migrate')
    def story_refused_server_stays_as_it_was(self):
        server = self.boot_live(volumes=1)
        name = self.name(server)
        for reason, options in (
            ('block migration is not possible', {'block_migration': True}),
            ('does not have an active RMC connection', {}),
        ):
            with self.subTest(reason):
                if not options:
                    self.control().set_partition(name, rmc_state='inactive')
                self.assertIn(reason, self.refused(server, **options))
        self.control().set_partition(name, rmc_state='active')
        self.flags(auth_type=None, group='cinder')
        self.assertIn('no credentials in [cinder]', self.refused(server))

    @proofs.proves('operation.live-migrate')
    def story_failed_migration_leaves_server_as_it_was(self):
        server = self.boot_live(volumes=1, request={'config_drive': True})
        before = self.whole(server, 'host1')
        for name, state in (
            ('MigrateValidate', None),
            ('Migrate', None),
            # Both hosts have it until it is recovered.
            ('Migrate', 'running'),
        ):
            with self.subTest(name, state=state):
                options = {} if state is None else {'state': state}
                self.control().plan_job(name, 'HSCL0000 no way', **options)
                after = self.migrate_live(server, 'failed')
                self.assertEqual('ACTIVE', after['status'])
                self.assert_at(server, 'host1', before)
                event = self.events(server, 'live-migration', EVENT)[0]
                self.assertEqual('Error', event['result'])

    @proofs.proves('operation.live-migrate')
    def story_cinder_that_fails_in_a_roll_back_costs_no_volume(self):
        server = self.boot_live(volumes=1)
        before = self.whole(server, 'host1')
        recorded, _ = self.attachments(server)
        self.control().plan_job('Migrate', 'HSCL0000 no way')
        with mock.patch.object(
            cinder.API,
            'attachment_delete',
            new=mock.Mock(side_effect=cinder_exception.ClientException(500)),
        ):
            self.migrate_live(server, 'failed')
        # Nova goes on with a record that has the next reboot delete the
        # other attachment.
        self.await_found(
            lambda: self.attachments(server)[0] == recorded,
            'the record stays wrong',
        )
        self._run_periodics()
        self.assertEqual((recorded, recorded), self.attachments(server))
        self.reboot_hard(server)
        self.assert_at(server, 'host1', before)

    def story_guest_that_went_on_at_the_destination_is_there(self):
        server = self.boot_live(volumes=1)
        before = self.whole(server, 'host1')
        self.control().plan_job('Migrate', 'lost', state='not activated')
        self.migrate_live(server, 'completed')
        self.assert_at(server, 'host2', before)

    def story_failed_preparation_leaves_server_as_it_was(self):
        server = self.boot_live(volumes=1)
        before = self.whole(server, 'host1')
        truth = self.cinder.uid
        self.cinder.uid = lambda volume: (
            truth(volume)[:-1] + ('1' if truth(volume)[-1] == '0' else '0')
        )
        self.migrate_live(server, 'failed')
        self.cinder.uid = truth
        self.cinder.publish()
        self.assertIn('leads to another disk', self.stdlog.logger.output)
        self.assert_at(server, 'host1', before)

    @proofs.proves('operation.live-migrate')
    def story_neutron_that_fails_at_the_end_keeps_no_server_from_its_ports(
        self,
    ):
        server = self.boot_live(
            volumes=1, networks=[{'port': self.make_port()['id']}]
        )
        before = self.whole(server, 'host1')
        for name, host in (
            # On the source, and on the destination.
            ('migrate_instance_start', 'host2'),
            ('migrate_instance_finish', 'host1'),
        ):
            with self.subTest(name):
                with mock.patch.object(
                    neutron.API,
                    name,
                    side_effect=nova_exception.PortBindingActivationFailed(
                        port_id='it', host=host
                    ),
                ):
                    after = self.migrate_live(server, 'error')
                self.assertEqual('ERROR', after['status'])
                self.assertIn('Failed to activate', self.fault(server))
                self.assertEqual(host, self.host_of(server))
                self.assertEqual(before, self.whole(server, host))
                self.assertEqual({'host1', 'host2'}, self.bound(server))
                # What the page tells.
                self.reboot_hard(server)
                self.assertEqual({host}, self.bound(server))
                held = self.migration(server)['uuid']
                self.placement.delete(f'/allocations/{held}')
                self.assert_at(server, host, before)
                self.control(host).set_partition(
                    self.name(server), rmc_state='active'
                )

    @contextlib.contextmanager
    def under_way(self, server, stages=2):
        """Have PowerVM move a server only so far."""
        control = self.control()
        control.set_job_mode('manual', 'Migrate')
        self.ask_to_migrate(server)
        self.await_found(self.jobs, 'there is no job')
        for _ in range(stages):
            control.advance_jobs()
        yield
        control.set_job_mode('immediate', 'Migrate')
        control.advance_jobs(to_end=True)

    def jobs(self):
        """Return the jobs of the first host that have not ended."""
        return _unfinished(self.control())

    @proofs.proves('operation.live-migrate')
    def story_destination_that_restarts_spares_what_is_about_to_arrive(self):
        server = self.boot_live(
            volumes=1, networks=[{'port': self.make_port()['id']}]
        )
        before = self.whole(server, 'host1')
        count = len(self.migrations(server))
        # It has no adapters there yet.
        with self.under_way(server, stages=1):
            ((_, _, vlan),) = before[2]
            self.assertIn(vlan, self.vlans('host2'))
            self.restart_host('host2')
            for _ in range(3):
                self._run_periodics()
            self.assertIn(vlan, self.vlans('host2'))
        self.await_end(server, 'completed', count)
        self.assert_at(server, 'host2', before)

    @proofs.proves('operation.abort-in-progress-live-migration')
    def story_aborted_migration_leaves_server_as_it_was(self):
        server = self.boot_live(volumes=1, request={'config_drive': True})
        before = self.whole(server, 'host1')
        for stages in (1, 2):
            with (
                self.subTest(stages=stages),
                self.under_way(server, stages),
            ):
                number = self.migration(server)['id']
                count = len(self.migrations(server))
                self.admin_api.api_delete(
                    f'/servers/{server["id"]}/migrations/{number}'
                )
                self.await_end(server, 'cancelled', count - 1)
                self.assert_at(server, 'host1', before)


class UnsettledTestCase(LiveMigrationTestCase):
    """Kills nova-compute in live migrations."""

    def setUp(self):
        super().setUp()
        self.threads = self.useFixture(killed_threads.Threads())
        self.silent = self.useFixture(killed_threads.SilentServices())

    def lose(self, host):
        """Take the power from a host, and so from its nova-compute."""
        self.control(host).power_off_system()
        self.silent.hosts.add(host)
        self.threads.kill_all(host)

    def regain(self, host):
        """Give a host its power, and start its nova-compute."""
        self.control(host).power_on_system()
        self.silent.hosts.discard(host)
        self.restart_host(host)

    def kill_in(self, server, owner, name, **options):
        """Kill nova-compute in a live migration, and start it again."""
        with self.threads.killed(owner, name, **options):
            self.ask_to_migrate(server)
        for host in ('host1', 'host2'):
            self.restart_host(host)
        server = self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        self.assertEqual('host1', self.host_of(server))
        self.assertEqual('error', self.migration(server)['status'])
        return server

    def down(self, host, *, is_down):
        """Tell Nova whether a host is down."""
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host=host
        )
        self.admin_api.put_service_force_down(service['id'], is_down)

    def jobs(self):
        """Return the jobs of the first host that have not ended."""
        return _unfinished(self.control())

    def begin_job(self):
        """Have the host begin with its job, if there is one."""
        return self.jobs() and self.control().advance_jobs()

    def assert_right(self, server, before):
        """Verify that a server is as before, and on record so."""
        self.assertEqual(before, self.whole(server, 'host1'))
        self.assert_recorded(server)

    def assert_recorded(self, server):
        """Verify that a server is on the first host, and on record so."""
        self.assertEqual('host1', self.host_of(server))
        self.assertEqual('running', self.lpar(server).state)
        self.assertIsNone(self.lpar(server, 'host2'))
        recorded, real = self.attachments(server)
        self.assertEqual(recorded, real)
        self.assertLessEqual(recorded, self.cinder.complete)
        self.assertIsNone(self.mark(server))
        self.assertLessEqual(self.bound(server), {'host1'})
        self.assertEqual(self.bound(server), self.active(server))
        held = self._get_allocations_by_server_uuid(server['id'])
        self.assertEqual([self._get_provider_uuid_by_host('host1')], [*held])

    def volumes_of(self, server):
        """Return the ids of the volumes of a server."""
        disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        )
        return [disk.volume_id for disk in disks if disk.is_volume]

    def unloaded(self, whole):
        """Return what a server has when its config drive is unloaded.

        :param whole: As by :meth:`whole`.
        """
        connected, mapped, *rest = whole
        return (
            connected,
            {
                ('', slot, '') if name.endswith('.iso') else (name, slot, lua)
                for name, slot, lua in mapped
            },
            *rest,
        )

    def bring_back(self, server):
        """Migrate a server back to the first host, as the page says."""
        here = self.driver_of('host1').services.host
        there = self.driver_of('host2').services.host
        script = _script()
        self.assertIn(_LOGON, script)
        argv = [
            'script',
            self.lpar_uuid(server),
            here.reader.last_or_read().system.name,
            '127.0.0.1',
        ]
        rest = there.live_migrations._adapter
        with fixtures.MockPatchObject(sys, 'argv', argv):
            exec(script.replace(_LOGON, ''), {'rest': rest})  # noqa: S102

    def driver_of(self, host):
        """Return the driver of a running nova-compute."""
        return self.computes[host].manager.driver


class UnsettledTest(UnsettledTestCase):
    """Live migrations after which Nova does not know where the server is."""

    def test_nothing_is_lost_while_nova_does_not_know(self):
        self.tell_stories()

    @proofs.proves('operation.live-migrate')
    def story_killed_before_the_end_server_is_as_it_was(self):
        server = self.boot_live(
            volumes=2,
            networks=[{'port': self.make_port()['id']}],
            request={'config_drive': True},
        )
        before = self.whole(server, 'host1')
        attachments = self.attachments(server)
        self.control().set_job_mode('manual', 'Migrate')
        for owner, name in (
            (live_migrations.LiveMigrations, '_move'),
            # While PowerVM moves it, so that the start aborts that.
            (job.Job, '_monitor_job'),
        ):
            with self.subTest(name):
                is_job = name == '_monitor_job'
                when = {'when': self.begin_job} if is_job else {}
                self.kill_in(server, owner, name, **when)
                self.assertIsNone(self.mark(server))
                self.assertEqual(attachments, self.attachments(server))
                self.assertEqual(before, self.whole(server, 'host1'))
                # Nova has Cinder unmap what is not on record.
                self.reboot_hard(server)
                self.assertEqual(attachments, self.attachments(server))
                self.assert_right(server, before)
        self.control().set_job_mode('immediate', 'Migrate')
        paths = [record['path'] for record in self.control().journal()]
        self.assertIn('MigrateAbort', ' '.join(paths))

    @proofs.proves('operation.live-migrate')
    def story_host_that_does_not_answer_keeps_what_it_has(self):
        server = self.boot_live(
            volumes=1, networks=[{'port': self.make_port()['id']}]
        )
        before = self.whole(server, 'host1')
        silent = exception.LparUnlocated(host='host2', reason='it is silent')
        with (
            mock.patch.object(
                lpar_locations.LparLocations, 'there', side_effect=silent
            ),
        ):
            after = self.migrate_live(server, 'error')
            self.assertEqual('ERROR', after['status'])
            self.assertEqual('host2', self.mark(server))
            self.assertEqual(before, self.whole(server, 'host2'))
            self.reboot_hard(server, expected='ERROR')
            self.assertEqual(before, self.whole(server, 'host2'))
        # Nova has volumes taken from the host that it believes to be wrong.
        (volume,) = self.volumes_of(server)
        with self.assertRaisesRegex(
            nova_exception.NovaException, 'stays connected'
        ):
            self.driver_of('host2').detach_volume(
                nova_context.get_admin_context(),
                {'serial': volume, 'driver_volume_type': 'fibre_channel'},
                self.instance(server),
                '/dev/sdb',
            )
        self.assertEqual(before, self.whole(server, 'host2'))
        # The host that has it does not build it once more.
        self.computes['host1'].stop()
        self.down('host1', is_down=True)
        self.api.post_server_action(server['id'], {'evacuate': {}})
        self.await_found(
            lambda: (
                self.migration(server)['migration_type'] == 'evacuation'
                and self.migration(server)['status'] in ('error', 'failed')
            ),
            'the evacuation has no end',
        )
        self.assertIn('already exists', self.stdlog.logger.output)
        self.assertEqual(before, self.whole(server, 'host2'))
        self.down('host1', is_down=False)
        for host in ('host1', 'host2'):
            self.restart_host(host)
            self._run_periodics()
        self.assertEqual(before, self.whole(server, 'host2'))
        self.bring_back(server)
        self.restart_host('host1')
        self.reboot_hard(server)
        self.assertEqual('host1', self.host_of(server))
        self.assertEqual(before, self.whole(server, 'host1'))
        self.assertEqual({'host1'}, self.bound(server))

    @proofs.proves('operation.live-migrate')
    def story_destination_that_loses_its_power_costs_no_server(self):
        server = self.boot_live(volumes=1)
        before = self.whole(server, 'host1')
        control = self.control()
        control.set_job_mode('manual', 'Migrate')

        def lose_while_it_moves():
            self.ask_to_migrate(server)
            self.await_found(self.jobs, 'there is no job')
            for _ in range(2):
                control.advance_jobs()
            self.lose('host2')
            self._wait_for_server_parameter(
                server,
                {'OS-EXT-STS:task_state': None, 'status': 'ERROR'},
                wait_for_fault_key=False,
            )
            self.assertEqual('running', self.lpar(server).state)
            self._run_periodics()
            self.reboot_hard(server)
            self.assertIn('cannot clean up', self.logged())

        lose_while_it_moves()
        self.regain('host2')
        self._run_periodics()
        self.reboot_hard(server)
        self.assert_right(server, before)

        # An administrator says that it will not come back.
        control.set_partition(self.name(server), rmc_state='active')
        lose_while_it_moves()
        self.down('host2', is_down=True)
        self._run_periodics()
        self.reboot_hard(server)
        self.assertEqual(before, self.whole(server, 'host1'))
        self.down('host2', is_down=False)
        self.regain('host2')
        # It does not know that.
        jobs_there = self.driver_of('host2').services.host.live_migrations
        jobs_there.recover(self.lpar_uuid(server))
        self.assert_right(server, before)
        control.set_job_mode('immediate', 'Migrate')

    @proofs.proves('operation.live-migrate')
    def story_job_without_an_answer_may_still_begin(self):
        server = self.boot_live(volumes=1)
        before = self.whole(server, 'host1')
        attachments = self.attachments(server)
        silent = exception.RestSilent(server='it', reason='it is silent')
        with (
            mock.patch.object(
                jobs.RestLiveMigrations, 'migrate', side_effect=silent
            ),
        ):
            after = self.migrate_live(server, 'error')
        self.assertEqual('ERROR', after['status'])
        # Nothing was taken from the destination, where it may arrive.
        _, real = self.attachments(server)
        self.assertEqual(2, len(real))
        self.assertEqual('host2', self.mark(server))
        # It has not begun until the next cycle.
        self._run_periodics()
        self.assertEqual(attachments, self.attachments(server))
        self.assertEqual(before, self.whole(server, 'host1'))
        self.reboot_hard(server)
        self.assert_right(server, before)

    @proofs.proves('operation.live-migrate')
    def story_job_of_which_pypowervm_says_that_it_failed_may_begin(self):
        server = self.boot_live(volumes=1)
        request = adapter.Session.request

        def lose_job(session, method, path, *args, **options):
            if method == 'PUT' and path.endswith('/do/Migrate'):
                raise pvm.ConnectionError('the answer is lost')
            return request(session, method, path, *args, **options)

        with mock.patch.object(adapter.Session, 'request', lose_job):
            after = self.migrate_live(server, 'error')
        self.assertEqual('ERROR', after['status'])
        self.assertEqual('host2', self.mark(server))
        _, real = self.attachments(server)
        self.assertEqual(2, len(real))

    @proofs.proves('operation.live-migrate')
    def story_killed_after_the_job_nothing_is_lost(self):
        port = self.make_port()
        server = self.boot_live(
            volumes=1,
            networks=[{'port': port['id']}],
            request={'config_drive': True},
        )
        before = self.whole(server, 'host1')
        (volume,) = self.volumes_of(server)
        self.kill_in(server, live_migrations.LiveMigrations, '_ending')

        def assert_safe():
            self.assertIsNone(self.lpar(server, 'host1'))
            self.assertEqual('running', self.lpar(server, 'host2').state)
            self.assertEqual(
                self.unloaded(before), self.whole(server, 'host2')
            )

        assert_safe()
        # Nova takes another host for one that has been evacuated.
        self.flags(host='host1')
        self.detach(server, volume, expected='error')
        assert_safe()
        self.api.detach_interface(server['id'], port['id'])
        self.await_refusal(server, 'detach_interface')
        self.assertEqual(
            server['id'], self.neutron._ports[port['id']]['device_id']
        )
        assert_safe()
        self.reboot_hard(server, expected='ERROR')
        self.assertIn('a live migration has brought it', self.fault(server))
        assert_safe()
        self.api.post_server_action(server['id'], {'os-stop': None})
        self.await_refusal(server, 'stop')
        self.assertEqual('ERROR', self.api.get_server(server['id'])['status'])
        assert_safe()
        self.api.delete_server(server['id'])
        self.await_found(
            lambda: self.instance(server).task_state is None,
            'the deletion has no end',
        )
        self.assertEqual('ERROR', self.api.get_server(server['id'])['status'])
        assert_safe()
        # The reboot has had Cinder unmap the volume from this host.
        self._run_periodics()
        # Killed a little later, the source would have deleted this.
        disks = self.driver_of('host1').services.host.disks
        disks.remove_stems([storage.stem(self.lpar_uuid(server))])
        self.assertEqual([], self.media())
        self.bring_back(server)
        self.assertEqual(self.unloaded(before), self.whole(server, 'host1'))
        self._run_periodics()
        self.assertEqual(before, self.whole(server, 'host1'))
        (medium,) = self.media()
        self.assertIn(server['id'].encode(), self.contents(medium))
        self.reboot_hard(server)
        self.assert_right(server, before)
        # A reboot that comes before the cycle gives it its config drive, too.
        disks.eject(self.lpar_uuid(server))
        self.mark_again(server)
        self.reboot_hard(server)
        self.assert_right(server, before)
        # Nothing else depends on that.
        self.mark_again(server)
        self.control().clear_journal()
        with mock.patch.object(
            live_config_drives, 'insert', side_effect=self.fail_while_it_runs
        ):
            self.reboot_hard(server)
        self.assertIn('drive is not connected', self.stdlog.logger.output)
        self.assert_right(server, before)
        self.detach(server, volume)

    def await_refusal(self, server, action):
        """Wait until an action is refused, as its server is elsewhere."""
        words = 'a live migration has brought it'
        self.await_found(
            lambda: any(
                words in (event.get('details') or '')
                for event in self.events(server, action)
            ),
            f'{action} is not refused',
        )

    def mark_again(self, server):
        """Record that a live migration of a server has not ended."""
        system_metadata.write_live_migration(self.instance(server), 'host2')

    def fail_while_it_runs(self, *_):
        """Fail to connect a config drive, before its guest is stopped."""
        paths = ' '.join(entry['path'] for entry in self.control().journal())
        self.assertNotIn('PowerOff', paths)
        raise exception.RestError(action='connecting it', reason='it fails')

    @proofs.proves('operation.live-migrate')
    def story_killed_after_neutron_has_bound_its_ports_server_comes_back(self):
        server = self.boot_live(
            volumes=1, networks=[{'port': self.make_port()['id']}]
        )
        before = self.whole(server, 'host1')
        for is_first in ('cycle', 'reboot'):
            with self.subTest(is_first):
                self.kill_in(
                    server, live_migrations.LiveMigrations, 'disconnect'
                )
                self.assertEqual({'host2'}, self.active(server))
                self.bring_back(server)
                if is_first == 'cycle':
                    self._run_periodics()
                self.reboot_hard(server)
                self._run_periodics()
                self.assert_right(server, before)
                self.assertEqual({'host1'}, self.active(server))
                self.control().set_partition(
                    self.name(server), rmc_state='active'
                )

    @proofs.proves('operation.live-migrate', 'operation.evacuate')
    def story_server_of_lost_source_is_evacuated_to_where_it_runs(self):
        server = self.boot_live(
            volumes=1,
            networks=[{'port': self.make_port()['id']}],
            request={'config_drive': True},
        )
        before = self.whole(server, 'host1')
        with self.threads.killed(live_migrations.LiveMigrations, '_ending'):
            self.ask_to_migrate(server)
        migration = self.migration(server)['uuid']
        self.lose_source()
        # The page tells to remove the LPAR first.
        self.evacuate(server, 'failed')
        self.assertEqual({'host1', 'host2'}, self.bound(server))
        self.assertEqual('running', self.lpar(server, 'host2').state)
        allocations = 'openstack resource provider allocation delete'
        self.follow_page(
            {
                'openstack compute service set --down <source> nova-compute': (
                    lambda: None
                ),
                'pvmctl lpar power-off -i id=<id>': lambda: None,
                'pvmctl lpar delete -i id=<id>': lambda: self.delete_lpar(
                    server, 'host2'
                ),
                f'{allocations} <server>': lambda: self.placement.delete(
                    f'/allocations/{server["id"]}'
                ),
                'openstack server evacuate --host <other host> <server>': (
                    lambda: self.evacuate(server, 'done')
                ),
                'openstack compute service set --up <source> nova-compute': (
                    self.regain_source
                ),
                f'{allocations} <uuid of the live migration>': lambda: (
                    self.placement.delete(f'/allocations/{migration}')
                ),
            }
        )
        for host in ('host1', 'host2'):
            self.restart_host(host)
        for _ in range(2):
            self._run_periodics()
        self.assertEqual({'host2'}, self.bound(server))
        self.assertEqual([], self.vlans('host1'))
        # It can go everywhere again.
        self.control('host2').set_partition(
            self.name(server), rmc_state='active'
        )
        self.migrate_live(server, 'completed', 'host1')
        self.assert_right(server, before)
        held = self._get_allocations_by_server_uuid(migration)
        self.assertEqual({}, held)

    def lose_source(self):
        """Lose the first host, and tell Nova that it is down."""
        self.computes['host1'].stop()
        self.control('host1').power_off_system()
        self.down('host1', is_down=True)

    def regain_source(self):
        """Start the first host again, and tell Nova that it is up."""
        self.control('host1').power_on_system()
        self.restart_host('host1')
        self.down('host1', is_down=False)

    def evacuate(self, server, status):
        """Evacuate a server to the second host."""
        count = len(self.migrations(server))
        self.admin_api.post_server_action(
            server['id'], {'evacuate': {'host': 'host2'}}
        )

        def find_end():
            found = self.migrations(server)[count:]
            return found and found[-1]['status'] in ('error', 'failed', 'done')

        self.await_found(find_end, 'the evacuation has no end')
        self.assertEqual(status, self.migration(server)['status'])
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )

    def delete_lpar(self, server, host):
        """Stop and delete an LPAR, as an administrator of its host."""
        self.control(host).set_partition(
            self.name(server), state='not activated'
        )
        rest = self.driver_of(host).services.host.live_migrations._adapter
        (lpar,) = logical_partition.LPAR.search(rest, name=self.name(server))
        lpar.delete()

    def follow_page(self, steps):
        """Follow the page on stuck servers if the source is lost.

        :param steps: What is done in place of each command, in their order.
        """
        lines = [line for line, _ in pages.commands('admin/stuck-servers')]
        first = lines.index(next(iter(steps)))
        self.assertEqual([*steps], lines[first : first + len(steps)])
        for step in steps.values():
            step()
