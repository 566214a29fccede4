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

"""The operating system of a guest, as far as its host shows it."""

import operator

from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.virtual_scsi_mapping import disk_contents
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Host = host_module.Host
Partition = partition_module.Partition

#: How a disk begins that AIX boots from: IBMA, in EBCDIC.
AIX_RECORD = bytes.fromhex('C9C2D4C1')
# In the form of captures and of HMCs; the name ends at the first slash or
# space.
AIX = 'AIX 7.3 7300-02-01-2346'
LINUX = 'Linux/Red Hat 5.14.0-503.11.1.el9_5.ppc64le 9.5'

#: The kinds of storage that a guest can boot from.
DISKS = (scsi_mapping.DISK, scsi_mapping.UNIT, scsi_mapping.VOLUME)


def show(host: Host, partition: Partition) -> None:
    """Show which operating system a partition has booted.

    The host learns its version by RMC, and keeps it. The panel of one with
    AIX is blank.
    """
    if (
        partition.type != partition_module.AIX_LINUX
        or partition.state != partition_module.RUNNING
        or partition.boolean(partition_module.MANAGEMENT)
    ):
        return
    booted = AIX if boots_aix(host, partition) else LINUX
    if booted is AIX:
        partition.put('ReferenceCode', '')
    if (
        partition.rmc_state == partition_module.RMC_ACTIVE
        and partition.text(partition_module.OPERATING_SYSTEM)[:3] != booted[:3]
    ):
        partition.put(partition_module.OPERATING_SYSTEM, booted)


def boots_aix(host: Host, partition: Partition) -> bool:
    """Whether AIX is on the first disk with contents of a partition."""
    length = len(AIX_RECORD)
    begun = [
        (mapping.client_slot or 0, found)
        for vios in scsi_mapping.servers(partition, host)
        for mapping in scsi_mapping.of(vios)
        if mapping.client_uuid == partition.uuid.upper()
        and mapping.kind in DISKS
        and (found := disk_contents.begin(host, vios, mapping, length))
    ]
    begun.sort(key=operator.itemgetter(0))
    return bool(begun) and begun[0][1] == AIX_RECORD
