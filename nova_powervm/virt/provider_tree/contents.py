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

"""Reads Nova's provider tree as facts for the plan, and writes the plan to it.

In each update Nova adds the content of its provider.yaml after the driver, and
refuses the update if the tree has it already. Therefore the driver must never
write that content back.
"""

import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import os_resource_classes
from nova import objects
from nova.compute import provider_config
from oslo_log import log as logging

from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import plan as plans
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots

LOG = logging.getLogger(__name__)

#: Resource classes of the compute node's own inventory.
VCPU = os_resource_classes.VCPU
MEMORY_MB = os_resource_classes.MEMORY_MB
DISK_GB = os_resource_classes.DISK_GB


@dataclasses.dataclass(frozen=True, slots=True)
class RootResource:
    """One standard resource of the compute node.

    :param total: Units that the host has; 0 for no inventory.
    :param reserved: Units that Nova's configuration reserves.
    """

    total: int
    reserved: int


def root_inventory(
    resources: Mapping[str, RootResource], ratios: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Create the inventory of the compute node's own provider.

    :param resources: Resource class to its amounts.
    :param ratios: Nova's allocation ratio of each class.
    """
    return {
        name: {
            'total': resource.total,
            'reserved': min(resource.reserved, resource.total),
            'min_unit': 1,
            'max_unit': _largest(name, resource.total, ratios[name]),
            'step_size': 1,
            'allocation_ratio': ratios[name],
        }
        for name, resource in resources.items()
        if resource.total > 0
    }


def _largest(name: str, total: int, ratio: float) -> int:
    """Return the most units that one server may take.

    An LPAR may have more virtual processors than the host has processors, and
    a dedicated processor takes as many VCPU as Placement offers for it.
    """
    return max(total, math.floor(total * ratio)) if name == VCPU else total


def set_host_traits(tree: Any, nodename: str, traits: Iterable[str]) -> None:
    """Give the compute node's own provider the traits of the host.

    Keep all other traits: Nova and operators set traits there, too.

    :param traits: Some of :data:`host_values.TRAITS`; the others are removed.
    """
    tree.add_traits(nodename, *traits)
    tree.remove_traits(nodename, *host_values.TRAITS.difference(traits))


def read_additions(location: str) -> Mapping[str, slot_providers.Additions]:
    """Read the files that Nova also reads when nova-compute starts.

    :param location: ``[compute]provider_config_location``.
    :returns: Uuid or name of a provider, as in the files, to its additions.
    :raises nova.exception.ProviderConfigException: A file is invalid.
    """
    return {
        identity: slot_providers.Additions(
            classes=frozenset(
                name
                for record in _read_additional(provider, 'inventories')
                for name in record
            ),
            traits=frozenset(_read_additional(provider, 'traits')),
        )
        for identity, provider in provider_config.get_provider_configs(
            location
        ).items()
    }


def _read_additional(provider: Mapping[str, Any], kind: str) -> Iterable[Any]:
    additions: Iterable[Any] = provider.get(kind, {}).get('additional', ())
    return additions


def read_providers(
    tree: Any,
    nodename: str,
    additions: Mapping[str, slot_providers.Additions],
) -> tuple[slot_providers.Provider, ...]:
    """Read all providers below a compute node's provider.

    :param tree: Nova's ProviderTree.
    :param nodename: Name of the compute node's provider.
    :param additions: What Nova's provider.yaml adds, which is omitted.
    """
    root = tree.data(nodename).uuid
    return tuple(
        slot_providers.remove_additions(
            _provider(tree.data(uuid), root), additions
        )
        for uuid in tree.get_provider_uuids(nodename)
        if uuid != root
    )


def _provider(data: Any, root: str) -> slot_providers.Provider:
    return slot_providers.Provider(
        uuid=data.uuid,
        name=data.name,
        inventory=data.inventory,
        traits=frozenset(data.traits),
        is_direct=data.parent_uuid == root,
    )


def apply_plan(
    tree: Any, nodename: str, plan: plans.Plan
) -> dict[str, claims.SlotProvider]:
    """Apply a plan to Nova's tree.

    Also write each slot as a resource of its provider, which Nova then stores
    with the instance through all moves.

    :returns: Uuid to slot provider, as the tree has them afterwards.
    """
    providers: dict[str, claims.SlotProvider] = {}
    for entry in plan.entries:
        if entry.action is plans.Action.DELETE:
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


def _write(tree: Any, uuid: str, entry: plans.Entry) -> None:
    # Nova logs a line for each inventory that is written unchanged.
    if tree.has_inventory_changed(uuid, entry.inventory):
        tree.update_inventory(uuid, entry.inventory)
    tree.update_traits(uuid, entry.traits)
    tree.update_resources(uuid, _resources(uuid, entry))


class _Resources(dict[str, set[Any]]):
    """Resource class to resources, which do not change.

    Nova's tree makes a deep copy of them, which would take a third of the time
    of an update.
    """

    def __deepcopy__(self, memo: Any) -> dict[str, set[Any]]:
        return {name: set(resources) for name, resources in self.items()}


def _resources(uuid: str, entry: plans.Entry) -> _Resources:
    """Create the resources of a slot's provider, which identify the slot."""
    classes, index = entry.resource_classes, entry.drc_index
    return _Resources(
        {name: {resource(uuid, name, index)} for name in classes}
    )


def resource(uuid: str, resource_class: str, drc_index: int) -> Any:
    """Return Nova's record of a slot: nova.objects.Resource."""
    return objects.Resource(
        provider_uuid=uuid,
        resource_class=resource_class,
        identifier=slots.format_drc_index(drc_index),
    )
