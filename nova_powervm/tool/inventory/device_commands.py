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

"""Commands ``release``, ``quarantine`` and ``restore``."""

import argparse
import textwrap
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import device_changes
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing

_Provider = placement_tree.Provider

_QUARANTINE = """\
Take devices out of use, for example because they fail.

The provider of each device in Placement gets the trait
CUSTOM_POWERVM_QUARANTINED and one for the reason; then the device is reserved.
It is not offered any more until "restore", even if the inventory file or the
slot changes or nova-compute restarts. A device in use stays with its server.

To quarantine a one-time-use device that was not used yet burns it: afterwards
it has to be released as after a use. The command asks before that.

Reasons:

"""


class DeviceCommand(base.Lister):
    """Changes the named devices one after the other.

    :cvar nargs: How many devices have to be named, as for argparse.
    """

    trouble = exit_codes.TROUBLE
    nargs = '+'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options that all these commands have."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'which',
            metavar='SLOT|PROVIDER',
            nargs=self.nargs,
            help='DRC index of a slot, or name or uuid of its provider',
        )
        placement_client.add_node_option(parser)
        return parser

    def choose(
        self,
        which: Collection[str],
        tree: placement_tree.Tree,
        check: Callable[[_Provider], None] = lambda provider: None,
    ) -> list[_Provider]:
        """Find and check the named devices, each once.

        :returns: None of them if one is refused.
        """
        chosen: dict[str, _Provider] = {}
        refused = 0
        for name in which:
            try:
                provider = releasing.find_provider(name, tree)
                check(provider)
                chosen[provider.uuid] = provider
            except errors.DeviceUnchanged as error:
                self.complain(error)
                refused += 1
        if refused:
            self.exit_code = exit_codes.REFUSED
            self.complain(
                f'{refused} of {len(which)} refused, so nothing was changed.'
            )
            return []
        return list(chosen.values())

    def change_all(
        self,
        chosen: Iterable[_Provider],
        change: Callable[[_Provider], None],
        state: str,
    ) -> base.Listing:
        """Change devices; an error with one does not stop the others."""
        rows = []
        for provider in chosen:
            outcome = state
            try:
                change(provider)
            except errors.DeviceUnchanged as error:
                self.complain(error)
                self.exit_code = self.exit_code or exit_codes.REFUSED
                outcome = 'unchanged'
            except exception.PowerVMError as error:
                self.complain(f'{provider}: {error}')
                self.exit_code = exit_codes.TROUBLE
                outcome = 'unknown'
            rows.append((provider, outcome))
        return _list_devices(rows)


def _list_devices(rows: Iterable[tuple[_Provider, str]]) -> base.Listing:
    """Return the table of devices, each with its state."""
    return ('Slot', 'Provider', 'UUID', 'Allocated to', 'State'), [
        (
            provider.drc_hex,
            provider.name,
            provider.uuid,
            ' '.join(sorted(provider.consumers)),
            state,
        )
        for provider, state in rows
    ]


