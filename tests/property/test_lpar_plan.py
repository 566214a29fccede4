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

"""Plans for LPARs, whatever Nova wants and whatever the host says."""

import dataclasses
import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import spec
from nova_powervm.lpar import steps
from nova_powervm.lpar import storage
from tests.unit.devices.values import settings_of
from tests.unit.lpar import plan_values as values

Part = spec.Part
NOVA = (values.GPU, values.ONCE, values.MOVED)
MEDIUM = storage.config_drive_name(values.LPAR)
RESCUE_ORDERS = (operations.Disks.RESCUED, operations.Disks.RESTORED)
POWER_STEPS = (steps.Stop, steps.Start, steps.Restart)
#: They find out by themselves whether there is something to do.
ENSURING = (
    steps.FitSwap,
    steps.GrowRoot,
    steps.Reconnect,
    steps.RemovePort,
)

indexes = st.frozensets(st.sampled_from(NOVA))
moves = st.dictionaries(
    st.sampled_from(NOVA), st.sampled_from(('earlier move', 'last move'))
)
numbers = st.lists(st.integers(1, 3), unique=True, max_size=2)
#: Few sizes, and most of them valid.
sizes = st.sampled_from(
    [
        values.FLAVOR,
        values.FLAVOR,
        lpar_settings.FlavorSettings(1024, 2, 0.5),
        lpar_settings.FlavorSettings(1000, 2, 0.5),
        lpar_settings.FlavorSettings(1024, 2, 0.01),
    ]
)
disks = st.sampled_from(
    ((), (values.SWAP,), (values.EPHEMERAL,), (values.EPHEMERAL, values.SWAP))
)
_OFTEN = st.sampled_from((True, True, True, False))
_RARELY = _OFTEN.map(lambda often: not often)


