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

"""Combines the inventory file, the host and Placement.

It is the plan that nova-compute would make now, so the words in it are the
same that its log has.
"""

import argparse
import dataclasses
from collections.abc import Collection
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nova_powervm import exception
from nova_powervm.devices import plan as planned
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import move_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import service_plan
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
    """State of the devices of one host.

    :param policy: What the inventory file allows.
    :param reading: The host.
    :param node: Name of the compute node.
    :param tree: What Placement holds; None if it was not asked.
    :param plan: What nova-compute would make of it all.
    :param cyborg: What Cyborg and Nova tell about Cyborg's slots; None if they
        were not asked.
    :param leftovers: What moves have to do with slots, by DRC index.
    """

    policy: policies.Policy
    reading: host_reader.HostReading
    node: str
    tree: placement_tree.Tree | None
    plan: planned.Plan
    cyborg: cyborg_slots.CyborgFacts | None = None
    leftovers: Mapping[int, left_moves.Finding] = dataclasses.field(
        default_factory=dict
    )

    @property
    def cyborg_slots(self) -> Mapping[int, cyborg_slots.CyborgSlot]:
        """The slots that Cyborg has, by DRC index."""
        if self.tree is None:
            return {}
        return cyborg_slots.find_slots(self.tree, self.cyborg)

    @property
    def providers(self) -> Mapping[str, placement_tree.PlacementProvider]:
        """The providers below the node in Placement, by UUID."""
        below = self.tree.below if self.tree else ()
        return {provider.uuid: provider for provider in below}


def make_survey(
    policy: policies.Policy,
    reading: host_reader.HostReading,
    tree: placement_tree.Tree | None,
    node: str,
    names: str = 'node',
) -> Survey:
    """Bring together what was read.

    :param policy: What the inventory file allows.
    :param reading: The host.
    :param tree: What Placement holds; None without it. A slot that an
        instance owns then counts as owned by a partition.
    :param node: Name of the compute node.
    :param names: ``[powervm]provider_names``.
    """
    plan = service_plan.plan_as_service(
        policy, reading.system, tree, node, names
    )
    return Survey(policy, reading, node, tree, plan)


def add_placement_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that control the requests to Placement."""
    group = parser.add_argument_group(
        'Placement',
        'used if section [placement] of nova.conf has credentials; with '
        '--system-xml only if --node is given, too',
    )
    choice = group.add_mutually_exclusive_group()
    choice.add_argument(
        '--node',
        metavar='NAME',
        help='name of the compute node (default: [DEFAULT]host in nova.conf)',
    )
    choice.add_argument(
        '--no-placement',
        action='store_true',
        help='do not ask Placement',
    )


def read_tree(
    app: 'base.App',
    parsed_args: argparse.Namespace,
    host_slots: Collection[slots.Slot],
) -> placement_tree.Tree | None:
    """Read the node's providers from Placement, if it is configured.

    :param app: The application, for its configuration.
    :param parsed_args: Arguments with the options of
        :func:`add_placement_options`.
    :param host_slots: All slots of the host, whose moves are read, too.
    :returns: The providers; None if Placement is not configured, or if it
        can't be reached, which is a warning.
    """
    if parsed_args.no_placement or (
        parsed_args.system_xml and not parsed_args.node
    ):
        return None
    node = parsed_args.node or app.config.nodename
    try:
        tree = placement_client.read_node_tree(app, node)
        return move_reader.add_moves(app, tree, host_slots)
    except errors.PlacementNotConfigured as error:
        if parsed_args.node:
            raise
        app.LOG.info('Placement is not asked: %s', error)
    except exception.PowerVMError as error:
        app.warn(f'{error} The output has no data from Placement.')
    return None
