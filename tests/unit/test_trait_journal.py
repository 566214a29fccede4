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

"""The journal of traits: a file of its own, in which nobody else writes."""

import json
import os

import ddt

from nova_powervm import exception
from nova_powervm import journal
from tests.unit import test_journal

UUID = '0b1f6c3e-43bb-4ee0-8c6f-4d8ae64f3a55'
KEPT = {UUID: frozenset({'CUSTOM_B', 'CUSTOM_A'})}


class TraitJournalTestCase(test_journal.JournalTestCase):
    def opened(self):
        found = journal.FileTraitJournal(self.path)
        self.addCleanup(found.close)
        return found

    def put(self, content):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, 'wb') as file:
            file.write(content)

    def refused(self, action):
        with self.assertRaises(exception.TraitJournalUnusable) as caught:
            action()
        self.assertIn(self.path, str(caught.exception))
        return str(caught.exception)


class ContentTest(TraitJournalTestCase):
    def test_what_is_written_is_read(self):
        first = self.opened()
        self.assertFalse(first.exists())
        self.assertEqual({}, first.read())
        first.write(KEPT)
        self.assertEqual(KEPT, first.read())
        first.close()
        second = self.opened()
        self.assertTrue(second.exists())
        self.assertEqual(KEPT, second.read())

    def test_form(self):
        self.opened().write(KEPT)
        with open(self.path) as file:
            self.assertEqual(
                {
                    'version': 1,
                    'providers': {UUID: ['CUSTOM_A', 'CUSTOM_B']},
                },
                json.load(file),
            )

    def test_all_of_it_is_replaced(self):
        found = self.opened()
        found.write(KEPT)
        found.write({})
        self.assertEqual({}, found.read())

    def test_who_only_looks_needs_no_lock_and_makes_nothing(self):
        looker = journal.FileTraitJournal(self.path)
        self.assertEqual({}, looker.peek())
        self.assertFalse(os.path.exists(os.path.dirname(self.path)))
        holder = self.opened()
        holder.write(KEPT)
        self.assertEqual(KEPT, looker.peek())
        # The file as it is, not as it was.
        holder.write({})
        self.assertEqual({}, looker.peek())


@ddt.ddt
class RefusalTest(TraitJournalTestCase):
    @ddt.named_data(
        ['empty', b''],
        ['cut off', b'{"version": 1, "providers": {"a": ["CUST'],
        ['no mapping', b'[]'],
        ['other version', b'{"version": 2, "providers": {}}'],
        ['no providers', b'{"version": 1}'],
        ['no list', b'{"version": 1, "providers": {"a": "CUSTOM_A"}}'],
        ['no names', b'{"version": 1, "providers": {"a": [1]}}'],
        ['burned devices', b'{"version": 1, "systems": {}}'],
    )
    def test_damaged(self, content):
        self.put(content)
        found = self.opened()
        for action in (found.read, found.peek, lambda: found.write(KEPT)):
            message = self.refused(action)
            self.assertIn('is damaged', message)
            self.assertIn('or remove it', message)
        with open(self.path, 'rb') as file:
            self.assertEqual(content, file.read())

    def test_a_damaged_one_that_is_removed(self):
        self.put(b'')
        found = self.opened()
        self.refused(found.read)
        os.remove(self.path)
        self.assertEqual({}, found.read())
        found.write(KEPT)
        self.assertEqual(KEPT, found.peek())

    def test_a_second_one(self):
        first = self.opened()
        first.read()
        message = self.refused(self.opened().read)
        self.assertIn('another nova-compute', message)
        self.assertIn('burn_journal', message)
        first.close()
        self.assertEqual({}, self.opened().read())

    def test_what_can_not_be_written(self):
        found = self.opened()
        found.write(KEPT)
        os.mkdir(self.path + '.new')
        message = self.refused(lambda: found.write({}))
        self.assertIn('can not be written', message)
        self.assertEqual(KEPT, found.read())


class PlaceTest(TraitJournalTestCase):
    def test_beside_the_burned_devices(self):
        for option, burned, traits in (
            (None, '/state/powervm-burned.json', '/state/powervm-traits.json'),
            ('/srv/host1.json', '/srv/host1.json', '/srv/host1-traits.json'),
            ('host1', 'host1', 'host1-traits'),
            (
                '/state/powervm-traits.json',
                '/state/powervm-traits.json',
                '/state/powervm-traits-traits.json',
            ),
        ):
            self.assertEqual(burned, journal.burned_path(option, '/state'))
            self.assertEqual(traits, journal.traits_path(option, '/state'))