@dataclasses.dataclass
class Host:
    """A host with one LPAR; steps change it as they change a real one.

    :param found: The LPAR.
    :param ports: The numbers of the ports that it has adapters of.
    :param pool: The instance's disks in the pool.
    :param connected: The names of the storage that the LPAR is connected to.
    :param allocated: The providers that are allocated to the instance.
    :param broken: DRC indexes of slots that nobody can use.
    """

    found: partition.Partition | None
    ports: frozenset[int]
    pool: tuple[storage.Disk, ...]
    connected: frozenset[str]
    allocated: frozenset[str]
    broken: frozenset[int]
    has_pool: bool
    in_use: bool

    def parts(self, wanted, *, row_makes=False):
        """Return what a survey would read."""
        host = values.managed_system(self.found.slots if self.found else ())
        host = dataclasses.replace(
            host,
            io_slots=tuple(
                s for s in host.io_slots if s.drc_index not in self.broken
            ),
        )
        ports = {int(port.id[-1]) for port in wanted.ports or ()}
        adapters = self.ports if self.found and not row_makes else ()
        return values.parts(
            self.found,
            rules=host,
            slots=host,
            allocated=self.allocated,
            adapters=values.changes(
                sorted(set(adapters) - ports), sorted(ports - set(adapters))
            ),
            disks=tuple(
                values.pool_disk(disk, in_use=self.in_use)
                for disk in self.pool
            )
            if self.has_pool
            else (),
            mappings=self.connected,
            swap_fits=self.swap() == wanted.swap,
            has_rescue=self.has_rescue,
        )

    @property
    def has_rescue(self):
        """Whether there is a rescue disk."""
        return values.RESCUE in self.pool

    def is_connected(self, disk):
        """Return whether a disk is connected."""
        return values.pool_disk(disk).stored.name in self.connected

    def swap(self):
        """Return the swap disk that is connected."""
        return next(
            (
                disk
                for disk in self.pool
                if disk.role == storage.SWAP and self.is_connected(disk)
            ),
            None,
        )

    def plan(self, row, wanted):
        """Plan an operation, and return the plan and the parts it needs."""
        builds = row.creates is operations.Creation.YES
        return values.survey(
            row,
            wanted,
            self.parts(wanted, row_makes=builds),
            has_pool=self.has_pool,
        )

    def apply(self, made):
        """Return the host after a plan."""
        after = dataclasses.replace(
            self, ports=self.ports if self.found else frozenset()
        )
        ready = set()
        for step in made.steps:
            after._do(step, ready)
        return after

    def _do(self, step, ready):
        match step:
            case steps.RemoveRemains() | steps.Document():
                self._change_lpar(step)
            case steps.Stop():
                self._set_state(values.OFF)
            case steps.Start() | steps.Restart():
                self._set_state(values.RUNNING)
            case steps.FitSwap():
                self._fit_swap(step.swap)
            case steps.Map():
                self.connected |= ready
            case steps.Reconnect():
                self._reconnect(step)
            case _:
                self._change_adapters(step)
                ready.update(self._stored(step))

    def _change_lpar(self, step):
        if isinstance(step, steps.Document):
            self._write(step)
            return
        self.found, self.ports = None, frozenset()
        self.connected = frozenset()
        self.pool = () if step.delete_disks else self.pool

    def _change_adapters(self, step):
        match step:
            case steps.RemoveAdapter():
                self.ports -= {int(step.adapter.mac[-1])}
            case steps.RemovePort():
                self.ports -= {int(step.port.id[-1])}
            case steps.CreateAdapters():
                self.ports |= {int(c.port.id[-1]) for c in step.connections}

    def _stored(self, step):
        """Make disks, and return the names of what is ready to connect."""
        match step:
            case steps.MakeRoot() | steps.MakeBlank():
                self.pool += (step.disk,)
                return {values.pool_disk(step.disk).stored.name}
            case steps.KeepDisks():
                return {known.stored.name for known in step.disks}
            case steps.MakeMedium():
                return {MEDIUM}
        return set()

    def _reconnect(self, step):
        # A host changes the disks of a stopped LPAR only.
        assert self.found.state == values.OFF
        if step.rescued:
            assert self.has_rescue
        else:
            self.pool = tuple(d for d in self.pool if d != values.RESCUE)
        self.connected = frozenset(
            values.pool_disk(disk).stored.name for disk in self.pool
        )
        self.connected |= {MEDIUM} - ({MEDIUM} if step.rescued else set())

    def _set_state(self, state):
        self.found = dataclasses.replace(self.found, state=state)

    def _fit_swap(self, swap):
        self.pool = tuple(d for d in self.pool if d.role != storage.SWAP)
        name = values.pool_disk(values.SWAP).stored.name
        self.connected -= {name}
        if swap is not None:
            self.pool += (swap,)
            self.connected |= {name}

    def _write(self, step):
        owned = dict.fromkeys(step.spec.drc_indexes, True)
        if step.creates:
            assert self.found is None
            self.found = values.lpar(values.OFF, owned, step.spec.settings)
            return
        # A host changes sizes and slots of a stopped LPAR only.
        assert self.found.state == values.OFF
        self.found = dataclasses.replace(
            self.found,
            slots=owned,
            settings=step.spec.settings or self.found.settings,
        )


@st.composite
def wants(draw):
    """Draw what Nova and Placement say."""
    blanks = draw(disks)
    duplicates = (
        values.claim_of(values.ONCE),
        values.claim_of(values.FOREIGN),
    )
    return values.wanted(
        slots=tuple(
            values.slot(
                index,
                burns=draw(st.sampled_from((duplicates, duplicates[:1])))
                if index == values.ONCE
                else (),
                refusal='it is ours' if not draw(st.integers(0, 19)) else '',
            )
            for index in sorted(draw(indexes))
        ),
        settings=draw(sizes),
        moved_slots=draw(moves),
        blanks=blanks,
        checks_swap=draw(st.booleans()),
        grow_root_gb=draw(st.sampled_from((None, None, 20))),
        config_drive=draw(st.booleans()),
        ports=draw(
            st.none() | numbers.map(lambda ns: tuple(map(values.port, ns)))
        ),
        rescued=draw(_RARELY),
        power_on=draw(_OFTEN),
        timeout=draw(st.sampled_from((0, 60))),
        pool_is_current=draw(_OFTEN),
    )


