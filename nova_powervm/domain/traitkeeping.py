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

"""The inventory file's traits: which of them the driver may take away again.

Placement does not say who set a trait. So the driver remembers those that it
set itself, in a journal on the host, and removes only these when they leave
the file. A trait that was there before the file named it is somebody else's.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Protocol

from nova_powervm.domain import names
from nova_powervm.domain import policy

#: Uuid of a provider to the traits of the file that the driver set on it.
Kept = Mapping[str, frozenset[str]]

_NONE: frozenset[str] = frozenset()
_DRIVERS_OWN = frozenset((names.OWNER_TRAIT, names.ONE_TIME_USE_TRAIT))


class Entry(Protocol):
    """What a plan says of one provider's traits."""

    @property
    def drc_index(self) -> int:
        """The slot it stands for."""

    @property
    def uuid(self) -> str | None:
        """Its uuid; None if the plan makes it."""

    @property
    def had(self) -> frozenset[str]:
        """The traits that it had before."""

    @property
    def traits(self) -> frozenset[str]:
        """The traits that it has afterwards."""


def of_file(traits: Iterable[str]) -> frozenset[str]:
    """Leave out the traits that have rules of their own.

    Those that the driver generates, the owner's, and the one of devices for
    one use, which stays until the release.
    """
    return frozenset(
        trait
        for trait in traits
        if trait not in _DRIVERS_OWN
        and not trait.startswith(policy.GENERATED_PREFIX)
    )


def ours(kept: Kept, uuid: str) -> frozenset[str]:
    """Give the traits that the driver set on a provider.

    What the driver never journals is left out, whatever somebody wrote into
    the file.

    :param kept: What the journal holds.
    :param uuid: The provider's uuid.
    """
    return of_file(kept.get(uuid, _NONE))


def advance(
    kept: Kept,
    entries: Iterable[Entry],
    made: Mapping[int, str],
    there: Collection[str],
) -> dict[str, frozenset[str]]:
    """Give what the journal has to hold before a plan is carried out.

    A trait that is taken away stays in it until a later plan finds it gone:
    whether Placement was told is not known before.

    :param kept: What it holds.
    :param entries: What the plan says of each slot's provider.
    :param made: DRC index to the uuid of each provider that the plan makes.
    :param there: Uuids of the providers that were there before. One that the
        plan says nothing about keeps what is known of it; what is gone is
        forgotten.
    """
    after = {uuid: kept[uuid] for uuid in kept if uuid in there}
    for entry in entries:
        uuid = entry.uuid or made.get(entry.drc_index)
        if uuid is None:
            continue
        after[uuid] = (ours(kept, uuid) & entry.had) | of_file(
            entry.traits - entry.had
        )
    return {uuid: traits for uuid, traits in after.items() if traits}
