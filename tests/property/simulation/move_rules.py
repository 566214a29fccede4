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

"""Rules of resizes and cold migrations, and of what repairs them."""

import dataclasses

from hypothesis import stateful
from hypothesis import strategies as st

from nova_powervm.lpar import storage
from tests.property.simulation import base_machine
from tests.property.simulation import instance_rules
from tests.property.simulation import records
from tests.property.simulation import world as worlds

_SIZES = {
    'memory_mb': st.sampled_from((512, 1024)),
    'root_gb': st.sampled_from((1, 2, 3)),
    'swap_mb': st.sampled_from((0, 0, 512, 1024)),
}
_HOW_MANY = st.sampled_from((0, 1, 1, 2))


class MoveRules(instance_rules.InstanceRules):
    """Rules that move instances between hosts and within them."""

    @stateful.precondition(lambda self: self.movable())
    @stateful.rule(
        data=st.data(),
        number=base_machine.NODES,
        count=_HOW_MANY,
        sizes=st.fixed_dictionaries({}, optional=_SIZES),
        at_source=base_machine.TROUBLE,
        at_target=base_machine.TROUBLE,
    )
    def resize(self, data, number, count, sizes, at_source, at_target):
        """Resize an instance within its host, or on its way to another."""
        instance = base_machine.pick(data, self.movable())
        node = self.world.nodes[number]
        groups = tuple(self._group(data, node) for _ in range(count))
        wish = records.Wish(
            groups, **{'root_gb': instance.wish.root_gb, **sizes}
        )
        self._move(instance, node, wish, at_source, at_target)

    @stateful.precondition(lambda self: self.movable())
    @stateful.rule(
        data=st.data(),
        at_source=base_machine.TROUBLE,
        at_target=base_machine.TROUBLE,
    )
    def migrate(self, data, at_source, at_target):
        """Migrate an instance to the other host as it is."""
        instance = base_machine.pick(data, self.movable())
        (node,) = (n for n in self.world.nodes if n is not instance.node)
        self._move(instance, node, instance.wish, at_source, at_target)

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(
        data=st.data(),
        number=base_machine.NODES,
        then=st.sampled_from((None, None, 'confirm', 'revert')),
        trouble=base_machine.TROUBLE,
    )
    def move_one(self, data, number, then, trouble):
        """Move an instance without trouble, and perhaps end that with some.

        Without this, few moves would come so far.
        """
        if not self.movable():
            self.boot_one(data=data)
        if not self.movable():
            return
        instance = base_machine.pick(data, self.movable())
        self._move_anew(instance, self.world.nodes[number])
        if then == 'confirm' and instance in self._to_confirm():
            self._confirm(instance, trouble)
        if then == 'revert' and instance in self._to_revert():
            self._revert(instance, trouble, None)

    def _move_anew(self, instance, node):
        """Move an instance to a host, or resize it there, without trouble."""
        wish = instance.wish
        if node is instance.node:
            wish = dataclasses.replace(
                wish, memory_mb=512 if wish.memory_mb > 512 else 1024
            )
        self._move(instance, node, wish, None, None)

    def _move(self, instance, node, wish, at_source, at_target):
        source = instance.node
        # Nova's API refuses a resize to the same flavor.
        if node.compute is None or (node is source and wish == instance.wish):
            return
        name = 'resize' if node is source else 'migrate'
        troubles = [
            (each, self.trouble(each, trouble))
            for each, trouble in {source: at_source, node: at_target}.items()
        ]
        before = self._root_gb(instance)
        lpar = self._lpar(source, instance)
        done = self.world.resize(instance, node, wish, troubles)
        if done is None:
            return
        met = [trouble for _, trouble in troubles if trouble and trouble.done]
        self.world.require(
            self._root_gb(instance) == before,
            'a root disk grows in the confirm only',
            instance,
        )
        self.world.require(
            done or met or not self.world.move_of(instance).has_left,
            'a move that was not refused goes well',
            instance,
            self.world.failure,
        )
        if done:
            self._check_moved(instance, source, lpar, met)
        elif instance.state == 'active' and not instance.task and not met:
            self.world.require(
                self._lpar(source, instance) == lpar,
                'a refused move changes nothing',
                instance,
            )
        self.done(f'{name} {_result(instance)}', node, *met)

    def _check_moved(self, instance, source, before, met):
        self.check_exact(instance, *met, is_resized=True)
        if source is instance.node:
            return
        # Somebody may have taken slots from it before.
        self.world.require(
            self._lpar(source, instance) == ('not activated', *before[1:])
            and before[-1] <= self.world.allocated(instance, source),
            'the LPAR of the source keeps what the move holds',
            instance,
        )

    def _lpar(self, node, instance):
        """Return state, sizes and slots of an instance's LPAR."""
        lpar = node.host.lpars[instance.lpar]
        return lpar.state, lpar.settings, node.host.slots_of(instance.lpar)

    def _root_gb(self, instance):
        """Return the size of the root disk of an instance.

        A deletion that failed may have left none.
        """
        disks = instance.node.host.store.of(instance.lpar)
        roots = [disks[role] for role in disks if storage.is_root(role)]
        self.world.require(
            len(roots) <= 1, 'an instance has one root disk', instance, disks
        )
        return roots[0] if roots else None

    @stateful.precondition(lambda self: self._to_confirm())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def confirm(self, data, trouble):
        self._confirm(base_machine.pick(data, self._to_confirm()), trouble)

    def _confirm(self, instance, trouble):
        migration = self.world.database.first(instance, 'finished')
        source = migration.source
        trouble = self.trouble(source, trouble)
        done = self.world.confirm(instance, trouble)
        is_well = trouble is None or not trouble.done
        if done:
            self.check_exact(instance, trouble, is_resized=True)
        if is_well:
            # Nova itself may fail to update Placement afterwards.
            self.world.require(
                source in (instance.node, migration.target)
                or instance.lpar not in source.host.lpars,
                'a confirmed move leaves no LPAR on the source',
                instance,
            )
            self.world.require(
                self._root_gb(instance) in (None, instance.wish.root_gb),
                'a confirmed root disk has the size of the flavor',
                instance,
            )
        self.done(f'confirm {_result(instance)}', source, trouble)

    @stateful.precondition(lambda self: self._to_revert())
    @stateful.rule(
        data=st.data(),
        at_source=base_machine.TROUBLE,
        at_target=base_machine.TROUBLE,
    )
    def revert(self, data, at_source, at_target):
        instance = base_machine.pick(data, self._to_revert())
        self._revert(instance, at_source, at_target)

    def _revert(self, instance, at_source, at_target):
        migration = self.world.database.first(instance, 'finished')
        source, target = migration.source, migration.target
        troubles = [
            (each, self.trouble(each, trouble))
            for each, trouble in {source: at_source, target: at_target}.items()
        ]
        before, old = self._root_gb(instance), instance.old
        lpar = source.host.lpars.get(instance.lpar)
        done = self.world.revert(instance, troubles)
        met = [trouble for _, trouble in troubles if trouble and trouble.done]
        self.world.require(
            self._root_gb(instance) == before,
            'a revert keeps the root disk',
            instance,
        )
        if done:
            self.world.require(
                instance.wish is old and instance.node is source,
                'a revert restores the flavor',
            )
            self.world.require(
                source.host.lpars[instance.lpar] is lpar,
                'a revert keeps the LPAR of the source',
                instance,
            )
            self.check_exact(instance, *met, is_resized=True)
            self.world.require(
                source is target or instance.lpar not in target.host.lpars,
                'a reverted move leaves no LPAR on the destination',
                instance,
            )
        self.done(f'revert {_result(instance)}', target, *met)

    def _to_confirm(self):
        """Return the instances that wait for a confirm or a revert."""
        return [
            instance
            for instance in self.world.instances
            if (instance.state, instance.task) == ('resized', None)
            and (move := self.world.database.first(instance, 'finished'))
            and move.source.compute
        ]

    def _to_revert(self):
        return [
            instance
            for instance in self._to_confirm()
            if self.world.database.first(instance, 'finished').target.compute
        ]

    @stateful.precondition(lambda self: self._failed())
    @stateful.rule(data=st.data(), trouble=base_machine.TROUBLE)
    def recover(self, data, trouble):
        """Reboot an instance in ERROR hard."""
        instance = base_machine.pick(data, self._failed())
        trouble = self.trouble(instance.node, trouble)
        is_possible = self._is_recoverable(instance)
        done = self.world.recover(instance, trouble)
        if done:
            self.check_exact(instance, trouble)
        self.world.require(
            done or (trouble and trouble.done) or not is_possible,
            'a hard reboot recovers',
            instance,
            self.world.failure,
        )
        self.done(f'recover {_result(instance)}', instance.node, trouble)

    def _is_recoverable(self, instance):
        """Return whether nothing outside of Nova prevents a hard reboot."""
        machine, lpar = instance.node.host, instance.lpar
        wanted = self.world.recorded(instance)
        held = self.world.placement.allocations.get(instance.uuid, ())
        return (
            self.world.move_of(instance) is not None
            and instance.node.compute.host.claims.published.is_complete
            and not self._is_used_elsewhere(instance)
            and self._root_gb(instance) is not None
            and _fits_a_flavor(instance)
            and (machine.store.is_shared or lpar in machine.lpars)
            and machine.slots_of(lpar)
            <= self.world.allocated(instance, instance.node)
            and {
                worlds.slot_of(row)
                for row in self.world.rows(instance.node)
                if row.uuid in held
            }
            == wanted
            and all(
                machine.slots[index].usable
                and machine.slots[index].owner in (None, lpar)
                for index in wanted
            )
        )

    def _is_used_elsewhere(self, instance):
        return any(
            instance.lpar in node.host.lpars
            and node.host.lpars[instance.lpar].state == 'running'
            for node in self.world.nodes
            if node is not instance.node
        )

    def _failed(self):
        return [
            instance
            for instance in self.world.instances
            if instance.node
            and instance.node.compute
            and not instance.requests
            and (
                instance.state == 'error'
                or (
                    (instance.state, instance.task) == ('active', None)
                    and instance.lpar not in instance.node.host.lpars
                )
            )
        ]

    @stateful.precondition(lambda self: self._stuck())
    @stateful.rule(data=st.data(), state=st.sampled_from(('error', 'active')))
    def reset_state(self, data, state):
        """End the task of an instance whose nova-compute was killed."""
        instance = base_machine.pick(data, self._stuck())
        self.world.set_state(instance, state)
        self.done(f'reset state to {state}')

    @stateful.precondition(lambda self: self._waiting())
    @stateful.rule(data=st.data(), state=st.sampled_from(('error', 'active')))
    def set_state(self, data, state):
        """Set the state of an instance whose user has yet to decide."""
        instance = base_machine.pick(data, self._waiting())
        self.world.set_state(instance, state)
        self.done(f'set state to {state}')

    def _waiting(self):
        return [
            instance
            for instance in self.world.instances
            if (instance.state, instance.task) == ('resized', None)
        ]

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(
        data=st.data(),
        numbers=st.tuples(base_machine.NODES, base_machine.NODES),
        is_rebooted=st.booleans(),
        then=st.sampled_from(('confirm', 'revert', 'reboot')),
        trouble=base_machine.TROUBLE,
    )
    def move_after_set_state(self, data, numbers, is_rebooted, then, trouble):
        """Move an instance whose last move awaits its user for ever."""
        first, second = numbers
        self.move_one(data=data, number=first, then=None, trouble=None)
        if not self._waiting():
            return
        instance = base_machine.pick(data, self._waiting())
        self.world.set_state(instance, 'active')
        if is_rebooted and instance in self.built():
            self._power(instance, 'reboot hard', None)
        if instance not in self.movable():
            return
        self._move_anew(instance, self.world.nodes[second])
        if then == 'reboot' and instance in self._waiting():
            self.world.set_state(instance, 'active')
        if then == 'reboot' and instance in self.built():
            self._power(instance, 'reboot hard', trouble)
        if then == 'confirm' and instance in self._to_confirm():
            self._confirm(instance, trouble)
        if then == 'revert' and instance in self._to_revert():
            self._revert(instance, trouble, None)

    @stateful.precondition(lambda self: self._forgotten())
    @stateful.rule(data=st.data())
    def end_finished(self, data):
        """Let Nova end a move that awaits nobody, as the guide says."""
        self.world.end_finished(base_machine.pick(data, self._forgotten()))
        self.done('end a finished migration')

    def _forgotten(self):
        """Return the migrations that are finished for ever."""
        return [
            migration
            for migration in self.world.database.migrations
            if migration.status == 'finished'
            and migration.target.compute
            and migration.instance.state != 'gone'
            and migration.instance not in self._waiting()
        ]

    def _stuck(self):
        return [
            instance
            for instance in self.world.instances
            if (instance.state == 'active' and instance.task)
            or (
                instance.state == 'resized'
                and self.world.move_of(instance).status != 'finished'
            )
        ]

    @stateful.precondition(lambda self: self._stale_lpars())
    @stateful.rule(data=st.data())
    def remove_stale_lpars(self, data):
        """Remove a stale LPAR, as the guide says."""
        node, instance = base_machine.pick(data, self._stale_lpars())
        for index in node.host.slots_of(instance.lpar):
            node.host.slots[index].owner = None
        del node.host.lpars[instance.lpar]
        node.host.mapped.pop(instance.lpar, None)
        node.host.changed()
        self.done('remove a stale LPAR', node)

    def _stale_lpars(self):
        """Return the stale LPARs of instances that are well."""
        return [
            (node, instance)
            for node, instance in self.world.stale_lpars()
            if instance.state == 'active'
            and instance.lpar in instance.node.host.lpars
        ]

    @stateful.precondition(lambda self: self.world.left_allocations())
    @stateful.rule()
    def audit(self):
        """Free what moves of deleted instances have left in Placement."""
        for migration in self.world.left_allocations():
            self.world.placement.free(migration.uuid)
        self.done('audit')


def _fits_a_flavor(instance):
    """Return whether the devices are those of a flavor that Nova knows.

    After a resize that was interrupted, an instance may have the devices of
    the new flavor with the old one, until it is resized again. A move that
    fails meanwhile replaces both flavors in Nova's record of it.
    """
    recorded = len(instance.resources.objects if instance.resources else ())
    return recorded in {
        len(wish.groups)
        for wish in (instance.wish, instance.old, instance.new)
        if wish
    }


def _result(instance):
    return f'to {instance.state}' + (' with a task' if instance.task else '')
