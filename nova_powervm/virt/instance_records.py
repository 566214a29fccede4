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

"""Nova's records of instances, asked by LPAR."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import vm_states

from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.instance import partition


class NovaRecords:
    """Finds out which LPARs belong to instances."""

    def instances_of(self, lpars: Iterable[str]) -> Mapping[str, str]:
        """Find the instances that LPARs belong to.

        An LPAR's uuid can come from two instance uuids, so Nova is asked
        about both. Deleted instances count, and so do those that live on
        another host by now: an LPAR that such an instance left behind is
        Nova's to clean up.

        :param lpars: Upper-case PowerVM uuids.
        :returns: LPAR uuid to instance uuid; foreign LPARs are left out.
        """
        return {lpar: found.uuid for lpar, found in _find(lpars, ())}

    def hosted(self, host: str) -> frozenset[str]:
        """Give the uuids of all instances of a host.

        :param host: As in ``instance.host``.
        """
        return frozenset(
            instance.uuid
            for instance in objects.InstanceList.get_by_host(
                nova_context.get_admin_context(), host, expected_attrs=[]
            )
        )

    def running(self, lpars: Iterable[str], host: str) -> Mapping[str, str]:
        """Find the instances that should be running and are left alone.

        :param lpars: Upper-case PowerVM uuids.
        :param host: As in ``instance.host``.
        :returns: LPAR uuid to instance uuid, of active instances of the host
            that have no task state.
        """
        return {
            lpar: found.uuid
            for lpar, found in _find(lpars, ())
            if not found.deleted
            and found.host == host
            and found.vm_state == vm_states.ACTIVE
            and found.task_state is None
        }

    def holdings(
        self, lpars: Iterable[str]
    ) -> Mapping[str, Mapping[str, claims.SlotProvider]]:
        """Find the slot providers that Nova stored with instances.

        While an instance moves, those of both hosts count.

        :param lpars: Upper-case PowerVM uuids.
        :returns: LPAR uuid to slot providers by uuid; foreign LPARs are left
            out. A deleted instance holds nothing, and neither does one
            without a host: Nova took its allocations away when its build
            failed, and left its resources as they were.
        """
        attributes = ('resources', 'migration_context')
        return {
            lpar: {} if found.deleted or not found.host else _providers(found)
            for lpar, found in _find(lpars, attributes)
        }


def _find(
    lpars: Iterable[str], attributes: Iterable[str]
) -> Iterator[tuple[str, Any]]:
    """Read the instances of LPARs, deleted ones, too."""
    candidates = {
        candidate: lpar
        for lpar in lpars
        for candidate in partition.instance_uuids(lpar)
    }
    if not candidates:
        return
    instances = objects.InstanceList.get_by_filters(
        nova_context.get_admin_context(read_deleted='yes'),
        {'uuid': sorted(candidates)},
        expected_attrs=list(attributes),
    )
    for found in instances:
        yield candidates[found.uuid], found


def _providers(instance: Any) -> Mapping[str, claims.SlotProvider]:
    lists = [instance.resources]
    move = instance.migration_context
    if move:
        lists += [move.old_resources, move.new_resources]
    return {
        uuid: provider
        for resources in lists
        for uuid, provider in stored_slots(resources).items()
    }


def stored_slots(resources: Any) -> dict[str, claims.SlotProvider]:
    """Read the slots that Nova stored with an instance when it claimed them.

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
