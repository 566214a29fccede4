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

"""Decides which slots the agent reports to Cyborg, and how.

Cyborg deletes each device that a report lacks; if one of them is in use, it
gives up and handles nothing else of the host. It also writes to Placement only
what differs from its own tables, and does not restore what Placement has lost.
The rules here follow from this.
"""

import dataclasses
import enum
from collections.abc import Collection
from collections.abc import Mapping

import os_traits

from nova_powervm.cyborg import facts as facts_lib
from nova_powervm.devices import accelerators
from nova_powervm.devices import card_ids
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots

#: Number of reports in a row after which a free slot that could be left out
#: is left out.
LOOKS = 3

_SHARED = 'shared'
_NOVAS = 'novas'
_ONE_TIME_USE = 'one-time-use'
_DOUBT = 'doubt'
_GONE = slots.Reason('gone', 'the host no longer reports the slot')

# A slot with one of these reasons stays reported, although it is unused.
_LASTING = frozenset(
    {_SHARED, _NOVAS, _ONE_TIME_USE, _DOUBT, 'conflict', 'owned'}
)
#: Codes of the reasons that a file has to be corrected for.
MISTAKES = frozenset({_SHARED, _ONE_TIME_USE, 'conflict'})


class State(enum.StrEnum):
    """What happens to a slot in a report."""

    OFFERED = 'offered'
    WITHHELD = 'withheld'
    LEFT_OUT = 'left out'
    REPAIRED = 'repaired'


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A slot of Cyborg's, and the content of its provider.

    :param drc_index: Its DRC index.
    :param state: What the report does with it. Slots that are left out, for
        good or for one report, are not in the report.
    :param resource_class: The class of its inventory.
    :param traits: The traits that the report states.
    :param slot: The slot, if the host reports it.
    :param reason: Why it is not offered; None if it may be.
    """

    drc_index: int
    state: State
    resource_class: str
    traits: frozenset[str]
    slot: slots.Slot | None = None
    reason: slots.Reason | None = None

    @property
    def is_reported(self) -> bool:
        """Whether it is in the report."""
        return self.state in (State.OFFERED, State.WITHHELD)


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """What a report takes from earlier reports; empty in a restarted agent.

    :param missing: DRC index to the number of reports in a row in which the
        slot could be left out.
    :param reported: The reported entries of the last report.
    """

    missing: Mapping[int, int] = dataclasses.field(default_factory=dict)
    reported: Mapping[int, Entry] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What the agent tells Cyborg in one period.

    :param entries: The slots of Cyborg's, by DRC index.
    :param skipped: The slots that the file identifies and Cyborg does not
        get, with the reasons.
    :param missing: See :class:`Memory`.
    """

    entries: Mapping[int, Entry]
    skipped: Mapping[int, tuple[slots.Slot, slots.Reason]]
    missing: Mapping[int, int]

    @property
    def reported(self) -> tuple[Entry, ...]:
        """The entries that Cyborg gets."""
        return tuple(e for e in self.entries.values() if e.is_reported)

    @property
    def leaving(self) -> tuple[Entry, ...]:
        """The entries that are left out, and that Cyborg may still have."""
        return tuple(e for e in self.entries.values() if not e.is_reported)

    @property
    def memory(self) -> Memory:
        """What the next report has to know."""
        return Memory(self.missing, {e.drc_index: e for e in self.reported})

    def keep(self, indexes: Collection[int]) -> 'Report':
        """Return the report with slots that it would leave out.

        :param indexes: DRC indexes of slots that requests may be bound to.
        """
        entries = {
            index: dataclasses.replace(entry, state=_state(entry.reason))
            if not entry.is_reported and index in indexes
            else entry
            for index, entry in self.entries.items()
        }
        return dataclasses.replace(self, entries=entries)


