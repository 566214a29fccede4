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

"""The API of a real Cyborg, as a program, with records that a test defines.

No process can load both Nova and Cyborg, so tests start this one. Cyborg's own
application answers from Cyborg's own tables. There is no Keystone: the roles
are those that the client's headers name. Neither is there a conductor or an
agent: PUT /records replaces all records instead.
"""

import json
import os
import sys
import tempfile
import threading
import wsgiref.simple_server

from cyborg import context
from cyborg import objects
from cyborg.api import app
from cyborg.common import rpc
from cyborg.conf import CONF
from cyborg.db import api as db_api
from cyborg.db.sqlalchemy import models
from oslo_db.sqlalchemy import enginefacade
from oslo_messaging import conffixture
from oslo_utils import uuidutils
from pecan import hooks


class Conductor:
    """What the API asks a conductor to do, without RPC and Placement."""

    def device_profile_create(self, request_context, profile):
        profile.create(request_context)
        return profile


class ConductorHook(hooks.PecanHook):
    """Lets the API call a conductor in this process."""

    # After Cyborg's hook, which lets it call one through RPC.
    priority = 101

    def before(self, state):
        state.request.conductor_api = Conductor()


class Records:
    """The rows of Cyborg's tables."""

    def __init__(self):
        self._engine = enginefacade.writer.get_engine()
        self._context = context.RequestContext(is_admin=True)
        self._api = db_api.get_instance()
        self._handles = {}

    def replace(self, wanted):
        """Remove all rows and create those of the wanted records."""
        models.Base.metadata.drop_all(self._engine)
        models.Base.metadata.create_all(self._engine)
        for profile in wanted.get('profiles', ()):
            self._create(
                'device_profile',
                name=profile['name'],
                profile_json=json.dumps({'groups': profile['groups']}),
            )
        for device in wanted.get('devices', ()):
            self._create_device(device)
        for request in wanted.get('requests', ()):
            self._create_request(request)

    def _create_device(self, device):
        row = self._create(
            'device',
            type='PCI',
            vendor='1014',
            model='0634',
            hostname=device['hostname'],
            status=device.get('status', 'enabled'),
            vendor_board_info=json.dumps({'drc_index': device['drc_index']}),
        )
        deployable = self._create(
            'deployable',
            device_id=row.id,
            name=device['provider_name'],
            num_accelerators=1,
            rp_uuid=device['provider_uuid'],
            driver_name='powervm',
        )
        attributes = {'rc': device['resource_class']} | {
            f'trait_{trait}': trait for trait in device['traits']
        }
        for key, value in attributes.items():
            self._create(
                'attribute', deployable_id=deployable.id, key=key, value=value
            )
        path = self._create(
            'control_path', device_id=row.id, cpid_type='PCI', cpid_info='{}'
        )
        handle = self._create(
            'attach_handle',
            deployable_id=deployable.id,
            cpid_id=path.id,
            in_use=False,
            attach_type='PCI',
            attach_info=json.dumps({'drc_index': device['drc_index']}),
        )
        self._handles[device['provider_uuid']] = (deployable.id, handle.id)

    def _create_request(self, request):
        deployable, handle = self._handles.get(
            request.get('provider_uuid'), (None, None)
        )
        self._create(
            'extarq',
            uuid=request.get('uuid'),
            device_profile_name=request['profile'],
            device_profile_group_id=0,
            state=request['state'],
            substate='Initial',
            deployable_id=deployable,
            attach_handle_id=handle,
            hostname=request.get('hostname'),
            device_rp_uuid=request.get('provider_uuid'),
            instance_uuid=request.get('instance'),
            project_id=request.get('project_id'),
        )

    def _create(self, noun, uuid=None, **values):
        create = getattr(self._api, f'{noun}_create')
        return create(
            self._context,
            {'uuid': uuid or uuidutils.generate_uuid(), **values},
        )


def serve(directory):
    """Serve until standard input ends; print the port first.

    :param directory: Directory for the database.
    """
    CONF([], project='cyborg')
    # Each thread would have a database of its own in memory.
    path = os.path.join(directory, 'cyborg.sqlite')
    CONF.set_override('connection', f'sqlite:///{path}', group='database')
    messaging = conffixture.ConfFixture(CONF, transport_url='fake:/')
    messaging.setUp()
    rpc.init(CONF)
    objects.register_all()
    records = Records()
    records.replace({})
    cyborg_app = app.setup_app(extra_hooks=[ConductorHook()])

    def application(environ, start_response):
        if environ['PATH_INFO'] != '/records':
            return cyborg_app(environ, start_response)
        length = int(environ['CONTENT_LENGTH'])
        records.replace(json.loads(environ['wsgi.input'].read(length)))
        start_response('204 No Content', [])
        return [b'']

    class Handler(wsgiref.simple_server.WSGIRequestHandler):
        def log_message(self, *_):
            pass

        def get_environ(self):
            environ = super().get_environ()
            # As auth_token of keystonemiddleware
            environ['HTTP_X_IDENTITY_STATUS'] = 'Confirmed'
            return environ

    server = wsgiref.simple_server.make_server(
        '127.0.0.1', 0, application, handler_class=Handler
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as directory:
        serve(directory)
