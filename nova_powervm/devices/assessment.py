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

"""The assessment of the facts: what is offered, and what is left to ask.

nova-compute and ``nova-powervm-inventory`` collect the same facts in different
ways and use the same two functions to decide: :func:`assess`, and with the
answers to its questions :func:`nova_powervm.devices.plan.make_plan`.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping

from nova_powervm.devices import card_ids
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import ownership
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots

#: Code of the reason for withholding a slot whose card is in doubt.
UNREPORTED = 'unreported'


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the plan for one compute node depends on.

    :param policy: What the inventory file allows.
    :param io_slots: All I/O slots of the host, with their owners.
    :param holdings: Upper-case uuid of each LPAR that belongs to an instance
        to the uuids of the providers that the instance was allocated. None if
        it is unknown which LPARs belong to instances.
    :param descendants: All providers below the compute node's provider,
        without what Nova's provider.yaml adds to them.
    :param lost: Uuids of providers without an allocation whose slots are owned
        by LPARs of instances.
    :param stale: Upper-case uuid of each LPAR on the wrong side, among
        those in ``holdings``, to where its instance is.
    :param publishes_locations: Whether providers have traits for the location
        codes of their slots.
    """

    policy: policies.Policy
    io_slots: tuple[slots.Slot, ...] = ()
    holdings: Mapping[str, Collection[str]] | None = None
    descendants: tuple[slot_providers.Provider, ...] = ()
    lost: frozenset[str] = frozenset()
    stale_lpars: Mapping[str, ownership.StaleLpar] = dataclasses.field(
        default_factory=dict
    )
    publishes_locations: bool = True

    @property
    def candidates(self) -> tuple[slot_providers.Provider, ...]:
        """The direct children, except those that Cyborg owns."""
        return tuple(
            provider
            for provider in self.descendants
            if provider.is_direct and not provider.is_owned_by_cyborg
        )

    @property
    def allocated(self) -> Mapping[str, frozenset[str]]:
        """``holdings`` without lost allocations."""
        return {
            lpar_uuid: frozenset(uuids) - self.lost
            for lpar_uuid, uuids in (self.holdings or {}).items()
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Assessment:
    """What the facts mean for each slot and provider.

    :param facts: The facts that were assessed.
    :param verdicts: One for each slot, with the reason if it is not offered.
    :param pairing: The offered devices with their providers, and orphans.
    :param held: DRC indexes of the slots that are owned by LPARs of instances.
    """

    facts: Facts
    verdicts: tuple[matching.Verdict, ...]
    pairing: slot_providers.Pairing
    held: frozenset[int]

    @property
    def questions(self) -> tuple[slot_providers.Provider, ...]:
        """The providers for which the plan depends on their allocations."""
        return self.pairing.undecided

    @property
    def to_refresh(self) -> tuple[slot_providers.Provider, ...]:
        """The providers that must be current before a plan is made.

        Nova deletes a provider without checking whether it has changed, and an
        update must not overwrite a burn or a release.
        """
        return self.pairing.one_time_use + self.questions


def assess(facts: Facts) -> Assessment:
    """Decide which slots are offered, and find the provider of each.

    :param facts: The facts about the file, the host, Placement and Nova.
    """
    candidates = slot_providers.mark_replaced(facts.candidates, facts.io_slots)
    verdicts = ownership.withhold(
        matching.judge(facts.policy, facts.io_slots, facts.holdings),
        ownership.cyborg_slots(
            provider
            for provider in facts.descendants
            if provider.is_owned_by_cyborg
        ),
        ownership.find_unallocated(
            facts.io_slots, candidates, facts.allocated, facts.stale_lpars
        ),
        str(facts.policy.source),
    )
    verdicts = _withhold_unreported(verdicts, candidates)
    return Assessment(
        facts=facts,
        verdicts=verdicts,
        pairing=slot_providers.pair(matching.devices(verdicts), candidates),
        held=ownership.find_owned_slots(facts.io_slots, facts.holdings or ()),
    )


def believe_placement(
    found: Assessment,
    allocations: slot_providers.Allocations,
    lpar_of: Callable[[str], str],
) -> Assessment:
    """Assess anew if Placement has allocated to LPARs what Nova lacks.

    Nova's record of the devices of an instance is out of date if nova-compute
    was killed in an unshelve. The instance has what Placement says, but an
    LPAR on the wrong side does not have it for its instance.

    :param found: The assessment by Nova's record.
    :param allocations: Placement's answers to ``found.questions``.
    :param lpar_of: Returns the LPAR of an instance; both by uuid.
    """
    recorded = {
        lpar_uuid: frozenset(uuids)
        for lpar_uuid, uuids in (found.facts.holdings or {}).items()
    }
    holdings = dict(recorded)
    for provider in found.questions:
        for lpar_uuid in map(lpar_of, allocations.consumers_of(provider)):
            if lpar_uuid in holdings.keys() - found.facts.stale_lpars:
                holdings[lpar_uuid] |= {provider.uuid}
    if holdings == recorded:
        return found
    return assess(dataclasses.replace(found.facts, holdings=holdings))


def _withhold_unreported(
    verdicts: Iterable[matching.Verdict],
    providers: Iterable[slot_providers.Provider],
) -> tuple[matching.Verdict, ...]:
    """Withhold the slots of which the host no longer reports known ids.

    Whether the card was replaced cannot be told. The slot is offered again
    when the host reports the same ids, at the same place.
    """
    known: dict[int | None, list[frozenset[str]]] = {}
    for provider in providers:
        index = names.slot_of_provider(provider.name)
        known.setdefault(index, []).append(provider.traits)
    return tuple(
        dataclasses.replace(
            verdict,
            reason=slots.Reason(
                UNREPORTED,
                f'the host no longer reports {missing} of its card',
            ),
        )
        if (
            missing := _find_unreported(
                verdict, known.get(verdict.slot.drc_index, ())
            )
        )
        else verdict
        for verdict in verdicts
    )


def _find_unreported(
    verdict: matching.Verdict, known: Iterable[frozenset[str]]
) -> str:
    """Find the ids that leave open whether a slot may be offered.

    :param known: The traits of each of its providers.
    """
    code = verdict.reason.code if verdict.reason else matching.UNMATCHED
    if code != matching.UNMATCHED:
        return ''
    found = (
        card_ids.find_unreported(traits, verdict.slot)
        for traits in known
        if not card_ids.find_changes(traits, verdict.slot)
    )
    return next(filter(None, found), '')
