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


"""The pairs of adapters that virtual SCSI mappings are on."""

import dataclasses

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import virtual_slots
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Element = content.Element


@dataclasses.dataclass(frozen=True)
class End:
    """One adapter of a pair: whose it is and where it sits."""

    partition: partition_module.Partition
    slot: int

    @property
    def location(self) -> str:
        """The location code, which is the DRC name too."""
        return virtual_slots.location(self.partition, self.slot)


def pair(client: End, server: End, name: str) -> tuple[Element, Element]:
    """Return a new client adapter and a new server adapter.

    :param name: AdapterName of the server adapter.
    """
    values: dict[str, content.Value] = {
        'AdapterName': name,
        'UniqueDeviceID': f'1e{server.location}',
    }
    return (
        _adapter(scsi_mapping.CLIENT, client, server, {}),
        _adapter(scsi_mapping.SERVER, server, client, values),
    )


def set_backing(adapter: Element, name: str) -> None:
    """Write the name of the storage on a server adapter, if there is any."""
    if name:
        content.put(adapter, 'BackingDeviceName', name)
    else:
        content.remove(adapter, ['BackingDeviceName'])
    elements.sort(adapter)


def _adapter(
    name: str, local: End, remote: End, values: dict[str, content.Value]
) -> Element:
    common: dict[str, content.Value] = {
        'AdapterType': name.removesuffix('Adapter'),
        'DynamicReconfigurationConnectorName': local.location,
        'LocationCode': local.location,
        'LocalPartitionID': local.partition.id,
        'RequiredAdapter': False,
        'VariedOn': True,
        scsi_mapping.SLOT: local.slot,
        'RemoteLogicalPartitionID': remote.partition.id,
        'RemoteSlotNumber': remote.slot,
        'ServerLocationCode': remote.location,
    }
    leaves = [content.leaf(*item) for item in (common | values).items()]
    element = content.new(name, *leaves)
    elements.sort(element)
    return element
