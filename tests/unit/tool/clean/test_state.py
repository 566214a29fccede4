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

"""The lock, and the counts of attempts, on a real file system."""

import fcntl
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

from nova_powervm import exception
from nova_powervm.tool import errors
from nova_powervm.tool.clean import state

UUID = 'b1e3c1f8-0000-4000-8000-000000000001'
OTHER = 'b1e3c1f8-0000-4000-8000-000000000002'


class StateTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = os.path.join(directory.name, 'state')


class LockTest(StateTestCase):
    def assert_locked(self):
        with (
            self.assertRaisesRegex(errors.AlreadyCleaning, r'host1\.lock'),
            state.lock(self.directory, 'host1'),
        ):
            self.fail('there is no lock')

    def test_lock_keeps_second_process_of_same_node_out(self):
        with state.lock(self.directory, 'host1'):
            self.assert_locked()
            with state.lock(self.directory, 'host2'):
                pass
        with state.lock(self.directory, 'host1'):
            pass

    def test_directory_is_made_for_its_owner_alone(self):
        with state.lock(self.directory, 'host/1'):
            mode = os.stat(self.directory).st_mode
        self.assertEqual(0o700, stat.S_IMODE(mode))
        self.assertEqual(['host%2F1.lock'], os.listdir(self.directory))

    def test_program_that_outlives_its_caller_keeps_the_lock(self):
        with state.lock(self.directory, 'host1') as descriptor:
            program = subprocess.Popen(
                [sys.executable, '-c', 'input()'],
                stdin=subprocess.PIPE,
                pass_fds=[descriptor],
            )
        self.addCleanup(program.stdin.close)
        self.assert_locked()
        program.communicate(b'\n')
        with state.lock(self.directory, 'host1') as descriptor:
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFD)
        self.assertTrue(flags & fcntl.FD_CLOEXEC)


class AttemptsTest(StateTestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.directory)
        self.path = pathlib.Path(self.directory, 'host1.json')

    def attempts(self):
        """Return the counts as another process reads them."""
        return state.Attempts(self.directory, 'host1')

    def test_counts_outlive_the_process(self):
        self.assertEqual(0, self.attempts().of(UUID))
        self.attempts().put(UUID, 2)
        self.attempts().put(OTHER, 1)
        self.assertEqual(
            [2, 1], [self.attempts().of(uuid) for uuid in (UUID, OTHER)]
        )
        self.attempts().put(UUID, 0)
        self.assertEqual(0, self.attempts().of(UUID))
        self.assertEqual(1, self.attempts().of(OTHER))

    def test_devices_that_do_not_wait_are_forgotten(self):
        self.attempts().put(UUID, 2)
        self.attempts().put(OTHER, 1)
        self.attempts().keep([OTHER])
        self.assertEqual(0, self.attempts().of(UUID))
        self.assertEqual(1, self.attempts().of(OTHER))

    def test_damaged_file_is_refused_and_kept(self):
        for text in ('', '[]', '{"a": "b"}', '{"a": true}', '{'):
            with self.subTest(text):
                self.path.write_text(text)
                with self.assertRaisesRegex(
                    exception.ConfigurationError, r'host1\.json is damaged'
                ):
                    self.attempts().put(UUID, 1)
                self.assertEqual(text, self.path.read_text())

    def test_write_that_fails_leaves_the_counts(self):
        self.attempts().put(UUID, 2)
        before = os.listdir(self.directory)
        with self.assertRaises(TypeError):
            self.attempts().put(OTHER, object())
        self.assertEqual(2, self.attempts().of(UUID))
        self.assertEqual(before, os.listdir(self.directory))
