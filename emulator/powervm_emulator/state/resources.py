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

"""Resources as values of JSON, and back.

An element says nearly all of a resource. What else a class knows is in the
table of forms.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import TypeAlias

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import resource
from powervm_emulator.nouns import file
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns import virtual_network
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.network_bridge import model as network_bridge
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.shared_storage_pool import cluster
from powervm_emulator.nouns.shared_storage_pool import model as pools
from powervm_emulator.nouns.volume_group import model as volume_group

JSON = resource.JSON
Element = content.Element
Key: TypeAlias = tuple[str, str]
Known: TypeAlias = dict[Key, Any]


@dataclasses.dataclass(frozen=True)
class _Form:
    """How resources of a class are written and made again.

    :ivar make: ``make(saved, element, parent, known)``.
    :ivar kept: attributes with values of JSON.
    :ivar more: what else is to be written.
    """

    make: Callable[[JSON, Element, Any, Known], resource.Resource]
    kept: tuple[str, ...] = ()
    more: Callable[[Any], JSON] = lambda _resource: {}


def key_of(found: resource.Resource) -> Key:
    """Return what tells a resource from all others of its host."""
    return found.kind, found.uuid.upper()


def save(found: resource.Resource) -> JSON:
    """Return a resource as values of JSON."""
    form = _FORMS[type(found)]
    return {
        'class': type(found).__name__,
        'kind': found.kind,
        'uuid': found.uuid,
        'parent': key_of(found.parent) if found.parent else None,
        'revision': found.revision,
        'element': etree.tostring(found.element, encoding='unicode'),
        **{name: getattr(found, name) for name in form.kept},
        **form.more(found),
    }


def is_saved(found: resource.Resource) -> bool:
    """Whether a resource outlives the process: uploads do not."""
    return not isinstance(found, file.File)


def load(saved: Iterable[JSON], known: Known) -> list[resource.Resource]:
    """Make resources again, in the order in which they were saved.

    :param known: those that are there already; the others are added.
    """
    listed = list(saved)
    for type_, form in _FORMS.items():
        for one in listed:
            if one['class'] == type_.__name__ and _key(one) not in known:
                known[_key(one)] = _load(form, one, known)
    return [known[_key(one)] for one in listed]


def _load(form: _Form, saved: JSON, known: Known) -> resource.Resource:
    element = etree.fromstring(saved['element'], content.parser())
    parent = known[tuple(saved['parent'])] if saved['parent'] else None
    made = form.make(saved, element, parent, known)
    made.revision = saved['revision']
    for name in form.kept:
        setattr(made, name, saved[name])
    return made


def _key(saved: JSON) -> Key:
    return saved['kind'], saved['uuid'].upper()


def _owners(system: managed_system.System) -> JSON:
    """Return the owners of slots, of which the element may say nothing."""
    return {
        'owners': {
            str(slot.drc_index): dataclasses.astuple(slot.owner)
            for slot in system.slots()
            if slot.owner is not None
        }
    }


def _system(
    saved: JSON, element: Element, _parent: None, _known: Known
) -> managed_system.System:
    system = managed_system.System(saved['uuid'], element)
    for slot in system.slots():
        owner = saved['owners'].get(str(slot.drc_index))
        slot.owner = io_slot.Owner(*owner) if owner else None
    return system


def _random_state(pool: pools.Pool) -> JSON:
    return {'random': pool.random.getstate()}


def _pool(
    saved: JSON, element: Element, _parent: None, _known: Known
) -> pools.Pool:
    pool = pools.Pool(saved['spec'], 0)
    pool.uuid = pool.pool_uuid = saved['uuid']
    pool.element = element
    pool.random.setstate(random_state(saved['random']))
    return pool


def random_state(saved: list[Any]) -> tuple[Any, ...]:
    """Return the state of random choices that JSON has made a list of."""
    version, numbers, following = saved
    return version, tuple(numbers), following


def _tier(
    saved: JSON, element: Element, parent: pools.Pool, _known: Known
) -> pools.Tier:
    tier = pools.Tier(saved['uuid'], element, parent)
    parent.tiers.append(tier)
    return tier


def _unit(
    saved: JSON, element: Element, parent: pools.Tier, _known: Known
) -> pools.LogicalUnit:
    unit = pools.LogicalUnit(saved['uuid'], element, parent)
    unit.blocks = set(saved['blocks'])
    parent.pool.units[unit.key] = unit
    return unit


def _cluster(
    saved: JSON, element: Element, _parent: None, known: Known
) -> cluster.Cluster:
    return cluster.Cluster(known[tuple(saved['pool'])], element)


def _plain(
    type_: Callable[[str, Element, Any], resource.Resource],
) -> Callable[[JSON, Element, Any, Known], resource.Resource]:
    """Return what makes resources of a class again that knows no others."""
    return lambda saved, element, parent, _: type_(
        saved['uuid'], element, parent
    )


#: Those that others refer to come first.
_FORMS: dict[type[resource.Resource], _Form] = {
    managed_system.System: _Form(
        _system, ('reports_owners', 'monitors', 'fabrics'), _owners
    ),
    partition_module.Partition: _Form(
        lambda saved, element, parent, _: partition_module.Partition(
            saved['kind'], saved['uuid'], element, parent
        ),
        ('address', 'is_shell', 'count'),
    ),
    volume_group.VolumeGroup: _Form(
        _plain(volume_group.VolumeGroup), ('last_number',)
    ),
    virtual_switch.Switch: _Form(_plain(virtual_switch.Switch)),
    virtual_network.Network: _Form(
        _plain(virtual_network.Network), ('lasting',)
    ),
    network_bridge.Bridge: _Form(_plain(network_bridge.Bridge)),
    net_adapter.Adapter: _Form(_plain(net_adapter.Adapter), ('bridge',)),
    pools.Pool: _Form(
        _pool, ('spec', 'cluster_uuid', 'identity', 'unseen'), _random_state
    ),
    pools.Tier: _Form(_tier),
    pools.LogicalUnit: _Form(
        _unit, ('uploaded',), lambda unit: {'blocks': sorted(unit.blocks)}
    ),
    # Nouns without anything of their own.
    resource.Resource: _Form(
        lambda saved, element, parent, _: resource.Resource(
            saved['kind'], saved['uuid'], element, parent
        )
    ),
    cluster.Cluster: _Form(
        _cluster, ('captured',), lambda one: {'pool': key_of(one.pool)}
    ),
}
