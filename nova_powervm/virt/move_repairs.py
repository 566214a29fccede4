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

"""Brings LPARs back to what Nova records: in reverts and after failures."""

from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.ops import apply
from nova_powervm.ops import claims
from nova_powervm.ops import disk_interfaces
from nova_powervm.virt import descriptions
from nova_powervm.virt import instance_moves
from nova_powervm.virt import instance_records
from nova_powervm.virt import move_records
from nova_powervm.virt import shared_storage
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

#: Key of an instance's system metadata for the size in GiB that its root disk
#: could not be grown to.
GROWTH_KEY = 'powervm_root_gb'


class MoveRepairs:
    """Repairs what a move has left behind.

    :param lpars: Makes LPARs what they should be.
    :param describes: Describes instances.
    :param slot_claims: Finds the slots of instances.
    :param disks: The disk driver.
    :param storage: The storage that hosts share.
    :param host: Nova's name of this host.
    """

    def __init__(
        self,
        lpars: apply.LparOps,
        describes: descriptions.Descriptions,
        slot_claims: claims.ClaimOps,
        disks: disk_interfaces.Disks,
        storage: shared_storage.SharedStorage,
        host: str,
    ) -> None:
        self._lpars = lpars
        self._descriptions = describes
        self._claims = slot_claims
        self._disks = disks
        self._storage = storage
        self._host = host

    def hard_reboot(
        self,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request],
    ) -> None:
        """Restart an instance as Nova records it, whatever it has been before.

        After a move that failed, Nova leaves the server in ERROR on one of
        the hosts, with the slots that are allocated to it there. Its flavor
        may be the other one.

        :raises exception.PartitionNotFound: It has no LPAR, and nothing to
            make it from.
        """
        has_failed = instance_moves.has_failed(instance)
        if has_failed:
            self._record_size(instance)
        growth = instance.system_metadata.get(GROWTH_KEY)
        asked = self._descriptions.askers(instance, network_info)
        done = self._lpars.run(
            operations.HARD_REBOOT,
            self.describe_recorded(
                instance,
                block_device_info,
                requests,
                ports=asked.ports,
                checks_swap=has_failed,
                grow_root_gb=None if growth is None else int(growth),
            ),
            asked.askers,
        )
        if done.has_grown:
            del instance.system_metadata[GROWTH_KEY]
        if has_failed:
            self._forget_move(instance, requests)

    def _forget_move(
        self, instance: Any, requests: Sequence[accelerators.Request]
    ) -> None:
        """Drop the context of a failed move that has left nothing to repair.

        Keep it as long as the flavor asks for more than is allocated.
        """
        if move_records.is_moving(instance):
            return
        try:
            self._claims.stored_claims(
                instance.uuid,
                dict(instance.flavor.extra_specs or {}),
                instance_records.stored_slots(instance.resources),
                requests,
            )
        except exception.ClaimFailed as error:
            LOG.warning(
                'The flavor of the server is not that of its devices after '
                'the move that failed: %s. Resize the server again.',
                error,
                instance=instance,
            )
            return
        instance.drop_migration_context()

    def describe_recorded(
        self,
        instance: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request] = (),
        **rest: Any,
    ) -> spec.Wanted:
        """Describe an instance as Nova records it on this host."""
        pool = self._storage.pool
        return self._descriptions.recorded(
            instance,
            requests,
            extra_specs=descriptions.required_specs(instance),
            moved_slots=instance_moves.moved_slots(instance, self._host),
            blanks=descriptions.blank_disks(block_device_info),
            pool_is_current=pool is not None
            and shared_storage.recorded_pool(instance) == pool.identity(),
            unbuildable=self._why_unbuildable(instance),
            **rest,
        )

    def _why_unbuildable(self, instance: Any) -> str:
        """Return why a lost LPAR cannot be made from Nova's record, or ''.

        Slots of another host may have the same numbers. If its message cannot
        be sent to the destination, Nova gives the allocations back to the
        source, but leaves the instance on the destination.
        """
        stored = instance_records.stored_slots(instance.resources)
        published = self._claims.published
        if stored.keys() <= published.providers.keys():
            return ''
        if not published.is_complete:
            return (
                'this host has not updated Placement since nova-compute was '
                'started, so it does not know whether the slots of the '
                'instance are its own. Reboot the server hard again in a '
                'minute; if it fails again, the log of nova-compute says why'
            )
        return (
            'Nova has recorded the instance on this host, but its slots are '
            'those of another host, which its move came from. See "If a move '
            'fails" in the guide to moves'
        )

    def record_growth(self, instance: Any) -> None:
        """Record that the root disk is to grow to the flavor's size.

        Nova saves the record with the rest of the instance, also if the step
        that does it fails.
        """
        old, new = instance.old_flavor, instance.flavor
        if old is None or new.root_gb > old.root_gb:
            instance.system_metadata[GROWTH_KEY] = str(new.root_gb)

    def _record_size(self, instance: Any) -> None:
        """Record the root disk's size after a move that cannot be reverted."""
        if instance.flavor.root_gb:
            instance.system_metadata.setdefault(
                GROWTH_KEY, str(instance.flavor.root_gb)
            )

    def grow_root(self, instance: Any) -> None:
        """Grow a root disk as recorded; leave the record if this fails."""
        if GROWTH_KEY not in instance.system_metadata:
            return
        size_gb = int(instance.system_metadata[GROWTH_KEY])
        try:
            self._disks.grow_root(translation.lpar_of(instance), size_gb)
        except exception.PowerVMError as error:
            LOG.error(
                'The root disk could not be grown to %(size)d GB, which the '
                "server's flavor has: %(error)s. The next hard reboot of the "
                'server tries again.',
                {'size': size_gb, 'error': error},
                instance=instance,
            )
        else:
            del instance.system_metadata[GROWTH_KEY]
