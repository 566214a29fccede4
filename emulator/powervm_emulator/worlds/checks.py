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

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import TypeAlias

from powervm_emulator import nouns
from powervm_emulator.core import noun as noun_module
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import described
from powervm_emulator.nouns.shared_storage_pool import described as pools

Spec: TypeAlias = dict[str, Any]
_CARD_KEYS = {*io_slot.IDS, 'feature_codes', 'fibre_channel_ports'}
KINDS = ('virtual_io_servers', 'partitions')


def problems(world: Spec) -> Iterator[str]:
    """Yield all contradictions in a world, each with the path to it."""
    for where, spec, noun in _descriptions(world, noun_module.ROOT):
        if 'capture' in spec:
            yield from _captured(spec, noun, where)
        else:
            yield from _missing(spec, noun, where)
    uuids: dict[str, str] = {}
    for path, system in _each(world, 'systems'):
        if system.get('slot_owner_capability') and not system.get(
            'reports_slot_owners', True
        ):
            yield f'{path}: slot_owner_capability needs reports_slot_owners'
        yield from _repeated(_uuids(system, path), uuids)
        yield from _slots(system, path)
        yield from _partitions(system, path)
        yield from _bridges(system, path)
    yield from _clusters(world)


def _descriptions(
    holder: Spec, kind: str, path: str = ''
) -> Iterator[tuple[str, Spec, noun_module.Noun]]:
    """Yield the path, description and noun of everything in a world."""
    for noun in nouns.NOUNS:
        key = noun.world
        if key is None or kind not in (key.holders or (noun_module.ROOT,)):
            continue
        for where, spec in _each(holder, key.name, path):
            yield where, spec, noun
            yield from _descriptions(spec, noun.kind, where)


def _missing(spec: Spec, noun: noun_module.Noun, where: str) -> Iterator[str]:
    """Yield the keys that a description without a capture lacks."""
    for key in noun.world.required if noun.world else ():
        if key not in spec:
            yield f'{where}: {key} is required without capture'


def _captured(spec: Spec, noun: noun_module.Noun, where: str) -> Iterator[str]:
    """Yield the keys that have no effect beside or in a capture."""
    for key in noun.world.captured if noun.world else ():
        if key in spec:
            yield f'{where}.{key}: {key} is that of the capture'
    capture = spec['capture']
    if {'entry', 'name'} <= capture.keys():
        yield f'{where}.capture: name and entry exclude each other'
    if 'document' in capture:
        for key in ('file', 'entry', 'name'):
            if key in capture:
                yield f'{where}.capture: document and {key} exclude each other'
    for key in ('slots', 'correct_ids'):
        if key in capture and noun.kind != managed_system.KIND:
            yield f'{where}.capture.{key}: a {noun.kind} has no slots'


def _bridges(system: Spec, path: str) -> Iterator[str]:
    servers = system.get('virtual_io_servers', ())
    for where, bridge in _each(system, 'network_bridges', path):
        for key in ('vios', 'failover_vios'):
            if _is_unknown(bridge.get(key), servers):
                yield (
                    f'{where}.{key}: unknown Virtual I/O Server '
                    f'{bridge[key]!r}'
                )


def _is_unknown(name: str | None, partitions: Iterable[Spec]) -> bool:
    """Whether none of some partitions has a name; captures are not read."""
    return name is not None and not any(
        'capture' in one or one.get('name') == name for one in partitions
    )


def _uuids(system: Spec, path: str) -> Iterator[tuple[str, str]]:
    if system.get('uuid', 'random') != 'random':
        yield f'{path}.uuid', system['uuid'].lower()
    for where, partition in _all_partitions(system, path):
        if partition.get('uuid', 'random') != 'random':
            yield f'{where}.uuid', partition['uuid'].lower()


def _slots(system: Spec, path: str) -> Iterator[str]:
    indexes = [
        (f'{where}.drc_index', slot['drc_index'].upper())
        for where, slot in _each(system, 'slots', path)
    ]
    yield from _repeated(indexes, {})
    partitions = [one for _, one in _all_partitions(system, path)]
    for where, slot in _each(system, 'slots', path):
        if 'description' not in slot:
            for key in _CARD_KEYS & slot.keys():
                yield f'{where}.{key}: a slot without description has none'
        if 'fibre_channel_ports' in slot:
            for key in ('assignable', 'sriov'):
                if key in slot:
                    yield f'{where}.{key}: none beside fibre_channel_ports'
        owner = slot.get('owner')
        if _is_unknown(owner, partitions):
            yield f'{where}.owner: unknown partition {owner!r}'
        if owner is not None and slot.get('sriov'):
            yield f'{where}: an adapter in SR-IOV mode has no owner'


