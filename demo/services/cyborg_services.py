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

"""What the services of Cyborg have in common."""

import cyborg.cmd  # noqa: F401 - the first import: it chooses threads
from cyborg.common import service

from demo import config
from demo import sqlite
from demo import stack as stack_lib


def prepare(stack: stack_lib.Stack, project: str) -> None:
    """Read the configuration, set up the log and connect to the broker.

    Cyborg relies on a database that does not delete what is referred to.

    :param project: the name of the process, which is that of its log.
    """
    sqlite.check_references()
    service.prepare_service(
        [
            project,
            *('--config-file', str(stack.etc / config.CYBORG)),
            *('--log-file', str(stack.log / f'{project}.log')),
        ]
    )


def start(manager: str, topic: str) -> service.RPCService:
    """Start a service with remote procedure calls and periodic tasks.

    :param manager: the module and the class, as ``module:class``.
    """
    module, _, name = manager.partition(':')
    started = service.RPCService(module, name, topic)
    started.start()
    return started
