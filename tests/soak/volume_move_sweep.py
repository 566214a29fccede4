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

"""Each request of each step of a move with volumes fails.

Nova and Cinder are real, the array is Cinder's simulator, and each host has
two Virtual I/O Servers. A server boots from a volume, has another one, a
config drive, and devices. The sweep goes over every request that the hosts
get, and every one that nova-compute makes to Cinder.

It is judged by what array, hosts, Placement, Cinder's API and Nova's database
tell, not by the driver: while a step runs, at most one guest writes to a
volume; right after it, nobody reaches what another one may get; and after the
commands of the pages, all of them agree.

For the environment see :mod:`tests.soak.move_sweep`.
"""

import base64
import collections
import random
import re
import threading

import fixtures
from cinderclient import exceptions as cinder_exception
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.volume import cinder as nova_cinder
from oslo_log import log as logging
from pypowervm import adapter
from pypowervm.tasks import hdisk

from demo import volume_world
from emulator.tests import base as emulator_base
from powervm_emulator import worlds
from tests.functional import killed_threads
from tests.functional import real_cinder
from tests.soak import SEED
from tests.soak import move_sweep
from tests.soak import request_faults

LOG = logging.getLogger(__name__)

# Without a swap disk, which keeps a server at home.
_SMALL = {'memory_mb': 512}
_LARGE = {'memory_mb': 1024, 'vcpu': 2, 'disk': 2}
#: What stands for a host in a case whose request is one to Cinder.
CINDER = 'cinder'
REFUSED, LOST = FAULTS = 'refused', 'lost answer'
#: Methods of ``nova.volume.cinder.API`` that change nothing, and others.
_READS = ('attachment_get', 'attachment_get_all')
_WRITES = (
    'attachment_create',
    'attachment_update',
    'attachment_complete',
    'attachment_delete',
)
#: Requests after which another guest may write to a volume.
_CHANGES_WRITERS = re.compile('/(VirtualIOServer|do/PowerO)')
#: What the UDID of a disk of the array says in Base64.
_ARRAY = b'3IBM'
_DATA = b'\x01boot sector of a volume'
_WRITTEN = b'written by the guest'
#: The log tells of disks that stay, and how to remove them.
_STAYS = re.compile('Virtual I/O Server (\\S+) may keep .* `rmdev -dev')
#: The log tells of mappings that stay, and of paths that are missing.
_REBOOT = re.compile('Reboot the server hard')


class CinderCalls(fixtures.Fixture):
    """Counts what Nova and the driver ask Cinder for, and disturbs one call.

    It has the methods of :class:`.killed_threads.RequestKills`.

    :param threads: The fixture that ends threads.
    :param note: Called when something may have changed.
    :ivar made: The names of the calls since :meth:`clear`.
    :ivar killed: Set when the call was reached.
    """

    def __init__(self, threads, note):
        self._threads = threads
        self._note = note
        self._lock = threading.Lock()
        self.disarm()
        self.clear()

    def _setUp(self):
        for name in _READS + _WRITES:
            original = self._threads.guard(getattr(nova_cinder.API, name))
            self.useFixture(
                fixtures.MockPatchObject(
                    nova_cinder.API, name, new=self._counted(name, original)
                )
            )

    def clear(self):
        """Count anew."""
        self.made = []

    def arm(self, number, fault):
        """Disturb a call, which is counted from 1."""
        self.clear()
        self.killed = threading.Event()
        self._number, self._fault = number, fault

    def disarm(self):
        """Disturb no call."""
        self.killed = threading.Event()
        self._number, self._fault = 0, ''

    def _counted(self, name, original):
        def call(*args, **options):
            with self._lock:
                self.made.append(name)
                is_it = len(self.made) == self._number
                fault = self._fault if is_it else ''
            if fault in (REFUSED, request_faults.KILLS[0]):
                self._reach(fault)
            result = original(*args, **options)
            self._note()
            if fault:
                self._reach(fault)
            return result

        return call

    def _reach(self, fault):
        self.killed.set()
        if fault == REFUSED:
            raise cinder_exception.ClientException(503, 'injected')
        if fault == LOST:
            raise nova_exception.CinderConnectionFailed(reason='injected')
        self._threads.kill()


