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

"""The filter, with the classes of Nova's scheduler."""

import gc
import unittest
import weakref

from nova.objects import fields
from nova.objects import flavor
from nova.objects import request_spec
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager

from nova_powervm.scheduler import filters

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
