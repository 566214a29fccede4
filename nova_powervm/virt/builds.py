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

"""Builds instances, and refuses rebuilds so that servers stay as they were.

After almost any error of a rebuild, nova-compute deletes the server's
allocations (``rebuild_instance``, ``except Exception``), and Placement does
not take back those of a one-time-use device. InstanceNotFound is the one error
after which it deletes nothing; but then it takes the server for deleted, and
leaves its task and the image that the API has recorded.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova.image import glance
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.ops import claiming
from nova_powervm.ops import survey
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import descriptions
from nova_powervm.virt import device_tags
from nova_powervm.virt import errors
from nova_powervm.virt import glance_images
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_allocations
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import record_changes
from nova_powervm.virt import refusals
from nova_powervm.virt import slot_records
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation
from nova_powervm.virt import volume_attachments

LOG = logging.getLogger(__name__)

#: Name of the event that records a refused rebuild.
EVENT = 'powervm_rebuild'


class RebuildRefused(nova_exception.InstanceNotFound):
    """The rebuild of a server is refused; the server stays as it was."""

    msg_fmt = 'The rebuild of instance %(instance_id)s is refused: %(reason)s'


@dataclasses.dataclass(frozen=True, slots=True)
class BuildRequest:
    """A build as Nova asks for it, with Nova's own objects.

    :param image_meta: None for an instance that keeps its disks.
    """

    context: Any
    instance: Any
    image_meta: Any
    allocations: Any
    network_info: Any
    block_device_info: Any
    injected_files: Any = ()
    admin_password: str | None = dataclasses.field(default=None, repr=False)
    power_on: bool = True


class Builds:
    """Creates LPARs with their slots, disks and ports.

    :param host: The operations on the host.
    """

    def __init__(self, host: host_operations.HostOperations) -> None:
        self._host = host

    def spawn(self, build: BuildRequest, accel_info: Any) -> None:
        """Create the instance's LPAR with exactly its allocated slots.

        The slots include those of accelerator requests. The LPAR gets a disk
        made from the image, and an adapter for each port.

        :raises nova.exception.InstanceDeployFailure: The build failed on this
            host; Nova may try another one. Nothing is left behind.
        :raises nova.exception.BuildAbortException: The build would fail on
            any host.
        :raises errors.RefusedByPolicy: The project has burned too many
            devices; nothing was made.
        """
        instance = build.instance
        try:
            keeps_disks = self._keeps_disks(instance)
            _check(build, keeps_disks=keeps_disks)
            instance_ports.await_allocation(instance, build.network_info)
            instance.device_metadata = device_tags.describe_tagged(
                build.context, instance, build.network_info
            )
            requests = accelerator_requests.parse_requests(
                instance, self._host.nodename, accel_info
            )
            if keeps_disks:
                build = dataclasses.replace(build, image_meta=None)
            wanted, askers = self._describe(build, requests)
            with (
                self._kept_from_deletion(instance),
                self._host.burn_limit.admit(
                    build.context, instance, wanted.slots
                ),
                self._host.lpars.plan(
                    operations.ARRIVAL if keeps_disks else operations.SPAWN,
                    wanted,
                    askers,
                ) as execution,
                self._slots_recorded(build, wanted),
            ):
                outcome = execution.carry_out()
        except exception.PowerVMError as error:
            raise errors.build_error_to_nova(error, instance.uuid) from error
        instance_volumes.record(build.block_device_info, outcome.udids)
        slot_records.note_all(instance, outcome.slots)
        # A server that was shelved on an older host has keys of that version.
        system_metadata.rename(instance.system_metadata)
        # Wherever a live migration had brought it, the server is here now.
        system_metadata.LIVE_MIGRATION.remove(instance.system_metadata)
        _record_image(instance)
        self._host.storage.record_pool(instance)
        accelerator_requests.record_slots(instance, requests)

    def _slots_recorded(
        self, build: BuildRequest, wanted: spec.Wanted
    ) -> contextlib.AbstractContextManager[None]:
        """Have Nova record the slots of a build before anything is made."""
        resources = instance_allocations.resources_of(
            build.instance, build.allocations, wanted.slots
        )
        return record_changes.resources_recorded(
            build.instance, resources, self._host.nodename
        )

    def arrive(self, build: BuildRequest, nvram: str | None) -> None:
        """Create an LPAR for an instance that moves here with its disks.

        :param nvram: The NVRAM of its former LPAR.
        """
        wanted, askers = self._describe(build)
        wanted = dataclasses.replace(wanted, nvram=nvram)
        outcome = self._host.lpars.run(operations.ARRIVAL, wanted, askers)
        instance_volumes.record(build.block_device_info, outcome.udids)
        slot_records.note_all(build.instance, outcome.slots)
        self._host.storage.record_pool(build.instance)
        system_metadata.LIVE_MIGRATION.remove(build.instance.system_metadata)

    def prepare_evacuation(self, instance: Any) -> None:
        """Clean up after an unfinished live migration whose source is lost.

        An administrator has removed the LPAR from where it ran. Nova calls
        this before it has the ports bound to this host.

        :raises nova.exception.InstanceDeployFailure: The LPAR may be on a
            host.
        """
        destination = system_metadata.live_migration(instance.system_metadata)
        if destination is None:
            return
        context = nova_context.get_admin_context()
        with _refused_on_error(context, instance, evacuate=True):
            self._host.locations.check(instance)
            # A start leaves them, because the LPAR might arrive.
            self._host.disks.unmap_deleted({translation.lpar_of(instance)})
            instance_ports.unbind_ports(instance, destination)

    def check_rebuild(
        self, build: BuildRequest, *, evacuate: bool, preserve_ephemeral: bool
    ) -> None:
        """Refuse an impossible rebuild.

        Nova's default rebuild destroys the instance before it calls spawn.
        Therefore do all checks of spawn here, and read the whole image. For
        an evacuation the checks of spawn suffice, because the old LPAR stays
        on its host until that host is back; but from now on Nova has Cinder
        unmap volumes from there.

        :raises RebuildRefused: The rebuild is impossible; the server continues
            as it was.
        :raises nova.exception.InstanceDeployFailure: The evacuation is
            impossible.
        """
        instance = build.instance
        with _refused_on_error(build.context, instance, evacuate=evacuate):
            self._host.locations.check(instance)
            keeps_disks = self._keeps_disks(instance)
            _check(
                build,
                keeps_disks=keeps_disks,
                preserve_ephemeral=preserve_ephemeral,
            )
            if not evacuate:
                self._check_anew(build)
                return
            self._check_volumes(build, keeps_disks=keeps_disks)
            if not keeps_disks and _has_disks(build):
                _warn_of_new_disks(instance)
            if system_metadata.live_migration(instance.system_metadata):
                volume_attachments.delete_others(build.context, instance)

    def _is_rebuilt_here(self, instance: Any) -> bool:
        """Return whether an instance is being rebuilt, and not evacuated."""
        return _is_rebuilt(instance) and bool(
            instance.host == self._host.nodename
        )

    def _kept_from_deletion(
        self, instance: Any
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context in which nobody deletes an instance being rebuilt.

        After a rebuild has removed the LPAR, a deletion would find none. For
        other builds Nova holds a lock.
        """
        if self._is_rebuilt_here(instance):
            return instance_records.undeleted(instance)
        return contextlib.nullcontext()

    def _check_anew(self, build: BuildRequest) -> None:
        """Verify that an instance can be built again on this host."""
        instance, nodename = build.instance, self._host.nodename
        if _has_unbound(build.network_info):
            # Without an answer, the ports are refused as unbound.
            with contextlib.suppress(exception.PortsUnknown):
                instance_ports.fetch_ports(instance, nodename)
        # Nova fetches the requests only after destroying the instance.
        requests = accelerator_requests.fetch_requests(
            build.context,
            instance,
            nodename,
            owned=lambda: self._slots_beside_allocated(instance),
        )
        # Nova disconnects volumes before it has the LPAR removed.
        volumes = instance_volumes.identify_all(build.block_device_info)
        slot_records.save_present(self._host.lpars, instance, volumes)
        wanted, askers = self._describe(build, requests)
        self._host.lpars.check(operations.SPAWN, wanted, askers)
        if wanted.volumes:
            self._host.volumes.check_rebuild(
                wanted.lpar_uuid,
                wanted.volumes,
                self._host.partitions.virtual_slots,
            )

    def _check_volumes(
        self, build: BuildRequest, *, keeps_disks: bool
    ) -> None:
        """Verify that an instance with volumes can be evacuated to this host.

        Of one with accelerator requests, which Nova binds later, verify only
        that it can have its volumes.
        """
        instance, info = build.instance, build.block_device_info
        volumes = instance_volumes.parse_all(instance, info)
        slots = self._host.partitions.virtual_slots
        self._host.volumes.check_arrival(volumes, slots)
        profiles = accelerators.PROFILE in (instance.flavor.extra_specs or {})
        if not volumes or profiles:
            return
        if keeps_disks:
            build = dataclasses.replace(build, image_meta=None)
        self._host.lpars.check(
            operations.ARRIVAL if keeps_disks else operations.SPAWN,
            *self._describe(build),
        )

    def _keeps_disks(self, instance: Any) -> bool:
        """Return whether an instance is evacuated, and keeps its disks.

        It keeps them if this host shares storage with the instance's old host.
        Nova passes an image in any case, and records the new host of an
        evacuated instance when its build has succeeded.
        """
        is_evacuated = (
            _is_rebuilt(instance) and instance.host != self._host.nodename
        )
        return is_evacuated and bool(self._host.storage.kept_disks(instance))

    def _slots_beside_allocated(self, instance: Any) -> set[int]:
        """Return the LPAR's slots that Nova did not allocate."""
        stored = instance_records.stored_slots(instance.resources)
        slots = claiming.list_slots(
            self._host.partitions, instance.uuid, stored
        )
        return {*slots} - {provider.drc_index for provider in stored.values()}

    def _describe(
        self,
        build: BuildRequest,
        requests: Sequence[accelerators.Request] = (),
    ) -> tuple[spec.Wanted, survey.Askers]:
        """Describe an instance for a build."""
        instance = build.instance
        askers = self._host.descriptions.askers(
            instance,
            self._network_info(build),
            build.injected_files,
            build.admin_password,
        )
        root = None
        volumes = instance_volumes.parse_all(instance, build.block_device_info)
        boots_from_volume = any(volume.is_boot for volume in volumes)
        if build.image_meta is not None and not boots_from_volume:
            glance = glance_images.GlanceImage(
                build.context, build.image_meta.id, instance.trusted_certs
            )
            root = descriptions.image(instance, glance)
            askers.image = glance.read
        # A rebuild binds no port while it makes the LPAR: no event comes.
        askers.waits = not self._is_rebuilt_here(instance)
        wanted = dataclasses.replace(
            self._host.descriptions.allocated(
                instance, build.allocations, requests
            ),
            root=root,
            blanks=descriptions.blank_disks(build.block_device_info),
            ports=askers.passed_ports,
            volumes=volumes,
            power_on=build.power_on,
        )
        return wanted, askers

    def _network_info(self, build: BuildRequest) -> Any:
        """Return the ports that Nova passes, or those that a check has bound.

        Nova reads its cache before the check of a rebuild, and passes the same
        ports to spawn.
        """
        instance = build.instance
        if self._is_rebuilt_here(instance) and _has_unbound(
            build.network_info
        ):
            return instance.get_network_info()
        return build.network_info