class VolumeMoveSweepTestCase(move_sweep.MoveSweepTestCase):
    """Runs the steps of one kind of move, each with its faults."""

    has_pool = False
    small = _SMALL
    large = _LARGE

    def setUp(self):
        self._violations = []
        # Hosts that nova-compute does not run on.
        self._lost = set()
        super().setUp()
        self.calls = self.useFixture(
            CinderCalls(self.threads, self._note_writers)
        )
        self._watch()

    def start_hosts(self, **options):
        """Start the hosts, and Cinder with an array that they all reach."""
        for name in self.host_names:
            world = self._world(int(name.removeprefix('host')))
            self.start_host(name, world=world)
        self.cinder = self.useFixture(real_cinder.RealCinder(self))
        self._make_volumes()

    def _world(self, number):
        made = worlds.default() | {'guests_configure_rmc': True}
        (system,) = made['systems']
        system |= {
            'name': f'emulated-9009-22A-EMU000{number}',
            'serial': f'EMU000{number}',
        }
        return volume_world.add_to(made, number)

    def _make_volumes(self):
        self.volumes = [
            self.cinder.create_bootable(_DATA),
            self.cinder.create(data=_DATA),
        ]

    def _watch(self):
        """Look who writes to volumes whenever that may have changed."""
        send = adapter.Session.request

        def send_and_note(session, method, path, *args, **options):
            try:
                return send(session, method, path, *args, **options)
            finally:
                if method != 'GET' and _CHANGES_WRITERS.search(path):
                    self._note_writers()

        self.useFixture(
            fixtures.MockPatchObject(
                adapter.Session, 'request', new=send_and_note
            )
        )

    # Cases

    def boot_options(self):
        """Have a server boot from a volume, and get another one."""
        disks = [
            {
                'source_type': 'volume',
                'destination_type': 'volume',
                'uuid': volume,
                'boot_index': -number,
            }
            for number, volume in enumerate(self.volumes)
        ]
        return {'imageRef': '', 'block_device_mapping_v2': disks}

    def write_to_root(self, server):
        """Write to the volumes of a server; return what they contain."""
        data = base64.b64encode(_WRITTEN).decode()
        for volume in self.volumes:
            udid = self.cinder.find(volume).udid
            self.control().write_disk(udid, data, len(_DATA))
        self._slots = self._slots_of(server, 'host1')
        return _DATA + _WRITTEN

    def cases(self, step, devices):
        """Add the calls of Cinder to the requests to the hosts."""
        found = super().cases(step, devices)
        for number, name in enumerate(self._asked, start=1):
            kinds = request_faults.KILLS if request_faults.KILLING else FAULTS
            if not request_faults.ALL:
                kinds = FAULTS + request_faults.KILLS
            found += [
                move_sweep.Case(step, devices, CINDER, number, name, kind)
                for kind in kinds
                if name not in _READS or kind in (FAULTS[0], kinds[0])
            ]
        # An administrator who sets a state too early is another subject.
        return [
            case for case in found if case.fault != request_faults.STATE_SET
        ]

    def run_case(self, case):
        """Run a case; find violations of the rule about writers, too."""
        self._violations.clear()
        reached = super().run_case(case)
        self.assertEqual([], self._violations)
        return reached

    def _inject(self, case, server):
        self.calls.clear()
        if case.host != CINDER:
            server = super()._inject(case, server)
            self._asked = [*self.calls.made]
            return server
        self.calls.arm(case.number, case.fault)
        self._ask(server)
        if case.fault in request_faults.KILLS:
            return self._outlive(self.calls, server, *self.host_names)
        server = self.await_end(server)
        self._reached = self.calls.killed.is_set()
        self.calls.disarm()
        return server

    def _clear_by_force(self):
        """Replace the volumes, too: somebody may have them."""
        for volume in self.volumes:
            for one in self._attachments(volume):
                self.cinder.unmap(one['id'])
        self._make_volumes()
        super()._clear_by_force()
        for host, server in self._servers():
            self._remove_unused(host, server)
        self._nothing = self.whole_state()

    # What follows a fault

    def _recover(self, server):
        """Do what the log says besides."""
        server = super()._recover(server)
        if _REBOOT.search(self.logged()):
            server = self.act(server, 'reboot', type='HARD')
        self._remove_disks()
        for volume in self.volumes:
            spare = [
                one['id']
                for one in self._attachments(volume)
                if one['status'] == 'reserved'
            ]
            # As the page on stuck servers says.
            if len(spare) < len(self._attachments(volume)):
                for attachment in spare:
                    self._outcomes['attachment deleted by hand'] += 1
                    self.cinder.unmap(attachment)
        return server

    def _is_root_small(self, server):
        return False

    def _remove_disks(self):
        """Remove the disks that the log asks to remove with ``rmdev``."""
        names = {*_STAYS.findall(self.logged())}
        for host, server in self._servers():
            if server['name'] in names:
                self._remove_unused(host, server)

    def _remove_unused(self, host, server):
        client = emulator_base.adapter_for(self.hosts[host].emulator)
        for disk in self._disks(server).values():
            if disk['available']:
                self._outcomes['disk removed by hand'] += 1
                hdisk.remove_hdisk(
                    client,
                    self.host_state(host)['name'],
                    disk['name'],
                    server['uuid'],
                )

    # What array and hosts tell

    def _servers(self):
        """Yield the names of hosts, and their Virtual I/O Servers."""
        for host in self.host_names:
            for partition in self.host_state(host)['partitions']:
                if 'physical_volumes' in partition:
                    yield host, partition

    def _disks(self, server):
        """Return the disks of the array that a server has, by UDID."""
        return {
            disk['udid']: disk
            for disk in server['physical_volumes']
            if base64.b64decode(disk['udid'][2:]).startswith(_ARRAY)
        }

    def _mappings(self, server):
        """Return the mappings of disks of a server."""
        return [
            mapping
            for mapping in server['scsi_mappings']
            if mapping['kind'] == 'PhysicalVolume'
        ]

    def _slots_of(self, server, host):
        """Return client, VIOS, slot and UDID of what a host maps."""
        name = server['OS-EXT-SRV-ATTR:instance_name']
        return sorted(
            (found['name'], mapping['client_slot'], mapping['udid'])
            for one, found in self._servers()
            if one == host
            for mapping in self._mappings(found)
            if mapping['client'] == name
        )

    def _ports(self, host):
        """Return the worldwide port names of a host."""
        number = int(host.removeprefix('host'))
        world = self._world(number)
        return sorted(
            port['wwpn']
            for slot in world['systems'][0]['slots']
            for port in slot.get('fibre_channel_ports', ())
        )

    def _writers(self):
        """Return host and name of the guests that reach disks, by UDID."""
        writers = collections.defaultdict(set)
        for host, server in self._servers():
            running = {
                partition['name']
                for partition in self.host_state(host)['partitions']
                if partition['state'] != 'not activated'
            }
            disks = self._disks(server)
            for mapping in self._mappings(server):
                disk = disks.get(mapping['udid'])
                if disk and not disk['stale'] and mapping['client'] in running:
                    writers[mapping['udid']].add((host, mapping['client']))
        return dict(writers)

    def _note_writers(self):
        """Note when several guests reach one disk."""
        self._violations += [
            f'{udid}: {sorted(found)}'
            for udid, found in self._writers().items()
            if len(found) > 1
        ]

    # Checks

    def assert_safe(self, server):
        """Verify that nobody reaches what another one has or may get."""
        self._note_writers()
        self.assertEqual([], self._violations)
        name = server['OS-EXT-SRV-ATTR:instance_name']
        for host, found in self._servers():
            disks, mapped = self._disks(found), self._mappings(found)
            udids = [mapping['udid'] for mapping in mapped]
            self.assertEqual(sorted({*udids}), sorted(udids))
            self.assertLessEqual({m['client'] for m in mapped}, {name})
            # A host that is lost learns of nothing.
            if host in self._lost:
                continue
            stale = [udid for udid in udids if disks[udid]['stale']]
            self.assertEqual([], stale)
        for volume in self.volumes:
            found = self.cinder.find(volume)
            self.assertIn(
                found.wwpns, [[], *map(self._ports, self.host_names)]
            )
            self.assertEqual(self.root, found.file.read_bytes())
        self.assert_burns()

    def adapters(self, server, host='host1'):
        """Return those that are not the driver's own."""
        return [
            found
            for found in super().adapters(server, host)
            if found['switch'] != 'MGMTSWITCH'
        ]

    def assert_disks(self, record, server, host):
        """Verify that all agree on who has which volume, and where."""
        disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        )
        recorded = {
            disk.volume_id: disk.attachment_id
            for disk in disks
            if disk.is_volume
        }
        self.assertEqual({*self.volumes}, recorded.keys())
        udids = set()
        for volume in self.volumes:
            found = self.cinder.find(volume)
            udids.add(found.udid)
            self.assertEqual(self._ports(host), found.wwpns)
            self.assertEqual(self.root, found.file.read_bytes())
            self.assertEqual('in-use', self.cinder.status(volume))
            self.assertEqual(
                [(recorded[volume], server['id'], 'attached')],
                [
                    (one['id'], one['instance'], one['status'])
                    for one in self._attachments(volume)
                ],
            )
        self.assertEqual(self._slots, self._slots_of(server, host))
        writer = host, server['OS-EXT-SRV-ATTR:instance_name']
        self.assertEqual({udid: {writer} for udid in udids}, self._writers())
        for one, found in self._servers():
            self.assertEqual(
                udids if one == host else set(), {*self._disks(found)}
            )
        (medium,) = self.media(host)
        self.assertEqual(
            {host: [medium['name']]},
            {
                one: [
                    mapping['name']
                    for mapping in self.mappings(one)
                    if mapping['kind'] != 'PhysicalVolume'
                ]
                for one in self.host_names
                if self.mappings(one)
            },
        )

    def _attachments(self, volume):
        """Return the attachments of a volume that Cinder has."""
        return self.cinder.request(
            'GET', f'/attachments/detail?volume_id={volume}'
        )['attachments']

    def assert_nothing_left(self):
        """Verify that Cinder and the array have nothing left, either."""
        for volume in self.volumes:
            self.cinder.await_status(volume, 'available')
            self.assertEqual([], self._attachments(volume))
        (array,) = self.cinder.network.told
        self.assertEqual(([], []), (array['hosts'], array['maps']))
        super().assert_nothing_left()


