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

"""Devices that flavors can request: from the inventory file or the cloud."""

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import placement_tree

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base


def add_offer_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the source of the offers.

    :param parser: The parser of the command.
    """
    parser.add_argument(
        '--cloud',
        action='store_true',
        help='also ask Placement, with the credentials in nova.conf, for '
        'the devices of this node and the classes and traits of the cloud',
    )
    placement_client.add_node_option(parser)


def read_offers(
    app: 'base.App',
    parsed_args: argparse.Namespace,
    policy: policies.Policy,
    sources: Iterable[Mapping[str, str]],
) -> flavor_lint.DeviceOffers:
    """Read which devices flavors can request.

    :param app: The application, for its configuration.
    :param parsed_args: Arguments with the options of
        :func:`add_offer_options`.
    :param policy: The inventory file.
    :param sources: The extra specs of the flavors; Placement is asked only
        about the classes in them.
    """
    if not parsed_args.cloud:
        return offers_of_file(policy)
    placement = placement_client.connect_placement(app.config.conf)
    tree = placement.tree(parsed_args.node or app.config.nodename)
    ours = _classes(tree) | policy.resource_classes
    asked = {
        name
        for specs in sources
        for group in flavors.read_groups(specs)
        for name in group.resources
        if policies.may_be_device(name)
    }
    offering = {name: placement.offering(name) for name in asked - ours}
    slots = {name for name, found in offering.items() if _has_slot(found)}
    return flavor_lint.DeviceOffers(
        classes=ours | slots,
        traits=placement.associated_traits(),
        devices=tuple(
            flavors.DeviceRequest(name, provider.traits)
            for provider in tree.slot_providers
            for name in provider.inventory
        ),
        foreign=frozenset(n for n, found in offering.items() if found) - slots,
        used_up=frozenset(n for n, found in offering.items() if found == ()),
        whole=True,
        source='the cloud',
    )


def _has_slot(providers: Iterable[str] | None) -> bool:
    return any(
        names.slot_of_provider(name) is not None for name in providers or ()
    )


def offers_of_file(policy: policies.Policy) -> flavor_lint.DeviceOffers:
    """Return the classes that the inventory file offers.

    The file alone does not tell the traits of devices.

    :param policy: The inventory file.
    """
    return flavor_lint.DeviceOffers(
        policy.resource_classes, source=policy.source
    )


def _classes(tree: placement_tree.Tree) -> frozenset[str]:
    return frozenset(
        name for provider in tree.slot_providers for name in provider.inventory
    )
