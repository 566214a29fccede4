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

"""Commands ``quarantine`` and ``restore``."""

import argparse
import textwrap

from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import device_changes
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import releasing

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


class Quarantine(device_changes.DeviceCommand):
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


class Restore(device_changes.DeviceCommand):
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
