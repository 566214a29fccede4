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
from nova_powervm.inventory_file.problems import Code

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

    def refused(self, code, *words, path=None):
        path = str(path or self.path)
        with self.assertRaises(exception.PolicyInvalid) as caught:
            inventory_file.load(path)
        self.assertEqual(path, caught.exception.fields['path'])
        (problem,) = caught.exception.fields['problems']
        self.assertTrue(problem.hint)
        self.assertEqual(code, problem.code)
        for word in words:
            self.assertIn(word, str(problem))

    def test_file_is_read_and_named_as_source(self):
        self.write()
        read = inventory_file.load(str(self.path))
        self.assertEqual(str(self.path), read.source)
        self.assertEqual(['p'], [p.name for p in read.paragraphs])

    def test_file_descriptor_is_closed_after_success_and_refusal(self):
        before = os.listdir('/proc/self/fd')
        self.write()
        inventory_file.load(str(self.path))
        self.refused(
            Code.NOT_REGULAR, 'not a regular file', path=self.directory
        )
        self.assertEqual(before, os.listdir('/proc/self/fd'))

    def test_missing_file_is_empty_policy(self):
        self.assertEqual(
            policy.Policy(source=f'{self.path} (no such file)'),
            inventory_file.load(str(self.path)),
        )

    def test_missing_directory_is_empty_policy(self):
        path = f'{self.directory}/none/inventory.yaml'
        self.assertEqual((), inventory_file.load(path).paragraphs)

    def test_empty_file_is_empty_policy(self):
        self.write('')
        self.assertEqual(
            policy.Policy(source=str(self.path)),
            inventory_file.load(str(self.path)),
        )

    def test_invalid_text_is_refused(self):
        self.write('p: {identification: {class: 0302}}\n')
        self.refused(
            Code.NEEDS_QUOTES,
            "line 1, column 29, paragraph 'p'",
            "quote it: '0302'",
        )

    def test_symbolic_link_is_followed(self):
        self.write()
        link = self.directory / 'link'
        link.symlink_to(self.path)
        self.assertEqual(1, len(inventory_file.load(str(link)).paragraphs))

    def test_dangling_link_is_refused(self):
        self.path.symlink_to(self.directory / 'nowhere')
        self.refused(Code.DANGLING_LINK, 'symbolic link', 'does not exist')

    def test_link_to_itself_is_refused(self):
        self.path.symlink_to(self.path)
        self.refused(Code.UNREADABLE, 'cannot be read')

    def test_world_writable_file_is_refused(self):
        self.write(mode=0o646)
        self.refused(
            Code.WORLD_WRITABLE,
            'every user can write',
            '0646',
            f'chmod o-w {self.path}',
        )

    def test_world_writable_directory_is_refused(self):
        self.write()
        self.directory.chmod(0o777)
        self.refused(
            Code.WORLD_WRITABLE, 'could replace', f'chmod o-w {self.directory}'
        )

    def test_world_writable_directory_behind_a_link_is_refused(self):
        self.write()
        other = self.directory / 'other'
        other.mkdir()
        link = other / 'link'
        link.symlink_to(self.path)
        self.directory.chmod(0o777)
        self.refused(
            Code.WORLD_WRITABLE, f'chmod o-w {self.directory}', path=link
        )

    def test_world_writable_directory_with_sticky_bit_is_accepted(self):
        self.write()
        self.directory.chmod(0o1777)
        self.assertEqual(
            1, len(inventory_file.load(str(self.path)).paragraphs)
        )

    def test_group_writable_file_is_accepted(self):
        self.write(mode=0o660)
        self.assertEqual(
            1, len(inventory_file.load(str(self.path)).paragraphs)
        )

    def test_unreadable_file_is_refused(self):
        self.write(mode=0o000)
        if AS_ROOT:
            # Root reads everything, so be nobody for a moment.
            self.directory.chmod(0o755)
            os.seteuid(65534)
            self.addCleanup(os.seteuid, 0)
        self.refused(
            Code.UNREADABLE,
            'cannot be read',
            'Permission denied',
            'chmod 0640',
        )

    def test_directory_is_refused(self):
        self.path.mkdir()
        self.refused(Code.NOT_REGULAR, 'not a regular file')

    def test_pipe_is_refused(self):
        os.mkfifo(self.path)
        self.refused(Code.NOT_REGULAR, 'not a regular file')

    def test_character_device_is_refused(self):
        self.refused(Code.NOT_REGULAR, 'not a regular file', path='/dev/null')

    def test_path_below_a_file_is_refused(self):
        self.write()
        self.refused(Code.UNREADABLE, 'cannot be read', path=f'{self.path}/x')

    def test_path_with_null_character_is_refused(self):
        self.refused(Code.UNREADABLE, 'cannot be read', path='a\0b')

    def test_file_not_in_utf8_is_refused_and_named(self):
        self.path.write_bytes(b'# \xe9\n')
        self.refused(Code.NOT_UTF8, 'line 1, column 3', 'not UTF-8')

    def test_file_of_one_mebibyte_is_accepted(self):
        self.write(GOOD + '#' * (1024 * 1024 - len(GOOD)))
        self.assertEqual(
            1, len(inventory_file.load(str(self.path)).paragraphs)
        )

    def test_file_over_one_mebibyte_is_refused(self):
        self.write(GOOD + '#' * (1024 * 1024 - len(GOOD) + 1))
        self.refused(Code.TOO_LARGE, 'larger than 1048576 bytes')
