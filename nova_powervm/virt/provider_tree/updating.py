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

"""Updates Nova's provider tree: refresh, read, assess, ask, plan, write.

Nova reads its providers every five minutes, and deletes a provider without
checking whether it has changed since. Meanwhile its device may have been used,
or reserved by an operator. Therefore outdated providers are read again first.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as keystone
from nova import context as nova_context
from nova import exception as nova_exception
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.devices import plan as plans
from nova_powervm.devices import slot_providers
from nova_powervm.inventory_file import file_reader
from nova_powervm.lpar import partition
from nova_powervm.ops import claiming
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import interfaces
from nova_powervm.ops import plan_log
from nova_powervm.virt.provider_tree import contents
from nova_powervm.virt.provider_tree import placement

LOG = logging.getLogger(__name__)


class ProviderTreeUpdater:
    """Updates a compute node's slot providers to match file and host.

    :param client: nova-compute's report client.
    :param inventory: The inventory file.
    :param placement: Reads allocations.
    :param name_of: Makes the name of a new provider from a DRC index.
    :param additions: What Nova's provider.yaml adds to providers.
    :param slot_claims: Receives the providers after each update.
    :param publishes_locations: Whether providers have traits for the location
        codes of their slots.
    """

    def __init__(
        self,
        client: Any,
        inventory: file_reader.InventoryFile,
        placement: interfaces.Placement,
        name_of: Callable[[int], str],
        additions: Mapping[str, slot_providers.Additions],
        slot_claims: claiming.ClaimOps,
        *,
        publishes_locations: bool = True,
    ) -> None:
        self._client = client
        self._inventory = inventory
        self._placement = placement
        self._name_of = name_of
        self._additions = additions
        self._claims = slot_claims
        self._publishes_locations = publishes_locations
        self._log = plan_log.PlanLog()
        # The published slots when the last cycle began.
        self._published_before: claiming.PublishedSlots | None = None

    def update(
        self, tree: Any, nodename: str, reading: host_ops.Reading
    ) -> plans.Plan:
        """Make a plan, and write it into the tree.

        Do not ask the host, because Nova holds its lock here.

        :param tree: Nova's ProviderTree, changed in place.
        :param nodename: Name of the compute node's provider.
        :param reading: The last reading of the host.
        :returns: The plan.
        :raises exception.OwnersDiffer: Cyborg manages a device that is
            allocated through Nova; only in the first update of a service.
        :raises exception.PlacementUnanswered: Placement did not report what
            has changed.
        """
        assessment = self._assess(tree, nodename, reading)
        allocations = self._placement.get_allocations(assessment.questions)
        assessment = plans.believe_placement(
            assessment, allocations, partition.lpar_uuid
        )
        plan = plans.make_plan(assessment, allocations, self._name_of)
        self._log.log(assessment.facts.policy, plan)
        self._refuse_two_owners(plan)
        providers = contents.apply_plan(tree, nodename, plan)
        self._claims.published = _published(assessment.facts, plan, providers)
        return plan

    def recover_deleted(self, root: str) -> None:
        """Have Nova read its tree again if providers were deleted.

        Nova reads the allocations of each cached provider before it calls the
        driver. If an operator has deleted one of them, every cycle fails for
        up to ``[compute]resource_provider_association_refresh`` seconds. So
        ask Placement if no update was made since the last call. Before the
        first successful update the contents of Nova's cache are unknown, so
        have it read again. Never raise an error.

        :param root: Uuid of the compute node's provider.
        """
        published = self._claims.published
        is_stuck = published is self._published_before
        self._published_before = published
        if not is_stuck:
            return
        uuids = published.providers.keys() | published.others.uuids
        if not published.is_complete or _were_deleted(
            self._client, root, uuids
        ):
            self._client.invalidate_resource_provider(root, cacheonly=True)

    def _assess(
        self, tree: Any, nodename: str, reading: host_ops.Reading
    ) -> plans.Assessment:
        """Assess the providers, after updating those that may be stale."""
        facts = plans.Facts(
            policy=self._inventory.policy,
            io_slots=reading.system.io_slots,
            holdings=reading.holdings,
            descendants=self._read(tree, nodename),
            lost=reading.lost,
            stale_lpars=reading.stale_lpars,
            publishes_locations=self._publishes_locations,
        )
        _verify_empty_inventories(self._client, tree, facts.candidates)
        assessment = plans.assess(facts)
        if not assessment.to_refresh:
            return assessment
        has_changed = _refresh_changed(
            self._client, tree, nodename, assessment.to_refresh
        )
        if not has_changed:
            return assessment
        return plans.assess(
            dataclasses.replace(facts, descendants=self._read(tree, nodename))
        )

    def _read(
        self, tree: Any, nodename: str
    ) -> tuple[slot_providers.Provider, ...]:
        return contents.read_providers(tree, nodename, self._additions)

    def _refuse_two_owners(self, plan: plans.Plan) -> None:
        """Stop a starting service; let a running one continue."""
        if self._claims.published.is_complete or not plan.in_use_by_both:
            return
        raise exception.OwnersDiffer(
            conflicts='; '.join(map(plan_log.describe, plan.in_use_by_both))
        )


def _published(
    facts: plans.Facts,
    plan: plans.Plan,
    providers: Mapping[str, claims.SlotProvider],
) -> claiming.PublishedSlots:
    """Describe the contents of the tree after an update."""
    return claiming.PublishedSlots(
        providers=providers,
        others=claims.OtherProviders(
            cyborg=frozenset(
                provider.uuid
                for provider in facts.descendants
                if provider.is_owned_by_cyborg
            ),
            uuids=frozenset(provider.uuid for provider in facts.descendants)
            - {entry.uuid for entry in plan.entries},
        ),
        one_time_use=plan.one_time_use,
        burned=frozenset(
            entry.uuid for entry in plan.entries if entry.uuid and entry.burned
        ),
    )


def _refresh_changed(
    client: Any,
    tree: Any,
    nodename: str,
    providers: Collection[slot_providers.Provider],
) -> bool:
    """Read the providers again that have changed in Placement.

    Update both Nova's cache and the tree, because Nova then sends their
    difference. Send one request, and three more for each changed provider.

    :param client: nova-compute's report client.
    :param tree: The tree that Nova passed to the driver.
    :param nodename: Name of the compute node's provider.
    :param providers: The providers to check.
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
    outdated = [
        provider.uuid
        for provider in providers
        if tree.data(provider.uuid).generation
        != current[provider.uuid]['generation']
    ]
    if outdated:
        _read_again(client, tree, root, outdated)
    return bool(outdated)


