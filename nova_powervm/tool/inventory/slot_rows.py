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

"""Rows of the command ``show``: one for each slot."""

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova_powervm.devices import claims
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import policy
from nova_powervm.devices import slots
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.inventory import survey as surveys
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree

_TO_CLEAN = 'needs cleaning'


@dataclasses.dataclass(frozen=True, slots=True)
class SlotRow:
    """A slot with its provider, or a provider whose slot is gone.

    :param drc_index: DRC index of the slot.
    :param verdict: How the inventory file applies to the slot; None if the
        host no longer reports it.
    :param entry: What the plan does with its provider; None without one.
    :param provider: The provider in Placement; None if it does not exist.
    :param source: Whether Nova or Cyborg allocated the slot to its instance.
    :param asked: Whether Placement was read.
    :param owner_known: False if a slot without an owner may have one.
    :param device: Description of the device.
    :param cyborg: What Cyborg has of the slot; None if it has nothing.
    :param move: What a move has to do with the slot; None if none has.
    :param project: Id of the project that burned its device, or
        :data:`devices.one_time_use.UNKNOWN`; empty if it is not burned.
    :param servers: Uuids of the servers, or migrations, that have it or were
        allocated it.
    """

    drc_index: int
    verdict: matching.Verdict | None
    entry: plan.Entry | None
    provider: placement_tree.Provider | None
    source: claims.Source | None
    asked: bool
    owner_known: bool
    device: str
    cyborg: cyborg_slots.CyborgSlot | None = None
    move: left_moves.SlotMove | None = None
    project: str = ''
    servers: tuple[str, ...] = ()

    @property
    def slot(self) -> slots.Slot | None:
        """The slot; None if the host no longer reports it."""
        return self.verdict.slot if self.verdict else None

    @property
    def location(self) -> str:
        """The location code of the slot; empty if it is not known."""
        return (self.slot.drc_name if self.slot else None) or ''

    @property
    def offered(self) -> bool:
        """Whether the slot is offered to instances."""
        return bool(self.verdict and self.verdict.offered)

    @property
    def reason(self) -> str:
        """Reason why the slot is not offered, as in nova-compute's log."""
        if self.verdict and self.verdict.reason:
            return self.verdict.reason.text
        return self.entry.reason if self.entry else ''

    @property
    def paragraph(self) -> policy.Paragraph | None:
        """The paragraph that identifies the slot."""
        if self.verdict and self.verdict.paragraphs:
            return self.verdict.paragraphs[0]
        return None

    @property
    def classes(self) -> tuple[str, ...]:
        """Resource classes of its provider."""
        return self.entry.resource_classes if self.entry else ()

    @property
    def owner(self) -> str:
        """The owning partition; "not known" if the owner is unknown."""
        if self.slot is None:
            return ''
        if self.slot.owner:
            return str(self.slot.owner)
        return '' if self.owner_known else 'not known'

    @property
    def lpar_name(self) -> str:
        """LPAR name of the instance that owns the slot."""
        owner = self.slot.owner if self.slot else None
        known = self.offered or self.source
        return (owner.name or '') if owner and known else ''

    @property
    def offer(self) -> str:
        """Resource class and paragraph, or why the slot is not offered."""
        parts = [
            f"{', '.join(self.classes)} by '{self.paragraph_name}'"
            if self.offered
            else f'not offered: {self.reason}'
        ]
        if self.offered and self.reason:
            parts.append(self.reason)
        if self.offered and not self.owner_known:
            parts.append('owner not known')
        if self.replacement not in self.reason:
            parts.append(f'another card: {self.replacement}')
        return '; '.join(parts)

    @property
    def replacement(self) -> str:
        """How the card differs from the one that its provider describes."""
        return self.entry.replacement if self.entry else ''

    @property
    def paragraph_name(self) -> str:
        """Name of the paragraph that identifies the slot."""
        return self.paragraph.name if self.paragraph else ''

    @property
    def state(self) -> str:
        """State of the provider in Placement."""
        if not self.asked:
            return ''
        provider = self.provider
        if provider is None:
            return self._state_without_provider
        if provider.needs_cleaning:
            # A partition can have a device that Placement has not allocated.
            holder = self.slot.owner if self.slot else None
            return f'used, and {holder} has it' if holder else _TO_CLEAN
        if provider.consumers:
            who = self.lpar_name or ' '.join(sorted(provider.consumers))
            move = self.move
            return move.state if move else f'allocated to {who}'
        return _state_of_free(provider)

    @property
    def _state_without_provider(self) -> str:
        if self.source is claims.Source.ACCELERATOR and not (
            self.cyborg and self.cyborg.requests
        ):
            return f'allocated to {self.lpar_name} by Cyborg'
        if self.cyborg:
            return f'Cyborg: {self.cyborg.state}'
        return 'not in Placement yet' if self.entry else ''

    @property
    def remedy(self) -> tuple[str, ...]:
        """What to do about its state, one command or instruction a line."""
        return (self.move.steps if self.move else ()) + (
            self.cyborg.remedy if self.cyborg else ()
        )

    @property
    def needs_cleaning(self) -> bool:
        """Whether its device was used, and no partition has it."""
        return self.state == _TO_CLEAN

    @property
    def burned_at(self) -> str | None:
        """When its one-time-use device was burned, in UTC, if it is.

        It is the last write to its inventory.
        """
        written = self.provider.written_at if self.provider else None
        if written is None or not (self.entry and self.entry.burned):
            return None
        return f'{written:%Y-%m-%d %H:%M:%S}'

    @property
    def availability(self) -> str:
        """Its state, with the reason why no other server can have it."""
        parts = [self.state]
        if self.needs_cleaning and self.burned_at:
            parts = [f'{self.state}, burned {self.burned_at} UTC']
        if not self.offered:
            parts.append(f'not offered: {self.reason}')
        return '; '.join(filter(None, parts))


