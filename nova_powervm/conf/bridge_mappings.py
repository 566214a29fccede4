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

"""The value of the option ``[powervm]bridge_mappings``."""

import re
from collections.abc import Iterable

from nova_powervm import exception
from nova_powervm.lpar import shared_ethernet

_MAPPING = re.compile(
    r'(?P<network>[^:]+):(?P<switch>[^/]+?)(/(?P<pvid>\d{1,4}))?$'
)
#: VLAN ids that a PVID can have.
_VLANS = range(1, 4095)


def parse_mappings(
    items: Iterable[str],
) -> dict[str, shared_ethernet.BridgeName]:
    """Parse the items of the option.

    :param items: Each in the form ``PHYSICAL_NETWORK:SWITCH`` or
        ``PHYSICAL_NETWORK:SWITCH/PVID``.
    :returns: Physical network to the name of its bridge.
    :raises exception.ConfigurationError: An item is malformed, or a physical
        network is mapped twice.
    """
    mappings: dict[str, shared_ethernet.BridgeName] = {}
    for item in items:
        found = _MAPPING.match(item)
        pvid = int(found['pvid']) if found and found['pvid'] else None
        if found is None or (pvid is not None and pvid not in _VLANS):
            raise _make_error(item, 'is malformed')
        if found['network'] in mappings:
            raise _make_error(item, 'maps a physical network twice')
        mappings[found['network']] = shared_ethernet.BridgeName(
            found['switch'], pvid
        )
    return mappings


def _make_error(item: str, problem: str) -> exception.ConfigurationError:
    return exception.ConfigurationError(
        reason=f"[powervm]bridge_mappings: '{item}' {problem}. Write "
        'default:ETHERNET0 or default:ETHERNET0/4093, and give each physical '
        'network once.'
    )
