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

"""What commands read: hosts, the conductor, names of devices."""

import contextlib
import io
import pathlib
import threading
import time
import unittest
import unittest.mock
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import conductor
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.virt import burn_records
from tests.unit.devices import values
from tests.unit.tool.inventory import base
from tests.unit.tool.rules import test_releasing


class WaitNoticeTest(base.HostTestCase):
    def moment(self, seconds):
        """Set when a person begins to wonder."""
        self.enterContext(
            unittest.mock.patch.object(host_reader, 'NOTICE_DELAY', seconds)
        )

    def hang(self, match):
        """Let the host not answer before it stops."""
        self.emulator.control.add_fault(match=match, every=True, delay=600)

    def test_hanging_host_is_announced_and_given_up(self):
        self.moment(0.1)
        self.hang('ManagedSystem')
        started = time.monotonic()

        result = self.run_tool('show', '--no-placement', '--timeout', '1')

        self.assertLess(time.monotonic() - started, 15)
        self.assertEqual(1, result.status)
        waited, failed = result.err.splitlines()
        self.assertIn('waiting for the PowerVM REST server at http', waited)
        self.assertIn('for 1 seconds (--timeout, or', waited)
        self.assertIn('cannot be read', failed)

    def test_answering_host_is_not_announced(self):
        self.moment(60)
        result = self.run_tool('show', '--no-placement')

        self.assertEqual('', result.err)

    def test_invalid_timeout_is_refused(self):
        for limit in ('0', '-1', 'soon', '1.5', ''):
            with self.subTest(limit):
                with contextlib.redirect_stderr(io.StringIO()):
                    result = self.run_tool('show', f'--timeout={limit}')
                self.assertEqual(2, result.status)


class ConnectorTest(base.HostTestCase):
    """tests.functional.test_cinder_volumes uses what it prints."""

    def test_host_without_ports_has_no_connector(self):
        error = self.error_of('connector')

        self.assert_one_line(error, 'no Virtual I/O Server has a Fibre')

    def test_hanging_host_is_given_up(self):
        self.emulator.control.add_fault(
            match='VirtualIOServer', every=True, delay=600
        )
        error = self.error_of('connector', '--timeout', '1')

        self.assert_one_line(error, 'cannot be read', 'rest_url')


DEVICE = test_releasing.burned()


class ConductorTest(base.ToolTestCase):
    """Each question has an answer, or an error, soon."""

    def setUp(self):
        super().setUp()
        self.conductor = conductor.Conductor(cfg.ConfigOpts())
        self.conductor._conf([])
        self.conductor.timeout = 0.1

    def name(self, *devices):
        """Ask for the projects that burned some devices."""
        return self.conductor.name_projects('host1', devices)

    def test_conductor_is_not_asked_about_no_device(self):
        self.conductor.timeout = 0
        self.assertEqual({}, self.name())

    def test_error_names_the_option_that_is_missing(self):
        self.conductor.timeout = 60
        with self.assertRaisesRegex(
            errors.ConductorUnanswered, 'transport_url is not set'
        ):
            self.name(DEVICE)

    def test_connection_ends_with_its_question(self):
        """A daemon had one more connection and thread with each pass."""
        transports = []
        connect = oslo_messaging.get_rpc_transport

        def note(conf):
            transports.append(connect(conf, url='fake:/'))
            conf.set_override('transport_url', 'fake:/')
            transports[-1].cleanup = mock.Mock()
            return transports[-1]

        for reads in (lambda *_: {}, mock.Mock(side_effect=OSError('broken'))):
            with (
                mock.patch.object(oslo_messaging, 'get_rpc_transport', note),
                mock.patch.multiple(burn_records, read_holders=reads),
            ):
                self.conductor.timeout = 60
                with contextlib.suppress(errors.ConductorUnanswered):
                    self.name(DEVICE)

        self.assertEqual(2, len(transports))
        for transport in transports:
            transport.cleanup.assert_called_once_with()

    def test_blocked_question_is_not_asked_again(self):
        asked, release = [], threading.Event()

        def block(*_):
            asked.append(True)
            release.wait(60)
            return {}

        with (
            mock.patch.multiple(burn_records, read_holders=block),
            mock.patch.object(conductor, '_connect'),
        ):
            began = time.monotonic()
            for words in ('no answer', 'was asked before'):
                with self.assertRaisesRegex(errors.ConductorUnanswered, words):
                    self.name(DEVICE)
            self.assertLess(time.monotonic() - began, 30)
            self.assertEqual([True], asked)
            release.set()
            self.conductor._asking.join(60)
            self.conductor.timeout = 60
            self.assertEqual({DEVICE.uuid: 'unknown'}, self.name(DEVICE))


LIST = str(pathlib.Path(__file__).with_name('pci.ids'))


class DeviceNamesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.names = pci_ids.read_names([LIST])

    def test_device_has_names_of_list_or_description_of_host(self):
        nothing = dict.fromkeys(('vendor_id', 'device_id', 'description'))
        for changes, expected in (
            ({}, 'Example Graphics EX100 [Model 9 16GB] (10DE:1EB8)'),
            ({'device_id': 0x1EB9}, 'GPU (10DE:1EB9)'),
            ({'vendor_id': 0xFACE}, 'GPU (FACE:1EB8)'),
            # Values that are not reported are left out.
            ({'vendor_id': None}, 'GPU (1EB8)'),
            ({'device_id': None}, 'GPU (10DE)'),
            (nothing, 'adapter'),
            ({'vendor_id': 0xFFFF}, 'empty slot'),
            # The file has a subsystem 10de:0001 and a class 03 with 00 below.
            ({'device_id': 1}, 'GPU (10DE:0001)'),
            ({'vendor_id': 3, 'device_id': 0}, 'GPU (0003:0000)'),
            # Unprintable text is removed.
            (
                {'device_id': 2, 'description': 'a\x1b[31m\nb'},
                'a [31m b (10DE:0002)',
            ),
        ):
            with self.subTest(**changes):
                found = self.names.describe(values.slot(**changes))
                self.assertEqual(expected, found)

    def test_first_existing_list_is_read(self):
        missing = '/nonexistent/pci.ids'
        for paths, word in (([missing], 'GPU'), ([missing, LIST], 'Example')):
            names = pci_ids.read_names(paths)
            self.assertIn(word, names.describe(values.slot()))

    def test_arbitrary_file_is_read_without_error(self):
        for lines in (
            ['\tdead  no vendor'],
            ['\x00', '\t', '\n', '10de', '10de  ', '10de  V\n'],
            ['zzzz  Not hex'],
        ):
            names = pci_ids.parse_names(lines)
            self.assertEqual('GPU (10DE:1EB8)', names.describe(values.slot()))


class NamedSlotTest(base.HostTestCase):
    def test_unknown_or_ambiguous_slot_is_refused(self):
        for name, words in (('C99', 'no slot C99'), ('C*', 'several slots C')):
            with self.subTest(name):
                result = self.run_tool('handover', name, '--to', 'nova')
                self.assertEqual((4, ''), (result.status, result.out))
                self.assertIn(words, result.err)