def _is_rebuilt(instance: Any) -> bool:
    return instance.task_state in task_states.rebuild_states


def _has_unbound(network_info: Any) -> bool:
    return any(port.is_unbound for port in instance_ports.ports(network_info))


def _check(
    build: BuildRequest, *, keeps_disks: bool, preserve_ephemeral: bool = False
) -> None:
    refusals.check_build(
        build.instance,
        build.image_meta,
        build.block_device_info,
        build.injected_files,
        preserve_ephemeral=preserve_ephemeral,
        keeps_disks=keeps_disks,
    )


def _has_disks(build: BuildRequest) -> bool:
    """Return whether an instance has disks that are not volumes."""
    info = build.block_device_info
    return not instance_volumes.boot_volume(info) or bool(
        descriptions.blank_disks(info)
    )


def _warn_of_new_disks(instance: Any) -> None:
    LOG.warning(
        'This host does not see the disks of the instance: they are made '
        'anew, a root disk from the image, and others empty.',
        instance=instance,
    )


def _record_image(instance: Any) -> None:
    """Record the image from which the disk of an instance is made.

    Nova saves this with the rest of the instance. An unshelve builds from an
    image that Nova deletes afterwards: keep the original one on record then,
    as Nova does.
    """
    if instance.vm_state != vm_states.SHELVED_OFFLOADED:
        system_metadata.IMAGE.write(
            instance.system_metadata, instance.image_ref
        )


