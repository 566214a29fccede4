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

"""Checks of world documents that their JSON schema can't express."""

from collections.abc import Iterator
from typing import Any

from nova_powervm.emulator import nouns
from nova_powervm.emulator.core import noun as noun_module

KINDS = ('virtual_io_servers', 'partitions')


def problems(world: dict[str, Any]) -> Iterator[str]:
    """Yield all contradictions in a world, each with the path to it."""
    yield from _missing(world, noun_module.ROOT, '')
    uuids: dict[str, str] = {}
    for number, system in enumerate(world['systems']):
        path = f'systems[{number}]'
        if system.get('slot_owner_capability') and not system.get(
            'reports_slot_owners', True
        ):
            yield f'{path}: slot_owner_capability needs reports_slot_owners'
        yield from _repeated(_uuids(system, path), uuids)
        yield from _slots(system, path)
        yield from _partitions(system, path)
        yield from _bridges(system, path)


def _missing(
    description: dict[str, Any], kind: str, path: str
) -> Iterator[str]:
    """Yield the keys that descriptions without a capture lack."""
    for noun in nouns.NOUNS:
        if noun.world is None or kind not in (
            noun.world.holders or (noun_module.ROOT,)
        ):
            continue
        name = noun.world.name
        for number, spec in enumerate(description.get(name, ())):
            where = f'{path}{name}[{number}]'
            for key in noun.world.required:
                if 'capture' not in spec and key not in spec:
                    yield f'{where}: {key} is required without capture'
            yield from _missing(spec, noun.kind, f'{where}.')


def _bridges(system: dict[str, Any], path: str) -> Iterator[str]:
    names = {
        server.get('name') for server in system.get('virtual_io_servers', ())
    }
    for number, bridge in enumerate(system.get('network_bridges', ())):
        for key in ('vios', 'failover_vios'):
            if key in bridge and bridge[key] not in names:
                yield (
                    f'{path}.network_bridges[{number}].{key}: unknown '
                    f'Virtual I/O Server {bridge[key]!r}'
                )


def _uuids(system: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if system.get('uuid', 'random') != 'random':
        yield f'{path}.uuid', system['uuid'].lower()
    for where, partition in _all_partitions(system, path):
        if partition.get('uuid', 'random') != 'random':
            yield f'{where}.uuid', partition['uuid'].lower()


def _slots(system: dict[str, Any], path: str) -> Iterator[str]:
    indexes = [
        (f'{path}.slots[{number}].drc_index', slot['drc_index'].upper())
        for number, slot in enumerate(system.get('slots', ()))
    ]
    yield from _repeated(indexes, {})
    names = {
        partition.get('name') for _, partition in _all_partitions(system, path)
    }
    captured = any(
        'capture' in partition
        for _, partition in _all_partitions(system, path)
    )
    for number, slot in enumerate(system.get('slots', ())):
        where = f'{path}.slots[{number}]'
        owner = slot.get('owner')
        if owner is not None and owner not in names and not captured:
            yield f'{where}.owner: unknown partition {owner!r}'
        if owner is not None and slot.get('sriov'):
            yield f'{where}: an adapter in SR-IOV mode has no owner'


def _partitions(system: dict[str, Any], path: str) -> Iterator[str]:
    names = []
    ids = []
    for where, partition in _all_partitions(system, path):
        yield from _volume_groups(partition, where)
        if 'name' in partition:
            names.append((f'{where}.name', partition['name']))
        if 'id' in partition:
            ids.append((f'{where}.id', partition['id']))
    yield from _repeated(names, {})
    yield from _repeated(ids, {})


def _volume_groups(partition: dict[str, Any], where: str) -> Iterator[str]:
    groups = partition.get('volume_groups', ())
    for number, group in enumerate(groups):
        path = f'{where}.volume_groups[{number}]'
        if 'capture' not in group:
            yield from _described_group(group, path)
        elif not {'name', 'capacity', 'free'}.isdisjoint(group):
            yield f'{path}: a capture has its own name, capacity and free'
    names = [(where, group['name']) for group in groups if 'name' in group]
    yield from _repeated(names, {})
    if sum('media_repository' in group for group in groups) > 1:
        yield f'{where}: there is one media_repository at most'


def _described_group(group: dict[str, Any], path: str) -> Iterator[str]:
    used = group.get('free', 0) + sum(
        disk['capacity'] for disk in group.get('disks', ())
    )
    used += group.get('media_repository', {}).get('size', 0)
    if used > group.get('capacity', used):
        yield f'{path}: disks, repository and free beyond capacity'


def _all_partitions(
    system: dict[str, Any], path: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in KINDS:
        for number, partition in enumerate(system.get(kind, ())):
            yield f'{path}.{kind}[{number}]', partition


def _repeated(values: Any, seen: dict[Any, str]) -> Iterator[str]:
    for where, value in values:
        if value in seen:
            yield f'{where}: {value!r} is also at {seen[value]}'
        seen.setdefault(value, where)