def _were_deleted(client: Any, root: str, uuids: Collection[str]) -> bool:
    """Return whether providers were deleted in Placement, and log it.

    Return False if Placement does not answer: the next cycle asks again.

    :param client: nova-compute's report client.
    :param root: Uuid of the compute node's provider.
    :param uuids: Uuids of the providers after the last update.
    """
    if not uuids:
        return False
    try:
        present = {provider['uuid'] for provider in _providers(client, root)}
    except exception.PlacementUnanswered as error:
        LOG.warning(
            'It is unknown whether providers of this host were deleted: '
            '%(error)s',
            {'error': error},
        )
        return False
    deleted = set(uuids) - present
    if deleted:
        LOG.warning(
            'Placement no longer has these providers of the host: %(uuids)s. '
            'Providers of slots are created again.',
            {'uuids': ', '.join(sorted(deleted))},
        )
    return bool(deleted)


def _verify_empty_inventories(
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
    providers: list[dict[str, Any]] = answer['resource_providers']
    return providers


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
    client: Any, tree: Any, root: str, uuids: Collection[str]
) -> None:
    for uuid in uuids:
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
    for uuid in uuids:
        data = fresh.data(uuid)
        tree.update_inventory(uuid, data.inventory, data.generation)
        tree.update_traits(uuid, data.traits)
        tree.update_aggregates(uuid, data.aggregates)
