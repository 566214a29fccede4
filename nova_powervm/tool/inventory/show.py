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
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm import printable
from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import slot_rows
from nova_powervm.tool.inventory import survey as surveys
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree

_FORK, _LAST, _BAR, _GAP = '├── ', '└── ', '│   ', '    '


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

    With --unconfirmed, messages on standard error name the migrations to this
    host that stay in status "finished" although nobody can confirm or revert
    them: with which [DEFAULT]resize_confirm_window nova-compute ends each, and
    which other servers it would confirm by that.

    With --servers, the list tells who uses which card, by the UUID of the
    server and the name of its LPAR, and of each other card whether it is free,
    needs cleaning, or why it is not offered. A device that needs cleaning has
    the time of the last write to its inventory in Placement, which burned it.
    Nobody knows when its server was deleted.

    The column Burned By of a record (--long), of -c, and of machine-readable
    formats has the project that burned a device. It is read from Nova's
    records of servers, through [DEFAULT]transport_url in nova.conf, and is
    "unknown" if they do not tell, or cannot be read.

    With --cyborg, the command asks Cyborg for the state of each of its slots:
    free, in use by which server, disabled, or bound to a server that does not
    exist any more. A record (--long) and the machine-readable formats have the
    commands that resolve such a state, or what a move has left, in the column
    Remedy. If Cyborg does not answer, the list has what Placement tells, and
    the exit code is 1.
    """

    examples = """
        # List all slots of this host
        nova-powervm-inventory show

        # Show all properties of the slot U78D2.001.EMU0001-P1-C3
        nova-powervm-inventory show --slot P1-C3 --long

        # List the offered devices with their traits
        nova-powervm-inventory show --offered -c Slot -c Device -c Traits

        # Show which server uses which card, and which cards need cleaning
        nova-powervm-inventory show --servers

        # Show which project burned which card
        nova-powervm-inventory show -c Slot -c State -c 'Burned By'

        # Show the resource providers as a tree
        nova-powervm-inventory show --tree

        # Ask Cyborg for the state of its slots, and what to do about it
        nova-powervm-inventory show --cyborg
        nova-powervm-inventory show --cyborg --slot C7 --long

        # Find migrations that wait in vain, and what ending them confirms
        nova-powervm-inventory show --unconfirmed

        # Apply another file to a stored response of the REST API
        nova-powervm-inventory show new.yaml --system-xml system.xml
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        base.add_file_option(parser, 'file')
        parser.add_argument(
            '--slot',
            action='append',
            metavar='SLOT',
            help=f'show only this slot: {host_reader.SLOT_HELP}; can be '
            'repeated',
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
            '--servers',
            action='store_true',
            help='show which server uses which card, which cards need '
            'cleaning, and why a card cannot be had; Placement is needed',
        )
        parser.add_argument(
            '--tree',
            action='store_true',
            help='show the resource providers and their traits as a tree '
            'instead of a list',
        )
        parser.add_argument(
            '--unconfirmed',
            action='store_true',
            help='ask Nova which migrations to this host wait for a '
            'confirmation in vain, and how to end them',
        )
        host_reader.add_host_options(parser)
        placement_client.add_node_option(parser, optional=True)
        _add_cyborg_options(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the tree, or the list in the selected format."""
        if not parsed_args.tree:
            return super().run(parsed_args)
        return self.guarded(self._draw, parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """List the slots."""
        survey = self._survey(parsed_args)
        if not parsed_args.servers and not _is_short(parsed_args):
            survey = dataclasses.replace(
                survey, projects=surveys.read_projects(self.app, survey)
            )
        cells = dict(slot_rows.COLUMNS)
        if survey.tree is not None:
            cells.update(slot_rows.PLACEMENT_COLUMNS)
        if survey.cyborg is not None:
            cells.update(slot_rows.CYBORG_COLUMNS)
        chosen: Iterable[str] = cells
        if parsed_args.servers:
            chosen = slot_rows.SERVER_COLUMNS
        elif _is_short(parsed_args):
            chosen = slot_rows.SHORT_COLUMNS
        cells = {c: cells[c] for c in chosen if c in cells}
        return tuple(cells), [
            [self.cell(cell(row), parsed_args) for cell in cells.values()]
            for row in self._rows(survey, parsed_args)
        ]

    def _draw(self, parsed_args: argparse.Namespace) -> int:
        survey = self._survey(parsed_args)
        chosen = self._rows(survey, parsed_args)
        for line in draw_tree(survey.node, chosen):
            print(line, file=self.app.stdout)
        return self.exit_code

    def _survey(self, parsed_args: argparse.Namespace) -> surveys.Survey:
        policy = base.load_inventory(self.app, parsed_args.file)
        reading = host_reader.read_host(self.app, parsed_args)
        tree = surveys.read_optional_tree(
            self.app, parsed_args, reading.system.io_slots
        )
        if parsed_args.servers and tree is None:
            raise exception.ConfigurationError(
                reason='only Placement knows the servers of slots, but it was '
                'not asked. Fill in section [placement] of nova.conf, or '
                'leave out --servers'
            )
        survey = surveys.read_survey(
            self.app, parsed_args, policy, reading, tree
        )
        if parsed_args.unconfirmed:
            self._note_unconfirmed(survey.node, parsed_args)
        if not parsed_args.cyborg:
            return survey
        try:
            facts = self._ask_cyborg(parsed_args, tree)
        except exception.PowerVMError as error:
            self.complain(f'{error} The output has nothing from Cyborg.')
            self.exit_code = self.trouble
            return survey
        for request in cyborg_slots.unbound_requests(facts.records):
            self.note(
                f'Request {request.uuid} of device profile {request.profile} '
                f'is in state {request.state} without a server. If no server '
                'is being built, remove it: '
                + cyborg_slots.removal_command(request, facts)
            )
        return dataclasses.replace(survey, cyborg=facts)

    def _note_unconfirmed(
        self, host: str, parsed_args: argparse.Namespace
    ) -> None:
        """Print how to end the migrations that wait in vain."""
        try:
            lines = surveys.read_unconfirmed(self.app, parsed_args, host)
        except errors.ComputeApiError as error:
            self.complain(f'{error} Which migrations wait is not known.')
            self.exit_code = self.trouble
            return
        for line in lines:
            self.note(line)

    def _ask_cyborg(
        self, parsed_args: argparse.Namespace, tree: placement_tree.Tree | None
    ) -> cyborg_slots.CyborgFacts:
        """Read the records of Cyborg, and which of their servers are gone.

        :raises exception.PowerVMError: Placement was not asked, or an API
            can't be reached.
        """
        if tree is None:
            raise exception.ConfigurationError(
                reason="Cyborg's slots are found by their providers, but "
                'Placement was not asked. Fill in section [placement] of '
                'nova.conf, or leave out --cyborg'
            )
        access = parsed_args.os_cloud, self.app.config.conf
        records = clouds.CyborgClient(*access).read()
        consumers = cyborg_slots.find_servers(tree, records)
        gone = clouds.NovaClient(*access).find_missing(consumers)
        return cyborg_slots.CyborgFacts(records, gone, parsed_args.os_cloud)

    def _rows(
        self, survey: surveys.Survey, parsed_args: argparse.Namespace
    ) -> list[slot_rows.SlotRow]:
        rows = list(slot_rows.make_rows(survey, pci_ids.read_names()))
        chosen = []
        for name in parsed_args.slot or ():
            named = [
                row
                for row in rows
                if host_reader.is_named(name, row.drc_index, row.location)
            ]
            if not named:
                raise exception.ConfigurationError(
                    reason=f'{survey.reading.source} has no slot {name}. Run '
                    'the command without --slot to list all slots.'
                )
            chosen += named
        shown = [
            row
            for row in rows
            if (row in chosen or not parsed_args.slot)
            and (row.offered or not parsed_args.offered)
        ]
        self._note_moves(shown)
        return shown

    def _note_moves(self, rows: Iterable[slot_rows.SlotRow]) -> None:
        """Print what to do about what moves have left, ready to be copied."""
        slots_of: dict[left_moves.SlotMove, list[str]] = {}
        for row in rows:
            if row.move and row.move.steps:
                named = slots_of.setdefault(row.move, [])
                named.append(slots.format_drc_index(row.drc_index))
        for move, named in slots_of.items():
            which = ', '.join(dict.fromkeys(named))
            for line in (f'Slot {which}, {move.state}:', *move.steps):
                self.note(line)


def _is_short(parsed_args: argparse.Namespace) -> bool:
    """Return whether to show only the columns that fit a terminal."""
    return (
        parsed_args.formatter == 'table'
        and not parsed_args.columns
        and not parsed_args.long
    )


def _add_cyborg_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        'Cyborg',
        'needs a user with the role admin: without --os-cloud and OS_* '
        'variables, the one in section [placement] of nova.conf',
    )
    group.add_argument(
        '--cyborg',
        action='store_true',
        help='ask Cyborg for the state of its slots',
    )
    clouds.add_cloud_option(group)


def draw_tree(node: str, rows: Iterable[slot_rows.SlotRow]) -> Iterator[str]:
    """Draw the tree as it will be after nova-compute's next update.

    :param rows: Rows of slots; those without a provider are left out.
    """
    drawn = [provider for row in rows for provider in _providers(row)]
    yield f'{node} (compute node)'
    for number, lines in enumerate(drawn, start=1):
        first, *others = map(printable.printable, lines)
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
        if entry.action is plan.Action.DELETE:
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
    if known := [text for text in (row.device, row.location) if text]:
        yield ' at '.join(known)


def _describe(traits: Collection[str]) -> str:
    named = sorted(t for t in traits if not names.is_slot_trait(t))
    if generated := len(traits) - len(named):
        named.append(f'and {generated} that say what it is and where')
    return f'traits: {", ".join(named) or "none"}'
