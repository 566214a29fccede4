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

"""Makes LPARs what Nova's records say, in hard reboots and in reverts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.virt import descriptions
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_allocations
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import live_config_drives
from nova_powervm.virt import record_changes
from nova_powervm.virt import shared_storage
from nova_powervm.virt import slot_records
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation
from nova_powervm.virt import volume_attachments

LOG = logging.getLogger(__name__)

_ROOT_GB = system_metadata.ROOT_GB


class HardReboots:
    """Makes LPARs what Nova's records say, after moves as well.

    :param host: The operations on the host.
    """

    def __init__(self, host: host_operations.HostOperations) -> None:
        self._host = host

    def hard_reboot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request],
    ) -> None:
        """Make an instance whole on this host, and restart it.

        After a move that failed or was interrupted, Nova leaves the server on
        one of the hosts. Give it the allocations that it or its migration has
        here. Its flavor may be that of the other host.

        :raises exception.ClaimFailed: Placement does not answer, or has
            allocated other devices than the flavors of the server ask for.
        :raises exception.PartitionNotFound: It has no LPAR, and nothing to
            make it from.
        """
        self._host.locations.check(instance)
        destination = system_metadata.live_migration(instance.system_metadata)
        allocations = self._host.allocations.find(instance)
        if destination is not None:
            self._end_live_migration(instance, destination, network_info)
        has_moved = instance.migration_context is not None
        if has_moved:
            self._record_size(instance)
        # After a revert that was killed, nothing tells that there was a move.
        renewal = volume_attachments.Renewal(self._host, context, instance)
        renewal.begin(block_device_info)
        growth = _ROOT_GB.read(instance.system_metadata)
        askers = self._host.descriptions.askers(instance, network_info)
        wanted = dataclasses.replace(
            self.describe_recorded(
                instance, block_device_info, allocations, requests
            ),
            ports=askers.passed_ports,
            checks_swap=has_moved or allocations.has_failed,
            grow_root_gb=None if growth is None else int(growth),
            volumes=instance_volumes.parse_all(instance, block_device_info),
            known_volumes=instance_volumes.recorded_ids(instance),
        )
        planning = self._host.lpars.plan(
            operations.HARD_REBOOT, wanted, askers
        )
        with planning as execution:
            self._host.allocations.bring_home(
                instance, allocations, wanted.slots
            )
            if has_moved or allocations.has_failed:
                instance_ports.bind_ports(instance, self._host.nodename)
            outcome = execution.carry_out()
        instance_volumes.record(block_device_info, outcome.udids)
        slot_records.try_to_save(instance, outcome)
        renewal.complete()
        if destination is not None:
            # The LPAR is here.
            system_metadata.write_live_migration(instance, None)
        if outcome.has_grown:
            _ROOT_GB.remove(instance.system_metadata)
        if has_moved:
            record_changes.drop_migration_context(instance)

    def _end_live_migration(
        self, instance: Any, destination: str, network_info: Any
    ) -> None:
        """Have the ports bound to this host alone; connect the config drive.

        If Neutron fails when an instance has arrived, Nova records it on its
        new host, and the ports stay bound to the old one.
        """
        other: str | None = destination
        if destination == self._host.nodename:
            other = instance_records.live_source(instance)
        if other is not None:
            instance_ports.unbind_ports(instance, other)
        if self._host.locations.here(translation.lpar_of(instance)) is None:
            return
        try:
            # Before the guest restarts: it may need RMC for this.
            live_config_drives.insert(self._host, instance, network_info)
        except exception.PowerVMError as error:
            LOG.error(
                '%(consequence)s after the live migration: %(error)s',
                {
                    'consequence': 'The config drive is not connected',
                    'error': error,
                },
                instance=instance,
            )

    def describe_recorded(
        self,
        instance: Any,
        block_device_info: Any,
        allocations: instance_allocations.LocalAllocations,
        requests: Sequence[accelerators.Request] = (),
    ) -> spec.Wanted:
        """Describe an instance as it should be on this host."""
        pool = self._host.storage.pool
        return dataclasses.replace(
            self._host.descriptions.recorded(instance, allocations, requests),
            moved_slots={
                **instance_records.moved_slots(instance, self._host.nodename),
                **allocations.moved_slots,
            },
            blanks=descriptions.blank_disks(block_device_info),
            pool_is_current=pool is not None
            and shared_storage.recorded_pool(instance) == pool.identity(),
        )

    def record_growth(self, instance: Any) -> None:
        """Record that the root disk is to grow to the flavor's size.

        Nova saves the record with the rest of the instance, even if the
        confirmation fails.
        """
        old, new = instance.old_flavor, instance.flavor
        if old is not None and new.root_gb <= old.root_gb:
            return
        if not instance_volumes.is_volume_backed(instance):
            _ROOT_GB.write(instance.system_metadata, str(new.root_gb))

    def _record_size(self, instance: Any) -> None:
        """Record the root disk's size after a move that cannot be reverted."""
        size_gb = instance.flavor.root_gb
        if not size_gb or _ROOT_GB.read(instance.system_metadata) is not None:
            return
        if not instance_volumes.is_volume_backed(instance):
            _ROOT_GB.write(instance.system_metadata, str(size_gb))

    def grow_root(self, instance: Any) -> None:
        """Grow a root disk to the recorded size, or keep the record."""
        recorded = _ROOT_GB.read(instance.system_metadata)
        if recorded is None:
            return
        size_gb = int(recorded)
        try:
            self._host.disks.grow_root(translation.lpar_of(instance), size_gb)
        except exception.GrowthPutOff as error:
            LOG.warning(
                'The root disk is to grow to %(size)d GB at the next hard '
                'reboot of the server: %(error)s',
                {'size': size_gb, 'error': error},
                instance=instance,
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
            _ROOT_GB.remove(instance.system_metadata)
