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

"""Reads all that commands know of the devices of one host.

The host, Placement, and what Nova and Cyborg tell beside them are brought
together with the inventory file. The plan is the one that nova-compute would
make now, so the words in it are those of its log.
"""

import argparse
import dataclasses
import datetime
from collections.abc import Collection
from collections.abc import Mapping

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import names
from nova_powervm.devices import one_time_use
from nova_powervm.devices import plan as plans
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import conductor
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import unconfirmed_moves


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
    """State of the devices of one host.

    :param reading: The host.
    :param node: Name of the compute node.
    :param tree: What Placement holds; None if it was not asked.
    :param plan: What nova-compute would make of it all.
    :param cyborg: What Cyborg and Nova tell about Cyborg's slots; None if they
        were not asked.
    :param projects: Provider uuid to the project that burned its device, or to
        :data:`devices.one_time_use.UNKNOWN`.
    :param slot_moves: What moves have to do with slots, by DRC index.
    """

    reading: host_reader.HostReading
    node: str
    tree: placement_tree.Tree | None
    plan: plans.Plan
    cyborg: cyborg_slots.CyborgFacts | None = None
    projects: Mapping[str, str] = dataclasses.field(default_factory=dict)
    slot_moves: Mapping[int, left_moves.SlotMove] = dataclasses.field(
        default_factory=dict
    )

    @property
    def cyborg_slots(self) -> Mapping[int, cyborg_slots.CyborgSlot]:
        """The slots that Cyborg has, by DRC index."""
        if self.tree is None:
            return {}
        return cyborg_slots.find_slots(self.tree, self.cyborg)


def make_survey(
    policy: policies.Policy,
    reading: host_reader.HostReading,
    tree: placement_tree.Tree | None,
    node: str,
    settings: options.Settings | None = None,
) -> Survey:
    """Bring together what was read, with the plan that nova-compute makes.

    The service asks Nova which LPARs belong to instances. Here an LPAR belongs
    to an instance if Placement knows the instance as a consumer on this host;
    one that a deleted instance left behind looks foreign.

    :param tree: What Placement holds; None without it: a slot that an
        instance owns then counts as owned by a partition.
    :param settings: The ``[powervm]`` options; None for their defaults.
    """
    settings = settings or options.Settings()
    facts = plans.Facts(
        policy=policy,
        io_slots=reading.system.io_slots,
        holdings=tree.holdings if tree else None,
        descendants=tree.providers if tree else (),
        stale_lpars=tree.moves.stale_lpars if tree else {},
        publishes_locations=settings.publish_location_traits,
    )
    plan = plans.make_plan(
        plans.assess(facts),
        tree.allocations if tree else slot_providers.Allocations({}),
        names.namer(node, settings.provider_names),
    )
    return Survey(reading, node, tree, plan)


def read_survey(
    app: base.App,
    parsed_args: argparse.Namespace,
    policy: policies.Policy,
    reading: host_reader.HostReading,
    tree: placement_tree.Tree | None,
) -> Survey:
    """Ask the services of the cloud about what was read, and plan.

    :param tree: What Placement holds, with the moves; None without it.
    """
    node = parsed_args.node or app.config.nodename
    survey = make_survey(policy, reading, tree, node, app.config.settings)
    if tree is None:
        return survey
    return dataclasses.replace(
        survey, slot_moves=read_slot_moves(app, parsed_args, tree, reading)
    )


def read_projects(app: base.App, survey: Survey) -> Mapping[str, str]:
    """Ask Nova's conductor which projects burned the devices of a host.

    Nothing is asked if none is burned. If the conductor does not answer, that
    is a warning, and the projects are unknown.

    :returns: Provider uuid to the id of the project, or to
        :data:`devices.one_time_use.UNKNOWN`.
    """
    uuids = {entry.uuid for entry in survey.plan.entries if entry.burned}
    below = survey.tree.below if survey.tree else ()
    burned = [provider for provider in below if provider.uuid in uuids]
    try:
        return conductor.Conductor(app.config.conf).name_projects(
            survey.node, burned
        )
    except errors.ConductorUnanswered as error:
        app.warn(str(error))
        return {provider.uuid: one_time_use.UNKNOWN for provider in burned}


def read_tree(
    app: base.App,
    parsed_args: argparse.Namespace,
    io_slots: Collection[slots.Slot],
) -> placement_tree.Tree:
    """Read the node's providers, and the moves of LPARs that own slots.

    :raises exception.PowerVMError: Placement can't be read.
    """
    client, tree = placement_client.read_node(app, parsed_args)
    return dataclasses.replace(
        tree,
        moves=placement_tree.find_moves(
            tree, io_slots, client.consumer, client.node_of
        ),
        additions=app.config.additions,
    )


def read_optional_tree(
    app: base.App,
    parsed_args: argparse.Namespace,
    io_slots: Collection[slots.Slot],
) -> placement_tree.Tree | None:
    """Read the node's providers and moves, if Placement is configured.

    :returns: None if Placement is not configured, or if it can't be reached,
        which is a warning.
    """
    if parsed_args.no_placement or (
        parsed_args.system_xml and not parsed_args.node
    ):
        return None
    try:
        return read_tree(app, parsed_args, io_slots)
    except errors.PlacementNotConfigured as error:
        if parsed_args.node:
            raise
        app.LOG.info('Placement is not asked: %s', error)
    except exception.PowerVMError as error:
        app.warn(f'{error} The output has no data from Placement.')
    return None


def read_slot_moves(
    app: base.App,
    parsed_args: argparse.Namespace,
    tree: placement_tree.Tree,
    reading: host_reader.HostReading,
) -> Mapping[int, left_moves.SlotMove]:
    """Find out what moves have to do with the slots of a host.

    Nova's API is asked only if a slot is allocated to a consumer whose LPAR
    does not have it, or if an LPAR is stale. If the API does not
    answer, that is a warning, and the answers say so.

    :returns: What they have to do with a slot, by DRC index.
    """
    cloud = parsed_args.os_cloud
    consumers = left_moves.find_unexplained(tree, reading.system.io_slots)
    stale = {each.instance_uuid for each in tree.moves.stale_lpars.values()}
    if not consumers and not stale:
        return {}
    host = left_moves.Host(
        tree,
        reading.system.io_slots,
        reading.owners_known and not parsed_args.system_xml,
        cyborg_slots.openstack_command(cloud),
    )
    try:
        nova = clouds.NovaClient(cloud, app.config.conf)
        migrations = nova.find_migrations(tree.node, consumers)
        servers = nova.read_servers(
            {each.server for each in migrations.values() if each.server}
            | stale
        )
    except errors.ComputeApiError as error:
        app.warn(
            f'{error} Whether allocations of this host are left over from '
            'moves is not known.'
        )
        return left_moves.describe_silence(host, str(error))
    return left_moves.judge_moves(host, migrations, servers)


def read_unconfirmed(
    app: base.App, parsed_args: argparse.Namespace, host: str
) -> tuple[str, ...]:
    """Say which migrations to a host wait for a confirmation in vain.

    :raises errors.ComputeApiError: Nova's API does not answer.
    """
    nova = clouds.NovaClient(parsed_args.os_cloud, app.config.conf)
    moves = nova.find_finished(host)
    servers = nova.read_servers(move.server for move in moves)
    now = datetime.datetime.now(datetime.UTC)
    return tuple(unconfirmed_moves.describe_windows(moves, servers, now))
