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

"""What is on the storage that a Virtual SCSI mapping has."""

import pathlib

from powervm_emulator.core import contents as contents_module
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.fibre_channel import disks as fibre_channel
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.shared_storage_pool import model as storage_pool
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Host = host_module.Host
Mapping = scsi_mapping.Mapping
Partition = partition_module.Partition


def find(
    host: Host, vios: Partition, mapping: Mapping
) -> contents_module.Content | None:
    """Return the contents of a virtual disk or logical unit, if any."""
    if mapping.kind == scsi_mapping.DISK:
        return host.contents.find(vios.uuid, mapping.udid)
    unit = storage_pool.unit_of(host, vios, mapping.udid)
    if unit is None:
        return None
    return host.site.contents.find(unit.pool.uuid, unit.udid)


def begin(host: Host, vios: Partition, mapping: Mapping, length: int) -> bytes:
    """Return the first bytes of a disk of any kind; none without contents."""
    if mapping.kind == scsi_mapping.VOLUME:
        volume = fibre_channel.find_volume(host, vios, mapping.udid)
        path = pathlib.Path(volume.file) if volume and volume.file else None
    else:
        found = find(host, vios, mapping)
        path = found.path if found else None
    if path is None or not path.is_file():
        return b''
    with path.open('rb') as file:
        return file.read(length)
