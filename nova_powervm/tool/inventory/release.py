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

"""Command ``release``."""

import argparse
import textwrap
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing

#: Number of attempts for a provider that others keep changing.
TRIES = 4
TROUBLE = 4
REFUSED = 2

_DESCRIPTION = """\
Release burned one-time-use devices after they have been cleaned.

A one-time-use device is burned when an instance gets it: its provider in
Placement then has the trait HW_PCI_ONE_TIME_USE, total 1, reserved 1 and, once
the instance is gone, used 0. This command sets reserved to 0, so that the
device can be allocated again. It does not clean the device: clean it first.

The command asks the host, too: a device that a partition has is not released,
even if Placement has not allocated it. If the host does not answer, nothing is
released.

Without arguments, the command lists the devices that need cleaning, and leaves
out those that a partition has.

Without --yes, the command asks for confirmation. If standard input is not a
terminal, it changes nothing and exits with code 2.

The command names all slots that are refused, changes nothing, and exits with
code 2 if one of these reasons applies to any of the slots:

"""


class Release(base.Lister):
    """Release burned one-time-use devices after they have been cleaned."""

    examples = """
    # List the devices that need cleaning
    nova-powervm-inventory release

    # Show what would be released
    nova-powervm-inventory release 21010020 --dry-run

    # Release a device in a script that has cleaned it
    nova-powervm-inventory release 21010020 --yes
    """
    trouble = TROUBLE

    def get_description(self) -> str:
        """Return the description, including the reasons for a refusal."""
        lines = [
            textwrap.fill(
                reason, 76, initial_indent='  * ', subsequent_indent='    '
            )
            for reason in releasing.REFUSALS
        ]
        return _DESCRIPTION + '\n'.join(lines)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'which',
            metavar='SLOT|PROVIDER',
            nargs='*',
            help='DRC index of a slot, or name or uuid of its provider',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='show what would be released, without changing anything',
        )
        parser.add_argument(
            '--yes', action='store_true', help='do not ask for confirmation'
        )
        host_reader.add_live_host_options(parser)
        placement_client.add_node_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """List the devices that need cleaning, or release the named ones."""
        placement = placement_client.connect_placement(
            self.app.config.conf, self.app.terminal
        )
        node = parsed_args.node or self.app.config.nodename
        tree = placement.tree(node)
        reading = host_reader.read_host(self.app, parsed_args)
        if not parsed_args.which:
            return self._list_waiting(tree, reading.system.io_slots)
        chosen, refused = _choose(
            parsed_args.which, tree, reading.system.io_slots
        )
        if refused:
            self._refuse(refused, len(parsed_args.which))
            return _table((o, 'not released') for o in chosen)
        if parsed_args.dry_run:
            return _table((o, 'would be released') for o in chosen)
        if not parsed_args.yes and not self._agreed(chosen):
            self.status = REFUSED
            return _table((o, 'not released') for o in chosen)
        return _table([(o, self._release(placement, o)) for o in chosen])

    def _list_waiting(
        self, tree: placement_tree.Tree, io_slots: Collection[slots.Slot]
    ) -> base.Listing:
        waiting = []
        for provider in releasing.find_used_devices(tree):
            try:
                releasing.check_unowned(provider, io_slots)
            except errors.ReleaseRefused as error:
                self.complain(error)
            else:
                waiting.append(provider)
        if not waiting:
            self.note(f'No device of {tree.node} needs cleaning.')
        return _table((o, 'needs cleaning') for o in waiting)

    def _refuse(
        self, refused: Sequence[errors.ReleaseRefused], named: int
    ) -> None:
        for error in refused:
            self.complain(error)
        self.complain(
            f'{len(refused)} of {named} refused, so nothing was changed.'
        )
        self.status = REFUSED

    def _agreed(
        self, chosen: Sequence[placement_tree.PlacementProvider]
    ) -> bool:
        if not self.app.stdin.isatty():
            self.complain(
                'standard input is not a terminal, so the release cannot be '
                'confirmed: give --yes'
            )
            return False
        for provider in chosen:
            print(f'{_slot(provider)}  {provider.name}', file=self.app.stderr)
        self.app.stderr.write(
            f'Have {len(chosen)} device(s) been cleaned, and may the next '
            'instance have them? [y/N] '
        )
        self.app.stderr.flush()
        return self.app.stdin.readline().strip().lower() in ('y', 'yes')

    def _release(
        self,
        placement: placement_client.PlacementClient,
        provider: placement_tree.PlacementProvider,
    ) -> str:
        """Release one device; an error does not stop the others.

        :returns: The outcome, for the table.
        """
        try:
            release(placement, provider)
        except errors.ReleaseRefused as error:
            self.complain(error)
            self.status = self.status or REFUSED
            return 'not released'
        except exception.PowerVMError as error:
            self.complain(f'{provider}: {error}')
            self.status = TROUBLE
            return 'unknown'
        return 'released'


def release(
    placement: placement_client.PlacementClient,
    provider: placement_tree.PlacementProvider,
) -> None:
    """Release one device, on the provider generation that was checked.

    :raises errors.ReleaseRefused: The device must not be released.
    """
    now: placement_tree.PlacementProvider | None = provider
    for _ in range(TRIES):
        if now is None:
            raise errors.ReleaseRefused(
                which=provider, reason='it was deleted meanwhile'
            )
        releasing.check_releasable(now)
        waiting = releasing.make_released_records(now)
        # A write changes the generation, so read the provider again.
        if placement.write_inventory(now, *waiting[0]) and len(waiting) == 1:
            return
        now = placement.provider(provider.uuid)
    raise errors.ReleaseRefused(
        which=provider,
        reason=f'others changed it {TRIES} times meanwhile; try again',
    )


def _choose(
    which: Iterable[str],
    tree: placement_tree.Tree,
    io_slots: Collection[slots.Slot],
) -> tuple[
    list[placement_tree.PlacementProvider], list[errors.ReleaseRefused]
]:
    """Find and check the named providers.

    :returns: The providers that were found, each once, and all refusals.
    """
    chosen: dict[str, placement_tree.PlacementProvider] = {}
    refused = []
    for name in which:
        try:
            provider = releasing.find_provider(name, tree)
            if provider.uuid not in chosen:
                chosen[provider.uuid] = provider
                releasing.check_releasable(provider)
                releasing.check_unowned(provider, io_slots)
        except errors.ReleaseRefused as error:
            refused.append(error)
    return list(chosen.values()), refused


def _table(
    rows: Iterable[tuple[placement_tree.PlacementProvider, str]],
) -> base.Listing:
    return ('Slot', 'Provider', 'UUID', 'Class', 'State'), [
        (
            _slot(provider),
            provider.name,
            provider.uuid,
            ', '.join(sorted(provider.inventory)),
            state,
        )
        for provider, state in rows
    ]


def _slot(provider: placement_tree.PlacementProvider) -> str:
    return slots.format_drc_index(provider.drc_index or 0)
