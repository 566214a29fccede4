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

"""Reads the moves from or to a host."""

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING

from nova_powervm.devices import slots
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import moves
from nova_powervm.tool.rules import placement_tree

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base


def add_moves(
    app: 'base.App',
    tree: placement_tree.Tree,
    host_slots: Collection[slots.Slot],
) -> placement_tree.Tree:
    """Add the moves of the LPARs that own slots to what was read.

    :param app: The application, for its configuration.
    :param tree: The providers of the node.
    :param host_slots: All slots of the host.
    :raises exception.PowerVMError: Placement can't be read.
    """
    client = placement_client.connect_placement(app.config.conf)
    found = moves.find_moves(tree, host_slots, client.consumer, client.node_of)
    return dataclasses.replace(tree, moves=found)
