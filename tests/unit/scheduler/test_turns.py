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

"""Filters of the scheduler, and whose turn it is."""

import concurrent.futures
import gc
import subprocess
import sys
import textwrap
import unittest
import weakref

from nova.objects import fields
from nova.objects import flavor
from nova.objects import request_spec
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager

from nova_powervm.scheduler import filters
from nova_powervm.scheduler import turns

#: Eight workers, forked as by nova-scheduler, choose one of many candidates.
FORKED = textwrap.dedent("""
    import os, sys
    from nova_powervm.scheduler import turns
    order = turns.Turns()
    for _ in range(8):
        if not os.fork():
            chosen = order.take([[str(n)] for n in range(10 ** 4)])
            os.write(1, f'{chosen}\\n'.encode())
            os._exit(0)
        os.wait()
    """)


def in_order():
    """Return turns that take the first of equal candidates."""
    return turns.Turns(tiebreak=lambda: 0)


def take(order, *candidates):
    """Take one of candidates like 'ab', with the providers a and b."""
    return candidates[order.take(candidates)]


class TurnsTest(unittest.TestCase):
    def test_providers_take_turns(self):
        order = in_order()

        taken = [take(order, *'abc') for _ in range(6)]

        self.assertEqual(list('abcabc'), taken)

    def test_latest_turn_of_group_counts(self):
        order = in_order()
        take(order, 'ab')
        take(order, 'cd')

        # Each of the others has a provider that was taken last.
        self.assertEqual('ab', take(order, 'ac', 'bd', 'cd', 'ab'))

    def test_equal_candidates_are_chosen_by_lowest_number(self):
        numbers = iter([0.5, 0.2, 0.9])
        order = turns.Turns(tiebreak=lambda: next(numbers))

        self.assertEqual('b', take(order, *'abc'))

    def test_choice_is_no_turn(self):
        order = in_order()

        self.assertEqual([0, 0], [order.choose('ab') for _ in range(2)])
        self.assertEqual('a', take(order, *'ab'))
        self.assertEqual([1, 1], [order.choose('ab') for _ in range(2)])

    def test_providers_taken_last_are_remembered(self):
        order = turns.Turns(limit=2, tiebreak=lambda: 0)
        for provider in 'abac':
            take(order, provider)

        # That b was taken is forgotten, so it is equal to one that was not.
        self.assertEqual(0, order.choose('bx'))
        self.assertEqual(1, order.choose('ax'))
        self.assertEqual(1, order.choose('cx'))

    def test_group_larger_than_memory_is_taken(self):
        order = turns.Turns(limit=2, tiebreak=lambda: 0)

        self.assertEqual('abc', take(order, 'abc'))

    def test_parallel_requests_take_different_providers(self):
        order = turns.Turns()
        providers = [chr(0x4E00 + number) for number in range(200)]
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            taken = list(
                pool.map(lambda _: take(order, *providers), providers)
            )

        self.assertEqual(providers, sorted(taken))

    def test_forked_workers_choose_different_candidates(self):
        chosen = subprocess.run(
            (sys.executable, '-c', FORKED),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

        self.assertEqual(8, len(chosen))
        # Two of them may by chance.
        self.assertGreater(len(set(chosen)), 6)


SPEC = request_spec.RequestSpec(
    flavor=flavor.Flavor(
        root_gb=0, ephemeral_gb=0, swap=0, memory_mb=512, vcpus=1
    ),
    pci_requests=None,
    numa_topology=None,
    scheduler_hints={},
)
REBUILD = request_spec.RequestSpec(
    scheduler_hints={'_nova_check_type': ['rebuild']}
)


def candidate(root, *devices):
    """Return an allocation candidate as Placement describes it."""
    return {
        'allocations': {
            root: {'resources': {'VCPU': 1}},
            **{device: {'resources': {'CUSTOM_GPU': 1}} for device in devices},
        },
        'mappings': {'': [root]},
    }


def host_state(name, devices='', hypervisor=fields.HVType.PHYP):
    """Return the state of a host, with a candidate for each device."""
    state = host_manager.HostState(name, name, 'cell')
    state.uuid = name
    state.hypervisor_type = hypervisor
    state.allocation_candidates = [candidate(name, d) for d in devices]
    return state


def take_first(state):
    """Return the device of a host's first candidate, as Nova takes it."""
    _, device = state.allocation_candidates[0]['allocations']
    return device


class PowerVMDeviceOrderFilterTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.filter = filters.PowerVMDeviceOrderFilter()

    def run_filter(self, *states, spec=SPEC):
        """Filter hosts with the code that calls filters in the scheduler."""
        return nova_filters.HostFilterHandler().get_filtered_objects(
            [self.filter], states, spec
        )

    def test_nova_finds_filter_and_its_own_ones(self):
        handler = nova_filters.HostFilterHandler()
        name = f'{filters.__name__}.{filters.all_filters.__name__}'

        found = handler.get_matching_classes([name])

        self.assertEqual(
            {*nova_filters.all_filters(), filters.PowerVMDeviceOrderFilter},
            set(found),
        )

    def test_hosts_and_candidates_are_left(self):
        states = [host_state('host1', 'abc'), host_state('host2')]
        before = [list(state.allocation_candidates) for state in states]

        self.assertEqual(states, self.run_filter(*states))

        take_first(states[0])
        after = [list(state.allocation_candidates) for state in states]
        self.assertEqual(before, after)

    def test_devices_of_host_that_is_not_tried_keep_their_turn(self):
        small, large = host_state('host1', 'a'), host_state('host2', 'bcd')
        taken = []

        # Nova prefers one host, then the other.
        for state in (large, small, large, large):
            self.run_filter(small, large)
            taken.append(take_first(state))
            state.consume_from_request(SPEC)

        self.assertEqual(list('abcd'), sorted(taken))

    def test_refused_candidate_is_a_turn(self):
        # Another scheduler was faster on the first host.
        refused, claimed = host_state('host1', 'ab'), host_state('host2', 'cd')
        self.run_filter(refused, claimed)
        first = take_first(refused)
        take_first(claimed)
        claimed.consume_from_request(SPEC)

        again = host_state('host1', 'ab')
        self.run_filter(again)

        self.assertNotEqual(first, take_first(again))

    def test_alternative_is_no_turn(self):
        before = host_state('host2', 'cd')
        self.run_filter(before)
        taken = take_first(before)
        claimed, other = host_state('host1', 'ab'), host_state('host2', 'cd')
        self.run_filter(claimed, other)
        take_first(claimed)
        claimed.consume_from_request(SPEC)

        # For a retry if the build fails on the first host.
        alternatives = [take_first(other) for _ in range(2)]

        later = host_state('host2', 'cd')
        self.run_filter(later)
        (left,) = {'c', 'd'} - {taken}
        self.assertEqual([left] * 3, [*alternatives, take_first(later)])

    def test_later_filter_can_remove_candidates(self):
        class Later(nova_filters.CandidateFilterMixin):
            pass

        state = host_state('host1', 'abc')
        self.run_filter(state)

        Later().filter_candidates(state, lambda c: 'b' in c['allocations'])

        self.assertEqual('b', take_first(state))

    def test_states_of_request_are_freed_with_it(self):
        state = host_state('host1', 'abc')
        self.run_filter(state)
        freed = weakref.ref(state)
        self.addCleanup(gc.enable)
        gc.disable()

        del state

        self.assertIsNone(freed())

    def test_hosts_of_other_drivers_are_untouched(self):
        for hypervisor in (fields.HVType.QEMU, fields.HVType.IRONIC, None):
            state = host_state('host1', 'abc', hypervisor)
            candidates = state.allocation_candidates

            self.run_filter(state, host_state('host2', 'abc'))

            self.assertIs(candidates, state.allocation_candidates)

    def test_rebuild_is_untouched(self):
        # Nova asks for no candidates then.
        state = host_state('host1')
        candidates = state.allocation_candidates

        self.assertEqual([state], self.run_filter(state, spec=REBUILD))

        self.assertIs(candidates, state.allocation_candidates)
