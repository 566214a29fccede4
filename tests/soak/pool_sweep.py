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


"""Each request on a shared storage pool fails once.

The sweep goes over every request that a host gets in a boot, a delete, an
evacuation and a cleaning of the cache. After each fault Nova and the driver go
on, and then a server is whole on one host at most, and nothing is in the pool
that nobody owns.

The whole sweep runs if ``NOVA_POWERVM_TEST_ALL_REQUESTS`` is set, otherwise a
sample that ``NOVA_POWERVM_TEST_SEED`` chooses.
"""

import hashlib
import random

from nova import context as nova_context
from oslo_log import log as logging

from nova_powervm.lpar import image
from tests.functional import base
from tests.functional import pool_sites
from tests.soak import SEED
from tests.soak import request_faults

LOG = logging.getLogger(__name__)

ALL = request_faults.ALL

#: In this many cases of a sweep, a second operation follows.
_SECOND_IN = 5


class SweepTestCase(pool_sites.SiteTestCase):
    """Starts two hosts; the faults are those of the one that works."""

    def setUp(self):
        request_faults.keep_log_short(self)
        super().setUp()
        self.start_both()
        # The next cleaning, not one ten minutes later, completes a deletion.
        self.stub_out(f'{image.__name__}.DELETING_SECONDS', -1)
        self.hashes = set()
        self._images = 0
        self._second = False

    # Cases

    def sweep(self, action, chosen=None):
        """Inject each fault into each request of an action.

        :param action: Name of the action.
        :param chosen: Which cases to take, counted from 0; None for all.
        """
        cases = self.cases(action)
        unreached = []
        for index in range(len(cases)) if chosen is None else chosen:
            number, request, kind = cases[index % len(cases)]
            self._second = chosen is not None or not index % _SECOND_IN
            case = f'{action}: {kind} at {number}, {request} (seed {SEED})'
            with self.subTest(case):
                if not self.run_case(
                    action, number, request_faults.FAULTS[kind]
                ):
                    unreached.append(case)
            if self._failed_steps:
                # Other cases would meet what this one has left.
                break
        LOG.info('%d cases; not reached: %s', len(cases), unreached)
        # What follows an action may come too late for its last request.
        self.assertLess(len(unreached), 1 + len(cases) // 10, unreached)

    def cases(self, action):
        """Return number, request and fault of each case of an action."""
        # The first run creates the media repository.
        for _ in range(2 if ALL else 1):
            self.run_case(action)
        return request_faults.cases(self.requests)

    def run_case(self, action, number=0, fault=None):
        """Run an action with a fault; return whether it was reached.

        :param number: Which request fails, counted from 1.
        :param fault: How it fails; None for no fault.
        """
        self._fault = (number, fault)
        self._reached = False
        try:
            getattr(self, f'_run_{action}')()
        finally:
            for host in pool_sites.HOSTS:
                self.control(host).clear_faults()
        return self._reached

    def faulty(self, host, action):
        """Run an action while a host has the fault of the case."""
        control = self.control(host)
        control.clear_journal()
        number, fault = self._fault
        if fault:
            control.add_fault(
                match=request_faults.COUNTED, nth=number, **fault
            )
        result = action()
        if fault:
            (found,) = control.faults()
            self._reached = bool(found['applied'])
        control.clear_faults()
        self.requests = request_faults.counted(control)
        return result

    # Actions

    def _run_cold_boot(self):
        self._boot_with_fault(self._new_image())

    def _run_cached_boot(self):
        image = self._new_image()
        self._cache(image)
        self._boot_with_fault(image)

    def _boot_with_fault(self, image):
        server = self.faulty('host1', lambda: self._boot(image, expected=None))
        self.recover()
        found = self.api.get_server(server['id'])
        host = found['OS-EXT-SRV-ATTR:host']
        self.assertEqual('ACTIVE', found['status'], found.get('fault'))
        self.assert_whole(found, host, self.root)
        self.assert_absent(*{*pool_sites.HOSTS} - {host})
        self.assert_no_files(*pool_sites.HOSTS)
        self.assert_pool_sound(found)
        self._delete_server(found)
        if self._second:
            second = self._boot(image)
            self.assert_whole(second, 'host1', self.root)
            self._delete_server(second)
        self.finish()

    def _run_delete(self):
        server = self._boot(self._new_image())
        self.faulty('host1', lambda: self._delete_once(server))
        self.recover()
        left = self._record(server['id'])
        if left is not None:
            self.assertEqual('error', left.vm_state)
            self.assertEqual('host1', left.host)
            self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.finish()

    def _delete_once(self, server):
        self.api.delete_server(server['id'])
        for _ in range(400):
            record = self._record(server['id'])
            if record is None or (
                record.vm_state == 'error' and record.task_state is None
            ):
                return
            base.time.sleep(0.05)
        self.fail(f'the deletion of {server["id"]} has no end')

    def _run_evacuate(self):
        server = self._boot(self._new_image())
        self.assert_whole(server, 'host1', self.root)
        self.root = self.write_as_guest(server)
        self.lose_host('host1')
        try:
            found = self.faulty('host2', lambda: self.evacuate(server))
            found = self._go_on_without_host1(found)
        finally:
            self.regain_host('host1')
        self.assert_absent('host1')
        self.assert_whole(found, 'host2', self.root, _lpar_state(found))
        self.assert_pool_sound(found)
        if found['status'] == 'SHUTOFF':
            self._start_server(found)
        self.assert_whole(found, 'host2', self.root)
        self._delete_server(found)
        self.finish()

    def _go_on_without_host1(self, server):
        """Recover the only host; evacuate again what could not be."""
        self.recover('host2')
        self._stop_again(server)
        if server['OS-EXT-SRV-ATTR:host'] == 'host1':
            # ACTIVE if not even Nova's first question was answered.
            self.assertIn(server['status'], ('ACTIVE', 'ERROR'))
            self.assert_absent('host2')
            self.assertEqual(
                self.root, self.disks_of(server, 'host2')['root']['sha256']
            )
            self.assert_pool_sound(server)
            server = self.evacuate(server)
        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        self.assert_whole(server, 'host2', self.root, _lpar_state(server))
        self.assert_no_files('host2')
        return server

    def _stop_again(self, server):
        """Stop a server that could not be stopped, as Nova does in time."""
        self.computes['host2'].manager._sync_power_states(
            nova_context.get_admin_context()
        )
        for _ in range(200):
            lpar = self.lpar(server, 'host2')
            if server['status'] != 'SHUTOFF' or lpar.state != 'running':
                return
            base.time.sleep(0.05)
        self.fail(f'server {server["id"]} still runs')

    def _run_clean(self):
        self._cache(self._new_image())
        kept = self._boot(self._new_image())
        self.clean_cache('host2')
        self.faulty('host1', lambda: self.clean_cache('host1'))
        self.recover()
        self.assert_whole(kept, 'host1', self.root)
        self.assert_pool_sound(kept)
        self._delete_server(kept)
        self.finish()

    # Steps

    def _new_image(self):
        self._images += 1
        data = self._images.to_bytes(4, 'big') + base.IMAGE
        self.root = hashlib.sha256(data).hexdigest()
        self.hashes.add(self.root)
        return self.create_image(data)

    def _cache(self, image):
        context = nova_context.get_admin_context()
        self.assertTrue(self.driver('host2').cache_image(context, image))

    def _boot(self, image, expected='ACTIVE'):
        return self.boot(
            base.gpu_groups(1),
            expected,
            image=image,
            disk=1,
            ephemeral=1,
            request={'config_drive': True},
        )

    def recover(self, *hosts):
        """Run what follows by itself, and then start nova-compute anew.

        :param hosts: Those that have power; none for both.
        """
        hosts = hosts or pool_sites.HOSTS
        for host in pool_sites.HOSTS:
            servers = self.lpars_of_servers(host)
            self.assertLessEqual(len(servers), 1, servers)
        self._run_periodics()
        for host in hosts:
            self.restart_host(host)
            self.clean_cache(host)

    def finish(self):
        """Verify that nothing is left, after two looks for unused images."""
        for host in (*pool_sites.HOSTS, 'host1'):
            self.clean_cache(host)
        # Only now Nova notices that an evacuated server holds no device.
        self._run_periodics()
        self.assert_absent(*pool_sites.HOSTS)
        self.assert_no_files(*pool_sites.HOSTS)
        self.assert_pool_empty()
        self.forget()


def _lpar_state(server):
    """Return the state of an LPAR that suits the status of its server.

    Nova stops servers that it has evacuated, but not those in ERROR.
    """
    return {'ACTIVE': 'running', 'SHUTOFF': 'not activated'}[server['status']]


if ALL:

    class WholeSweepTest(SweepTestCase):
        def test_fault_at_any_request_of_cold_boot(self):
            self.sweep('cold_boot')

        def test_fault_at_any_request_of_cached_boot(self):
            self.sweep('cached_boot')

        def test_fault_at_any_request_of_delete(self):
            self.sweep('delete')

        def test_fault_at_any_request_of_evacuation(self):
            self.sweep('evacuate')

        def test_fault_at_any_request_of_cleaning(self):
            self.sweep('clean')

else:

    class SampleTest(SweepTestCase):
        def test_fault_at_any_request_leaves_servers_whole(self):
            chance = random.Random(SEED)  # noqa: S311
            action = chance.choice(
                ('cold_boot', 'cached_boot', 'delete', 'evacuate', 'clean')
            )
            some = range(request_faults.SAMPLE)
            self.sweep(action, [chance.randrange(10**6) for _ in some])
