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

"""The slots of an instance: claimed, burned, and listed for messages.

Placement allocates providers to an instance; the claims are the slots that
follow. A burn reserves a one-time-use device just before an LPAR gets it. The
only caller is :meth:`nova_powervm.ops.apply.Execution._write_document`, and
:mod:`nova_powervm.lpar.plan` decides which devices are burned.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import matching
from nova_powervm.devices import one_time_use
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.lpar import spec
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class PublishedSlots:
    """The contents of the provider tree after its last update.

    :param providers: Uuid to slot provider, for all of the host's slots.
    :param others: The other providers below the compute node.
    :param one_time_use: DRC indexes of the one-time-use devices.
    :param burned: Uuids of the providers whose devices are burned.
    :param is_complete: Whether an update has been made since the start.
    """

    providers: Mapping[str, claims.SlotProvider] = dataclasses.field(
        default_factory=dict
    )
    others: claims.OtherProviders = dataclasses.field(
        default_factory=claims.OtherProviders
    )
    one_time_use: frozenset[int] = frozenset()
    burned: frozenset[str] = frozenset()
    is_complete: bool = True


class ClaimOps:
    """Finds the slots of instances.

    :param policy: Returns the policy in force.
    """

    def __init__(self, policy: Callable[[], policies.Policy]) -> None:
        self._policy = policy
        #: Replaced as a whole, never modified: builds read it in threads.
        self.published = PublishedSlots(is_complete=False)

    def check_inventory_conflicts(self, reading: host_ops.Reading) -> None:
        """Refuse to start if two paragraphs identify the same device.

        Also record the one-time-use devices: Nova may start instances before
        it updates the provider tree for the first time.

        :param reading: The first reading of the host.
        :raises exception.DeviceConflict: The error names the devices and the
            paragraphs.
        """
        policy = self._policy()
        verdicts = matching.judge(
            policy, reading.system.io_slots, reading.holdings
        )
        self.published = PublishedSlots(
            one_time_use=one_time_use.find_devices(verdicts), is_complete=False
        )
        conflicts = matching.conflicts(verdicts)
        if conflicts:
            raise exception.DeviceConflict(
                path=policy.source,
                conflicts='; '.join(
                    f'{v.slot}: {v.reason}' for v in conflicts
                ),
            )

    def claim(
        self,
        instance_uuid: str,
        allocations: Mapping[str, Mapping[str, Any]] | None,
        extra_specs: Mapping[str, str],
        stored: Mapping[str, claims.SlotProvider],
        requests: Sequence[accelerators.Request] = (),
    ) -> tuple[claims.Claim, ...]:
        """Find the slots that an instance gets on this host.

        :param instance_uuid: The instance's uuid, for messages.
        :param allocations: As Nova passes them to the driver.
        :param extra_specs: The extra specs of the instance's flavor.
        :param stored: Slot providers that Nova stored with the instance when
            it allocated resources; used before the first update of the tree.
        :param requests: Its accelerator requests, whose slots are added.
        :raises exception.ClaimFailed: The allocations do not cover what the
            flavor requests.
        :raises exception.AcceleratorRefused: A request is for a device that
            Nova manages.
        """
        published = self.published
        # After an update the tree has all providers of this host, while an
        # evacuated instance may have those of its source host.
        providers = published.providers if published.is_complete else stored
        accelerators.refuse_nova_devices(
            instance_uuid, requests, providers.values()
        )
        own = claims.resolve(
            instance_uuid,
            allocations,
            providers,
            claims.requested_amounts(extra_specs),
            published.others,
            self._policy().resource_classes,
            {request.provider_uuid for request in requests},
        )
        of_requests = accelerators.to_claims(requests)
        claimed = claims.sort_by_slot([*own, *of_requests])
        if claimed:
            slot_list = claims.describe(claimed)
            LOG.info(
                'Instance %(instance_uuid)s gets %(slots)s.',
                {'instance_uuid': instance_uuid, 'slots': slot_list},
            )
        return claimed

    def stored_claims(
        self,
        instance_uuid: str,
        extra_specs: Mapping[str, str],
        stored: Mapping[str, claims.SlotProvider],
        requests: Sequence[accelerators.Request] = (),
    ) -> tuple[claims.Claim, ...]:
        """Find the slots that the LPAR of an existing instance must own.

        Use neither Placement nor the provider tree: Nova calls the driver for
        instances before it updates the tree for the first time.

        :param instance_uuid: The instance's uuid, for messages.
        :param extra_specs: The extra specs of the instance's flavor.
        :param stored: Slot providers that Nova stored with the instance.
        :param requests: Its accelerator requests.
        :raises exception.ClaimFailed: Nova stored fewer slots than the flavor
            requests.
        """
        own = claims.resolve_stored(
            instance_uuid,
            stored,
            claims.requested_amounts(extra_specs),
            self._policy().resource_classes,
        )
        return claims.sort_by_slot([*own, *accelerators.to_claims(requests)])

    def wanted_slots(
        self,
        claimed: Iterable[claims.Claim],
        requests: Sequence[accelerators.Request] = (),
    ) -> tuple[spec.WantedSlot, ...]:
        """Describe claimed slots: what to burn first, and why to refuse them.

        :param claimed: The claims of an instance.
        :param requests: Its accelerator requests.
        """
        return tuple(self._wanted_slot(claim, requests) for claim in claimed)

    def _wanted_slot(
        self, claim: claims.Claim, requests: Sequence[accelerators.Request]
    ) -> spec.WantedSlot:
        published = self.published
        burning = one_time_use.select_claims([claim], published.one_time_use)
        burns = one_time_use.expand_to_duplicates(burning, published.providers)
        own = [r for r in requests if r.drc_index == claim.drc_index]
        conflicts = accelerators.describe_conflicts(
            own, published.providers.values()
        )
        return spec.WantedSlot(claim, tuple(burns), '; '.join(conflicts))


class BurnOps:
    """Burns the one-time-use devices that instances are about to get.

    Burning means reserving all inventory of a provider, in Placement and
    nowhere else (specification "One-time-use devices", "Implementation"). It
    is the last step before the LPAR gets the slot, so a build that is refused
    or fails earlier costs no device.

    :param placement: Writes the burns.
    """

    def __init__(self, placement: interfaces.Placement) -> None:
        self._placement = placement

    def check(
        self, instance_uuid: str, burning: Iterable[claims.Claim]
    ) -> None:
        """Verify that Placement answers about devices, and change nothing.

        :param instance_uuid: The instance's uuid.
        :param burning: Claims of one-time-use devices.
        :raises exception.ClaimFailed: It does not.
        """
        try:
            for claim in burning:
                self._is_burned(claim)
        except exception.PlacementUnanswered as error:
            raise _unknown(instance_uuid, error) from error

    def burn(
        self, instance_uuid: str, burning: Sequence[claims.Claim]
    ) -> None:
        """Burn devices, just before an LPAR gets them.

        Skip devices that are burned already, as in a rebuild. Before the first
        of several is burned, Placement must answer about all of them.

        :param instance_uuid: The instance's uuid.
        :param burning: Claims of one-time-use devices.
        :raises exception.ClaimFailed: Placement does not confirm that a
            device is burned; the error names the devices that are burned now.
        """
        burned: list[claims.Claim] = []
        try:
            if len(burning) > 1:
                burning = [c for c in burning if not self._is_burned(c)]
            for claim in burning:
                if self._placement.burn(
                    claim.provider_uuid or '', claim.resource_classes
                ):
                    burned.append(claim)
                    LOG.info(
                        'Burned the one-time-use device in slot %(slot)s for '
                        'instance %(instance_uuid)s.',
                        {'slot': claim, 'instance_uuid': instance_uuid},
                    )
        except exception.PlacementUnanswered as error:
            raise _unknown(instance_uuid, error, burned) from error

    def _is_burned(self, claim: claims.Claim) -> bool:
        return self._placement.is_burned(
            claim.provider_uuid or '', claim.resource_classes
        )


def _unknown(
    instance_uuid: str,
    error: exception.PlacementUnanswered,
    burned: Sequence[claims.Claim] = (),
) -> exception.ClaimFailed:
    """Return the error; it says how to release devices that are burned now."""
    text = public = 'its one-time-use devices cannot be reserved. '
    if burned:
        indexes = sorted({str(claim) for claim in burned})
        text += (
            f'The devices in the slots {", ".join(indexes)} are reserved by '
            'now, although no LPAR has them: give them back with '
            f'`nova-powervm-inventory release {" ".join(indexes)}`. '
        )
    reason = exception.PrivateText(
        f'{text}{error}', f'{public}{error.summary}'
    )
    return exception.ClaimFailed(instance_uuid=instance_uuid, reason=reason)


#: Slot providers by uuid, as Nova stored them with an instance.
Stored = Mapping[str, claims.SlotProvider]


def log_missing(
    instance_uuid: str, stored: Stored, managed: host_values.ManagedSystem
) -> None:
    """Log the slots that the LPAR of an instance lacks, and change nothing.

    :param instance_uuid: The instance's uuid.
    :param managed: The last reading of the host.
    """
    lpar_uuid = partition.lpar_uuid(instance_uuid)
    mine = [s for s in managed.io_slots if s.owner_lpar == lpar_uuid]
    lost = _indexes(stored) - {slot.drc_index for slot in mine}
    if lost:
        LOG.error(
            'Instance %(instance_uuid)s was allocated the slots %(slots)s, '
            'but its LPAR does not have them. Reboot the server hard or start '
            'it to assign those that are free.',
            {
                'instance_uuid': instance_uuid,
                'slots': slots.format_drc_indexes(lost),
            },
        )


def list_slots(
    partitions: interfaces.Partitions, instance_uuid: str, stored: Stored
) -> tuple[int, ...]:
    """List the slots that an instance has or was allocated.

    If the host does not answer, list only the slots that Nova knows.

    :param instance_uuid: The instance's uuid.
    """
    uuid = partition.lpar_uuid(instance_uuid)
    try:
        lpar = partitions.find(uuid)
    except exception.PowerVMError as error:
        LOG.warning('LPAR %s cannot be read: %s', uuid, error)
        lpar = None
    return tuple(sorted(_indexes(stored) | set(lpar.slots if lpar else ())))


def _indexes(stored: Stored) -> set[int]:
    return {provider.drc_index for provider in stored.values()}
