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

"""Cyborg's agent, with this project's driver."""

import cyborg.cmd  # noqa: F401 - the first import: it chooses threads
from cyborg import context
from cyborg.common import constants

from demo import stack as stack_lib
from demo.services import cyborg_services
from demo.services import http


def serve(stack: stack_lib.Stack) -> None:
    """Start the agent, and return when it has reported its devices.

    The agent gives up after a few seconds without the compute node's
    provider, which exists when Nova's API answers.
    """
    cyborg_services.prepare(stack, 'cyborg_agent')
    http.wait_until_up(stack.url('nova'))
    agent = cyborg_services.start(
        'cyborg.agent.manager:AgentManager', constants.AGENT_TOPIC
    )
    # The agent's own first report is made by another thread. This one waits
    # for it, and finds nothing new.
    agent.manager.update_available_resource(context.get_admin_context())
