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

"""Servers that move with devices, and all that hosts and Placement have."""

import base64
import collections
import contextlib
import io
import pprint
import textwrap

import fixtures
from nova import context as nova_context
from nova import objects
from nova.cmd import manage
from oslo_utils import timeutils
from pypowervm.wrappers import logical_partition

from emulator.tests import base as rest_clients
from nova_powervm.lpar import storage
from powervm_emulator.nouns.partition import ownership
from tests.functional import base
from tests.functional import killed_threads
from tests.functional import moving
from tests.functional import other_tool
from tests.functional import pools
from tests.functional import real_neutron

GPU, SCRATCH = 'CUSTOM_GPU', 'CUSTOM_SCRATCH'
CLASSES = {'g': GPU, 'o': SCRATCH}

#: Four devices that can be used again, and two that cannot.
INVENTORY = base.GPUS + textwrap.dedent("""\
    nvme:
      identification:
        vendor_id: "144D"
        device_id: "A822"
      resource_class: CUSTOM_SCRATCH
      one_time_use: true
    """)

_WRITTEN = b'written by the guest'
_ENDED = (
    'finished',
    'error',
    'failed',
    'confirmed',
    'reverted',
    # Of evacuations.
    'done',
    'completed',
)
_SECONDS = 120
_POLL = 0.1


def _age(move):
    """Return how many seconds ago Nova has updated a migration."""
    age = timeutils.utcnow(with_timezone=True) - move.updated_at
    return int(age.total_seconds())


class Givings(fixtures.Fixture):
    """Notes which slots LPARs get, without changing anything."""

    def __init__(self):
        super().__init__()
        self._given = collections.defaultdict(set)

    def _setUp(self):
        settle = ownership.settle

        def note_and_settle(host, partition, had):
            self._given[partition.system.name] |= set(partition.profile_slots)
            return settle(host, partition, had)

        self.useFixture(
            fixtures.MockPatchObject(ownership, 'settle', note_and_settle)
        )

    def given(self, system):
        """Return the DRC indexes of all slots that LPARs of a system got."""
        return self._given[system]

    def forget(self):
        """Begin anew."""
        self._given.clear()


