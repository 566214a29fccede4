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

"""Everybody who acts, as rules of a state machine."""

import contextlib
import itertools
import logging
import shutil
import tempfile
import time
from unittest import mock

from hypothesis import stateful
from hypothesis import strategies as st
from nova import objects
from oslo_utils import uuidutils

from tests.property.simulation import checks
from tests.property.simulation import figures
from tests.property.simulation import host
from tests.property.simulation import inventory
from tests.property.simulation import placement
from tests.property.simulation import process
from tests.property.simulation import world as worlds

_OPERATORS = 'CUSTOM_OPERATOR'
_NODES = st.integers(0, 1)
_SLOTS = st.sampled_from(host.SLOTS)
_CHANGES = st.fixed_dictionaries(
    {},
    optional={
        'resource_class': st.sampled_from(inventory.CLASSES),
        'traits': st.frozensets(st.sampled_from(inventory.TRAITS)),
        'once': st.booleans(),
    },
)


def _faults(kind, names, most):
    return st.builds(
        process.Trouble,
        st.just(kind),
        at=st.integers(0, most),
        fault=st.sampled_from(names),
        times=st.sampled_from((1, 2, 99)),
    )


_TROUBLE = (
    st.none()
    | st.builds(process.Trouble, st.just('kill'), at=st.integers(0, 45))
    | _faults('placement', process.PLACEMENT, 20)
    | _faults('rest', process.REST, 9)
    | st.builds(
        process.Trouble,
        st.just('meddle'),
        at=st.integers(0, 45),
        # What is done is put in its place by the rule.
        act=st.tuples(
            st.sampled_from(('reserve', 'release', 'remove', 'take', 'pull')),
            _SLOTS,
        ),
    )
)


class _Reading(logging.Handler):
    """Reads each message, so that one that can't be made is seen."""

    def emit(self, record):
        record.getMessage()

    def handleError(self, record):  # noqa: N802  the name is logging's
        raise record


