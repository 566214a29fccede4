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

"""Partition profiles, as HMCs have them and NovaLink has not.

A partition that links to one has it. It follows the configuration of the
partition, as with CurrentProfileSync ``On``, so it is not kept.
"""

from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.nouns.partition import model as partition_module

_TYPE = 'REG_LPAR_PROFILE_TYPE'
# Of a partition whose document does not name it.
_NAME = 'default_profile'
# What a profile has of the sections of its partition.
_WANTED = {
    partition_module.IO: (
        'MaximumVirtualIOSlots',
        'ProfileIOSlots',
        'VirtualOpticonnectPool',
    ),
    partition_module.PROCESSORS: (
        'DedicatedProcessorConfiguration',
        'HasDedicatedProcessors',
        'SharedProcessorConfiguration',
        'SharingMode',
    ),
    partition_module.MEMORY: (
        'DesiredMemory',
        'MaximumMemory',
        'MinimumMemory',
    ),
}
_NAMES = {
    partition_module.IO: 'IOConfigurationInstance',
    partition_module.PROCESSORS: 'ProcessorAttributes',
    partition_module.MEMORY: 'ProfileMemory',
}


def derive(
    _: host_module.Host, partition: partition_module.Partition
) -> Iterator[resource.Resource]:
    """Yield the profile of a partition, if it has one."""
    uuid = partition.profile_uuid
    if not uuid:
        return
    sections = [
        content.new(_NAMES[path], *_copies(partition, path, names))
        for path, names in _WANTED.items()
    ]
    element = content.new(
        partition_module.PROFILE,
        *sections,
        content.leaf(
            'ProfileName', partition.text('DefaultProfileName', _NAME)
        ),
        content.leaf('ProfileType', _TYPE),
    )
    content.identify(element, uuid)
    found = resource.Derived(uuid, element, partition)
    found.uuid = uuid
    yield found


def _copies(
    partition: partition_module.Partition, path: str, names: tuple[str, ...]
) -> Iterator[content.Element]:
    for name in names:
        child = content.find(partition.element, f'{path}/{name}')
        if child is not None:
            yield content.copy(child)


NOUN = noun.Noun(
    partition_module.PROFILE, parents=partition_module.KINDS, derive=derive
)
