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

"""A random walk of Nova and real Cyborg services, with faults."""

import contextlib
import os
import random

from nova_powervm.devices import names
from tests.functional import real_cyborg
from tests.functional import test_cyborg_driver as cyborg_driver
from tests.soak import SEED

_STEPS = int(os.environ.get('NOVA_POWERVM_TEST_STEPS', '125'))
_SLOTS = {
    0x21010020: 'CUSTOM_GPU',
    0x21010021: 'CUSTOM_GPU',
    0x21010022: 'CUSTOM_GPU',
    0x21010038: 'CUSTOM_CRYPTO',
    0x21030039: 'CUSTOM_CRYPTO',
    0x21010030: 'CUSTOM_NVME',
}
_CARDS = {
    index: {**cyborg_driver.CARD, 'device_id': f'{index & 0xFFFF:04X}'}
    for index in _SLOTS
}
_NOVAS = {0x21010020, 0x21010021, 0x21010022}
_CYBORGS = _SLOTS.keys() - _NOVAS


def _file(indexes):
    """Return the text of a file that identifies slots."""
    return (
        ''.join(
            f'slot{index:08x}:\n'
            f'  identification: {{drc_index: "{index:08X}"}}\n'
            f'  resource_class: {_SLOTS[index]}\n'
            for index in sorted(indexes)
        )
        or 'none: {allow: false, identification: {drc_name: "*"}}\n'
    )


