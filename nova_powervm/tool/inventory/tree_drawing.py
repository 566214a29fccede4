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

"""Draws the resource providers of a node as a tree."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_powervm.devices import names
from nova_powervm.devices import plan as planned
from nova_powervm.tool.inventory import slot_rows

_FORK, _LAST, _BAR, _GAP = '├── ', '└── ', '│   ', '    '


def draw_tree(node: str, found: Iterable[slot_rows.SlotRow]) -> Iterator[str]:
    """Draw the tree as it will be after nova-compute's next update.

    :param found: Rows of slots; those without a provider are left out.
    """
    drawn = [provider for row in found for provider in _providers(row)]
    yield f'{node} (compute node)'
    for number, (first, *others) in enumerate(drawn, start=1):
        last = number == len(drawn)
        yield (_LAST if last else _FORK) + first
        for line in others:
            yield (_GAP if last else _BAR) + line
    if not drawn:
        yield f'{_LAST}no device: nothing is offered'


def _providers(row: slot_rows.SlotRow) -> Iterator[Sequence[str]]:
    """Yield the lines of Nova's and of Cyborg's provider of a slot."""
    if entry := row.entry:
        facts = [f'{c}: 1' for c in entry.resource_classes]
        facts += [row.state] if row.state else []
        if entry.action is planned.Action.DELETE:
            facts.append('will be removed')
        reason = [f'because {entry.reason}'] if entry.reason else []
        yield [
            entry.name,
            ', '.join(facts),
            *_place(row),
            *reason,
            _describe(entry.traits),
        ]
    if row.cyborg and (provider := row.cyborg.provider):
        facts = [f'{c}: 1' for c in sorted(provider.inventory)]
        facts.append(f'Cyborg: {row.cyborg.state}')
        traits = _describe(provider.traits)
        yield [provider.name, ', '.join(facts), *_place(row), traits]


def _place(row: slot_rows.SlotRow) -> Iterator[str]:
    location = row.slot.drc_name if row.slot else None
    if known := [text for text in (row.device, location) if text]:
        yield ' at '.join(known)


def _describe(traits: Iterable[str]) -> str:
    found = set(traits)
    named = sorted(t for t in found if not names.is_slot_trait(t))
    if generated := len(found) - len(named):
        named.append(f'and {generated} that say what it is and where')
    return f'traits: {", ".join(named) or "none"}'
