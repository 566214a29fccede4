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

"""Decides which slots the inventory file offers, and why others are not."""

import dataclasses
import operator
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots

_Values = tuple[str | None, ...]
#: A paragraph's position in the file, and its patterns in the group's order.
_Candidate = tuple[int, tuple[str, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """Paragraphs with the same keys.

    :param exact: Returns a slot's values for the keys without wildcards; they
        are looked up in ``candidates``.
    :param patterns: The properties of the keys whose values have wildcards.
    :param candidates: A result of ``exact`` to the paragraphs with these
        values.
    :param known: A cache: the positions of the candidates that match certain
        values.
    """

    exact: Callable[[slots.Slot], Any]
    patterns: tuple[policies.Property, ...]
    candidates: dict[Any, list[_Candidate]] = dataclasses.field(
        default_factory=dict
    )
    known: dict[tuple[Any, _Values], tuple[int, ...]] = dataclasses.field(
        default_factory=dict
    )

    def find(self, slot: slots.Slot) -> Iterable[int]:
        """Return the positions of the paragraphs that identify a slot."""
        exact = self.exact(slot)
        candidates = self.candidates.get(exact)
        if candidates is None:
            return ()
        if not self.patterns:
            return [place for place, _ in candidates]
        varying = tuple(pattern.value_in(slot) for pattern in self.patterns)
        found = self.known.get((exact, varying))
        if found is None:
            found = tuple(
                place
                for place, patterns in candidates
                if all(map(policies.value_matches, patterns, varying))
            )
            self.known[exact, varying] = found
        return found


class ParagraphIndex:
    """Paragraphs of a policy, indexed by the properties that they compare.

    :meth:`.policy.Paragraph.identifies` is the definition; the index gives
    the same result without trying each paragraph.

    Paragraphs without wildcards are looked up by the slot's own numbers,
    because formatting these as the file does would take longer. Patterns are
    tried once for each value that the host reports.

    :param paragraphs: In the order of the file.
    """

    def __init__(self, paragraphs: Sequence[policies.Paragraph]) -> None:
        self._paragraphs = paragraphs
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], _Group] = {}
        for place, paragraph in enumerate(paragraphs):
            wanted = paragraph.identification
            patterns = tuple(
                sorted(k for k in wanted if policies.has_wildcard(wanted[k]))
            )
            exact = tuple(sorted(k for k in wanted if k not in patterns))
            values = [
                policies.PROPERTIES[k].slot_value(wanted[k]) for k in exact
            ]
            if not wanted or None in values:
                # A paragraph without keys identifies nothing. A value that no
                # slot can have must not match an unreported property.
                continue
            if (exact, patterns) not in groups:
                groups[exact, patterns] = _group(exact, patterns)
            groups[exact, patterns].candidates.setdefault(
                values[0] if len(values) == 1 else tuple(values), []
            ).append((place, tuple(wanted[key] for key in patterns)))
        self._groups = tuple(groups.values())

    def identifying(self, slot: slots.Slot) -> tuple[policies.Paragraph, ...]:
        """Return the paragraphs that identify a slot, in file order."""
        places: list[int] = []
        for group in self._groups:
            places += group.find(slot)
        return tuple(self._paragraphs[place] for place in sorted(places))


def _group(exact: Sequence[str], patterns: Sequence[str]) -> _Group:
    attributes = [policies.PROPERTIES[key].attribute for key in exact]
    return _Group(
        operator.attrgetter(*attributes) if attributes else _no_values,
        tuple(policies.PROPERTIES[key] for key in patterns),
    )


def _no_values(_: slots.Slot) -> tuple[()]:
    return ()


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about one slot, from the inventory file and the host.

    :param slot: The slot.
    :param paragraphs: The allowing paragraphs that identify it, in the order
        of the file.
    :param reason: Why it is not offered; None if it is offered.
    :param denials: The denying paragraphs that identify it.
    """

    slot: slots.Slot
    paragraphs: tuple[policies.Paragraph, ...]
    reason: slots.Reason | None
    denials: tuple[policies.Paragraph, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether the slot is published for use by instances."""
        return self.reason is None

    @property
    def one_time_use(self) -> bool:
        """Whether it holds a one-time-use device, offered or not."""
        return any(paragraph.one_time_use for paragraph in self.paragraphs)

    @property
    def conflicting(self) -> bool:
        """Whether more than one allowing paragraph identifies the device."""
        return len(self.paragraphs) > 1


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """An offered slot, and the content of its provider.

    :param slot: The slot.
    :param resource_class: The class of its single unit of inventory.
    :param traits: The generated traits, the owner's and the file's.
    :param one_time_use: Whether it is withheld after its first use.
    """

    slot: slots.Slot
    resource_class: str
    traits: frozenset[str]
    one_time_use: bool = False


