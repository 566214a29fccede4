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

"""Nova's cached providers, brought up to date with Placement.

Nova reads its providers every five minutes, and deletes one without looking
whether it has changed since: a device may have been used meanwhile, or
reserved by an operator.
"""

from collections.abc import Collection
from collections.abc import Iterable
from typing import Any

from keystoneauth1 import exceptions as keystone
from nova import context as nova_context
from nova import exception as nova_exception
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers
from nova_powervm.virt.provider_tree import placement

LOG = logging.getLogger(__name__)


def refresh_changed(
    client: Any,
    tree: Any,
    nodename: str,
    wanted: Collection[slot_providers.Provider],
) -> bool:
    """Read providers anew that have changed in Placement.

    Both Nova's cache and the tree are changed: Nova sends the difference of
    the two afterwards. One request, and three more for each provider that has
    changed.

    :param client: nova-compute's report client.
    :param tree: The tree that Nova handed to its driver.
    :param nodename: Name of the compute node's provider.
    :param wanted: The providers that matter.
    :returns: Whether any had changed.
    :raises exception.PlacementUnanswered: Placement did not answer.
    :raises nova.exception.ResourceProviderUpdateConflict: Slot providers have
        come or gone. Nova then begins the update anew, with all of them.
    """
    root = tree.data(nodename).uuid
    there = {
        provider['uuid']: provider
        for provider in _providers(client, root)
        if provider['parent_provider_uuid'] == root
    }
    _check_members(client, tree, root, there)
    stale = [
        provider.uuid
        for provider in wanted
        if tree.data(provider.uuid).generation
        != there[provider.uuid]['generation']
    ]
    if stale:
        _read_again(client, tree, root, stale)
    return bool(stale)


def invalidate_all(client: Any, root: str) -> None:
    """Have Nova read all of its providers again in the next update.

    :param client: nova-compute's report client.
    :param root: Uuid of the compute node's provider.
    """
    client.invalidate_resource_provider(root, cacheonly=True)


def invalidate_if_deleted(
    client: Any, root: str, known: Collection[str]
) -> None:
    """Have Nova read its tree again if providers are gone in Placement.

    Never raises: an update that fails for this reason is tried again.

    :param client: nova-compute's report client.
    :param root: Uuid of the compute node's provider.
    :param known: Uuids of the providers that the last update left.
    """
    if not known:
        return
    try:
        found = {provider['uuid'] for provider in _providers(client, root)}
    except exception.PlacementUnanswered as error:
        LOG.warning(
            'Whether providers of this host were deleted is not known: '
            '%(error)s',
            {'error': error},
        )
        return
    deleted = set(known) - found
    if deleted:
        LOG.warning(
            'Placement no longer has these providers of the host: %(uuids)s. '
            'Providers of slots are created again.',
            {'uuids': ', '.join(sorted(deleted))},
        )
        invalidate_all(client, root)


def verify_empty_inventories(
    client: Any, tree: Any, providers: Iterable[slot_providers.Provider]
) -> None:
    """Make sure that providers that seem to have no inventory have none.

    If Placement answers with an error when Nova reads an inventory, Nova goes
    on without it and with the right generation: what is reserved would be
    overwritten. One request for each such provider; one that is complete
    costs none.

    :param client: nova-compute's report client.
    :param tree: The tree that Nova handed to its driver.
    :param providers: Direct children of the compute node's provider.
    :raises exception.PlacementUnanswered: Placement did not answer.
    :raises nova.exception.ResourceProviderUpdateConflict: One has inventory.
        Nova then begins the update anew, with what it has.
    """
    for provider in providers:
        if (
            tree.data(provider.uuid).inventory
            or names.slot_of_provider(provider.name) is None
        ):
            continue
        answer = placement.ask(
            client, f'/resource_providers/{provider.uuid}/inventories'
        )
        if answer['inventories']:
            client.invalidate_resource_provider(provider.uuid, cacheonly=True)
            raise nova_exception.ResourceProviderUpdateConflict(
                uuid=provider.uuid,
                generation=tree.data(provider.uuid).generation,
                error=f"Nova did not get the inventory of '{provider.name}'",
            )


def _providers(client: Any, root: str) -> list[dict[str, Any]]:
    answer = placement.ask(client, placement.in_tree(root))
    found: list[dict[str, Any]] = answer['resource_providers']
    return found


def _check_members(
    client: Any, tree: Any, root: str, there: dict[str, dict[str, Any]]
) -> None:
    """Have the update begun anew if slot providers have come or gone."""
    cached = {
        uuid
        for uuid in tree.get_provider_uuids(root)
        if tree.data(uuid).parent_uuid == root
    }
    come = [
        uuid
        for uuid in there.keys() - cached
        if names.slot_of_provider(there[uuid]['name']) is not None
    ]
    gone = cached - there.keys()
    if not come and not gone:
        return
    for uuid in gone:
        client.invalidate_resource_provider(uuid)
    # Nova then reads the whole tree, each provider of it.
    for uuid in (root, *cached & there.keys()):
        client.invalidate_resource_provider(uuid, cacheonly=True)
    raise nova_exception.ResourceProviderUpdateConflict(
        uuid=root,
        generation=tree.data(root).generation,
        error='providers of slots have come or gone: '
        + ', '.join(sorted((*come, *gone))),
    )


def _read_again(
    client: Any, tree: Any, root: str, stale: Collection[str]
) -> None:
    for uuid in stale:
        client.invalidate_resource_provider(uuid, cacheonly=True)
    try:
        fresh = client.get_provider_subtree_and_ensure_root(
            nova_context.get_admin_context(), root
        )
    except (
        nova_exception.NovaException,
        keystone.ClientException,
    ) as error:
        raise exception.PlacementUnanswered(
            request='for changed providers', reason=error
        ) from error
    for uuid in stale:
        data = fresh.data(uuid)
        tree.update_inventory(uuid, data.inventory, data.generation)
        tree.update_traits(uuid, data.traits)
        tree.update_aggregates(uuid, data.aggregates)
