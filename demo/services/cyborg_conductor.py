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

"""Cyborg's conductor, which writes the database and Placement."""

import cyborg.cmd  # noqa: F401 - the first import: it chooses threads
from cyborg.common import constants

from demo import sqlite
from demo import stack as stack_lib
from demo.services import cyborg_services
from demo.services import http


def serve(stack: stack_lib.Stack) -> None:
    """Start the conductor as soon as its database exists."""
    sqlite.serialize_writers()
    cyborg_services.prepare(stack, 'cyborg_conductor')
    http.wait_until_up(stack.url(stack_lib.CYBORG))
    http.wait_until_up(stack.auth_url)
    cyborg_services.start(
        'cyborg.conductor.manager:ConductorManager', constants.CONDUCTOR_TOPIC
    )
