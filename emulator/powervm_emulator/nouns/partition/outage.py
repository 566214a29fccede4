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

"""What happens to partitions when a host loses its power, and later."""

from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.partition import migration
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import power

Host = host_module.Host
Partition = partition_module.Partition


def lose_power(host: Host) -> list[tuple[Partition, str]]:
    """Stop all partitions at once, without asking any.

    :returns: those that start with the host, each with its RMC state.
    """
    starting = []
    for partition in host.of_type(Partition):
        if not partition.is_active:
            continue
        if _starts_with_host(partition):
            starting.append((partition, partition.rmc_state))
        off = partition_module.NOT_ACTIVATED
        power.set_state(host, partition, off, 'inactive')
    migration.interrupt(host)
    return starting


def regain_power(host: Host, starting: list[tuple[Partition, str]]) -> None:
    """Start the partitions that start with the host."""
    for partition, rmc_state in starting:
        running = partition_module.RUNNING
        power.set_state(host, partition, running, rmc_state)


def _starts_with_host(partition: Partition) -> bool:
    return partition.kind == partition_module.VIOS or partition.boolean(
        'IsManagementPartition'
    )
