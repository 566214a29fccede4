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

"""Compares the ports of an instance with the adapters of its LPAR."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from nova_powervm.lpar import network


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
    ports: Iterable[network.Port],
    adapters: Sequence[network.Adapter],
    serves: Callable[[network.Adapter, network.Port], bool],
) -> Differences:
    """Compare the ports of an instance with the adapters of its LPAR.

    :param ports: The ports of the instance.
    :param adapters: The adapters of the LPAR, without those that no port can
        have.
    :param serves: Whether an adapter belongs to a port with the same MAC
        address.
    """
    missing = []
    used = set()
    for port in ports:
        fitting = [
            adapter
            for adapter in adapters
            if adapter.mac == port.mac and serves(adapter, port)
        ]
        used.update(fitting)
        if not fitting:
            missing.append(port)
    return Differences(
        tuple(missing),
        tuple(adapter for adapter in adapters if adapter not in used),
    )
