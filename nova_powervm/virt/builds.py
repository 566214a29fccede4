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

"""The methods of the compute driver that build and remove instances."""

from collections.abc import Sequence
from typing import Any

from nova.compute import task_states
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.ops import attached_slots
from nova_powervm.ops import survey
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import descriptions
from nova_powervm.virt import device_tags
from nova_powervm.virt import driver_base
from nova_powervm.virt import errors
from nova_powervm.virt import images
from nova_powervm.virt import instance_records
from nova_powervm.virt import port_records
from nova_powervm.virt import rebuild
from nova_powervm.virt import vifs
from nova_powervm.virt.unsupported import build_requests

LOG = logging.getLogger(__name__)


@errors.translate_errors
class Builds(driver_base.DriverBase):
    """Creates LPARs with their slots, disks and ports, and removes them."""

    def spawn(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Any,
        network_info: Any = None,
        block_device_info: Any = None,
        power_on: bool = True,
        accel_info: Any = None,
    ) -> None:
        """Create the instance's LPAR with exactly its allocated slots.

        The slots include those of accelerator requests. The LPAR gets a disk
        made from the image, and an adapter for each port.

        :raises nova.exception.InstanceDeployFailure: The build failed on this
            host; Nova may try another one. Nothing is left behind.
        :raises nova.exception.BuildAbortException: The build would fail on
            any host.
        """
        try:
            keeps_disks = self._keeps_disks(instance)
            build_requests.check_supported(
                instance,
                image_meta,
                block_device_info,
                injected_files,
                keeps_disks=keeps_disks,
            )
            vifs.await_allocation(instance, network_info)
            instance.device_metadata = device_tags.describe_tagged(
                context, instance, network_info
            )
            requests = accelerator_requests.parse_requests(
                instance, self._nodename(), accel_info
            )
            self._services().lpars.run(
                operations.ARRIVAL if keeps_disks else operations.SPAWN,
                *self._describe_build(
                    context,
                    instance,
                    None if keeps_disks else image_meta,
                    injected_files,
                    admin_password,
                    allocations,
                    network_info,
                    block_device_info,
                    requests,
                    power_on=power_on,
                ),
            )
        except exception.PowerVMError as error:
            raise errors.build_error_to_nova(error, instance.uuid) from error
        rebuild.record_image(instance)
        self.services.storage.record_pool(instance)
        accelerator_requests.record_slots(instance, requests)

    def rebuild(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Any,
        bdms: Any,
        detach_block_devices: Any,
        attach_block_devices: Any,
        network_info: Any = None,
        evacuate: bool = False,
        block_device_info: Any = None,
        preserve_ephemeral: bool = False,
        accel_uuids: Any = None,
        reimage_boot_volume: bool = False,
    ) -> None:
        """Refuse an impossible rebuild; leave any other one to Nova.

        Nova's default rebuild destroys the instance before it calls spawn.
        Therefore do all checks of spawn here, and read the whole image. For
        an evacuation the checks of spawn suffice, because the old LPAR stays
        on its host until that host is back.

        :raises NotImplementedError: The rebuild is possible.
        :raises rebuild.RebuildRefused: It is not; the server continues as it
            was.
        :raises nova.exception.InstanceDeployFailure: An evacuation is not
            possible.
        """
        with rebuild.refused_on_error(context, instance, evacuate=evacuate):
            keeps_disks = self._keeps_disks(instance)
            build_requests.check_supported(
                instance,
                image_meta,
                block_device_info,
                injected_files,
                preserve_ephemeral=preserve_ephemeral,
                keeps_disks=keeps_disks,
            )
            if not evacuate:
                self._check_rebuild(
                    context,
                    instance,
                    image_meta,
                    injected_files,
                    admin_password,
                    allocations,
                    network_info,
                    block_device_info,
                )
            elif not keeps_disks:
                _warn_of_new_disks(instance)
        raise NotImplementedError()

    def _check_rebuild(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Any,
        network_info: Any,
        block_device_info: Any,
    ) -> None:
        """Verify that an instance can be built again on this host."""
        wanted, askers = self._describe_build(
            context,
            instance,
            image_meta,
            injected_files,
            admin_password,
            allocations,
            network_info,
            block_device_info,
            # Nova fetches them only after destroying the instance.
            accelerator_requests.fetch_requests(
                context,
                instance,
                self._nodename(),
                owned=lambda: self._slots_beside_allocated(instance),
            ),
        )
        self._services().lpars.check(operations.SPAWN, wanted, askers)

    def _keeps_disks(self, instance: Any) -> bool:
        """Return whether a build continues with the disks of an instance.

        It does if this host shares storage with the host that the instance is
        evacuated from. Nova passes an image in any case, and records the new
        host of an evacuated instance when its build has succeeded.
        """
        is_evacuated = (
            instance.task_state in task_states.rebuild_states
            and instance.host != self._nodename()
        )
        return is_evacuated and bool(
            self.services.storage.kept_disks(instance)
        )

    def _slots_beside_allocated(self, instance: Any) -> set[int]:
        """Return the LPAR's slots that Nova did not allocate."""
        stored = instance_records.stored_slots(instance.resources)
        present = attached_slots.list_slots(
            self._services().partitions, instance.uuid, stored
        )
        return {*present} - {known.drc_index for known in stored.values()}

    def _describe_build(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Any,
        network_info: Any,
        block_device_info: Any,
        requests: Sequence[accelerators.Request] = (),
        *,
        power_on: bool = True,
    ) -> tuple[spec.Wanted, survey.Askers]:
        """Describe an instance for a build.

        :param image_meta: None for an instance that keeps its disks.
        """
        asked = self._askers(
            instance, network_info, injected_files, admin_password
        )
        root = None
        if image_meta is not None:
            glance = images.GlanceImage(context, image_meta.id)
            root = descriptions.image(instance, glance)
            asked.image = glance.read
        wanted = self._services().descriptions.allocated(
            instance,
            allocations,
            requests,
            root=root,
            blanks=descriptions.blank_disks(block_device_info),
            ports=asked.ports,
            power_on=power_on,
        )
        return wanted, asked.askers

    def destroy(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """Remove the instance's LPAR, if it exists, which frees its slots.

        Also remove its disks and config drive, unless ``destroy_disks`` is
        false or another host has the disks by now, and each VLAN that the
        driver added for it and that is no longer used.
        """
        self._remove(
            instance,
            delete_disks=destroy_disks
            and self.services.storage.may_delete_disks(instance),
        )

    def _remove(self, instance: Any, *, delete_disks: bool) -> None:
        self.services.deferred_starts.forget(instance)
        self._services().removal.destroy(
            instance.uuid, delete_disks=delete_disks
        )
        self._services().network.release_unused(
            port_records.NovaInstanceMarks(instance, self._nodename())
        )

    def cleanup(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        migrate_data: Any = None,
        destroy_vifs: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """Remove what destroy was told to keep, if there is anything."""
        if destroy_disks and self.services.storage.may_delete_disks(instance):
            self._services().removal.destroy(instance.uuid)


def _warn_of_new_disks(instance: Any) -> None:
    LOG.warning(
        'This host does not see the disks of the instance: the root disk is '
        'made anew from the image, and others empty.',
        instance=instance,
    )
