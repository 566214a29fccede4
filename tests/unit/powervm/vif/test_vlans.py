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
"""VLANs that the driver adds to bridges, with a kill at any moment."""

import dataclasses
import threading
import unittest
import unittest.mock

import hypothesis
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet
from nova_powervm.powervm.vif import vlans

SWITCH = 'ETHERNET0'
FOREIGN = 50
NUMBERS = (100, FOREIGN)


class Killed(BaseException):
    """The service ends here."""


class World:
    """A host and Nova's records, which outlive the service.

    Each call counts down to the service's end, which comes before or after
    the call has done its work.
    """

    def __init__(self):
        self.bridge = shared_ethernet.Bridge(
            'b1', SWITCH, 1, frozenset((1, FOREIGN))
        )
        self.theirs = {FOREIGN}
        self.wrongs = []
        self.adapters = {}
        self.recorded = {}
        #: Instances that are about to arrive, and their keys.
        self.arriving = {}
        self.deleting = set()
        self.failing = set()
        self.left = None
        self.after = False

    def step(self, verb, change=None):
        if verb in self.failing:
            raise exception.RestError(action=verb, reason='a test says so')
        if self.left is not None:
            self.left -= 1
            if self.left < 0 and not self.after:
                raise Killed()
        answer = change() if change else None
        if self.left is not None and self.left < 0:
            raise Killed()
        return answer

    # The host

    def bridges(self):
        return self.step('bridges', lambda: [self.bridge])

    def _carry(self, numbers):
        self.bridge = dataclasses.replace(
            self.bridge, vlans=frozenset(numbers)
        )

    def provision(self, bridge, numbers):
        self.step(
            'provision',
            lambda: self._carry(self.bridge.vlans | set(numbers)),
        )

    def withdraw(self, bridge, number):
        def change():
            # Not an exception, which the driver would survive.
            if number in self.adapters.values():
                self.wrongs.append(f'{number} is needed')
            if number in self.theirs:
                self.wrongs.append(f"{number} is somebody else's")
            self._carry(self.bridge.vlans - {number})

        self.step('withdraw', change)

    def add_by_hand(self, number):
        if number not in self.bridge.vlans:
            self.theirs.add(number)
            self._carry(self.bridge.vlans | {number})

    def occupied(self):
        return self.step(
            'occupied',
            lambda: {(SWITCH, number) for number in self.adapters.values()},
        )

    def plug_by_hand(self, number):
        if number in self.bridge.vlans:
            self.adapters['by hand', number] = number

    # Nova's records: an instance is a number, and so is its port's VLAN.

    def metadata_keys(self):
        return self.step(
            'metadata_keys', lambda: frozenset().union(*self.recorded.values())
        )

    def awaited_keys(self):
        return self.step(
            'awaited_keys', lambda: frozenset().union(*self.arriving.values())
        )

    def ports(self):
        return self.step(
            'ports',
            lambda: [
                port_on(vlan) for _, vlan in set(self.recorded) - self.deleting
            ],
        )

    def remove_key(self, key):
        def change():
            for found in self.recorded.values():
                found.discard(key)

        self.step('remove_key', change)


def port_on(vlan):
    """Make a port on a VLAN."""
    return network_ports.Port('p', 'm', shared_ethernet.VIF_TYPE, vlan=vlan)


class InstanceMetadata:
    """The keys of one instance of the world."""

    def __init__(self, world, instance):
        self._world = world
        self._instance = instance
        self.instance_uuid = str(instance)

    def add(self, keys):
        self._world.step(
            'add_key',
            lambda: self._world.recorded[self._instance].update(keys),
        )


class Service:
    """What a driver does with a world until it is killed."""

    def __init__(self, world):
        self.world = world
        self.ops = vlans.ProvisionedVlans(world, world, provision=True)

    def build(self, instance, *, race=False):
        """Connect an instance; it is its name and its VLAN.

        :param race: Let somebody else add the VLAN meanwhile.
        """
        world = self.world
        world.recorded.setdefault(instance, set())
        port = port_on(instance[1])
        with self.ops.using([port]):
            connection = shared_ethernet.Connection(
                port, world.bridges()[0], instance[1]
            )
            if race:
                world.add_by_hand(instance[1])
            self.ops.provide([connection], InstanceMetadata(world, instance))
            world.step(
                'plug', lambda: world.adapters.update({instance: instance[1]})
            )

    def delete(self, instance):
        """Remove an instance as Nova does; again after a kill."""
        world = self.world
        world.deleting.add(instance)
        world.step('unplug', lambda: world.adapters.pop(instance, None))
        self.ops.adopt(world.recorded.get(instance, ()))
        self.ops.released()
        self.ops.remove_idle()
        world.step('forget', lambda: world.recorded.pop(instance, None))
        world.deleting.discard(instance)


INSTANCES = st.tuples(st.sampled_from('ab'), st.sampled_from(NUMBERS))
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ['build', 'delete', 'race', 'tidy', 'restart', 'vlan', 'adapter']
            + ['build', 'delete'] * 3
        ),
        INSTANCES,
    ),
    min_size=3,
    max_size=20,
)


