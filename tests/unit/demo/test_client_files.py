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

import os
import subprocess
import sys
import unittest

import yaml

from demo import client_files
from tests.unit.demo import samples


class ClientFilesTest(unittest.TestCase):
    def test_openrc_sets_credentials_in_shell(self):
        openrc = client_files.openrc(samples.a_stack())

        answer = subprocess.run(
            ['/bin/sh', '-c', openrc + 'echo $OS_USERNAME $OS_PASSWORD'],
            capture_output=True,
            text=True,
            check=True,
        )

        self.assertEqual('admin admin-secret\n', answer.stdout)

    def test_commands_find_the_transport_of_the_demonstration(self):
        plain = client_files.environment(samples.a_stack())
        self.assertNotIn('PYTHONPATH', plain)

        stack = samples.a_stack_with_cyborg()
        environment = client_files.environment(stack)

        answer = subprocess.run(
            [
                sys.executable,
                '-c',
                'import importlib.metadata as m; '
                '(found,) = m.entry_points(group="oslo.messaging.drivers", '
                'name="demo-tcp"); print(found.load().__name__)',
            ],
            env={**os.environ, **environment, 'PYTHONWARNINGS': 'ignore'},
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual('Driver\n', answer.stdout)

    def test_clouds_yaml_names_cloud_with_credentials(self):
        stack = samples.a_stack()

        clouds = yaml.safe_load(client_files.clouds_yaml(stack))['clouds']

        self.assertEqual(['powervm-demo'], list(clouds))
        auth = clouds['powervm-demo']['auth']
        self.assertEqual(stack.auth_url, auth['auth_url'])
        self.assertEqual('admin-secret', auth['password'])
