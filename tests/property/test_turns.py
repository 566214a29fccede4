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

"""Requests get different devices, however many there are at a time."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st
from nova.objects import fields
from nova.objects import flavor
from nova.objects import request_spec
from nova.scheduler import host_manager

from nova_powervm.scheduler import filters
from nova_powervm.scheduler import turns

SPEC = request_spec.RequestSpec(
    flavor=flavor.Flavor(
        root_gb=0, ephemeral_gb=0, swap=0, memory_mb=512, vcpus=1
    ),
    pci_requests=None,
    numa_topology=None,
)

#: A candidate, as the providers of some devices.
groups = st.frozensets(st.sampled_from('abcdef'), min_size=1, max_size=3)
choices = st.lists(st.lists(groups, min_size=1, max_size=6), max_size=20)


def in_order():
    """Return turns that take the first of equal candidates."""
    return turns.Turns(tiebreak=lambda: 0)


def waiting(candidate, taken):
    """Return how long each provider of a candidate waits, the latest first.

    :param taken: The candidates that were taken.
    """
    return sorted(
        next(
            (number for number, c in enumerate(reversed(taken)) if p in c),
            float('inf'),
        )
        for p in candidate
    )


class TurnsTest(unittest.TestCase):
    @given(choices)
    def test_taken_candidate_waited_longest(self, offered):
        order = turns.Turns()
        taken = []
        for candidates in offered:
            best = max(waiting(candidate, taken) for candidate in candidates)

            chosen = candidates[order.take(candidates)]

            self.assertEqual(best[: len(chosen)], waiting(chosen, taken))
            taken.append(chosen)

    @given(choices)
    def test_provider_of_all_candidates_does_not_count(self, offered):
        bare, shared = in_order(), in_order()
        for candidates in offered:
            with_root = [c | {'root'} for c in candidates]
            self.assertEqual(bare.take(candidates), shared.take(with_root))

    @given(choices, st.integers(1, 4))
    def test_memory_is_limited(self, offered, limit):
        order = turns.Turns(limit=limit)
        for candidates in offered:
            order.take(candidates)
            self.assertLessEqual(len(order._last), limit)


class Cloud:
    """Hosts with devices, Placement, and one process of Nova's scheduler.

    :param sizes: The number of devices of each host.
    :param per_server: How many devices each server gets.
    """

    def __init__(self, sizes, per_server):
        self._filter = filters.PowerVMDeviceOrderFilter()
        self._per_server = per_server
        self._free = [
            {f'{host}/{number}' for number in range(size)}
            for host, size in enumerate(sizes)
        ]

    def schedule(self, preferred, servers=1):
        """Schedule the servers of a request, as Nova does.

        A generator: others run where it yields.

        :param preferred: The hosts in the order of their weights.
        :returns: How many of the servers got a host.
        """
        states = [self._ask_placement(host) for host in preferred]
        states = [state for state in states if state.allocation_candidates]
        for claimed in range(servers):
            yield
            states = list(self._filter.filter_all(states, SPEC))
            for state in states:
                yield
                wanted = state.allocation_candidates[0]['allocations']
                yield
                free = self._free[int(state.host)]
                if set(wanted) <= free:
                    free -= set(wanted)
                    state.consume_from_request(SPEC)
                    break
            else:
                return claimed
        for state in states:
            # In case the build fails.
            state.allocation_candidates[0]
        return servers

    def _ask_placement(self, host):
        state = host_manager.HostState(str(host), str(host), 'cell')
        state.hypervisor_type = fields.HVType.PHYP
        state.allocation_candidates = [
            {'allocations': dict.fromkeys(devices)}
            for devices in itertools.combinations(
                sorted(self._free[host]), self._per_server
            )
        ]
        return state


class SchedulerTest(unittest.TestCase):
    @given(st.data())
    def test_parallel_requests_get_all_devices(self, data):
        sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
        hosts = st.permutations(range(len(sizes)))
        cloud = Cloud(sizes, 1)
        running = [cloud.schedule(data.draw(hosts)) for _ in range(sum(sizes))]
        results = []
        while running:
            request = data.draw(st.sampled_from(running))
            try:
                next(request)
            except StopIteration as ended:
                running.remove(request)
                results.append(ended.value)

        self.assertEqual([1] * sum(sizes), results)

    @given(
        st.lists(st.integers(1, 9), min_size=1, max_size=3),
        st.integers(1, 3),
        st.randoms(use_true_random=False),
    )
    def test_request_for_several_servers_gets_all_devices(
        self, sizes, per_server, random
    ):
        fit = sum(size // per_server for size in sizes)
        hosts = list(range(len(sizes)))
        random.shuffle(hosts)
        request = Cloud(sizes, per_server).schedule(hosts, fit)
        while True:
            try:
                next(request)
            except StopIteration as ended:
                self.assertEqual(fit, ended.value)
                break