class Resize(VolumeMoveSweepTestCase):
    """Resizes within a host."""

    host_names = ('host1',)
    devices = (('g', 'go'),)


class Migration(VolumeMoveSweepTestCase):
    """Migrates to another host without a change of the flavor."""

    migrates = True
    devices = (('go', ''),)


class Evacuation(VolumeMoveSweepTestCase):
    """Evacuates to another host, and starts the old one again.

    In some cases the guest goes on there: the array alone ends its writing.
    """

    migrates = True
    steps = ('evacuate', 'start')
    devices = (('go', ''),)

    def start_hosts(self, **options):
        super().start_hosts(**options)
        self._neighbours = [
            found['name']
            for found in self.host_state('host1')['partitions']
            if found['state'] == 'running'
        ]
        self._start_neighbours()

    def _start_neighbours(self):
        """Start what is no server, and has run before."""
        for name in self._neighbours:
            self.control('host1').set_partition(
                name, state='running', rmc_state='active'
            )

    def _prepare(self, server):
        self._lose()
        if self.case.step == 'start':
            self._evacuate(server)
            server = self._start(self.await_end(server))
        return server

    def _lose(self):
        """Have Nova take the first host for down, which it may be."""
        self.computes['host1'].stop()
        if self._number % 3:
            self.control('host1').power_off_system()
        self._force_down('host1', True)
        self._lost.add('host1')

    def _force_down(self, host, is_down):
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host=host
        )
        self.admin_api.put_service_force_down(service['id'], is_down)

    def restart_host(self, name='host1', **options):
        """Start only what is there."""
        if name not in self._lost:
            super().restart_host(name, **options)

    def _run_periodics(self):
        """Run those of the nova-computes that are up."""
        context = nova_context.get_admin_context()
        for host in {*self.host_names} - self._lost:
            self.computes[host].manager.update_available_resource(context)

    def _regain(self):
        """Start the first host again, as often as that fails."""
        self.control('host1').power_on_system()
        self._start_neighbours()
        self._lost.discard('host1')
        self.restart_host('host1')
        self._force_down('host1', False)

    def _evacuate(self, server):
        body = {'evacuate': {'host': 'host2'}}
        self.admin_api.post_server_action(server['id'], body)

    def _start(self, server):
        """Start a server, which Nova stops at the end of an evacuation."""
        if server['status'] == 'SHUTOFF':
            self.ask(server, 'os-start')
            server = self.await_end(server)
        return server

    def _ask(self, server):
        if self.case.step == 'evacuate':
            self._evacuate(server)
            return
        try:
            self._regain()
        except (Exception, killed_threads.Killed) as error:
            LOG.warning('The start has failed: %r', error)
            self._lost.add('host1')

    def _recover(self, server):
        """Do what the pages on evacuations and stuck servers say."""
        self._run_periodics()
        if self._record(server['id']).host == 'host1':
            if self._number % 2:
                self._evacuate(server)
                self.await_end(server)
            else:
                self._regain()
                self.set_state(server, 'active')
                self.act(server, 'reboot', type='HARD')
        # A start that failed is repeated.
        if self._lost or self._reached:
            self._regain()
        self._run_periodics()
        server = self._start(self.await_end(server))
        return super()._recover(server)

    def is_stuck(self, server):
        """Return whether its task does not end."""
        return self._record(server['id']).task_state is not None

    def _clear_by_force(self):
        self._regain()
        super()._clear_by_force()


