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

"""The hosts of an interrupted evacuation start at the same time."""

import functools
import itertools
import os

from tests.functional import accesses
from tests.functional import test_stuck_servers


class EvacuationBothStartTest(test_stuck_servers.StuckEvacuationsTestCase):
    """One host starts while the other does, before the first write of it.

    If ``NOVA_POWERVM_TEST_ALL_REQUESTS`` is set, before each write, read and
    request.
    """

    counts_all = 'NOVA_POWERVM_TEST_ALL_REQUESTS' in os.environ

    def setUp(self):
        # Each start waits for a thread of its own.
        self.flags(update_resources_max_workers=2, group='compute')
        super().setUp()
        self.access = None

    def test_one_host_starts_within_the_start_of_the_other(self):
        self.start_at_each_access('host1', 'host2')
        self.start_at_each_access('host2', 'host1')

    def start_at_each_access(self, outer, inner):
        """Tell of a start of one host before each access of the other's."""
        for number in itertools.count(1):
            self.access = None
            with self.subTest(f'{inner} starts at access {number} of {outer}'):
                self._tell(
                    functools.partial(self.start_both, outer, inner, number)
                )
            if not (self.access and self.counts_all):
                break
        self.assertTrue(self.access or number > 1)

    def start_both(self, outer, inner, number):
        """Start a host within the start of the other, and use the page."""
        self.interrupt()
        self.flags(rpc_response_timeout=1)
        self.control('host1').power_on_system()
        counted = accesses.StartAccesses(
            number,
            functools.partial(self.start_within, inner),
            counts_all=self.counts_all,
        )
        with counted:
            self.restart_host(outer)
        self.access = counted.access
        if not self.access:
            self.restart_host(inner)
        self.admin_api.put_service_force_down(self.service('host1'), False)
        self.flags(rpc_response_timeout=10)
        self.assert_kept()
        if self._get_allocations_by_server_uuid(self.server['id']):
            self.end('host1')
        else:
            self.evacuate_again()

    def assert_kept(self):
        """Verify that the source has the LPAR, with all claims or without."""
        self.await_stillness()
        self.assert_safe(self.server)
        self.assertEqual({'host1'}, {*self.lpars_of(self.server)})
        lpar = self.lpar(self.server, 'host1')
        self.assertEqual(len(test_stuck_servers.DEVICES), len(lpar.slots))
        record = self._record(self.server['id'])
        self.assertEqual(('host1', None), (record.host, record.task_state))
        uuid = self.server['id']
        slots = {('host1', index): {uuid} for index in lpar.slots}
        (move,) = self.moves(uuid)
        self.assertIn(move.status, ('failed', 'completed'))
        self.assertIn(self.consumers(), ({'host1': {uuid}} | slots, {}))
