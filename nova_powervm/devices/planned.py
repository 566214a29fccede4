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

"""A plan of changes to the slot providers of a compute node, as a value.

The service applies it to Nova's provider tree, the log and the operator's
tool print it, the tests compare it.
"""

import dataclasses
import enum

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers


class Action(enum.StrEnum):
    """What is done with one provider."""

    CREATE = 'create'
    PUBLISH = 'publish'
    KEEP_CLASS = 'keep-class'
    WITHDRAW = 'withdraw'
    DELETE = 'delete'


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What happens to one provider, and why.

    :param action: What is done.
    :param drc_index: The slot it stands for.
    :param name: The provider's name.
    :param uuid: Its uuid; None if it is yet to be made.
    :param inventory: The inventory that it has afterwards.
    :param traits: The traits that it has afterwards.
    :param reason: Why, in words; empty where nothing needs to be said.
    :param consumers: Who is known to hold an allocation of it.
    """

    action: Action
    drc_index: int
    name: str
    uuid: str | None
    inventory: slot_providers.Inventory = dataclasses.field(
        default_factory=dict
    )
    traits: frozenset[str] = frozenset()
    reason: str = ''
    consumers: tuple[str, ...] = ()

    @property
    def burned(self) -> bool:
        """Whether its device was used once and waits for its release."""
        return names.ONE_TIME_USE_TRAIT in self.traits and any(
            record['reserved'] for record in self.inventory.values()
        )

    @property
    def resource_classes(self) -> tuple[str, ...]:
        """The classes that the provider has inventory of afterwards."""
        return tuple(sorted(self.inventory))


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """All that is to happen to the slot providers of one compute node.

    :param entries: One for each provider that is, or is to be made.
    :param verdicts: One for each slot of the host, with why it is not
        offered.
    """

    entries: tuple[Entry, ...] = ()
    verdicts: tuple[matching.Verdict, ...] = ()

    def of(self, *actions: Action) -> tuple[Entry, ...]:
        """Pick the entries with one of these actions."""
        return tuple(e for e in self.entries if e.action in actions)

    @property
    def settled(self) -> bool:
        """Whether the same devices and providers give the same plan again.

        What is withdrawn, and what waits for another resource class, depends
        on who holds an allocation, too.
        """
        return not self.one_time_use and all(
            entry.action in (Action.CREATE, Action.PUBLISH)
            for entry in self.entries
        )

    @property
    def one_time_use(self) -> frozenset[int]:
        """DRC indexes of the devices that are, or were, for one use."""
        return frozenset(
            entry.drc_index
            for entry in self.entries
            if names.ONE_TIME_USE_TRAIT in entry.traits
        )
