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

"""Starts the API of a real Cyborg in a process of its own."""

import json
import subprocess
import sys
import urllib.request

import fixtures
import keystoneauth1.session
import openstack
from keystoneauth1 import token_endpoint

from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool.inventory import cloud_connection

_NOBODY = 'http://127.0.0.1:9'


class CyborgProcess(fixtures.Fixture):
    """A Cyborg without an agent; see :mod:`tests.cyborg_api`."""

    def _setUp(self):
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'tests.cyborg_api'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(self.stop)
        port = self._process.stdout.readline().strip()
        self._root = f'http://127.0.0.1:{port}'
        self.url = f'{self._root}/v2'

    def stop(self):
        """Stop the process; it can be stopped twice."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def replace(self, **records):
        """Replace all records.

        :param records: Lists of devices, profiles and requests.
        """
        urllib.request.urlopen(
            urllib.request.Request(
                f'{self._root}/records',
                json.dumps(records).encode(),
                method='PUT',
            )
        ).close()

    def connect(self, nova_url, project_id, roles='admin,member,reader'):
        """Return a connection to this Cyborg and to a Nova's API."""
        session = keystoneauth1.session.Session(
            auth=token_endpoint.Token(nova_url, 'token'),
            additional_headers={
                # Nova's fixture takes this user for an administrator.
                'X-Auth-User': 'admin' if 'admin' in roles else 'user',
                'X-Auth-Project-Id': project_id,
                'X-Roles': roles,
            },
        )
        return openstack.connection.Connection(
            session=session,
            compute_endpoint_override=nova_url,
            accelerator_endpoint_override=self.url,
            # There are no such services.
            image_endpoint_override=_NOBODY,
            network_endpoint_override=_NOBODY,
        )


def device(index, provider_uuid, traits=(), **changes):
    """Return the record of a slot as the agent of host1 reports it."""
    return {
        'hostname': 'host1',
        'drc_index': slots.format_drc_index(index),
        'provider_name': names.cyborg_provider_name('host1', index),
        'provider_uuid': provider_uuid,
        'resource_class': 'CUSTOM_CRYPTO',
        'traits': sorted(traits),
    } | changes


def use_connection(test, connection):
    """Let the commands use a connection."""
    test.useFixture(
        fixtures.MockPatchObject(
            cloud_connection, 'connect', lambda *_: connection
        )
    )
