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

"""Carries out resizes and cold migrations.

Nova calls the source in migrate_disk_and_power_off and confirm_migration, and
the destination in finish_migration. A revert destroys the instance on the
destination before finish_revert_migration continues it on the source. In a
resize within a host all of these calls go to that host, and the LPAR is the
same one throughout.

Before a guest is stopped, the source asks the destination whether it can take
the instance. Nova has no call for this, but its call about shared storage,
``check_instance_shared_storage``, fits: the answer can be any value, and
nothing is changed.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova import exception as nova_exception
from nova.compute import rpcapi
from nova.compute import task_states
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.ops import power
from nova_powervm.virt import builds
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import descriptions
from nova_powervm.virt import errors
from nova_powervm.virt import hard_reboots
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import lpar_locations
from nova_powervm.virt import moved_nvram
from nova_powervm.virt import record_changes
from nova_powervm.virt import refusals
from nova_powervm.virt import removals
from nova_powervm.virt import shared_storage
from nova_powervm.virt import slot_records
from nova_powervm.virt import translation
from nova_powervm.virt import volume_attachments

LOG = logging.getLogger(__name__)

# Keys that a question adds to the description of the shared storage, and the
# key of its answer.
#: Uuid of an instance that moves to the host that is asked.
_MOVED = 'moved'
#: Uuid of an instance that comes back to the host that is asked.
_RETURNED = 'returned'
#: Uuid of an instance that has no disks but volumes.
_NO_DISKS = 'no disks'
_REFUSAL = 'refusal'
#: The LPAR on the source, while the guest still runs with its disks elsewhere.
_SLOTS_BACK = dataclasses.replace(
    operations.RETURN,
    creates=operations.Creation.NO,
    adapters=operations.Adapters.NO,
    disks=operations.Disks.NO,
    volumes=operations.Volumes.NO,
)
#: The status of a migration that its user has yet to confirm or revert.
_AWAITS_USER = 'finished'
_TRY_AGAIN = 'Reboot the server hard to try again'
_NOT_CLEANED = 'Reboot the server hard: it stays on the host that it moved to'
_NOT_REVERTED = (
    'Reboot the server hard: it keeps its new flavor and host, and is not '
    'reverted'
)


class Moves:
    """Resizes instances and moves them to other hosts.

    :param host: The operations on the host.
    :param deferred: Instances to start.
    :param build: Builds instances.
    :param removal: Removes instances.
    :param reboots: Brings LPARs back to what Nova records.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        deferred: deferred_starts.DeferredStarts,
        build: builds.Builds,
        removal: removals.Removals,
        reboots: hard_reboots.HardReboots,
    ) -> None:
        self._host = host
        self._deferred_starts = deferred
        self._builds = build
        self._removals = removal
        self._hard_reboots = reboots
        self.questions = MoveQuestions(host)

    def migrate_disk_and_power_off(
        self,
        context: Any,
        instance: Any,
        flavor: Any,
        block_device_info: Any,
        timeout: int,
    ) -> dict[str, str]:
        """Stop an instance that moves, after checking that it can.

        The LPAR stays as it is, so that the move can be reverted.

        :param flavor: The new flavor.
        :returns: The ``disk_info`` for finish_migration.
        :raises nova.exception.InstanceFaultRollback: The move is not
            possible; the server continues as it was.
        """
        disk_info = {}
        self._deferred_starts.forget(instance)
        with (
            self._refused_moves(instance),
            instance_records.unchanged(instance),
        ):
            volumes = instance_volumes.parse_all(instance, block_device_info)
            instance_volumes.refuse_changing(instance, volumes)
            move = instance_records.move_of(instance)
            leaves = not instance_records.is_within_host(move)
            source = dataclasses.replace(
                self._host.descriptions.recorded(
                    instance, self._host.allocations.find(instance)
                ),
                blanks=descriptions.blank_disks(block_device_info),
                checks_swap=leaves and flavor.swap != instance.flavor.swap,
                volumes=volumes,
                timeout=timeout,
            )
            planning = self._host.lpars.plan(operations.DEPARTURE, source)
            with planning as execution:
                # Cinder's next answer would replace those of earlier versions.
                instance_volumes.record(
                    block_device_info, {v.id: v.udid for v in volumes}
                )
                if leaves or volumes:
                    # The destination reads them, to answer.
                    slot_records.save_present(
                        self._host.lpars, instance, volumes
                    )
                self._check_move(context, instance, move, flavor, source)
                execution.carry_out()
            if leaves:
                disk_info = moved_nvram.hand_over(
                    self._host.partitions, instance
                )
        self._host.consoles.forget(instance)
        return disk_info

    def _check_move(
        self,
        context: Any,
        instance: Any,
        move: Any,
        flavor: Any,
        source: spec.Wanted,
    ) -> None:
        """Check everything that can be checked before the guest is stopped.

        The plan of the departure has checked the present LPAR.

        :param source: The present LPAR.
        :raises exception.PowerVMError: The move is refused.
        """
        old = instance_records.disk_sizes(instance.flavor)
        new = instance_records.disk_sizes(flavor)
        if source.boots_from_volume:
            # Its root disk has the size of the volume.
            new = dataclasses.replace(new, root_gb=old.root_gb)
        reasons = [
            *storage.refused_disk_changes(old, new),
            *refusals.refused_specs(flavor),
        ]
        if reasons:
            raise exception.MoveRefused(
                reason=exception.Listing(reasons, '; ')
            )
        if instance_records.is_within_host(move):
            wanted = self._host.descriptions.moving(instance, flavor)
            self._host.volumes.check_arrival(source.volumes)
            self._host.lpars.check(operations.RESIZE, wanted)
            self._host.burn_limit.check_move(instance, wanted.slots)
        else:
            self.questions.ask_to_take(
                context, instance, move.dest_compute, source
            )
        if new.root_gb > old.root_gb:
            self._host.disks.check_growth(
                translation.lpar_of(instance), flavor.root_gb
            )

    @contextlib.contextmanager
    def _refused_moves(self, instance: Any) -> Iterator[None]:
        """Let the server continue as it was if a move is refused.

        Nova releases the claim on the target in its next cycle, unless the
        instance still has a migration context.
        """
        try:
            yield
        except Exception as error:
            # After any error, the instance is where it was.
            LOG.error(
                'The move is refused: %s',
                _without_traceback(error),
                instance=instance,
            )
            if not isinstance(error, exception.InstanceChanged):
                record_changes.drop_migration_context(instance)
            outcome = 'the server is not moved'
            if not isinstance(error, exception.GuestStaysOff):
                outcome += ', and continues as it was'
            raise refusals.roll_back(
                f'PowerVM: {outcome}: {errors.for_users(error)}'
            ) from error

    def finish_migration(
        self, migration: Any, build: builds.BuildRequest, disk_info: Any
    ) -> None:
        """Continue an instance on this host with its new flavor and slots.

        Burn one-time-use devices last, just before the LPAR gets them. After
        an error of another class, Nova would show the server as ACTIVE.

        :param migration: nova.objects.Migration.
        :param build: The instance and what belongs to it, without an image.
        :param disk_info: What the source has returned.
        :raises nova.exception.NovaException: The server goes to ERROR. A hard
            reboot continues it on this host.
        """
        instance = build.instance
        with errors_out(), instance_records.unchanged(instance):
            if instance_records.is_within_host(migration):
                self._finish_within_host(build)
                return
            nvram = moved_nvram.take_out(disk_info, instance)
            with moved_nvram.lost_on_error(nvram, instance):
                self._builds.arrive(build, nvram)

    def _finish_within_host(self, build: builds.BuildRequest) -> None:
        instance = build.instance
        askers = self._host.descriptions.askers(instance, build.network_info)
        wanted = dataclasses.replace(
            self._host.descriptions.allocated(instance, build.allocations),
            moved_slots=instance_records.moved_slots(
                instance, self._host.nodename
            ),
            ports=askers.passed_ports,
            blanks=descriptions.blank_disks(build.block_device_info),
            checks_swap=instance_records.changes_swap(instance),
            volumes=instance_volumes.parse_all(
                instance, build.block_device_info
            ),
            power_on=build.power_on,
        )
        outcome = self._host.lpars.run(operations.RESIZE, wanted, askers)
        instance_volumes.record(build.block_device_info, outcome.udids)
        slot_records.try_to_save(instance, outcome)

    def confirm_migration(self, migration: Any, instance: Any) -> None:
        """Remove the LPAR of the source, and grow the root disk.

        The disk grows only now: it could not shrink again in a revert.
        """
        is_deleting = instance.task_state in (
            task_states.DELETING,
            task_states.SOFT_DELETING,
        )
        # Record this before anything can fail. If Nova then gives up deleting
        # the server, a hard reboot grows the disk.
        self._hard_reboots.record_growth(instance)
        if not instance_records.is_within_host(migration):
            self._remove_source(migration, instance)
        if not is_deleting:
            self._hard_reboots.grow_root(instance)

    def _remove_source(self, migration: Any, instance: Any) -> None:
        """Remove the LPAR of the source, unless the instance is back on it.

        If an administrator has set the state of a server that awaited its
        confirmation, Nova still has the migration, and confirms it in place
        of the server's next one.
        """
        if instance.host == self._host.nodename:
            LOG.warning(
                'LPAR %(lpar_uuid)s is not removed: Nova confirms migration '
                '%(migration)s to host %(destination)s, but the server is on '
                'this host again. A later migration of it may stay in status '
                'finished, with an LPAR and allocations on its source: see '
                '"If the state of a moved server is set" in the guide to '
                'moves.',
                {
                    'lpar_uuid': translation.lpar_of(instance),
                    'migration': migration.uuid,
                    'destination': migration.dest_compute,
                },
                instance=instance,
            )
            return
        with errors_out(_NOT_CLEANED), instance_records.unchanged(instance):
            self._remove_lpar(instance)

    def _remove_lpar(
        self, instance: Any, block_device_info: Any = None
    ) -> None:
        """Remove the LPAR of one side of a move.

        What a host without a pool has of a server that can move is a config
        drive.
        """
        self._removals.remove(
            instance,
            delete_disks=self._host.storage.pool is None,
            block_device_info=block_device_info,
        )

    def destroy(
        self,
        context: Any,
        instance: Any,
        destroy_disks: bool,
        block_device_info: Any,
    ) -> None:
        """Remove the instance's LPAR; see :meth:`removals.Removals.destroy`.

        In a revert its disks stay, and within a host the LPAR, too: Nova has
        the destination destroy the instance, and the source continues with the
        same disks or LPAR.
        """
        is_reverting = instance.task_state == task_states.RESIZE_REVERTING
        if is_reverting:
            _refuse_earlier(instance)
        if instance_records.is_being_shelved(instance):
            self._record_virtual_slots(instance, block_device_info)
        if not is_reverting and instance.host == self._host.nodename:
            self._check_location(instance)
        if not is_reverting or instance.host != self._host.nodename:
            self._removals.destroy(instance, destroy_disks, block_device_info)
            return
        with errors_out(_NOT_REVERTED), instance_records.unchanged(instance):
            self._leave_destination(context, instance, block_device_info)

    def _check_location(self, instance: Any) -> None:
        """Refuse to remove an instance whose LPAR may be on another host.

        :raises nova.exception.InstancePowerOffFailure: It may. This is the one
            error after which Nova does not take the ports of an instance away.
        """
        try:
            self._host.locations.check(instance)
        except exception.PowerVMError as error:
            raise nova_exception.InstancePowerOffFailure(
                reason=errors.for_users(error)
            ) from error

    def _record_virtual_slots(
        self, instance: Any, block_device_info: Any
    ) -> None:
        """Record the virtual slots of an LPAR that a shelve removes."""
        volumes = instance_volumes.identify_all(block_device_info)
        try:
            slot_records.save_present(self._host.lpars, instance, volumes)
        except exception.PowerVMError as error:
            LOG.warning(
                'The virtual slots of the instance are not read again before '
                'its LPAR is removed: %s',
                error,
                instance=instance,
            )

    def _leave_destination(
        self, context: Any, instance: Any, block_device_info: Any
    ) -> None:
        """Stop an instance whose move is reverted, and remove a second LPAR.

        Its guest has the disks of the source, and shuts down to leave them
        whole. Nova has Cinder map its volumes anew in any case.
        """
        volumes = instance_volumes.identify_all(block_device_info)
        move = instance_records.move_of(instance)
        is_within = instance_records.is_within_host(move)
        self._check_revert(context, instance, move, volumes)
        lpar_uuid = translation.lpar_of(instance)
        with contextlib.suppress(exception.PartitionNotFound):
            power.power_off(
                self._host.partitions,
                lpar_uuid,
                translation.shutdown_timeout(instance),
            )
        if not is_within:
            self._remove_lpar(instance, block_device_info)
            return
        for volume in volumes:
            self._host.volumes.disconnect(volume, lpar_uuid)

    def _check_revert(
        self,
        context: Any,
        instance: Any,
        move: Any,
        volumes: Sequence[lpar_volumes.Volume],
    ) -> None:
        """Let the guest run on if it cannot go back to the source.

        :raises nova.exception.InstanceFaultRollback: It cannot; Nova shows the
            server as ACTIVE, and the move as failed.
        """
        lpar_uuid, attached = translation.lpar_of(instance), self._host.volumes
        try:
            if instance_records.is_within_host(move):
                if volumes:
                    attached.check_disconnection(lpar_uuid, volumes)
                    attached.check_arrival(volumes)
            else:
                if volumes:
                    attached.check_removal(lpar_uuid, volumes)
                self.questions.ask_to_take_back(
                    context, instance, move.source_compute
                )
        except Exception as error:
            # Any error of Nova's RPC: the guest has not been touched.
            LOG.error(
                'The revert is refused: %s',
                _without_traceback(error),
                instance=instance,
            )
            raise _refused_revert(
                f'{errors.for_users(error)}. {_NOT_REVERTED}'
            ) from error

    def finish_revert_migration(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        migration: Any,
        block_device_info: Any,
        power_on: bool,
    ) -> None:
        """Give the LPAR its former slots, sizes and swap disk, and start it.

        Nova also calls this while nova-compute starts, for an instance that it
        was about to move when it was killed. If the move has not stopped the
        guest, leave the guest alone.

        :raises nova.exception.NovaException: The server goes to ERROR. A hard
            reboot tries again.
        """
        # Before the move has stopped the guest, there is nothing to take back.
        was_killed = instance.task_state == task_states.RESIZE_MIGRATING
        is_resized_here = (
            instance_records.is_within_host(migration) and not was_killed
        )
        askers = self._host.descriptions.askers(instance, network_info)
        with errors_out(), instance_records.unchanged(instance):
            renewal = volume_attachments.Renewal(self._host, context, instance)
            if was_killed:
                self._begin(renewal, instance, block_device_info)
            wanted = dataclasses.replace(
                self._hard_reboots.describe_recorded(
                    instance,
                    block_device_info,
                    self._host.allocations.find(instance),
                ),
                ports=askers.passed_ports,
                checks_swap=instance_records.changes_swap(instance),
                volumes=instance_volumes.parse_all(
                    instance, block_device_info
                ),
                power_on=power_on,
            )
            operation = (
                operations.RESIZE if is_resized_here else operations.RETURN
            )
            outcome = self._host.lpars.run(operation, wanted, askers)
            instance_volumes.record(block_device_info, outcome.udids)
            slot_records.try_to_save(instance, outcome)
            renewal.complete()

    def _begin(
        self,
        renewal: volume_attachments.Renewal,
        instance: Any,
        block_device_info: Any,
    ) -> None:
        """Have Cinder map volumes that a killed move has unmapped, if any.

        nova.conf may lack the credentials for Cinder that this needs at Nova's
        start. Without an answer, the host finds out what is missing.
        """
        try:
            renewal.begin(block_device_info)
        except exception.PowerVMError as error:
            LOG.warning(
                'It is unknown whether Cinder still maps the volumes of the '
                'instance: %s',
                error,
                instance=instance,
            )


