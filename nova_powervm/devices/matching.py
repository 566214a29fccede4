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

"""Decides which slots the inventory file offers, and why not the others."""

import dataclasses
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots

#: Code of the reason for a slot that no paragraph identifies.
UNMATCHED = 'unmatched'
#: The attributes of a slot that paragraphs compare with fixed values.
_Attributes = tuple[str, ...]


class ParagraphIndex:
    """Paragraphs of a policy, indexed by the fixed values that they compare.

    The index only selects candidates: :meth:`.policy.Paragraph.identifies`
    decides. A wildcard does not narrow the selection.

    :param paragraphs: In the order of the file.
    """

    def __init__(self, paragraphs: Sequence[policies.Paragraph]) -> None:
        self._paragraphs = paragraphs
        self._places: dict[_Attributes, dict[tuple[Any, ...], list[int]]] = {}
        for place, paragraph in enumerate(paragraphs):
            fixed = {
                policies.PROPERTIES[key].attribute: (
                    policies.PROPERTIES[key].slot_value(value)
                )
                for key, value in sorted(paragraph.identification.items())
                if not policies.has_wildcard(value)
            }
            by_values = self._places.setdefault(tuple(fixed), {})
            by_values.setdefault(tuple(fixed.values()), []).append(place)

    def identifying(self, slot: slots.Slot) -> tuple[policies.Paragraph, ...]:
        """Return the paragraphs that identify a slot, in file order."""
        candidates = (
            self._paragraphs[place] for place in sorted(self._select(slot))
        )
        return tuple(p for p in candidates if p.identifies(slot))

    def _select(self, slot: slots.Slot) -> Iterator[int]:
        for attributes, by_values in self._places.items():
            values = tuple(getattr(slot, each) for each in attributes)
            yield from by_values.get(values, ())


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
        """Whether the slot holds a one-time-use device, offered or not."""
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
    :param one_time_use: Whether the device is withheld after its first use.
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
        of Nova; a slot that such an LPAR owns stays offered. None if they are
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
        and reason.code == slots.OWNED
        and slot.owner is not None
        and slot.owner.kind is slots.PartitionKind.CLIENT
    ):
        whose = (
            'which Nova may run: only Placement knows'
            if instance_lpars is None
            else 'which Nova does not run'
        )
        return slots.Reason(slots.OWNED, f'{reason}, {whose}')
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
            UNMATCHED, f'no paragraph of {policy.source} identifies it'
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
