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

"""Updates Nova's provider tree: read, assess, ask, plan, write."""

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import assessment as assessments
from nova_powervm.devices import claims
from nova_powervm.devices import plan as plans
from nova_powervm.devices import slot_providers
from nova_powervm.lpar import partition
from nova_powervm.ops import claiming as claim_ops
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import interfaces
from nova_powervm.ops import plan_log
from nova_powervm.virt.provider_tree import reading
from nova_powervm.virt.provider_tree import stale_providers
from nova_powervm.virt.provider_tree import writing


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
        inventory: interfaces.Inventory,
        placement: interfaces.Placement,
        name_of: Callable[[int], str],
        additions: Mapping[str, slot_providers.Additions],
        slot_claims: claim_ops.ClaimOps,
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
        # What the last update had left when the last cycle began.
        self._left: claim_ops.PublishedSlots | None = None

    def update(
        self, tree: Any, nodename: str, snapshot: host_ops.Snapshot
    ) -> plans.Plan:
        """Make a plan, and write it into the tree.

        Do not ask the host, because Nova holds its lock here.

        :param tree: Nova's ProviderTree, changed in place.
        :param nodename: Name of the compute node's provider.
        :param snapshot: The last reading of the host.
        :returns: The plan.
        :raises exception.OwnersDiffer: Cyborg manages a device that is
            allocated through Nova; only in the first update of a service.
        :raises exception.PlacementUnanswered: Placement did not report what
            has changed.
        """
        assessment = self._assess(tree, nodename, snapshot)
        allocations = self._placement.get_allocations(assessment.questions)
        assessment = assessments.believe_placement(
            assessment, allocations, partition.lpar_uuid
        )
        plan = plans.make_plan(assessment, allocations, self._name_of)
        self._log.log(assessment.facts.policy, plan)
        self._refuse_two_owners(plan)
        providers = writing.apply_plan(tree, nodename, plan)
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
        is_stuck, self._left = published is self._left, published
        if not is_stuck:
            return
        if not published.is_complete:
            stale_providers.invalidate_all(self._client, root)
            return
        stale_providers.invalidate_if_deleted(
            self._client,
            root,
            published.providers.keys() | published.others.uuids,
        )

    def _assess(
        self, tree: Any, nodename: str, snapshot: host_ops.Snapshot
    ) -> assessments.Assessment:
        """Assess the providers, after updating those that may be stale."""
        facts = assessments.Facts(
            policy=self._inventory.policy,
            io_slots=snapshot.system.io_slots,
            holdings=snapshot.holdings,
            descendants=self._read(tree, nodename),
            lost=snapshot.lost,
            stale_lpars=snapshot.stale_lpars,
            publishes_locations=self._publishes_locations,
        )
        stale_providers.verify_empty_inventories(
            self._client, tree, facts.candidates
        )
        assessment = assessments.assess(facts)
        if not assessment.to_refresh:
            return assessment
        changed = stale_providers.refresh_changed(
            self._client, tree, nodename, assessment.to_refresh
        )
        if not changed:
            return assessment
        return assessments.assess(
            dataclasses.replace(facts, descendants=self._read(tree, nodename))
        )

    def _read(
        self, tree: Any, nodename: str
    ) -> tuple[slot_providers.Provider, ...]:
        return reading.read_providers(tree, nodename, self._additions)

    def _refuse_two_owners(self, plan: plans.Plan) -> None:
        """Stop a starting service; let a running one continue."""
        if self._claims.published.is_complete or not plan.in_use_by_both:
            return
        raise exception.OwnersDiffer(
            conflicts='; '.join(map(plan_log.describe, plan.in_use_by_both))
        )


def _published(
    facts: assessments.Facts,
    plan: plans.Plan,
    providers: Mapping[str, claims.SlotProvider],
) -> claim_ops.PublishedSlots:
    """Describe the contents of the tree after an update."""
    return claim_ops.PublishedSlots(
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
