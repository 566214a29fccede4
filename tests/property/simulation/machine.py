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

"""Rules of nova-compute and its instances, and the state machine."""

import os_traits
from hypothesis import stateful
from hypothesis import strategies as st

from nova_powervm.devices import accelerators
from tests.property.simulation import base_machine
from tests.property.simulation import checks
from tests.property.simulation import host
from tests.property.simulation import inventory
from tests.property.simulation import operator_rules
from tests.property.simulation import world as worlds

#: How a device can be away: what changes, and what it is otherwise.
_AWAY = (
    ('card', None, host.GPU),
    ('reported', False, True),
    ('sriov', True, False),
)


class InstanceRules(base_machine.BaseMachine):
    """Rules that boot, move and delete instances."""

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(
        data=st.data(),
        count=st.sampled_from((1, 1, 1, 2)),
        trouble=base_machine.TROUBLE,
    )
    def boot(self, data, count, trouble):
        node = base_machine.pick(data, self.running())
        trouble = self.trouble(node, trouble)
        groups = tuple(self._group(data, node) for _ in range(count))
        instance = self.world.boot(node, groups, trouble)
        if instance is None:
            self.done('boot without room', node)
            return
        if instance.state == 'active':
            self._check_exact(instance, trouble)
        elif node.compute and (trouble is None or trouble.times == 1):
            self.world.require(
                instance.lpar not in node.host.lpars
                and not node.host.disks_of(instance.lpar),
                'a failed build leaves nothing',
                instance,
            )
        self.done('boot', node, trouble)

    @stateful.precondition(lambda self: self._accelerated())
    @stateful.rule(data=st.data(), count=st.integers(0, 1))
    def boot_with_an_accelerator(self, data, count):
        """Boot with a slot of Cyborg, and perhaps one of Nova."""
        node, row = base_machine.pick(data, self._accelerated())
        request = accelerators.Request('request', row.uuid, host.OF_CYBORG)
        groups = tuple(self._group(data, node) for _ in range(count))
        instance = self.world.boot(node, groups, requests=(request,))
        if instance and instance.state == 'active':
            self._check_exact(instance, None)
        self.done('boot with an accelerator', node)

    def _accelerated(self):
        """Return the hosts whose slot of Cyborg is free, with its provider."""
        return [
            (node, row)
            for node in self.running()
            for row in self.world.placement.below(node.root)
            if os_traits.OWNER_CYBORG in row.traits
            and self.world.placement.has_room(row)
            and node.host.slots[host.OF_CYBORG].owner is None
        ]

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(
        data=st.data(), number=base_machine.NODES, trouble=base_machine.TROUBLE
    )
    def resize(self, data, number, trouble):
        """Request a resize or migration, which is refused."""
        instance = base_machine.pick(data, self.built())
        node = self.world.nodes[number]
        if node.compute is None or instance.requests:
            return
        trouble = self.trouble(node, trouble)
        if self.world.resize(instance, node, trouble):
            self.done('resize', node, trouble)

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(data=st.data())
    def boot_one(self, data):
        self.boot(data=data, count=1, trouble=None)

    def _group(self, data, node):
        """Choose a group that can be allocated, perhaps for a single slot."""
        room = [
            row
            for row in self.world.rows(node)
            if self.world.placement.has_room(row)
        ]
        if not room:
            return inventory.CLASSES[0], None
        row = base_machine.pick(data, room)
        (name, *_) = row.inventory
        index = worlds.slot_of(row)
        trait = f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{index:08X}'
        return name, data.draw(st.sampled_from((None, trait)))

    @stateful.precondition(lambda self: self.there())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def delete(self, data, trouble):
        instance = base_machine.pick(data, self.there())
        if instance.node and instance.node.compute:
            trouble = self.trouble(instance.node, trouble)
        self.world.delete(instance, trouble)
        self.done('delete', instance.node, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(
        data=st.data(), release=st.booleans(), trouble=base_machine.TROUBLE
    )
    def rebuild(self, data, release, trouble):
        instance = base_machine.pick(data, self.built())
        if release:
            held = self.world.placement.allocations[instance.uuid]
            for row in self.world.rows(instance.node):
                if row.uuid in held:
                    self.release(instance.node, row)
        trouble = self.trouble(instance.node, trouble)
        if self.world.rebuild(instance, trouble):
            self._check_exact(instance, trouble)
        self.done('rebuild', instance.node, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(
        data=st.data(),
        method=st.sampled_from(('on', 'off', 'reboot')),
        lose=st.booleans(),
        trouble=base_machine.TROUBLE,
    )
    def power(self, data, method, lose, trouble):
        instance = base_machine.pick(data, self.built())
        if lose:
            # Take its slots away, against the hypervisor's rules.
            machine = instance.node.host
            for index in machine.slots_of(instance.lpar):
                machine.change(index, owner=None)
        trouble = self.trouble(instance.node, trouble)
        if self.world.power(instance, method, trouble) and method != 'off':
            self._check_exact(instance, trouble)
        self.done(f'power {method}', instance.node, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(
        data=st.data(), way=st.sampled_from(_AWAY), free=st.booleans()
    )
    def away_and_back(self, data, way, free):
        """Make devices unusable for a while, with an instance or without."""
        instance = base_machine.pick(data, self.built())
        node = instance.node
        held = node.host.slots_of(instance.lpar) & {*host.SLOTS}
        what, away, back = way
        for index in held:
            node.host.change(index, **{what: away})
        self.wait(node, True)
        if free:
            self.world.delete(instance)
        for index in held:
            node.host.change(index, **{what: back})
        self.settle(node)
        self.done(f'away and back: {what}')

    @stateful.precondition(lambda self: self._movable())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def evacuate(self, data, trouble):
        """Stop a host and evacuate an instance to the other one."""
        instance, node = base_machine.pick(data, self._movable())
        instance.node.crash()
        trouble = self.trouble(node, trouble)
        if self.world.evacuate(instance, node, trouble):
            self._check_exact(instance, trouble)
        self.done('evacuate', node, trouble)

    def _movable(self):
        """Return the instances that can be evacuated, with their target."""
        return [
            (instance, node)
            for instance in self.there()
            for node in self.running()
            if instance.node
            and instance.node is not node
            and not instance.requests
        ]

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def reap(self, data, trouble):
        node = base_machine.pick(data, self.running())
        trouble = self.trouble(node, trouble)
        self.world.reap(node, trouble)
        self.done('reap', node, trouble)

    def _check_exact(self, instance, trouble):
        if trouble and trouble.kind == 'meddle' and trouble.done:
            # A slot may have been taken after the LPAR was read back.
            return
        lpar = instance.node.host.lpars[instance.lpar]
        self.world.require(
            lpar.state == 'running'
            and instance.node.host.slots_of(instance.lpar)
            == self.world.allocated(instance, instance.node),
            'an instance that runs has exactly its slots',
            instance,
        )


class Simulation(
    InstanceRules, operator_rules.HostRules, operator_rules.ProviderRules
):
    """All rules, and the processes of nova-compute."""

    @stateful.initialize(once=st.booleans())
    def start_both(self, once):
        for node in self.world.nodes:
            content = inventory.Content()
            node.file.write(content.changed(inventory.GPU, once=once))
            assert self.world.start(node)
            self.checked_cycle(node)
            self.add_foreign(node)
        self.done('start both')

    @stateful.rule(
        number=base_machine.NODES,
        trouble=base_machine.TROUBLE,
        power_loss=st.booleans(),
    )
    def restart(self, number, trouble, power_loss):
        node = self.world.nodes[number]
        was_good = node.file.content.broken != 'torn'
        node.crash()
        if power_loss:
            for lpar in node.host.lpars.values():
                lpar.state = 'not activated'
        trouble = self.trouble(node, trouble)
        started = self.world.start(node, trouble)
        if started and not (trouble and trouble.done):
            checks.after_cycle(self.world, node)
        if trouble is None and was_good:
            assert node.compute is not None
        self.done('restart', node, trouble)

    @stateful.precondition(lambda self: len(self.running()) > 1)
    @stateful.rule(number=base_machine.NODES)
    def stop(self, number):
        self.world.nodes[number].crash()
        self.done('stop')

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(
        data=st.data(),
        trouble=base_machine.TROUBLE,
        fresh=st.booleans(),
    )
    def cycle(self, data, trouble, fresh):
        node = base_machine.pick(data, self.running())
        trouble = self.trouble(node, trouble)
        if fresh:
            node.compute.forget_providers()
        with self.world.troubled(node, trouble):
            went_well = self.world.cycle(node)
        if went_well and not (trouble and trouble.done):
            checks.after_cycle(self.world, node)
        if trouble is None and not went_well:
            self.must_cycle(node)
        self.done('cycle', node, trouble)

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(data=st.data())
    def quiet(self, data):
        """Run three cycles without changes."""
        self.settle(base_machine.pick(data, self.running()))
        self.done('quiet')
