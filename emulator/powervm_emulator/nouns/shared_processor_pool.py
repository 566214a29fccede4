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

"""Shared processor pools.

The hypervisor has 64 of them on every system. Nobody configures others than
the default one here, so that their sizes are 0.
"""

from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

KIND = 'SharedProcessorPool'
DEFAULT = 'DefaultPool'
COUNT = 64
_SIZES = (
    'CurrentReservedProcessingUnits',
    'MaximumProcessingUnits',
    'PendingReservedProcessingUnits',
)
_POOL_ID = f'{partition_module.SHARED}/SharedProcessorPoolID'


def derive(
    host: host_module.Host, system: managed_system.System
) -> Iterator[resource.Resource]:
    """Yield the pools of a system, the default one first."""
    members: dict[int, list[content.Element]] = {}
    for partition in host.of_type(partition_module.Partition, system):
        if not partition_module.is_dedicated(partition.element):
            links = members.setdefault(partition.integer(_POOL_ID), [])
            links.append(content.link(partition.event_path))
    for number in range(COUNT):
        yield _pool(system, number, members.get(number, []))


def _pool(
    system: managed_system.System, number: int, links: list[content.Element]
) -> resource.Resource:
    element = content.new(
        KIND,
        content.leaf('PoolID', number),
        content.leaf('AvailableProcUnits', '0.00'),
        content.leaf(
            'PoolName', f'SharedPool{number:02d}' if number else DEFAULT
        ),
    )
    if links:
        section = content.leaf('AssignedPartitions')
        section.extend(links)
        element.append(section)
    for name in _SIZES if number else ():
        element.append(content.leaf(name, '0.00'))
    return resource.Derived(str(number), element, system)


NOUN = noun.Noun(KIND, parents=(managed_system.KIND,), derive=derive)
