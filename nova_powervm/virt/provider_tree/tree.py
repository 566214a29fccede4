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

"""Nova's provider tree: read for the plan, changed as the plan says."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import os_resource_classes
import os_traits
from nova import objects
from oslo_log import log as logging

from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.devices import ownership
from nova_powervm.devices import planned
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots

LOG = logging.getLogger(__name__)

_NO_ADDITIONS: Mapping[str, slot_providers.Additions] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Children:
    """What stands below the compute node's provider.

    :param direct: Its direct children, which may be ours.
    :param accelerators: Uuids of the providers that Cyborg owns.
    :param everything: Uuids of all of them.
    :param neighbours: Those that are not ours.
    """

    direct: tuple[slot_providers.Provider, ...]
    accelerators: frozenset[str]
    everything: frozenset[str]
    neighbours: ownership.Neighbours


@dataclasses.dataclass(frozen=True, slots=True)
class RootResource:
    """One standard resource of the compute node.

    :param total: Units that the host has; none makes no inventory.
    :param reserved: Units that Nova's configuration keeps back.
    """

    total: int
    reserved: int


def read(
    tree: Any,
    nodename: str,
    additions: Mapping[str, slot_providers.Additions] = _NO_ADDITIONS,
) -> Children:
    """Read what stands below a compute node's provider.

    :param tree: Nova's ProviderTree.
    :param nodename: Name of the compute node's provider.
    :param additions: What Nova adds by itself; it is left out.
    """
    root = tree.data(nodename).uuid
    below = [
        tree.data(uuid)
        for uuid in tree.get_provider_uuids(nodename)
        if uuid != root
    ]
    return Children(
        direct=tuple(
            slot_providers.without_additions(
                slot_providers.Provider(
                    uuid=data.uuid,
                    name=data.name,
                    inventory=data.inventory,
                    traits=frozenset(data.traits),
                ),
                additions,
            )
            for data in below
            if data.parent_uuid == root and not _is_cyborgs(data)
        ),
        accelerators=frozenset(
            data.uuid for data in below if _is_cyborgs(data)
        ),
        everything=frozenset(data.uuid for data in below),
        neighbours=_neighbours(below),
    )


def _is_cyborgs(data: Any) -> bool:
    return os_traits.OWNER_CYBORG in data.traits


def _neighbours(below: Iterable[Any]) -> ownership.Neighbours:
    foreign = [
        data
        for data in below
        if _is_cyborgs(data) or names.slot_of_provider(data.name) is None
    ]
    return ownership.Neighbours(
        names={data.uuid: data.name for data in foreign},
        slots={
            index: data.name
            for data in foreign
            if _is_cyborgs(data)
            for index in ownership.slots_of_cyborg(data.name, data.traits)
        },
    )


def root_inventory(
    resources: Mapping[str, RootResource], ratios: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Make the inventory of the compute node's own provider.

    :param resources: Resource class to what there is of it.
    :param ratios: Nova's allocation ratio of each class.
    """
    return {
        name: {
            'total': resource.total,
            'reserved': min(resource.reserved, resource.total),
            'min_unit': 1,
            'max_unit': resource.total,
            'step_size': 1,
            'allocation_ratio': ratios[name],
        }
        for name, resource in resources.items()
        if resource.total > 0
    }


def apply(
    tree: Any, nodename: str, plan: planned.Plan
) -> dict[str, claims.SlotProvider]:
    """Carry out a plan on Nova's tree.

    Each slot is also written as a resource of its provider: Nova then keeps
    it with the instance through all moves.

    :returns: Uuid to each slot provider that the tree holds afterwards.
    """
    providers: dict[str, claims.SlotProvider] = {}
    for entry in plan.entries:
        if entry.action is planned.Action.DELETE:
            tree.remove(entry.uuid)
            continue
        if entry.uuid is None and tree.exists(entry.name):
            LOG.error(
                "Slot %(slot)08X is not offered: provider '%(name)s' exists, "
                'but is no direct child of %(node)s. Delete or rename it in '
                'Placement.',
                {
                    'slot': entry.drc_index,
                    'name': entry.name,
                    'node': nodename,
                },
            )
            continue
        uuid = entry.uuid or tree.new_child(entry.name, nodename)
        _write(tree, uuid, entry)
        providers[uuid] = claims.SlotProvider(
            uuid, entry.drc_index, frozenset(entry.resource_classes)
        )
    return providers


def _write(tree: Any, uuid: str, entry: planned.Entry) -> None:
    tree.update_inventory(uuid, entry.inventory)
    tree.update_traits(uuid, entry.traits)
    tree.update_resources(uuid, resources(uuid, entry))


class Resources(dict[str, set[Any]]):
    """Resource class to Nova's resources, cheap to write into many trees.

    Nova's tree copies what it is given to the bottom, which takes longer for
    these few objects than all the rest of a cycle. Nobody changes them.
    """

    def __deepcopy__(self, memo: Any) -> dict[str, set[Any]]:
        return {name: set(found) for name, found in self.items()}


def resources(uuid: str, entry: planned.Entry) -> Resources:
    """Make the resources of a slot's provider, which say what slot it is."""
    return Resources(
        {
            name: {
                objects.Resource(
                    provider_uuid=uuid,
                    resource_class=name,
                    identifier=slots.format_drc_index(entry.drc_index),
                )
            }
            for name in entry.resource_classes
        }
    )


def remembered(resources: Any) -> dict[str, claims.SlotProvider]:
    """Read the slots that Nova stored with an instance.

    :param resources: ``instance.resources``: a ResourceList or None.
    :returns: Provider uuid to slot provider.
    """
    return {
        resource.provider_uuid: claims.SlotProvider(
            uuid=resource.provider_uuid,
            drc_index=int(resource.identifier, 16),
            resource_classes=frozenset((resource.resource_class,)),
        )
        for resource in resources or ()
        if names.slot_of_provider(names.PROVIDER_PREFIX + resource.identifier)
        is not None
    }


#: The classes of the compute node's own inventory.
VCPU = os_resource_classes.VCPU
MEMORY_MB = os_resource_classes.MEMORY_MB
DISK_GB = os_resource_classes.DISK_GB
