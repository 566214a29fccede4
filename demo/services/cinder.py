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

"""Cinder's API, scheduler and volume service, with one array.

They share a process, because messages between them need a broker otherwise.
"""

# ruff: noqa: E402
import os

# This has to precede all imports of Cinder, whose tests decide anew when the
# simulator is imported.
os.environ['OS_CINDER_DISABLE_EVENTLET_PATCHING'] = 'true'

from cinder import monkey_patch

monkey_patch.patch()

import os_brick
from cinder import context
from cinder import coordination
from cinder import objects
from cinder import rpc
from cinder import service
from cinder import version
from cinder.common import config as cinder_config
from cinder.db import migration
from cinder.volume import volume_types
from oslo_config import cfg
from oslo_log import log
from oslo_service import wsgi

from demo import config
from demo import sqlite
from demo import stack as stack_lib
from demo.services import http

_PROJECT = 'cinder'


def serve(stack: stack_lib.Stack) -> None:
    """Create the database of Cinder and serve its API."""
    sqlite.serialize_writers()
    options = cfg.CONF
    objects.register_all()
    options(
        [],
        project=_PROJECT,
        version=version.version_string(),
        default_config_files=[str(stack.etc / config.CINDER)],
    )
    cinder_config.set_middleware_defaults()
    log.setup(options, _PROJECT)
    os_brick.setup(options)
    migration.db_sync()
    coordination.COORDINATOR.start()
    rpc.init(options)
    volume_types.create(
        context.get_admin_context(),
        config.VOLUME_TYPE,
        {'volume_backend_name': config.BACKEND},
    )
    # The scheduler asks the volume service what it has.
    service.Service.create(
        host=f'{stack_lib.NODE}@{config.BACKEND}',
        service_name=config.BACKEND,
        binary='cinder-volume',
        coordination=True,
    ).start()
    service.Service.create(binary='cinder-scheduler').start()
    http.serve(
        wsgi.Loader(options).load_app('osapi_volume'), stack.ports[_PROJECT]
    )
