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

"""Nova's API, conductor, scheduler and compute, and Placement.

The services and the driver are the installed ones. They start here, in one
process, because their own commands start one process each, which takes longer
and needs a message broker. In a cloud with several compute hosts, each
nova-compute has its process nevertheless, which is not started here.
"""

# ruff: noqa: E402
from nova import monkey_patch

# This has to precede all other imports of Nova.
monkey_patch.patch(backend='threading')

import os
import uuid

import os_vif
import placement.wsgi
from nova import context
from nova import objects
from nova import service
from nova.api.openstack import wsgi_app
from nova.compute import rpcapi as compute_rpcapi
from nova.conductor import rpcapi as conductor_rpcapi
from nova.db import migration
from nova.objects import host_mapping
from nova.scheduler import rpcapi as scheduler_rpcapi
from os_brick.initiator import utils as initiator_utils

from demo import config
from demo import sqlite
from demo import stack as stack_lib
from demo.services import http

_API = 'osapi_compute'

_SERVICES = (
    ('nova-conductor', {'topic': conductor_rpcapi.RPC_TOPIC}),
    ('nova-scheduler', {'topic': scheduler_rpcapi.RPC_TOPIC}),
)
_COMPUTE = (
    'nova-compute',
    {
        'topic': compute_rpcapi.RPC_TOPIC,
        'topic_alt': compute_rpcapi.RPC_TOPIC_ALT,
    },
)


def serve(stack: stack_lib.Stack) -> None:
    """Create the databases of Nova and Placement and serve both APIs."""
    sqlite.serialize_writers()
    os.environ['OS_PLACEMENT_CONFIG_DIR'] = str(stack.etc)
    http.serve(placement.wsgi.init_application(), stack.ports['placement'])
    os.environ['OS_NOVA_CONFIG_DIR'] = str(stack.etc)
    files = [str(stack.etc / name) for name in ('api-paste.ini', config.NOVA)]
    wsgi_app.init_global_data(files, _API, 'nova')
    admin = context.get_admin_context()
    _create_databases(stack, admin)
    os_vif.initialize()
    # A compute node has open-iscsi, this machine need not. Without it os-brick
    # takes a lock with the name of Cinder's service, which Cinder does not
    # record for a volume that it has been told to manage.
    initiator_utils.ISCSI_SUPPORTS_MANUAL_SCAN = True
    # The conductor exits if it can't get a token.
    http.wait_until_up(stack.auth_url)
    # nova-compute needs a conductor.
    services = (
        _SERVICES if stack.has_compute_processes else (*_SERVICES, _COMPUTE)
    )
    for binary, topics in services:
        service.Service.create(binary=binary, **topics).start()
    host_mapping.discover_hosts(admin)
    http.serve(
        wsgi_app.init_application(_API, 'nova-api'), stack.ports['nova']
    )


def _create_databases(
    stack: stack_lib.Stack, admin: context.RequestContext
) -> None:
    """Create the API database, cell 0 and the cell of all compute hosts."""
    migration.db_sync(database='api')
    cells = (
        ('cell0', objects.CellMapping.CELL0_UUID, 'none:///'),
        ('cell1', str(uuid.uuid4()), stack.transport_url),
    )
    for name, identifier, transport_url in cells:
        cell = objects.CellMapping(
            admin,
            name=name,
            uuid=identifier,
            transport_url=transport_url,
            database_connection=config.database_url(stack, f'nova_{name}'),
        )
        cell.create()
        with context.target_cell(admin, cell) as in_cell:
            migration.db_sync(context=in_cell)
