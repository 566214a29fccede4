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
"""Nova's conductor is asked by commands that must not wait for it."""

import contextlib
import threading
import time
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import conductor
from nova_powervm.virt import burn_records
from tests.unit.tool.inventory import base
from tests.unit.tool.rules import test_releasing

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
