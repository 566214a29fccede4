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

"""Rules of operators, of Cyborg, and of changes to hosts and files."""

from hypothesis import stateful
from hypothesis import strategies as st

from nova_powervm.devices import names
from tests.property.simulation import base_machine
from tests.property.simulation import host
from tests.property.simulation import instance_rules
from tests.property.simulation import inventory
from tests.property.simulation import placement
from tests.property.simulation import run_statistics
from tests.property.simulation import world as worlds

_OPERATORS = 'CUSTOM_OPERATOR'
_CHANGES = st.fixed_dictionaries(
    {},
    optional={
        'resource_class': st.sampled_from(inventory.CLASSES),
        'traits': st.frozensets(st.sampled_from(inventory.TRAITS)),
        'once': st.booleans(),
    },
)


#: Those of the program that cleans. With 2 and 3 the slot is not given back.
_EXIT_CODES = st.sampled_from((0, 0, 0, 1, 2, 3))


class RepairRules(base_machine.BaseMachine):
    """Rules that make devices usable again."""

    @stateful.rule(
        number=base_machine.NODES, once=st.booleans(), wait=st.booleans()
    )
    def repair(self, number, once, wait):
        """Restore the slots and the file of a host."""
        node = self.world.nodes[number]
        for index in host.SLOTS:
            state = node.host.slots[index]
            node.host.change(
                index,
                card=host.GPU,
                reported=True,
                sriov=False,
                odd='',
            )
            if state.owner in (host.VIOS, host.ARCHIVE, host.CLEANER):
                node.host.take(index, None)
        node.file.write(inventory.Content().changed(inventory.GPU, once=once))
        # What the service has not noticed yet, it will.
        self.world.check()
        for row in self.world.rows(node):
            if worlds.REPLACED in self.world.quarantined.get(row.uuid, ()):
                self.restore(node, row)
            if self.world.is_elsewhere(node, row):
                self.accept(row)
        self.wait(node, wait)
        self.done('repair')

    @stateful.precondition(lambda self: self._burned())
    @stateful.rule(data=st.data())
    def clean(self, data):
        """Release a burned device, as after a cleaning."""
        node, row = base_machine.pick(data, self._burned())
        self.release(node, row)
        self.wait(node, data.draw(st.booleans()))
        self.done('provider: clean')

    def _burned(self):
        return [
            (node, row)
            for node, row in self.rows()
            if row.reserved and worlds.ONCE in row.traits
        ]


class CleaningRules(instance_rules.InstanceRules):
    """Rules that clean devices, killed anywhere."""

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(
        data=st.data(),
        steps=st.integers(0, 4),
        exit_code=_EXIT_CODES,
        is_killed=st.booleans(),
    )
    def use_and_clean(self, data, steps, exit_code, is_killed):
        """Boot an instance and delete it, and begin to clean a device.

        Without this, few devices would come so far.
        """
        if not self._uncleaned():
            self.boot_one(data=data)
        if not self._uncleaned() and self.there():
            self.delete(data=data, trouble=None)
        if self._uncleaned():
            self._begin(data, steps, exit_code, is_killed=is_killed)

    @stateful.precondition(lambda self: self._uncleaned())
    @stateful.rule(
        data=st.data(), exit_code=_EXIT_CODES, is_killed=st.booleans()
    )
    def begin_cleaning(self, data, exit_code, is_killed):
        self._begin(data, 0, exit_code, is_killed=is_killed)

    def _begin(self, data, steps, exit_code, *, is_killed):
        node, row = base_machine.pick(data, self._uncleaned())
        if self.world.cleaning.begin(node, row):
            self._go_on(node, steps, exit_code, is_killed=is_killed)
        else:
            # It was killed before it put the device in quarantine.
            self._give_up(row, is_killed=is_killed)

    def _uncleaned(self):
        return [
            (node, row)
            for node in self.world.nodes
            for row in self.world.cleaning.waiting(node)
        ]

    @stateful.precondition(lambda self: self.world.cleaning.running)
    @stateful.rule(
        data=st.data(),
        steps=st.integers(1, 4),
        exit_code=_EXIT_CODES,
        is_killed=st.sampled_from((False, False, True)),
        wait=st.booleans(),
    )
    def go_on_cleaning(self, data, steps, exit_code, is_killed, wait):
        running = self.world.cleaning.running
        node = running[base_machine.pick(data, sorted(running))].node
        self._go_on(node, steps, exit_code, is_killed=is_killed)
        self.wait(node, wait)

    def _go_on(self, node, steps, exit_code, *, is_killed):
        """Do some steps of the cleaning of a host, and perhaps kill it."""
        running = self.world.cleaning.running
        attempt, result = running[node.name], 'goes on'
        while steps and result == 'goes on':
            steps -= 1
            result = self.world.cleaning.go_on(attempt, exit_code)
        if result == 'released':
            self._release_clean(attempt)
        elif result == 'failed for good' and not is_killed:
            self._give_up(attempt.row, is_killed=False)
        elif result == 'goes on' and is_killed:
            del running[node.name]
            result = 'killed'
        self.done(f'cleaning: {result}')

    def _release_clean(self, attempt):
        self.world.require(
            self.release(attempt.node, attempt.row),
            'a clean device is released',
            attempt,
        )

    def _give_up(self, row, *, is_killed):
        if self.world.cleaning.is_waiting(row):
            self.quarantine(row, 'CLEANING', is_killed=is_killed)
            self.world.cleaning.forgive(row)
            self.done('cleaning: quarantine')


