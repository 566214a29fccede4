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

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import placement_client

NUMBER = 40


class Placement:
    """A node with many providers, read over many connections."""

    def __init__(self):
        self.fails = {}
        #: Number of a provider to its capacity and used units, if not (1, 0).
        self.units = {}
        #: Class of which a unit is left on the host; None if there is none.
        self.left = 'VCPU'
        #: Numbers of the providers that were made after the summaries.
        self.later = ()
        self.asked = []
        self.now = self.most = 0
        self._lock = threading.Lock()
        self._all = threading.Event()

    def request(self, url, method, microversion, raise_exc, params=None):
        """Answer like an adapter of keystoneauth."""
        assert microversion == placement_client.MICROVERSION
        assert not raise_exc
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
        return answer

    def _answer(self, url, params):
        kind = url.rpartition('/')[2]
        if kind == 'resource_providers':
            root = self._record('root', None)
            if 'name' in params:
                return {kind: [root]}
            below = [self._record(f'p{n:02}', 'root') for n in range(NUMBER)]
            return {kind: [root, *below]}
        if kind == 'allocation_candidates':
            is_found = params['resources'] == f'{self.left}:1'
            return {
                'provider_summaries': self._summaries() if is_found else {}
            }
        return {
            'allocations': {'somebody': {'resources': {'CUSTOM_GPU': 1}}},
            'traits': ['CUSTOM_READ'],
            'inventories': {'CUSTOM_GPU': {'total': 1, 'reserved': 1}},
            'resource_provider_generation': 7,
            'errors': [{'detail': 'no good'}],
        }

    def _summaries(self):
        return {
            f'p{n:02}': {
                'resources': {
                    'CUSTOM_GPU': dict(
                        zip(
                            ('capacity', 'used'),
                            self.units.get(n, (1, 0)),
                            strict=True,
                        )
                    )
                },
                'traits': ['CUSTOM_TOLD'],
            }
            for n in range(NUMBER)
            if n not in self.later
        }

    def _record(self, uuid, parent):
        return {
            'uuid': uuid,
            'name': f'name of {uuid}',
            'parent_provider_uuid': parent,
            'generation': 1,
        }

    @property
    def asked_of_providers(self):
        """What was asked of single providers, without the root."""
        return sorted(
            url.removeprefix('/resource_providers/')
            for url in self.asked
            if url.startswith('/resource_providers/p')
        )


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

    def test_free_providers_cost_no_request(self):
        tree = self.read()
        self.assertEqual(4, len(self.placement.asked))
        self.assertEqual(
            [f'p{n:02}' for n in range(NUMBER)], [o.uuid for o in tree.below]
        )
        last = tree.below[-1]
        self.assertEqual(
            {'CUSTOM_GPU': {'total': 1, 'reserved': 0}}, last.inventory
        )
        self.assertEqual({'CUSTOM_TOLD'}, last.traits)
        self.assertEqual((1, 0), (last.generation, last.used))

    def test_summary_lacks_holders_and_reserves(self):
        held, burned, both, several = [f'p{n:02}' for n in (1, 2, 3, 4)]
        self.placement.units = {1: (1, 1), 2: (0, 0), 3: (0, 1), 4: (2, 0)}
        # Nobody else is read meanwhile.
        self.placement._all.set()
        tree = self.read()
        self.assertEqual(
            [
                f'{held}/allocations',
                f'{burned}/inventories',
                f'{both}/allocations',
                f'{both}/inventories',
                f'{several}/inventories',
            ],
            self.placement.asked_of_providers,
        )
        self.assertEqual(
            [(0, 0), (0, 1), (1, 0), (1, 1)],
            [(o.reserved, o.used) for o in tree.below[:4]],
        )
        # The traits were read before the inventory's generation 7.
        self.assertEqual({1}, {o.generation for o in tree.below})

    def test_summary_needs_one_free_unit_of_host(self):
        for number, left in enumerate(placement_client.HOST_CLASSES):
            self.placement.asked.clear()
            self.placement.left = left
            self.read()
            self.assertEqual(4 + number, len(self.placement.asked))

    def test_providers_of_full_host_are_read_side_by_side(self):
        self.placement.left = None
        tree = self.read()
        self.assertEqual(
            [f'p{n:02}' for n in range(NUMBER)], [o.uuid for o in tree.below]
        )
        self.assertEqual(6 + 3 * NUMBER, len(self.placement.asked))
        self.assertEqual(placement_client.CONNECTIONS, self.placement.most)
        last = tree.below[-1]
        self.assertEqual(
            (7, 1, 1), (last.generation, last.used, last.reserved)
        )
        self.assertEqual({'CUSTOM_READ'}, last.traits)

    def test_provider_made_meanwhile_is_read(self):
        self.placement.later = (5,)
        self.placement._all.set()
        tree = self.read()
        self.assertEqual(3, len(self.placement.asked_of_providers))
        self.assertEqual({'CUSTOM_READ'}, tree.below[5].traits)

    def test_terminal_shows_how_far_it_is_and_is_left_clean(self):
        self.read()
        shown = self.terminal.getvalue().split('\r\033[K')
        self.assertIn(f'Placement: {NUMBER} of {NUMBER} providers', shown)
        self.assertEqual('', shown[-1])
        self.terminal = None
        self.read()

    def test_provider_that_is_gone_meanwhile_is_left_out(self):
        self.placement.left = None
        for number, kind in enumerate(('inventories', 'traits')):
            self.placement.fails[
                f'/resource_providers/p{number:02}/{kind}'
            ] = 404
        self.placement.fails['/resource_providers/p02/allocations'] = 404
        self.assertEqual('p03', self.read().below[0].uuid)

    def test_held_provider_that_is_gone_meanwhile_is_left_out(self):
        self.placement.units = {0: (1, 1)}
        self.placement.fails['/resource_providers/p00/allocations'] = 404
        self.assertEqual('p01', self.read().below[0].uuid)

    def test_error_is_raised_and_terminal_left_clean(self):
        self.placement.left = None
        for status, error in (
            (500, errors.PlacementError),
            (403, errors.PlacementRefused),
        ):
            self.placement.fails['/resource_providers/p00/traits'] = status
            with self.assertRaises(error):
                self.read()
            self.assertTrue(self.terminal.getvalue().endswith('\033[K'))