class Release(DeviceCommand):
    """Release burned one-time-use devices after they have been cleaned.

    A one-time-use device is burned when an instance gets it: its provider in
    Placement then has the trait HW_PCI_ONE_TIME_USE, total 1, reserved 1 and,
    once the instance is gone, used 0. This command sets reserved to 0, so that
    the device can be allocated again. It does not clean the device: clean it
    first.

    The command asks the host, too: a device that a partition has is not
    released, even if Placement has not allocated it, and neither is a card
    with other ids than the burned one ("restore --new-card" accepts it). If
    the host does not answer, nothing is released.

    Without arguments, the command lists the devices that need cleaning, and
    leaves out those that would be refused.

    Without --yes, the command asks for confirmation. If standard input is not
    a terminal, it changes nothing and exits with code 2.

    If any of the named devices is refused, the command names all that are,
    each with its reason, changes nothing, and exits with code 2.
    """

    examples = """
    # List the devices that need cleaning
    nova-powervm-inventory release

    # Show what would be released
    nova-powervm-inventory release 21010020 --dry-run

    # Release a device in a script that has cleaned it
    nova-powervm-inventory release 21010020 --yes
    """
    nargs = '*'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='show what would be released, without changing anything',
        )
        parser.add_argument(
            '--yes', action='store_true', help='do not ask for confirmation'
        )
        host_reader.add_live_host_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """List the devices that need cleaning, or release the named ones."""
        client, tree = placement_client.read_node(self.app, parsed_args)
        io_slots = self._read_slots(parsed_args)
        if not parsed_args.which:
            return self._list_waiting(tree, io_slots)
        chosen = self.choose(
            parsed_args.which,
            tree,
            lambda each: releasing.check_release(each, io_slots),
        )
        if parsed_args.dry_run:
            return _list_devices(
                (each, 'would be released') for each in chosen
            )
        indexes = slots.format_drc_indexes(p.drc_index or 0 for p in chosen)
        question = (
            f'Have the devices {indexes} been cleaned, and may the next '
            'instance have them?'
        )
        if chosen and not parsed_args.yes:
            if not self.is_agreed(question):
                chosen = []
            else:
                # A partition can get a device while the user makes sure.
                io_slots = self._read_slots(parsed_args)
        return self.change_all(
            chosen,
            lambda each: device_changes.release(client, each, io_slots),
            'released',
        )

    def _read_slots(
        self, parsed_args: argparse.Namespace
    ) -> Collection[slots.Slot]:
        return host_reader.read_host(self.app, parsed_args).system.io_slots

    def _list_waiting(
        self, tree: placement_tree.Tree, io_slots: Collection[slots.Slot]
    ) -> base.Listing:
        waiting = []
        for provider in releasing.find_used_devices(tree):
            try:
                releasing.check_on_host(provider, io_slots)
            except errors.DeviceUnchanged as error:
                self.complain(error)
            else:
                waiting.append((provider, 'needs cleaning'))
        if not waiting:
            self.note(f'No device of {tree.node} needs cleaning.')
        return _list_devices(waiting)


class Quarantine(DeviceCommand):
    """Take devices out of use, for example because they fail."""

    examples = """
    # Do not give a failing card to anybody else
    nova-powervm-inventory quarantine 21010020 --reason FAILED
    """

    def get_description(self) -> str:
        """Return the description, including the reasons."""
        return _QUARANTINE + '\n'.join(
            textwrap.indent(f'{code}: {meaning}', '  ')
            for code, meaning in names.QUARANTINE_REASONS.items()
            if code in names.OPERATOR_REASONS
        )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--reason',
            required=True,
            choices=sorted(names.OPERATOR_REASONS),
            help='why',
        )
        parser.add_argument(
            '--yes',
            action='store_true',
            help='do not ask before unused one-time-use devices are burned',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """Mark and reserve the devices."""
        client, tree = placement_client.read_node(self.app, parsed_args)
        chosen = self.choose(parsed_args.which, tree)
        # The reserve will count as the use of these.
        unused = [p for p in chosen if p.one_time_use and not p.reserved]
        indexes = slots.format_drc_indexes(p.drc_index or 0 for p in unused)
        question = (
            f'The one-time-use devices {indexes} were not used yet, and have '
            'to be released after their quarantine as after a use. Go on?'
        )
        if unused and not parsed_args.yes and not self.is_agreed(question):
            chosen = []
        return self.change_all(
            chosen,
            lambda provider: device_changes.quarantine(
                client, provider, parsed_args.reason
            ),
            'in quarantine',
        )


class Restore(DeviceCommand):
    """End the quarantine of devices.

    nova-compute offers them again within minutes. A one-time-use device stays
    burned: clean it, and then use "release".

    nova-compute itself puts a device in quarantine, with the reason REPLACED,
    if its slot shows other ids (vendor, device, subsystem, class or revision)
    than those of its provider. You may have replaced the card or updated its
    firmware; but whoever had the device may have changed them as well. Only
    --new-card ends that: the provider forgets the old ids, and nova-compute
    describes and offers the card that is there now.

    The command asks the host. If it does not answer, nothing is changed.
    """

    examples = """
    # Offer a card again that was repaired
    nova-powervm-inventory restore 21010020

    # Accept a card of another model that was put into a slot on purpose
    nova-powervm-inventory restore 21010020 --new-card
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--new-card',
            action='store_true',
            help='accept a card with other ids than the former one',
        )
        host_reader.add_live_host_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """Replace the marks of the devices."""
        client, tree = placement_client.read_node(self.app, parsed_args)
        io_slots = host_reader.read_host(self.app, parsed_args).system.io_slots
        change, check = (
            (device_changes.accept_card, releasing.check_new_card)
            if parsed_args.new_card
            else (device_changes.restore, releasing.check_same_card)
        )
        return self.change_all(
            self.choose(
                parsed_args.which, tree, lambda each: check(each, io_slots)
            ),
            lambda each: change(client, each, io_slots),
            'restored',
        )
