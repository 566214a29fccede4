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
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import builds
from nova_powervm.virt import driver_base
from nova_powervm.virt import instance_moves
from nova_powervm.virt import instance_ports
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

#: Key of an instance's system metadata for the size in GiB that its root disk
#: could not be grown to.
GROWTH_KEY = 'powervm_root_gb'


class MoveRepairs(builds.Builds):
    """Repairs what a move has left behind."""

    def _repair_lpar(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request],
    ) -> None:
        """Make the LPAR what Nova records, after a move that failed.

        Nova leaves the server in ERROR on one of the hosts, with the slots
        that are allocated to it there. Its flavor may be the other one.
        """
        if GROWTH_KEY in instance.system_metadata:
            self._grow_root(
                instance, int(instance.system_metadata[GROWTH_KEY])
            )
        if not instance_moves.has_failed(instance):
            return
        try:
            self._put_back(
                instance,
                network_info,
                block_device_info,
                power_on=False,
                keeps_swap=False,
            )
        except exception.PartitionNotFound:
            self._build_recorded(
                context, instance, block_device_info, requests
            )

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
        """
        if not self._kept_disks(instance):
            raise exception.PartitionNotFound(
                uuid=driver_base.lpar_of(instance)
            )
        LOG.warning(
            'The instance has no LPAR on this host; building it from the '
            'records of Nova.',
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

    def _put_back(
        self,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        *,
        power_on: bool,
        keeps_swap: bool,
    ) -> None:
        self._services().resizes.put_back(
            translation.describe_instance(
                instance,
                extra_specs=translation.required_specs(instance),
                moved_slots=instance_moves.moved_slots(instance),
                ports=instance_ports.describe_ports(
                    instance, network_info, self._nodename()
                ),
                blanks=translation.blank_disks(block_device_info),
                power_on=power_on,
            ),
            keeps_swap=keeps_swap,
        )

    def _grow_root(self, instance: Any, size_gb: int) -> None:
        """Make a root disk larger, or record that it is still to be done.

        Nova saves the record with the rest of the instance.
        """
        try:
            self._services().disks.grow_root(
                driver_base.lpar_of(instance), size_gb
            )
        except exception.PowerVMError as error:
            instance.system_metadata[GROWTH_KEY] = str(size_gb)
            LOG.error(
                'The root disk could not be grown to %(size)d GB, which the '
                "server's flavor has: %(error)s. The next hard reboot of the "
                'server tries again.',
                {'size': size_gb, 'error': error},
                instance=instance,
            )
        else:
            instance.system_metadata.pop(GROWTH_KEY, None)