def judge(
    policy: policies.Policy,
    host_slots: Collection[slots.Slot],
    instance_lpars: Collection[str] | None = None,
) -> tuple[Verdict, ...]:
    """Apply the inventory file to the host's slots.

    :param policy: What the operator allows.
    :param host_slots: All slots of the host.
    :param instance_lpars: Upper-case uuids of LPARs that belong to instances
        of Nova; a slot that one of them owns stays offered. None if they are
        unknown: then every slot with an owner is in use.
    :returns: One verdict for each slot, in the order given.
    """
    duplicated = slots.duplicated_indexes(host_slots)
    index = ParagraphIndex(policy.paragraphs)
    return tuple(
        _judge_slot(policy, index, slot, instance_lpars, duplicated)
        for slot in host_slots
    )


def _judge_slot(
    policy: policies.Policy,
    index: ParagraphIndex,
    slot: slots.Slot,
    instance_lpars: Collection[str] | None,
    duplicated: Collection[int],
) -> Verdict:
    # Two paragraphs for one device are an error, even if another paragraph
    # denies it. An empty slot holds no device, so two paragraphs may identify
    # it.
    identified = () if slot.is_empty else index.identifying(slot)
    allowing = tuple(p for p in identified if p.allow)
    denying = tuple(p for p in identified if not p.allow)
    reason = (
        _reason_conflict(allowing)
        or _reason_of_host(slot, instance_lpars, duplicated)
        or _reason_denied(policy, allowing, denying)
    )
    return Verdict(slot, allowing, reason, denying)


def _reason_conflict(
    allowing: Sequence[policies.Paragraph],
) -> slots.Reason | None:
    if len(allowing) < 2:
        return None
    return slots.Reason('conflict', _conflict(allowing))


def _reason_of_host(
    slot: slots.Slot,
    instance_lpars: Collection[str] | None,
    duplicated: Collection[int],
) -> slots.Reason | None:
    reason = slots.reason_unavailable(slot, instance_lpars or (), duplicated)
    if (
        reason is not None
        and reason.code == 'owned'
        and slot.owner is not None
        and slot.owner.kind is slots.PartitionKind.CLIENT
    ):
        whose = (
            'which Nova may run: only Placement knows'
            if instance_lpars is None
            else 'which Nova does not run'
        )
        return slots.Reason('owned', f'{reason}, {whose}')
    return reason


def _reason_denied(
    policy: policies.Policy,
    allowing: Sequence[policies.Paragraph],
    denying: Sequence[policies.Paragraph],
) -> slots.Reason | None:
    if denying:
        return slots.Reason(
            'denied', f'{denying[0]} of {policy.source} denies it'
        )
    if not allowing:
        return slots.Reason(
            'unmatched', f'no paragraph of {policy.source} identifies it'
        )
    return None


def _conflict(paragraphs: Iterable[policies.Paragraph]) -> str:
    return 'it is identified by ' + ' and by '.join(map(str, paragraphs))


def conflicts(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts on devices that several paragraphs identify."""
    return tuple(verdict for verdict in verdicts if verdict.conflicting)


def unused(
    policy: policies.Policy, host_slots: Collection[slots.Slot]
) -> tuple[policies.Paragraph, ...]:
    """Return the paragraphs that have no effect on this host.

    This is no error: a file may be for many hosts, or for a card that is not
    installed yet. It is worth a warning, because a mistyped value has the same
    effect.

    :param policy: What the operator allows.
    :param host_slots: All slots of the host. An empty one holds no device.
    :returns: In the order of the file: allowing paragraphs that identify no
        device, and denying paragraphs that withhold none.
    """
    verdicts = judge(policy, host_slots)
    return tuple(
        paragraph
        for paragraph in policy.paragraphs
        if not any(_serves(paragraph, verdict) for verdict in verdicts)
    )


def _serves(paragraph: policies.Paragraph, verdict: Verdict) -> bool:
    if paragraph.allow:
        return paragraph in verdict.paragraphs
    return bool(verdict.paragraphs) and paragraph in verdict.denials


def devices(verdicts: Iterable[Verdict]) -> tuple[Device, ...]:
    """Return the devices to publish for the offered slots."""
    return tuple(
        _device(verdict.slot, verdict.paragraphs[0])
        for verdict in verdicts
        if verdict.offered
    )


def _device(slot: slots.Slot, paragraph: policies.Paragraph) -> Device:
    return Device(
        slot=slot,
        resource_class=paragraph.resource_class,
        traits=names.generated_traits(slot)
        | {names.OWNER_TRAIT}
        | ({names.ONE_TIME_USE_TRAIT} if paragraph.one_time_use else set())
        | frozenset(paragraph.traits),
        one_time_use=paragraph.one_time_use,
    )
