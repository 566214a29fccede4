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

"""Files on a real file system, and which of them are refused."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_reader
from nova_powervm.inventory_file.problems import Code
from tests import proofs
from tests.unit.docs import pages

GOOD = 'p: {identification: {class: ABCD}}\n'
MEBIBYTE = 1024 * 1024
AS_ROOT = os.geteuid() == 0
MOVE = 'move the file into a directory that only root can write'

#: Mounts a volume like those of Kubernetes, and loads a file from it.
CONFIG_MAP = """
set -eu
mount -t tmpfs -o mode=0777 none "$1"
cd "$1"
mkdir -m 0777 ..2026_11_27
echo "$2" > ..2026_11_27/inventory.yaml
chmod 0644 ..2026_11_27/inventory.yaml
ln -s ..2026_11_27 ..data
ln -s ..data/inventory.yaml inventory.yaml
mount -o "remount,$3" "$1"
"$4" -c 'import sys
from nova_powervm import exception
from nova_powervm import inventory_file
try:
    print(len(inventory_file.load(sys.argv[1]).paragraphs))
except exception.PolicyInvalid as error:
    print(error)' "$1/inventory.yaml"
"""


def can_mount():
    """Return whether a test may have mounts of its own."""
    return not subprocess.run(
        ['/bin/sh', '-c', 'unshare -m true'], capture_output=True, check=False
    ).returncode


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

    def link(self, target):
        """Return a link to a file, in another directory."""
        other = self.directory / 'other'
        other.mkdir()
        link = other / 'link'
        link.symlink_to(target)
        return link

    def accepted(self, path=None):
        read = inventory_file.load(str(path or self.path))
        self.assertEqual(str(path or self.path), read.source)
        self.assertEqual(['p'], [p.name for p in read.paragraphs])

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
        return problem

    @proofs.proves('D8', 'D87')
    def test_file_is_read_and_named_as_source(self):
        self.write()
        self.accepted()
        self.accepted(self.link(self.path))
        self.path.chmod(0o660)
        self.accepted()

    def test_file_descriptor_is_closed_after_success_and_refusal(self):
        before = os.listdir('/proc/self/fd')
        self.write()
        self.accepted()
        self.refused(Code.NOT_REGULAR, path=self.directory)
        self.assertEqual(before, os.listdir('/proc/self/fd'))

    def test_missing_file_or_directory_is_empty_policy(self):
        for path in (self.path, f'{self.directory}/none/inventory.yaml'):
            self.assertEqual(
                policy.Policy(source=f'{path} (no such file)'),
                inventory_file.load(str(path)),
            )

    def test_empty_file_is_empty_policy(self):
        self.write('')
        self.assertEqual(
            policy.Policy(source=str(self.path)),
            inventory_file.load(str(self.path)),
        )

    def test_invalid_text_is_refused(self):
        self.write('p: {identification: {class: 0302}}\n')
        place = "line 1, column 29, paragraph 'p'"
        self.refused(Code.NEEDS_QUOTES, place, "quote it: '0302'")
        self.path.write_bytes(b'# \xe9\n')
        self.refused(Code.NOT_UTF8, 'line 1, column 3', 'not UTF-8')

    def test_broken_link_is_refused(self):
        self.path.symlink_to(self.directory / 'nowhere')
        self.refused(Code.DANGLING_LINK, 'symbolic link', 'does not exist')
        self.path.unlink()
        self.path.symlink_to(self.path)
        self.refused(Code.UNREADABLE, 'cannot be read')

    def test_world_writable_file_is_refused(self):
        self.write(mode=0o646)
        words = 'every user can write', '0646', f'chmod o-w {self.path}'
        self.refused(Code.WORLD_WRITABLE, *words)

    def test_world_writable_directory_is_refused_without_sticky_bit(self):
        self.write()
        link = self.link(self.path)
        self.directory.chmod(0o777)
        words = 'could replace', f'chmod o-w {self.directory}'
        for path in (self.path, link):
            self.refused(Code.WORLD_WRITABLE, *words, path=path)

    def test_file_in_shared_directory_is_to_be_moved(self):
        """There is a file now, but others could have made it.

        Before, the hint for a file in /tmp was to take /tmp from all others.
        """
        self.write()
        for mode, code in (
            (0o1777, Code.WORLD_WRITABLE),
            (0o1770, Code.GROUP_WRITABLE),
        ):
            self.directory.chmod(mode)
            with mock.patch.object(
                file_reader, '_trusts_group', return_value=False
            ):
                problem = self.refused(code, 'could replace')
            self.assertEqual(MOVE, problem.hint)

    def test_directory_above_may_be_sticky_but_not_writable_by_others(self):
        """Before, whoever could exchange a directory above chose the file."""
        below = self.directory / 'below'
        below.mkdir()
        self.path = below / 'inventory.yaml'
        self.write()
        self.directory.chmod(0o777)
        self.refused(Code.WORLD_WRITABLE, f'chmod o-w {self.directory}')
        self.directory.chmod(0o1777)
        self.accepted()

    @unittest.skipUnless(AS_ROOT and can_mount(), 'only root can mount')
    def test_directory_on_read_only_file_system_is_accepted(self):
        """Before, the volume of a Kubernetes ConfigMap was refused."""
        for option, words in (
            ('ro', '1\n'),
            ('rw', f'every user can write the directory {self.directory}'),
        ):
            loaded = subprocess.run(
                [
                    *('/bin/sh', '-c', 'exec unshare -m sh -c "$@"', 'sh'),
                    *(CONFIG_MAP, 'sh'),
                    *(self.directory, GOOD, option, sys.executable),
                ],
                env={**os.environ, 'PYTHONPATH': str(pages.ROOT)},
                capture_output=True,
                check=True,
                text=True,
            )
            with self.subTest(option=option):
                self.assertIn(words, loaded.stdout)

    def test_relative_path_and_links_on_the_way_are_followed(self):
        below = self.directory / 'below'
        below.mkdir()
        self.path = below / 'inventory.yaml'
        self.write()
        (self.directory / 'first').symlink_to('second')
        (self.directory / 'second').symlink_to(below)
        with contextlib.chdir(self.directory):
            for name in (
                'first/inventory.yaml',
                'first/../below/./inventory.yaml',
            ):
                self.path = pathlib.Path(name)
                self.accepted()
            below.chmod(0o777)
            self.refused(Code.WORLD_WRITABLE, f'chmod o-w {below}')

    def test_absolute_path_is_read_without_a_working_directory(self):
        """Before, the file was missing: a service offered no device."""
        self.write()
        gone = self.directory / 'gone'
        gone.mkdir()
        with contextlib.chdir('/'):
            os.chdir(gone)
            gone.rmdir()
            self.accepted()

    def test_file_that_vanishes_during_the_checks_is_not_missing(self):
        """Before, a starting service offered no device, without an error."""
        self.write()

        def vanish(descriptor):
            self.path.unlink()
            return os.stat(descriptor)

        with mock.patch('os.fstat', vanish):
            words = 'cannot be read', 'No such file', str(self.path)
            self.refused(Code.UNREADABLE, *words)

    @unittest.skipUnless(AS_ROOT, 'only root can give files away')
    def test_foreign_owner_is_refused(self):
        """Before, a user whose file or directory it was chose devices."""
        below = self.directory / 'below'
        below.mkdir()
        self.path = below / 'inventory.yaml'
        self.write()
        link = self.directory / 'link'
        link.symlink_to(self.path)
        for place, path, hint in (
            (self.path, self.path, f'chown root {self.path}'),
            # It may be somebody's home.
            (below, self.path, MOVE),
            (self.directory, self.path, MOVE),
            (link, link, f'chown -h root {link}'),
        ):
            os.chown(place, 12345, -1, follow_symlinks=False)
            words = f'{place} belongs to the user 12345'
            problem = self.refused(Code.FOREIGN_OWNER, words, path=path)
            self.assertEqual(hint, problem.hint)
            os.chown(place, 0, -1, follow_symlinks=False)
        self.accepted()

    @unittest.skipUnless(AS_ROOT, 'only root can give files away')
    def test_foreign_group_may_read_but_not_write(self):
        self.write(mode=0o660)
        self.accepted()
        os.chown(self.path, -1, 12345)
        self.path.chmod(0o660)
        words = 'the group 12345 can write', f'chmod g-w {self.path}'
        self.refused(Code.GROUP_WRITABLE, *words)
        self.path.chmod(0o640)
        self.accepted()
        os.chown(self.directory, -1, 12345)
        self.directory.chmod(0o770)
        self.refused(Code.GROUP_WRITABLE, f'chmod g-w {self.directory}')

    @unittest.skipUnless(AS_ROOT, 'only root can be another user')
    def test_user_and_group_of_nova_are_trusted_by_every_reader(self):
        """Before, only root could validate a file of nova's."""
        self.write(mode=0o664)
        self.directory.chmod(0o755)
        os.chown(self.path, 12345, 12346)
        nova = mock.Mock(pw_uid=12345, pw_gid=12346)
        for reader in (0, 54321):
            os.seteuid(reader)
            self.addCleanup(os.seteuid, 0)
            with mock.patch('pwd.getpwnam', return_value=nova):
                self.accepted()
            words = 'belongs to the user 12345'
            # The user of that name is another one, or there is none.
            nova_is_root = mock.Mock(pw_uid=0, pw_gid=0)
            for answer in ([nova_is_root], KeyError):
                with mock.patch('pwd.getpwnam', side_effect=answer):
                    self.refused(Code.FOREIGN_OWNER, words)

    def test_unreadable_file_is_refused(self):
        self.write(mode=0o000)
        if AS_ROOT:
            # Root reads everything, so be nobody for a moment.
            self.directory.chmod(0o755)
            os.seteuid(65534)
            self.addCleanup(os.seteuid, 0)
        words = 'cannot be read', 'Permission denied', 'chmod 0640'
        self.refused(Code.UNREADABLE, *words)

    def test_path_of_no_file_is_refused(self):
        self.write()
        pipe = self.directory / 'pipe'
        os.mkfifo(pipe)
        for path in (self.directory, pipe, '/dev/null'):
            self.refused(Code.NOT_REGULAR, 'not a regular file', path=path)
        for path in (f'{self.path}/x', 'a\0b'):
            self.refused(Code.UNREADABLE, 'cannot be read', path=path)

    def test_file_over_one_mebibyte_is_refused(self):
        self.write(GOOD + '#' * (MEBIBYTE - len(GOOD)))
        self.accepted()
        self.write(GOOD + '#' * (MEBIBYTE - len(GOOD) + 1))
        self.refused(Code.TOO_LARGE, 'larger than 1048576 bytes')
