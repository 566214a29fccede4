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

"""The journal of burned devices: whole after every kill, or refused."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import ddt

from nova_powervm import exception
from nova_powervm import journal

SYSTEM = 'c889bf0d-9996-33ac-84c5-d16727083a77'
OTHER = 'd889bf0d-9996-33ac-84c5-d16727083a77'
#: What a write asks of the system, in this order.
STEPS = ('open', 'fchmod', 'write', 'fsync', 'rename', 'open', 'fsync')


class JournalTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, 'state', 'burned.json')

    def opened(self, path=None):
        found = journal.FileJournal(path or self.path)
        self.addCleanup(found.close)
        found.open()
        return found

    def burned(self, system=SYSTEM):
        """Read what a new process would read."""
        found = journal.FileJournal(self.path)
        try:
            return found.read(system)
        finally:
            found.close()

    def write(self, *burned):
        found = journal.FileJournal(self.path)
        found.write(SYSTEM, burned)
        found.close()


class ContentTest(JournalTestCase):
    def test_nothing_is_made_before_there_is_something(self):
        found = journal.FileJournal(self.path)
        self.assertFalse(found.exists())
        found.close()
        self.assertFalse(os.path.exists(os.path.dirname(self.path)))

    def test_what_is_written_is_read(self):
        found = self.opened()
        self.assertEqual(frozenset(), found.read(SYSTEM))
        found.write(SYSTEM, {0x21010020, 0xA})
        self.assertTrue(found.exists())
        self.assertEqual({0x21010020, 0xA}, found.read(SYSTEM))
        found.close()
        self.assertEqual({0x21010020, 0xA}, self.burned())
        self.assertTrue(journal.FileJournal(self.path).exists())

    def test_each_managed_system_has_its_own(self):
        found = self.opened()
        found.write(SYSTEM, {1})
        found.write(OTHER, {2})
        found.write(SYSTEM, set())
        self.assertEqual(
            (frozenset(), {2}), (found.read(SYSTEM), found.read(OTHER))
        )

    def test_form(self):
        found = self.opened()
        found.write(SYSTEM, {0x21010020})
        with open(self.path) as file:
            first = json.load(file)
        found.write(SYSTEM, {0x21010020, 0x21010021})
        with open(self.path) as file:
            second = json.load(file)
        self.assertEqual(1, first['version'])
        (index, since) = first['systems'][SYSTEM].popitem()
        self.assertEqual('21010020', index)
        self.assertRegex(since, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$')
        self.assertEqual(since, second['systems'][SYSTEM]['21010020'])

    def test_only_its_owner_may_read_it(self):
        self.addCleanup(os.umask, os.umask(0))
        os.makedirs(os.path.dirname(self.path))
        with open(self.path + '.new', 'w') as file:
            os.fchmod(file.fileno(), 0o666)
        self.write(1)
        for path in (self.path, self.path + '.lock'):
            self.assertEqual(0o600, stat.S_IMODE(os.stat(path).st_mode))

    def test_a_symbolic_link_stays_one(self):
        os.makedirs(os.path.dirname(self.path))
        target = self.path + '.elsewhere'
        with open(target, 'w') as file:
            file.write('{"version": 1, "systems": {}}')
        os.symlink(target, self.path)
        self.write(1)
        self.assertTrue(os.path.islink(self.path))
        self.assertEqual({1}, self.burned())


class KillTest(JournalTestCase):
    """The process is killed with SIGKILL before each step of a write."""

    def killed_at(self, number):
        """Write in a process that is killed; give whether it was."""
        child = os.fork()
        if child == 0:
            self._write_and_die(number)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            self.assertEqual(signal.SIGKILL, os.WTERMSIG(status))
            return True
        self.assertEqual(0, os.WEXITSTATUS(status))
        return False

    def _write_and_die(self, number):
        code = 1
        try:
            found = journal.FileJournal(self.path)
            found.open()
            self._arm(number)
            found.write(SYSTEM, {2})
            code = 0
        finally:
            os._exit(code)

    def _arm(self, number):
        steps = iter(range(1000))

        def armed(name):
            function = getattr(os, name)

            def call(*args, **kwargs):
                if next(steps) == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **kwargs)

            return call

        # Only the child's own copy of the module is changed.
        for name in set(STEPS):
            setattr(os, name, armed(name))

    def test_the_file_is_the_old_or_the_new_one(self):
        rename = STEPS.index('rename')
        for number in range(len(STEPS)):
            self.write(1)
            self.assertTrue(self.killed_at(number), STEPS[number])
            self.assertEqual({2} if number > rename else {1}, self.burned())
            # What was left over is no obstacle.
            self.write(3)
            self.assertEqual({3}, self.burned())

    def test_those_are_all_steps(self):
        self.write(1)
        self.assertFalse(self.killed_at(len(STEPS)))
        self.assertEqual({2}, self.burned())


@ddt.ddt
class RefusalTest(JournalTestCase):
    """What can't be trusted is refused, with the cure."""

    def refused(self, action=None):
        with self.assertRaises(exception.JournalUnusable) as caught:
            (action or self.burned)()
        message = str(caught.exception)
        self.assertIn(self.path, message)
        return message

    def put(self, content):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, 'wb') as file:
            file.write(content)

    @ddt.named_data(
        ['empty', b''],
        ['cut off', b'{"version": 1, "systems": {"a": {"2101'],
        ['other bytes', b'\xff\xfe\x00'],
        ['no mapping', b'[]'],
        ['deep', b'[' * 100000],
        ['other version', b'{"version": 2, "systems": {}}'],
        ['no version', b'{"systems": {}}'],
        ['no systems', b'{"version": 1}'],
        ['more', b'{"version": 1, "systems": {}, "more": 1}'],
        ['no index', b'{"version": 1, "systems": {"a": {"x": "now"}}}'],
        ['no time', b'{"version": 1, "systems": {"a": {"21010020": 1}}}'],
    )
    def test_damaged(self, content):
        self.put(content)
        message = self.refused()
        self.assertIn('is damaged', message)
        self.assertIn('Put a copy', message)
        with open(self.path, 'rb') as file:
            self.assertEqual(content, file.read())

    def test_a_link_to_nothing(self):
        os.makedirs(os.path.dirname(self.path))
        os.symlink(self.path + '.gone', self.path)
        self.assertIn('symbolic link', self.refused())

    def test_not_a_file(self):
        os.makedirs(self.path)
        self.assertIn('can not be read', self.refused())

    def test_no_place_for_it(self):
        os.makedirs(os.path.dirname(self.path))
        os.mkdir(self.path + '.lock')
        self.assertIn('can not be opened', self.refused())

    def test_a_file_system_without_locks(self):
        error = OSError(errno.ENOLCK, 'No locks available')
        with unittest.mock.patch('fcntl.flock', side_effect=error):
            self.assertIn('can not be locked', self.refused())

    def test_what_can_not_be_written_is_not_known_either(self):
        found = self.opened()
        found.write(SYSTEM, {1})
        os.mkdir(self.path + '.new')
        message = self.refused(lambda: found.write(SYSTEM, {2}))
        self.assertIn('can not be written', message)
        self.assertEqual({1}, found.read(SYSTEM))

    def test_a_second_process(self):
        self.opened()
        script = (
            'import sys; from nova_powervm import journal\n'
            'journal.FileJournal(sys.argv[1]).open()'
        )
        command = [sys.executable, '-c', script, self.path]
        second = subprocess.run(
            command, check=False, capture_output=True, text=True
        )
        self.assertIn('another nova-compute uses it', second.stderr)

    def test_a_second_one_by_another_name(self):
        self.opened()
        link = self.path + '.link'
        os.symlink(self.path, link)
        self.path = link
        self.assertIn('another nova-compute', self.refused())

    def test_a_second_one_in_the_same_process(self):
        first = self.opened()
        self.assertIn('another nova-compute', self.refused())
        first.close()
        self.assertEqual(frozenset(), self.burned())
