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

"""Slots of an existing LPAR: exactly those of its instance, or none starts."""

from collections.abc import Iterable
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.instance import partition
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import instance_spec
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)


class AttachedSlotOps:
    """Compares LPARs with what their instances have to have.

    What is missing and free is given back while the LPAR is stopped. What is
    too much is not taken away: somebody put it there, and the guest may have
    written to it.

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
        """Find the slots that an LPAR has to be given; nothing is changed.

        The host is asked only if there are any.

        :param lpar: As just read.
        :returns: Slots that are missing, or not required ones, and can be
            given to it.
        :raises exception.SlotsDiffer: It has a slot too many.
        :raises exception.ClaimFailed: A missing slot is not free, or Nova
            stored less than the flavor asks for.
        """
        wanted = self._wanted(instance)
        gaps = [
            claim for claim in wanted if not lpar.slots.get(claim.drc_index)
        ]
        if set(lpar.slots) - {claim.drc_index for claim in wanted}:
            raise _slots_differ(instance, lpar, wanted)
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

    def assign_missing(
        self,
        instance: instance_spec.InstanceSpec,
        slots: Sequence[partition.SlotAssignment],
    ) -> partition.Partition:
        """Give missing slots to a stopped LPAR and read it back.

        Those for one use are burned first, should that have been undone.

        :param slots: What :meth:`find_missing` found.
        :raises exception.SlotsDiffer: The host did not do so.
        :raises exception.ClaimFailed: One can't be burned; nothing is given.
        """
        LOG.warning(
            'LPAR %(lpar)s of instance %(instance)s lacks %(slots)s; giving '
            'them back.',
            {
                'lpar': instance.lpar,
                'instance': instance.uuid,
                'slots': _indexes(slot.drc_index for slot in slots),
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
        """Log what a running instance lacks, by the last reading.

        For a service that starts: it changes nothing and sends no request.
        """
        owned = {
            slot.drc_index
            for slot in self._host.last.view.io_slots
            if slot.owner
            and slot.owner.uuid
            and slot.owner.uuid.upper() == instance.lpar
        }
        lost = {p.drc_index for p in instance.stored_slots.values()} - owned
        if lost:
            LOG.error(
                'Instance %(instance)s was allocated %(slots)s, but its LPAR '
                'does not have them. Reboot it hard, or start it: what is '
                'free is given back then.',
                {'instance': instance.uuid, 'slots': _indexes(lost)},
            )

    def list_slots(
        self, instance: instance_spec.InstanceSpec
    ) -> tuple[int, ...]:
        """Give the slots that an instance has, or was allocated.

        A host that does not answer leaves those that Nova knows of.
        """
        known = {p.drc_index for p in instance.stored_slots.values()}
        try:
            lpar = self._partitions.find(instance.lpar)
        except exception.PowerVMError as error:
            LOG.warning('LPAR %s can not be read: %s', instance.lpar, error)
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
        wanted=_indexes(indexes),
        found=_indexes(lpar.slots),
        reason='; '.join(partition.slot_differences(lpar.slots, indexes)),
    )


def _indexes(drc_indexes: Iterable[int]) -> str:
    return ', '.join(f'{index:08X}' for index in sorted(drc_indexes))
