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

"""Changes an existing LPAR: in a resize, in its revert, and afterwards.

An instance has one LPAR on each host at most. A resize within a host changes
that LPAR, and never deletes it. In a move between hosts the LPAR of the source
stays, stopped and with its slots, until the move is confirmed.
"""

import functools
from collections.abc import Callable
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import slots as host_slots
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import attached_slots
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import instance_spec
from nova_powervm.ops import interfaces
from nova_powervm.ops import partition_specs
from nova_powervm.ops import power
from nova_powervm.ops import removal

LOG = logging.getLogger(__name__)


class ResizeOps:
    """Gives an LPAR the sizes and slots that its instance has by now.

    :param partitions: The host's LPARs.
    :param host: Reads the host.
    :param slot_claims: Finds and burns slots.
    :param slots: Compares the slots of LPARs with those of their instances.
    :param specs: Specifies LPARs.
    :param disks: The disk driver.
    :param powers: Starts and stops LPARs.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        host: host_ops.HostOps,
        slot_claims: claim_ops.ClaimOps,
        slots: attached_slots.AttachedSlotOps,
        specs: partition_specs.PartitionSpecs,
        disks: disk_interfaces.Disks,
        powers: power.PowerOps,
    ) -> None:
        self._partitions = partitions
        self._host = host
        self._claims = slot_claims
        self._slots = slots
        self._specs = specs
        self._disks = disks
        self._power = powers

    # Before the move

    def check_source(
        self, instance: instance_spec.InstanceSpec
    ) -> partition.Partition:
        """Verify that an instance can leave its present LPAR.

        :returns: The LPAR.
        :raises exception.PartitionNotFound: There is none.
        :raises exception.PartitionNotStartable: The host does not know
            whether it is running.
        :raises exception.SlotsDiffer: It has a slot that somebody else
            assigned, and that the instance would lose.
        """
        lpar = interfaces.require_lpar(self._partitions, instance.lpar)
        power.require_known_state(instance, lpar)
        self._slots.refuse_additional(
            instance, lpar, self._stored_claims(instance)
        )
        return lpar

    def check_target(self, target: instance_spec.InstanceSpec) -> None:
        """Verify that this host can give an instance its new LPAR.

        :param target: The instance with its new flavor and slots.
        :raises exception.ClaimFailed: A slot is not available.
        :raises exception.MemorySizeRefused: The host does not support the
            memory size.
        :raises exception.ProcessorsRefused: The host does not support the
            number of processors.
        """
        self._specs.make(
            target, self._stored_claims(target), self._host.view()
        )

    def check_absent(self, instance: instance_spec.InstanceSpec) -> None:
        """Refuse a move to this host if an LPAR here is in the way.

        :raises exception.PartitionConflict: An LPAR of the instance runs.
        """
        lpar = self._partitions.find(instance.lpar)
        if lpar is not None and removal.is_active(lpar):
            raise exception.PartitionConflict(
                name=lpar.name,
                uuid=lpar.uuid,
                reason=f'it exists on the destination and is {lpar.state}. '
                'Check with `pvmctl lpar list` why, and remove it; never '
                'delete its disks',
            )

    def stop(
        self,
        instance: instance_spec.InstanceSpec,
        timeout: int,
        *,
        drops_swap: bool,
    ) -> None:
        """Stop an instance that is about to move.

        :param timeout: Seconds for its guest to shut down.
        :param drops_swap: Whether to delete its swap disk: only this host can
            unmap it, and it must have another size on the destination.
        """
        self._power.power_off(instance.lpar, timeout)
        if drops_swap:
            self._disks.fit_swap(instance.lpar, None)

    def undo_stop(
        self, instance: instance_spec.InstanceSpec, *, drops_swap: bool
    ) -> None:
        """Let an instance continue that :meth:`stop` failed for."""
        try:
            if drops_swap:
                self._disks.fit_swap(instance.lpar, swap_of(instance))
        finally:
            if instance.power_on:
                self._power.power_on(instance)

    # The move

    def finish(
        self, instance: instance_spec.InstanceSpec, *, keeps_swap: bool
    ) -> None:
        """Give the LPAR of a resize within this host its new form.

        Burn one-time-use devices last, just before the LPAR gets them.

        :param instance: The instance with its new flavor and allocations.
        :param keeps_swap: Whether the swap disk has the same size as before.
        :raises exception.ClaimFailed: A device is not available.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        claimed = self._claims.claim(
            instance.uuid,
            instance.allocations,
            instance.extra_specs,
            instance.stored_slots,
            instance.requests,
        )
        lpar = self._fit(instance, claimed)
        if not keeps_swap:
            self._disks.fit_swap(lpar.uuid, swap_of(instance))
        if instance.power_on:
            self._power.power_on(instance)

    def put_back(
        self, instance: instance_spec.InstanceSpec, *, keeps_swap: bool
    ) -> None:
        """Give an LPAR the form that Nova records, and start it.

        An LPAR that has this form already is not stopped.

        :param instance: The instance with the flavor and the slots to which
            Nova has returned.
        :param keeps_swap: Whether the swap disk is known to be as it should.
        :raises exception.PartitionNotFound: There is no LPAR.
        :raises exception.SlotsDiffer: It has a slot that no move gave it.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        lpar = self._fit(instance, self._stored_claims(instance))
        swap = swap_of(instance)
        if not (keeps_swap or self._disks.swap_fits(lpar.uuid, swap)):
            self._stop_hard(lpar)
            self._disks.fit_swap(lpar.uuid, swap)
        if instance.power_on:
            self._power.power_on(instance)

    def _fit(
        self,
        instance: instance_spec.InstanceSpec,
        claimed: Sequence[claims.Claim],
    ) -> partition.Partition:
        """Change an LPAR, which is stopped for it, unless it fits."""
        lpar = interfaces.require_lpar(self._partitions, instance.lpar)
        power.require_known_state(instance, lpar)
        self._slots.refuse_additional(instance, lpar, claimed)
        spec = self._specs.make(instance, claimed, self._host.view())
        if not lpar.differences(spec):
            return lpar
        LOG.info(
            'Changing LPAR %(name)s: %(differences)s.',
            {
                'name': lpar.name,
                'differences': '; '.join(lpar.differences(spec)),
            },
            instance_uuid=instance.uuid,
        )
        added = [c for c in claimed if c.drc_index not in lpar.slots]
        self._claims.check_allocated(instance.uuid, added)
        self._stop_hard(lpar)
        return self._reshape(
            spec,
            functools.partial(self._claims.burn, instance.uuid, claimed),
        )

    def _stop_hard(self, lpar: partition.Partition) -> None:
        if removal.is_active(lpar):
            self._partitions.power_off(lpar, hard=True)

    def _reshape(
        self, spec: partition.PartitionSpec, burn: Callable[[], None]
    ) -> partition.Partition:
        """Change a stopped LPAR, and verify that it is as specified.

        :param burn: Burns the devices that the LPAR gets.
        :raises exception.DevicesDiffer: It is not.
        """
        try:
            lpar = self._partitions.reshape(spec, burn)
        except exception.RestUnreachable:
            # The change may have been made although the answer was lost.
            found = self._partitions.find(spec.uuid)
            if found is None or found.differences(spec):
                raise
            lpar = found
        different = lpar.differences(spec)
        if different:
            raise exception.DevicesDiffer(
                name=spec.name,
                wanted=host_slots.format_drc_indexes(spec.drc_indexes),
                found=host_slots.format_drc_indexes(lpar.slots),
                reason='; '.join(different),
            )
        return lpar

    def _stored_claims(
        self, instance: instance_spec.InstanceSpec
    ) -> tuple[claims.Claim, ...]:
        return self._claims.stored_claims(
            instance.uuid,
            instance.extra_specs,
            instance.stored_slots,
            instance.requests,
        )


def swap_of(instance: instance_spec.InstanceSpec) -> storage.Disk | None:
    """Return the swap disk that an instance should have."""
    return next(
        (disk for disk in instance.blanks if disk.role == storage.SWAP), None
    )