class Simulation(stateful.RuleBasedStateMachine):
    """Two hosts with the same slots and files, and a Placement."""

    def __init__(self):
        super().__init__()
        objects.register_all()
        self._undo = contextlib.ExitStack()
        directory = tempfile.mkdtemp()
        self._undo.callback(shutil.rmtree, directory, ignore_errors=True)
        self._numbers = itertools.count(0xBEEF0000)
        self._undo.enter_context(
            mock.patch.object(
                uuidutils,
                'generate_uuid',
                lambda dashed=True: placement.new_uuid(next(self._numbers)),
            )
        )
        self._undo.enter_context(quiet())
        self.world = worlds.World(directory)
        self._started = time.monotonic()

    def teardown(self):
        for node in self.world.nodes:
            node.crash()
        figures.SEEN.add(self.world.checked, time.monotonic() - self._started)
        self._undo.close()

    # nova-compute

    @stateful.initialize(once=st.booleans())
    def start_both(self, once):
        for node in self.world.nodes:
            content = inventory.Content()
            node.file.write(content.changed(inventory.GPU, once=once))
            assert self.world.start(node)
            self._checked_cycle(node)
            self._add_foreign(node)
        self._done('start both')

    def _add_foreign(self, node):
        record = {'total': 1, 'max_unit': 1, 'reserved': 0, 'min_unit': 1}
        for owner in ('OWNER_CYBORG', 'OWNER_SOMEBODY'):
            name = f'{node.name} {owner}'
            row = placement.Row(
                placement.new_uuid(next(self._numbers)),
                name,
                node.root,
                {'CUSTOM_GPU': record | {'step_size': 1}},
                frozenset({owner}),
                frozenset({placement.new_uuid(0xA66)}),
            )
            self.world.placement.rows[row.uuid] = row
            self.world.foreign[row.uuid] = row.state

    @stateful.rule(number=_NODES, trouble=_TROUBLE, power_loss=st.booleans())
    def restart(self, number, trouble, power_loss):
        node = self.world.nodes[number]
        was_good = node.file.content.broken != 'torn'
        node.crash()
        if power_loss:
            for lpar in node.host.lpars.values():
                lpar.state = 'not activated'
        trouble = self._trouble(node, trouble)
        started = self.world.start(node, trouble)
        if started and not (trouble and trouble.done):
            checks.after_cycle(self.world, node)
        if trouble is None and was_good:
            assert node.compute is not None
        self._done('restart', node, trouble)

    @stateful.precondition(lambda self: len(self._running()) > 1)
    @stateful.rule(number=_NODES)
    def stop(self, number):
        self.world.nodes[number].crash()
        self._done('stop')

    @stateful.precondition(lambda self: self._running())
    @stateful.rule(
        data=st.data(),
        trouble=_TROUBLE,
        fresh=st.booleans(),
        deaf=st.booleans(),
    )
    def cycle(self, data, trouble, fresh, deaf):
        node = _pick(data, self._running())
        trouble = self._trouble(node, trouble)
        node.compute.server.deaf = deaf and not fresh
        if fresh:
            node.compute.forget_providers()
        with self.world.troubled(node, trouble):
            went_well = self.world.cycle(node)
        if went_well and not (trouble and trouble.done):
            checks.after_cycle(self.world, node)
        if trouble is None and not went_well:
            self._must_cycle(node)
        self._done('cycle', node, trouble)

    def _wait(self, node, wait):
        """Let two cycles pass, in which a file is taken over."""
        if wait and node.compute:
            node.compute.server.deaf = False
            self.world.cycle(node)
            self._checked_cycle(node)

    def _checked_cycle(self, node):
        self._must_cycle(node)
        checks.after_cycle(self.world, node)

    def _must_cycle(self, node):
        self.world.require(
            self.world.cycle(node),
            'the next cycle mends it',
            self.world.failure,
        )

    @stateful.precondition(lambda self: self._running())
    @stateful.rule(data=st.data())
    def quiet(self, data):
        """Let nothing happen on a host for three cycles."""
        node = _pick(data, self._running())
        node.compute.server.deaf = False
        node.compute.forget_providers()
        for _ in range(3):
            self.world.cycle(node)
        checks.after_cycle(self.world, node)
        checks.after_quiet(self.world, node)
        self._done('quiet')

    # Instances

    @stateful.precondition(lambda self: self._running())
    @stateful.rule(
        data=st.data(), count=st.sampled_from((1, 1, 1, 2)), trouble=_TROUBLE
    )
    def boot(self, data, count, trouble):
        node = _pick(data, self._running())
        trouble = self._trouble(node, trouble)
        groups = tuple(self._group(data, node) for _ in range(count))
        instance = self.world.boot(node, groups, trouble)
        if instance is None:
            self._done('boot without room', node)
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
        self._done('boot', node, trouble)

    @stateful.precondition(lambda self: self._running())
    @stateful.rule(data=st.data())
    def boot_one(self, data):
        self.boot(data=data, count=1, trouble=None)

    def _group(self, data, node):
        """Ask for what there is, at times for one slot alone."""
        room = [
            row
            for row in self.world.rows(node)
            if self.world.placement.has_room(row)
        ]
        if not room:
            return inventory.CLASSES[0], None
        row = _pick(data, room)
        (name, *_) = row.inventory
        index = worlds.slot_of(row)
        trait = f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{index:08X}'
        return name, data.draw(st.sampled_from((None, trait)))

    @stateful.precondition(lambda self: self._there())
    @stateful.rule(data=st.data(), trouble=_TROUBLE)
    def delete(self, data, trouble):
        instance = _pick(data, self._there())
        if instance.node and instance.node.compute:
            trouble = self._trouble(instance.node, trouble)
        self.world.delete(instance, trouble)
        self._done('delete', instance.node, trouble)

    @stateful.precondition(lambda self: self._built())
    @stateful.rule(data=st.data(), release=st.booleans(), trouble=_TROUBLE)
    def rebuild(self, data, release, trouble):
        instance = _pick(data, self._built())
        if release:
            held = self.world.placement.allocations[instance.uuid]
            for row in self.world.rows(instance.node):
                if row.uuid in held:
                    self._release(instance.node, row)
        trouble = self._trouble(instance.node, trouble)
        if self.world.rebuild(instance, trouble):
            self._check_exact(instance, trouble)
        self._done('rebuild', instance.node, trouble)

    @stateful.precondition(lambda self: self._built())
    @stateful.rule(
        data=st.data(),
        method=st.sampled_from(('on', 'off', 'reboot')),
        trouble=_TROUBLE,
    )
    def power(self, data, method, trouble):
        instance = _pick(data, self._built())
        trouble = self._trouble(instance.node, trouble)
        if self.world.power(instance, method, trouble) and method != 'off':
            self._check_exact(instance, trouble)
        self._done(f'power {method}', instance.node, trouble)

    @stateful.precondition(lambda self: self._movable())
    @stateful.rule(data=st.data(), trouble=_TROUBLE)
    def evacuate(self, data, trouble):
        """Let a host fail and build an instance of it on the other one."""
        instance, node = _pick(data, self._movable())
        instance.node.crash()
        trouble = self._trouble(node, trouble)
        if self.world.evacuate(instance, node, trouble):
            self._check_exact(instance, trouble)
        self._done('evacuate', node, trouble)

    @stateful.precondition(lambda self: self._running())
    @stateful.rule(data=st.data(), trouble=_TROUBLE)
    def reap(self, data, trouble):
        node = _pick(data, self._running())
        trouble = self._trouble(node, trouble)
        self.world.reap(node, trouble)
        self._done('reap', node, trouble)

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

    # The file

    @stateful.rule(
        number=_NODES,
        vendor=st.sampled_from((inventory.GPU, inventory.GPU, inventory.CARD)),
        changes=_CHANGES,
        wait=st.booleans(),
    )
    def edit(self, number, vendor, changes, wait):
        file = self.world.nodes[number].file
        file.write(file.good.changed(vendor, **changes))
        for change in changes or ['paragraph']:
            figures.SEEN.note(f'edit: {change}')
        self._wait(self.world.nodes[number], wait)
        self._done('edit')

    @stateful.rule(
        number=_NODES,
        how=st.sampled_from(('without', 'deny', *inventory.BROKEN)),
        index=_SLOTS,
        wait=st.booleans(),
    )
    def spoil_file(self, number, how, index, wait):
        file = self.world.nodes[number].file
        content = {
            'without': lambda: file.good.without(inventory.GPU),
            'deny': lambda: file.good.denying(file.good.denied ^ {index}),
        }.get(how, lambda: file.good.breaking(how))()
        file.write(content)
        self._wait(self.world.nodes[number], wait)
        self._done(f'file: {how}')

    # The machine

    @stateful.rule(
        number=_NODES,
        index=_SLOTS,
        change=st.sampled_from(
            (
                ('card', None),
                ('card', host.GPU),
                ('card', host.CARD),
                ('reported', False),
                ('reported', True),
                ('sriov', True),
                ('sriov', False),
            )
        ),
        wait=st.booleans(),
    )
    def change_slot(self, number, index, change, wait):
        what, value = change
        self.world.nodes[number].host.change(index, **{what: value})
        self._wait(self.world.nodes[number], wait)
        self._done(f'slot: {what} {value}')

    @stateful.rule(
        number=_NODES,
        index=_SLOTS,
        owner=st.sampled_from((None, host.VIOS, host.ARCHIVE)),
    )
    def change_owner(self, number, index, owner):
        if self.world.nodes[number].host.take(index, owner):
            self._done('slot: owner')

    @stateful.rule(number=_NODES, once=st.booleans(), wait=st.booleans())
    def repair(self, number, once, wait):
        """Bring slots and file of a host in order."""
        node = self.world.nodes[number]
        for index, state in node.host.slots.items():
            node.host.change(index, card=host.GPU, reported=True, sriov=False)
            if state.owner in (host.VIOS, host.ARCHIVE):
                node.host.take(index, None)
        node.file.write(inventory.Content().changed(inventory.GPU, once=once))
        self._wait(node, wait)
        self._done('repair')

    # Operators

    @stateful.precondition(lambda self: self._rows())
    @stateful.rule(
        data=st.data(),
        what=st.sampled_from(('reserve', 'release', 'mark', 'remove')),
    )
    def operate(self, data, what):
        node, row = _pick(data, self._rows())
        done = {
            'reserve': lambda: self._reserve(node, row),
            'release': lambda: self._release(node, row),
            'mark': lambda: self._mark(row),
            'remove': lambda: self._remove(row),
        }[what]()
        if done:
            self._done(f'provider: {what}')

    @stateful.rule(number=_NODES)
    def renew_foreign(self, number):
        """Let Cyborg delete its provider and make another one."""
        node = self.world.nodes[number]
        gone = [
            uuid
            for uuid in self.world.foreign
            if self.world.placement.rows[uuid].parent == node.root
        ]
        for uuid in gone:
            del self.world.foreign[uuid], self.world.placement.rows[uuid]
        if node.root in self.world.placement.rows:
            self._add_foreign(node)
        self._done('foreign providers')

    @stateful.precondition(lambda self: self._burned())
    @stateful.rule(data=st.data())
    def clean(self, data):
        """Release what was used, as after a cleaning."""
        node, row = _pick(data, self._burned())
        self._release(node, row)
        self._wait(node, data.draw(st.booleans()))
        self._done('provider: clean')

    @stateful.precondition(lambda self: self._deserted())
    @stateful.rule(data=st.data())
    def delete_service(self, data):
        """Delete the compute service, which takes all providers with it."""
        node = _pick(data, self._deserted())
        self.world.delete_service(node)
        self._done('delete service')

    def _reserve(self, node, row):
        if not row.inventory or row.reserved:
            return False
        # Of a device for one use the journal takes it for a burn.
        self.world.touched.add((node.name, worlds.slot_of(row)))
        if placement.WITHDRAWN not in row.traits:
            self.world.reserved.add(row.uuid)
        self.world.placement.reserve(row, 1)
        return True

    def _release(self, node, row):
        if not row.reserved:
            return False
        key = (node.name, worlds.slot_of(row))
        self.world.placement.reserve(row, 0)
        self.world.placement.torn.discard(row.uuid)
        self.world.reserved.discard(row.uuid)
        self.world.used.discard(key)
        self.world.released.add(key)
        if not self.world.placement.holders(row.uuid):
            self.world.touched.discard(key)
        return True

    def _mark(self, row):
        row.traits |= {_OPERATORS}
        row.aggregates |= {placement.new_uuid(0xA66)}
        row.generation += 1
        self.world.set_traits[row.uuid] = {_OPERATORS}
        self.world.set_aggregates[row.uuid] = row.aggregates
        return True

    def _remove(self, row):
        if self.world.placement.holders(row.uuid):
            return False
        del self.world.placement.rows[row.uuid]
        self.world.forget(row)
        return True

    # Helpers

    def _running(self):
        return [node for node in self.world.nodes if node.compute]

    def _there(self):
        return [
            i for i in self.world.instances if i.state in ('active', 'error')
        ]

    def _built(self):
        return [
            i
            for i in self._there()
            if i.state == 'active'
            and i.node.compute
            and i.lpar in i.node.host.lpars
        ]

    def _movable(self):
        """Give the instances that can be evacuated, and where to."""
        return [
            (instance, node)
            for instance in self._there()
            for node in self._running()
            if instance.node and instance.node is not node
        ]

    def _deserted(self):
        """Give the nodes whose service can be deleted."""
        return [
            node
            for node in self.world.nodes
            if not node.compute
            and node.root in self.world.placement.rows
            and not any(
                i.node is node and i.state != 'gone'
                for i in self.world.instances
            )
        ]

    def _burned(self):
        return [
            (node, row)
            for node, row in self._rows()
            if row.reserved and worlds.ONCE in row.traits
        ]

    def _rows(self):
        return [(n, r) for n in self.world.nodes for r in self.world.rows(n)]

    def _trouble(self, node, trouble):
        """Say what somebody does who meddles."""
        if trouble is None or trouble.kind != 'meddle':
            return trouble
        what, index = trouble.act

        def act():
            self.world.placement.strict = node.host.strict = False
            self._meddle(node, what, index)

        return process.Trouble('meddle', trouble.at, act=act)

    def _meddle(self, node, what, index):
        if what == 'take':
            node.host.take(index, host.VIOS)
        elif what == 'pull':
            node.host.change(index, card=None)
        for row in self.world.rows(node):
            if worlds.slot_of(row) == index:
                if what == 'reserve':
                    self._reserve(node, row)
                elif what == 'release':
                    self._release(node, row)
                elif what == 'remove':
                    self._remove(row)

    def _done(self, rule, node=None, trouble=None):
        self.world.note_allocations()
        if trouble and trouble.done:
            figures.SEEN.fault(trouble)
        figures.SEEN.rule(rule)
        self.world.check()


def _pick(data, found):
    return found[data.draw(st.integers(0, len(found) - 1))]


@contextlib.contextmanager
def quiet():
    """Read all messages and show none."""
    root = logging.getLogger()
    before = root.handlers, root.level
    root.handlers, root.level = [_Reading()], logging.INFO
    try:
        yield
    finally:
        root.handlers, root.level = before
