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

"""Specifies the LPAR that an instance needs, and checks it."""

from collections.abc import Sequence

from nova_powervm.devices import claims
from nova_powervm.devices import host
from nova_powervm.lpar import partition
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import instance_spec


class PartitionSpecs:
    """Specifies LPARs by the rules of this host.

    :param slot_claims: Verifies slots.
    :param proc_units_factor: Processing units per virtual processor.
    """

    def __init__(
        self, slot_claims: claim_ops.ClaimOps, proc_units_factor: float
    ) -> None:
        self._claims = slot_claims
        self._factor = proc_units_factor

    def make(
        self,
        instance: instance_spec.InstanceSpec,
        claimed: Sequence[claims.Claim],
        view: host.HostView,
    ) -> partition.PartitionSpec:
        """Specify an LPAR, and check that the host can give it all of that.

        :param claimed: The slots that it gets.
        :param view: A fresh reading of the host if there are any.
        :raises exception.MemorySizeRefused: The host does not support the
            memory size.
        :raises exception.ProcessorsRefused: The host does not support the
            number of processors.
        :raises exception.ClaimFailed: A slot is missing, empty or not free.
        """
        uuid = partition.lpar_uuid(instance.uuid)
        partition.check_memory(instance.memory_mb, view.memory_region_mb)
        return partition.PartitionSpec(
            uuid=uuid,
            name=partition.lpar_name(instance.name),
            memory_mb=instance.memory_mb,
            vcpus=instance.vcpus,
            proc_units=partition.proc_units(
                instance.vcpus, self._factor, view.min_units_per_vcpu
            ),
            slots=self._claims.assignments(instance.uuid, uuid, claimed, view),
        )
