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

"""VolumeGroups that world documents describe."""

from collections.abc import Iterable

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.core import units
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.volume_group import model as volume_group
from powervm_emulator.nouns.volume_group import rules
from powervm_emulator.nouns.volume_group import update as volume_group_update

Element = content.Element
Partition = partition_module.Partition
VolumeGroup = volume_group.VolumeGroup
Host = host_module.Host


# pypowervm gives its repositories this name.
_REPOSITORY_NAME = 'vopt'


def build(
    host: Host, vios: Partition, described: Iterable[resource.JSON]
) -> None:
    """Build the volume groups of a Virtual I/O Server.

    :raises core.errors.WorldError: a capture does not exist, or the contents
        of a group exceed its capacity.
    """
    for spec in described:
        made = (
            _build_captured(spec, vios)
            if 'capture' in spec
            else volume_group.described(
                host, vios, spec['name'], float(spec['capacity'])
            )
        )
        host.add(made)
        _fill(host, made, spec)


def _build_captured(spec: resource.JSON, vios: Partition) -> VolumeGroup:
    capture = captures.find(spec['capture'], volume_group.KIND)
    return VolumeGroup(capture.uuid, capture.element, vios)


def _fill(host: Host, group: VolumeGroup, spec: resource.JSON) -> None:
    """Add disks, the media repository and its media to a group."""
    if 'unit' in spec:
        group.put('MinimumAllocationSize', float(spec['unit']))
    if 'disks' in spec or 'media_repository' in spec:
        body = _body(group, spec)
        volume_group_update.prepare(host, group, body).apply()
    if 'free' in spec:
        group.take(group.free - float(spec['free']))


def _body(group: VolumeGroup, spec: resource.JSON) -> Element:
    """Return the update with which a client would create the contents."""
    body = content.copy(group.element)
    disks = content.section(body, volume_group.DISKS)
    for disk in spec.get('disks', ()):
        disks.append(
            content.new(
                volume_group.DISK,
                _size('DiskCapacity', disk['capacity']),
                content.leaf('DiskLabel', 'None'),
                content.leaf('DiskName', disk['name']),
            )
        )
    if 'media_repository' in spec:
        section = content.section(body, volume_group.MEDIA)
        section.append(_described_repository(spec['media_repository']))
    return body


def _described_repository(spec: resource.JSON) -> Element:
    made = volume_group.new_repository(_REPOSITORY_NAME, float(spec['size']))
    media = content.section(made.element, 'OpticalMedia')
    for medium in spec.get('media', ()):
        media.append(
            content.new(
                volume_group.MEDIUM,
                content.leaf('MediaName', medium['name']),
                _size('Size', medium['size']),
            )
        )
    return made.element


def _size(name: str, gigabytes: float) -> Element:
    return content.leaf(name, units.gigabytes(gigabytes))


SCHEMA: resource.JSON = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'name': shapes.ref('name', 'Required without capture.'),
        'capacity': shapes.value(
            'number', 'GB. Required without capture.', exclusiveMinimum=0
        ),
        'free': shapes.value(
            'number',
            'GB; without it what disks and the repository leave.',
            minimum=0,
        ),
        'unit': shapes.ref(
            'gigabytes',
            'GB that the sizes of disks are multiples of '
            '(MinimumAllocationSize); 0.125 without capture.',
        ),
        'disks': shapes.array(
            shapes.record(
                {
                    'name': shapes.value(
                        'string',
                        pattern=rules.name_pattern(rules.MAX_DISK_NAME),
                    ),
                    'capacity': shapes.ref('gigabytes'),
                },
                'A virtual disk that nobody has uploaded anything to.',
                required=['name', 'capacity'],
            )
        ),
        'media_repository': shapes.record(
            {
                'size': shapes.ref('gigabytes'),
                'media': shapes.array(
                    shapes.record(
                        {
                            'name': shapes.value(
                                'string',
                                pattern=rules.name_pattern(
                                    rules.MAX_MEDIA_NAME
                                ),
                            ),
                            'size': shapes.ref('gigabytes'),
                        },
                        required=['name', 'size'],
                    )
                ),
            },
            'One for each Virtual I/O Server; its name is vopt.',
            required=['size'],
        ),
    }
)