@contextlib.contextmanager
def refused_if_stop_fails(instance: Any) -> Iterator[None]:
    """Refuse the rebuild of an instance if this block cannot stop it.

    The stop is the first step of a rebuild, after the checks. For an instance
    that is not being rebuilt, pass errors on.

    :raises RebuildRefused: The block raised one of the driver's errors.
    """
    try:
        yield
    except exception.PowerVMError as error:
        if instance.task_state not in task_states.rebuild_states:
            raise
        raise _refuse(_find_context(instance), instance, error) from error


@contextlib.contextmanager
def _refused_on_error(
    context: Any, instance: Any, *, evacuate: bool
) -> Iterator[None]:
    """Refuse the rebuild that this block checks, if the check fails.

    :param context: The context of the request.
    :param instance: nova.objects.Instance.
    :param evacuate: Whether this is an evacuation, without an old LPAR on
        this host.
    :raises RebuildRefused: A rebuild is refused.
    :raises nova.exception.InstanceDeployFailure: An evacuation is refused;
        Nova has to remove its allocations on this host.
    """
    try:
        yield
    except Exception as error:
        # After any other error Nova would set a running server to ERROR.
        if not evacuate:
            raise _refuse(context, instance, error) from error
        if isinstance(error, exception.PowerVMError):
            raise nova_exception.InstanceDeployFailure(
                reason=errors.for_users(error)
            ) from error
        raise