class ProviderRules(base_machine.BaseMachine):
    """Rules that change providers in Placement."""

    @stateful.rule(number=base_machine.NODES)
    def renew_foreign(self, number):
        """Delete Cyborg's provider and create another one."""
        node = self.world.nodes[number]
        gone = [
            uuid
            for uuid in self.world.foreign
            if self.world.placement.rows[uuid].parent == node.root
            and not self.world.placement.holders(uuid)
        ]
        for uuid in gone:
            del self.world.foreign[uuid], self.world.placement.rows[uuid]
        if node.root in self.world.placement.rows:
            self.add_foreign(node)
        self.done('foreign providers')

    @stateful.precondition(lambda self: self.rows())
    @stateful.rule(
        data=st.data(),
        what=st.sampled_from(('reserve', 'release', 'mark', 'remove')),
    )
    def operate(self, data, what):
        node, row = base_machine.pick(data, self.rows())
        if what == 'remove' and data.draw(st.booleans()):
            # Its slot disappears as well.
            node.host.change(worlds.slot_of(row), reported=False)
        done = {
            'reserve': lambda: self.reserve(node, row),
            'release': lambda: self.release(node, row),
            'mark': lambda: self._mark(row),
            'remove': lambda: self.remove(row),
        }[what]()
        if done:
            self.wait(node, data.draw(st.booleans()))
            self.done(f'provider: {what}')

    @stateful.precondition(lambda self: self.rows())
    @stateful.rule(
        data=st.data(),
        code=st.sampled_from(sorted(names.OPERATOR_REASONS)),
        is_killed=st.booleans(),
        wait=st.booleans(),
    )
    def put_in_quarantine(self, data, code, is_killed, wait):
        node, row = base_machine.pick(data, self.rows())
        if row.uuid not in self.world.quarantined:
            self.quarantine(row, code, is_killed=is_killed)
            self.wait(node, wait)
            self.done('provider: quarantine')

    @stateful.precondition(lambda self: self.world.quarantined)
    @stateful.rule(data=st.data(), wait=st.booleans())
    def end_quarantine(self, data, wait):
        node, row = base_machine.pick(
            data,
            [
                (n, r)
                for n, r in self.rows()
                if r.uuid in self.world.quarantined
            ],
        )
        if self.restore(node, row):
            self.wait(node, wait)
            self.done('provider: restore')

    @stateful.precondition(lambda self: self._without_duplicate())
    @stateful.rule(data=st.data())
    def make_duplicate(self, data):
        """Create a second provider for a slot, with the other form of name."""
        node, row = base_machine.pick(data, self._without_duplicate())
        duplicate = placement.Row(
            placement.new_uuid(next(self.numbers)),
            names.provider_name('', worlds.slot_of(row), 'spec'),
            node.root,
            {name: dict(record) for name, record in row.offer.items()},
            row.traits,
        )
        self.world.placement.rows[duplicate.uuid] = duplicate
        node.compute.forget_providers()
        self.checked_cycle(node)
        self.done('provider: duplicate')

    def _without_duplicate(self):
        """Return the providers that can get a duplicate."""
        names_there = {r.name for r in self.world.placement.rows.values()}
        return [
            (node, row)
            for node, row in self.rows()
            if node.compute
            and row.offer
            and not row.reserved
            and row.uuid not in self.world.quarantined
            and (node.name, worlds.slot_of(row)) not in self.world.used
            and names.provider_name('', worlds.slot_of(row), 'spec')
            not in names_there
        ]

    def _mark(self, row):
        row.traits |= {_OPERATORS}
        row.aggregates |= {placement.new_uuid(0xA66)}
        row.generation += 1
        self.world.set_traits[row.uuid] = {_OPERATORS}
        self.world.set_aggregates[row.uuid] = row.aggregates
        return True

    @stateful.precondition(lambda self: self._deserted())
    @stateful.rule(data=st.data())
    def delete_service(self, data):
        """Delete the compute service, and with it all providers."""
        node = base_machine.pick(data, self._deserted())
        self.world.delete_service(node)
        self.done('delete service')

    def _deserted(self):
        """Return the nodes whose service can be deleted."""
        return [
            node
            for node in self.world.nodes
            if not node.compute
            and node.root in self.world.placement.rows
            and not any(
                i.node is node and i.state != 'gone'
                for i in self.world.instances
            )
            and not any(
                node in (migration.source, migration.target)
                for migration in self.world.database.migrations
                if not migration.is_ended
            )
        ]


