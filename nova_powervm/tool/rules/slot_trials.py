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

"""Why a slot must not be tried with an LPAR of ``nova-powervm-check``.

Doubt is a reason: somebody's device is at stake, and another slot will do.
"""

import dataclasses
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm import printable
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import placement_tree

_CHOOSE = 'Choose another slot'
#: Code of a reason of the host's to what an operator can do about it.
_CURES = {
    slots.OWNED: 'Take the slot from that partition, or choose another one',
    'sriov': 'End that mode, or choose another slot',
}
_UNTRIED = (
    'If Nova does not run with this host, give an LPAR with such a name '
    'another one; else name the nova.conf of its nova-compute with '
    '--config-file'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """All that may speak against a trial with a slot.

    :param slot: The slot.
    :param io_slots: All slots of the host.
    :param profiles: DRC index to the names of the partitions whose documents
        name the slot.
    :param nova: The inventory file; empty if there is none.
    :param cyborg: Cyborg's file.
    :param tree: What Placement holds; None if it is not configured.
    :param silences: Why something could not be read, with the cure.
    :param instances: The LPARs that look like Nova's.
    """

    slot: slots.Slot
    io_slots: tuple[slots.Slot, ...]
    profiles: Mapping[int, Collection[str]]
    nova: policies.Policy
    cyborg: policies.Policy
    tree: placement_tree.Tree | None = None
    silences: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()

    def verdict(self, policy: policies.Policy) -> matching.Verdict:
        """Return what a file says of the slot."""
        verdicts = matching.judge(policy, self.io_slots)
        return next(v for v in verdicts if v.slot == self.slot)

    @property
    def providers(self) -> tuple[placement_tree.Provider, ...]:
        """The providers of the slot, without Cyborg's."""
        if self.tree is None:
            return ()
        theirs = cyborg_slots.find_providers(self.tree).values()
        return tuple(
            provider
            for provider in self.tree.below
            if self.slot.drc_index in provider.named_slots
            and provider not in theirs
        )


class Reasons(tuple[str, ...]):
    """Reasons against a trial; their text has one line for each."""

    __slots__ = ()

    def __str__(self) -> str:
        return '\n'.join(f'- {printable.printable(each)}' for each in self)


def find_reasons(facts: Facts) -> Iterator[str]:
    """Yield the reasons against a trial, each with its cure."""
    yield from facts.silences
    yield from _of_host(facts)
    yield from _of_nova(facts)
    yield from _of_cyborg(facts)
    if facts.tree is None and facts.instances:
        yield (
            f'Nova seems to run {" and ".join(facts.instances[:3])}, and no '
            f'Placement is configured that tells of its devices. {_UNTRIED}'
        )


def _of_host(facts: Facts) -> Iterator[str]:
    slot = facts.slot
    twice = slots.duplicated_indexes(facts.io_slots)
    reason = slots.reason_unavailable(slot, (), twice)
    if reason is not None:
        yield f'{reason}. {_CURES.get(reason.code, _CHOOSE)}'
    if slot.owner is None:
        for name in sorted(facts.profiles.get(slot.drc_index, ())):
            yield (
                f'the profile of partition {name} names it. Remove it there, '
                'or choose another slot'
            )
    if slot.bus_group_required:
        yield f'the others of its bus would have to move with it. {_CHOOSE}'


def _of_nova(facts: Facts) -> Iterator[str]:
    verdict = facts.verdict(facts.nova)
    providers = facts.providers
    if verdict.one_time_use or any(p.one_time_use for p in providers):
        yield (
            f'it has a one-time-use device, which a trial would use. {_CHOOSE}'
        )
    is_kept = bool(providers) and all(map(_is_quarantined, providers))
    offering = () if verdict.denials or is_kept else verdict.paragraphs
    quarantine = (
        'Put it in quarantine: `nova-powervm-inventory quarantine '
        f'{facts.slot.drc_hex} --reason SUSPECT`'
    )
    for paragraph in offering:
        yield (
            f'{paragraph} of {facts.nova.source} offers it. {quarantine}, or '
            'take it out of the file'
        )
    for provider in providers:
        if provider.consumers:
            yield (
                'Placement has allocated it to '
                f'{" and ".join(sorted(provider.consumers))}. Delete that '
                'server, or choose another slot'
            )
        elif not _is_quarantined(provider):
            what = 'reserved' if provider.reserved else 'to give away'
            yield f'Placement has it {what}: {provider}. {quarantine}'


def _is_quarantined(provider: placement_tree.Provider) -> bool:
    """Return whether nobody can get a device until an operator restores it."""
    return (
        bool(names.quarantine_traits(provider.traits))
        and 0 < provider.total <= provider.reserved
    )


def _of_cyborg(facts: Facts) -> Iterator[str]:
    verdict = facts.verdict(facts.cyborg)
    for paragraph in () if verdict.denials else verdict.paragraphs:
        yield (
            f'{paragraph} of {facts.cyborg.source} offers it. Take it out of '
            'that file'
        )
    if facts.tree is None:
        return
    provider = cyborg_slots.find_providers(facts.tree).get(
        facts.slot.drc_index
    )
    if provider:
        yield (
            f'Cyborg has it in Placement: {provider}. Take it out of '
            "Cyborg's inventory file, and wait until its agent has removed it"
        )
