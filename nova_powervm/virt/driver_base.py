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

"""What the parts of the compute driver share."""

import contextlib
import dataclasses
from typing import Any

import nova.conf
from nova import exception as nova_exception
from nova.virt import driver
from nova.virt import node as virt_node

from nova_powervm import conf
from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import descriptions
from nova_powervm.virt import errors
from nova_powervm.virt import services
from nova_powervm.virt import silent_host

CONF = nova.conf.CONF

conf.register_opts(CONF)


class DriverBase(driver.ComputeDriver):
    """The state of the compute driver.

    :param virtapi: Nova's VirtAPI.
    """

    def __init__(self, virtapi: Any) -> None:
        super().__init__(virtapi)
        try:
            self._settings = dataclasses.replace(
                conf.powervm.read_settings(CONF.powervm),
                disk_overcommitment=CONF.disk_allocation_ratio
                or CONF.initial_disk_allocation_ratio,
            )
        except exception.PowerVMError as error:
            raise errors.to_nova(error) from error
        self._node: str | None = None
        self._node_uuid: str | None = None
        self._running: services.Services | None = None
        self._is_first_cycle = True
        self._silent_host = silent_host.SilentHostLimiter()
        self._deferred_starts = deferred_starts.DeferredStarts(
            self._start_at_boot
        )

    def _nodename(self) -> str:
        return self._node or ''

    def _services(self) -> services.Services:
        if self._running is None:
            raise nova_exception.VirtDriverNotReady()
        return self._running

    def _askers(
        self,
        instance: Any,
        network_info: Any,
        files: Any = (),
        password: str | None = None,
    ) -> descriptions.NovaAskers:
        """Return what an operation on an instance asks Nova and Neutron."""
        return descriptions.NovaAskers(
            self.virtapi,
            instance,
            self._nodename(),
            network_info,
            files=files,
            password=password,
        )

    def _local_uuid(self) -> str:
        """Return Nova's uuid of this node, reading it once.

        Do not call this in init_host: reading may write a new uuid, and Nova
        checks afterwards that an existing service has not lost its uuid.
        """
        if self._node_uuid is None:
            self._node_uuid = str(virt_node.get_local_node_uuid())
        return self._node_uuid

    def _limit_waits_at_start(self) -> contextlib.AbstractContextManager[None]:
        """Avoid waiting for a silent host once per instance at start."""
        if self._is_first_cycle:
            return self._silent_host.limit_waits()
        return contextlib.nullcontext()

    def _start_at_boot(self, context: Any, instance: Any) -> None:
        """Start an instance that Nova expects to be running."""
        raise NotImplementedError


def lpar_of(instance: Any) -> str:
    """Return the upper-case uuid of the LPAR of an instance."""
    return partition.lpar_uuid(instance.uuid)