def _partitions(system: Spec, path: str) -> Iterator[str]:
    names = []
    ids = []
    for where, partition in _all_partitions(system, path):
        yield from _volume_groups(partition, where)
        yield from _amounts(partition, where)
        if 'name' in partition:
            names.append((f'{where}.name', partition['name']))
        if 'id' in partition:
            ids.append((f'{where}.id', partition['id']))
    yield from _repeated(names, {})
    yield from _repeated(ids, {})


def _amounts(partition: Spec, where: str) -> Iterator[str]:
    for key in described.AMOUNTS:
        if key not in partition:
            continue
        bounds = described.amounts(partition[key])
        low, wanted, high = (
            bounds[bound] for bound in ('Minimum', 'Desired', 'Maximum')
        )
        if not low <= wanted <= high:
            yield (
                f'{where}.{key}: {low} minimum, {wanted} desired and {high} '
                'maximum are not in order'
            )
    if partition.get('dedicated') and 'processor_units' in partition:
        yield f'{where}.processor_units: dedicated processors have none'


def _volume_groups(partition: Spec, where: str) -> Iterator[str]:
    groups = partition.get('volume_groups', ())
    for path, group in _each(partition, 'volume_groups', where):
        if 'capture' not in group:
            yield from _described_group(group, path)
    names = [(where, group['name']) for group in groups if 'name' in group]
    yield from _repeated(names, {})
    if sum('media_repository' in group for group in groups) > 1:
        yield f'{where}: there is one media_repository at most'


def _described_group(group: Spec, path: str) -> Iterator[str]:
    used = group.get('free', 0) + sum(
        disk['capacity'] for disk in group.get('disks', ())
    )
    used += group.get('media_repository', {}).get('size', 0)
    if used > group.get('capacity', used):
        yield f'{path}: disks, repository and free beyond capacity'


def _clusters(world: Spec) -> Iterator[str]:
    nodes = []
    clusters = []
    names = []
    for path, cluster in _each(world, 'clusters'):
        nodes += [(f'{path}.nodes', name) for name in cluster['nodes']]
        if 'capture' in cluster:
            continue
        if 'captured_pool' in cluster:
            yield f'{path}: captured_pool needs capture'
        clusters.append((f'{path}.name', cluster['name']))
        names.append((f'{path}.pool.name', cluster['pool']['name']))
        yield from _pool(cluster['pool'], f'{path}.pool')
    for values in (clusters, names, nodes):
        yield from _repeated(values, {})


def _pool(pool: Spec, path: str) -> Iterator[str]:
    tiers = pools.tiers(pool)
    names = [(f'{path}.tiers', tier['name']) for tier in tiers]
    yield from _repeated(names, {})
    if sum(tier['default'] for tier in tiers) > 1:
        yield f'{path}.tiers: there is one default at most'
    if sum(tier['capacity'] for tier in tiers) > pool['capacity']:
        yield f'{path}.tiers: tiers beyond capacity'
    known = {tier['name'] for tier in tiers}
    for where, unit in _each(pool, 'logical_units', path):
        if unit.get('tier', tiers[0]['name']) not in known:
            yield f'{where}.tier: unknown tier {unit["tier"]!r}'


def _all_partitions(system: Spec, path: str) -> Iterator[tuple[str, Spec]]:
    for kind in KINDS:
        yield from _each(system, kind, path)


def _each(holder: Spec, key: str, path: str = '') -> Iterator[tuple[str, Any]]:
    """Yield what a key lists, each with the path to it."""
    for number, item in enumerate(holder.get(key, ())):
        yield f'{path}.{key}[{number}]'.removeprefix('.'), item


def _repeated(values: Any, seen: dict[Any, str]) -> Iterator[str]:
    for where, value in values:
        if value in seen:
            yield f'{where}: {value!r} is also at {seen[value]}'
        seen.setdefault(value, where)
