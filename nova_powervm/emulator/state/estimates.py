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

"""Questions to the hypervisor that change nothing."""

from nova_powervm.emulator.state import jobs
from nova_powervm.emulator.state import system as system_module

# The hypervisor keeps a page table of 1/64 of the maximum memory and some
# more for itself; the true amount depends on the machine.
_PAGE_TABLE_SHARE = 64
_FIXED_MB = 256


class ReservedMemory(jobs.Operation):
    """QueryReservedMemoryRequiredForPartition of a system.

    Parameters: ``DesiredMemory`` and ``MaximumMemory`` in MB. The result
    ``RequiredMemory`` is the desired memory with the hypervisor's overhead.
    """

    target: system_module.System

    def finish(self) -> dict[str, str]:
        """See the base class."""
        desired = self._megabytes('DesiredMemory')
        maximum = self._megabytes('MaximumMemory')
        region = self.target.region_size
        overhead = maximum // _PAGE_TABLE_SHARE + _FIXED_MB
        overhead = -(-overhead // region) * region
        return {
            'RequiredMemory': str(desired + overhead),
            'CurrentAvailableSystemMemory': str(self.target.memory_available),
        }

    def _megabytes(self, name: str) -> int:
        value = self.parameters.get(name, '')
        if not value.isdigit():
            raise jobs.JobError(f'{name} {value!r} is not an amount in MB.')
        return int(value)
