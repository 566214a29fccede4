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

import http.server
import os
import subprocess
import tempfile
import threading
import unittest

from nova_powervm.tool.rules import cyborg_slots

_OPENSTACK = """\
#!/bin/sh
echo "$@" >> "$0.arguments"
echo secret
"""
_CURL = """\
#!/bin/sh
echo "$@" >> "$0.arguments"
PATH=${PATH#*:} exec curl "$@"
"""


class RemovalTest(unittest.TestCase):
    """The command that removes a request, run by bash with a real curl."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.bin = directory.name
        for name, text in (('openstack', _OPENSTACK), ('curl', _CURL)):
            path = os.path.join(self.bin, name)
            with open(path, 'w') as file:
                file.write(text)
            os.chmod(path, 0o700)

    def serve(self):
        """Start a server; return its URL and the requests that it gets."""
        received = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_DELETE(self):
                received.append((self.path, self.headers))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return f'http://127.0.0.1:{server.server_port}/v2', received

    def test_token_reaches_cyborg_but_no_argument(self):
        url, received = self.serve()
        command = cyborg_slots.removal_command(
            cyborg_slots.Request('r', 'Bound', instance_uuid='gone'),
            cyborg_slots.CyborgFacts(
                cyborg_slots.Records(endpoint=url), cloud='my cloud'
            ),
        )
        path = f'{self.bin}:{os.environ["PATH"]}'
        subprocess.run(
            ['/bin/bash', '-c', command],
            env={**os.environ, 'PATH': path, 'no_proxy': '*'},
            check=True,
        )
        ((path, headers),) = received
        self.assertEqual('/v2/accelerator_requests?arqs=r', path)
        self.assertEqual('secret', headers['X-Auth-Token'])
        self.assertEqual('secret', headers['X-Service-Token'])
        for name in ('openstack', 'curl'):
            with open(os.path.join(self.bin, f'{name}.arguments')) as file:
                arguments = file.read()
            self.assertTrue(arguments)
            self.assertNotIn('secret', arguments)
