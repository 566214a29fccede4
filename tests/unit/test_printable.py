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

"""Text of others in log lines and errors."""

import contextlib
import importlib
import io
import logging
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

import ddt
import fixtures
from oslo_config import cfg
from oslo_log import formatters
from oslo_log import log as oslo_log
from pypowervm import exceptions as pvm

from nova_powervm import exception
from nova_powervm import printable
from nova_powervm.powervm import rest_errors

FORGED = '2026-11-27 10:00:00 1 CRITICAL nova_powervm it burns'
#: A line of its own, a red terminal, a return to its left, and U+2028.
HOSTILE = f'BA21\n{FORGED}\x1b[31m\r\x9b1m\u2028\u202e'
SHOWN = rf'BA21\n{FORGED}\x1b[31m\r\x9b1m\u2028\u202e'

LOGGING_FILE = """
[loggers]
keys = root, nova_powervm
[handlers]
keys = err
[formatters]
keys = plain
[logger_root]
handlers = err
[logger_nova_powervm]
qualname = nova_powervm
level = DEBUG
handlers =
[handler_err]
class = StreamHandler
args = (sys.stderr,)
formatter = plain
[formatter_plain]
format = %(levelname)s %(message)s
"""
WITH_FILE = """
from oslo_config import cfg
from oslo_log import log
conf = cfg.ConfigOpts()
log.register_options(conf)
conf(sys.argv[1:])
log.setup(conf, 'nova-powervm-clean')
"""


@contextlib.contextmanager
def written():
    """Let oslo.log write all records as in nova-compute; yield the stream."""
    conf = cfg.ConfigOpts()
    oslo_log.register_options(conf)
    conf([])
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatters.ContextFormatter(config=conf))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield stream
    finally:
        root.removeHandler(handler)


@ddt.ddt
class LogTest(unittest.TestCase):
    """Before, a reference code with a line break wrote a record of its own."""

    @ddt.data('nova_powervm', 'nova_powervm.ops.apply', 'pypowervm.adapter')
    def test_hostile_text_stays_in_its_line(self, name):
        log = oslo_log.getLogger(name)
        with written() as stream:
            log.warning(
                'LPAR %(lpar)s: %(code)s', {'lpar': 1, 'code': HOSTILE}
            )
            log.warning('LPAR %s: %s', 1, ValueError(HOSTILE))
            log.warning(HOSTILE)
        lines = stream.getvalue().splitlines()
        self.assertEqual(3, len(lines))
        for line in lines:
            self.assertTrue(line.endswith(SHOWN), line)

    def test_clean_record_keeps_its_arguments(self):
        with self.assertLogs() as log:
            oslo_log.getLogger('nova_powervm.it').warning('%d of %s', 1, 'two')
        (record,) = log.records
        self.assertEqual(('%d of %s', (1, 'two')), (record.msg, record.args))

    def test_traceback_of_answer_is_printable(self):
        answer = pvm.Error(HOSTILE)
        with written() as stream:
            try:
                with rest_errors.translated('asking'):
                    raise answer
            except exception.RestError:
                logging.getLogger('nova.compute.manager').exception(
                    'It failed'
                )
        for line in stream.getvalue().split('\n'):
            self.assertTrue(line.isprintable(), line)
            self.assertFalse(line.startswith(FORGED))

    def test_records_of_others_are_not_touched(self):
        for name in (
            'nova.virt.powervm',
            'nova_powervm2',
            'pypowervm_proxy.x',
            'root',
        ):
            with self.subTest(name), self.assertLogs() as log:
                logging.getLogger(name).warning('%s', HOSTILE)
                (record,) = log.records
                self.assertEqual(('%s', (HOSTILE,)), (record.msg, record.args))
        # It has no name before its attributes are set.
        sent = logging.makeLogRecord({'name': 'nova_powervm', 'msg': HOSTILE})
        self.assertEqual(HOSTILE, sent.getMessage())

    def test_guard_is_installed_once(self):
        before = logging.getLogRecordFactory()
        importlib.reload(importlib.import_module('nova_powervm.printable'))
        importlib.reload(importlib.import_module('nova_powervm'))
        self.assertIs(before, logging.getLogRecordFactory())

    def test_factory_of_others_is_wrapped(self):
        def make(*args, **kwargs):
            record = logging.LogRecord(*args, **kwargs)
            record.site = 'here'
            return record

        before = logging.getLogRecordFactory()
        self.addCleanup(logging.setLogRecordFactory, before)
        logging.setLogRecordFactory(make)
        printable.guard_records(['nova_powervm'])
        with self.assertLogs() as log:
            logging.getLogger('nova_powervm').warning('%s', HOSTILE)
        (record,) = log.records
        self.assertEqual((SHOWN, 'here'), (record.getMessage(), record.site))

    def test_wrong_arguments_are_reported_by_the_handler(self):
        with written(), contextlib.redirect_stderr(io.StringIO()) as errors:
            oslo_log.getLogger('nova_powervm.it').warning('%d', 'two')
        self.assertIn('--- Logging error ---', errors.getvalue())

    def test_message_of_hostile_length_is_cut_before_it_is_escaped(self):
        self.enterContext(unittest.mock.patch.object(printable, '_LONGEST', 2))
        with self.assertLogs(level='DEBUG') as log:
            logging.getLogger('nova_powervm').info('%s', '\n' * 4)
            logging.getLogger('nova_powervm').debug('%s', '\n' * 4)
        cut, whole = (record.getMessage() for record in log.records)
        self.assertEqual(r'\n\n ... (2 more characters)', cut)
        self.assertEqual(r'\n\n\n\n', whole)


class ConfiguredLogTest(unittest.TestCase):
    """How a program has set up its logs; each is a process of its own."""

    def run_program(self, lines, *arguments):
        """Run a program that logs a hostile text; return its stderr."""
        program = f"""
import logging, sys
import nova_powervm
{lines}
logging.getLogger('nova_powervm.tool').warning('Code %s', {HOSTILE!r})
"""
        done = subprocess.run(
            [sys.executable, '-c', program, *arguments],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stderr

    def test_logging_file_takes_nothing_away(self):
        """It empties the handlers of all loggers that exist."""
        directory = self.enterContext(fixtures.TempDir()).path
        file = pathlib.Path(directory, 'logging.conf')
        file.write_text(LOGGING_FILE)

        shown = self.run_program(WITH_FILE, '--log-config-append', str(file))

        self.assertEqual(f'WARNING Code {SHOWN}\n', shown)

    def test_warning_is_printed_where_logging_is_not_configured(self):
        """A handler of our own would keep Python from doing it."""
        self.assertEqual(f'Code {SHOWN}\n', self.run_program(''))


class ErrorTest(unittest.TestCase):
    def test_values_of_message_are_printable(self):
        for value in (HOSTILE, ValueError(HOSTILE)):
            error = exception.RestError(action='it', reason=value)
            self.assertEqual(f'PowerVM REST it failed: {SHOWN}', str(error))


@ddt.ddt
class PrintableTest(unittest.TestCase):
    @ddt.named_data(
        ['letters', 'LPAR ü 1', 'LPAR ü 1'],
        ['hostile', HOSTILE, SHOWN],
        ['spaces', '\x85\xa0', r'\x85\xa0'],
    )
    def test_only_what_is_not_printable_is_escaped(self, text, expected):
        self.assertEqual(expected, printable.printable(text))
