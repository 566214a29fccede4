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

"""Rules for taking a device out of use, and for giving it back.

The mark is written before the reserve, because the service completes a mark
without a reserve, but takes a reserve without a mark for somebody else's.
"""

from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import names
from nova_powervm.tool.rules import placement_tree


def marked(
    provider: placement_tree.PlacementProvider, code: str
) -> frozenset[str]:
    """Return the traits of a provider in quarantine.

    :param code: A key of :data:`.names.QUARANTINE_REASONS`. It replaces
        another one.
    """
    return provider.traits - names.quarantine_traits(provider.traits) - {
        names.WITHDRAWN_TRAIT
    } | {names.QUARANTINED_TRAIT, names.quarantine_trait(code)}


def restored(
    provider: placement_tree.PlacementProvider,
) -> frozenset[str]:
    """Return the traits of a provider after its quarantine.

    With its own mark, the service lowers the reserve when it offers the
    device. A one-time-use device stays reserved, which is a burn.
    """
    rest = provider.traits - names.quarantine_traits(provider.traits)
    if provider.one_time_use or rest == provider.traits:
        return rest
    return rest | {names.WITHDRAWN_TRAIT}


def reserving_records(
    provider: placement_tree.PlacementProvider,
) -> Sequence[tuple[str, dict[str, Any]]]:
    """Return class and record of each inventory that is to be reserved."""
    return [
        (name, {**record, 'reserved': record['total']})
        for name, record in sorted(provider.inventory.items())
        if record.get('reserved', 0) < record['total']
    ]


def costs_cleaning(provider: placement_tree.PlacementProvider) -> bool:
    """Return whether the reserve will count as the use of the device."""
    return provider.one_time_use and not provider.reserved