def _find_context(instance: Any) -> Any:
    """Return a context of the request for the last action on an instance.

    Nova passes none to a stop. Without the request, the refusal gets no event.
    """
    context = nova_context.get_admin_context()
    try:
        (action,) = objects.InstanceActionList.get_by_instance_uuid(
            context, instance.uuid, limit=1
        )
    except Exception:
        # After an error of the database, Nova would delete the allocations.
        LOG.exception(
            'The request for the rebuild is not known, so its action gets '
            'no event',
            instance=instance,
        )
    else:
        context.request_id = action.request_id
    return context


def _refuse(context: Any, instance: Any, error: Exception) -> RebuildRefused:
    """Restore Nova's record of a server, and return the exception to raise.

    Record a fault and a failed event, because Nova does not.

    :raises nova.exception.UnexpectedDeletingTaskStateError: The server is
        being deleted meanwhile, which Nova goes on with.
    """
    reason = errors.for_users(error)
    LOG.error('The rebuild is refused: %s', error, instance=instance)
    _put_back_image(context, instance)
    refusal = RebuildRefused(instance_id=instance.uuid, reason=reason)
    try:
        record_changes.end_refused_rebuild(instance)
        compute_utils.add_instance_fault_from_exc(
            context, instance, refusal, sys.exc_info()
        )
    except nova_exception.UnexpectedDeletingTaskStateError:
        raise
    except Exception:
        # Any error of the database: the refusal matters more.
        LOG.exception(
            'The server is as it was, but Nova may show it in REBUILD. Run '
            '`openstack server set --state active %s`',
            instance.uuid,
            instance=instance,
        )
    errors.record_failure(context, instance, EVENT, refusal)
    return refusal


def _put_back_image(context: Any, instance: Any) -> None:
    """Record the image of the disk again, without saving the record."""
    image_ref = system_metadata.IMAGE.read(instance.system_metadata)
    if not image_ref or image_ref == instance.image_ref:
        return
    try:
        image = glance.API().get(context, image_ref)
    except Exception as error:
        # Any error of Glance's client: the refusal matters more than the
        # properties.
        LOG.warning(
            'The properties of the old image %(image)s are lost: %(error)s',
            {'image': image_ref, 'error': error},
            instance=instance,
        )
        image = {}
    record_changes.put_back_image(instance, image_ref, image)
