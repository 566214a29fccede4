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

"""Brings Nova's cached providers up to date with Placement.

Nova reads its providers every five minutes, and deletes a provider without
checking whether it has changed since. Meanwhile its device may have been used,
or reserved by an operator.
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
    """Read the providers again that have changed in Placement.

    Update both Nova's cache and the tree, because Nova then sends their
    difference. Send one request, and three more for each changed provider.

    :param client: nova-compute's report client.
    :param tree: The tree that Nova passed to the driver.
    :param nodename: Name of the compute node's provider.
    :param wanted: The providers to check.
    :returns: Whether any provider had changed.
    :raises exception.PlacementUnanswered: Placement did not answer.
    :raises nova.exception.ResourceProviderUpdateConflict: Slot providers
        were added or removed. Nova then restarts the update with all of them.
    """
    root = tree.data(nodename).uuid
    current = {
        provider['uuid']: provider
        for provider in _providers(client, root)
        if provider['parent_provider_uuid'] == root
    }
    _check_members(client, tree, root, current)
    stale = [
        provider.uuid
        for provider in wanted
        if tree.data(provider.uuid).generation
        != current[provider.uuid]['generation']
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
    """Have Nova read its tree again if providers were deleted.

    Never raise an error: the next update tries again.

    :param client: nova-compute's report client.
    :param root: Uuid of the compute node's provider.
    :param known: Uuids of the providers after the last update.
    """
    if not known:
        return
    try:
        found = {provider['uuid'] for provider in _providers(client, root)}
    except exception.PlacementUnanswered as error:
        LOG.warning(
            'It is unknown whether providers of this host were deleted: '
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
    """Verify that providers without inventory in the tree really have none.

    If Nova cannot read an inventory, it continues without the inventory but
    with the correct generation, so an update would overwrite reservations.
    Send one request for each provider without inventory.

    :param client: nova-compute's report client.
    :param tree: The tree that Nova passed to the driver.
    :param providers: Direct children of the compute node's provider.
    :raises exception.PlacementUnanswered: Placement did not answer.
    :raises nova.exception.ResourceProviderUpdateConflict: A provider
        has an inventory. Nova then restarts the update with it.
    """
    for provider in providers:
        if (
            provider.inventory
            or names.slot_of_provider(provider.name) is None
            or tree.data(provider.uuid).inventory
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
                error='Nova could not read the inventory of '
                f"'{provider.name}'",
            )


def _providers(client: Any, root: str) -> list[dict[str, Any]]:
    answer = placement.ask(client, placement.in_tree(root))
    found: list[dict[str, Any]] = answer['resource_providers']
    return found


def _check_members(
    client: Any, tree: Any, root: str, current: dict[str, dict[str, Any]]
) -> None:
    """Restart the update if slot providers were added or removed."""
    cached = {
        uuid
        for uuid in tree.get_provider_uuids(root)
        if tree.data(uuid).parent_uuid == root
    }
    added = [
        uuid
        for uuid in current.keys() - cached
        if names.slot_of_provider(current[uuid]['name']) is not None
    ]
    removed = cached - current.keys()
    if not added and not removed:
        return
    for uuid in removed:
        client.invalidate_resource_provider(uuid)
    # Nova then reads the whole tree, each provider of it.
    for uuid in (root, *cached & current.keys()):
        client.invalidate_resource_provider(uuid, cacheonly=True)
    raise nova_exception.ResourceProviderUpdateConflict(
        uuid=root,
        generation=tree.data(root).generation,
        error='slot providers were added or removed: '
        + ', '.join(sorted((*added, *removed))),
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