class Shelving(VolumeMoveSweepTestCase):
    """Shelves a server, and unshelves it on the other host."""

    migrates = True
    steps = ('shelve', 'unshelve')
    devices = (('go', ''),)
    _is_gone = False

    def _prepare(self, server):
        self._is_gone = False
        if self.case.step == 'unshelve':
            server = self.act(server, 'shelve')
            self.assertEqual('SHELVED_OFFLOADED', server['status'])
        return server

    def _ask(self, server):
        if self.case.step == 'shelve':
            self.ask(server, 'shelve')
        else:
            self.ask(server, 'unshelve', host='host2')

    def _recover(self, server):
        """Unshelve what is shelved; do what the page says of the rest."""
        self._run_periodics()
        server = self.api.get_server(server['id'])
        if self._record(server['id']).host is None and self.is_stuck(server):
            # Nova reboots nothing without a host.
            return self._abandon(server)
        if self.is_stuck(server) or server['status'] == 'ERROR':
            server = self._end_by_hand(server)
        if server['status'] == 'SHELVED':
            server = self.act(server, 'shelveOffload')
        if server['status'] == 'SHELVED_OFFLOADED':
            # Those that Nova leaves if an unshelve fails before its claim.
            self._delete_server_allocations(server['id'])
            # The array may map volumes to the host that has failed.
            server = self.act(server, 'unshelve', host='host2')
            if server['status'] == 'SHELVED_OFFLOADED':
                # It has failed in the block device setup: Cinder has deleted
                # an attachment, which nothing of Nova's replaces there.
                return self._abandon(server)
        return super()._recover(server)

    def _abandon(self, server):
        """Delete a server; its volumes stay."""
        self._outcomes['deleted'] += 1
        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)
        self._is_gone = True
        # As the guide to networks says: the record of it went with the server.
        for host in self.host_names:
            self.delete_vlans(host)
        return server

    def assert_whole(self, server):
        """Verify a server that was not deleted."""
        if not self._is_gone:
            super().assert_whole(server)

    def _delete_server(self, server):
        if not self._is_gone:
            super()._delete_server(server)

    def is_stuck(self, server):
        """Return whether its task does not end."""
        return self._record(server['id']).task_state is not None


if request_faults.ALL:

    class WholeResizeTest(move_sweep.WholeSweepMixin, Resize):
        pass

    class WholeMigrationTest(move_sweep.WholeSweepMixin, Migration):
        pass

    class WholeEvacuationTest(Evacuation):
        def test_fault_at_any_request_of_evacuation(self):
            self.sweep_all('evacuate')

        def test_fault_at_any_request_of_start(self):
            self.sweep_all('start')

    class WholeShelvingTest(Shelving):
        def test_fault_at_any_request_of_shelve(self):
            self.sweep_all('shelve')

        def test_fault_at_any_request_of_unshelve(self):
            self.sweep_all('unshelve')

else:
    _CHANCE = random.Random(SEED)  # noqa: S311

    _KINDS = Resize, Migration, Evacuation, Shelving

    class SampleTest(_CHANCE.choice(_KINDS)):
        def test_fault_at_any_request_leaves_servers_whole(self):
            step = _CHANCE.choice(self.steps)
            cases = self.cases(step, self.variant(self.devices[0]))
            self.sweep(_CHANCE.sample(cases, request_faults.SAMPLE))
