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

"""A random walk over two hosts with all real parts.

Nova's services take seconds to start, their timing differs from run to run,
and their fixtures belong to one test. Hypothesis' state machines start anew
for each example and repeat failures to shrink them, so they don't fit here.
Instead a seed chooses the steps, and a failure is reported with the steps that
led to it. :mod:`tests.property.test_simulation` tests what this can't.
"""

import os
import pathlib
import random
import time

import fixtures
import os_traits
from keystoneauth1 import exceptions as keystone
from nova import exception as nova_exception
from oslo_log import log as logging

from powervm_emulator import worlds
from tests.functional import base
from tests.functional import one_time_use
from tests.soak import SEED

LOG = logging.getLogger(__name__)

STEPS = int(os.environ.get('NOVA_POWERVM_TEST_STEPS', '60'))
HOSTS = ('host1', 'host2')
_OPERATORS = 'CUSTOM_OPERATOR'
_BROKEN = 'gpus: {'
_NOTHING = "none: {identification: {drc_name: '*'}, allow: false}\n"
_DENIAL = """\
not that one:
  identification: {{drc_index: '{:08X}'}}
  allow: false
"""
#: What Nova itself adds to the provider of one slot of each host.
_ADDITIONS = """\
meta: {schema_version: '1.0'}
providers:
""" + ''.join(
    f"""\
  - identification: {{name: PowerVM IOSlot {host} 21010020}}
    inventories:
      additional:
        - CUSTOM_LICENSE:
            total: 2
            reserved: 1
            min_unit: 1
            max_unit: 2
            step_size: 1
            allocation_ratio: 1.0
    traits: {{additional: [CUSTOM_RACK]}}
"""
    for host in HOSTS
)
#: What befalls one request of a boot or a delete to the REST server.
_FAULTS = (
    {'status': 412, 'method': 'POST'},
    {'status': 401},
    {'status': 500},
    {'drop': True},
    {'drop': True, 'phase': 'after'},
)


