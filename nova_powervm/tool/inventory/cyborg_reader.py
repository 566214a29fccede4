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

"""Reads what Cyborg and Nova tell about Cyborg's slots of a host."""

import argparse
from typing import TYPE_CHECKING

from nova_powervm import exception
from nova_powervm.tool.inventory import accelerator_client
from nova_powervm.tool.inventory import flavor_client
from nova_powervm.tool.inventory import server_client
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import placement_tree

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base


def add_cyborg_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that control the requests to Cyborg.

    :param parser: The parser of the command.
    """
    group = parser.add_argument_group(
        'Cyborg',
        'needs a user with the role admin: without --os-cloud and OS_* '
        'variables, the one in section [placement] of nova.conf',
    )
    group.add_argument(
        '--cyborg',
        action='store_true',
        help='ask Cyborg for the state of its slots',
    )
    flavor_client.add_cloud_option(group)


def read_cyborg(
    app: 'base.App',
    parsed_args: argparse.Namespace,
    tree: placement_tree.Tree | None,
) -> cyborg_slots.CyborgFacts:
    """Read the records of Cyborg, and which of their servers are gone.

    :param app: The application, for its configuration.
    :param parsed_args: Arguments with the option that names the cloud.
    :param tree: The providers of the host.
    :raises exception.PowerVMError: Placement was not asked, or an API can't be
        reached.
    """
    if tree is None:
        raise exception.ConfigurationError(
            reason="Cyborg's slots are found by their providers, but "
            'Placement was not asked. Fill in section [placement] of '
            'nova.conf, or leave out --cyborg'
        )
    conf = app.config.conf
    cloud = parsed_args.os_cloud
    records = accelerator_client.AcceleratorClient(cloud, conf).read()
    servers = server_client.ServerClient(cloud, conf)
    return cyborg_slots.CyborgFacts(
        records,
        servers.find_missing(cyborg_slots.find_servers(tree, records)),
        cloud,
    )
