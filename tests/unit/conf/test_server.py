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

"""Which connection parameters are refused, and in which words."""

import unittest

import ddt

from nova_powervm import exception
from nova_powervm.conf import powervm as options

_CREDENTIALS = {'username': 'admin', 'password': 'secret'}


@ddt.ddt
class ServerCheckTest(unittest.TestCase):
    @ddt.data(
        {},
        {'url': 'http://127.0.0.1:12080'},
        {'url': 'http://127.8.9.10'},
        {'url': 'http://[::1]:12080'},
        {'url': 'http://localhost:12080'},
        {'url': 'http://127.0.0.1:12080', **_CREDENTIALS},
        {'url': 'https://novalink.example.org', **_CREDENTIALS},
    )
    def test_check_accepts(self, values):
        options.check_server(options.Server(**values))

    @ddt.data(
        {'url': 'https://127.0.0.1:12443'},
        {'url': 'http://192.0.2.1:12080'},
        {'url': 'http://0.0.0.0:12080'},
        {'url': 'http://localhost.example.org:12080'},
        {'url': 'http://127.0.0.1.example.org:12080'},
        {'url': 'http://127.0.0.1:12080', 'username': 'admin'},
        {'url': 'http://127.0.0.1:12080', 'password': 'secret'},
    )
    def test_check_refuses_missing_credentials(self, values):
        with self.assertRaises(exception.ConfigurationError) as caught:
            options.check_server(options.Server(**values))
        self.assertIn('loopback address', str(caught.exception))
        self.assertNotIn('secret', str(caught.exception))