def make_report(facts: facts_lib.Facts, memory: Memory) -> Report:
    """Decide what the agent reports of each slot.

    :param facts: The facts about the files, the host and Placement.
    :param memory: What earlier reports had.
    """
    judged = _judge(facts)
    entries: dict[int, Entry] = {}
    missing: dict[int, int] = {}
    for index, entry in judged.entries.items():
        provider = facts.providers.get(index)
        if _is_leaving(entry, provider, facts.nova_providers.get(index)):
            missing[index] = memory.missing.get(index, 0) + 1
        if missing.get(index, 0) >= LOOKS:
            entries[index] = dataclasses.replace(entry, state=State.LEFT_OUT)
        elif index in facts.unbindable:
            entries[index] = _report_anew(entry, provider)
        else:
            entries[index] = _repair(
                entry, provider, memory.reported.get(index)
            )
    return dataclasses.replace(judged, entries=entries, missing=missing)


def _judge(facts: facts_lib.Facts) -> Report:
    """Decide which slots are offered or withheld, from these facts alone."""
    lpars = _lpar_uuids(facts.providers) | _lpar_uuids(facts.nova_providers)
    verdicts = {
        verdict.slot.drc_index: verdict
        for verdict in matching.judge(facts.policy, facts.io_slots, lpars)
    }
    shared = _shared_slots(facts)
    entries: dict[int, Entry] = {}
    skipped: dict[int, tuple[slots.Slot, slots.Reason]] = {}
    for index in sorted(verdicts.keys() | facts.providers.keys()):
        verdict = verdicts.get(index)
        provider = facts.providers.get(index)
        novas = facts.nova_providers.get(index)
        reason = (
            shared.get(index)
            or _reason(verdict, provider)
            or _reason_of_nova(novas)
            or _reason_of_doubt(facts, provider)
        )
        entry = _entry(facts, index, verdict, provider, reason)
        if entry and (provider or _is_worth_a_provider(reason, novas)):
            entries[index] = entry
        elif verdict and verdict.paragraphs and reason:
            skipped[index] = verdict.slot, reason
    return Report(entries, skipped, {})


def _lpar_uuids(providers: Mapping[int, facts_lib.Provider]) -> frozenset[str]:
    return frozenset().union(*(p.lpar_uuids for p in providers.values()))


def _shared_slots(facts: facts_lib.Facts) -> dict[int, slots.Reason]:
    if facts.nova_policy is None:
        return {}
    return {
        shared.slot.drc_index: slots.Reason(
            _SHARED,
            f'{shared.paragraph} of {facts.policy.source} gives it to Cyborg, '
            f'but {shared.nova_paragraph} of {facts.nova_policy.source} gives '
            'it to Nova, too. Remove it from one of the files',
        )
        for shared in accelerators.find_shared_slots(
            facts.policy, facts.nova_policy, facts.io_slots
        )
    }


def _reason(
    verdict: matching.Verdict | None, provider: facts_lib.Provider | None
) -> slots.Reason | None:
    """Return why the file or the host does not allow to offer a slot."""
    if verdict is None:
        return _GONE
    if verdict.reason is not None:
        return verdict.reason
    if verdict.one_time_use:
        return slots.Reason(
            _ONE_TIME_USE,
            f'{verdict.paragraphs[0]} says one_time_use, but Cyborg offers a '
            'device again after its first use. Leave it to Nova',
        )
    owner = verdict.slot.owner_lpar
    if owner and (provider is None or owner not in provider.lpar_uuids):
        return slots.Reason(
            'owned',
            f'it is owned by {verdict.slot.owner}, whose instance was not '
            'allocated it',
        )
    return None


def _reason_of_nova(
    provider: facts_lib.Provider | None,
) -> slots.Reason | None:
    if provider is None:
        return None
    return slots.Reason(
        _NOVAS,
        f"Nova still has provider '{provider.name}' for it. It goes when it "
        "is free and Nova's inventory file does not identify the slot",
    )


def _reason_of_doubt(
    facts: facts_lib.Facts, provider: facts_lib.Provider | None
) -> slots.Reason | None:
    """Keep a slot withheld while Nova's file is unknown."""
    if facts.nova_policy is not None or provider is None:
        return None
    if names.WITHDRAWN_TRAIT not in provider.traits:
        return None
    return slots.Reason(
        _DOUBT,
        "it was withheld, and Nova's inventory file cannot be read to see "
        'whether it may be offered again',
    )