@st.composite
def hosts(draw, wanted):
    """Draw a host; its LPAR often is what is wanted, or nearly."""
    known = sorted(wanted.drc_indexes | draw(indexes))
    if draw(_RARELY):
        known.append(values.FOREIGN)
    owned = {index: draw(_OFTEN) for index in known if draw(_OFTEN)}
    found = values.lpar(
        draw(st.sampled_from((*values.STATES, values.OFF, values.RUNNING))),
        owned,
        draw(
            st.sampled_from(
                (values.SIZES, values.SIZES, settings_of(1024, 2, 1.0))
            )
        ),
    )
    pool = (
        (values.ROOT, *wanted.blanks)
        if draw(_OFTEN)
        else draw(st.sampled_from(((), (values.ROOT,))))
    )
    pool += (values.RESCUE,) if draw(_RARELY) else ()
    names = [*(values.pool_disk(d).stored.name for d in pool), MEDIUM]
    return Host(
        found if draw(_OFTEN) else None,
        frozenset(draw(numbers)),
        pool,
        frozenset(name for name in names if draw(_OFTEN)),
        frozenset(values.provider_of(i) for i in NOVA if draw(_OFTEN)),
        frozenset({values.GPU} if not draw(st.integers(0, 9)) else ()),
        has_pool=draw(_OFTEN),
        in_use=draw(_RARELY),
    )


def situations(*rows):
    """Return a strategy for one of the rows, what is wanted, and a host."""
    return wants().flatmap(
        lambda w: st.tuples(st.sampled_from(rows), st.just(w), hosts(w))
    )


CHECKS = [
    row.as_check()
    for row in (operations.SPAWN, operations.ARRIVAL, operations.RESIZE)
]
BUILDS = (operations.SPAWN, operations.ARRIVAL)
CHANGES = [row for row in operations.ALL if row not in BUILDS]


def kinds(made):
    return [type(step) for step in made.steps]


def has(made, *kind):
    return any(isinstance(step, kind) for step in made.steps)


