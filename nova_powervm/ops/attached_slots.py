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

"""Verifies that an existing LPAR owns exactly its instance's slots."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import slots as host_slots
from nova_powervm.lpar import partition
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import instance_spec
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)


class AttachedSlotOps:
    """Compares the slots of LPARs with those of their instances.

    Missing slots that are free are assigned while the LPAR is stopped.
    Additional slots are never removed: somebody assigned them deliberately,
    and the guest may have written to their devices.

    :param partitions: The host's LPARs.
    :param host: Reads the host.
    :param slot_claims: Finds the slots of instances.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        host: host_ops.HostOps,
        slot_claims: claim_ops.ClaimOps,
    ) -> None:
        self._partitions = partitions
        self._host = host
        self._claims = slot_claims

    def find_missing(
        self, instance: instance_spec.InstanceSpec, lpar: partition.Partition
    ) -> tuple[partition.SlotAssignment, ...]:
        """Find the slots that an LPAR lacks, and change nothing.

        Ask the host only if a slot is missing.

        :param lpar: The LPAR as just read.
        :returns: The slots to assign, which the LPAR lacks or does not have
            as required ones.
        :raises exception.SlotsDiffer: The LPAR has an additional slot.
        :raises exception.ClaimFailed: A missing slot is not free, or Nova
            stored fewer slots than the flavor requests.
        """
        wanted = self._wanted(instance)
        gaps = [
            claim for claim in wanted if not lpar.slots.get(claim.drc_index)
        ]
        self.refuse_additional(instance, lpar, wanted)
        if not gaps:
            return ()
        absent = {claim.drc_index for claim in gaps} - set(lpar.slots)
        self._claims.refuse_nova_devices(
            instance.uuid,
            [r for r in instance.requests if r.drc_index in absent],
        )
        return self._claims.assignments(
            instance.uuid, instance.lpar, gaps, self._host.view()
        )

    def refuse_additional(
        self,
        instance: instance_spec.InstanceSpec,
        lpar: partition.Partition,
        wanted: Collection[claims.Claim],
    ) -> None:
        """Refuse an LPAR with a slot that neither Nova nor a move gave it.

        :param wanted: The slots that the instance has.
        :raises exception.SlotsDiffer: The LPAR has an additional slot.
        """
        known = {claim.drc_index for claim in wanted} | instance.moved_slots
        if set(lpar.slots) - known:
            raise _slots_differ(instance, lpar, wanted)

    def assign_missing(
        self,
        instance: instance_spec.InstanceSpec,
        slots: Sequence[partition.SlotAssignment],
    ) -> partition.Partition:
        """Assign missing slots to a stopped LPAR, and read it back.

        Burn one-time-use devices first, in case somebody has released them.

        :param slots: The result of :meth:`find_missing`.
        :returns: The LPAR as the host reports it.
        :raises exception.SlotsDiffer: The host did not assign the slots.
        :raises exception.ClaimFailed: A device cannot be burned; no slot is
            assigned.
        """
        LOG.warning(
            'LPAR %(lpar)s of instance %(instance)s lacks the slots '
            '%(slots)s; assigning them again.',
            {
                'lpar': instance.lpar,
                'instance': instance.uuid,
                'slots': host_slots.format_drc_indexes(
                    slot.drc_index for slot in slots
                ),
            },
        )
        wanted = self._wanted(instance)
        given = {slot.drc_index for slot in slots}
        self._claims.burn(
            instance.uuid, [c for c in wanted if c.drc_index in given]
        )
        lpar = self._partitions.assign(instance.lpar, slots)
        if lpar.slots != dict.fromkeys((c.drc_index for c in wanted), True):
            raise _slots_differ(instance, lpar, wanted)
        return lpar

    def log_missing(self, instance: instance_spec.InstanceSpec) -> None:
        """Log the slots that an LPAR lacks according to the last reading.

        This is for a starting service: change nothing and send no request.
        """
        owned = {
            slot.drc_index
            for slot in self._host.last_or_read().view.io_slots
            if slot.owner_lpar == instance.lpar
        }
        lost = {p.drc_index for p in instance.stored_slots.values()} - owned
        if lost:
            LOG.error(
                'Instance %(instance)s was allocated the slots %(slots)s, but '
                'its LPAR does not have them. Reboot the server hard or start '
                'it to assign those that are free.',
                {
                    'instance': instance.uuid,
                    'slots': host_slots.format_drc_indexes(lost),
                },
            )

    def list_slots(
        self, instance: instance_spec.InstanceSpec
    ) -> tuple[int, ...]:
        """List the slots that an instance has or was allocated.

        If the host does not answer, list only those that Nova knows.
        """
        known = {p.drc_index for p in instance.stored_slots.values()}
        try:
            lpar = self._partitions.find(instance.lpar)
        except exception.PowerVMError as error:
            LOG.warning('LPAR %s cannot be read: %s', instance.lpar, error)
            lpar = None
        return tuple(sorted(known | set(lpar.slots if lpar else ())))

    def _wanted(
        self, instance: instance_spec.InstanceSpec
    ) -> tuple[claims.Claim, ...]:
        return self._claims.stored_claims(
            instance.uuid,
            instance.extra_specs,
            instance.stored_slots,
            instance.requests,
        )


def _slots_differ(
    instance: instance_spec.InstanceSpec,
    lpar: partition.Partition,
    wanted: Iterable[claims.Claim],
) -> exception.SlotsDiffer:
    indexes = {claim.drc_index for claim in wanted}
    return exception.SlotsDiffer(
        instance=instance.uuid,
        name=lpar.name,
        wanted=host_slots.format_drc_indexes(indexes),
        found=host_slots.format_drc_indexes(lpar.slots),
        reason='; '.join(partition.slot_differences(lpar.slots, indexes)),
    )
