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

"""When a changed inventory file is read, and when it is taken over."""

import unittest

from nova_powervm import exception
from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_change
from nova_powervm.inventory_file.file_change import FileReading
from nova_powervm.inventory_file.file_change import FileStatus
from nova_powervm.inventory_file.file_change import ReadOutcome

OLD = FileStatus(inode=1, size=10)
NEW = FileStatus(inode=2, size=20)
OTHER = FileStatus(inode=3, size=30)
GONE = FileStatus(error='No such file or directory')


def paragraphs(name):
    return policy.Policy(
        (policy.Paragraph(name, {'vendor_id': '10DE'}),), 'inv'
    )


FIRST, SECOND = paragraphs('first'), paragraphs('second')
NOTHING = policy.Policy(source='inv (no such file)')


def bad(look, reason='bad', passing=False):
    error = exception.PolicyInvalid(path='inv', count=1, problems=reason)
    return FileReading(look, error=error, passing=passing)


class FileWatchTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.watch = file_change.FileWatch(FIRST, OLD)

    def look(self, look):
        self.watch, due = self.watch.note_status(look)
        return due

    def read(self, reading):
        self.assertTrue(self.look(reading.status))
        self.watch, news = self.watch.take_reading(reading)
        return news

    def change(self, reading):
        """Show a change twice, and give the reading."""
        self.assertFalse(self.look(reading.status))
        return self.read(reading)

    def test_unchanged_file_is_not_read(self):
        for _ in range(3):
            self.assertFalse(self.look(OLD))

    def test_change_is_read_when_two_looks_agree(self):
        self.assertFalse(self.look(NEW))
        self.assertTrue(self.look(NEW))
        self.watch, news = self.watch.take_reading(
            FileReading(NEW, policy=SECOND)
        )
        self.assertEqual(
            (ReadOutcome.TAKEN, SECOND), (news, self.watch.policy)
        )
        self.assertFalse(self.look(NEW))

    def test_file_that_keeps_changing_is_not_read(self):
        for look in (NEW, OTHER, NEW, GONE, OTHER):
            self.assertFalse(self.look(look))
        self.assertEqual(FIRST, self.watch.policy)

    def test_undone_change_is_not_read(self):
        for look in (NEW, OLD, NEW, OLD):
            self.assertFalse(self.look(look))

    def test_file_other_than_the_one_seen_is_not_used(self):
        self.look(NEW)
        self.look(NEW)
        self.watch, news = self.watch.take_reading(
            FileReading(OTHER, policy=SECOND)
        )
        self.assertEqual((ReadOutcome.NONE, FIRST), (news, self.watch.policy))
        self.assertEqual(
            ReadOutcome.TAKEN, self.change(FileReading(OTHER, policy=SECOND))
        )

    def test_file_changed_while_read_is_not_used(self):
        news = self.change(FileReading(NEW, steady=False, policy=SECOND))
        self.assertEqual((ReadOutcome.NONE, FIRST), (news, self.watch.policy))
        self.assertEqual(
            ReadOutcome.TAKEN, self.change(FileReading(NEW, policy=SECOND))
        )

    def test_invalid_file_leaves_last_valid_policy_in_force(self):
        self.assertEqual(ReadOutcome.REFUSED, self.change(bad(NEW)))
        self.assertEqual(FIRST, self.watch.policy)
        self.assertIn('1 problem(s)', self.watch.complaint)
        # Said once; nothing is read before it changes.
        self.assertFalse(self.look(NEW))
        self.assertEqual(ReadOutcome.REFUSED, self.change(bad(OTHER)))

    def test_restored_file_is_used_after_an_invalid_one(self):
        self.change(bad(NEW))
        self.assertEqual(
            ReadOutcome.TAKEN, self.change(FileReading(OLD, policy=FIRST))
        )
        self.assertEqual('', self.watch.complaint)

    def test_unreadable_file_is_read_again_at_each_look(self):
        self.assertEqual(
            ReadOutcome.REFUSED, self.change(bad(NEW, passing=True))
        )
        self.assertEqual(ReadOutcome.NONE, self.read(bad(NEW, passing=True)))
        self.assertEqual(
            ReadOutcome.REFUSED, self.read(bad(NEW, 'worse', passing=True))
        )
        self.assertEqual(
            ReadOutcome.TAKEN, self.read(FileReading(NEW, policy=SECOND))
        )
        self.assertFalse(self.look(NEW))

    def test_missing_or_emptied_file_leaves_policy_in_force(self):
        for look in (GONE, NEW):
            self.assertEqual(
                ReadOutcome.REFUSED,
                self.change(FileReading(look, policy=NOTHING)),
            )
            self.assertEqual(FIRST, self.watch.policy)
            self.assertIn('has no paragraph', self.watch.complaint)
            self.assertFalse(self.look(look))

    def test_service_started_without_file_uses_a_new_one(self):
        self.watch = file_change.FileWatch(NOTHING, GONE)
        self.assertFalse(self.look(GONE))
        self.assertEqual(
            ReadOutcome.TAKEN, self.change(FileReading(NEW, policy=SECOND))
        )
        self.assertEqual(
            ReadOutcome.REFUSED, self.change(FileReading(GONE, policy=NOTHING))
        )

    def test_missing_file_replaces_a_policy_without_paragraphs(self):
        self.watch = file_change.FileWatch(NOTHING, GONE)
        self.assertEqual(ReadOutcome.REFUSED, self.change(bad(NEW)))
        self.assertEqual(
            ReadOutcome.TAKEN, self.change(FileReading(GONE, policy=NOTHING))
        )