class HostRules(base_machine.BaseMachine):
    """Rules that change slots and files."""

    @stateful.rule(
        number=base_machine.NODES,
        vendor=st.sampled_from((inventory.GPU, inventory.GPU, inventory.CARD)),
        changes=_CHANGES,
        wait=st.booleans(),
    )
    def edit(self, number, vendor, changes, wait):
        file = self.world.nodes[number].file
        file.write(file.good.changed(vendor, **changes))
        for change in changes or ['paragraph']:
            run_statistics.TOTALS.note(f'edit: {change}')
        self.wait(self.world.nodes[number], wait)
        self.done('edit')

    @stateful.rule(
        number=base_machine.NODES,
        how=st.sampled_from(('without', 'deny', *inventory.BROKEN)),
        index=base_machine.SLOTS,
        wait=st.booleans(),
    )
    def spoil_file(self, number, how, index, wait):
        file = self.world.nodes[number].file
        content = {
            'without': lambda: file.good.without(inventory.GPU),
            'deny': lambda: file.good.denying(file.good.denied ^ {index}),
        }.get(how, lambda: file.good.breaking(how))()
        file.write(content)
        self.wait(self.world.nodes[number], wait)
        self.done(f'file: {how}')

    @stateful.rule(
        number=base_machine.NODES,
        index=base_machine.SLOTS,
        change=st.sampled_from(
            (
                ('card', None),
                ('card', host.GPU),
                ('card', host.CARD),
                ('reported', False),
                ('reported', True),
                ('sriov', True),
                ('sriov', False),
                ('odd', ''),
                *(('odd', how) for how in host.ODD),
            )
        ),
        wait=st.booleans(),
    )
    def change_slot(self, number, index, change, wait):
        what, value = change
        self.world.nodes[number].host.change(index, **{what: value})
        self.wait(self.world.nodes[number], wait)
        self.done(f'slot: {what} {value}')

    @stateful.precondition(lambda self: self.rows())
    @stateful.rule(
        data=st.data(),
        card=st.sampled_from((host.GPU, host.CARD, None)),
        odd=st.sampled_from(host.ODD),
        wait=st.booleans(),
    )
    def replace_card(self, data, card, odd, wait):
        """Show another card where one is known, or report it oddly.

        A guest can let its card look like another one.
        """
        node, row = base_machine.pick(data, self.rows())
        index = worlds.slot_of(row)
        if card is None:
            was = node.host.slots[index].odd
            node.host.change(index, odd='' if was else odd)
        else:
            node.host.change(index, card=card, reported=True)
        self.wait(node, wait)
        self.done('slot: another card')

    @stateful.rule(
        number=base_machine.NODES,
        index=base_machine.SLOTS,
        owner=st.sampled_from((None, host.VIOS, host.ARCHIVE)),
    )
    def change_owner(self, number, index, owner):
        if self.world.nodes[number].host.take(index, owner):
            self.done('slot: owner')
