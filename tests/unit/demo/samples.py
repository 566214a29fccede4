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

"""Clouds for the tests."""

import pathlib
import tempfile
import unittest
from unittest import mock

from demo import launcher
from demo import stack


class DirectoryTestCase(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )

    def make_stack(self, **choices):
        """Describe the cloud of a run that starts with these choices."""
        chosen = launcher.Choices(**choices)
        hosts = [
            stack.HostRest(f'http://h{n}', 'user', 'secret', f'/root-{n}')
            for n in range(chosen.hosts)
        ]
        for name in ('etc', 'log'):
            (self.directory / name).mkdir(exist_ok=True)
        with mock.patch.object(
            launcher.emulated_hosts, 'own_disks', return_value={}
        ):
            return launcher._make_stack(self.directory, chosen, hosts)
