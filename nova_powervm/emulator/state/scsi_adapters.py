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


"""Pairs of virtual SCSI adapters: one of a VIOS and one of its client."""

import dataclasses
from collections.abc import Iterable

from nova_powervm.emulator import content
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import mappings
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import system as system_module
from nova_powervm.emulator.state import virtual_slots

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition

_ORDER = (
    'Metadata',
    'AdapterType',
    'DynamicReconfigurationConnectorName',
    'LocationCode',
    'LocalPartitionID',
    'RequiredAdapter',
    'VariedOn',
    'UseNextAvailableSlotID',
    'UseNextAvailableHighSlotID',
    mappings.SLOT,
    'Enabled',
    'AdapterName',
    'BackingDeviceName',
    'RemoteBackingDeviceName',
    'RemoteLogicalPartitionID',
    'RemoteSlotNumber',
    'ServerLocationCode',
    'UniqueDeviceID',
)


@dataclasses.dataclass(frozen=True)
class _End:
    """One adapter of a pair: whose it is and where it sits."""

    partition: Partition
    slot: int

    @property
    def location(self) -> str:
        """The location code, which is the DRC name too."""
        system = self.partition.system
        machine = '.'.join(
            system.text(f'{system_module.MTMS}/{name}')
            for name in ('MachineType', 'Model', 'SerialNumber')
        )
        return f'U{machine}-V{self.partition.id}-C{self.slot}'


def make(
    host: Host,
    vios: Partition,
    client: Partition,
    posted: Element,
) -> tuple[Element, Element]:
    """Return a new client adapter and a new server adapter.

    :param posted: the mapping that a client wants; a slot that it names is
        used, the next one otherwise.
    :raises errors.RestError: a slot is none, or taken, or none is free.
    """
    wanted = content.section(posted, mappings.SERVER)
    server = _End(vios, virtual_slots.choose(host, vios, wanted))
    wanted = content.section(posted, mappings.CLIENT)
    end = _End(client, virtual_slots.choose(host, client, wanted))
    used = (mapping.adapter_name for mapping in mappings.of(vios))
    name = next_name('vhost', used)
    return (
        _adapter(mappings.CLIENT, end, server, {}),
        _adapter(
            mappings.SERVER,
            server,
            end,
            {
                'AdapterName': name,
                'UniqueDeviceID': f'1e{server.location}',
            },
        ),
    )


def next_name(prefix: str, used: Iterable[str]) -> str:
    """Return the first of vhost0, vhost1... that is not used."""
    names = frozenset(used)
    return next(
        name
        for number in range(len(names) + 1)
        if (name := f'{prefix}{number}') not in names
    )


def set_backing(adapter: Element, name: str) -> None:
    """Write the name of the storage on a server adapter, if there is any."""
    if name:
        content.put(adapter, 'BackingDeviceName', name)
    else:
        content.remove(adapter, ['BackingDeviceName'])
    content.sort_children(adapter, _ORDER)


def _adapter(
    name: str, local: _End, remote: _End, values: dict[str, content.Value]
) -> Element:
    common: dict[str, content.Value] = {
        'AdapterType': name.removesuffix('Adapter'),
        'DynamicReconfigurationConnectorName': local.location,
        'LocationCode': local.location,
        'LocalPartitionID': local.partition.id,
        'RequiredAdapter': False,
        'VariedOn': True,
        mappings.SLOT: local.slot,
        'RemoteLogicalPartitionID': remote.partition.id,
        'RemoteSlotNumber': remote.slot,
        'ServerLocationCode': remote.location,
    }
    leaves = [content.leaf(*item) for item in (common | values).items()]
    element = content.new(name, *leaves)
    content.sort_children(element, _ORDER)
    return element
