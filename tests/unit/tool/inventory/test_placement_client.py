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

import io
import threading
import time
import unittest

import requests
from keystoneauth1.exceptions import http

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import placement_client

NUMBER = 40


class Placement:
    """A node with many providers, read over many connections."""

    def __init__(self):
        self.fails = {}
        self.free = ()
        self.inventory = {'total': 1, 'allocation_ratio': 1.0}
        self.asked = []
        self.now = self.most = 0
        self._lock = threading.Lock()
        self._all = threading.Event()

    def request(self, url, method, microversion, params=None):
        """Answer like an adapter of keystoneauth."""
        assert microversion == placement_client.MICROVERSION
        with self._lock:
            self.asked.append(url)
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == placement_client.CONNECTIONS:
                self._all.set()
        if url.endswith('/inventories'):
            # The others are read meanwhile, and there could be too many.
            assert self._all.wait(60)
            time.sleep(0.01)
        answer = requests.Response()
        answer.status_code = self.fails.get(url, 200)
        answer.json = lambda: self._answer(url, params)
        with self._lock:
            self.now -= 1
        if answer.status_code != 200:
            raise http.from_response(answer, method, url)
        return answer

    def _answer(self, url, params):
        kind = url.rpartition('/')[2]
        if kind == 'resource_providers':
            root = self._record('root', None)
            if 'name' in params:
                return {kind: [root]}
            below = [self._record(f'p{n:02}', 'root') for n in range(NUMBER)]
            if 'resources' in params:
                return {kind: [below[n] for n in self.free]}
            return {kind: [root, *below]}
        return {
            'allocations': {'somebody': {'resources': {'CUSTOM_GPU': 1}}},
            'traits': ['CUSTOM_FAST'],
            'inventories': {'CUSTOM_GPU': self.inventory},
            'resource_provider_generation': 7,
            'errors': [{'detail': 'no good'}],
        }

    def _record(self, uuid, parent):
        return {
            'uuid': uuid,
            'name': f'name of {uuid}',
            'parent_provider_uuid': parent,
            'generation': 1,
        }


class PlacementClientTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.placement = Placement()
        self.terminal = io.StringIO()

    def read(self):
        client = placement_client.PlacementClient(
            self.placement, self.terminal
        )
        return client.tree('host1')

    def test_providers_are_read_side_by_side_and_keep_their_order(self):
        tree = self.read()
        self.assertEqual(
            [f'p{n:02}' for n in range(NUMBER)], [o.uuid for o in tree.below]
        )
        self.assertEqual(4 + 3 * NUMBER, len(self.placement.asked))
        self.assertEqual(placement_client.CONNECTIONS, self.placement.most)
        self.assertEqual(7, tree.below[-1].generation)
        self.assertEqual(1, tree.below[-1].used)

    def test_free_providers_are_not_asked_who_has_them(self):
        self.placement.free = range(1, NUMBER)
        tree = self.read()
        self.assertEqual(4 + 2 * NUMBER + 1, len(self.placement.asked))
        self.assertEqual(
            [1] + [0] * (NUMBER - 1), [one.used for one in tree.below]
        )

    def test_provider_that_others_can_share_is_asked_who_has_it(self):
        self.placement.free = range(NUMBER)
        for change in ({'total': 2}, {'allocation_ratio': 16.0}):
            with self.subTest(change):
                self.placement.inventory |= change
                self.assertEqual(1, self.read().below[0].used)

    def test_terminal_shows_how_far_it_is_and_is_left_clean(self):
        self.read()
        shown = self.terminal.getvalue().split('\r\033[K')
        self.assertIn(f'Placement: {NUMBER} of {NUMBER} providers', shown)
        self.assertEqual('', shown[-1])
        self.terminal = None
        self.read()

    def test_provider_that_is_gone_meanwhile_is_left_out(self):
        for number, kind in enumerate(('inventories', 'traits')):
            self.placement.fails[
                f'/resource_providers/p{number:02}/{kind}'
            ] = 404
        self.placement.fails['/resource_providers/p02/allocations'] = 404
        self.assertEqual('p03', self.read().below[0].uuid)

    def test_error_is_raised_and_terminal_left_clean(self):
        for status, error in (
            (500, errors.PlacementError),
            (403, errors.PlacementRefused),
        ):
            self.placement.fails['/resource_providers/p00/traits'] = status
            with self.assertRaises(error):
                self.read()
            self.assertTrue(self.terminal.getvalue().endswith('\033[K'))
