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


"""Building the storage that a world document describes."""

from typing import Any

from nova_powervm.emulator import captures
from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import media as media_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import units
from nova_powervm.emulator.state import volume_updates
from nova_powervm.emulator.state import volumes

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition
Spec = dict[str, Any]
VolumeGroup = volumes.VolumeGroup

# pypowervm gives its repositories this name.
_REPOSITORY_NAME = 'vopt'


def build(host: Host, vios: Partition, spec: Spec) -> None:
    """Build the volume groups of a Virtual I/O Server.

    :param spec: the specification of the VIOS.
    :raises errors.WorldError: a capture does not exist, or the contents of
        a group exceed its capacity.
    """
    for group in spec.get('volume_groups', ()):
        made = _captured(group, vios) if 'capture' in group else None
        if made is None:
            made = volumes.described(
                host, vios, group['name'], float(group['capacity'])
            )
        if host.find(volumes.KIND, made.uuid) is not None:
            raise errors.WorldError(
                [f'{volumes.KIND} {made.uuid} is there more than once']
            )
        host.add(made, quiet=True)
        _fill(host, made, group)


def _captured(spec: Spec, vios: Partition) -> VolumeGroup:
    named = spec['capture']
    capture = captures.get(named['file'], named.get('entry', 0), volumes.KIND)
    return VolumeGroup(capture.uuid, vios, capture.element)


def _fill(host: Host, group: VolumeGroup, spec: Spec) -> None:
    """Add disks, the media repository and its media to a group."""
    if 'unit' in spec:
        group.put('MinimumAllocationSize', float(spec['unit']))
    if 'disks' in spec or 'media_repository' in spec:
        try:
            volume_updates.update(host, group, _body(group, spec))
        except errors.RestError as error:
            raise errors.WorldError([error.message]) from error
    if 'free' in spec:
        group.take(group.free - float(spec['free']))


def _body(group: VolumeGroup, spec: Spec) -> Element:
    """Return the update with which a client would create the contents."""
    body = content.copy(group.element)
    disks = content.section(body, volumes.DISKS)
    for disk in spec.get('disks', ()):
        disks.append(
            content.new(
                volumes.DISK,
                _size('DiskCapacity', disk['capacity']),
                content.leaf('DiskLabel', 'None'),
                content.leaf('DiskName', disk['name']),
            )
        )
    if 'media_repository' in spec:
        section = content.section(body, media_module.SECTION)
        section.append(_repository(spec['media_repository']))
    return body


def _repository(spec: Spec) -> Element:
    made = media_module.new_repository(_REPOSITORY_NAME, float(spec['size']))
    media = content.section(made.element, 'OpticalMedia')
    for medium in spec.get('media', ()):
        media.append(
            content.new(
                media_module.MEDIUM,
                content.leaf('MediaName', medium['name']),
                _size('Size', medium['size']),
            )
        )
    return made.element


def _size(name: str, gigabytes: float) -> Element:
    return content.leaf(name, units.gigabytes(gigabytes))
