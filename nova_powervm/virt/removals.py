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

"""Removes the LPARs of instances, as Nova asks for it."""

import contextlib
from typing import Any

from nova.compute import task_states
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.ops import power
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import port_records
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)


class Removals:
    """Removes LPARs with what belongs to them.

    :param host: The operations on the host.
    :param deferred: Instances to start.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        deferred: deferred_starts.DeferredStarts,
    ) -> None:
        self._host = host
        self._deferred_starts = deferred

    def destroy(
        self, instance: Any, destroy_disks: bool, block_device_info: Any = None
    ) -> None:
        """Remove the instance's LPAR, if it exists, which frees its slots.

        Also remove each VLAN that the driver added for it and that is no
        longer used, and its disks and config drive, unless ``destroy_disks``
        is false or another host has the disks by now.

        :param block_device_info: As Nova passes it; it tells the volumes of an
            LPAR that was deleted outside of Nova.
        :raises exception.VolumeHeld: A Virtual I/O Server that may connect a
            volume does not answer; the LPAR is off.
        """
        if self._is_doubtful(instance):
            self._keep_stopped(instance)
            return
        # A rescue or reboot of the instance may be connecting its disks.
        with instance_records.alone(instance):
            self.remove(
                instance,
                delete_disks=destroy_disks
                and self._host.storage.may_delete_disks(instance),
                block_device_info=block_device_info,
            )

    def _is_doubtful(self, instance: Any) -> bool:
        """Return whether the LPAR here may be the only one of an instance.

        When nova-compute of the old host starts, Nova takes an evacuation for
        done that may have been interrupted, and has the old LPAR removed. The
        task of the instance does not tell whether it was: the new host ends
        the task when it starts.
        """
        return (
            not self._host.startup.is_over
            and instance.host == self._host.nodename
            and not instance.deleted
            and instance.task_state != task_states.DELETING
        )

    def _keep_stopped(self, instance: Any) -> None:
        """Stop an LPAR whose server was to be evacuated; keep its slots."""
        LOG.warning(
            'The evacuation of the instance has not ended. Its LPAR stays '
            'here, off: see "Evacuations" in the page on stuck servers.',
            instance=instance,
        )
        with contextlib.suppress(exception.PartitionNotFound):
            power.power_off(
                self._host.partitions, translation.lpar_of(instance), 0
            )

    def remove(
        self,
        instance: Any,
        *,
        delete_disks: bool,
        block_device_info: Any = None,
    ) -> None:
        """Remove an instance's LPAR, and the VLANs that only it has used."""
        self._deferred_starts.forget(instance)
        self._host.consoles.forget(instance)
        self._host.removal.destroy(
            instance.uuid,
            delete_disks=delete_disks,
            volumes=instance_volumes.identify_all(block_device_info),
        )
        self._host.networks.release_unused(
            port_records.NovaInstanceMetadata(instance, self._host.nodename)
        )

    def clean_up(self, instance: Any, destroy_disks: bool) -> None:
        """Remove the disks that destroy was told to keep, if there are any."""
        if destroy_disks and self._host.storage.may_delete_disks(instance):
            self._host.removal.destroy(instance.uuid)
