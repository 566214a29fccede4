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

"""The program that cleans a device, and deletions that ask for it."""

import os
import tempfile
import threading
import unittest

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

from nova_powervm.tool.clean import deletions
from nova_powervm.tool.clean import program as programs
from tests import proofs


class ProgramTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.lines = []
        self.told = threading.Event()

    def tell(self, line):
        self.lines.append(line)
        self.told.set()

    def program(self, script, time_limit=60.0, grace=30.0, inherited=()):
        return programs.Program(
            ['/bin/sh', '-c', script], time_limit, inherited, grace
        )

    def run_script(self, script, **options):
        return self.program(script, **options).run({'GIVEN': '1'}, self.tell)

    def test_output_of_both_streams_is_told_line_by_line(self):
        outcome = self.run_script(
            r'echo "$GIVEN $HOME"; echo two >&2; printf "\n \377\33last"'
        )
        self.assertEqual(programs.Outcome(), outcome)
        self.assertEqual(
            [f'1 {os.environ.get("HOME", "")}', 'two', r'\xff?last'],
            self.lines,
        )

    def test_long_line_is_divided(self):
        self.run_script('printf %06000d 1')
        self.assertEqual(2, len(self.lines))

    def test_standard_input_is_empty(self):
        self.assertEqual('', self.run_script('! read line').failure)

    def test_exit_code_is_named(self):
        outcome = self.run_script('exit 7')
        self.assertEqual('the program ended with exit code 7', outcome.failure)
        self.assertFalse(outcome.interrupted)

    def test_signal_is_named(self):
        outcome = self.run_script('kill -SEGV $$')
        self.assertEqual('the program was ended by SIGSEGV', outcome.failure)

    def test_program_that_cannot_be_run_is_named(self):
        for path, reason in (
            ('/nowhere', 'No such file or directory'),
            (tempfile.gettempdir(), 'Permission denied'),
        ):
            outcome = programs.Program([path], 60).run({}, self.tell)
            self.assertEqual(
                f'{path} cannot be run: {reason}', outcome.failure
            )

    def test_time_limit_lets_program_tidy_up_but_not_succeed(self):
        outcome = self.run_script(
            'trap "echo tidy; exit 0" TERM; echo go; sleep 600 & wait',
            time_limit=2,
        )
        self.assertEqual(
            'the program did not end within 2 seconds', outcome.failure
        )
        self.assertIn('tidy', self.lines)

    def test_program_that_ignores_the_request_is_killed(self):
        outcome = self.run_script(
            'trap "" TERM; sleep 600', time_limit=0.5, grace=0.2
        )
        self.assertIn('did not end', outcome.failure)

    def test_process_that_program_leaves_is_killed(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        outcome = self.run_script('sleep 600 & exit 0', inherited=[writer])
        os.close(writer)
        self.assertEqual('', outcome.failure)
        # Nobody has the other end any more.
        self.assertEqual(b'', os.read(reader, 1))

    def test_stop_ends_the_program_and_starts_no_more(self):
        program = self.program('echo go; sleep 600')
        stopper = threading.Thread(
            target=lambda: (self.told.wait(30), program.stop())
        )
        stopper.start()
        outcome = program.run({}, self.tell)
        stopper.join()
        self.assertEqual(
            programs.Outcome('the program was stopped', interrupted=True),
            outcome,
        )
        self.assertTrue(program.run({}, self.tell).interrupted)
        self.assertEqual(['go'], self.lines)


class DeletionsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf([], project='nova')
        self.topic = uuidutils.generate_uuid()
        self.transport = oslo_messaging.get_notification_transport(
            self.conf, url='fake://'
        )
        self.told = []
        self.asked = threading.Event()

    def tell(self):
        self.told.append(True)
        self.asked.set()

    def notify(self, event=deletions.EVENT, host='host1'):
        oslo_messaging.Notifier(
            self.transport,
            publisher_id=f'nova-compute:{host}',
            driver='messagingv2',
            topics=[self.topic],
        ).info({}, event, {'nova_object.data': {'uuid': 'instance-1'}})

    @proofs.proves('O13', 'O40')
    def test_deletion_on_this_node_is_told(self):
        server = deletions.listen(
            self.transport, self.topic, 'host1', self.tell
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)
        self.notify(host='host10')
        self.notify(event='instance.delete.start')
        self.notify(event='instance.create.end')
        self.notify()
        self.assertTrue(self.asked.wait(30))
        self.assertEqual([True], self.told)
