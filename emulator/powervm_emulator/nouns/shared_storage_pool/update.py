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

"""Changing a pool to what a client has posted."""

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.shared_storage_pool import logical_units
from powervm_emulator.nouns.shared_storage_pool import model

Element = content.Element
Host = host_module.Host
Pool = model.Pool


def update(
    host: Host, pool: Pool, body: Element, _groups: groups_module.Groups
) -> None:
    """Delete the logical units that a posted list does not have.

    :param body: the full content. A list that is not there changes nothing.
    :raises errors.RestError: the body wants something else to change, or one
        of them cannot be deleted; nothing changed.
    """
    _check_name(pool, body)
    _check_volumes(pool, body)
    section = content.find(body, model.UNITS)
    if section is None:
        return
    kept = _kept(pool, section)
    gone = [unit for unit in pool.units.values() if unit.key not in kept]
    logical_units.check_removable(host, gone)
    for unit in gone:
        logical_units.remove(host, unit)


def _kept(pool: Pool, section: Element) -> set[str]:
    """Return the keys of the logical units in a posted list."""
    kept = set()
    for posted in content.find_all(section, model.UNIT):
        udid = content.text(posted, 'UniqueDeviceID')
        if not udid:
            raise errors.Refused(
                'This server makes logical units on a tier: PUT them to '
                'Tier/{uuid}/LogicalUnit.'
            )
        if pool.find(udid) is None:
            raise errors.Refused(
                f'The pool {pool.name!r} has no logical unit with the UDID '
                f'{udid}.'
            )
        kept.add(model.key_of(udid))
    return kept


def _check_name(pool: Pool, body: Element) -> None:
    if content.text(body, 'StoragePoolName', pool.name) != pool.name:
        raise errors.Refused(
            f'This server does not rename the pool {pool.name!r}.'
        )


def _check_volumes(pool: Pool, body: Element) -> None:
    if content.find(body, 'PhysicalVolumes') is None:
        return
    path = 'PhysicalVolumes/PhysicalVolume'
    names = [
        {
            content.text(volume, 'VolumeName')
            for volume in content.find_all(element, path)
        }
        for element in (pool.element, body)
    ]
    if names[0] != names[1]:
        raise errors.Refused(
            'This server does not change the physical volumes of a pool.'
        )