Cell = Callable[[SlotRow], Any]


def _state_of_free(provider: placement_tree.Provider) -> str:
    """Return the state of a provider without allocations."""
    if names.quarantine_traits(provider.traits):
        why = names.quarantine_reason(provider.traits)
        return f'in quarantine: {why}'
    if names.WITHDRAWN_TRAIT in provider.traits:
        return 'withdrawn'
    return 'reserved' if provider.reserved else 'free'


def _of_slot(attribute: str) -> Cell:
    return lambda row: getattr(row.slot, attribute, None)


def _of_provider(attribute: str) -> Cell:
    return lambda row: getattr(row.provider, attribute, None)


def _of_cyborg(attribute: str) -> Cell:
    return lambda row: getattr(row.cyborg, attribute, None)


def _property(key: str) -> Cell:
    return lambda row: (
        policy.PROPERTIES[key].value_in(row.slot) if row.slot else None
    )


#: All columns that need no Placement, in the order of the output.
COLUMNS: Mapping[str, Cell] = {
    'Slot': lambda row: slots.format_drc_index(row.drc_index),
    'Location': _of_slot('drc_name'),
    'Device': lambda row: row.device,
    'Description': _of_slot('description'),
    'Vendor ID': _property('vendor_id'),
    'Device ID': _property('device_id'),
    'Subsystem Vendor ID': _property('subsys_vendor_id'),
    'Subsystem Device ID': _property('subsys_device_id'),
    'PCI Class': _property('class'),
    'Revision ID': _property('revision_id'),
    'Owner': lambda row: row.owner or None,
    'Offered': lambda row: row.offered,
    'Reason': lambda row: row.reason or None,
    'Paragraph': lambda row: row.paragraph_name or None,
    'Line': lambda row: row.paragraph.line if row.paragraph else None,
    'Resource Class': lambda row: ' '.join(row.classes) or None,
    'Traits': lambda row: sorted(row.entry.traits) if row.entry else [],
    'Offer': lambda row: row.offer,
}
#: Columns that are added if Placement was read.
PLACEMENT_COLUMNS: Mapping[str, Cell] = {
    'Provider': lambda row: row.entry.name if row.entry else None,
    'Provider UUID': _of_provider('uuid'),
    'Reserved': _of_provider('reserved'),
    'Used': _of_provider('used'),
    'Consumers': lambda row: (
        sorted(row.provider.consumers) if row.provider else []
    ),
    'Instance': lambda row: row.lpar_name or None,
    'Server': lambda row: ' '.join(row.servers) or None,
    'Burned At': lambda row: row.burned_at,
    'Burned By': lambda row: row.project or None,
    'Availability': lambda row: row.availability,
    'Source': lambda row: row.source and row.source.value,
    'Replacement': lambda row: row.replacement or None,
    'Cyborg Provider': lambda row: (
        row.cyborg.provider.name
        if row.cyborg and row.cyborg.provider
        else None
    ),
    'State': lambda row: row.state or None,
    'Remedy': lambda row: list(row.remedy),
}
#: Columns that are added if Cyborg was asked.
CYBORG_COLUMNS: Mapping[str, Cell] = {
    'Cyborg State': _of_cyborg('state'),
    'Cyborg Device': lambda row: (
        row.cyborg.device.uuid if row.cyborg and row.cyborg.device else None
    ),
    'Requests': lambda row: (
        [request.uuid for request in row.cyborg.requests] if row.cyborg else []
    ),
}
#: Columns of a table that fits a terminal.
SHORT_COLUMNS = ('Slot', 'Location', 'Device', 'Offer', 'State')
#: Columns that tell which server uses which card.
SERVER_COLUMNS = ('Slot', 'Location', 'Device', 'Server', 'Availability')


