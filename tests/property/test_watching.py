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

"""A file that changes while the service runs."""

import pathlib
import tempfile
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm import inventory_file
from nova_powervm.inventory_file import file_reader
from tests import proofs

GOOD = {
    name: f'{name}: {{identification: {{class: ABCD}}}}\n' for name in 'abc'
}
BAD = 'a: {identification: {class: 0302}}\n'
#: None is no file.
contents = st.sampled_from((*GOOD.values(), BAD, '# nothing\n', None))


class WatchTest(unittest.TestCase):
    """A file that changes before some looks at it."""

    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(directory, 'inventory.yaml')
        self.log = self.enterContext(mock.patch.object(file_reader, 'LOG'))

    def write(self, content):
        self.path.unlink(missing_ok=True)
        if content is not None:
            self.path.write_text(content)

    def names(self):
        """Return the names of the paragraphs in force."""
        return [p.name for p in self.watch.policy.paragraphs]

    def begin(self, first):
        self.write(first)
        self.watch = inventory_file.InventoryFile(str(self.path))
        self.log.reset_mock()

    def look(self, content):
        """Change the file, and look; return what is in force."""
        self.write(content)
        self.watch.refresh()
        return self.names()

    @proofs.proves('device.config-reload')
    @given(st.sampled_from((*GOOD.values(), None)), st.lists(contents))
    def test_policy_is_the_last_good_one_of_two_equal_looks(self, first, seen):
        self.begin(first)
        expected = self.names()
        for before, content in zip([first, *seen], seen, strict=False):
            if content == before and content in GOOD.values():
                expected = [content[0]]
            self.assertEqual(expected, self.look(content))

    @given(st.sampled_from([*GOOD.values()]), st.lists(contents), contents)
    def test_settled_file_is_told_of_once(self, first, seen, last):
        self.begin(first)
        for content in seen:
            self.look(content)
        self.look(last)
        self.look(last)
        self.log.reset_mock()
        for _ in range(3):
            self.look(last)
        self.assertEqual([], self.log.mock_calls)
