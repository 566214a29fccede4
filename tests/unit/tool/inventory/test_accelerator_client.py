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

import types
import unittest

import fixtures
import keystoneauth1.fixture
import keystoneauth1.session
from keystoneauth1 import access
from keystoneauth1.identity import base as identity_base

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import accelerator_client
from nova_powervm.tool.inventory import cloud_connection


class Identity(identity_base.BaseIdentityPlugin):
    """Has a token of Keystone's form with some roles."""

    def __init__(self, *roles):
        super().__init__()
        token = keystoneauth1.fixture.V3Token()
        token.set_project_scope()
        for role in roles:
            token.add_role(role)
        self._token = token

    def get_auth_ref(self, session, **_):
        return access.create(body=self._token, auth_token='token')

    def get_cache_id_elements(self):
        return {}


class Config:
    """Where the SDK's connection would look for the endpoint."""

    def __getattr__(self, _):
        return lambda *_: None


class AcceleratorClientTest(unittest.TestCase):
    def read(self, *roles):
        session = keystoneauth1.session.Session(auth=Identity(*roles))
        connection = types.SimpleNamespace(session=session, config=Config())
        with fixtures.MockPatchObject(
            cloud_connection, 'connect', lambda *_: connection
        ):
            accelerator_client.AcceleratorClient().read()

    def test_user_without_role_admin_is_refused(self):
        # Cyborg would answer with the requests of one project.
        for roles, words in (
            (('member', 'manager'), 'this one has manager, member'),
            ((), 'this one has no role'),
        ):
            with self.assertRaises(errors.AcceleratorApiError) as caught:
                self.read(*roles)
            self.assertIn('without the role admin', str(caught.exception))
            self.assertIn(words, str(caught.exception))

    def test_administrator_passes(self):
        # The next step finds no endpoint in the empty catalog.
        with self.assertRaises(errors.AcceleratorApiError) as caught:
            self.read('admin')
        self.assertIn('reading device profiles', str(caught.exception))