class LparPlanTest(unittest.TestCase):
    @settings(max_examples=200)
    @given(situations(*CHANGES))
    def test_plan_for_result_of_plan_changes_nothing(self, situation):
        row, wanted, host = situation
        made, _ = host.plan(row, wanted)
        # A server is not rescued twice.
        if made.refusal or row is operations.RESCUE:
            return
        after = host.apply(made)

        again, _ = after.plan(row, wanted)

        self.assertIsNone(again.refusal, made)
        left = [s for s in again.steps if not isinstance(s, ENSURING)]
        if row.restarts:
            left = [s for s in left if not isinstance(s, POWER_STEPS)]
        # A lost LPAR keeps a swap disk of another size until the next time.
        if not made.makes:
            self.assertEqual([], left, made)
        if not (made.makes or row.restarts):
            self.assertEqual(after, after.apply(again), made)

    @given(situations(*BUILDS))
    def test_build_is_not_repeated_around_running_guest(self, situation):
        row, wanted, host = situation
        made, _ = host.plan(row, wanted)
        if made.refusal or not wanted.power_on:
            return

        again, _ = host.apply(made).plan(row, wanted)

        self.assertEqual('!taken', values.words(again))

    @settings(max_examples=400)
    @given(situations(*operations.ALL, *CHECKS))
    def test_plan_keeps_each_rule(self, situation):
        row, wanted, host = situation
        made, _ = host.plan(row, wanted)
        for name in dir(self):
            if name.startswith('rule_') or (
                name.startswith('applied_') and not row.is_check
            ):
                getattr(self, name)(row, wanted, host, made)

    # The rules; the last ones are of plans that are carried out.

    def rule_running_guest_is_stopped_only_if_row_permits(
        self, row, wanted, host, made
    ):
        if row.stops is operations.Stop.NO:
            self.assertFalse(has(made, steps.Stop, steps.Restart))
        if not (host.found and host.found.state == values.RUNNING):
            return
        if row.stops in (
            operations.Stop.FAILED_ONLY,
            operations.Stop.NEVER_RUNNING,
        ):
            self.assertFalse(has(made, *POWER_STEPS), made)
        if row.stops is operations.Stop.TO_CHANGE:
            self.assertEqual(
                has(made, steps.Document, steps.FitSwap),
                has(made, steps.Stop),
            )

    def rule_document_has_only_what_row_permits(self, row, wanted, host, made):
        document = made.document
        if document is None:
            return
        if row.creates is operations.Creation.NO:
            self.assertFalse(document.creates)
        if row.creates is operations.Creation.IF_LOST:
            self.assertFalse(document.creates and host.found)
        if not row.adds_slots:
            self.assertFalse(document.added)
        if not row.frees_slots:
            self.assertFalse(document.spec.freed)
        if not (row.settings or document.creates):
            self.assertIsNone(document.spec.settings)

    def rule_plan_has_only_adapters_and_disks_that_row_permits(
        self, row, wanted, host, made
    ):
        if row.adapters is not operations.Adapters.FITTED:
            self.assertFalse(has(made, steps.RemoveAdapter))
        if row.adapters is not operations.Adapters.REMOVED:
            self.assertFalse(has(made, steps.RemovePort))
        if row.adapters in (
            operations.Adapters.NO,
            operations.Adapters.REMOVED,
        ):
            self.assertFalse(has(made, steps.CreateAdapters))
        if row.disks is not operations.Disks.MADE:
            self.assertEqual(
                row is operations.RESCUE and not made.refusal,
                has(made, steps.MakeRoot),
            )
        if row.disks not in (
            operations.Disks.KEPT,
            operations.Disks.MAPPED,
        ):
            self.assertFalse(has(made, steps.KeepDisks))
        if not wanted.checks_swap:
            self.assertFalse(has(made, steps.FitSwap))
        for step in made.steps:
            if isinstance(step, steps.RemoveRemains) and step.delete_disks:
                self.assertIs(operations.Disks.MADE, row.disks)

    def rule_disks_are_reordered_for_rescue_only(
        self, row, wanted, host, made
    ):
        for step in made.steps:
            if isinstance(step, steps.Reconnect):
                self.assertEqual(row is operations.RESCUE, step.rescued)
                self.assertTrue(
                    host.has_rescue or row.disks in RESCUE_ORDERS, made
                )

    def rule_freed_slots_are_those_of_move_that_plan_names(
        self, row, wanted, host, made
    ):
        if made.document:
            freed = made.document.spec.freed
            self.assertLessEqual(freed, wanted.moved_slots.keys())
            self.assertFalse(freed & wanted.drc_indexes)
            for index in freed:
                self.assertIn(
                    f'slot {index:08X} is given up for migration '
                    f'{wanted.moved_slots[index]}',
                    str(made),
                )
            self.assertEqual(
                wanted.drc_indexes, made.document.spec.drc_indexes
            )

    def rule_slot_of_nobody_is_refused(self, row, wanted, host, made):
        explained = wanted.drc_indexes | wanted.moved_slots.keys()
        if (
            host.found
            and set(host.found.slots) - explained
            and row.stops is not operations.Stop.NO
            and made.steps
        ):
            self.fail(f'{row} does not refuse it: {made}')

    def rule_burns_are_of_added_and_allocated_devices(
        self, row, wanted, host, made
    ):
        document = made.document
        if document is None:
            return
        owned = host.found.slots if host.found and not made.makes else {}
        self.assertEqual(
            {claim.drc_index for claim in document.added},
            wanted.drc_indexes - set(owned),
        )
        expected = [
            claim
            for slot in wanted.slots
            if slot.claim in document.added
            for claim in slot.burns
        ]
        if row.is_check and row.disks is not operations.Disks.MADE:
            expected = []
        self.assertEqual(expected, list(document.burns))
        for slot in wanted.slots:
            if set(slot.burns) & set(document.burns):
                self.assertIn(slot.claim.provider_uuid, host.allocated)

    def rule_steps_are_in_fixed_order(self, row, wanted, host, made):
        order = steps.MAKING if made.makes else steps.CHANGING
        places = [order.index(kind) for kind in kinds(made)]
        self.assertEqual(sorted(places), places)
        self.assertLessEqual(kinds(made).count(steps.Document), 1)

    def rule_plan_asks_for_each_part_once(self, row, wanted, host, made):
        # A part that is asked for twice fails in the survey.
        _, asked = host.plan(row, wanted)
        self.assertLessEqual(len(asked), len(Part))
        self.assertTrue({Part.RULES, Part.SLOTS} - set(asked))
        if not host.has_pool and row.disks is not operations.Disks.KEPT:
            self.assertNotIn(Part.DISKS, asked)
            if row.disks is not operations.Disks.RESCUED:
                self.assertNotIn(Part.MAPPINGS, asked)

    def rule_stopped_guest_is_started_again(self, row, wanted, host, made):
        if row is not operations.DEPARTURE and has(made, steps.Stop):
            self.assertEqual(
                wanted.power_on or row.restarts, has(made, steps.Start)
            )

    def rule_adapters_are_created_on_prepared_host(
        self, row, wanted, host, made
    ):
        prepared = network_ports.Changes()
        for step in made.steps:
            if isinstance(step, steps.PrepareHost):
                prepared = step
            elif isinstance(step, steps.CreateAdapters):
                self.assertEqual(prepared.connections, step.connections)

    def applied_started_guest_has_its_slots_and_no_others(
        self, row, wanted, host, made
    ):
        if has(made, steps.Start, steps.Restart):
            after = host.apply(made).found

            self.assertEqual(
                dict.fromkeys(wanted.drc_indexes, True), after.slots
            )
            self.assertEqual(values.RUNNING, after.state)
            if row.settings or made.makes:
                self.assertEqual(
                    wanted.settings.memory_mb, after.settings.memory_mb
                )

    def applied_guest_starts_from_disk_that_row_and_nova_say(
        self, row, wanted, host, made
    ):
        if row in (operations.SPAWN, operations.ARRIVAL) or made.makes:
            return
        if row in (operations.RESIZE, operations.SOFT_REBOOT):
            # Nova permits neither in a rescue.
            return
        if has(made, steps.Start, steps.Restart):
            after = host.apply(made)

            if row is operations.RESCUE:
                self.assertTrue(after.is_connected(values.RESCUE))
            elif not wanted.rescued or row is operations.UNRESCUE:
                self.assertFalse(after.has_rescue, made)
            else:
                self.assertEqual(host.connected, after.connected, made)

    def applied_started_guest_has_its_adapters(self, row, wanted, host, made):
        if row.adapters is operations.Adapters.NO:
            return
        if has(made, steps.Start, steps.Restart) and wanted.ports is not None:
            after = host.apply(made).ports

            self.assertEqual(
                {int(port.id[-1]) for port in wanted.ports}, after
            )

    def applied_started_guest_has_its_disks_for_itself(
        self, row, wanted, host, made
    ):
        # What is off has had no use of its disks.
        off = host.found is None or host.found.state == values.OFF
        if off and host.has_pool and host.pool and has(made, steps.Start):
            self.assertTrue(
                not host.in_use or row.disks is operations.Disks.MADE
            )
            roots = {
                values.pool_disk(disk).stored.name
                for disk in host.pool
                if storage.is_root(disk.role)
            }
            if host.found and row.disks is not operations.Disks.MADE:
                self.assertLessEqual(roots, host.apply(made).connected)
