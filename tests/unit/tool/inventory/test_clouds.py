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

"""The clients of Nova and Cyborg."""

import datetime
import types
import unittest
import urllib.parse
from unittest import mock

import fixtures
import keystoneauth1.fixture
import keystoneauth1.session
import requests
from keystoneauth1 import access
from keystoneauth1.identity import base as identity_base

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import unconfirmed_moves

SERVER = 'f0a1c2d3-0000-4000-8000-000000000001'
SERVERS = '/servers?all_tenants=1&host=host1'


def migration(number, **changes):
    """Return a migration as the API shows it."""
    return {
        'uuid': f'migration-{number}',
        'instance_uuid': SERVER,
        'source_compute': 'host1',
        'dest_compute': 'host2',
        'status': 'finished',
        **changes,
    }


class Api:
    """A compute API with pages of one migration each.

    Those of which it does not tell the server are of deleted servers.
    """

    def __init__(self, migrations=(), servers=()):
        self.migrations = list(migrations)
        self.servers = dict(servers)
        #: Uuids of the servers on the host.
        self.here = ()
        self.fails = {}
        self.asked = []

    def get(self, url, microversion=None):
        """Answer like a proxy of the SDK."""
        parts = urllib.parse.urlsplit(url)
        self.asked.append(url)
        status, body = self._answer(parts, microversion)
        answer = requests.Response()
        answer.url = url
        answer.status_code = self.fails.get(parts.path, status)
        answer.json = lambda: body
        return answer

    def _answer(self, parts, microversion):
        if parts.path == '/servers':
            found = self.here if 'host=host1' in parts.query else ()
            return 200, {'servers': [{'id': uuid} for uuid in found]}
        assert microversion == clouds.NOVA_MICROVERSION
        if parts.path == '/os-migrations':
            return self._list(**dict(urllib.parse.parse_qsl(parts.query)))
        uuid = parts.path.removeprefix('/servers/')
        if uuid not in self.servers:
            return 404, None
        return 200, {'server': self.servers[uuid]}

    def _list(
        self,
        marker=None,
        limit=None,
        host=None,
        instance_uuid=None,
        status=None,
    ):
        uuids = [each['uuid'] for each in self.migrations]
        if marker and marker not in uuids:
            return 400, None
        first = uuids.index(marker) + 1 if marker else 0
        found = [
            each
            for each in self.migrations[first:]
            if each['instance_uuid']
            and instance_uuid in (None, each['instance_uuid'])
            and status in (None, each['status'])
            and host in (None, each['source_compute'], each['dest_compute'])
        ]
        return 200, {'migrations': found[:1]}


