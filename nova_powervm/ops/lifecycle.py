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

"""Creates and removes an instance: its LPAR, disks and adapters."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import slots
from nova_powervm.lpar import network
from nova_powervm.lpar import partition
from nova_powervm.ops import build_disks
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import disk_use
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import instance_spec
from nova_powervm.ops import interfaces
from nova_powervm.ops import network as network_ops
from nova_powervm.ops import partition_specs
from nova_powervm.ops import removal

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """A fully validated build, except for its image."""

    spec: partition.PartitionSpec
    claimed: Sequence[claims.Claim]
    connections: Sequence[network.Connection]
    # Kept out of repr: it contains the administrator's password.
    iso: bytes | None = dataclasses.field(repr=False)


class LifecycleOps:
    """Creates an LPAR with exactly the allocated slots, and removes it.

    :param partitions: The host's LPARs.
    :param host: Reads the host.
    :param slot_claims: Finds the slots of instances.
    :param disks: The disk driver.
    :param disk_builds: Prepares the disks of builds.
    :param networks: Connects ports.
    :param removals: Removes LPARs.
    :param specs: Specifies LPARs.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        host: host_ops.HostOps,
        slot_claims: claim_ops.ClaimOps,
        disks: disk_interfaces.Disks,
        disk_builds: build_disks.DiskOps,
        networks: network_ops.NetworkOps,
        removals: removal.RemovalOps,
        specs: partition_specs.PartitionSpecs,
    ) -> None:
        self._partitions = partitions
        self._host = host
        self._claims = slot_claims
        self._disks = disks
        self._disk_builds = disk_builds
        self._networks = networks
        self._removal = removals
        self._specs = specs

    def spawn(self, instance: instance_spec.InstanceSpec) -> None:
        """Create and start the LPAR of an instance, with disks and ports.

        Validate the build completely before creating anything. Create the
        disk first, because most failures occur there. Burn one-time-use
        devices last, just before the LPAR gets them. After any failure,
        remove everything that was created.

        :raises exception.ClaimFailed: A device is not available.
        :raises exception.MemorySizeRefused: The host does not support the
            memory size.
        :raises exception.ProcessorsRefused: The host does not support the
            number of processors.
        :raises exception.ImageRefused: No disk can be made from the image.
        :raises exception.ImageDamaged: The image differs from what Glance
            describes.
        :raises exception.DiskInUse: A disk that the instance keeps is in use.
        :raises exception.PortRefused: A port cannot be connected.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        plan = self._plan(instance)
        delete_disks = not instance.keeps_disks
        self._removal.forget_leftover(plan.spec.uuid)
        with self._disk_builds.opened(instance) as disks:
            self._remove_interrupted_build(plan.spec, delete_disks)
            try:
                stored = disks.make(plan.iso)
                self._burn(instance, plan)
                self._create_and_start(instance, plan, stored)
            except BaseException as error:
                LOG.warning(
                    'Instance %(instance)s could not be built; removing what '
                    'was created for LPAR %(name)s.',
                    {'instance': instance.uuid, 'name': plan.spec.name},
                )
                self._removal.remove_failed_build(
                    plan.spec, error, delete_disks=delete_disks
                )
                raise

    def _create_and_start(
        self,
        instance: instance_spec.InstanceSpec,
        plan: _Plan,
        stored: Sequence[disk_interfaces.Stored],
    ) -> None:
        """Create the LPAR, connect its ports and disks, and start it."""
        lpar = self._create(plan.spec)
        _check_slots(lpar, plan.spec)
        LOG.info(
            'Created LPAR %(name)s (%(uuid)s) with the slots: %(slots)s.',
            {
                'name': lpar.name,
                'uuid': lpar.uuid,
                'slots': slots.format_drc_indexes(lpar.slots) or 'none',
            },
            instance_uuid=instance.uuid,
        )
        with instance.plugging():
            self._networks.plug(lpar, plan.connections, instance.marks)
            self._disks.attach(lpar.uuid, stored)
            LOG.info(
                'Attached the disks of LPAR %s.',
                lpar.name,
                instance_uuid=instance.uuid,
            )
        if instance.power_on:
            if instance.keeps_disks:
                # Plugging may have waited for minutes.
                disk_use.check_still_unused(self._disks, lpar.uuid)
            self._partitions.power_on(lpar)
            LOG.info(
                'Started LPAR %s.',
                lpar.name,
                instance_uuid=instance.uuid,
            )

    def destroy(self, instance: str, *, delete_disks: bool = True) -> None:
        """Stop and delete the LPAR of an instance and its disks.

        This frees its slots. Ignore what is already gone.

        :param instance: The instance's uuid.
        :param delete_disks: False to keep its disks.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        uuid = partition.lpar_uuid(instance)
        lpar = self._partitions.find(uuid)
        if lpar is None:
            LOG.info('Instance %s has no LPAR to delete.', instance)
        self._removal.remove(uuid, lpar, delete_disks=delete_disks)
        self._removal.forget_leftover(uuid)

    def check_rebuild(self, instance: instance_spec.InstanceSpec) -> None:
        """Validate a rebuild without changing the present LPAR.

        Nova is about to destroy and rebuild the instance. Check everything
        that :meth:`spawn` checks, the space for its disks, and the whole
        image. Burn its one-time-use devices again if somebody has released
        them: the instance still uses them.

        :raises exception.NoRoom: There is not enough space for its disks.
        :raises exception.PowerVMError: As for :meth:`spawn`.
        """
        plan = self._plan(instance)
        self._disk_builds.check_rebuild(
            instance, None if plan.iso is None else len(plan.iso)
        )
        self._burn(instance, plan)

    def claim(
        self, instance: instance_spec.InstanceSpec
    ) -> tuple[claims.Claim, ...]:
        """Find the slots of an instance, and change nothing.

        :raises exception.ClaimFailed: The allocations do not cover what the
            flavor requests.
        """
        if instance.uses_stored_slots:
            found = self._claims.stored_claims(
                instance.uuid,
                instance.extra_specs,
                instance.stored_slots,
                instance.requests,
            )
            self._claims.check_allocated(instance.uuid, found)
            return found
        return self._claims.claim(
            instance.uuid,
            instance.allocations,
            instance.extra_specs,
            instance.stored_slots,
            instance.requests,
        )

    def _plan(self, instance: instance_spec.InstanceSpec) -> _Plan:
        """Validate a build, except for its image, cheapest checks first.

        The caller opens the image last, and keeps it open.
        """
        self._disk_builds.check(instance)
        self._networks.check(instance.known_ports)
        claimed = self.claim(instance)
        # The sizes of a host never change, but its slots do.
        view = self._host.view() if claimed else self._host.last_or_read().view
        spec = self._specs.make(instance, claimed, view)
        connections = self._networks.connect(instance.known_ports)
        return _Plan(
            spec=spec,
            claimed=claimed,
            connections=connections,
            iso=instance.config_drive
            and instance.config_drive(_owned_slots(spec, view.io_slots)),
        )

    def _burn(self, instance: instance_spec.InstanceSpec, plan: _Plan) -> None:
        """Burn the one-time-use devices if all slots are still available.

        Writing the image may have taken an hour since the slots were
        checked. A missing slot must not cost the other devices.
        """
        if not self._claims.select_one_time_use(plan.claimed):
            return
        self._claims.assignments(
            instance.uuid, plan.spec.uuid, plan.claimed, self._host.view()
        )
        self._claims.burn(instance.uuid, plan.claimed)

    def _remove_interrupted_build(
        self, spec: partition.PartitionSpec, delete_disks: bool
    ) -> None:
        """Remove the remains of an interrupted build of this instance.

        A disk may be incomplete, so none is reused, unless the instance keeps
        the disks that it had on another host. A running LPAR fails
        the build. Nova then removes the LPAR by destroying the instance,
        unless the instance was being evacuated to this host.

        :raises exception.PartitionConflict: The LPAR is running.
        """
        lpar = self._partitions.find(spec.uuid)
        if lpar is None:
            return
        if removal.is_active(lpar):
            raise exception.PartitionConflict(
                name=spec.name,
                uuid=spec.uuid,
                reason=f'it exists and is {lpar.state}. Check with `pvmctl '
                'lpar list` whether Nova removes it now, and remove it if '
                'not; then build or evacuate the server again',
            )
        LOG.warning(
            'LPAR %s is left over from an interrupted build; recreating it.',
            lpar.name,
        )
        self._removal.remove(spec.uuid, lpar, delete_disks=delete_disks)

    def _create(self, spec: partition.PartitionSpec) -> partition.Partition:
        """Create the LPAR and return it as the host reports it."""
        try:
            return self._partitions.create(spec)
        except exception.RestUnreachable:
            # The LPAR may exist although the answer was lost.
            lpar = self._partitions.find(spec.uuid)
            if lpar is None:
                raise
            return lpar


def _owned_slots(
    spec: partition.PartitionSpec, known: Iterable[slots.Slot]
) -> list[slots.Slot]:
    return [slot for slot in known if slot.drc_index in spec.drc_indexes]


def _check_slots(
    lpar: partition.Partition, spec: partition.PartitionSpec
) -> None:
    different = lpar.slot_differences(spec)
    if different:
        raise exception.DevicesDiffer(
            name=spec.name,
            wanted=slots.format_drc_indexes(spec.drc_indexes),
            found=slots.format_drc_indexes(lpar.slots),
            reason='; '.join(different),
        )