class HostWalkTest(one_time_use.OneTimeUseTestCase):
    """Two hosts with the same slots and files, changed at random."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)  # noqa: S311
        self.steps = []
        self.servers = {}
        # Pairs of host and DRC index.
        self.used = set()
        self.reserved_by_operator = set()
        self.taken = set()
        self.pulled = set()
        # The files, and whether devices are for one-time use.
        self.files = {}
        self.once = dict.fromkeys(HOSTS, True)
        # Uuids of providers that an operator has given a trait.
        self.traits = set()
        directory = self.useFixture(fixtures.TempDir()).path
        with open(os.path.join(directory, 'slot.yaml'), 'w') as file:
            file.write(_ADDITIONS)
        self.flags(provider_config_location=directory, group='compute')
        for host in HOSTS:
            world = self.make_world(host)
            # The second host reports owners in profiles only.
            world['systems'][0]['reports_slot_owners'] = host == HOSTS[0]
            self.start_host(host, world)
            self.files[host] = one_time_use.ONE_TIME_USE_GPUS
        self.foreign = self._make_foreign()
        self.slots = sorted(self.slot_providers())

    def make_world(self, host):
        """Return the world of a host."""
        return worlds.default()

    def _make_foreign(self):
        root = self._get_provider_uuid_by_host('host1')
        uuid = self.placement.post(
            '/resource_providers',
            {'name': 'of Cyborg', 'parent_provider_uuid': root},
            version='1.20',
        ).body['uuid']
        self.set_inventory(uuid, {'CUSTOM_GPU': {'total': 1}})
        self._set_provider_traits(uuid, [os_traits.OWNER_CYBORG])
        return uuid, self._state_of(uuid)

    def rules(self):
        """Return the steps, and how often each is chosen."""
        return (
            (self.boot_somewhere, 4),
            (self.boot_with_a_fault, 2),
            (self.delete_one, 2),
            (self.rebuild_one, 1),
            (self.reboot_one, 1),
            (self.evacuate_one, 2),
            (self.migrate_one, 2),
            (self.make_duplicate, 1),
            (self.edit, 2),
            (self.pull_or_plug, 1),
            (self.change_owner, 2),
            (self.release_one, 2),
            (self.reserve_one, 1),
            (self.set_trait, 1),
            (self.remove_provider, 1),
            (self.restart, 1),
            (self.kill_while_it_builds, 1),
            (self.fail_in_placement, 1),
        )

    def test_random_events_break_no_invariant(self):
        rules = self.rules()
        deck = []
        while len(self.steps) < STEPS:
            if not deck:
                # A shuffled deck, so that no rule is missed for long.
                deck = [rule for rule, weight in rules for _ in range(weight)]
                self.random.shuffle(deck)
            rule = deck.pop()
            told = rule()
            if told is None:
                continue
            self.steps.append(f'{rule.__name__} {told}')
            LOG.info('Step %d: %s', len(self.steps), self.steps[-1])
            self.check()

    # Instances

    def boot_somewhere(self, host=None, expected=None):
        host = host or self.random.choice(HOSTS)
        index = self.random.choice(self.slots)
        free = self._has_room(host, index)
        server = self.boot(
            one_time_use.gpu_group(index),
            expected=expected,
            request={'host': host},
        )
        if server['status'] == 'ACTIVE':
            self.assertTrue(free, self.steps)
            self._is_built(server, host)
        else:
            if expected is None and free:
                # The reason for the refusal arose after the last cycle.
                self.assertTrue(self.doubt(host, index), server['fault'])
            self.wait_until_unallocated(server)
            self._delete_server(server)
        return f'{host} {index:08X} {server["status"]}'

    def _is_built(self, server, host):
        self.servers[server['id']] = self.api.get_server(server['id'])
        if self.once[host]:
            for index in self.allocated_slots(self.servers[server['id']]):
                self.used.add((host, index))

    def doubt(self, host, index):
        """Return whether a slot's state may differ from Placement's."""
        return (host, index) in self.taken | self.pulled

    def boot_with_a_fault(self):
        host = self.random.choice(HOSTS)
        fault = self.random.choice(_FAULTS)
        nth = self.random.randint(1, 6)
        self.control(host).add_fault(
            match='LogicalPartition|ManagedSystem', nth=nth, **fault
        )
        index = self.random.choice(self.slots)
        free = self._has_room(host, index)
        server = self.boot(
            one_time_use.gpu_group(index),
            expected=None,
            request={'host': host},
        )
        self.control(host).clear_faults()
        if server['status'] == 'ACTIVE':
            self._is_built(server, host)
        else:
            self.wait_until_unallocated(server)
            self.assertIsNone(self.lpar(server, host), self.steps)
            self._delete_server(server)
            if free:
                # The claim came first, or the slot was not free any more.
                self.touched(host, index)
        return f'{host} {index:08X} {fault} {nth} {server["status"]}'

    def touched(self, host, index):
        """Note that an allocated device was burned, and must stay so."""
        if index in self.burned(host):
            self.used.add((host, index))

    def delete_one(self):
        server = self._pick(self.servers.values())
        if server is None:
            return None
        self._delete_server(self.servers.pop(server['id']))
        self.assertIsNone(self.lpar(server, host_of(server)), self.steps)
        return server['id']

    def rebuild_one(self):
        server = self._pick(self._undisturbed())
        if server is None:
            return None
        self._rebuild_server(server, self.image)
        return server['id']

    def reboot_one(self):
        server = self._pick(self._undisturbed())
        if server is None:
            return None
        self._reboot_server(server, hard=True)
        return server['id']

    def evacuate_one(self):
        server = self._pick(self._undisturbed())
        return server and self._evacuate(server)

    def _evacuate(self, server):
        source = host_of(server)
        (target,) = set(HOSTS) - {source}
        fits = all(
            self._has_room(target, index) and not self.doubt(target, index)
            for index in self.allocated_slots(server)
        )
        self.fail_host(source)
        if fits:
            self._evacuate_server(server, expected_host=target)
            self._start_server(server)
            self._is_built(server, target)
        self.files[source] = self._inventories[source]
        self.recover_host(source)
        return f'{server["id"]} {source} {fits}'

    def migrate_one(self):
        """Request a cold migration, which is refused: disks are local."""
        server = self._pick(self.servers.values())
        if server is None:
            return None
        before = {host: self.burned(host) for host in HOSTS}
        self.admin_api.post_server_action(server['id'], {'migrate': None})
        for _ in range(200):
            found = self.admin_api.get_server(server['id'])
            if found['OS-EXT-STS:task_state'] is None:
                break
            time.sleep(0.1)
        self.assertEqual('ACTIVE', found['status'], self.steps)
        self.assertEqual(host_of(server), host_of(found), self.steps)
        self.assertEqual(
            before, {host: self.burned(host) for host in HOSTS}, self.steps
        )
        return server['id']

    def kill_while_it_builds(self):
        """Cut a host off during a build, so that nothing is cleaned up."""
        host = self.random.choice(HOSTS)
        index = self.random.choice(self.slots)
        if not self._has_room(host, index) or self.doubt(host, index):
            return None
        nth = self.random.randint(2, 6)
        self.control(host).add_fault(
            method=['PUT', 'POST'][nth % 2],
            match='/rest/api/uom/',
            every=True,
            drop=True,
            phase='after',
        )
        server = self.boot(
            one_time_use.gpu_group(index),
            expected=None,
            request={'host': host},
        )
        self.computes[host].stop()
        self.control(host).clear_faults()
        self.start_again(host)
        if server['status'] == 'ACTIVE':
            self._is_built(server, host)
        else:
            self.wait_until_unallocated(server)
            self._delete_server(server)
            self.touched(host, index)
        return f'{host} {index:08X} {server["status"]}'

    # The file and the host

    def edit(self):
        host = self.random.choice(HOSTS)
        self.files[host] = self.random.choice(
            (
                one_time_use.ONE_TIME_USE_GPUS,
                base.GPUS,
                _NOTHING,
                one_time_use.ONE_TIME_USE_GPUS + _DENIAL.format(self.slots[0]),
                _BROKEN,
                '# nothing\n',
                one_time_use.ONE_TIME_USE_GPUS.replace(
                    '[CUSTOM_TESLA_V100]', '[CUSTOM_OTHER]'
                ),
            )
        )
        path = pathlib.Path(
            self.computes[host].manager.driver.settings.inventory_file
        )
        new = path.with_suffix('.new')
        new.write_text(self.files[host])
        new.rename(path)
        self._run_periodics()
        self._run_periodics()
        if 'identification' in self.files[host]:
            # The file that a restarted nova-compute reads.
            self._inventories[host] = self.files[host]
            self.once[host] = 'one_time_use' in self.files[host]
        return f'{host} {self.files[host].splitlines()[-1]}'

    def pull_or_plug(self):
        host = self.random.choice(HOSTS)
        index = self.random.choice(self.slots)
        if (host, index) in self.pulled:
            self.plug_gpu(f'{index:08X}', host)
            self.pulled.discard((host, index))
        elif self._is_unowned(host, index):
            self.control(host).pull(f'{index:08X}')
            self.pulled.add((host, index))
        else:
            return None
        return f'{host} {index:08X}'

    def change_owner(self):
        host = self.random.choice(HOSTS)
        index = self.random.choice(self.slots)
        if (host, index) in self.taken:
            self.control(host).set_owner(f'{index:08X}', None)
            self.taken.discard((host, index))
        elif self._is_unowned(host, index):
            self.control(host).set_owner(f'{index:08X}', 'vios1')
            self.taken.add((host, index))
        else:
            return None
        return f'{host} {index:08X}'

    def _is_unowned(self, host, index):
        # Not every host reports owners with its slots.
        return (host, index) not in self.pulled and not any(
            index in lpar.slots
            for lpar in self.hosts[host].reader.lpars().values()
        )

    # Operators

    def release_one(self):
        found = [
            (host, index)
            for host in HOSTS
            for index in sorted(self.burned(host))
        ]
        if not found:
            return None
        host, index = self.random.choice(found)
        uuid = self.slot_providers(host)[index]['uuid']
        self._reserve(uuid, 0)
        self.used.discard((host, index))
        self.reserved_by_operator.discard(uuid)
        return f'{host} {index:08X}'

    def reserve_one(self):
        host, index, uuid = self._provider()
        if uuid is None or not self._has_room(host, index):
            return None
        self._reserve(uuid, 1)
        self.reserved_by_operator.add(uuid)
        return f'{host} {index:08X}'

    def _reserve(self, uuid, amount):
        self.reserve(uuid, 'CUSTOM_GPU', amount)

    def set_trait(self):
        host, index, uuid = self._provider()
        if uuid is None:
            return None
        if not self.traits:
            self._create_trait(_OPERATORS)
        traits = {*self._get_provider_traits(uuid), _OPERATORS}
        self._set_provider_traits(uuid, sorted(traits))
        self.traits.add(uuid)
        return f'{host} {index:08X}'

    def make_duplicate(self):
        """Create a second provider for a slot, with the other form of name."""
        host, index, uuid = self._provider()
        name = f'PowerVM IOSlot {index:08X}'
        names = {provider['name'] for provider in self._get_all_providers()}
        if uuid is None or name in names or self._consumers(uuid):
            return None
        answer = self.placement.post(
            '/resource_providers',
            {
                'name': name,
                'parent_provider_uuid': self._get_provider_uuid_by_host(host),
            },
            version='1.20',
        )
        self.set_inventory(answer.body['uuid'], {'CUSTOM_GPU': {'total': 1}})
        self._forget_providers(self.computes[host].manager.reportclient)
        self._run_periodics()
        return f'{host} {index:08X}'

    def remove_provider(self):
        host, index, uuid = self._provider()
        if uuid is None or self._consumers(uuid):
            return None
        self.placement.delete(f'/resource_providers/{uuid}')
        # Its burn goes with it.
        self.used.discard((host, index))
        self.reserved_by_operator.discard(uuid)
        return f'{host} {index:08X}'

    # nova-compute

    def restart(self):
        host = self.random.choice(HOSTS)
        broken = self.files[host] == _BROKEN
        if broken:
            good = self._inventories[host]
            self.assertRaises(
                nova_exception.InvalidConfiguration,
                self.restart_host,
                host,
                inventory=_BROKEN,
            )
            self._inventories[host] = good
        self.start_again(host)
        return f'{host} {broken}'

    def start_again(self, host):
        """Start nova-compute with the last valid file."""
        self.files[host] = self._inventories[host]
        self.restart_host(host)

    def fail_in_placement(self):
        """Let requests to Placement fail during one cycle."""
        host = self.random.choice(HOSTS)
        client = self.computes[host].manager.reportclient
        left = [self.random.randint(0, 8)]
        method = self.random.choice(('get', 'put'))
        send = getattr(client, method)

        def fail_or_send(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise keystone.ConnectFailure('cut off')
            return send(*args, **kwargs)

        self._forget_providers(client)
        with fixtures.MockPatchObject(client, method, fail_or_send):
            self._run_periodics()
        return f'{host} {method} {left}'

    def _forget_providers(self, client):
        client._association_refresh_time.clear()

    # Invariants

    def check(self):
        """Run cycles and check all invariants."""
        for host in HOSTS:
            if self.random.random() < 0.3:
                # As Nova does every five minutes.
                self._forget_providers(
                    self.computes[host].manager.reportclient
                )
        self._run_periodics()
        before = self.generations()
        self._run_periodics()
        if before != self.generations():
            # The first cycle has repaired something.
            before = self.generations()
            self._run_periodics()
            self.assertEqual(before, self.generations(), self.steps)
        for host in HOSTS:
            self._check_host(host)
        uuid, state = self.foreign
        self.assertEqual(state, self._state_of(uuid), self.steps)

    def _check_host(self, host):
        slots = self.hosts[host].reader.slots()
        held = {}
        for index, provider in self.slot_providers(host).items():
            uuid = provider['uuid']
            where = (host, index)
            consumers = self._consumers(uuid)
            self.assertLessEqual(len(consumers), 1, self.steps)
            for consumer in consumers:
                held.setdefault(consumer, set()).add(index)
            inventory = self._own_inventory(uuid)
            if self._is_room(inventory, consumers):
                unusable = self.used | self.taken | self.pulled
                self.assertNotIn(where, unusable, self.steps)
                self.assertIsNone(slots[index].owner, self.steps)
            (record,) = inventory.values()
            if where in self.used or uuid in self.reserved_by_operator:
                self.assertEqual(1, record['reserved'], self.steps)
        self._check_lpars(host, held)

    def _check_lpars(self, host, held):
        lpars = self.hosts[host].reader.lpars()
        for server in self.servers.values():
            slots = held.pop(server['id'], set())
            if host_of(server) == host:
                lpar = lpars.pop(self.lpar_uuid(server))
                self.assertEqual('running', lpar.state, self.steps)
                self.assertEqual(slots, set(lpar.slots), self.steps)
            else:
                self.assertEqual(set(), slots, self.steps)
        self.assertEqual({}, held, self.steps)
        ours = [p for p in lpars.values() if p.name.startswith('instance-')]
        self.assertEqual([], ours, self.steps)

    # Helpers

    def _pick(self, found):
        found = list(found)
        return self.random.choice(found) if found else None

    def _undisturbed(self):
        """Return the servers whose devices were not changed."""
        return [
            server
            for server in self.servers.values()
            if not any(
                self.doubt(host_of(server), index)
                for index in self.allocated_slots(server)
            )
        ]

    def _provider(self):
        host = self.random.choice(HOSTS)
        index = self.random.choice(self.slots)
        provider = self.slot_providers(host).get(index)
        return host, index, provider and provider['uuid']

    def _has_room(self, host, index):
        provider = self.slot_providers(host).get(index)
        if provider is None:
            return False
        return self._is_room(
            self._own_inventory(provider['uuid']),
            self._consumers(provider['uuid']),
        )

    def _own_inventory(self, uuid):
        """Return the driver's inventories, without those that Nova adds."""
        inventory = self._get_provider_inventory(uuid)
        inventory.pop('CUSTOM_LICENSE', None)
        return inventory

    def _is_room(self, inventory, consumers):
        reserved = any(r['reserved'] for r in inventory.values())
        return bool(inventory) and not reserved and not consumers

    def _consumers(self, uuid):
        answer = self.placement.get(f'/resource_providers/{uuid}/allocations')
        return set(answer.body['allocations'])

    def _state_of(self, uuid):
        return (
            self._get_provider_inventory(uuid),
            sorted(self._get_provider_traits(uuid)),
            self.generation(uuid),
        )


def host_of(server):
    """Return the host of a server."""
    return server['OS-EXT-SRV-ATTR:host']
