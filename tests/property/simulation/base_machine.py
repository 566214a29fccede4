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

"""Common parts of the simulation's rules."""

import contextlib
import itertools
import logging
import re
import shutil
import tempfile
import time
from unittest import mock

from hypothesis import stateful
from hypothesis import strategies as st
from jsonschema import validators
from nova import exception
from nova import objects
from nova.compute import provider_config
from oslo_utils import uuidutils

from nova_powervm.devices import names
from tests.property.simulation import checks
from tests.property.simulation import compute
from tests.property.simulation import host
from tests.property.simulation import placement
from tests.property.simulation import process
from tests.property.simulation import records
from tests.property.simulation import run_statistics
from tests.property.simulation import world as worlds

#: The traits that say which card is in a slot, not where the slot is.
_IDS = re.compile(r'CUSTOM_POWERVM_IOSLOT_(?!DRC_INDEX)')
NODES = st.integers(0, 1)
SLOTS = st.sampled_from(host.SLOTS)


def _faults(kind, names, most):
    return st.builds(
        process.Trouble,
        st.just(kind),
        at=st.integers(0, most),
        fault=st.sampled_from(names),
        times=st.sampled_from((1, 2, 99)),
    )


TROUBLE = (
    st.none()
    | st.builds(process.Trouble, st.just('kill'), at=st.integers(0, 45))
    | _faults('placement', process.PLACEMENT, 20)
    | _faults('rest', process.REST, 9)
    | st.builds(
        process.Trouble,
        st.just('meddle'),
        at=st.integers(0, 45),
        # The rule replaces the tuple by a function.
        act=st.tuples(
            st.sampled_from(('reserve', 'release', 'remove', 'take', 'pull')),
            SLOTS,
        ),
    )
)


class _Reading(logging.Handler):
    """Formats each message, so that an invalid one raises.

    So does an error that is only logged, unless nova-compute is made for it.
    """

    def emit(self, record):
        text = record.getMessage()
        error = record.exc_info and record.exc_info[1]
        if (
            error
            and record.name.startswith('nova_powervm.')
            and not compute.is_expected(error)
        ):
            raise records.Incomplete(text) from error


