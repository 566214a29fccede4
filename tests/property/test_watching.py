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

"""Properties of the watch on the inventory file."""

import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_change
from nova_powervm.inventory_file.file_change import FileReading
from nova_powervm.inventory_file.file_change import FileStatus
from nova_powervm.inventory_file.file_change import ReadOutcome


def _policy(name):
    return policy.Policy((policy.Paragraph(name, {'class': 'ABCD'}),), 'inv')


EMPTY = policy.Policy(source='inv')
GOOD = {name: _policy(name) for name in ('a', 'b')}
BAD = ('text', 'place')
contents = st.sampled_from((*GOOD, 'empty', *BAD))


@dataclasses.dataclass(frozen=True)
class FileVersion:
    """A version of the file; each looks different."""

    number: int
    content: str

    @property
    def look(self):
        return FileStatus(inode=self.number)

    def reading(self, steady=True):
        if self.content in BAD:
            error = exception.PolicyInvalid(
                path='inv', count=1, problems=self.content
            )
            return FileReading(
                self.look,
                steady,
                error=error,
                passing=self.content == 'place',
            )
        return FileReading(self.look, steady, GOOD.get(self.content, EMPTY))


#: A cycle, in which the file may change between look and reading or while
#: it is read; a new file; or one of the earlier ones put back.
steps = st.one_of(
    st.tuples(st.just('cycle'), st.none() | contents, st.booleans()),
    st.tuples(st.just('new'), contents),
    st.tuples(st.just('back'), st.integers(0, 99)),
)


class WatchScenario:
    """Plays steps and records what happened."""

    def __init__(self, first):
        self.files = [FileVersion(0, first)]
        self.now = self.files[0]
        self.watch = file_change.FileWatch(
            self.now.reading().policy, self.now.look
        )
        self.previous = None
        #: Per cycle: what was in force, the reading, the news.
        self.cycles = []

    def write(self, content):
        self.now = FileVersion(len(self.files), content)
        self.files.append(self.now)

    def back(self, number):
        self.now = self.files[number % len(self.files)]

    def cycle(self, change=None, whole=True):
        before = self.watch
        looked = self.now
        agreed = self.previous == looked
        self.previous = looked
        self.watch, due = self.watch.note_status(looked.look)
        reading, news = None, ReadOutcome.NONE
        if due:
            if change is not None and whole:
                self.write(change)
            reading = self.now.reading(steady=change is None or whole)
            self.watch, news = self.watch.take_reading(reading)
        self.cycles.append((before, agreed, looked, reading, news, self.watch))

    def play(self, played):
        for name, *values in played:
            {'cycle': self.cycle, 'new': self.write, 'back': self.back}[name](
                *values
            )
        return self


stories = st.builds(
    lambda first, played: WatchScenario(first).play(played),
    st.sampled_from((*GOOD, 'empty')),
    st.lists(steps, max_size=40),
)


class WatchTest(unittest.TestCase):
    @given(stories)
    def test_policy_in_force_was_read_completely_after_two_equal_looks(
        self, story
    ):
        for before, agreed, looked, reading, news, after in story.cycles:
            if after.policy == before.policy and news is not ReadOutcome.TAKEN:
                continue
            self.assertIs(ReadOutcome.TAKEN, news)
            self.assertTrue(agreed or looked.look == before.judged)
            self.assertEqual(looked.look, reading.status)
            self.assertTrue(reading.steady)
            self.assertIsNone(reading.error)
            self.assertEqual(reading.policy, after.policy)

    @given(stories)
    def test_invalid_or_empty_file_keeps_policy_in_force(self, story):
        for before, *_, after in story.cycles:
            if before.policy.paragraphs:
                self.assertTrue(after.policy.paragraphs)

    @given(stories)
    def test_outcome_follows_change_of_file(self, story):
        for before, _, looked, _, news, after in story.cycles:
            if news is ReadOutcome.REFUSED:
                self.assertNotEqual(before.judged, looked.look)
                self.assertTrue(after.complaint)
            if news is ReadOutcome.TAKEN:
                self.assertEqual('', after.complaint)

    @given(stories)
    def test_unchanged_file_is_judged_once(self, story):
        """Three more cycles always settle the watch."""
        before = story.watch.policy
        for _ in range(3):
            story.cycle()
        settled = story.watch
        expected = story.now.reading()
        good = expected.error is None and (
            expected.policy.paragraphs or not before.paragraphs
        )
        self.assertEqual(expected.policy if good else before, settled.policy)
        self.assertEqual(story.now.look, settled.judged)
        self.assertEqual(bool(good), settled.complaint == '')

        story.cycle()
        *_, reading, news, after = story.cycles[-1]
        self.assertEqual((settled, ReadOutcome.NONE), (after, news))
        # Only what is not in the text is tried again.
        self.assertEqual(story.now.content == 'place', reading is not None)
