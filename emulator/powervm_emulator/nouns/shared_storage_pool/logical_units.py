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

"""Making, changing and deleting logical units."""

from collections.abc import Collection

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import units
from powervm_emulator.nouns.shared_storage_pool import model
from powervm_emulator.nouns.shared_storage_pool import usage

Element = content.Element
Host = host_module.Host
LogicalUnit = model.LogicalUnit
Tier = model.Tier
MAX_NAME = 79
_READ_ONLY = (
    'Metadata',
    'UniqueDeviceID',
    'LogicalUnitType',
    'ClonedFrom',
    'InUse',
)
# What a mapping says of the device, and the logical unit does not have.
_OF_MAPPINGS = ('Tag', 'EmulateModel')


def create(host: Host, tier: Tier, body: Element) -> LogicalUnit:
    """Make a logical unit of a posted body, or refuse.

    :raises errors.RestError: hardware would not make it; nothing changed.
    """
    content.remove(body, (*_OF_MAPPINGS, 'UniqueDeviceID', 'InUse'))
    unit = LogicalUnit(tier.pool.new_uuid(), body, tier)
    _describe(unit)
    image = _image(unit)
    _check_name(unit.name)
    check_space(unit, unit.used, 0)
    unit.put('UniqueDeviceID', model.udid_of(tier.pool, unit.type))
    elements.sort(body)
    host.add(unit, detail=model.UNIT)
    tier.pool.units[unit.key] = unit
    if image is not None:
        unit.put('ClonedFrom', image.udid)
        host.site.contents.copy(tier.pool.uuid, image.udid, unit.udid)
    announce(host, tier)
    return unit


def update(
    host: Host, unit: LogicalUnit, body: Element, _groups: groups_module.Groups
) -> None:
    """Give a logical unit the name, size and kind of a body, or refuse.

    :raises errors.RestError: hardware would not; nothing changed.
    """
    content.remove(body, _OF_MAPPINGS)
    content.keep(body, unit.element, _READ_ONLY)
    wanted = LogicalUnit(unit.uuid, body, unit.tier)
    wanted.uploaded, wanted.blocks = unit.uploaded, unit.blocks
    _check_name(wanted.name)
    capacity = units.read(body, 'UnitCapacity')
    if capacity < unit.capacity:
        raise errors.Refused(
            f'The logical unit {unit.name!r} of {unit.capacity:g} GB cannot '
            f'shrink to {capacity:g} GB.'
        )
    wanted.put('UnitCapacity', units.gigabytes(capacity))
    check_space(unit, wanted.used, unit.used)
    elements.sort(body)
    unit.element = body
    host.touch(unit, 'Other')
    announce(host, unit.tier)
    usage.settle(host.site)


def delete(host: Host, unit: LogicalUnit) -> None:
    """Delete a logical unit with its contents, or refuse.

    :raises errors.Refused: a server maps it, or it has linked clones.
    """
    check_removable(host, [unit])
    remove(host, unit)


def remove(host: Host, unit: LogicalUnit) -> None:
    """Delete a logical unit that may be deleted."""
    host.site.contents.drop(unit.pool.uuid, unit.udid)
    del unit.pool.units[unit.key]
    host.remove(unit)
    announce(host, unit.tier)


def announce(host: Host, tier: Tier) -> None:
    """Say that the space on a tier has changed."""
    host.touch(tier, model.TIER)
    host.touch(tier.pool, 'Other')


def check_removable(host: Host, gone: Collection[LogicalUnit]) -> None:
    """Refuse to delete logical units that something needs.

    :raises errors.Refused: a running server maps one, or has a linked
        clone that is to stay.
    """
    for unit in gone:
        server = usage.server_of(host.site, unit)
        if server is not None:
            raise errors.Refused(
                f'The logical unit {unit.name!r} cannot be deleted: '
                f'{server.name} of {server.system.name} maps it.'
            )
        left = [one for one in unit.pool.clones(unit) if one not in gone]
        if left:
            raise errors.Refused(
                f'The logical unit {unit.name!r} cannot be deleted: '
                f'{left[0].name!r} is a linked clone of it.'
            )


def check_upload(unit: LogicalUnit, size: int) -> None:
    """Refuse contents that a logical unit cannot take.

    :param size: in bytes, as far as it is known.
    :raises errors.Refused: it is in use, too small, or the tier is full.
    """
    if unit.in_use:
        raise errors.Refused(
            f'{unit.name!r} is in use by a partition, which is active.'
        )
    if unit.pool.clones(unit):
        raise errors.Refused(
            f'{unit.name!r} has linked clones, which would change with it.'
        )
    if size > unit.size:
        raise errors.Refused(
            f'An image of {size} bytes does not fit into the {unit.size} '
            f'bytes of the logical unit {unit.name!r}.'
        )
    check_space(unit, unit.used_with(size, set()), unit.used)


def check_space(unit: LogicalUnit, wanted: float, present: float) -> None:
    """Refuse what the tier has no space for.

    :param wanted: GB that the logical unit is to take.
    :param present: GB that it takes now.
    :raises errors.Refused: there is less.
    """
    free = unit.tier.free
    if round(wanted - present - free, 9) > 0:
        raise errors.Refused(
            f'The logical unit {unit.name!r} needs {wanted - present:g} GB '
            f'more, and {free:g} GB are free on the tier {unit.tier.name!r} '
            f'of the pool {unit.pool.name!r}.'
        )


def _describe(unit: LogicalUnit) -> None:
    """Write the values that a client may leave out; check the size."""
    unit.put('ThinDevice', unit.text('ThinDevice', 'true'))
    unit.put('LogicalUnitType', unit.text('LogicalUnitType', model.DISK))
    unit.put('InUse', False)
    capacity = units.read(unit.element, 'UnitCapacity')
    unit.put('UnitCapacity', units.gigabytes(capacity))


def _image(unit: LogicalUnit) -> LogicalUnit | None:
    """Return the image that a new logical unit is a clone of, if any."""
    udid = unit.text('ClonedFrom')
    if not udid:
        content.remove(unit.element, ['ClonedFrom'])
        return None
    image = unit.pool.find(udid)
    if image is None or image.type != model.IMAGE:
        raise errors.Refused(
            f'The pool {unit.pool.name!r} has no image with the UDID {udid} '
            'to clone.'
        )
    if unit.type != model.DISK or not unit.is_thin:
        raise errors.Refused(
            f'A linked clone is a thin {model.DISK} and nothing else.'
        )
    if unit.capacity < image.capacity:
        raise errors.Refused(
            f'{unit.capacity:g} GB are too few for a clone of '
            f'{image.name!r}, which has {image.capacity:g} GB.'
        )
    return image


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= MAX_NAME:
        raise errors.Refused(
            f'{name!r} is no name of a logical unit: it does not have 1 to '
            f'{MAX_NAME} characters.'
        )