class KillTest(unittest.TestCase):
    @hypothesis.settings(max_examples=300, deadline=None)
    @hypothesis.given(
        ACTIONS, st.lists(st.tuples(st.integers(0, 60), st.booleans()))
    )
    def test_kill_never_removes_needed_or_foreign_vlan(self, actions, kills):
        world = World()
        service = Service(world)
        kills = list(kills)
        for action, instance in actions:
            if kills and world.left is None:
                world.left, world.after = kills.pop()
            try:
                self.act(service, action, instance)
            except Killed:
                world.left = None
                service = Service(world)
                # What was being deleted is deleted at the start.
                for found in sorted(world.deleting):
                    service.delete(found)
            if action == 'restart':
                service = Service(world)
            carried = world.bridge.vlans
            self.assertEqual([], world.wrongs)
            self.assertLessEqual(set(world.adapters.values()), carried)

    def act(self, service, action, instance):
        there = instance in service.world.recorded
        if action in ('build', 'race') and not there:
            service.build(instance, race=action == 'race')
        elif action == 'delete' and service.world.recorded:
            service.delete(instance if there else min(service.world.recorded))
        elif action == 'tidy':
            service.ops.tidy()
        elif action == 'vlan':
            service.world.add_by_hand(instance[1])
        elif action == 'adapter':
            service.world.plug_by_hand(instance[1])

    @hypothesis.given(ACTIONS)
    def test_added_vlans_are_all_removed_without_kill(self, actions):
        world = World()
        service = Service(world)
        for action, instance in actions:
            self.act(service, action, instance)
        for instance in list(world.recorded):
            service.delete(instance)
        world.adapters.clear()
        service.ops.tidy()

        self.assertEqual({1} | world.theirs, world.bridge.vlans)


class ProvisionedVlansTest(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.service = Service(self.world)

    def test_failed_removal_is_repeated_in_next_cycle(self):
        for failing in (
            'bridges',
            'occupied',
            'ports',
            'remove_key',
            'withdraw',
        ):
            with self.subTest(failing):
                self.service.build(('a', 100))
                self.world.failing = {failing}
                self.service.delete(('a', 100))
                self.assertIn(100, self.world.bridge.vlans)
                self.service.ops.tidy()
                self.world.failing = set()

                self.service.ops.tidy()

                self.assertNotIn(100, self.world.bridge.vlans)

    def test_vlan_in_use_does_not_block_removal_of_others(self):
        withdraw = self.world.withdraw

        def refuse(bridge, number):
            if number == 100:
                raise exception.RestError(action='it', reason='in use')
            withdraw(bridge, number)

        self.world.withdraw = refuse
        for number in (100, 200):
            self.service.build(('a', number))
        for number in (100, 200):
            self.service.delete(('a', number))

        self.assertEqual({1, FOREIGN, 100}, self.world.bridge.vlans)

    def test_vlan_of_running_build_is_kept(self):
        self.service.build(('a', 100))

        with self.service.ops.using([port_on(100)]):
            self.service.delete(('a', 100))
            self.assertIn(100, self.world.bridge.vlans)

        self.service.ops.tidy()
        self.assertNotIn(100, self.world.bridge.vlans)

    def test_vlan_of_lpar_on_its_way_here_is_kept(self):
        self.service.build(('a', 100))
        self.world.arriving = {'a': set(self.world.metadata_keys())}
        self.assertTrue(self.world.arriving['a'])

        self.service.delete(('a', 100))
        self.service.ops.tidy()
        self.assertIn(100, self.world.bridge.vlans)

        self.world.arriving = {}
        self.service.ops.tidy()
        self.assertNotIn(100, self.world.bridge.vlans)

    def test_vlan_of_attachment_goes_however_long_that_takes(self):
        self.service.build(('a', 100))

        # The host answers after several cycles that it has the adapter.
        with self.service.ops.using([port_on(100)]):
            self.service.delete(('a', 100))
            for _ in range(4):
                self.service.ops.tidy()
                self.assertIn(100, self.world.bridge.vlans)

        self.service.ops.tidy()
        self.assertNotIn(100, self.world.bridge.vlans)

    def test_adapter_removed_during_search_gets_all_its_searches(self):
        ops, answers = self.service.ops, [True, False, True]

        def search():
            if answers:
                ops.released()
                return answers.pop()
            searches.append(self)
            return True

        searches = []
        with unittest.mock.patch.object(ops, 'remove_idle', search):
            for _ in range(6):
                ops.tidy()

        self.assertEqual(2, len(searches))

    def test_build_waits_for_running_removal(self):
        self.service.build(('a', 100))
        reading, go_on = threading.Event(), threading.Event()
        occupied = self.world.occupied

        def slow():
            reading.set()
            go_on.wait(10)
            return occupied()

        self.world.occupied = slow
        removal = threading.Thread(
            target=self.service.delete, args=[('a', 100)]
        )
        removal.start()
        self.assertTrue(reading.wait(10))
        build = threading.Thread(target=self.service.build, args=[('b', 100)])
        build.start()
        build.join(0.05)
        self.assertNotIn(('b', 100), self.world.adapters)

        go_on.set()
        removal.join(10)
        build.join(10)

        self.assertIn(100, self.world.bridge.vlans)
        self.assertIn(('b', 100), self.world.adapters)
        self.assertEqual({'vlan:b1:100'}, self.world.recorded[('b', 100)])

    def test_unreported_bridge_keeps_its_vlans(self):
        self.service.build(('a', 100))
        bridge = self.world.bridge
        self.world.bridges = list
        self.service.delete(('a', 100))
        del self.world.bridges
        self.assertEqual(bridge, self.world.bridge)

        self.service.ops.released()
        self.service.ops.tidy()

        self.assertNotIn(100, self.world.bridge.vlans)
