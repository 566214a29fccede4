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

"""Burning: what Placement and the journal say of one-time-use devices."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.domain import burning
from nova_powervm.domain import claims
from nova_powervm.domain import existing
from nova_powervm.domain import planned
from nova_powervm.ops import ports

LOG = logging.getLogger(__name__)

#: Reads providers anew that have changed in Placement since Nova read them;
#: gives all direct children of the compute node's provider.
Freshen = Callable[
    [Collection[existing.Provider]], Iterable[existing.Provider]
]


class BurnOps:
    """Finds out what is burned, writes it down, and checks it before use.

    An update asks Placement nothing here unless a device is for one use.

    :param placement: Says which providers have room.
    :param journal: Keeps burns where a provider goes.
    """

    def __init__(
        self, placement: ports.Placement, journal: ports.Journal
    ) -> None:
        self._placement = placement
        self._journal = journal

    def prepare(self, *, one_time_use: bool) -> None:
        """Open the journal; called at start.

        :param one_time_use: Whether the inventory file has such a paragraph.
        :raises exception.JournalUnusable: It is damaged, in use or can't be
            opened.
        """
        if one_time_use or self._journal.exists():
            self._journal.open()

    def close(self) -> None:
        """Let another process have the journal."""
        self._journal.close()

    def look(self, system: str, pairing: existing.Pairing) -> burning.Burns:
        """Find out what is burned.

        :param system: Uuid of the managed system.
        :param pairing: Devices and providers.
        :raises exception.PlacementUnanswered: Placement did not say.
        :raises exception.JournalUnusable: The journal can't be read.
        """
        needed = any(device.one_time_use for device, _ in pairing.wanted)
        if not (needed or pairing.one_time_use or self._journal.exists()):
            return burning.Burns()
        return burning.Burns(
            full=self._full(pairing.burnable),
            recorded=self._journal.read(system),
        )

    def write_ahead(self, system: str, plan: planned.Plan) -> None:
        """Write down what the plan burns before anybody carries it out.

        :param system: Uuid of the managed system.
        :param plan: The plan.
        :raises exception.JournalUnusable: It can't be written.
        """
        if not (plan.burned or self._journal.exists()):
            return
        before = self._journal.read(system)
        after = burning.advance(before, plan.burned, plan.released)
        if after != before:
            self._journal.write(system, after)

    def confirm(self, instance: str, claimed: Iterable[claims.Claim]) -> None:
        """Make sure that devices are burned, just before they are used.

        One request, and one more for each device. The update of the claim
        has burned them; an operator may have released one since, for example
        long before it is used again by a rebuild. What Nova hands over may
        be older, too, or made up by somebody who went past the scheduler.

        :param instance: The instance's uuid.
        :param claimed: The claims whose devices are for one use.
        :raises exception.ClaimFailed: One is not allocated to the instance,
            or can't be burned.
        """
        wanted = tuple(claimed)
        if not wanted:
            return
        try:
            held = self._placement.allocated_to(instance)
            for claim in wanted:
                self._confirm(instance, claim, held)
        except exception.PlacementUnanswered as error:
            raise exception.ClaimFailed(
                instance=instance,
                reason=f'its devices for one use can not be reserved. {error}',
            ) from error

    def _confirm(
        self, instance: str, claim: claims.Claim, held: Collection[str]
    ) -> None:
        uuid = claim.provider_uuid
        if uuid is None or uuid not in held:
            raise exception.ClaimFailed(
                instance=instance,
                reason=f'slot {claim} is for one use and not allocated to it '
                'in Placement. Build or evacuate it by way of the scheduler',
            )
        if self._placement.burn(uuid):
            LOG.warning(
                'Slot %(slot)s was released while instance %(instance)s has '
                'it. It is burned again.',
                {'slot': claim, 'instance': instance},
            )

    def _full(
        self, providers: Collection[existing.Provider]
    ) -> frozenset[str]:
        """Pick the providers that have no room for one unit of a class."""
        stocked = [provider for provider in providers if provider.inventory]
        if not stocked:
            return frozenset()
        classes = {name for p in stocked for name in p.inventory}
        room: Mapping[str, Collection[str]] = self._placement.with_room(
            stocked[0], classes
        )
        return frozenset(
            provider.uuid
            for provider in stocked
            if any(provider.uuid not in room[rc] for rc in provider.inventory)
        )
