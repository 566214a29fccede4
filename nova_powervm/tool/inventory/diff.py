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

"""Command ``diff``."""

import argparse

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import survey as surveys
from nova_powervm.tool.rules import cyborg_differences
from nova_powervm.tool.rules import differences


class Diff(base.Lister):
    """Compare the inventory file, the host and Placement.

    The command changes nothing. Each row is one difference::

      missing  the file and the host offer a device that has no provider in
               Placement
      stale    the driver's provider of a slot that is no longer offered
      changed  the provider's traits, resource class or reserved value are
               not as expected
      replaced the slot shows other ids than those of the card that the
               provider was made for; a card of the same ids cannot be noticed
      foreign  a provider below the node that this driver did not create, and
               that conflicts with a slot
      leaked   an allocation whose instance has no LPAR on this host, or whose
               LPAR does not own the slot; or an LPAR that owns a slot that
               is not allocated to its instance, which may be on another host
      shared   a device that the inventory file and the file of --accelerators
               both identify

    nova-compute resolves the first three kinds in its next update, once a
    minute. A replaced card is reported until you accept it with "restore
    --new-card": until then its device is in quarantine.

    An instance that is being built can look leaked. The slots of a move are no
    difference while its LPAR owns them, or while Nova waits for the user who
    confirms or reverts it. What a move has left is leaked, and the cure is
    that of "show", which asks Nova in the same way.

    With --accelerators, the command also compares the providers of Cyborg's
    slots with that file. cyborg-agent resolves the first three kinds in its
    next periods, once a minute; a slot that is no longer offered goes after it
    was missing three times.

    The exit code is 0 if there are no differences, 3 if there are differences,
    and 4 if the comparison failed.
    """

    examples = """
    # List the differences of this host
    nova-powervm-inventory diff

    # In a script: print only the kinds and slots
    nova-powervm-inventory diff -f value -c Kind -c Slot

    # Compare Cyborg's file and its providers, too
    nova-powervm-inventory diff --accelerators /etc/cyborg/inventory.yaml

    # Use a stored response of the REST API of a host that is down
    nova-powervm-inventory diff --system-xml system.xml --node compute7
    """
    trouble = exit_codes.TROUBLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        base.add_file_option(parser, 'file')
        base.add_accelerators_option(parser)
        clouds.add_cloud_option(parser)
        host_reader.add_host_options(parser)
        placement_client.add_node_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """Read all three and list the differences."""
        policy = base.load_inventory(self.app, parsed_args.file)
        accelerators = (
            base.load_inventory(self.app, parsed_args.accelerators)
            if parsed_args.accelerators
            else None
        )
        reading = host_reader.read_host(self.app, parsed_args, with_lpars=True)
        if not reading.owners_known:
            raise exception.ConfigurationError(
                reason=f'{reading.source} does not report the owners of '
                'slots, so allocations cannot be compared. Add the stored '
                'responses for LogicalPartition and VirtualIOServer.'
            )
        io_slots = reading.system.io_slots
        tree = surveys.read_tree(self.app, parsed_args, io_slots)
        survey = surveys.read_survey(
            self.app, parsed_args, policy, reading, tree
        )
        differing = differences.compare(
            survey.plan, tree, io_slots, reading.lpar_names, survey.slot_moves
        )
        if accelerators is not None:
            cyborgs = cyborg_differences.compare(
                accelerators,
                policy,
                io_slots,
                tree,
                publishes_locations=(
                    self.app.config.settings.publish_location_traits
                ),
            )
            differing = differences.sort_differences([*differing, *cyborgs])
        if not differing:
            self.note(
                f'All is in step: {policy.source}, {reading.source}, and '
                f'{len(tree.slot_providers)} provider(s) of slots below '
                f'{tree.node} in Placement.'
            )
        if differing:
            self.exit_code = exit_codes.DIFFERENCES
        return ('Kind', 'Slot', 'Provider', 'Difference', 'Cure'), [
            (
                str(d.kind),
                ''
                if d.drc_index is None
                else slots.format_drc_index(d.drc_index),
                d.name,
                d.words,
                d.cure,
            )
            for d in differing
        ]
