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

"""Starts rescue systems of instances, and then their own systems again.

Nova stops the guest before it calls the driver, and sets the instance to ERROR
after any error. Only the driver's own call tells the image of the rescue
system, so the driver does not stop the guest before that, and refuses what it
can while the guest still runs.
"""

import dataclasses
from typing import Any

from nova.compute import task_states
from nova.compute import vm_states

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import supported_features
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import descriptions
from nova_powervm.virt import glance_images
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import refusals
from nova_powervm.virt import translation

_DISK = 'disk'


class Rescues:
    """Rescues instances.

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

    def rescue(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        image_meta: Any,
        password: str,
        block_device_info: Any,
    ) -> None:
        """Start a rescue system, which also has the disks of the instance.

        After an error the guest is as it was, unless the error says more.

        :raises exception.PowerVMError: Nova sets the instance to ERROR.
        """
        _check_root(instance, block_device_info)
        _check_image(instance, image_meta)
        glance = glance_images.GlanceImage(
            context, image_meta.id, instance.trusted_certs
        )
        askers = self._host.descriptions.askers(
            instance, network_info, password=password
        )
        askers.image = glance.read
        properties = refusals.image_properties(image_meta)
        self._run(
            operations.RESCUE,
            context,
            askers,
            root=descriptions.image(instance, glance),
            os_distro=translation.normal_os_distro(
                properties.get('os_distro')
            ),
        )

    def unrescue(self, context: Any, instance: Any) -> None:
        """Start the instance's own system again; delete the rescue system.

        :raises exception.PowerVMError: Nova sets the instance to ERROR. A hard
            reboot tries again.
        """
        askers = self._host.descriptions.askers(instance, None)
        self._run(operations.UNRESCUE, context, askers)

    def _run(
        self,
        operation: operations.Operation,
        context: Any,
        askers: descriptions.NovaAskers,
        **changes: Any,
    ) -> None:
        """Run an operation.

        :param changes: What it wants beside what is on record.
        """
        instance = askers.instance
        self._deferred_starts.forget(instance)
        requests = accelerator_requests.fetch_requests(
            context, instance, self._host.nodename, wait=False
        )
        with instance_records.unchanged(instance):
            allocations = self._host.allocations.find_moved(instance)
            wanted = dataclasses.replace(
                self._host.descriptions.recorded(
                    instance, allocations, requests
                ),
                ports=askers.passed_ports,
                timeout=translation.shutdown_timeout(instance),
                **changes,
            )
            self._host.lpars.run(operation, wanted, askers)
        self._host.consoles.forget(instance)


def is_rescued(instance: Any) -> bool:
    """Return whether a start of an instance starts its rescue system."""
    return bool(
        instance.vm_state == vm_states.RESCUED
        and instance.task_state != task_states.UNRESCUING
    )


def _check_root(instance: Any, block_device_info: Any) -> None:
    """Refuse an instance that boots from a volume.

    Nova's API refuses this, too, because the driver does not claim it.

    :raises exception.RescueRefused: Its root disk is a volume.
    """
    if instance_volumes.boot_volume(block_device_info):
        raise exception.RescueRefused(
            instance_uuid=instance.uuid,
            reason='it boots from a volume. Make another volume from that, '
            'and attach it to another server to repair it',
        )


def _check_image(instance: Any, image_meta: Any) -> None:
    """Refuse an image that asks for what a rescue system cannot have.

    :raises exception.RescueRefused: It asks for something unsupported.
    """
    properties = refusals.image_properties(image_meta)
    refused = [*map(str, supported_features.refused_properties(properties))]
    device = properties.get('hw_rescue_device', _DISK)
    if device != _DISK:
        refused.append(
            f'hw_rescue_device={device}, but a rescue system is on a disk'
        )
    if refused:
        reason = exception.Listing(
            refused, '; ', before=f'image {image_meta.id} asks for '
        )
        raise exception.RescueRefused(
            instance_uuid=instance.uuid, reason=reason
        )
