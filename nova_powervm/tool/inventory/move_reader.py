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

import argparse
import dataclasses
from collections.abc import Collection
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import server_client
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import moves
from nova_powervm.tool.rules import placement_tree

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base
    from nova_powervm.tool.inventory import host_reader


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


def read_leftovers(
    app: 'base.App',
    parsed_args: argparse.Namespace,
    tree: placement_tree.Tree,
    reading: 'host_reader.HostReading',
) -> Mapping[int, left_moves.Finding]:
    """Find out what moves have to do with the slots of a host.

    Nova's API is asked only if a slot is allocated to a consumer whose LPAR
    does not have it, or if an LPAR is on the wrong side. If the API does not
    answer, that is a warning, and the findings say so.

    :param app: The application, for its configuration.
    :param parsed_args: Arguments that name the cloud and the source of what
        was read of the host.
    :param tree: What Placement holds, with the moves.
    :param reading: The host.
    :returns: DRC index to finding.
    """
    cloud = parsed_args.os_cloud
    host = left_moves.Host(
        tree,
        reading.system.io_slots,
        reading.owners_known and not parsed_args.system_xml,
        cyborg_slots.openstack_command(cloud),
    )
    consumers = left_moves.find_unexplained(tree, reading.system.io_slots)
    if not consumers and not tree.moves.stale_lpars:
        return {}
    try:
        records = _read_records(app, cloud, tree, consumers)
    except errors.ComputeApiError as error:
        app.warn(
            f'{error} Whether allocations of this host are left over from '
            'moves is not known.'
        )
        records = left_moves.NovaRecords(problem=str(error))
    return left_moves.find_leftovers(host, records)


def _read_records(
    app: 'base.App',
    cloud: str | None,
    tree: placement_tree.Tree,
    consumers: Collection[str],
) -> left_moves.NovaRecords:
    """Ask Nova's API.

    :raises errors.ComputeApiError: It does not answer, or refuses to.
    """
    client = server_client.ServerClient(cloud, app.config.conf)
    migrations = client.find_migrations(tree.node, consumers)
    servers = client.read_servers(
        {each.server for each in migrations.values()}
        | {each.instance for each in tree.moves.stale_lpars.values()}
    )
    return left_moves.NovaRecords(migrations, servers)
