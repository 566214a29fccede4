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

"""One-time use: a device that was allocated once stays reserved.

A provider is *burned* when all of it is reserved (specification "One-time-use
devices", "Implementation"). Only an operator lowers that again, when the
device has been cleaned. Placement keeps the burn with the provider; a journal
on the host keeps it where the provider itself goes.
"""

import dataclasses
from collections.abc import Collection


@dataclasses.dataclass(frozen=True, slots=True)
class Burns:
    """What is known of burned devices at the beginning of an update.

    :param full: Uuids of the one-time-use providers in which Placement has
        no room for one unit now: each is allocated or reserved.
    :param recorded: DRC indexes in the journal.
    """

    full: frozenset[str] = frozenset()
    recorded: frozenset[int] = frozenset()

    def apply_to_new(self, drc_index: int) -> bool:
        """Whether a provider that is made now is burned at once.

        Only here does the journal decide: what an existing provider says is
        newer. Whoever released the device changed that.
        """
        return drc_index in self.recorded

    def apply_to(self, uuid: str) -> bool:
        """Whether an existing provider, with inventory, is burned now."""
        return uuid in self.full


def advance(
    recorded: Collection[int], burned: Collection[int], free: Collection[int]
) -> frozenset[int]:
    """Give what the journal holds once a plan is carried out.

    A slot that the plan says nothing about stays: its provider may be gone
    with the slot, and the slot may come back.

    :param recorded: DRC indexes that it holds.
    :param burned: Those of the providers that the plan leaves burned.
    :param free: Those of existing providers that nobody has reserved or
        burned: an operator released them.
    """
    return (frozenset(recorded) - frozenset(free)) | frozenset(burned)