class MoveQuestions:
    """Asks the other host of a move to take an instance; answers such hosts.

    :param host: The operations on the host.
    """

    def __init__(self, host: host_operations.HostOperations) -> None:
        self._host = host

    def ask_to_take(
        self,
        context: Any,
        instance: Any,
        destination: str,
        source: spec.Wanted,
    ) -> None:
        """Ask the destination whether it can run an instance.

        :param source: The present LPAR.
        :raises exception.MoveRefused: It cannot.
        """
        has_disks = bool(source.blanks) or not source.boots_from_volume
        if has_disks and not self._host.storage.kept_disks(instance):
            others = ' but the root disk' * source.boots_from_volume
            raise exception.MoveRefused(
                reason=f'its disks{others} are not in a shared storage pool '
                '([powervm]disk_driver), so no other host sees them',
            )
        self._ask(context, instance, destination, _MOVED, has_disks=has_disks)

    def ask_to_take_back(
        self, context: Any, instance: Any, source: str
    ) -> None:
        """Ask the source whether its LPAR of an instance can have its slots.

        :raises exception.MoveRefused: It cannot.
        """
        has_disks = bool(self._host.storage.kept_disks(instance))
        self._ask(context, instance, source, _RETURNED, has_disks=has_disks)

    def _ask(
        self,
        context: Any,
        instance: Any,
        other_host: str,
        question: str,
        *,
        has_disks: bool,
    ) -> None:
        pool = self._host.storage.pool if has_disks else None
        answer = rpcapi.ComputeAPI().check_instance_shared_storage(
            context,
            {
                shared_storage.POOL: None if pool is None else pool.identity(),
                shared_storage.LPAR: translation.lpar_of(instance),
                question: instance.uuid,
                **({} if has_disks else {_NO_DISKS: instance.uuid}),
            },
            instance=instance,
            host=other_host,
        )
        if not isinstance(answer, dict):
            answer = {_REFUSAL: 'its driver cannot receive instances'}
        if answer[_REFUSAL]:
            reason = exception.PrivateText(
                f'host {other_host} cannot run it: {answer[_REFUSAL]}',
                f'the other host cannot run it: {answer[_REFUSAL]}',
            )
            raise exception.MoveRefused(reason=reason)

    def answer(self, data: dict[str, str]) -> Any:
        """Answer a host that shares its storage, or moves an instance.

        :param data: The question of
            :meth:`shared_storage.SharedStorage.describe` or of this class on
            the other host.
        :returns: Whether the storage is shared; for a move, a dictionary with
            the refusal, which may be None; where an LPAR is.
        """
        if lpar_locations.LOCATED in data:
            return self._host.locations.answer(data)
        is_shared = _NO_DISKS in data or self._host.storage.is_shared(data)
        if not {_MOVED, _RETURNED} & data.keys():
            return is_shared
        if not is_shared:
            return {_REFUSAL: 'it does not see the same shared storage pool'}
        try:
            if _MOVED in data:
                self._check_arrival(data[_MOVED])
            else:
                self._check_return(data[_RETURNED])
        except exception.PowerVMError as error:
            return {_REFUSAL: errors.for_users(error)}
        return {_REFUSAL: None}

    def _check_arrival(self, uuid: str) -> None:
        instance = instance_records.read_moving(uuid)
        wanted = dataclasses.replace(
            self._host.descriptions.moving(instance, instance.new_flavor),
            ports=instance_ports.ports(instance.get_network_info()),
            volumes=instance_volumes.recorded(instance),
        )
        slots = self._host.partitions.virtual_slots
        self._host.volumes.check_arrival(wanted.volumes, slots)
        self._host.lpars.check(operations.ARRIVAL, wanted)
        self._host.burn_limit.check_move(instance, wanted.slots)

    def _check_return(self, uuid: str) -> None:
        """Check the LPAR of the source, which is made anew if it is lost."""
        instance = instance_records.read_moving(uuid)
        volumes = instance_volumes.recorded(instance)
        if volumes:
            found = self._host.partitions.find(translation.lpar_of(instance))
            slots = (found or self._host.partitions).virtual_slots
            self._host.volumes.check_arrival(volumes, slots)
        with contextlib.suppress(exception.PartitionNotFound):
            wanted = self._host.descriptions.recorded(
                instance, self._host.allocations.find(instance)
            )
            self._host.lpars.check(
                _SLOTS_BACK, dataclasses.replace(wanted, power_on=False)
            )


