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

#: Provider to the traits of the file that the driver set on it. The key is
#: the provider's uuid, or its name as long as it is only being made.
Kept = Mapping[str, frozenset[str]]

_NONE: frozenset[str] = frozenset()
_DRIVERS_OWN = frozenset((names.OWNER_TRAIT, names.ONE_TIME_USE_TRAIT))


class Entry(Protocol):
    """What a plan says of one provider's traits."""

    @property
    def uuid(self) -> str | None:
        """Its uuid; None if it is yet to be made."""

    @property
    def name(self) -> str:
        """Its name."""

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


def ours(kept: Kept, uuid: str | None, name: str) -> frozenset[str]:
    """Give the traits that the driver set on a provider.

    :param kept: What the journal holds.
    :param uuid: The provider's uuid; None if it is yet to be made.
    :param name: Its name.
    """
    return kept.get(uuid or name, _NONE) | kept.get(name, _NONE)


def advance(
    kept: Kept, entries: Iterable[Entry], others: Collection[str]
) -> dict[str, frozenset[str]]:
    """Give what the journal has to hold before a plan is carried out.

    A trait that is taken away stays in it until a later plan finds it gone:
    whether Placement was told is not known before.

    :param kept: What it holds.
    :param entries: What the plan says of each slot provider.
    :param others: Uuids of further providers that are still there.
    """
    after = {key: kept[key] for key in kept if key in others}
    for entry in entries:
        mine = ours(kept, entry.uuid, entry.name)
        if entry.uuid is not None:
            mine &= entry.had
        mine |= of_file(entry.traits - entry.had)
        if mine:
            after[entry.uuid or entry.name] = mine
    return after
