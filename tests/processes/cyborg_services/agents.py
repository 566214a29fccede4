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

"""Cyborg's agents, one for each host, which report when a test says so."""

import threading

from cyborg import context
from cyborg.agent import manager
from cyborg.common import constants
from cyborg.conf import CONF


class Agents:
    """The agents of all hosts of a test.

    They are real agents without the timer and the RPC server that would be
    around them: the timer would report at a moment that no test knows, and
    the server answers only calls for FPGAs and mediated devices.

    Cyborg has one configuration for a process, so it is set to that of a host
    whenever its agent is at work.
    """

    def __init__(self):
        self._options = {}
        self._managers = {}
        # Groups and names of the options of the last host.
        self._set = set()
        self._lock = threading.Lock()

    def clear(self):
        """Forget all hosts."""
        with self._lock:
            self._options.clear()
            self._managers.clear()

    def configure(self, host, options):
        """Set the options of a host; its agent is started anew.

        :param host: Its name in Nova and Placement.
        :param options: Group to options of that group.
        """
        with self._lock:
            self._options[host] = options
            self._managers.pop(host, None)

    def report(self, host):
        """Report the devices of a host, starting its agent before if needed.

        :raises Exception: What the period of the agent would have logged.
        """
        with self._lock:
            self._apply(host)
            if host not in self._managers:
                self._managers[host] = manager.AgentManager(
                    constants.AGENT_TOPIC, host
                )
            # The period of the agent does this.
            self._managers[host]._rt.update_usage(context.get_admin_context())

    def _apply(self, host):
        CONF.set_override('host', host)
        CONF.set_override('resource_provider_name', host, group='agent')
        for group, name in self._set:
            CONF.clear_override(name, group=group)
        self._set.clear()
        for group, options in self._options[host].items():
            for name, value in options.items():
                CONF.set_override(name, value, group=group)
                self._set.add((group, name))
