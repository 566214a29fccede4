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
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.domain import claims
from nova_powervm.domain import host
from nova_powervm.domain import matching
from nova_powervm.domain import names
from nova_powervm.domain import partition
from nova_powervm.domain import planning
from nova_powervm.domain import policy as policies
from nova_powervm.domain import slots
from nova_powervm.ops import burning as burn_ops
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import ports

LOG = logging.getLogger(__name__)


class DeviceOps:
    """Publishes the host's slots and finds those that an instance gets.

    :param policy: What the inventory file allows.
    :param placement: Answers who holds an allocation.
    :param name_of: Makes the name of a new provider from a DRC index.
    :param burns: Looks after devices for one use.
    """

    def __init__(
        self,
        policy: policies.Policy,
        placement: ports.Placement,
        name_of: Callable[[int], str],
        burns: burn_ops.BurnOps,
    ) -> None:
        self._burns = burns
        # DRC indexes of the devices that were for one use in the last plan.
        self._once: frozenset[int] = frozenset()
        self._policy = policy
        self._placement = placement
        self._name_of = name_of
        # Replaced as a whole, never changed: spawn reads them in threads.
        self._providers: Mapping[str, claims.SlotProvider] = {}
        self._others = claims.Others()
        self._published = False
        self._told: Mapping[int, str] = {}

    @property
    def published(self) -> bool:
        """Whether an update has been made."""
        return self._published

    @property
    def provider_uuids(self) -> frozenset[str]:
        """Uuids of the providers that the last update left."""
        return frozenset(self._providers)

    def check(self, snapshot: host_ops.Snapshot) -> None:
        """Stop a starting service if two paragraphs take one device.

        :raises exception.DeviceConflict: Names the devices and paragraphs.
        """
        conflicts = matching.conflicts(self._judge(snapshot))
        if conflicts:
            raise exception.DeviceConflict(
                path=self._policy.source,
                conflicts='; '.join(
                    f'{verdict.slot}: {verdict.reason}'
                    for verdict in conflicts
                ),
            )

    def plan(
        self,
        snapshot: host_ops.Snapshot,
        providers: Iterable[planning.Provider],
        freshen: burn_ops.Freshen | None = None,
    ) -> planning.Plan:
        """Decide what happens to each slot provider, and log what is new.

        What it burns is in the journal when it returns.

        :param snapshot: The last reading of the host.
        :param providers: Direct children of the compute node's provider.
        :param freshen: Reads those for one use anew if they have changed;
            None if what is given is new.
        :raises exception.PlacementUnanswered: Placement did not say what is
            burned.
        :raises exception.JournalUnusable: The journal can't be used.
        """
        verdicts = self._judge(snapshot)
        found = matching.devices(verdicts)
        pairing = planning.pair(found, providers)
        if freshen and pairing.one_time_use:
            pairing = planning.pair(found, freshen(pairing.one_time_use))
        questionable = pairing.questionable
        allocations = (
            self._placement.consumers(questionable)
            if questionable
            else planning.Allocations({})
        )
        system = snapshot.view.uuid
        plan = planning.make_plan(
            pairing,
            allocations,
            self._name_of,
            verdicts,
            self._burns.look(system, pairing),
        )
        self._burns.write_ahead(system, plan)
        self._once = plan.one_time_use
        self._tell(plan)
        return plan

    def publish(
        self,
        providers: Mapping[str, claims.SlotProvider],
        accelerators: Iterable[str],
        everything: Iterable[str],
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
    ) -> tuple[claims.Claim, ...]:
        """Find the slots that an instance was allocated on this host.

        :param instance: The instance's uuid, for messages.
        :param allocations: As Nova hands them over.
        :param extra_specs: Of the instance's flavor.
        :param remembered: Slot providers that Nova stored with the instance
            when it was claimed; they count before the first update.
        :raises exception.ClaimFailed: They don't cover what was asked for.
        """
        return claims.resolve(
            instance,
            allocations,
            # An update has all of this host. Those that are remembered may
            # be of the host that an instance is evacuated from.
            self._providers if self._published else remembered,
            claims.requested_amounts(extra_specs),
            self._others,
            self._policy.resource_classes,
        )

    def confirm(self, instance: str, wanted: Iterable[claims.Claim]) -> None:
        """Make sure that claimed devices for one use are burned.

        :param instance: The instance's uuid, for messages.
        :param wanted: The claims.
        :raises exception.ClaimFailed: One is not, and can't be.
        """
        once = self._once
        self._burns.confirm(
            instance, [claim for claim in wanted if claim.drc_index in once]
        )

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
        self, snapshot: host_ops.Snapshot
    ) -> tuple[matching.Verdict, ...]:
        return matching.judge(
            self._policy, snapshot.view.io_slots, snapshot.instance_lpars
        )

    def _tell(self, plan: planning.Plan) -> None:
        """Log each decision once, until it changes."""
        lines = {
            v.slot.drc_index: f'{v.slot} is not offered: {v.reason}'
            for v in plan.verdicts
            if v.reason
        }
        levels = {
            v.slot.drc_index: logging.ERROR
            for v in matching.conflicts(plan.verdicts)
        }
        for entry in plan.entries:
            lines[entry.drc_index] = _describe(entry)
            if entry.consumers or entry.action is planning.Action.WITHDRAW:
                levels.setdefault(entry.drc_index, logging.WARNING)
        for index, line in lines.items():
            if self._told.get(index) != line:
                LOG.log(levels.get(index, logging.INFO), line)
        self._told = lines


def _assignment(
    instance: str, lpar: str, claim: claims.Claim, view: host.HostView
) -> partition.SlotAssignment:
    slot = view.slot(claim.drc_index)
    duplicated = slots.duplicated_indexes(view.io_slots)
    reason = (
        slots.Reason('gone', 'the host no longer reports it')
        if slot is None
        else slots.reason_unavailable(slot, (lpar,), duplicated)
    )
    if slot is None or reason is not None:
        raise exception.ClaimFailed(
            instance=instance,
            reason=f'slot {claim} was allocated to it but can not be used: '
            f'{reason}',
        )
    return partition.SlotAssignment(slot.drc_index, slot.bus_group_required)


def _describe(entry: planning.Entry) -> str:
    where = f"slot {entry.drc_index:08X} (provider '{entry.name}')"
    offer = ', '.join(entry.resource_classes)
    match entry.action:
        case planning.Action.CREATE | planning.Action.PUBLISH if entry.burned:
            return (
                f'Keeping {where} back: its device is for one use and was '
                'allocated. Clean it when it is free again, then release it '
                f'with `nova-powervm-inventory release {entry.drc_index:08X}`'
            )
        case planning.Action.CREATE | planning.Action.PUBLISH:
            return f'Offering {where} as {offer}'
        case planning.Action.KEEP_CLASS:
            return f'Offering {where} as {offer}: {entry.reason}'
        case planning.Action.DELETE:
            return f'Removing {where}: {entry.reason}'
    cure = (
        f'It is allocated to {", ".join(entry.consumers)}: give the slot back '
        'to the host, or delete the instance'
        if entry.consumers
        else 'It stays until it is free and nobody reserves it'
    )
    return f'Withdrawing {where}: {entry.reason}. {cure}.'


def namer(nodename: str, style: str) -> Callable[[int], str]:
    """Make the function that names new providers of a node."""
    return lambda drc_index: names.provider_name(nodename, drc_index, style)
