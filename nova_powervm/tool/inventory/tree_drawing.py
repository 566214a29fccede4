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

from nova_powervm.devices import plan as planned
from nova_powervm.devices import policy
from nova_powervm.tool.inventory import slot_rows

_FORK, _LAST, _BAR, _GAP = '├── ', '└── ', '│   ', '    '


def draw_tree(node: str, found: Iterable[slot_rows.SlotRow]) -> Iterator[str]:
    """Draw the tree as it will be after nova-compute's next update.

    :param node: Name of the root provider.
    :param found: Rows of slots; those without a provider are left out.
    """
    drawn = [row for row in found if row.entry]
    yield f'{node} (compute node)'
    for row in drawn:
        last = row is drawn[-1]
        first, *others = _provider(row)
        yield (_LAST if last else _FORK) + first
        for line in others:
            yield (_GAP if last else _BAR) + line
    if not drawn:
        yield f'{_LAST}no device: nothing is offered'


def _provider(row: slot_rows.SlotRow) -> Sequence[str]:
    entry = row.entry
    assert entry is not None  # noqa: S101  draw_tree() selected the rows
    facts = [f'{c}: 1' for c in entry.resource_classes]
    facts += [row.state] if row.state else []
    if entry.action is planned.Action.DELETE:
        facts.append('will be removed')
    drawn = [entry.name, ', '.join(facts)]
    where = ' at '.join(
        text for text in (row.device, row.slot and row.slot.drc_name) if text
    )
    if where:
        drawn.append(where)
    if entry.reason:
        drawn.append(f'because {entry.reason}')
    told = sorted(t for t in entry.traits if not _generated(t))
    generated = len(entry.traits) - len(told)
    if generated:
        told.append(f'and {generated} that say what it is and where')
    drawn.append(f'traits: {", ".join(told) or "none"}')
    return drawn


def _generated(trait: str) -> bool:
    return trait.startswith(policy.GENERATED_PREFIX + 'IOSLOT_')
