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

"""Keystone, with users and catalog before it answers the first request.

The module performs ``db_sync``, ``fernet_setup``, ``credential_setup`` and
``bootstrap`` of keystone-manage in one process, because each command would
spend seconds on its imports.
"""

import pathlib
import uuid

import keystone.server
from keystone.cmd import bootstrap
from keystone.common import fernet_utils
from keystone.common import provider_api
from keystone.common.sql import upgrades
from keystone.server.flask import application
from keystone.server.flask import core

from demo import sqlite
from demo import stack as stack_lib
from demo.services import http

_PROVIDERS = provider_api.ProviderAPIs

_DOMAIN = 'default'

#: Service type -> name of the API, and path of its endpoint.
_CATALOG = {
    'accelerator': (stack_lib.CYBORG, '/v2'),
    'block-storage': (stack_lib.CINDER, '/v3'),
    'compute': ('nova', '/v2.1'),
    'image': ('glance', ''),
    'network': ('neutron', ''),
    'placement': ('placement', ''),
}


def serve(stack: stack_lib.Stack) -> None:
    """Create and populate the database of Keystone and serve its API."""
    sqlite.serialize_writers()
    keystone.server.configure(config_files=[str(stack.etc / 'keystone.conf')])
    upgrades.offline_sync_database_to_version()
    for directory, group in (
        ('fernet', 'fernet_tokens'),
        ('credential', 'credential'),
    ):
        _make_keys(stack.etc / directory, group)
    admin = _bootstrap(stack)
    _seed(stack, admin)
    app = application.application_factory('public')
    http.serve(core.setup_app_middleware(app), stack.ports['keystone'])


def _make_keys(directory: pathlib.Path, group: str) -> None:
    directory.mkdir(mode=0o700)
    keys = fernet_utils.FernetUtils(
        str(directory), max_active_keys=3, config_group=group
    )
    keys.initialize_key_repository()


def _bootstrap(stack: stack_lib.Stack) -> bootstrap.Bootstrapper:
    """Create the admin, the roles, the region and Keystone's endpoints."""
    admin = bootstrap.Bootstrapper()
    admin.admin_username = admin.project_name = 'admin'
    admin.admin_password = stack.passwords['admin']
    admin.admin_role_name = 'admin'
    admin.immutable_roles = True
    admin.region_id = stack_lib.REGION
    admin.service_name = 'keystone'
    admin.public_url = admin.internal_url = admin.admin_url = stack.auth_url
    admin.bootstrap()
    return admin


def _seed(stack: stack_lib.Stack, admin: bootstrap.Bootstrapper) -> None:
    """Create the service users and the endpoints of other projects."""
    project = _new(name='service', domain_id=_DOMAIN, enabled=True)
    _PROVIDERS.resource_api.create_project(project['id'], project)
    for user, password in stack.passwords.items():
        if user == admin.admin_username:
            continue
        created = _PROVIDERS.identity_api.create_user(
            {
                'name': user,
                'password': password,
                'domain_id': _DOMAIN,
                'enabled': True,
            }
        )
        for role in (admin.admin_role_id, admin.service_role_id):
            _PROVIDERS.assignment_api.add_role_to_user_and_project(
                created['id'], project['id'], role
            )
    for kind, (api, path) in _CATALOG.items():
        if api not in stack.ports:
            continue
        service = _new(name=api, type=kind, enabled=True)
        _PROVIDERS.catalog_api.create_service(service['id'], service)
        for interface in ('public', 'internal', 'admin'):
            endpoint = _new(
                service_id=service['id'],
                interface=interface,
                url=stack.url(api) + path,
                region_id=stack_lib.REGION,
                enabled=True,
            )
            _PROVIDERS.catalog_api.create_endpoint(endpoint['id'], endpoint)


def _new(**fields: object) -> dict[str, object]:
    return {'id': uuid.uuid4().hex, **fields}
