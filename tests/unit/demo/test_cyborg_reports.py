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

import contextlib
import dataclasses
import io
import pathlib
import tempfile
import unittest

import oslo_messaging
from oslo_config import cfg

from demo import cyborg_reports
from demo import stack as stack_lib
from tests.unit.demo import samples


class _Agent:
    """What a call reaches of Cyborg's agent."""

    target = oslo_messaging.Target(version='1.0')

    def __init__(self):
        self.reports = 0
        self.error = None

    def update_available_resource(self, context):
        self.reports += 1
        if self.error:
            raise self.error


class CyborgReportsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.stack = dataclasses.replace(
            samples.a_stack_with_cyborg(pathlib.Path(directory.name)),
            transport_url='fake:/',
        )
        self.stack.save()
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, 'fake:/')
        target = oslo_messaging.Target(
            exchange='cyborg', topic='cyborg-agent', server=stack_lib.NODE
        )
        self.agent = _Agent()
        server = oslo_messaging.get_rpc_server(transport, target, [self.agent])
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

    def run_command(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            status = cyborg_reports.main(
                ['--state-dir', str(self.stack.state_dir)]
            )
        return status, err.getvalue()

    def test_command_has_the_agent_report_once(self):
        self.assertEqual((0, ''), self.run_command())

        self.assertEqual(1, self.agent.reports)

    def test_command_says_why_a_report_failed(self):
        self.agent.error = oslo_messaging.RemoteError('X', 'the host is away')

        status, text = self.run_command()

        self.assertEqual(1, status)
        self.assertIn('cyborg-agent has not reported: ', text)
        self.assertIn('the host is away', text)

    def test_directory_without_a_cloud_is_named(self):
        (self.stack.state_dir / 'stack.json').unlink()

        status, text = self.run_command()

        self.assertEqual(1, status)
        self.assertIn(str(self.stack.state_dir), text)
