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

"""Volume groups: where a Virtual I/O Server makes virtual disks.

They are read only so far: their size is the host's disk capacity.
"""

from nova_powervm.emulator import content
from nova_powervm.emulator.state import partition
from nova_powervm.emulator.state import resource

KIND = 'VolumeGroup'

#: Of the groups that a Virtual I/O Server shows without being asked.
_SMALLEST_GB = 0.125


class VolumeGroup(resource.Resource):
    """A volume group of one Virtual I/O Server.

    :param uuid: lower case, as all uuids but those of partitions.
    :param vios: whose group it is.
    :param name: GroupName.
    :param capacity: GroupCapacity in GB.
    :param free: FreeSpace and AvailableSize in GB.
    """

    def __init__(
        self,
        uuid: str,
        vios: partition.Partition,
        name: str,
        capacity: float,
        free: float,
    ) -> None:
        element = content.new(
            KIND,
            content.leaf('AvailableSize', free),
            content.leaf('BackingDeviceCount', 0),
            content.leaf('FreeSpace', free),
            content.leaf('GroupCapacity', capacity),
            content.leaf('GroupName', name),
            content.leaf('GroupState', 'active'),
            content.leaf('MinimumAllocationSize', _SMALLEST_GB),
            content.new('PhysicalVolumes'),
            content.new('VirtualDisks'),
        )
        content.put(element, 'Metadata/Atom/AtomID', uuid)
        super().__init__(KIND, uuid, element, parent=vios)