class CyborgWalkTest(cyborg_driver.CyborgTestCase):
    inventory = _file(_NOVAS)
    accelerators = _file(_CYBORGS)

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)  # noqa: S311
        self.servers = {}
        self.pulled = set()
        self.taken = set()
        self.novas, self.cyborgs = set(_NOVAS), set(_CYBORGS)
        #: Requests that Nova could not delete.
        self.left = set()

    def test_walk_leaves_cyborg_placement_and_host_in_agreement(self):
        steps = [
            (self.step_boot, 8),
            (self.step_delete, 5),
            (self.step_delete_without_cyborg, 1),
            (self.step_reboot, 2),
            (self.step_report, 4),
            (self.step_report_without_host, 2),
            (self.step_report_without_placement, 2),
            (self.step_kill, 1),
            (self.step_pull, 3),
            (self.step_plug, 3),
            (self.step_take, 1),
            (self.step_give_back, 1),
            (self.step_move_between_files, 3),
            (self.step_disable_or_enable, 2),
            (self.step_cycle, 3),
            (self.step_settle, 1),
        ]
        functions, weights = zip(*steps, strict=True)
        path = []
        try:
            for _ in range(_STEPS):
                step = self.random.choices(functions, weights)[0]
                path.append(step.__name__)
                step()
                self.check_servers()
            self.step_settle()
        except Exception as error:
            last = ', '.join(path[-12:])
            raise AssertionError(
                f'seed {SEED}, step {len(path)} ({last}): {error!r}'
            ) from error

    # Steps

    def step_boot(self):
        free = 5 - len(self.servers)
        if free <= 0:
            return
        kind = self.random.choice(('nova', 'CUSTOM_CRYPTO', 'CUSTOM_NVME'))
        if kind == 'nova':
            server = self.boot(
                {'resources1:CUSTOM_GPU': 1, 'trait1:OWNER_NOVA': 'required'},
                expected=None,
            )
        else:
            server = self.accelerated(kind, expected=None)
        if server['status'] == 'ACTIVE':
            self.servers[server['id']] = server
        else:
            self.delete(server)

    def step_delete(self):
        if server := self.any_server():
            del self.servers[server['id']]
            self.delete(server)

    def step_delete_without_cyborg(self):
        if server := self.any_server():
            bound = {r['uuid'] for r in self.cyborg.requests(server)}
            del self.servers[server['id']]
            self.cyborg.call('go_away')
            try:
                self.delete(server)
            finally:
                self.cyborg.call('come_back')
            self.left |= bound

    def step_reboot(self):
        server = self.any_server()
        if server and not self.slots_of(server) & self.pulled:
            self._reboot_server(server, hard=True)

    def step_report(self):
        novas = self.content_of_nova()
        self.cyborg.report()
        self.assertEqual(novas, self.content_of_nova())

    def step_report_without_host(self):
        before = self.contents()
        self.control().add_fault(match='ManagedSystem', status=503, every=True)
        try:
            for _ in range(3):
                with self.assert_refused():
                    self.cyborg.report()
        finally:
            self.control().clear_faults()
        self.assertEqual(before, self.contents())

    def step_report_without_placement(self):
        self.cyborg.placement.set_trap(
            self.random.randint(1, 6),
            lambda: None,
            passing=self.random.random() < 0.5,
            match='.*' if self.random.random() < 0.3 else 'PUT|POST|DELETE',
        )
        with contextlib.suppress(real_cyborg.ServiceError):
            self.cyborg.report()
        self.cyborg.placement.remove_trap()

    def step_kill(self):
        self.cyborg.placement.set_trap(
            self.random.randint(1, 6),
            self.cyborg.kill,
            passing=self.random.random() < 0.5,
        )
        with contextlib.suppress(real_cyborg.ServiceError):
            self.cyborg.report()
        self.cyborg.placement.remove_trap()
        self.cyborg.kill()
        self.cyborg.restart()

    def step_pull(self):
        index = self.random.choice(sorted(_SLOTS))
        if index not in self.pulled | self.taken:
            self.control().pull(f'{index:08X}')
            self.pulled.add(index)

    def step_plug(self):
        if self.pulled:
            index = self.random.choice(sorted(self.pulled))
            self.pulled.remove(index)
            self.control().plug(f'{index:08X}', _CARDS[index])

    def step_take(self):
        index = self.random.choice(sorted(_SLOTS))
        if index not in self.pulled and self.slot_owner(index) is None:
            self.control().set_owner(f'{index:08X}', 'database')
            self.taken.add(index)

    def step_give_back(self):
        if self.taken:
            index = self.taken.pop()
            self.control().set_owner(f'{index:08X}', None)

    def step_move_between_files(self):
        """Add a slot to a file, or remove it, whatever the other one has."""
        index = self.random.choice(sorted(_SLOTS))
        which = self.random.choice((self.novas, self.cyborgs))
        which.symmetric_difference_update({index})
        self.write_files()

    def step_disable_or_enable(self):
        devices = self.cyborg.call('tables')['devices']
        if devices:
            device = self.random.choice(devices)
            verb = 'enable' if device['status'] == 'maintaining' else 'disable'
            self.cyborg.request('POST', f'/devices/{device["uuid"]}/{verb}')

    def step_cycle(self):
        self.computes['host1'].manager.reportclient.clear_provider_cache()
        self._run_periodics()

    def step_settle(self):
        """Let everything be well for a while, and check the agreement."""
        for index in sorted(self.pulled):
            self.control().plug(f'{index:08X}', _CARDS[index])
        for index in sorted(self.taken):
            self.control().set_owner(f'{index:08X}', None)
        self.pulled, self.taken = set(), set()
        self.cyborgs -= self.novas
        self.write_files()
        for request in self.left:
            self.cyborg.request(
                'DELETE', f'/accelerator_requests?arqs={request}'
            )
        self.left.clear()
        self.enable_all()
        for _ in range(5):
            self.cyborg.report()
            self.step_cycle()
        # A slot may have been both Nova's and in doubt until now.
        self.enable_all()
        self.cyborg.report()
        self.check_agreement()

    # What holds

    def check_servers(self):
        """Assert that each LPAR has exactly the slots of its server."""
        for server in self.servers.values():
            lpar = self.lpar(server)
            self.assertEqual(
                self.slots_of(server), set(lpar.slots), server['id']
            )

    def check_agreement(self):
        """Assert that Cyborg's tables, Placement and the host agree."""
        tables = self.cyborg.call('tables')
        held = {i for s in self.servers.values() for i in self.slots_of(s)}
        contents = self.contents()
        for index in self.cyborgs:
            self.assertIn(index, contents)
            self.assertIn(names.CYBORG_TRAIT, contents[index][2])
        for index in contents.keys() - self.cyborgs:
            self.assertIn(index, held)
        self.assertEqual(
            sorted(uuid for uuid, _, _ in contents.values()),
            sorted(row['rp_uuid'] for row in tables['deployables']),
        )
        self.assertEqual(len(contents), len(tables['attach_handles']))
        requests = tables['extended_accelerator_requests']
        self.assertEqual(
            {row['instance_uuid'] for row in requests if row['instance_uuid']},
            {s for s in self.servers if self.cyborg.requests({'id': s})},
        )
        self.assertEqual(
            {row['attach_handle_id'] for row in requests} - {None},
            {row['id'] for row in tables['attach_handles'] if row['in_use']},
        )
        wanted = self.novas - set(contents)
        self.assertLessEqual(wanted, self.slot_providers().keys())

    # Helpers

    def any_server(self):
        if not self.servers:
            return None
        return self.servers[self.random.choice(sorted(self.servers))]

    def slots_of(self, server):
        """Return the slots that a server was allocated, Nova's or Cyborg's."""
        allocated = self._get_allocations_by_server_uuid(server['id'])
        found = {
            **{p['uuid']: i for i, p in self.slot_providers().items()},
            **{p['uuid']: i for i, p in self.providers().items()},
        }
        return {found[uuid] for uuid in allocated if uuid in found}

    def content_of_nova(self):
        """Return what Placement has of Nova's slots, with generations."""
        return {
            index: (
                provider['generation'],
                self._get_provider_inventory(provider['uuid']),
                set(self._get_provider_traits(provider['uuid'])),
            )
            for index, provider in self.slot_providers().items()
        }

    def enable_all(self):
        devices = self.cyborg.call('tables')['devices']
        for device in devices:
            if device['status'] == 'maintaining':
                self.cyborg.request(
                    'POST', f'/devices/{device["uuid"]}/enable'
                )

    def write_files(self):
        with open(cyborg_driver.base.CONF.powervm.inventory_file, 'w') as file:
            file.write(_file(self.novas))
        self.cyborg.configure('host1', _file(self.cyborgs))

    @contextlib.contextmanager
    def assert_refused(self):
        with self.assertRaises(real_cyborg.ServiceError):
            yield