class MoveSiteTestCase(moving.MovingTestCase, pools.PoolTestCase):
    """Moves one server at a time, and reads everything afterwards.

    :cvar has_pool: Whether the disks are in a shared pool.
    :cvar host_names: The hosts.
    :cvar has_neutron: Whether a neutron server has the port.
    """

    inventory = INVENTORY
    has_pool = True
    host_names: tuple[str, ...] = ('host1', 'host2')
    has_neutron = False

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=len(self.host_names) == 1)
        self._flavor_ids = {}
        # Events that nobody finishes, because nova-compute was killed.
        self._dead_events = set()
        self.givings = self.useFixture(Givings())
        options = {}
        if self.has_neutron:
            self.ports = self.useFixture(real_neutron.RealNeutron())
            options['bridge_mappings'] = real_neutron.BRIDGES
        self.port = self.make_port()['id']
        self.start_hosts(**options)
        self.roots = {
            host: self._get_provider_uuid_by_host(host)
            for host in self.host_names
        }
        #: Host and DRC index -> resource class of the device.
        self.kinds = {
            key: next(iter(self._get_provider_inventory(uuid)))
            for key, uuid in self.providers().items()
        }

    def start_hosts(self, **options):
        """Start the hosts.

        :param options: As for :meth:`start_host`.
        """
        if self.has_pool:
            self.start_site(self.host_names, **options)
        else:
            self.start_host('host1')

    def make_port(self, *args, **options):
        """Create a port in the neutron server, if there is one."""
        if self.has_neutron:
            return self.ports.make_port()
        return super().make_port(*args, **options)

    def show_port(self):
        """Return the port of the server, as Neutron has it."""
        if self.has_neutron:
            return self.ports.show_port(self.port)
        return self.neutron.show_port(self.port)['port']

    # What users do

    def flavor(self, devices, **sizes):
        """Return the id of a flavor.

        :param devices: A letter for each device: ``g`` for a GPU, ``o`` for
            one that can be used once.
        """
        key = (devices, *sorted(sizes.items()))
        if key not in self._flavor_ids:
            specs = {
                f'resources{number}:{CLASSES[letter]}': '1'
                for number, letter in enumerate(devices, start=1)
            }
            if len(devices) > 1:
                specs['group_policy'] = 'none'
            self._flavor_ids[key] = self.make_flavor(specs, **sizes)
        return self._flavor_ids[key]

    def boot_server(self, flavor):
        """Boot a server on the first host, with a port and a config drive."""
        body = self._build_server(
            image_uuid=self.image,
            flavor_id=flavor,
            networks=[{'port': self.port}],
        )
        body |= {'config_drive': True, 'host': 'host1', **self.boot_options()}
        server = self.api.post_server({'server': body})
        self._booted.append(server['id'])
        return self.await_end(server, 'ACTIVE')

    def boot_options(self):
        """Return further keys of the request for a server."""
        return {}

    def ask(self, server, action, **options):
        """Request an action."""
        self.admin_api.post_server_action(
            server['id'], {action: options or None}
        )

    def act(self, server, action, **options):
        """Request an action, and return the server when it has ended."""
        self.ask(server, action, **options)
        return self.await_end(server)

    def await_end(self, server, expected=None):
        """Wait until nothing happens to a server any more; return it."""
        for _ in range(int(_SECONDS / _POLL)):
            # Nova's records cost more.
            if killed_threads.are_idle() and self._is_at_rest(server['id']):
                break
            base.time.sleep(_POLL)
        else:
            self.fail(f'server {server["id"]} does not come to rest')
        found = self.api.get_server(server['id'])
        if expected:
            self.assertEqual(expected, found['status'], found.get('fault'))
        return found

    def _is_at_rest(self, uuid):
        states = self._states(uuid)
        if not states or states.task_state or states.vm_state == 'building':
            return False
        record = self._record(uuid)
        # The events end last of all, but only once if a step is repeated.
        return (
            (
                record.migration_context is None
                or all(move.status in _ENDED for move in self.moves(uuid))
            )
            and not self._unfinished_events(uuid) - self._dead_events
            and killed_threads.are_idle()
        )

    def moves(self, uuid):
        """Return the migrations of a server, the last one at the end."""
        found = objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(read_deleted='yes'),
            {'instance_uuid': uuid},
        )
        return sorted(found, key=lambda migration: migration.id)

    def await_stillness(self):
        """Wait until no nova-compute does anything."""
        for _ in range(int(_SECONDS / _POLL)):
            if killed_threads.are_idle():
                return
            base.time.sleep(_POLL)
        self.fail('nova-compute does not come to rest')

    def is_stuck(self, server):
        """Return whether Nova does not end a server's move by itself."""
        record = self._record(server['id'])
        last = self.moves(server['id'])[-1].status
        if record.vm_state == 'resized':
            return last != 'finished' or record.task_state is not None
        return (
            record.task_state is not None
            or last not in _ENDED
            or last == 'finished'
        )

    def _unfinished_events(self, uuid):
        context = nova_context.get_admin_context()
        found = set()
        for action in objects.InstanceActionList.get_by_instance_uuid(
            context, uuid
        ):
            events = objects.InstanceActionEventList.get_by_action(
                context, action.id
            )
            ended = {event.event for event in events if event.finish_time}
            found |= {event.id for event in events if event.event not in ended}
        return found

    def forget_events(self, server):
        """Do not wait for the events of a server that have not finished."""
        self._dead_events |= self._unfinished_events(server['id'])

    def write_to_root(self, server):
        """Write to a server's root disk; return what it contains."""
        data = base64.b64encode(_WRITTEN).decode()
        udid = self.units_of_servers()[self.disk_name(server)]['udid']
        self.control().write_disk(udid, data)
        return _WRITTEN + base.IMAGE[len(_WRITTEN) :]

    # What operators do

    def delete_lpar(self, name, host):
        """Stop and delete an LPAR, and keep its disks."""
        self.control(host).set_partition(name, state='not activated')
        adapter = rest_clients.adapter_for(self.hosts[host].emulator)
        try:
            (lpar,) = logical_partition.LPAR.search(adapter, name=name)
            lpar.delete()
        finally:
            adapter.session._logoff()
            rest_clients.forget(adapter.session)

    def delete_lpars(self):
        """Delete the LPARs of servers on all hosts."""
        for host in self.host_names:
            for partition in self.host_state(host)['partitions']:
                if partition['name'].startswith('instance-'):
                    self.delete_lpar(partition['name'], host)

    def vlans(self, host):
        """Return the VLANs that the driver has added to a host's bridges."""
        return [
            vlan
            for bridge in self.host_state(host)['network_bridges']
            for vlan in bridge['vlans']
        ]

    def delete_vlans(self, host):
        """Remove the VLANs that an LPAR which was deleted has needed."""
        for bridge in self.host_state(host)['network_bridges']:
            client = other_tool.Client(self.hosts[host].emulator)
            for vlan in bridge['vlans']:
                client.remove_vlan(vlan)
            client.close()

    def release_all(self):
        """Make burned devices available again."""
        providers = self.providers()
        for key in self.burned_devices():
            self.reserve(providers[key], SCRATCH, 0)

    def set_state(self, server, state):
        """Set the state of a server, which ends its task."""
        self.ask(server, 'os-resetState', state=state)

    def clean_up(self, server):
        """End what the page on stuck servers says of a server that runs.

        Call this after a cycle.
        """
        self.remove_stale_lpars(server)
        for move in self.moves(server['id']):
            if self._get_allocations_by_server_uuid(move.uuid):
                self.placement.delete(f'/allocations/{move.uuid}')
        self.end_finished_moves(server)
        self._run_periodics()

    def remove_stale_lpars(self, server):
        """Remove a server's LPARs on the wrong side; call after a cycle."""
        self.assert_stale_named(server)
        for host in self.stale_lpars(server):
            self.delete_lpar(server['OS-EXT-SRV-ATTR:instance_name'], host)
            # This removes the mappings and VLANs of LPARs that are gone.
            self.restart_host(host)

    def end_finished_moves(self, server):
        """Let Nova end the moves that wait for a decision in vain.

        Those of other servers that have waited as long are confirmed.
        """
        for move in self.moves(server['id']):
            if move.status == 'finished':
                # Nova counts whole seconds.
                base.time.sleep(1.1)
                self.flags(resize_confirm_window=_age(move))
                manager = self.computes[move.dest_compute].manager
                manager._poll_unconfirmed_resizes(
                    nova_context.get_admin_context()
                )
                self.flags(resize_confirm_window=0)

    # What Placement has

    def providers(self):
        """Return the uuids of the providers of slots by host and DRC index."""
        return {
            (host, int(found['name'][-8:], 16)): found['uuid']
            for host, root in self.roots.items()
            for found in self._get_all_rps_in_a_tree(root)
            if found['uuid'] != root
        }

    def withheld(self, *kinds):
        """Return host and DRC index of the slots that nobody can get.

        :param kinds: The resource classes to look at; none for all.
        """
        wanted = {
            key
            for key, kind in self.kinds.items()
            if not kinds or kind in kinds
        }
        providers = self.providers()
        return {
            key
            for key in wanted
            if key not in providers or not self._is_offered(providers[key])
        }

    def _is_offered(self, uuid):
        return any(
            record['reserved'] < record['total']
            for record in self._get_provider_inventory(uuid).values()
        )

    def burned_devices(self):
        """Return host and DRC index of the burned devices."""
        return self.withheld(SCRATCH)

    def consumers(self):
        """Return the consumers of hosts and slots, where there are any."""
        found = {
            key: self.placement.get(
                f'/resource_providers/{uuid}/allocations'
            ).body['allocations']
            for key, uuid in (self.roots | self.providers()).items()
        }
        return {key: {*held} for key, held in found.items() if held}

    def audit(self):
        """Return status and words of ``nova-manage placement audit``."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = manage.PlacementCommands().audit(verbose=True)
        return status, output.getvalue().strip()

    # What Nova has

    def tracked(self):
        """Return the slots that Nova's resource trackers count as taken."""
        return {
            (host, int(found.identifier, 16))
            for host in self.host_names
            for classes in self.computes[
                host
            ].manager.rt.assigned_resources.values()
            for resources in classes.values()
            for found in resources
        }

    # What hosts and pool have

    def stale_lpars(self, server):
        """Return the hosts where a server has an LPAR on the wrong side."""
        record = self._record(server['id'])
        if record.vm_state == 'resized':
            return set()
        return {*self.lpars_of(server)} - {record.host}

    def assert_stale_named(self, server):
        """Verify that LPARs on the wrong side are named and keep their slots.

        Call this after a cycle.
        """
        for host in self.stale_lpars(server):
            lpar = self.lpars_of(server)[host]
            slots = {int(slot['drc_index'], 16) for slot in lpar['slots']}
            if slots:
                self.assertIn(
                    f'LPAR {lpar["name"]} ({self.lpar_uuid(server)}',
                    self.logged(),
                )
            # Those that the move still holds cannot be offered, either.
            self.assertLessEqual(
                {(host, index) for index in slots},
                self.withheld() | self.consumers().keys(),
            )

    def assert_safe(self, server):
        """Verify that no more than one guest has the root disk, unchanged."""
        running = [
            host
            for host, lpar in self.lpars_of(server).items()
            if lpar['state'] != 'not activated'
        ]
        self.assertLessEqual(len(running), 1, running)
        for host in running:
            self.assertIn(
                self.disk_name(server),
                {mapping['name'] for mapping in self.mappings(host)},
            )
        self.assertEqual(self.root, self.root_of(server)[1])

    def lpars_of(self, server):
        """Return the state of a server's LPAR by host."""
        name = server['OS-EXT-SRV-ATTR:instance_name']
        return {
            host: partition
            for host in self.host_names
            for partition in self.host_state(host)['partitions']
            if partition['name'] == name
        }

    def given_slots(self):
        """Return host and DRC index of the slots that servers ever got."""
        return {
            (host, index)
            for host in self.host_names
            for index in self.givings.given(self.host_state(host)['name'])
            if (host, index) in self.kinds
        }

    def disk_name(self, server, role=storage.ROOT):
        """Return the name of a server's disk."""
        make = storage.unit_name if self.has_pool else storage.disk_name
        return make(self.lpar_uuid(server), role)

    def units_of_servers(self):
        """Return the disks of servers by name."""
        found = self.units().values() if self.has_pool else self.disks()
        return {
            disk['name']: disk
            for disk in found
            if storage.is_ours(disk['name'])
            or storage.parse_unit_name(disk['name'])
        }

    def root_of(self, server):
        """Return size in GB and first bytes of a server's root disk."""
        disk = self.units_of_servers()[self.disk_name(server)]
        return float(disk['capacity']), self.contents(disk)[: len(base.IMAGE)]

    def whole_state(self):
        """Return all that the hosts have, in lines that can be compared.

        Without images in the pool, and without media repositories, which are
        made when they are needed first.
        """
        lines = []
        for host in self.host_names:
            system = self.host_state(host)
            for partition in system['partitions']:
                for group in partition.get('volume_groups', ()):
                    del group['free'], group['media_repository']
            found = {
                'system': system,
                'media': self.media(host),
                'files': self.hosts[host].reader.files(),
                'disks': self.units_of_servers(),
            }
            lines += pprint.pformat({host: found}).splitlines()
        return lines
