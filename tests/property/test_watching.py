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
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_reader


def _policy(name):
    return policy.Policy((policy.Paragraph(name, {'class': 'ABCD'}),), 'inv')


EMPTY = policy.Policy(source='inv')
GOOD = {name: _policy(name) for name in ('a', 'b')}
contents = st.sampled_from((*GOOD, 'empty', 'bad'))


@dataclasses.dataclass(frozen=True)
class FileVersion:
    """A version of the file; each looks different."""

    number: int
    content: str

    def read(self):
        if self.content == 'bad':
            error = exception.PolicyInvalid(path='inv', count=1, problems='')
            return (self.number,), error
        return (self.number,), GOOD.get(self.content, EMPTY)


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
        self.change = None
        self.readings = []
        self.watch = self.call(lambda: inventory_file.InventoryFile('inv'))
        self.previous = None
        #: Per cycle: the policy before, what was seen and whether it was seen
        #: before, what was read, the policy after.
        self.cycles = []

    def call(self, function):
        """Call a function of the watch, which reads this file."""
        self.readings.clear()
        with (
            mock.patch.object(
                file_reader, 'read_status', lambda _: (self.now.number,)
            ),
            mock.patch.object(file_reader, 'read_file', self.read),
        ):
            return function()

    def read(self, _path):
        status, found = self.now.read()
        if self.change:
            content, whole = self.change
            self.write(content)
            # It was written before it was read, or meanwhile.
            status, found = self.now.read() if whole else (('?',), found)
        self.readings.append(found)
        return status, found

    def write(self, content):
        self.now = FileVersion(len(self.files), content)
        self.files.append(self.now)

    def back(self, number):
        self.now = self.files[number % len(self.files)]

    def cycle(self, change=None, whole=True):
        before, looked = self.watch.policy, self.now
        agreed = self.previous == looked
        self.previous = looked
        self.change = (change, whole) if change else None
        after = self.call(self.watch.refresh)
        self.cycles.append((before, looked, agreed, [*self.readings], after))

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
        for before, looked, agreed, read, after in story.cycles:
            if after != before:
                self.assertTrue(agreed)
                self.assertEqual([looked.read()[1]], read)
                self.assertEqual([after], read)

    @given(stories)
    def test_invalid_or_empty_file_keeps_policy_in_force(self, story):
        for before, *_, after in story.cycles:
            if before.paragraphs:
                self.assertTrue(after.paragraphs)

    @given(stories)
    def test_settled_file_is_judged_once(self, story):
        """Three more cycles always settle the watch."""
        before = story.watch.policy
        for _ in range(3):
            story.cycle()
        _, expected = story.now.read()
        is_good = story.now.content != 'bad' and (
            expected.paragraphs or not before.paragraphs
        )
        for _ in range(2):
            self.assertEqual(
                expected if is_good else before, story.watch.policy
            )
            story.cycle()
            # Only a refused file is read again.
            self.assertEqual(not is_good, bool(story.cycles[-1][3]))
