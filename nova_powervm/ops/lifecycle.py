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

"""Making and removing the LPAR of an instance."""

import contextlib
import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.domain import claims
from nova_powervm.domain import partition
from nova_powervm.domain import states
from nova_powervm.ops import devices as device_ops
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import ports

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """What is to be made of an instance.

    :param instance: The instance's uuid.
    :param name: Its name (``instance.name``, not the display name).
    :param memory_mb: Memory of its flavor in MiB.
    :param vcpus: vCPUs of its flavor.
    :param extra_specs: Extra specs of its flavor.
    :param allocations: As Nova hands them over.
    :param remembered: Slot providers that Nova stored with the instance.
    :param power_on: Whether it is started.
    """

    instance: str
    name: str
    memory_mb: int
    vcpus: int
    extra_specs: Mapping[str, str]
    allocations: Mapping[str, Mapping[str, Any]] | None
    remembered: Mapping[str, claims.SlotProvider]
    power_on: bool = True


class LifecycleOps:
    """Makes an LPAR with exactly the allocated slots, and removes it.

    :param partitions: The host's LPARs.
    :param host: Reads the host.
    :param devices: Finds the slots.
    :param proc_units_factor: Processing units per virtual processor.
    """

    def __init__(
        self,
        partitions: ports.Partitions,
        host: host_ops.HostOps,
        devices: device_ops.DeviceOps,
        proc_units_factor: float,
    ) -> None:
        self._partitions = partitions
        self._host = host
        self._devices = devices
        self._factor = proc_units_factor

    def spawn(self, build: Build) -> None:
        """Make and start the LPAR of an instance.

        Nothing is made before all that can be checked was checked. Whatever
        fails later, the LPAR is removed again.

        :raises exception.ClaimFailed: The devices are not there.
        :raises exception.MemorySizeRefused: The memory size can't be given.
        :raises exception.ProcessorsRefused: The processors can't be given.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        spec = self._specify(build)
        lpar = self._existing(spec)
        with contextlib.ExitStack() as undo:
            undo.callback(self._clean_up, build, spec)
            lpar = lpar or self._create(spec)
            _check_slots(lpar, spec)
            if build.power_on:
                self._partitions.power_on(lpar)
            undo.pop_all()

    def destroy(self, instance: str) -> None:
        """Stop and delete the LPAR of an instance; none is fine.

        Its slots become free with it.

        :param instance: The instance's uuid.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        uuid = partition.lpar_uuid(instance)
        lpar = self._partitions.find(uuid)
        if lpar is None:
            LOG.info('Instance %s has no LPAR; nothing to delete.', instance)
            return
        self._remove(lpar)

    def _specify(self, build: Build) -> partition.PartitionSpec:
        """Check what can be checked and say what the LPAR shall be."""
        claimed = self._devices.claim(
            build.instance,
            build.allocations,
            build.extra_specs,
            build.remembered,
        )
        uuid = partition.lpar_uuid(build.instance)
        # The host's sizes never change; its slots do.
        view = self._host.view() if claimed else self._host.last.view
        partition.check_memory(build.memory_mb, view.memory_region_mb)
        return partition.PartitionSpec(
            uuid=uuid,
            name=partition.lpar_name(build.name),
            memory_mb=build.memory_mb,
            vcpus=build.vcpus,
            proc_units=partition.proc_units(
                build.vcpus, self._factor, view.min_units_per_vcpu
            ),
            slots=self._devices.assignments(
                build.instance, uuid, claimed, view
            ),
        )

    def _existing(
        self, spec: partition.PartitionSpec
    ) -> partition.Partition | None:
        """Find what an interrupted build of this instance left behind.

        One that differs is removed if it is off. A running one fails the
        build; it is Nova that removes it then, by destroying the instance.

        :raises exception.PartitionConflict: It runs and differs.
        """
        lpar = self._partitions.find(spec.uuid)
        different = lpar.differences(spec) if lpar else []
        if lpar is None or not different:
            return lpar
        if states.power(lpar.state) is not states.Power.OFF:
            raise exception.PartitionConflict(
                name=spec.name,
                uuid=spec.uuid,
                reason=f'it exists, is {lpar.state} and differs: '
                + '; '.join(different)
                + '. Nova removes it now; build the server again',
            )
        LOG.warning(
            'LPAR %(name)s is left from an interrupted build and differs '
            '(%(how)s); it is made anew.',
            {'name': lpar.name, 'how': '; '.join(different)},
        )
        self._partitions.delete(lpar.uuid)
        return None

    def _create(self, spec: partition.PartitionSpec) -> partition.Partition:
        lost: exception.PowerVMError | None = None
        try:
            self._partitions.create(spec)
        except exception.RestUnreachable as error:
            # The LPAR may have been made although the answer was lost.
            lost = error
        lpar = self._partitions.find(spec.uuid)
        if lpar is None:
            raise lost or exception.PartitionNotFound(uuid=spec.uuid)
        return lpar

    def _remove(self, lpar: partition.Partition) -> None:
        if states.power(lpar.state) is not states.Power.OFF:
            self._partitions.power_off(lpar, hard=True)
        self._partitions.delete(lpar.uuid)

    def _clean_up(self, build: Build, spec: partition.PartitionSpec) -> None:
        """Remove what was made; the first error stays the one reported."""
        try:
            lpar = self._partitions.find(spec.uuid)
            if lpar is None:
                return
            LOG.warning(
                'Instance %(instance)s could not be built; removing LPAR '
                '%(name)s.',
                {'instance': build.instance, 'name': spec.name},
            )
            self._remove(lpar)
        except exception.PowerVMError as error:
            LOG.error(
                'LPAR %(name)s (%(uuid)s) could not be removed after its '
                'build failed: %(error)s. Nova tries once more; see that it '
                'is gone with `pvmctl lpar list`.',
                {'name': spec.name, 'uuid': spec.uuid, 'error': error},
            )


def _check_slots(
    lpar: partition.Partition, spec: partition.PartitionSpec
) -> None:
    different = lpar.slot_differences(spec)
    if different:
        raise exception.DevicesDiffer(
            name=spec.name,
            wanted=_indexes(spec.drc_indexes),
            found=_indexes(lpar.slots),
            reason='; '.join(different),
        )


def _indexes(drc_indexes: Iterable[int]) -> str:
    return ', '.join(f'{index:08X}' for index in sorted(drc_indexes))
