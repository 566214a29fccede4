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

"""Fails each request of an attachment and detachment, a boot and a deletion.

Nova and Cinder are real, the array is Cinder's simulator, and the host has two
Virtual I/O Servers. After each fault, or kill of nova-compute, Nova, the
driver, the user and the operator go on as the pages say. Then Nova, Cinder,
the array and both servers agree on who has which volume.

The whole sweep runs if ``NOVA_POWERVM_TEST_ALL_REQUESTS`` is set (with
``NOVA_POWERVM_TEST_KILLS``, that of kills). Otherwise a sample runs, which
``NOVA_POWERVM_TEST_SEED`` chooses.
"""

import collections
import random
import re

from nova import context as nova_context
from nova import objects
from oslo_log import log as logging
from pypowervm.tasks import hdisk

from emulator.tests import base as emulator_base
from tests.functional import test_cinder_volumes
from tests.soak import SEED
from tests.soak import request_faults

LOG = logging.getLogger(__name__)

OPERATIONS = ('attach', 'detach', 'boot', 'delete')

#: How often a user and an operator repeat what is refused, at most.
_REPAIRS = 3
#: Of a volume that Nova or Cinder is just working on.
_PASSING = ('attaching', 'detaching', 'reserved')
#: The log tells of disks that stay, and how to remove them.
_STAYS = re.compile('Virtual I/O Server (\\S+) may keep .* `rmdev -dev`')
#: The log tells of mappings that stay, and of paths that are missing.
_REBOOT = re.compile('Reboot the server hard')


