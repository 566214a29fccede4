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
"""Which network adapters of an LPAR have to come and which have to go."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence

from nova_powervm.instance import network

#: The virtual switch over which NovaLink talks to RMC in its guests. No port
#: of Neutron is ever on it.
MANAGEMENT_SWITCH = 'MGMTSWITCH'


@dataclasses.dataclass(frozen=True, slots=True)
class Differences:
    """How the adapters of an LPAR differ from the ports of its instance.

    :param missing: Ports without an adapter.
    :param surplus: Adapters without a port.
    """

    missing: tuple[network.Port, ...] = ()
    surplus: tuple[network.Adapter, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)


def differences(
    ports: Iterable[network.Port], adapters: Sequence[network.Adapter]
) -> Differences:
    """Compare the ports of an instance with the adapters of its LPAR.

    An adapter is that of a port if it has its MAC address and its VLAN. A
    port that names no VLAN is told by its address alone: it is on a flat
    network, or its binding was lost. Adapters on the management switch are
    the host's own affair, and never a port's.
    """
    adapters = [each for each in adapters if each.switch != MANAGEMENT_SWITCH]
    missing = []
    used = set()
    for port in ports:
        fitting = [adapter for adapter in adapters if _is_of(adapter, port)]
        used.update(fitting)
        if not fitting:
            missing.append(port)
    return Differences(
        tuple(missing),
        tuple(adapter for adapter in adapters if adapter not in used),
    )


def _is_of(adapter: network.Adapter, port: network.Port) -> bool:
    return adapter.mac == port.mac and port.vlan in (None, adapter.vlan)
