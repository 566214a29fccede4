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

"""Burning: what is asked, what is written down, what is made sure of."""

import unittest

from nova_powervm import exception
from nova_powervm.domain import burning
from nova_powervm.domain import claims
from nova_powervm.domain import existing
from nova_powervm.domain import planned
from nova_powervm.ops import burning as burn_ops
from tests.unit.domain.test_burning import ONCE
from tests.unit.domain.test_burning import once
from tests.unit.domain.values import INDEX
from tests.unit.domain.values import NAME
from tests.unit.domain.values import device
from tests.unit.domain.values import provider

SYSTEM = 'system'
CLAIM = claims.Claim(f'uuid of {NAME}', INDEX)


class Placement:
    """Placement with some providers, in memory."""

    def __init__(self, room=(), held=(), burned=()):
        self.room = set(room)
        self.held = set(held)
        self.burned = set(burned)
        self.asked = []

    def with_room(self, member, classes):
        self.asked.append((member.uuid, sorted(classes)))
        return {name: self.room for name in classes}

    def allocated_to(self, consumer):
        self.asked.append(consumer)
        return self.held

    def burn(self, uuid):
        self.asked.append(uuid)
        if uuid == 'silent':
            raise exception.PlacementUnanswered(request='GET', reason='503')
        missing = uuid not in self.burned
        self.burned.add(uuid)
        return missing


class Journal:
    """A journal in memory."""

    def __init__(self, *burned, there=False):
        self.burned = frozenset(burned)
        self.there = there or bool(burned)
        self.written = 0

    def exists(self):
        return self.there

    def open(self):
        self.there = True

    def close(self):
        self.there = False

    def read(self, system):
        assert system == SYSTEM
        return self.burned

    def write(self, system, burned):
        self.written += 1
        self.burned = frozenset(burned)


class LookTest(unittest.TestCase):
    def look(self, pairing, journal=None, **answers):
        self.placement = Placement(**answers)
        ops = burn_ops.BurnOps(self.placement, journal or Journal())
        return ops.look(SYSTEM, pairing)

    def test_without_such_devices_nothing_is_asked(self):
        pairing = existing.pair([device()], [provider()])
        self.assertEqual(burning.Burns(), self.look(pairing))
        self.assertEqual([], self.placement.asked)

    def test_room(self):
        for room, full in (
            ((), {CLAIM.provider_uuid}),
            ([CLAIM.provider_uuid], set()),
        ):
            found = self.look(existing.pair([once()], [provider()]), room=room)
            self.assertEqual(full, found.full)
            self.assertEqual(
                [(CLAIM.provider_uuid, ['CUSTOM_GPU'])], self.placement.asked
            )

    def test_each_class_that_a_provider_has_is_asked_for(self):
        there = provider(classes=['CUSTOM_OLD', 'CUSTOM_GPU'])
        self.look(existing.pair([once()], [there]))
        self.assertEqual(
            [(there.uuid, ['CUSTOM_GPU', 'CUSTOM_OLD'])], self.placement.asked
        )

    def test_a_provider_that_says_nothing_is_not_full(self):
        pairing = existing.pair([once()], [provider(classes=())])
        self.assertEqual(burning.Burns(), self.look(pairing))

    def test_the_journal_counts_without_such_devices_too(self):
        found = self.look(existing.pair([device()], []), Journal(INDEX))
        self.assertEqual({INDEX}, found.recorded)


class WriteTest(unittest.TestCase):
    def write(self, journal, entries):
        burn_ops.BurnOps(Placement(), journal).write_ahead(
            SYSTEM, planned.Plan(entries)
        )
        return journal.burned

    def entry(self, reserved=1, traits=(ONCE,), **changes):
        values = {
            'action': planned.Action.PUBLISH,
            'drc_index': INDEX,
            'name': NAME,
            'uuid': CLAIM.provider_uuid,
            'inventory': {'CUSTOM_GPU': {'reserved': reserved}},
            'traits': frozenset(traits),
        }
        return planned.Entry(**{**values, **changes})

    def test_what_is_burned_is_written_once(self):
        journal = Journal()
        for _ in range(2):
            self.assertEqual({INDEX}, self.write(journal, [self.entry()]))
        self.assertEqual(1, journal.written)

    def test_without_burns_there_is_no_journal(self):
        journal = Journal()
        self.write(journal, [self.entry(0), self.entry(traits=())])
        self.assertEqual((0, False), (journal.written, journal.there))

    def test_what_was_released_is_forgotten(self):
        released = self.entry(0, released=True)
        self.assertEqual(set(), self.write(Journal(INDEX), [released]))


class ConfirmTest(unittest.TestCase):
    def confirm(self, *wanted, **answers):
        self.placement = Placement(**answers)
        burn_ops.BurnOps(self.placement, Journal()).confirm('i', wanted)
        return self.placement.asked

    def refused(self, *wanted, **answers):
        with self.assertRaises(exception.ClaimFailed) as caught:
            self.confirm(*wanted, **answers)
        return caught.exception.summary

    def test_nothing(self):
        self.assertEqual([], self.confirm())

    def test_one_request_and_one_for_each(self):
        uuid = CLAIM.provider_uuid
        asked = self.confirm(CLAIM, held=[uuid], burned=[uuid])
        self.assertEqual(['i', uuid], asked)

    def test_not_burned(self):
        with self.assertLogs(burn_ops.LOG.logger, 'WARNING') as logs:
            self.confirm(CLAIM, held=[CLAIM.provider_uuid])
        self.assertIn('was released while instance i', logs.output[0])
        self.assertEqual({CLAIM.provider_uuid}, self.placement.burned)

    def test_of_somebody_else(self):
        uuid = CLAIM.provider_uuid
        self.assertIn(
            'slot 21010020 is for one use and not allocated to it',
            self.refused(CLAIM, burned=[uuid]),
        )

    def test_nobody_knows(self):
        silent = claims.Claim('silent', INDEX)
        self.assertIn('503', self.refused(silent, held=['silent']))


class PrepareTest(unittest.TestCase):
    def test_the_journal_is_opened_where_it_is_needed(self):
        for flag, there, expected in (
            (False, False, False),
            (True, False, True),
            (False, True, True),
        ):
            journal = Journal(there=there)
            opened = []
            journal.open = lambda opened=opened: opened.append(True)
            burn_ops.BurnOps(Placement(), journal).prepare(one_time_use=flag)
            self.assertEqual(expected, bool(opened))
