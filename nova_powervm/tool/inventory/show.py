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

"""The command ``show``."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import host_survey
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.inventory import record_formatter
from nova_powervm.tool.inventory import slot_rows
from nova_powervm.tool.inventory import tree_drawing

_Listing = tuple[Sequence[str], Iterable[Sequence[Any]]]


class Show(base.Lister):
    """List the slots of the host and what becomes of them.

    For each slot it says what is in it, and which paragraph of the inventory
    file offers it to instances, or why it is not offered, in the words of
    nova-compute's log. If Placement can be asked, it says who has the device.
    """

    examples = """
        # Every slot of this host
        nova-powervm-inventory show

        # All that is known of one slot, which "pvmctl ioslot list" calls
        # U78D2.001.EMU0001-P1-C3
        nova-powervm-inventory show --slot P1-C3 --long

        # Which devices instances can get, and their traits
        nova-powervm-inventory show --offered -c Slot -c Device -c Traits

        # The resource providers as a tree
        nova-powervm-inventory show --tree

        # What another file would mean, on a host whose answer was stored
        nova-powervm-inventory show new.yaml --system-xml system.xml
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file',
            nargs='?',
            metavar='FILE',
            help='the inventory file (default: [powervm]inventory_file of '
            'nova.conf, which is /etc/nova/inventory.yaml)',
        )
        parser.add_argument(
            '--slot',
            action='append',
            metavar='SLOT',
            help='show only this slot: its DRC index, its location code or '
            'the end of it (C3, P1-C3), also with the wildcards of the '
            'inventory file; can be given more than once',
        )
        parser.add_argument(
            '--offered',
            action='store_true',
            help='show only what is offered to instances',
        )
        parser.add_argument(
            '--long',
            action='store_true',
            help='show all that is known of each slot, as a record instead '
            'of a line of the table; formats for programs always have it all',
        )
        parser.add_argument(
            '--tree',
            action='store_true',
            help='draw the resource providers with their traits instead of '
            'a list',
        )
        pci_ids.add_option(parser)
        host_reader.add_host_options(parser)
        host_survey.add_placement_options(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Draw the tree, which is no list, or do as a list does."""
        if not parsed_args.tree:
            return super().run(parsed_args)
        return self.guarded(self._draw, parsed_args)

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        """Write records where a table would be too wide for a terminal."""
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
        tree = host_survey.read_tree(self.app, parsed_args)
        return host_survey.make_survey(
            policy,
            reading,
            tree,
            parsed_args.node or config.nodename,
            config.settings.provider_names,
        )

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
                    f'{", ".join(unknown)}. Without --slot all are shown.'
                )
            found = [
                row
                for row in found
                if any(
                    slot_rows.is_slot_named(row, name)
                    for name in parsed_args.slot
                )
            ]
        return [row for row in found if row.offered or not parsed_args.offered]
