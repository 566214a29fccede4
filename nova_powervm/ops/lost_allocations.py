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

"""Whether what instances hold on the host is still allocated to them.

Nova stores with an instance what it was allocated, and that tells which slots
its LPAR may have. The allocation itself can go while the LPAR stays: Nova
deletes it when a rebuild with another image fails, and so can an operator.
Then the scheduler would give a slot away that somebody has.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import ownership
from nova_powervm.devices import slot_providers
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

Holdings = Mapping[str, frozenset[str]]


class HoldingOps:
    """Asks Placement about the slots that instances hold.

    One request for each resource class of theirs, in each plan.

    :param placement: Says which providers have room.
    """

    def __init__(self, placement: interfaces.Placement) -> None:
        self._placement = placement
        # Provider to the LPAR that has its slot, and to the last reading of
        # the host that had begun when Placement had room in it for the first
        # time.
        self._suspects: dict[str, tuple[str, int]] = {}
        #: Another object whenever the next plan has to ask again.
        self.version = object()

    def doubt(self) -> None:
        """Have the next plan ask, whether or not the host has changed."""
        self.version = object()

    def verified(
        self,
        snapshot: host_ops.Snapshot,
        providers: Sequence[slot_providers.Provider],
        reading: int,
        begun: Callable[[], int] | None = None,
    ) -> Holdings:
        """Take out of Nova's records what is no longer allocated.

        Nova removes an LPAR before its allocations. So one that is in a
        reading that began after Placement was seen to have room stays; one
        of an earlier reading may just have been deleted, and is looked at
        again.

        :param snapshot: The last reading of the host.
        :param providers: Direct children of the compute node's provider.
        :param reading: Its number; they grow.
        :param begun: Gives the number of the last that has begun; None if
            there is none under way.
        :returns: Upper-case uuid of each LPAR of an instance to the uuids of
            the providers that it may hold slots of.
        """
        held = ownership.allocated(
            snapshot.view.io_slots, providers, snapshot.holdings
        )
        asked = [
            provider
            for provider in providers
            if provider.uuid in held and provider.has_room
        ]
        try:
            room = self._with_room(asked)
        except exception.PlacementUnanswered as error:
            LOG.warning(
                'Whether instances still have an allocation of their devices '
                'is not known: %(error)s',
                {'error': error},
            )
            self.doubt()
            room = set(self._suspects)
        # Not before Placement was asked.
        seen = begun() if begun else reading
        self._suspects = {
            uuid: self._suspects.get(uuid, (held[uuid], seen))
            for uuid in sorted(room)
            if uuid in held
            and self._suspects.get(uuid, (held[uuid],))[0] == held[uuid]
        }
        lost = {
            u for u, (_, first) in self._suspects.items() if first < reading
        }
        if len(lost) < len(self._suspects):
            self.doubt()
        return {
            lpar: uuids - lost for lpar, uuids in snapshot.holdings.items()
        }

    def _with_room(self, asked: Sequence[slot_providers.Provider]) -> set[str]:
        if not asked:
            return set()
        room = self._placement.with_room(
            asked[0], {name for p in asked for name in p.inventory}
        )
        return {
            p.uuid
            for p in asked
            if any(p.uuid in room[rc] for rc in p.inventory)
        }
