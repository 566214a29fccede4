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

"""What is read of a host, and whether it can be worked with."""

import unittest
import unittest.mock

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import watch
from tests.unit.devices import values

PROVIDER = claims.SlotProvider('p', values.INDEX, frozenset({'CUSTOM_GPU'}))
OTHER = claims.SlotProvider('q', 0x21010021, frozenset({'CUSTOM_GPU'}))


class Host:
    """A host with one slot, Nova's records of it, and Placement."""

    def __init__(self):
        self.owner = values.client()
        self.vacant = set()
        self.silent = False
        self.requests = []
        self.meanwhile = lambda: None

    def read(self):
        return values.managed_system(io_slots=(values.slot(owner=self.owner),))

    def capacity(self):
        return host_values.DiskCapacity(0, 0)

    def holdings(self, lpar_uuids):
        return {
            lpar_uuid: {'p': PROVIDER, 'q': OTHER} for lpar_uuid in lpar_uuids
        }

    def stale_lpars(self, lpar_uuids, host):
        return {}

    def get_consumers(self, providers):
        self.requests.append(set(providers))
        if self.silent:
            return {}
        consumers = {
            uuid: [] if uuid in self.vacant else ['instance']
            for uuid in providers
        }
        self.meanwhile()
        return consumers


class LostAllocationTest(unittest.TestCase):
    def setUp(self):
        self.host = Host()
        self.ops = host_ops.HostReader(*[self.host] * 4, 'host1')
        self.ops.read()

    def lost(self):
        return self.ops.read().lost

    def test_provider_of_owned_slot_without_consumer_is_lost(self):
        self.assertEqual(frozenset(), self.lost())
        self.host.vacant = {'p', 'q'}
        # The LPAR does not own the slot of the other provider.
        self.assertEqual({'p'}, self.lost())
        self.assertEqual({'p'}, self.lost())
        # The allocation is made again.
        self.host.vacant = set()
        self.assertEqual(frozenset(), self.lost())

    def test_slot_whose_owner_changes_meanwhile_is_not_lost(self):
        # Nova deletes the LPAR, and then the allocations.
        for owner in (None, values.client(uuid=values.OTHER_LPAR)):
            with self.subTest(owner=owner):
                self.setUp()
                self.host.vacant = {'p'}
                self.host.meanwhile = lambda owner=owner: setattr(
                    self.host, 'owner', owner
                )
                self.assertEqual(frozenset(), self.lost())

    def test_slot_of_a_new_lpar_is_not_lost(self):
        self.host.owner = None
        self.ops.read()
        self.host.vacant = {'p'}
        # A build is allocated the provider and gets the slot meanwhile.
        self.host.meanwhile = lambda: setattr(
            self.host, 'owner', values.client()
        )

        self.assertEqual(frozenset(), self.lost())

    def test_placement_is_not_asked_about_free_slots(self):
        self.host.owner = None
        self.ops.read()
        self.lost()

        self.assertEqual([set()], self.host.requests[1:])

    def test_missing_answer_loses_and_finds_nothing(self):
        self.host.silent = True
        self.assertEqual(frozenset(), self.lost())
        self.host.silent = False
        self.host.vacant = {'p'}
        self.lost()
        self.host.silent = True
        self.assertEqual({'p'}, self.lost())


DOWN = exception.RestUnreachable(server='it', reason='no answer')
FAILED = exception.RestError(action='it', reason='HTTP 500')


class ReadyHost:
    """Tells states; all LPARs but the foreign one are instances."""

    def __init__(self, **lpars):
        self.lpars = lpars
        self.reads = []

    def names(self):
        return {uuid: f'vm-{uuid}' for uuid in self.lpars}

    def instances_of(self, uuids):
        return {uuid: 'instance' for uuid in uuids if uuid != 'foreign'}

    def state(self, uuid):
        self.reads.append(uuid)
        told = self.lpars[uuid]
        if isinstance(told, Exception):
            raise told
        return told


class ReadinessTest(unittest.TestCase):
    def test_host_is_ready_when_states_of_instances_are_known(self):
        missing = exception.PartitionNotFound(uuid='a')
        for reads, lpars in (
            ('abc', {'a': 'running', 'b': 'not activated', 'c': 'error'}),
            ('', {'foreign': 'not available'}),
            ('a', {'a': missing}),
        ):
            host = ReadyHost(**lpars)
            watch.Readiness(host, host).check()
            self.assertEqual([*reads], host.reads)

    def test_refusal_names_instances_of_unknown_state(self):
        for words, reads, lpars in (
            (
                'vm-a, vm-c is unknown.*not available',
                'abc',
                {'a': 'not available', 'b': 'running', 'c': 'unknown'},
            ),
            ('vm-b.*HTTP 500', 'ab', {'a': 'running', 'b': FAILED}),
            # A silent host is asked once.
            ('vm-a', 'a', {'a': DOWN, 'b': DOWN, 'c': DOWN}),
        ):
            with self.subTest(words):
                host = ReadyHost(**lpars)
                with self.assertRaises(exception.StatesUnknown) as caught:
                    watch.Readiness(host, host).check()
                self.assertTrue(caught.exception.retryable)
                self.assertRegex(str(caught.exception), f'(?s){words}')
                self.assertEqual([*reads], host.reads)

    def test_lpars_that_can_not_be_listed(self):
        host = ReadyHost()
        for error, expected in (
            (FAILED, exception.StatesUnknown),
            (DOWN, exception.RestUnreachable),
        ):
            with self.subTest(error):
                host.names = unittest.mock.Mock(side_effect=error)
                with self.assertRaises(expected):
                    watch.Readiness(host, host).check()

    def test_single_unknown_lpar_is_waited_for_briefly(self):
        now = 0
        host = ReadyHost(a='not available', b='not available')
        ready = watch.Readiness(host, host, lambda: now)
        for seconds, state, expected in (
            (0, 'not available', exception.StatesUnknown),
            # For as long as a host may need to come up
            (1000, 'not available', exception.StatesUnknown),
            (1000, 'running', exception.StatesUnknown),
            (1059, 'running', exception.StatesUnknown),
            # It fails as a whole, and comes up again.
            (1059, 'not available', exception.StatesUnknown),
            (1100, 'running', exception.StatesUnknown),
            (1159, DOWN, exception.StatesUnknown),
            (1160, 'running', exception.StatesStayUnknown),
        ):
            now = seconds
            host.lpars['b'] = state
            with (
                self.subTest(seconds=seconds, state=state),
                self.assertRaises(exception.StatesUnknown) as caught,
            ):
                ready.check()
            self.assertIs(expected, type(caught.exception))
        self.assertFalse(caught.exception.retryable)