class BaseMachine(stateful.RuleBasedStateMachine):
    """State machine with two hosts that have the same slots and files."""

    def __init__(self):
        super().__init__()
        objects.register_all()
        self._undo = contextlib.ExitStack()
        directory = tempfile.mkdtemp()
        self._undo.callback(shutil.rmtree, directory, ignore_errors=True)
        self.numbers = itertools.count(0xBEEF0000)
        self.volumes = 0
        self._undo.enter_context(
            mock.patch.object(
                uuidutils,
                'generate_uuid',
                lambda dashed=True: placement.new_uuid(next(self.numbers)),
            )
        )
        self._undo.enter_context(quiet())
        self.world = worlds.World(directory)
        self._undo.enter_context(self.world.database.serving())
        self._started = time.monotonic()

    def teardown(self):
        for node in self.world.nodes:
            node.crash()
        run_statistics.TOTALS.add(
            self.world.checked, time.monotonic() - self._started
        )
        self._undo.close()

    def wait(self, node, wait):
        """Run two cycles, which apply a changed file."""
        if wait and node.compute:
            node.compute.server.deaf = False
            self.world.cycle(node)
            self.checked_cycle(node)

    def settle(self, node):
        """Run three cycles without changes, and check the host."""
        node.compute.server.deaf = False
        node.compute.forget_providers()
        for _ in range(3):
            self.world.cycle(node)
        checks.after_cycle(self.world, node)
        checks.after_quiet(self.world, node)

    def checked_cycle(self, node):
        self.must_cycle(node)
        checks.after_cycle(self.world, node)

    def must_cycle(self, node):
        went_well = self.world.cycle(node)
        if not went_well and self._failed_on_gone_provider():
            # Nova reads the whole tree anew only after five minutes.
            node.compute.forget_providers()
            went_well = self.world.cycle(node)
        self.world.require(
            went_well, 'the next cycle mends it', self.world.failure
        )

    def _failed_on_gone_provider(self):
        failure = self.world.failure
        return (
            isinstance(
                failure, exception.ResourceProviderAggregateRetrievalFailed
            )
            and failure.kwargs['uuid'] not in self.world.placement.rows
        )

    def running(self):
        return [node for node in self.world.nodes if node.compute]

    def there(self):
        return [
            i
            for i in self.world.instances
            if i.state in ('active', 'resized', 'error')
        ]

    def built(self):
        return [
            i
            for i in self.there()
            if i.state == 'active'
            and not i.task
            and i.node.compute
            and i.lpar in i.node.host.lpars
        ]

    def rows(self):
        return [(n, r) for n in self.world.nodes for r in self.world.rows(n)]

    def trouble(self, node, trouble):
        """Fill in the action of a fault of the kind 'meddle'."""
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
                    self.reserve(node, row)
                elif what == 'release':
                    self.release(node, row)
                elif what == 'remove':
                    self.remove(row)

    def reserve(self, node, row):
        if not row.offer or row.reserved:
            return False
        if (
            placement.WITHDRAWN not in row.traits
            and row.uuid not in self.world.quarantined
        ):
            self.world.reserved.add(row.uuid)
        self.world.placement.reserve(row, 1)
        return True

    def release(self, node, row):
        key = (node.name, worlds.slot_of(row))
        if (
            not row.reserved
            or row.uuid in self.world.quarantined
            or self.world.cleaning.is_at(node, worlds.slot_of(row))
        ):
            return False
        self.world.placement.reserve(row, 0)
        self.world.reserved.discard(row.uuid)
        self.world.used.discard(key)
        if not any(
            other.reserved and worlds.slot_of(other) == key[1]
            for other in self.world.rows(node)
        ):
            # As long as one is burned, so is its duplicate again.
            self.world.touched.discard(key)
        self.world.released.add(key)
        return True

    def quarantine(self, row, code, *, is_killed):
        """Mark a provider, and then reserve it unless the command ends."""
        marks = {names.QUARANTINED_TRAIT, names.quarantine_trait(code)}
        row.traits = row.traits - {placement.WITHDRAWN} | marks
        row.generation += 1
        self.world.quarantined[row.uuid] = marks
        self.world.reserved.discard(row.uuid)
        if not is_killed:
            self.world.placement.reserve(row, 1)

    def restore(self, node, row):
        """Swap the marks for that of the service, which goes on.

        Another card has to be accepted: the provider forgets which one it was
        for. If the slot is empty, nobody knows which card comes.
        """
        state = node.host.slots[worlds.slot_of(row)]
        known, marks = (
            self.world.card_of(row),
            self.world.quarantined[row.uuid],
        )
        is_there = (
            state.reported and state.card is not None and state.odd != 'twice'
        )
        is_elsewhere = self.world.is_elsewhere(node, row)
        if worlds.REPLACED in marks and not is_there:
            return False
        del self.world.quarantined[row.uuid]
        if worlds.ONCE in row.traits:
            # Only a release offers it again.
            self.world.touched.add((node.name, worlds.slot_of(row)))
        row.traits = row.traits - marks | {placement.WITHDRAWN}
        row.generation += 1
        if is_there and (is_elsewhere or known not in (None, state.card)):
            self.accept(row)
        return True

    def accept(self, row):
        """Let a provider forget which card it was for, and where."""
        row.traits -= {t for t in row.traits if _IDS.match(t)}
        self.world.cards.pop(row.uuid, None)
        row.generation += 1

    def remove(self, row):
        if self.world.placement.holders(row.uuid):
            return False
        del self.world.placement.rows[row.uuid]
        self.world.forget(row)
        return True

    def add_foreign(self, node):
        record = {'total': 1, 'max_unit': 1, 'reserved': 0, 'min_unit': 1}
        for owner in ('OWNER_CYBORG', 'OWNER_SOMEBODY'):
            name = f'{node.name} {owner}'
            if any(r.name == name for r in self.world.placement.rows.values()):
                continue
            row = placement.Row(
                placement.new_uuid(next(self.numbers)),
                name,
                node.root,
                {'CUSTOM_GPU': record | {'step_size': 1}},
                frozenset({owner}),
                frozenset({placement.new_uuid(0xA66)}),
            )
            self.world.placement.rows[row.uuid] = row
            self.world.foreign[row.uuid] = row.state

    def done(self, rule, node=None, *troubles):
        for trouble in troubles:
            if trouble and trouble.done:
                run_statistics.TOTALS.fault(trouble)
        run_statistics.TOTALS.rule(rule)
        self.world.check()


def pick(data, found):
    return found[data.draw(st.integers(0, len(found) - 1))]


@contextlib.contextmanager
def quiet():
    """Format all log messages without showing them.

    Nova's own schema is not checked then, which it does whenever it reads a
    file: a quarter of the time of a simulation.
    """
    root = logging.getLogger()
    before = root.handlers, root.level
    root.handlers, root.level = [_Reading()], logging.INFO
    validator = validators.validator_for(provider_config.SCHEMA_V1)
    try:
        with mock.patch.object(validator, 'check_schema'):
            yield
    finally:
        root.handlers, root.level = before