class NovaClientTest(unittest.TestCase):
    def client(self, api):
        connection = types.SimpleNamespace(compute=api)

        patch = mock.patch.object(clouds, 'connect', lambda *_: connection)
        self.enterContext(patch)
        return clouds.NovaClient()

    def assert_error(self, words, api, method, *arguments):
        with self.assertRaisesRegex(errors.ComputeApiError, words):
            getattr(self.client(api), method)(*arguments)

    def test_migrations_are_found_on_all_pages(self):
        api = Api(
            [
                migration(4, source_compute='host2', dest_compute='host1'),
                migration(3, dest_compute='host1', instance_uuid='other'),
                migration(2),
                migration(1),
                migration(0, instance_uuid=None),
            ]
        )
        consumers = {f'migration-{number}' for number in (0, 1, 3, 4, 5)}
        found = self.client(api).find_migrations('host1', consumers)
        self.assertEqual(
            {
                'migration-3': left_moves.Migration(
                    'migration-3', 'other', 'finished', is_in_place=True
                ),
                'migration-1': left_moves.Migration(
                    'migration-1', SERVER, 'finished'
                ),
                # Of a deleted server
                'migration-0': left_moves.Migration('migration-0'),
            },
            found,
        )

    def test_finished_migrations_to_host_have_their_time(self):
        to_host = {
            'source_compute': 'host2',
            'dest_compute': 'host1',
            'updated_at': '2026-11-24T09:30:00.000000',
        }
        api = Api(
            [
                migration(4, **to_host, status='confirmed'),
                migration(3, **to_host),
                migration(2),
                migration(1, **to_host, instance_uuid='other'),
            ]
        )
        since = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
        self.assertEqual(
            (
                unconfirmed_moves.FinishedMove('migration-3', SERVER, since),
                unconfirmed_moves.FinishedMove('migration-1', 'other', since),
            ),
            self.client(api).find_finished('host1'),
        )
        api.fails['/servers'] = 403
        words = 'servers of all projects'
        self.assert_error(words, api, 'find_finished', 'host1')

    def test_last_migration_is_asked_of_those_in_place(self):
        numbers = (1, 2)
        api = Api([migration(n, dest_compute='host1') for n in (2, 1)])
        consumers = {f'migration-{number}' for number in numbers}
        found = self.client(api).find_migrations('host1', consumers)
        self.assertEqual(
            [False, True], [found[c].is_last for c in sorted(consumers)]
        )

    def test_servers_of_host_are_no_migrations_and_cost_one_request(self):
        api = Api()
        api.here = [f'server-{number}' for number in range(60)]
        self.assertEqual(
            {}, self.client(api).find_migrations('host1', {*api.here})
        )
        self.assertEqual([SERVERS], api.asked)

    def test_search_ends_with_the_last_that_is_found(self):
        begin = '/os-migrations?limit=1&marker='
        for consumer, asked in (
            (
                'migration-2',
                [
                    SERVERS,
                    f'{begin}migration-2',
                    '/os-migrations?host=host1',
                ],
            ),
            # No migration
            (SERVER, [SERVERS, f'{begin}{SERVER}']),
        ):
            api = Api([migration(2), migration(1)])
            found = self.client(api).find_migrations('host1', {consumer})
            self.assertEqual({consumer} - {SERVER}, found.keys())
            self.assertEqual(asked, api.asked)

    def test_migration_of_silent_cell_is_not_that_of_deleted_server(self):
        api = Api([migration(2)])
        listed = api._list

        def go_silent(**query):
            answer = listed(**query)
            if 'marker' in query:
                api.migrations.clear()
            return answer

        api._list = go_silent
        self.assertEqual(
            {}, self.client(api).find_migrations('host1', {'migration-2'})
        )

    def test_unanswered_request_for_migrations_is_an_error(self):
        search = ('reading migrations', 'find_migrations', 'host1')
        words, *method = search
        for status in (403, 404, 500):
            api = Api([migration(2)])
            api.fails['/os-migrations'] = status
            self.assert_error(words, api, *method, {'migration-2'})
        api = Api([migration(2)])
        listed = api._list
        api._list = lambda **query: (
            listed(**query) if 'marker' in query else (500, None)
        )
        self.assert_error(words, api, *method, {'migration-2'})

    def test_server_is_read_with_task_host_and_flavor(self):
        api = Api(
            servers={
                SERVER: {
                    'status': 'RESIZE',
                    'OS-EXT-STS:task_state': 'resize_prep',
                    'OS-EXT-SRV-ATTR:host': 'host1',
                    'flavor': {'vcpus': 2, 'ram': 512, 'extra_specs': {}},
                }
            }
        )
        self.assertEqual(
            {
                SERVER: left_moves.Server(
                    'RESIZE',
                    'resize_prep',
                    'host1',
                    {'VCPU': 2, 'MEMORY_MB': 512},
                ),
                'gone': None,
            },
            self.client(api).read_servers([SERVER, 'gone']),
        )

    def test_missing_servers_are_those_that_are_not_found(self):
        client = self.client(Api(servers={SERVER: {'status': 'UNKNOWN'}}))
        self.assertEqual({'gone'}, client.find_missing([SERVER, 'gone']))

    def test_absence_counts_only_for_who_sees_all_servers(self):
        api = Api()
        api.fails['/servers'] = 403
        for method in ('read_servers', 'find_missing'):
            self.assert_error('servers of all projects', api, method, ['gone'])

    def test_server_whose_state_is_not_told_is_an_error(self):
        known = {
            'status': 'ACTIVE',
            'OS-EXT-STS:task_state': None,
            'OS-EXT-SRV-ATTR:host': 'host1',
            'flavor': {},
        }
        for record, status in (
            (known | {'status': 'UNKNOWN'}, 200),
            ({k: v for k, v in known.items() if 'task' not in k}, 200),
            ({k: v for k, v in known.items() if 'host' not in k}, 200),
            (known, 500),
        ):
            api = Api(servers={SERVER: record})
            if status != 200:
                api.fails[f'/servers/{SERVER}'] = status
            self.assert_error(SERVER, api, 'read_servers', [SERVER])

    def test_answer_of_another_service_is_an_error(self):
        api = Api(servers={SERVER: {}})
        api._answer = lambda *_: (200, {'versions': []})
        self.assert_error('another service', api, 'find_missing', [SERVER])
        # A proxy of the SDK without a version has no such method.
        self.assert_error('another service', api, 'flavors', [])


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


class CyborgClientTest(unittest.TestCase):
    def test_user_without_role_admin_is_refused(self):
        """Cyborg would answer with the requests of one project."""
        refused = '(?s)without the role admin.*this one has '
        for roles, words in (
            (('member', 'manager'), f'{refused}manager, member'),
            ((), f'{refused}no role'),
            # The next step finds no endpoint in the empty catalog.
            (('admin',), 'reading device profiles'),
        ):
            session = keystoneauth1.session.Session(auth=Identity(*roles))
            connection = types.SimpleNamespace(
                session=session, config=Config()
            )
            with (
                mock.patch.object(clouds, 'connect', return_value=connection),
                self.assertRaisesRegex(errors.AcceleratorApiError, words),
            ):
                clouds.CyborgClient().read()


class UnknownCloudTest(unittest.TestCase):
    def test_unknown_cloud_is_reported_once_with_its_cure(self):
        with (
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', '/dev/null'),
            self.assertRaises(errors.ComputeApiError) as caught,
        ):
            clouds.NovaClient('nowhere')
        text = str(caught.exception)
        self.assertEqual(1, text.lower().count('the compute api'), text)
        self.assertIn('Cloud nowhere was not found', text)
        self.assertIn('--os-cloud', text)
