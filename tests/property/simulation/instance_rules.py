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

"""Rules of instances: boot, delete, rebuild, power, evacuate."""

import os_traits
from hypothesis import stateful
from hypothesis import strategies as st

from nova_powervm.devices import accelerators
from nova_powervm.lpar import storage
from tests.property.simulation import base_machine
from tests.property.simulation import host
from tests.property.simulation import inventory
from tests.property.simulation import records
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
        swap_mb=st.sampled_from((0, 0, 512)),
        trouble=base_machine.TROUBLE,
    )
    def boot(self, data, count, swap_mb, trouble):
        node = base_machine.pick(data, self.running())
        trouble = self.trouble(node, trouble)
        groups = tuple(self._group(data, node) for _ in range(count))
        wish = records.Wish(groups, swap_mb=swap_mb)
        instance = self.world.boot(node, wish, trouble)
        if instance is None:
            self.done('boot without room', node)
            return
        if instance.state == 'active':
            self.check_exact(instance, trouble)
        elif node.compute and (trouble is None or trouble.times == 1):
            self.world.require(
                instance.lpar not in node.host.lpars
                and not node.host.store.of(instance.lpar),
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
        instance = self.world.boot(
            node, records.Wish(groups), requests=(request,)
        )
        if instance and instance.state == 'active':
            self.check_exact(instance, None)
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

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(data=st.data())
    def boot_one(self, data):
        self.boot(data=data, count=1, swap_mb=0, trouble=None)

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
            self.check_exact(instance, trouble)
        self.done('rebuild', instance.node, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(
        data=st.data(),
        method=st.sampled_from(('on', 'off', 'reboot', 'reboot hard')),
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
        self._power(instance, method, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def attach(self, data, trouble):
        instance = base_machine.pick(data, self.built())
        trouble = self.trouble(instance.node, trouble)
        self.world.attach(instance, self._new_volume(), trouble)
        self.done('attach', instance.node, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def detach(self, data, trouble):
        instance = base_machine.pick(data, self.built())
        volume = base_machine.pick(data, self._volumes_of(instance))
        trouble = self.trouble(instance.node, trouble)
        self.world.detach(instance, volume, trouble)
        self.done('detach', instance.node, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(data=st.data())
    def exchange_volumes(self, data):
        """Connect another volume in place of those of an instance."""
        instance = base_machine.pick(data, self.built())
        connected = instance.node.host.volumes
        for volume in self._volumes_of(instance):
            connected.pop(volume, None)
        volume = self._new_volume()
        connected[volume] = instance.lpar
        instance.loose.add(volume)
        if self.world.power(instance, 'reboot hard'):
            self._check_volumes(instance)
        self.done('exchange volumes', instance.node)

    def _new_volume(self):
        self.volumes += 1
        return f'volume-{self.volumes}'

    def _volumes_of(self, instance):
        """Return the volumes of an instance, of which it gets one first."""
        if not instance.volumes:
            self.world.attach(instance, self._new_volume())
        return sorted(instance.volumes) or [self._new_volume()]

    @stateful.invariant()
    def only_those_have_a_volume_that_nova_says(self):
        known = {one.lpar: one for one in self.world.instances}
        for node in self.world.nodes:
            for volume, lpar in node.host.volumes.items():
                owner = known[lpar]
                self.world.require(
                    owner.state == 'gone'
                    or volume in owner.volumes | owner.loose,
                    'a volume is connected to the instance that has it',
                    owner,
                    volume,
                )

    def _check_volumes(self, instance):
        """Check that a hard reboot has connected what Nova says."""
        connected = {
            volume
            for volume, lpar in instance.node.host.volumes.items()
            if lpar == instance.lpar
        }
        self.world.require(
            connected == instance.volumes,
            'a hard reboot connects the volumes of an instance, and no others',
            instance,
            connected,
        )
        instance.loose.clear()

    def _power(self, instance, method, trouble):
        node, before = instance.node, self.world.recorded(instance)
        is_whole = (
            before
            == self.world.held(instance)
            == node.host.slots_of(instance.lpar)
        )
        trouble = self.trouble(node, trouble)
        if self.world.power(instance, method, trouble) and method != 'off':
            self.check_exact(instance, trouble)
            if method == 'reboot hard':
                self._check_volumes(instance)
        self.world.require(
            not is_whole or before == self.world.recorded(instance),
            'an instance that is whole keeps its devices',
            instance,
        )
        self.done(f'power {method}', instance.node, trouble)

    @stateful.precondition(lambda self: self.built())
    @stateful.rule(
        data=st.data(), trouble=base_machine.TROUBLE, end=base_machine.TROUBLE
    )
    def rescue(self, data, trouble, end):
        """Rescue an instance, and end that, at last by a hard reboot."""
        instance = base_machine.pick(data, self.built())
        node, before = instance.node, self._disks_and_state(instance)
        trouble, end = self.trouble(node, trouble), self.trouble(node, end)
        if self.world.power(instance, 'rescue', trouble):
            self._check_rescued(instance, is_rescued=True)
            self.world.power(instance, 'unrescue', end)
        elif node.compute and not (trouble and trouble.kind == 'meddle'):
            self.world.require(
                (trouble and trouble.times > 1)
                or self._disks_and_state(instance) == before
                or not node.host.can_start(instance.lpar),
                'a failed rescue leaves an instance as it was',
                instance,
            )
        if node.compute and self.world.power(instance, 'reboot hard'):
            self._check_rescued(instance, is_rescued=False)
            self.check_exact(instance, trouble, end)
        self.done('rescue', node, trouble)

    def _disks_and_state(self, instance):
        """Return the disks of an instance, what is connected, its state."""
        machine = instance.node.host
        lpar = machine.lpars.get(instance.lpar)
        return (
            machine.store.of(instance.lpar),
            machine.mapped.get(instance.lpar),
            lpar and lpar.state,
        )

    def _check_rescued(self, instance, *, is_rescued):
        disks, mapped, state = self._disks_and_state(instance)
        rescue = instance.lpar, storage.RESCUE
        self.world.require(
            is_rescued == (storage.RESCUE in disks) == (rescue in mapped)
            and state == 'running',
            'an instance has a rescue disk while it is rescued',
            instance,
        )

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

    @stateful.precondition(lambda self: self._shelvable())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def shelve(self, data, trouble):
        instance = base_machine.pick(data, self._shelvable())
        node = instance.node
        trouble = self.trouble(node, trouble)
        if self.world.offload(instance, trouble):
            self.world.require(
                instance.lpar not in node.host.lpars
                and not node.host.slots_of(instance.lpar),
                'an offloaded instance has nothing on its host',
                instance,
            )
        self.done('shelve', node, trouble)

    def _shelvable(self):
        return [i for i in self.built() if not i.requests]

    @stateful.precondition(lambda self: self._offloaded() and self.running())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def unshelve(self, data, trouble):
        instance = base_machine.pick(data, self._offloaded())
        node = base_machine.pick(data, self.running())
        trouble = self.trouble(node, trouble)
        if self.world.unshelve(instance, node, trouble):
            self.check_exact(instance, trouble)
        self.done('unshelve', node, trouble)

    def _offloaded(self):
        return [i for i in self.world.instances if i.state == 'offloaded']

    @stateful.precondition(lambda self: self._evacuable())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def evacuate(self, data, trouble):
        """Stop a host and evacuate an instance to the other one."""
        instance, node = base_machine.pick(data, self._evacuable())
        instance.node.crash()
        trouble = self.trouble(node, trouble)
        if self.world.evacuate(instance, node, trouble):
            self.check_exact(instance, trouble)
        self.done('evacuate', node, trouble)

    def _evacuable(self):
        """Return the instances that can be evacuated, with their target."""
        return [
            (instance, node)
            for instance in self.there()
            for node in self.running()
            if instance.node
            and instance.node is not node
            and instance.state != 'resized'
            and not (instance.requests or instance.volumes or instance.loose)
        ]

    def movable(self):
        """Return the instances that can be resized and migrated.

        What an interrupted move holds has to be sorted out first.
        """
        return [
            instance
            for instance in self.built()
            if not (instance.requests or instance.volumes or instance.loose)
            and instance.node.root
            in self.world.placement.allocations.get(instance.uuid, ())
            and all(
                migration.uuid not in self.world.placement.allocations
                or migration.status == 'finished'
                for migration in self.world.database.of(instance)
            )
        ]

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def reap(self, data, trouble):
        node = base_machine.pick(data, self.running())
        trouble = self.trouble(node, trouble)
        self.world.reap(node, trouble)
        self.done('reap', node, trouble)

    def check_exact(self, instance, *troubles, is_resized=False):
        """Check that an LPAR is as Nova records it.

        :param troubles: What came between, or None.
        :param is_resized: Whether a stopped instance stays so, and sizes may
            have changed.
        """
        if any(t and t.kind == 'meddle' and t.done for t in troubles):
            # A slot may have been taken after the LPAR was read back.
            return
        machine = instance.node.host
        lpar = machine.lpars[instance.lpar]
        self.world.require(
            lpar.state == 'running' or is_resized,
            'what is started runs',
            instance,
        )
        self.world.require(
            machine.slots_of(instance.lpar) == self.world.recorded(instance),
            'an instance that runs has exactly its slots',
            instance,
        )
        self.world.require(
            lpar.settings.memory_mb == instance.wish.memory_mb,
            'an instance has the memory of its flavor',
            instance,
            lpar,
        )
        if is_resized:
            self._check_swap(instance)

    def _check_swap(self, instance):
        machine = instance.node.host
        key = instance.lpar, storage.SWAP
        size = machine.store.sizes.get(key)
        self.world.require(
            size == (instance.wish.swap_mb / 1024 or None)
            and (size is None or key in machine.mapped[instance.lpar]),
            'an instance has the swap disk of its flavor',
            instance,
            size,
        )
