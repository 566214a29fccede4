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

"""Devices: what is published of them, and who gets which."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from nova_powervm.devices import host
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import ownership
from nova_powervm.devices import planned
from nova_powervm.devices import planning
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.instance import partition
from nova_powervm.ops import burning
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import interfaces
from nova_powervm.ops import lost_allocations
from nova_powervm.ops import plan_log

LOG = logging.getLogger(__name__)

#: Reads providers anew that have changed in Placement since Nova read them;
#: gives all direct children of the compute node's provider.
Freshen = Callable[
    [Collection[slot_providers.Provider]], Iterable[slot_providers.Provider]
]


class DeviceOps:
    """Publishes the host's slots and finds those that an instance gets.

    :param inventory: The inventory file, which has been read.
    :param placement: Answers who holds an allocation.
    :param name_of: Makes the name of a new provider from a DRC index.
    """

    def __init__(
        self,
        inventory: interfaces.Inventory,
        placement: interfaces.Placement,
        name_of: Callable[[int], str],
    ) -> None:
        self._inventory = inventory
        self._burns = burning.BurnOps(placement)
        # DRC indexes of the devices that are for one use.
        self._once: frozenset[int] = frozenset()
        self._placement = placement
        self._name_of = name_of
        # Replaced as a whole, never changed: spawn reads them in threads.
        self._policy = inventory.policy
        self._providers: Mapping[str, claims.SlotProvider] = {}
        self._others = claims.Others()
        self._evidence = ownership.Evidence()
        self._holding = lost_allocations.HoldingOps(placement)
        self._started = False
        self._published = False
        self._log = plan_log.DeviceLog()

    def refresh(self) -> None:
        """Take a changed inventory file over for the next plan.

        This reads a file, so it has no place under Nova's lock.
        """
        self._policy = self._inventory.refresh()

    @property
    def providers(self) -> Mapping[str, claims.SlotProvider]:
        """The slots' providers by uuid, as the last update left them."""
        return self._providers

    @property
    def basis(self) -> tuple[object, ...]:
        """What plans depend on beside the host and the provider tree.

        As long as these are the same objects, so is what is planned.
        """
        return (self._policy, self._evidence.version, self._holding.version)

    def doubt(self) -> None:
        """Have the next update ask what instances are allocated."""
        self._holding.doubt()

    @property
    def published(self) -> bool:
        """Whether an update has been made."""
        return self._published

    def check(self, snapshot: host_ops.Snapshot) -> None:
        """Stop a starting service if two paragraphs take one device.

        It also notes which devices are for one use: Nova may start instances
        before it updates the provider tree for the first time.

        :raises exception.DeviceConflict: Names the devices and paragraphs.
        """
        policy = self._policy
        verdicts = matching.judge(
            policy, snapshot.view.io_slots, snapshot.instance_lpars
        )
        self._once = frozenset(
            verdict.slot.drc_index
            for verdict in verdicts
            if verdict.one_time_use
        )
        conflicts = matching.conflicts(verdicts)
        if conflicts:
            raise exception.DeviceConflict(
                path=policy.source,
                conflicts='; '.join(
                    f'{verdict.slot}: {verdict.reason}'
                    for verdict in conflicts
                ),
            )

    def plan(
        self,
        snapshot: host_ops.Snapshot,
        providers: Sequence[slot_providers.Provider],
        neighbours: ownership.Neighbours | None = None,
        freshen: Freshen | None = None,
        reading: int = 0,
        begun: Callable[[], int] | None = None,
    ) -> planned.Plan:
        """Decide what happens to each slot provider, and log what is new.

        :param snapshot: The last reading of the host.
        :param providers: Direct children of the compute node's provider that
            may be ours.
        :param neighbours: The other providers below it.
        :param freshen: Reads those for one use, and those whose allocations
            decide, anew if they have changed; None if what is given is new.
        :param reading: The number of the last reading.
        :param begun: Gives the number of the last that has begun.
        :raises exception.OwnersDiffer: Only in the first plan of a service:
            what is allocated through us is Cyborg's, too.
        :raises exception.PlacementUnanswered: Placement did not say what has
            changed.
        """
        # The same one to the end, whatever a refresh does meanwhile.
        policy = self._policy
        verdicts = self._judge(
            policy,
            snapshot,
            providers,
            neighbours or ownership.Neighbours(),
            self._holding.verified(snapshot, providers, reading, begun),
        )
        pairing = _pair(matching.devices(verdicts), providers, freshen)
        plan = planning.make_plan(
            pairing,
            self._allocations(pairing),
            self._name_of,
            verdicts,
            ownership.held(snapshot.view.io_slots, snapshot.instance_lpars),
        )
        self._once = plan.one_time_use
        self._log.tell(policy, plan)
        self._refuse_owners(plan)
        return plan

    def _allocations(
        self, pairing: slot_providers.Pairing
    ) -> slot_providers.Allocations:
        asked = pairing.questionable
        if not asked:
            return slot_providers.Allocations({})
        return self._placement.consumers(asked)

    def _refuse_owners(self, plan: planned.Plan) -> None:
        """Stop a starting service; a running one goes on."""
        conflicts = () if self._started else ownership.in_use_by_both(plan)
        if conflicts:
            raise exception.OwnersDiffer(
                conflicts='; '.join(map(plan_log.describe, conflicts))
            )
        self._started = True

    def publish(
        self,
        providers: Mapping[str, claims.SlotProvider],
        accelerators: Iterable[str],
        everything: Collection[str],
    ) -> None:
        """Remember what the provider tree holds after an update.

        :param providers: Uuid to each provider of a slot.
        :param accelerators: Uuids of the tree's providers that are Cyborg's.
        :param everything: Uuids of all that stood below the compute node.
        """
        self._providers = dict(providers)
        strangers = frozenset(everything) - set(providers)
        self._others = claims.Others(frozenset(accelerators), strangers)
        self._published = True

    def claim(
        self,
        instance: str,
        allocations: Mapping[str, Mapping[str, Any]] | None,
        extra_specs: Mapping[str, str],
        remembered: Mapping[str, claims.SlotProvider],
        requests: Sequence[accelerators.Request] = (),
    ) -> tuple[claims.Claim, ...]:
        """Find the slots that an instance gets on this host.

        :param instance: The instance's uuid, for messages.
        :param allocations: As Nova hands them over.
        :param extra_specs: Of the instance's flavor.
        :param remembered: Slot providers that Nova stored with the instance
            when it was claimed; they count before the first update.
        :param requests: Its accelerator requests, whose slots join.
        :raises exception.ClaimFailed: They don't cover what was asked for,
            or Placement does not say that one for one use is its own.
        :raises exception.AcceleratorRefused: A request is for what is Nova's.
        """
        self._evidence.add(requests)
        # An update has all of this host. Those that are remembered may be of
        # the host that an instance is evacuated from.
        providers = self._providers if self._published else remembered
        accelerators.refuse_novas(instance, requests, providers.values())
        own = claims.resolve(
            instance,
            allocations,
            providers,
            claims.requested_amounts(extra_specs),
            self._others,
            self._policy.resource_classes,
            {request.provider_uuid for request in requests},
        )
        found = claims.in_order([*own, *accelerators.claimed(requests)])
        self._burns.check(instance, self.for_one_use(found))
        if found:
            LOG.info(
                'Instance %(instance)s gets %(slots)s.',
                {'instance': instance, 'slots': claims.describe(found)},
            )
        return found

    def belongings(
        self,
        instance: str,
        extra_specs: Mapping[str, str],
        remembered: Mapping[str, claims.SlotProvider],
        requests: Sequence[accelerators.Request] = (),
    ) -> tuple[claims.Claim, ...]:
        """Find the slots that an existing instance has to have.

        It asks nobody, and needs no provider tree: Nova calls the driver for
        instances before it updates the tree for the first time.

        :param instance: The instance's uuid, for messages.
        :param extra_specs: Of the instance's flavor.
        :param remembered: Slot providers that Nova stored with the instance.
        :param requests: Its accelerator requests.
        :raises exception.ClaimFailed: Nova stored less than was asked for.
        """
        self._evidence.add(requests)
        own = claims.stored(
            instance,
            remembered,
            claims.requested_amounts(extra_specs),
            self._policy.resource_classes,
        )
        return claims.in_order([*own, *accelerators.claimed(requests)])

    def refuse_novas(
        self, instance: str, requests: Iterable[accelerators.Request]
    ) -> None:
        """Refuse accelerator requests for what Nova manages.

        :raises exception.AcceleratorRefused: It names both sides.
        """
        accelerators.refuse_novas(instance, requests, self._providers.values())

    def confirm(self, instance: str, wanted: Iterable[claims.Claim]) -> None:
        """Burn claimed devices for one use, just before an LPAR gets them.

        Where two providers stand for a slot, both say that it was used. One
        without inventory can't say anything, and offers nothing.

        :param instance: The instance's uuid, for messages.
        :param wanted: The claims.
        :raises exception.ClaimFailed: Placement does not say that one is
            burned.
        """
        claimed = {c.provider_uuid: c for c in self.for_one_use(wanted)}
        indexes = {claim.drc_index for claim in claimed.values()}
        twins = [
            provider.claim
            for uuid, provider in self._providers.items()
            if provider.drc_index in indexes
            and uuid not in claimed
            and provider.resource_classes
        ]
        self._burns.burn(instance, [*claimed.values(), *twins])

    def for_one_use(
        self, wanted: Iterable[claims.Claim]
    ) -> list[claims.Claim]:
        """Give those of claims whose devices are burned before use.

        Cyborg looks after those of accelerator requests.
        """
        once = self._once
        return [
            claim
            for claim in wanted
            if claim.source is claims.Source.COMPUTE
            and claim.drc_index in once
        ]

    def assignments(
        self,
        instance: str,
        lpar: str,
        wanted: Iterable[claims.Claim],
        view: host.HostView,
    ) -> tuple[partition.SlotAssignment, ...]:
        """Check claimed slots against the host just before they are used.

        :param instance: The instance's uuid, for messages.
        :param lpar: Uuid of its LPAR, which may own the slots already.
        :param wanted: The claims.
        :param view: A fresh reading of the host.
        :raises exception.ClaimFailed: A slot is gone, empty, or not free.
        """
        return tuple(
            _assignment(instance, lpar, claim, view) for claim in wanted
        )

    def _judge(
        self,
        policy: policies.Policy,
        snapshot: host_ops.Snapshot,
        providers: Sequence[slot_providers.Provider],
        neighbours: ownership.Neighbours,
        holdings: lost_allocations.Holdings,
    ) -> tuple[matching.Verdict, ...]:
        host_slots = snapshot.view.io_slots
        return ownership.withhold(
            matching.judge(policy, host_slots, snapshot.instance_lpars),
            self._evidence.of(neighbours),
            ownership.unallocated(host_slots, providers, holdings),
            str(policy.source),
        )