def make_rows(
    survey: surveys.Survey, pci_names: pci_ids.DeviceNames
) -> Iterator[SlotRow]:
    """Create a row for each slot and each provider whose slot is gone.

    :returns: Rows in the order of location codes; providers without a slot
        come last.
    """
    entries: dict[int, list[plan.Entry | None]] = {}
    for planned_entry in survey.plan.entries:
        entries.setdefault(planned_entry.drc_index, []).append(planned_entry)
    judged = sorted(
        survey.plan.verdicts,
        key=lambda v: (_natural(v.slot.drc_name or ''), v.slot.drc_index),
    )
    pairs: list[tuple[int, matching.Verdict | None]] = [
        (verdict.slot.drc_index, verdict) for verdict in judged
    ]
    known = {index for index, _ in pairs}
    cyborgs = survey.cyborg_slots
    below = survey.tree.below if survey.tree else ()
    providers = {provider.uuid: provider for provider in below}
    pairs += [
        (index, None)
        for index in sorted({*entries, *cyborgs})
        if index not in known
    ]
    for index, verdict in pairs:
        # A slot can have two providers, one with the specification's name.
        for entry in entries.get(index, [None]):
            provider = providers.get(entry.uuid or '') if entry else None
            yield SlotRow(
                drc_index=index,
                verdict=verdict,
                entry=entry,
                provider=provider,
                source=survey.tree.source(verdict.slot)
                if survey.tree and verdict
                else None,
                asked=survey.tree is not None,
                owner_known=survey.reading.owners_known,
                device=pci_names.describe(verdict.slot) if verdict else '',
                cyborg=cyborgs.get(index),
                move=survey.slot_moves.get(index),
                project=survey.projects.get(provider.uuid, '')
                if provider
                else '',
                servers=_servers(survey.tree, provider, verdict),
            )


def _servers(
    tree: placement_tree.Tree | None,
    provider: placement_tree.Provider | None,
    verdict: matching.Verdict | None,
) -> tuple[str, ...]:
    """Return the consumers of a provider, and whose LPAR owns the slot."""
    if tree is None:
        return ()
    servers = {*provider.consumers} if provider else set()
    owner = verdict.slot.owner_lpar if verdict else ''
    if owner in tree.instance_lpars:
        servers.add(tree.instance_lpars[owner])
    return tuple(sorted(servers))


def _natural(text: str) -> list[str | int]:
    """Return a sort key that puts C9 before C10."""
    parts = enumerate(re.split(r'(\d+)', text))
    return [int(part) if number % 2 else part for number, part in parts]
