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

"""An ML2 mechanism driver for a cloud whose hosts have no network agent."""

import typing

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api

#: What PowerVM calls a port on a shared Ethernet adapter.
VIF_TYPE = 'pvm_sea'


# neutron-lib has no types, so its class is Any to the checker.
class BindEverything(api.MechanismDriver):  # type: ignore[misc]
    """Binds any port to any host and reports it active at once."""

    def initialize(self) -> None:
        """Do nothing: there is no agent or switch to prepare."""

    @property
    def connectivity(self) -> str:
        """What ML2 tells about ports of this driver."""
        return str(portbindings.CONNECTIVITY_L2)

    def bind_port(self, context: typing.Any) -> None:
        """Bind the port of ``context`` to the first segment offered."""
        for segment in context.segments_to_bind[:1]:
            context.set_binding(
                segment[api.ID],
                VIF_TYPE,
                {portbindings.CAP_PORT_FILTER: False},
                status=constants.PORT_STATUS_ACTIVE,
            )
