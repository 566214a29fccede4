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

"""The command ``diff``."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import plans
from nova_powervm.tool.rules import differences

#: Exit codes; 0 means that all is in step.
DIFFERENCES = 3
TROUBLE = 4


class Diff(base.Lister):
    """Compare the inventory file, the host and Placement.

    Nothing is changed. Each line is one thing that does not agree::

      missing  file and host offer a device, Placement has no provider of it
      stale    a provider of ours whose slot is no longer offered
      changed  traits, class or reserved are not what they should be
      foreign  a provider below the node that this driver did not make; it
               only counts as a difference where it is in the way of a slot
      leaked   an allocation whose instance has no LPAR on this host, or whose
               LPAR does not hold the slot; or an LPAR that holds a slot that
               its instance was not allocated

    The first three go with the next update of nova-compute, once a minute.
    An instance that is being built or moved just now can look leaked.

    The exit code is 0 if all is in step, 3 if there are differences, and 4
    if they could not be compared.
    """

    examples = """
    # What does not agree on this host
    nova-powervm-inventory diff

    # For a script: nothing but the kinds and slots, and the exit code
    nova-powervm-inventory diff -f value -c Kind -c Slot

    # Of a host that is down: a stored answer of its REST API
    nova-powervm-inventory diff --system-xml system.xml --node compute7
    """
    trouble = TROUBLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file',
            metavar='FILE',
            nargs='?',
            help='the inventory file (default: [powervm]inventory_file)',
        )
        host_reader.add_host_options(parser)
        placement_client.add_node_option(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """Read all three and list what does not agree."""
        policy = base.load_inventory(self.app, parsed_args.file)
        reading = host_reader.read_host(self.app, parsed_args, lpars=True)
        if not reading.owners_known:
            raise exception.ConfigurationError(
                reason=f'{reading.source} does not tell who owns the slots, '
                'so nothing can be said of allocations. Give the stored '
                'answers for LogicalPartition and VirtualIOServer, too.'
            )
        tree = placement_client.read_tree(self.app, parsed_args)
        found = differences.compare(
            plans.make(policy, reading.view, tree, self.app.config),
            tree,
            reading.view.io_slots,
            reading.lpars,
        )
        if not found:
            self.note(
                f'All is in step: {policy.source}, {reading.source}, and '
                f'{len(tree.slot_providers)} provider(s) of slots below '
                f'{tree.node} in Placement.'
            )
        self.status = DIFFERENCES if any(d.counts for d in found) else 0
        return ('Kind', 'Slot', 'Provider', 'Difference', 'Cure'), [
            (
                str(d.kind),
                '' if d.drc_index is None else _hex(d.drc_index),
                d.name,
                d.what,
                d.cure,
            )
            for d in found
        ]


def _hex(drc_index: int) -> str:
    return slots.format_drc_index(drc_index)