def _pair(
    devices: Collection[matching.Device],
    providers: Iterable[slot_providers.Provider],
    freshen: Freshen | None,
) -> slot_providers.Pairing:
    pairing = slot_providers.pair(devices, providers)
    # Nova deletes a provider without looking whether it has changed.
    hanging = pairing.one_time_use + pairing.questionable
    if freshen and hanging:
        return slot_providers.pair(devices, freshen(hanging))
    return pairing


def _assignment(
    instance: str, lpar: str, claim: claims.Claim, view: host.HostView
) -> partition.SlotAssignment:
    slot = view.slot(claim.drc_index)
    duplicated = slots.duplicated_indexes(view.io_slots)
    reason = (
        slots.Reason('gone', 'the host does not report it')
        if slot is None
        else slots.reason_unavailable(slot, (lpar,), duplicated)
    )
    if slot is None or reason is not None:
        refused = (
            exception.AcceleratorRefused
            if claim.source is claims.Source.ACCELERATOR
            else exception.ClaimFailed
        )
        raise refused(
            instance=instance,
            reason=f'{claim.origin} but it can not be used: {reason}',
        )
    return partition.SlotAssignment(slot.drc_index, slot.bus_group_required)


def namer(nodename: str, style: str) -> Callable[[int], str]:
    """Make the function that names new providers of a node."""
    return lambda drc_index: names.provider_name(nodename, drc_index, style)
