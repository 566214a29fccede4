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

"""The file's traits: what is read and written, and what trouble costs."""

import unittest

from nova_powervm import exception
from nova_powervm.domain import planned
from nova_powervm.ops import traitkeeping
from tests.unit.domain.test_traitkeeping import UUID
from tests.unit.domain.test_traitkeeping import kept
from tests.unit.domain.test_traitkeeping import make_plan
from tests.unit.domain.values import device
from tests.unit.domain.values import provider

LOGGER = 'nova_powervm.ops.traitkeeping'


class Journal:
    """A journal in memory, with trouble on demand."""

    def __init__(self, content=None):
        self.content = content
        self.trouble = None
        self.asked = []

    def exists(self):
        self.asked.append('exists')
        return self.content is not None

    def read(self):
        self._do('read')
        return self.content

    def write(self, kept):
        self._do('write')
        self.content = kept

    def close(self):
        self.asked.append('close')

    def _do(self, what):
        self.asked.append(what)
        if self.trouble:
            raise exception.TraitJournalUnusable(
                path='/x', reason=self.trouble
            )


class TraitOpsTest(unittest.TestCase):
    def start(self, content=None, trouble=None):
        self.journal = Journal(content)
        self.journal.trouble = trouble
        self.ops = traitkeeping.TraitOps(self.journal)

    def update(self, there=(), file=()):
        """Make an update of one provider; give its traits afterwards."""
        plan = make_plan(
            [device(traits=file)], [provider(traits=there)], self.ops.look()
        )
        self.ops.write_ahead(plan, {}, [UUID])
        (entry,) = plan.entries
        self.assertIs(planned.Action.PUBLISH, entry.action)
        return entry.traits

    def test_it_is_read_once_and_written_if_it_changes(self):
        self.start(kept('CUSTOM_A'))
        self.update(['CUSTOM_A'], ['CUSTOM_A'])
        self.update(['CUSTOM_A'], ['CUSTOM_A'])
        self.assertEqual(['exists', 'read'], self.journal.asked)
        self.assertEqual(set(), self.update(['CUSTOM_A']))
        self.assertEqual(['exists', 'read'], self.journal.asked)
        self.update()
        self.assertEqual(['exists', 'read', 'write'], self.journal.asked)
        self.assertEqual({}, self.journal.content)

    def test_without_traits_there_is_none(self):
        self.start()
        self.update(['CUSTOM_BY_HAND', 'OWNER_NOVA'], ['OWNER_NOVA'])
        self.assertEqual(['exists'], self.journal.asked)
        self.assertIsNone(self.journal.content)

    def test_what_can_not_be_read_is_said_once_and_sets_all_the_same(self):
        self.start(kept('CUSTOM_A'), trouble='it is damaged')
        with self.assertLogs(LOGGER, 'WARNING') as caught:
            for _ in range(3):
                self.assertEqual(
                    {'CUSTOM_A', 'CUSTOM_B'},
                    self.update(['CUSTOM_A'], ['CUSTOM_B']),
                )
        (record,) = caught.records
        self.assertIn('/x: it is damaged.', record.getMessage())
        # Nothing is written over what may be mended.
        self.assertNotIn('write', self.journal.asked)
        self.assertEqual(kept('CUSTOM_A'), self.journal.content)

        self.journal.trouble = None
        self.assertEqual(set(), self.update(['CUSTOM_A']))

    def test_what_can_not_be_written_is_said_once_and_known_here(self):
        self.start({}, trouble=None)
        self.update()
        self.journal.trouble = 'the disk is full'
        with self.assertLogs(LOGGER, 'WARNING') as caught:
            for there in ((), ['CUSTOM_A']):
                found = self.update(there, ['CUSTOM_A'])
                self.assertEqual({'CUSTOM_A'}, found)
        self.assertEqual(1, len(caught.records))
        self.assertEqual(set(), self.update(['CUSTOM_A']))

        # It is tried again, and the same trouble is news after that.
        self.journal.trouble = None
        self.update(['CUSTOM_A'])
        self.assertEqual(kept('CUSTOM_A'), self.journal.content)
        self.journal.trouble = 'the disk is full'
        with self.assertLogs(LOGGER, 'WARNING'):
            self.update()

    def test_a_trait_that_is_gone_is_forgotten_though_nothing_is_written(self):
        self.start(kept('CUSTOM_A'))
        self.ops.look()
        self.journal.trouble = 'the disk is full'
        with self.assertLogs(LOGGER, 'WARNING'):
            self.update()
        # An operator sets it now.
        self.assertEqual({'CUSTOM_A'}, self.update(['CUSTOM_A']))

    def test_close(self):
        self.start()
        self.ops.close()
        self.assertEqual(['close'], self.journal.asked)
