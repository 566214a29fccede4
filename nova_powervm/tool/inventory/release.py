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
import functools
from collections.abc import Collection

from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import device_changes
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing


class Release(device_changes.DeviceCommand):
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
        check = functools.partial(_check, io_slots)
        chosen = self.choose(parsed_args.which, tree, check)
        if parsed_args.dry_run:
            return device_changes.list_devices(
                (each, 'would be released') for each in chosen
            )
        indexes = slots.format_drc_indexes(o.drc_index or 0 for o in chosen)
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
            functools.partial(
                device_changes.release, client, io_slots=io_slots
            ),
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
        return device_changes.list_devices(waiting)


def _check(
    io_slots: Collection[slots.Slot],
    provider: placement_tree.PlacementProvider,
) -> None:
    releasing.check_releasable(provider)
    releasing.check_on_host(provider, io_slots)