class VolumeSweepTestCase(
    request_faults.OneHostMixin, test_cinder_volumes.CinderVolumesTestCase
):
    """Runs operations on one server at a time, each with a fault."""

    def setUp(self):
        request_faults.keep_log_short(self)
        super().setUp()
        self.threads, self.kills = request_faults.prepare_kills(self)
        self.root = self.cinder.create_bootable(test_cinder_volumes.DATA)
        self.volume = self.cinder.create()
        self._outcomes = collections.Counter()

    # Cases

    def sweep(self, operation, sample=None):
        """Run an operation with a fault at each of its requests, or some."""
        # The first server creates what stays.
        for _ in range(2):
            self.run_case(operation)
        cases = self.sweep_cases(sample)
        unreached = []
        for number, request, fault in cases:
            case = f'{operation}: {fault} at {number}, {request} (seed {SEED})'
            with self.subTest(case):
                if not self.run_case(operation, number, fault):
                    unreached.append(case)
        LOG.warning(
            '%d cases: %s; not reached: %s',
            len(cases),
            dict(self._outcomes),
            unreached,
        )
        # What follows an operation may come too late for its last request.
        self.assertLess(len(unreached), 1 + len(cases) // 10, unreached)

    def run_case(self, operation, number=0, fault=''):
        """Run an operation, with a fault at one of its requests.

        :returns: Whether the request was reached.
        """
        # Chooses where a user has a choice.
        self._number = number
        try:
            server = self._prepare(operation)
            self.control().clear_journal()
            server, reached = self._inject(operation, server, number, fault)
            self.assert_safe()
            getattr(self, f'_recover_{operation}')(server)
            self.assert_safe()
            self._remove_disks()
            self.assert_agree(server)
            self._delete(server)
            self._remove_disks()
            self.forget()
        except Exception:
            self._clear_by_force()
            raise
        return reached

    def _clear_by_force(self):
        """Delete what a case has left that failed."""
        self.revive()
        for volume in (self.root, self.volume):
            if self.cinder.status(volume) in _PASSING:
                self.set_in_use(volume)
        super().forget()

    def _prepare(self, operation):
        """Return the server of an operation, if there is one before it."""
        if operation == 'boot':
            return None
        if operation == 'delete':
            return self.boot_from(self.root, self.volume)
        server = self.boot_from(self.root)
        if operation == 'detach':
            self.attach(server, self.volume)
        return server

    def _inject(self, operation, server, number, fault):
        """Ask for an operation; return its server, and if it met the fault."""
        self.disturb(number, fault)
        server = getattr(self, f'_ask_{operation}')(server)
        reached = self.go_on(server)
        found = self._states(server['id'])
        self._outcomes[
            operation,
            found.vm_state if found else 'deleted',
            *map(self.cinder.status, (self.root, self.volume)),
        ] += 1
        return server, reached

    def is_busy(self, server):
        """Return whether something is being done to a server or a volume."""
        found = self._states(server['id'])
        return bool(
            found and (found.task_state or found.vm_state == 'building')
        ) or any(
            self.cinder.status(volume) in _PASSING
            for volume in (self.root, self.volume)
        )

    # Operations

    def _ask_attach(self, server):
        find_event = self.start_attach(server, self.volume)
        # Nova's API does not even reserve it.
        self.await_found(
            lambda: self.kills.killed.is_set() or find_event(),
            'the attachment does not end',
        )
        return server

    def _ask_detach(self, server):
        self.api.delete_server_volume(server['id'], self.volume)
        return server

    def _ask_boot(self, _):
        server = self.start_boot(
            **test_cinder_volumes.from_volumes(self.root, self.volume)
        )
        self.await_found(
            lambda: self.kills.killed.is_set() or self._states(server['id']),
            'the server has no record',
        )
        return server

    def _ask_delete(self, server):
        self.api.delete_server(server['id'])
        return server

    # What the user and the operator do

    def _recover_attach(self, server):
        """Detach what a kill has left, or delete it with the server."""
        if self.cinder.status(self.volume) in _PASSING:
            if self._number % 3 == 0:
                self._reboot(server)
            if self._number % 3 == 1:
                self._delete(server)
            else:
                self.set_in_use(self.volume)
                self._detach(server)
        elif _REBOOT.search(self.logged()):
            self._reboot(server)

    def _recover_detach(self, server):
        """Repeat the detachment until it succeeds."""
        for _ in range(_REPAIRS):
            status = self.cinder.status(self.volume)
            if status == 'available':
                return
            if self._number % 2:
                self._reboot(server)
            if status in _PASSING:
                self.set_in_use(self.volume)
            self._detach(server)

    def _recover_boot(self, server):
        """Add a missing path, or delete what could not be built."""
        if self._states(server['id']).vm_state == 'error':
            self._delete(server)
        elif _REBOOT.search(self.logged()):
            self._reboot(server)

    def _recover_delete(self, server):
        self._delete(server)

    def _delete(self, server):
        """Delete a server, as often as that is refused."""
        for _ in range(_REPAIRS):
            if self._states(server['id']) is None:
                break
            self._ask_delete(server)
            self.await_rest(server)
        self.assertIsNone(self._states(server['id']))
        # A cycle removes what a failed build has left.
        self.computes['host1'].manager.update_available_resource(
            nova_context.get_admin_context()
        )

    def _detach(self, server):
        self._ask_detach(server)
        self.await_rest(server)

    def _reboot(self, server):
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        # A volume may wait for what was killed.
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        self.await_rest(server, ends=False)

    def _remove_disks(self):
        """Remove the disks that the log asks to remove with ``rmdev``."""
        adapter = emulator_base.adapter_for(self.hosts['host1'].emulator)
        for name in {*_STAYS.findall(self.logged())}:
            for disk in self.disks_of(name).values():
                if disk['available']:
                    self._outcomes['disk removed by hand'] += 1
                    hdisk.remove_hdisk(
                        adapter,
                        self.host_state()['name'],
                        disk['name'],
                        self._partition(name)['uuid'],
                    )

    # Checks

    def assert_safe(self):
        """Verify that nobody reaches what another one may get."""
        for name in test_cinder_volumes.SERVERS:
            disks = self.disks_of(name)
            mapped = [
                mapping['udid']
                for mapping in self._partition(name)['scsi_mappings']
                if mapping['kind'] == 'PhysicalVolume'
            ]
            self.assertEqual(sorted({*mapped}), sorted(mapped))
            self.assertEqual(
                [], [udid for udid in mapped if disks[udid]['stale']]
            )

    def assert_agree(self, server):
        """Verify that Nova, Cinder, array and host tell the same."""
        found = self._states(server['id'])
        expected = self._expected(server)
        for volume in (self.root, self.volume):
            attachments = self.cinder.request(
                'GET', f'/attachments/detail?volume_id={volume}'
            )['attachments']
            if volume in expected:
                self.assert_connected(server, volume)
                self.assertEqual(
                    [(server['id'], 'attached')],
                    [(one['instance'], one['status']) for one in attachments],
                )
            else:
                self.assert_nobody_has(volume)
                self.assertEqual([], attachments)
        if found:
            self.assertEqual('active', found.vm_state)
            self.assertEqual('running', self.lpar(server).state)
            slots = self.allocated_slots(self.api.get_server(server['id']))
            self.assertEqual(1, len(slots))
            self.assertEqual(
                dict.fromkeys(slots, True), self.lpar(server).slots
            )

    def _expected(self, server):
        """Return the ids of the volumes that Nova has for a server."""
        disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        )
        return {disk.volume_id for disk in disks if disk.is_volume}

    def forget(self):
        """Verify that a deleted server has left nothing, too."""
        super().forget()
        self.assertEqual(
            [],
            [
                found['name']
                for found in self.host_state()['partitions']
                if found['name'].startswith('instance-')
            ],
        )
        for name in test_cinder_volumes.SERVERS:
            self.assertEqual([], self._partition(name)['scsi_mappings'])
        for volume in (self.root, self.volume):
            self.assert_nobody_has(volume)


if request_faults.ALL:

    class WholeSweepTest(VolumeSweepTestCase):
        def test_fault_at_any_request_of_attachment(self):
            self.sweep('attach')

        def test_fault_at_any_request_of_detachment(self):
            self.sweep('detach')

        def test_fault_at_any_request_of_boot(self):
            self.sweep('boot')

        def test_fault_at_any_request_of_deletion(self):
            self.sweep('delete')

else:

    class SampleTest(VolumeSweepTestCase):
        def test_fault_at_any_request_leaves_all_in_agreement(self):
            chance = random.Random(SEED)  # noqa: S311
            self.sweep(chance.choice(OPERATIONS), chance.sample)
