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
from nova_powervm.virt import descriptions
from nova_powervm.virt import errors
from nova_powervm.virt import host_operations
from nova_powervm.virt import services
from nova_powervm.virt import translation


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
        self.services = services.not_started()

    def _nodename(self) -> str:
        return self.services.node.name

    def _services(self) -> host_operations.HostOperations:
        return self.services.operations

    def _askers(self, *args: Any) -> descriptions.NovaAskers:
        return self._services().descriptions.askers(*args)


lpar_of = translation.lpar_of
