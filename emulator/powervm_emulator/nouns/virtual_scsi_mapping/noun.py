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

"""Virtual storage adapters of partitions, which mappings of servers show."""

import functools
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Partition = partition_module.Partition
# By kind of adapter, the mappings that show it.
_SECTIONS = {
    'VirtualSCSIClientAdapter': scsi_mapping.SECTION,
    'VirtualFibreChannelClientAdapter': scsi_mapping.FIBRE_CHANNEL,
}


def derive(
    kind: str, host: host_module.Host, lpar: Partition
) -> Iterator[resource.Resource]:
    """Yield the adapters of one kind that a partition has."""
    seen = set()
    for vios in scsi_mapping.servers(lpar, host):
        for found in content.find_all(vios.element, f'{_SECTIONS[kind]}/*'):
            mapping = scsi_mapping.Mapping(found)
            slot = mapping.client_slot
            # One pair of adapters can have many disks.
            if mapping.client_uuid != lpar.uuid.upper() or slot in seen:
                continue
            seen.add(slot)
            yield resource.Derived(str(slot), _adapter(kind, found), lpar)


def _adapter(kind: str, mapping: content.Element) -> content.Element:
    shown = content.copy(mapping)
    client = content.section(shown, scsi_mapping.CLIENT)
    server = content.section(shown, scsi_mapping.SERVER)
    content.remove(client, ['Metadata', scsi_mapping.SERVER])
    return content.new(kind, *client, server)


NOUNS = tuple(
    noun.Noun(
        kind,
        parents=(partition_module.LPAR,),
        derive=functools.partial(derive, kind),
    )
    for kind in _SECTIONS
)
