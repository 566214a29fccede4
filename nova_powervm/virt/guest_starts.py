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

"""Starts and restarts instances with their slots and ports."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import accelerators
from nova_powervm.lpar import operations
from nova_powervm.ops import apply
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import descriptions
from nova_powervm.virt import instance_ports


class GuestStarts:
    """Starts instances as Nova records them.

    :param lpars: Makes LPARs what they should be.
    :param describes: Describes instances.
    :param host: Nova's name of this host.
    """

    def __init__(
        self,
        lpars: apply.LparOps,
        describes: descriptions.Descriptions,
        host: str,
    ) -> None:
        self._lpars = lpars
        self._descriptions = describes
        self._host = host

    def start(
        self,
        operation: operations.Operation,
        instance: Any,
        network_info: Any,
        requests: Sequence[accelerators.Request],
        timeout: int = 0,
    ) -> None:
        """Start or restart an instance with its slots and ports."""
        asked = self._descriptions.askers(instance, network_info)
        self._lpars.run(
            operation,
            self._descriptions.recorded(
                instance,
                requests,
                extra_specs=descriptions.required_specs(instance),
                ports=asked.ports,
                timeout=timeout,
            ),
            asked.askers,
        )

    def start_at_boot(self, context: Any, instance: Any) -> None:
        """Start an instance that Nova expects to be running.

        Nova passes no accelerator requests. Fetch them without waiting for
        unbound ones, because nova-compute is starting. Fetch the ports, too,
        because Nova passes its cache, which may be outdated.
        """
        requests = accelerator_requests.fetch_requests(
            context, instance, self._host, wait=False
        )
        ports = instance_ports.fetch_ports_at_boot(instance, self._host)
        asked = self._descriptions.askers(instance, None)
        self._lpars.run(
            operations.START,
            self._descriptions.recorded(
                instance,
                requests,
                extra_specs=descriptions.required_specs(instance),
                ports=ports,
            ),
            dataclasses.replace(
                asked.askers,
                ports=lambda: ports or (),
            ),
        )
        accelerator_requests.save_slots(instance, requests)
