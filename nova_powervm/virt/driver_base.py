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

from typing import Any

from nova.virt import driver

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import descriptions
from nova_powervm.virt import errors
from nova_powervm.virt import interrupted_moves
from nova_powervm.virt import services


class DriverBase(driver.ComputeDriver):
    """The state of the compute driver.

    :param virtapi: Nova's VirtAPI.
    """

    def __init__(self, virtapi: Any) -> None:
        super().__init__(virtapi)
        try:
            self.settings = services.read_settings()
        except exception.PowerVMError as error:
            raise errors.to_nova(error) from error
        self.services: Any = services.NotStarted()
        # Uuids of the instances that a revert is removing from this host.
        self._reverting: set[str] = set()
        self._interrupted_moves: interrupted_moves.InterruptedMoves | None = (
            None
        )
        self._deferred_starts = deferred_starts.DeferredStarts(
            self._start_at_boot
        )

    def _nodename(self) -> str:
        return str(self.services.node.name)

    def _services(self) -> services.Operations:
        found: services.Operations = self.services.operations
        return found

    def _askers(self, *args: Any) -> descriptions.NovaAskers:
        return self._services().descriptions.askers(*args)

    def _start_at_boot(self, context: Any, instance: Any) -> None:
        """Start an instance that Nova expects to be running."""
        raise NotImplementedError


def lpar_of(instance: Any) -> str:
    """Return the upper-case uuid of the LPAR of an instance."""
    return partition.lpar_uuid(instance.uuid)
