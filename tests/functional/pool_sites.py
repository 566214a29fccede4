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


"""Two hosts that share a storage pool, and what they have of servers."""

import base64
import copy

from nova import context as nova_context

from nova_powervm.powervm.disk import image_cache
from tests.functional import pools

HOSTS = ('host1', 'host2')
_GUEST = b'written by the guest'


def world(number, **pool):
    """Return the world of one of two hosts; the first has more memory.

    The scheduler prefers it for that.
    """
    made = copy.deepcopy(pools.world(**pool))
    (system,) = made['systems']
    system['name'] = f'emulated-9009-22A-EMU000{number}'
    system['serial'] = f'EMU000{number}'
    system['memory']['configurable'] //= number
    return made


class SiteTestCase(pools.PoolTestCase):
    """Starts two hosts of a site, each with its nova-compute."""

    def setUp(self):
        super().setUp()
        self.stub_out(f'{image_cache.__name__}.POLL_SECONDS', (0.02, 0.05))
        self.flags(max_attempts=2, group='scheduler')
        # A host where a build has just failed remains the preferred one.
        self.flags(
            build_failure_weight_multiplier=0.0, group='filter_scheduler'
        )
        # An image is removed when it is found unused for the second time.
        self.flags(
            remove_unused_original_minimum_age_seconds=0, group='image_cache'
        )

    def start_both(self, **pool):
        """Start both hosts, the first of which the scheduler prefers.

        :param pool: Keys of the pool.
        """
        self.start_site(HOSTS, [world(number, **pool) for number in (1, 2)])

    def driver(self, host):
        """Return the driver of a running nova-compute."""
        return self.computes[host].manager.driver

    def clean_cache(self, host):
        """Remove what is not needed from the pool, as a periodic task does."""
        context = nova_context.get_admin_context()
        self.driver(host).manage_image_cache(context, [])

    def lose_host(self, host):
        """Cut the power of a host, and tell Nova that it is down."""
        self.computes[host].stop()
        self.control(host).power_off_system()
        self.admin_api.put_service_force_down(self._service(host), True)

    def regain_host(self, host):
        """Start a lost host and its nova-compute again."""
        self.control(host).power_on_system()
        # Nova keeps it down until it has cleaned up.
        self.restart_host(host)
        self.admin_api.put_service_force_down(self._service(host), False)

    def _service(self, host):
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host=host
        )
        return service['id']

    def evacuate(self, server):
        """Evacuate a server; return it when the evacuation has ended."""
        before = len(self._migrations(server))
        self.api.post_server_action(server['id'], {'evacuate': {}})

        def has_ended():
            found = self._migrations(server)[before:]
            return found and found[0]['status'] in ('done', 'error', 'failed')

        self.await_found(
            has_ended, f'the evacuation of {server["id"]} has no end'
        )
        return self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )

    def _migrations(self, server):
        path = f'/os-migrations?instance_uuid={server["id"]}'
        found = self.admin_api.api_get(path).body['migrations']
        return sorted(found, key=lambda migration: migration['id'])

    def write_as_guest(self, server):
        """Write to a server's root disk; return the disk's SHA-256."""
        unit = self.disks_of(server)['root']
        data = base64.b64encode(_GUEST).decode()
        written = self.control().write_disk(unit['udid'], data, 512)
        return written['sha256']

    # What hosts and pool have

    def assert_whole(self, server, host, root, state='running'):
        """Verify that a server is on a host, with all that belongs to it.

        :param root: SHA-256 of its root disk.
        :param state: State of its LPAR.
        """
        lpar = self._partition(server['OS-EXT-SRV-ATTR:instance_name'], host)
        self.assertEqual(state, lpar['state'])
        self.assertEqual(
            sorted(self.allocated_on(server, host)),
            sorted(int(slot['drc_index'], 16) for slot in lpar['slots']),
        )
        units = self.disks_of(server, host)
        self.assertEqual({'root', 'eph0'}, set(units))
        self.assertEqual(root, units['root']['sha256'])
        (medium,) = self.media(host)
        wanted = [unit['name'] for unit in units.values()] + [medium['name']]
        self.assertEqual(
            [(lpar['name'], name) for name in sorted(wanted)],
            self.mapped(host),
        )

    def assert_absent(self, *hosts):
        """Verify that hosts have nothing of any server."""
        for host in hosts:
            nothing = {'lpars': [], 'mappings': [], 'media': []}
            self.assertEqual(
                nothing,
                {
                    'lpars': self.lpars_of_servers(host),
                    'mappings': self.mapped(host),
                    'media': self.media(host),
                },
                host,
            )

    def assert_no_files(self, *hosts):
        """Verify that no description of an upload is left."""
        for host in hosts:
            self.assertEqual([], self.hosts[host].reader.files(), host)

    def assert_pool_sound(self, *servers):
        """Verify the images and the free space, and that disks have owners.

        :param servers: All servers that have disks in the pool.
        """
        lpars = {self.lpar_uuid(server) for server in servers}
        cluster = self._cluster()
        for unit in cluster['pool']['logical_units']:
            known = pools.pool_images.parse(unit['name'])
            if known:
                self.assertTrue(known.is_usable, unit)
                self.assertIn(unit['sha256'], self.hashes, unit)
            else:
                parsed = pools.storage.parse_unit_name(unit['name'])
                self.assertIn(parsed and parsed[0], lpars, unit)
        used = sum(u['used'] for u in cluster['pool']['logical_units'])
        free = cluster['pool']['free']
        self.assertAlmostEqual(pools.POOL_GB - used, free, places=4)

    def assert_pool_empty(self):
        """Verify that neither disks nor images are left."""
        self.assertEqual({}, self.units())
        self.assertEqual(pools.POOL_GB, self._cluster()['pool']['free'])

    def _cluster(self):
        (cluster,) = self.control().state()['clusters']
        return cluster

    def lpars_of_servers(self, host):
        """Return the names of the LPARs of Nova's servers on a host."""
        return [
            partition['name']
            for partition in self.host_state(host)['partitions']
            if partition['name'].startswith('instance-')
        ]

    def mapped(self, host):
        """Return LPAR and storage of the mappings of a host."""
        return sorted(
            (mapping['client'], mapping['name'])
            for mapping in self.mappings(host)
        )

    def allocated_on(self, server, host):
        """Return the DRC indexes that a server has allocated on a host."""
        allocations = self._get_allocations_by_server_uuid(server['id'])
        return [
            index
            for index, provider in self.slot_providers(host).items()
            if provider['uuid'] in allocations
        ]