def _refuse_earlier(instance: Any) -> None:
    """Refuse to revert an earlier move while the last one awaits its user.

    If an administrator has set the state of a server that awaited its
    confirmation, Nova reverts that migration in place of the server's last
    one. The guest would lose the devices of the last one.

    :raises nova.exception.InstanceFaultRollback: Nova shows the server as
        ACTIVE, and the earlier move as failed.
    """
    if instance.migration_context is None:
        return
    move = instance_records.move_of(instance)
    if move.status == _AWAITS_USER:
        reason = (
            f'Nova reverts another migration than {move.uuid}, which is the '
            'server\'s last one. See "If the state of a moved server is set" '
            'in the guide to moves'
        )
        LOG.error('The revert is refused: %s', reason, instance=instance)
        raise _refused_revert(reason)


def _refused_revert(reason: str) -> nova_exception.InstanceFaultRollback:
    """Return the exception after which Nova shows the server as ACTIVE."""
    return refusals.roll_back(
        'PowerVM: the server is not reverted, and continues where it is: '
        f'{reason}.'
    )


def _without_traceback(error: Exception) -> str:
    """Return the first line of an error; RPC appends a traceback to others."""
    return str(error).partition('\n')[0]


@contextlib.contextmanager
def errors_out(advice: str = _TRY_AGAIN) -> Iterator[None]:
    """Turn an error of the driver into one after which Nova sets ERROR.

    Nova would ignore InstanceNotFound, and take an InstanceFaultRollback or a
    NotImplementedError for a move that has not begun.

    :param advice: A clause that says what the user can do.
    """
    try:
        yield
    except exception.PowerVMError as error:
        raise nova_exception.NovaException(
            f'{errors.for_users(error).rstrip(".")}. {advice}.'
        ) from error
