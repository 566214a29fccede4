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
import io
import logging
import unittest

import ddt
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
