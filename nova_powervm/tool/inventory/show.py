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

"""Command ``show``."""

import argparse
import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import cyborg_reader
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import host_survey
from nova_powervm.tool.inventory import move_reader
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.inventory import record_formatter
from nova_powervm.tool.inventory import slot_rows
from nova_powervm.tool.inventory import tree_drawing
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import left_moves

_Listing = tuple[Sequence[str], Iterable[Sequence[Any]]]


class Show(base.Lister):
    """List the slots of the host, and tell which are offered to instances.

    For each slot, the list shows the device and the paragraph of the inventory
    file that offers it, or the reason why it is not offered, as in the log of
    nova-compute. If Placement is reachable, the list also shows who uses the
    device, and which slots Cyborg manages.

    If a slot is allocated to a migration, or owned by an LPAR whose server is
    on another host, the command asks Nova whether the server still moves. If
    it does not, a message on standard error says what to do next: "Stuck
    servers" in the documentation explains it. The command removes nothing.

    With --cyborg, the command asks Cyborg for the state of each of its slots:
    free, in use by which server, disabled, or bound to a server that does not
    exist any more. A record (--long) and the machine-readable formats have the
    commands that resolve such a state, or what a move has left, in the column
    Remedy.
    """

    examples = """
        # List all slots of this host
        nova-powervm-inventory show

        # Show all properties of the slot U78D2.001.EMU0001-P1-C3
        nova-powervm-inventory show --slot P1-C3 --long

        # List the offered devices with their traits
        nova-powervm-inventory show --offered -c Slot -c Device -c Traits

        # Show the resource providers as a tree
        nova-powervm-inventory show --tree

        # Ask Cyborg for the state of its slots, and what to do about it
        nova-powervm-inventory show --cyborg
        nova-powervm-inventory show --cyborg --slot C7 --long

        # Apply another file to a stored response of the REST API
        nova-powervm-inventory show new.yaml --system-xml system.xml
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file',
            nargs='?',
            metavar='FILE',
            help='inventory file (default: [powervm]inventory_file in '
            'nova.conf, or /etc/nova/inventory.yaml)',
        )
        parser.add_argument(
            '--slot',
            action='append',
            metavar='SLOT',
            help='show only this slot, given by its DRC index, its location '
            'code or the end of the location code (C3, P1-C3), with the '
            'wildcards of the inventory file if needed; can be repeated',
        )
        parser.add_argument(
            '--offered',
            action='store_true',
            help='show only slots that are offered to instances',
        )
        parser.add_argument(
            '--long',
            action='store_true',
            help='show all properties of each slot, as a record instead of a '
            'table row; machine-readable formats always have all properties',
        )
        parser.add_argument(
            '--tree',
            action='store_true',
            help='show the resource providers and their traits as a tree '
            'instead of a list',
        )
        pci_ids.add_option(parser)
        host_reader.add_host_options(parser)
        host_survey.add_placement_options(parser)
        cyborg_reader.add_cyborg_options(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the tree, or the list in the selected format."""
        if not parsed_args.tree:
            return super().run(parsed_args)
        return self.guarded(self._draw, parsed_args)

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        """Write records instead of a table if all properties are shown."""
        if (
            parsed_args.long
            and parsed_args.formatter == 'table'
            and not parsed_args.columns
        ):
            self.formatter = record_formatter.RecordFormatter()
        status: int = super().produce_output(parsed_args, column_names, data)
        return status

    def take_action(self, parsed_args: argparse.Namespace) -> _Listing:
        """List the slots."""
        survey = self._survey(parsed_args)
        cells = dict(slot_rows.COLUMNS)
        if survey.tree is not None:
            cells.update(slot_rows.PLACEMENT_COLUMNS)
        if survey.cyborg is not None:
            cells.update(slot_rows.CYBORG_COLUMNS)
        if self.is_short(parsed_args):
            cells = {
                c: cells[c] for c in slot_rows.SHORT_COLUMNS if c in cells
            }
        return tuple(cells), [
            [self.cell(cell(row), parsed_args) for cell in cells.values()]
            for row in self._rows(survey, parsed_args)
        ]

    def _draw(self, parsed_args: argparse.Namespace) -> int:
        survey = self._survey(parsed_args)
        chosen = self._rows(survey, parsed_args)
        for line in tree_drawing.draw_tree(survey.node, chosen):
            print(line, file=self.app.stdout)
        return 0

    def _survey(self, parsed_args: argparse.Namespace) -> host_survey.Survey:
        config = self.app.config
        policy = base.load_inventory(self.app, parsed_args.file)
        reading = host_reader.read_host(self.app, parsed_args)
        tree = host_survey.read_tree(
            self.app, parsed_args, reading.system.io_slots
        )
        survey = host_survey.make_survey(
            policy,
            reading,
            tree,
            parsed_args.node or config.nodename,
            config.settings.provider_names,
        )
        if tree is not None:
            survey = dataclasses.replace(
                survey,
                leftovers=move_reader.read_leftovers(
                    self.app, parsed_args, tree, reading
                ),
            )
        if not parsed_args.cyborg:
            return survey
        facts = cyborg_reader.read_cyborg(self.app, parsed_args, tree)
        for request in cyborg_slots.unbound_requests(facts.records):
            self.note(
                f'Request {request.uuid} of device profile {request.profile} '
                f'is in state {request.state} without a server. If no server '
                'is being built, remove it: '
                + cyborg_slots.removal_command(request, facts)
            )
        return dataclasses.replace(survey, cyborg=facts)

    def _rows(
        self, survey: host_survey.Survey, parsed_args: argparse.Namespace
    ) -> list[slot_rows.SlotRow]:
        found = list(
            slot_rows.make_rows(survey, pci_ids.read_chosen_names(parsed_args))
        )
        if parsed_args.slot:
            unknown = [
                name
                for name in parsed_args.slot
                if not any(slot_rows.is_slot_named(row, name) for row in found)
            ]
            if unknown:
                raise exception.ConfigurationError(
                    reason=f'{survey.reading.source} has no slot '
                    f'{", ".join(unknown)}. Run the command without --slot '
                    'to list all slots.'
                )
            found = [
                row
                for row in found
                if any(
                    slot_rows.is_slot_named(row, name)
                    for name in parsed_args.slot
                )
            ]
        shown = [
            row for row in found if row.offered or not parsed_args.offered
        ]
        self._note_leftovers(shown)
        return shown

    def _note_leftovers(self, rows: Iterable[slot_rows.SlotRow]) -> None:
        """Print what to do about what moves have left, ready to be copied."""
        slots_of: dict[left_moves.Finding, list[str]] = {}
        for row in rows:
            if row.leftover and row.leftover.steps:
                names = slots_of.setdefault(row.leftover, [])
                names.append(slots.format_drc_index(row.drc_index))
        for finding, names in slots_of.items():
            which = ', '.join(dict.fromkeys(names))
            for line in (f'Slot {which}, {finding.state}:', *finding.steps):
                self.note(line)
