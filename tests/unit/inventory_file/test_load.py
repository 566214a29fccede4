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

"""The inventory file on disk."""

import os
import pathlib
import tempfile
import unittest

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy

GOOD = 'p: {identification: {class: ABCD}}\n'
AS_ROOT = os.geteuid() == 0


class LoadTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name).resolve()
        self.path = self.directory / 'inventory.yaml'

    def write(self, content=GOOD, mode=0o640):
        self.path.write_text(content)
        self.path.chmod(mode)

    def refused(self, *words, path=None):
        path = str(path or self.path)
        with self.assertRaises(exception.PolicyInvalid) as caught:
            inventory_file.load(path)
        self.assertEqual(path, caught.exception.fields['path'])
        (problem,) = caught.exception.fields['problems']
        self.assertTrue(problem.hint)
        for word in words:
            self.assertIn(word, str(problem))

    def test_file(self):
        self.write()
        read = inventory_file.load(str(self.path))
        self.assertEqual(str(self.path), read.source)
        self.assertEqual(['p'], [p.name for p in read.paragraphs])

    def test_closed_in_every_case(self):
        before = os.listdir('/proc/self/fd')
        self.write()
        inventory_file.load(str(self.path))
        self.refused('not a regular file', path=self.directory)
        self.assertEqual(before, os.listdir('/proc/self/fd'))

    def test_missing(self):
        self.assertEqual(
            policy.Policy(source=f'{self.path} (no such file)'),
            inventory_file.load(str(self.path)),
        )

    def test_missing_directory(self):
        path = f'{self.directory}/none/inventory.yaml'
        self.assertEqual((), inventory_file.load(path).paragraphs)

    def test_empty(self):
        self.write('')
        self.assertEqual(
            policy.Policy(source=str(self.path)),
            inventory_file.load(str(self.path)),
        )

    def test_problems_of_the_text(self):
        self.write('p: {identification: {class: 0302}}\n')
        self.refused("line 1, column 29, paragraph 'p'", "quote it: '0302'")

    def test_symbolic_link(self):
        self.write()
        link = self.directory / 'link'
        link.symlink_to(self.path)
        self.assertEqual(1, len(inventory_file.load(str(link)).paragraphs))

    def test_dangling_link(self):
        self.path.symlink_to(self.directory / 'nowhere')
        self.refused('symbolic link', 'does not exist')

    def test_link_to_itself(self):
        self.path.symlink_to(self.path)
        self.refused('can not be read')

    def test_world_writable_file(self):
        self.write(mode=0o646)
        self.refused('every user can write', '0646', f'chmod o-w {self.path}')

    def test_world_writable_directory(self):
        self.write()
        self.directory.chmod(0o777)
        self.refused('could replace', f'chmod o-w {self.directory}')

    def test_world_writable_directory_behind_a_link(self):
        self.write()
        other = self.directory / 'other'
        other.mkdir()
        link = other / 'link'
        link.symlink_to(self.path)
        self.directory.chmod(0o777)
        self.refused(f'chmod o-w {self.directory}', path=link)

    def test_sticky_directory(self):
        self.write()
        self.directory.chmod(0o1777)
        self.assertEqual(
            1, len(inventory_file.load(str(self.path)).paragraphs)
        )

    def test_group_may_write(self):
        self.write(mode=0o660)
        self.assertEqual(
            1, len(inventory_file.load(str(self.path)).paragraphs)
        )

    def test_unreadable(self):
        self.write(mode=0o000)
        if AS_ROOT:
            # Root reads everything, so be nobody for a moment.
            self.directory.chmod(0o755)
            os.seteuid(65534)
            self.addCleanup(os.seteuid, 0)
        self.refused('can not be read', 'Permission denied', 'chmod 0640')

    def test_directory(self):
        self.path.mkdir()
        self.refused('not a regular file')

    def test_pipe(self):
        os.mkfifo(self.path)
        self.refused('not a regular file')

    def test_device(self):
        self.refused('not a regular file', path='/dev/null')

    def test_file_where_a_directory_belongs(self):
        self.write()
        self.refused('can not be read', path=f'{self.path}/x')

    def test_null_character_in_the_path(self):
        self.refused('can not be read', path='a\0b')

    def test_not_utf8(self):
        self.path.write_bytes(b'# \xe9\n')
        self.refused('line 1, column 3', 'not UTF-8')

    def test_largest(self):
        self.write(GOOD + '#' * (1024 * 1024 - len(GOOD)))
        self.assertEqual(
            1, len(inventory_file.load(str(self.path)).paragraphs)
        )

    def test_too_large(self):
        self.write(GOOD + '#' * (1024 * 1024 - len(GOOD) + 1))
        self.refused('larger than 1048576 bytes')
