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

"""Nova's records of instances, looked up by LPAR."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import vm_states
from nova.objects import fields

from nova_powervm.devices import claims
from nova_powervm.devices import names
from nova_powervm.devices import ownership
from nova_powervm.lpar import partition
from nova_powervm.virt import move_records

#: Statuses of evacuations that Nova has completed.
_SUCCEEDED = ('done', 'completed')


class NovaRecords:
    """Finds the instances that LPARs belong to."""

    def instances_of(self, lpar_uuids: Iterable[str]) -> Mapping[str, str]:
        """Find the instances that LPARs belong to.

        Two instance uuids map to the same LPAR uuid, so ask Nova about both.
        Include instances that were deleted or are now on another host,
        because Nova has to clean up the LPARs that they left behind.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :returns: LPAR uuid to instance uuid, without foreign LPARs.
        """
        return {
            lpar_uuid: found.uuid for lpar_uuid, found in _find(lpar_uuids, ())
        }

    def hosted(self, host: str) -> frozenset[str]:
        """Return the uuids of all instances of a host.

        :param host: As in ``instance.host``.
        """
        return frozenset(
            instance.uuid
            for instance in objects.InstanceList.get_by_host(
                nova_context.get_admin_context(), host, expected_attrs=[]
            )
        )

    def running(
        self, lpar_uuids: Iterable[str], host: str
    ) -> Mapping[str, str]:
        """Find the instances that should be running and have no task.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :param host: As in ``instance.host``.
        :returns: LPAR uuid to instance uuid, for active instances of the host
            without a task state.
        """
        return {
            lpar_uuid: found.uuid
            for lpar_uuid, found in _find(lpar_uuids, ())
            if not found.deleted
            and found.host == host
            and found.vm_state == vm_states.ACTIVE
            and found.task_state is None
        }

    def gone(self, lpar_uuids: Iterable[str]) -> frozenset[str]:
        """Find the LPARs whose instances need no disks any more.

        Not those that Nova does not know: another cell may have them.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :returns: Those of instances that are deleted, or on no host and
            without a task state.
        """
        needed: dict[str, bool] = {}
        for lpar_uuid, found in _find(lpar_uuids, ()):
            is_needed = not found.deleted and bool(
                found.host or found.task_state
            )
            needed[lpar_uuid] = needed.get(lpar_uuid, False) or is_needed
        return frozenset(
            lpar_uuid
            for lpar_uuid, is_needed in needed.items()
            if not is_needed
        )

    def abandoned(
        self, lpar_uuids: Iterable[str], host: str
    ) -> frozenset[str]:
        """Find the LPARs that interrupted evacuations to a host left there.

        Nova records the host of an instance anew when its evacuation is
        complete.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :param host: The destination, as in ``instance.host``.
        :returns: Those whose instance is on another host, and whose last
            evacuation to this host did not succeed.
        """
        return frozenset(
            lpar_uuid
            for lpar_uuid, found in _find(lpar_uuids, ())
            if not found.deleted
            and found.host not in (None, host)
            and _last_evacuation_failed(found.uuid, host)
        )

    def holdings(
        self, lpar_uuids: Iterable[str]
    ) -> Mapping[str, Mapping[str, claims.SlotProvider]]:
        """Find the slot providers that Nova stored with instances.

        While an instance moves, include those of both sides.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :returns: LPAR uuid to slot providers by uuid, without foreign LPARs.
            An instance that is deleted or has no host holds nothing: when a
            build fails, Nova deletes the allocations but keeps the record.
        """
        attributes = ('resources', 'migration_context')
        return {
            lpar_uuid: {}
            if found.deleted or not found.host
            else _providers(found)
            for lpar_uuid, found in _find(lpar_uuids, attributes)
        }

    def stale_lpars(
        self, lpar_uuids: Iterable[str], host: str
    ) -> Mapping[str, ownership.StaleLpar]:
        """Find the LPARs on the wrong side.

        An LPAR may belong to two instances, of which one is here.

        :param lpar_uuids: Upper-case PowerVM uuids.
        :param host: The host of the LPARs, as in ``instance.host``.
        :returns: Those whose instance is on another host and does not move
            from or to this one, to where it is.
        """
        existing = [
            (lpar_uuid, found)
            for lpar_uuid, found in _find(lpar_uuids, ('migration_context',))
            if not found.deleted and found.host
        ]
        here = {
            lpar_uuid for lpar_uuid, found in existing if found.host == host
        }
        return {
            lpar_uuid: ownership.StaleLpar(found.uuid, found.host)
            for lpar_uuid, found in existing
            if lpar_uuid not in here
            and not move_records.is_moving_with(found, host)
        }


def _last_evacuation_failed(instance_uuid: str, host: str) -> bool:
    """Return whether the last move to a host was an evacuation that failed.

    An instance that came to the host afterwards, and is moving away from it,
    has an LPAR there that is not left over.
    """
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(),
        {'instance_uuid': instance_uuid, 'dest_compute': host},
    )
    last = max(moves, key=lambda move: move.id, default=None)
    return (
        last is not None
        and last.migration_type == fields.MigrationType.EVACUATION
        and last.status not in _SUCCEEDED
    )


def _find(
    lpar_uuids: Iterable[str], attributes: Iterable[str]
) -> Iterator[tuple[str, Any]]:
    """Read the instances of LPARs, including deleted instances."""
    candidates = {
        candidate: lpar_uuid
        for lpar_uuid in lpar_uuids
        for candidate in partition.instance_uuids(lpar_uuid)
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
    if move_records.is_moving(instance):
        move = instance.migration_context
        lists += [move.old_resources, move.new_resources]
    return {
        uuid: provider
        for resources in lists
        for uuid, provider in stored_slots(resources).items()
    }


def stored_slots(resources: Any) -> dict[str, claims.SlotProvider]:
    """Read the slots that Nova stored with an instance in its claim.

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
        if is_slot(resource)
    }


def is_slot(resource: Any) -> bool:
    """Return whether a nova.objects.Resource stands for a slot."""
    name = names.PROVIDER_PREFIX + resource.identifier
    return names.slot_of_provider(name) is not None
