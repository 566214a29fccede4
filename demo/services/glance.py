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

"""Glance, with a file store."""

import contextlib
import os
import sys

import glance.common.config
from glance.cmd import manage
from glance.common import wsgi_app
from oslo_config import cfg

from demo import sqlite
from demo import stack as stack_lib
from demo.services import http


def serve(stack: stack_lib.Stack) -> None:
    """Create the database of Glance and serve its API."""
    sqlite.serialize_writers()
    os.environ['OS_GLANCE_CONFIG_DIR'] = str(stack.etc)
    glance.common.config.set_config_defaults()
    cfg.CONF(
        [],
        project='glance',
        default_config_files=[str(stack.etc / 'glance-api.conf')],
    )
    with contextlib.redirect_stdout(sys.stderr):
        manage.DbCommands().sync()
    http.serve(wsgi_app.init_app(), stack.ports['glance'])
