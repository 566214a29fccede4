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

"""Where Cyborg's file, the host and Cyborg's providers do not agree.

What the providers should be is what cyborg-agent would report now.
"""

from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.cyborg import facts as cyborg_facts
from nova_powervm.cyborg import report as reports
from nova_powervm.devices import accelerators
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import differences
from nova_powervm.tool.rules import placement_tree

_CURE = (
    'cyborg-agent corrects it in its next periods, once a minute; if not, its '
    'log says why'
)

_Providers = Mapping[int, placement_tree.Provider]


def compare(
    policy: policies.Policy,
    nova_policy: policies.Policy,
    io_slots: tuple[slots.Slot, ...],
    tree: placement_tree.Tree,
    *,
    publishes_locations: bool = True,
) -> tuple[differences.Difference, ...]:
    """Find the differences about Cyborg's slots.

    :param policy: The content of Cyborg's file.
    :param publishes_locations: See :class:`nova_powervm.cyborg.facts.Facts`.
    """
    facts = cyborg_facts.Facts(
        policy,
        nova_policy,
        io_slots,
        _for_report(cyborg_slots.own_providers(tree)),
        _for_report({p.drc_index or 0: p for p in tree.slot_providers}),
        publishes_locations=publishes_locations,
    )
    return differences.sort_differences(
        [*_shared(policy, nova_policy, io_slots), *_of_report(facts, tree)]
    )


def _for_report(providers: _Providers) -> dict[int, cyborg_facts.Provider]:
    return {
        index: cyborg_facts.Provider(
            uuid=provider.uuid,
            name=provider.name,
            reserved={
                name: int(record.get('reserved', 0))
                for name, record in provider.inventory.items()
            },
            traits=provider.traits,
            consumers=tuple(sorted(provider.consumers)),
        )
        for index, provider in providers.items()
    }


def _shared(
    policy: policies.Policy,
    nova_policy: policies.Policy,
    io_slots: tuple[slots.Slot, ...],
) -> Iterator[differences.Difference]:
    for shared in accelerators.find_shared_slots(
        policy, nova_policy, io_slots
    ):
        yield differences.Difference(
            kind=differences.Kind.SHARED,
            words=f'{shared.nova_paragraph} of {nova_policy.source} and '
            f'{shared.paragraph} of {policy.source} both identify it; while '
            'no server has it, neither service offers it',
            cure='deny it in one of the files, or narrow the paragraph',
            drc_index=shared.slot.drc_index,
        )


def _of_report(
    facts: cyborg_facts.Facts, tree: placement_tree.Tree
) -> Iterator[differences.Difference]:
    """Compare with what cyborg-agent would report now, after a restart."""
    policy, providers = facts.policy, cyborg_slots.own_providers(tree)
    report = reports.make_report(facts, reports.Memory())
    for index, entry in report.entries.items():
        provider = providers.get(index)
        kind = differences.Kind.CHANGED
        if provider is None:
            kind = differences.Kind.MISSING
            words = (
                f'{policy.source} gives it to Cyborg as '
                f'{entry.resource_class}, but Placement has no provider of '
                "Cyborg's for it"
            )
        elif index in report.missing:
            kind, words = differences.Kind.STALE, f'{entry.reason}; free'
        else:
            words = '; '.join(_changes(entry, provider))
        if words:
            yield differences.Difference(
                kind=kind,
                words=words,
                cure=_cure(entry, provider),
                drc_index=entry.drc_index,
                name=provider.name if provider else '',
            )


def _changes(
    entry: reports.Entry, provider: placement_tree.Provider
) -> Iterator[str]:
    """Say how a provider differs from what the agent would report."""
    classes = sorted(provider.inventory)
    if classes != [entry.resource_class]:
        yield (
            f'has inventory of {", ".join(classes) or "nothing"}, should have '
            f'{entry.resource_class}'
        )
    yield from differences.compare_traits(provider.traits, entry.traits)


def _cure(
    entry: reports.Entry, provider: placement_tree.Provider | None
) -> str:
    """Say what resolves a difference; traits of others are left alone."""
    there = provider.traits if provider else frozenset()
    others = sorted(
        trait
        for trait in there - entry.traits
        if not trait.startswith(policies.GENERATED_PREFIX)
    )
    if not others:
        return _CURE
    return (
        'cyborg-agent corrects what it has reported itself in its next '
        f'periods, once a minute; if {", ".join(others)} stays, somebody else '
        'has set it'
    )
