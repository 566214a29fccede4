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

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.lpar import storage
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import builds
from nova_powervm.virt import driver_base
from nova_powervm.virt import instance_moves
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import move_records
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

#: Key of an instance's system metadata for the size in GiB that its root disk
#: could not be grown to.
GROWTH_KEY = 'powervm_root_gb'


class MoveRepairs(builds.Builds):
    """Repairs what a move has left behind."""

    def _restart_repaired(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request],
        restart: Callable[[], None],
    ) -> None:
        """Restart an LPAR, after repairing or building it if necessary.

        After a move that failed, Nova leaves the server in ERROR on one of
        the hosts, with the slots that are allocated to it there. Its flavor
        may be the other one.

        :param restart: Restarts or starts the LPAR.
        :raises exception.PartitionNotFound: There is none, and nothing to
            build it from.
        """
        has_failed = instance_moves.has_failed(instance)
        if has_failed:
            self._record_size(instance)
        if has_failed or self._lacks_disks(instance):
            self._restore(
                context,
                instance,
                network_info,
                block_device_info,
                requests,
                keeps_swap=False,
            )
        self._grow_root(instance)
        restart()
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
            self._services().claims.stored_claims(
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

    def _restore(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request] = (),
        *,
        keeps_swap: bool,
        power_on: bool = False,
    ) -> None:
        """Make the LPAR what Nova records, or build it if it is not whole.

        :param keeps_swap: Whether the swap disk is known to be as it should.
        """
        if self._lacks_disks(instance):
            self._build_recorded(
                context, instance, block_device_info, requests
            )
        self._services().resizes.put_back(
            translation.describe_instance(
                instance,
                extra_specs=translation.required_specs(instance),
                moved_slots=instance_moves.moved_slots(
                    instance, self._nodename()
                ),
                requests=requests,
                ports=instance_ports.describe_ports(
                    instance, network_info, self._nodename()
                ),
                blanks=translation.blank_disks(block_device_info),
                power_on=power_on,
            ),
            keeps_swap=keeps_swap,
        )

    def _is_running(self, instance: Any) -> bool:
        running = self._services()
        lpar = running.partitions.find(driver_base.lpar_of(instance))
        return lpar is not None and running.power.is_running(lpar)

    def _lacks_disks(self, instance: Any) -> bool:
        """Return whether an LPAR with disks in the pool is not whole.

        A step that ended in the middle leaves none, or one without disks. One
        that is not off is the instance's, whatever it has. The source of a
        move has given up a swap disk whose size changes, and gets a new one.
        """
        running = self._services()
        if running.disks.pool is None:
            return False
        lpar = running.partitions.find(driver_base.lpar_of(instance))
        if lpar and running.power.is_running(lpar):
            return False
        names = {
            known.stored.name
            for known in self._kept_disks(instance)
            if known.disk.role != storage.SWAP
        }
        if lpar is None:
            return bool(names)
        return not names <= set(running.disks.attached(lpar.uuid))

    def _build_recorded(
        self,
        context: Any,
        instance: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request],
    ) -> None:
        """Build an LPAR for an instance of this host from Nova's records.

        :raises exception.PartitionNotFound: Its disks are not in a pool, and
            nothing else is left of it.
        :raises exception.ClaimFailed: It has slots of another host.
        """
        self._check_slots_of_host(instance)
        if not self._kept_disks(instance):
            raise exception.PartitionNotFound(
                uuid=driver_base.lpar_of(instance)
            )
        LOG.warning(
            'The instance has no complete LPAR on this host; building it from '
            'the records of Nova.',
            instance=instance,
        )
        build = self._describe_build(
            context,
            instance,
            None,
            (),
            None,
            None,
            instance_ports.bind_ports(instance, self._nodename()),
            block_device_info,
            requests,
            keeps_disks=True,
            power_on=False,
        )
        build = dataclasses.replace(
            build,
            extra_specs=translation.required_specs(instance),
            uses_stored_slots=True,
        )
        with self._services().network.hold_resources(build.known_ports):
            self._services().lifecycle.spawn(build)
        accelerator_requests.record_slots(instance, requests)

    def _check_slots_of_host(self, instance: Any) -> None:
        """Refuse slots of another host, which may have the same numbers.

        If its message cannot be sent to the destination, Nova gives the
        allocations back to the source, but leaves the instance on the
        destination.
        """
        stored = instance_records.stored_slots(instance.resources)
        published = self._services().claims.published
        if stored.keys() <= published.providers.keys():
            return
        if not published.is_complete:
            reason = (
                'this host has not updated Placement since nova-compute was '
                'started, so it does not know whether the slots of the '
                'instance are its own. Reboot the server hard again in a '
                'minute; if it fails again, the log of nova-compute says why'
            )
        else:
            reason = (
                'Nova has recorded the instance on this host, but its slots '
                'are those of another host, which its move came from. See "If '
                'a move fails" in the guide to moves'
            )
        raise exception.ClaimFailed(instance=instance.uuid, reason=reason)

    def _record_growth(self, instance: Any) -> None:
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

    def _grow_root(self, instance: Any) -> None:
        """Grow a root disk as recorded; leave the record if this fails."""
        if GROWTH_KEY not in instance.system_metadata:
            return
        size_gb = int(instance.system_metadata[GROWTH_KEY])
        try:
            self._services().disks.grow_root(
                driver_base.lpar_of(instance), size_gb
            )
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