def _is_worth_a_provider(
    reason: slots.Reason | None, novas: facts_lib.Provider | None
) -> bool:
    """Return whether a slot that Cyborg does not have yet is reported.

    Nova withholds a slot as soon as Cyborg has a provider for it. If Nova has
    given it to a server, or keeps it reserved, it keeps it.
    """
    if reason is None:
        return True
    return reason.code in (_SHARED, _NOVAS) and (
        novas is None or novas.is_idle
    )


def _entry(
    facts: facts_lib.Facts,
    index: int,
    verdict: matching.Verdict | None,
    provider: facts_lib.Provider | None,
    reason: slots.Reason | None,
) -> Entry | None:
    """Return what is reported of a slot; None if nothing can be.

    A slot that the file does not identify any more is described as Placement
    has it, so that the report changes nothing else.
    """
    paragraph = (
        verdict.paragraphs[0] if verdict and verdict.paragraphs else None
    )
    current = provider and provider.resource_class
    if paragraph is not None and verdict is not None:
        traits = names.generated_traits(verdict.slot) | {*paragraph.traits}
        if not facts.publishes_locations:
            traits -= card_ids.select_place(traits)
        keep = provider is not None and not provider.is_idle and current
        resource_class = keep or paragraph.resource_class
    elif provider is not None and current:
        traits = provider.traits
        resource_class = current
    else:
        return None
    return Entry(
        drc_index=index,
        state=_state(reason),
        resource_class=resource_class,
        traits=_with_owner(traits, is_offered=reason is None),
        slot=verdict.slot if verdict else None,
        reason=reason,
    )


def _state(reason: slots.Reason | None) -> State:
    return State.WITHHELD if reason else State.OFFERED


def _with_owner(
    traits: Collection[str], *, is_offered: bool
) -> frozenset[str]:
    """Add the owner's trait, and the mark of an offered or withheld slot."""
    marks = {names.CYBORG_TRAIT, names.WITHDRAWN_TRAIT}
    mark = names.CYBORG_TRAIT if is_offered else names.WITHDRAWN_TRAIT
    return (frozenset(traits) - marks) | {os_traits.OWNER_CYBORG, mark}


def _is_leaving(
    entry: Entry,
    provider: facts_lib.Provider | None,
    novas: facts_lib.Provider | None,
) -> bool:
    """Return whether a slot can be left out.

    A server that was allocated the slot by Nova does not need Cyborg's
    provider.
    """
    if entry.reason is None or entry.reason.code in _LASTING:
        return False
    owner = entry.slot.owner_lpar if entry.slot else ''
    if owner and novas is not None and owner in novas.lpar_uuids:
        return provider is None or provider.is_idle
    return not _is_used(entry, provider)


def _is_used(entry: Entry, provider: facts_lib.Provider | None) -> bool:
    return (provider is not None and not provider.is_idle) or bool(
        entry.slot and entry.slot.owner
    )


def _repair(
    entry: Entry, provider: facts_lib.Provider | None, last: Entry | None
) -> Entry:
    """Have Cyborg correct a provider that differs from the last report.

    Cyborg writes what differs from the report before. So leave out of one
    report what Placement has lost. Report once a generated trait that
    Placement has and no report had: a restored database, or a person, may
    have added it.

    :param last: What the last report had of the slot.
    """
    if last is None:
        return entry
    current = provider and provider.resource_class
    if provider is None or current != last.resource_class:
        return _report_anew(entry, provider)
    lost = last.traits - provider.traits
    surplus = {
        trait
        for trait in provider.traits - entry.traits - last.traits
        if trait.startswith(policies.GENERATED_PREFIX)
    }
    return dataclasses.replace(entry, traits=(entry.traits - lost) | surplus)


def _report_anew(entry: Entry, provider: facts_lib.Provider | None) -> Entry:
    """Leave out a free slot once, so that Cyborg creates it anew."""
    if _is_used(entry, provider):
        return entry
    return dataclasses.replace(entry, state=State.REPAIRED)
