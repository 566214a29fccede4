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

"""Starts, stops and restarts instances as Nova asks for it."""

import contextlib
import dataclasses
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova import exception as nova_exception
from nova.compute import task_states
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.lpar import operations
from nova_powervm.ops import power
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import builds
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import errors
from nova_powervm.virt import hard_reboots
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import refusals
from nova_powervm.virt import rescues
from nova_powervm.virt import slot_records
from nova_powervm.virt import snapshots
from nova_powervm.virt import translation
from nova_powervm.virt import volume_attachments

LOG = logging.getLogger(__name__)

#: Name of the event that records a refused reboot.
_REBOOT_EVENT = 'powervm_reboot'
#: The tasks that may stop a server whose LPAR is missing.
_WITHOUT_LPAR = (*task_states.rebuild_states, task_states.POWERING_OFF)


class GuestPower:
    """Changes the power states of instances.

    :param host: The operations on the host.
    :param deferred: Instances to start.
    :param reboots: Brings LPARs back to what Nova records.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        deferred: deferred_starts.DeferredStarts,
        reboots: hard_reboots.HardReboots,
    ) -> None:
        self._host = host
        self._deferred_starts = deferred
        self._hard_reboots = reboots
        self._snapshots = snapshots.SnapshotChecks(host)

    def start(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        accel_info: Any,
    ) -> None:
        """Start the instance's LPAR with its slots and ports."""
        self._deferred_starts.forget(instance)
        requests = self._await_requests(context, instance, accel_info)
        volume_attachments.Renewal(self._host, context, instance).check()
        self.run(operations.START, instance, network_info, requests)
        accelerator_requests.save_slots(instance, requests)

    def _await_requests(
        self, context: Any, instance: Any, accel_info: Any
    ) -> Sequence[accelerators.Request]:
        """Return the accelerator requests as soon as they are bound."""
        return accelerator_requests.await_requests(
            context, instance, self._host.nodename, accel_info
        )

    def stop(self, instance: Any, timeout: int) -> None:
        """Stop the instance; give its guest ``timeout`` seconds to shut down.

        In a rebuild, or after a move that has failed, the LPAR may be missing.
        For a rescue, leave the stop to :mod:`.rescues`, which first checks
        that the rescue is possible.

        :raises nova.exception.NovaException: The stop is the first step of an
            unsupported operation; the guest keeps running.
        :raises exception.PowerVMError: It is the first step of a shelve that
            would fail; the guest keeps running.
        """
        refusals.refuse_cross_cell_move(instance)
        if instance.task_state == task_states.RESCUING:
            return
        self._snapshots.check_stop(instance)
        self._deferred_starts.forget(instance)
        with (
            builds.refused_if_stop_fails(instance),
            self._logged_if_evacuated(instance),
        ):
            if instance.host == self._host.nodename:
                # Nova would show a guest as stopped that runs elsewhere.
                self._host.locations.check(instance)
            lpar_uuid = translation.lpar_of(instance)
            try:
                power.power_off(self._host.partitions, lpar_uuid, timeout)
            except exception.PartitionNotFound:
                # With this error Nova would consider the server deleted, and
                # leave it in REBUILD forever. The rebuild creates its LPAR.
                # Volumes can be refreshed only if the user has stopped it.
                if instance.task_state not in _WITHOUT_LPAR:
                    raise

    @contextlib.contextmanager
    def _logged_if_evacuated(self, instance: Any) -> Iterator[None]:
        """Only log an error if Nova stops a server that it has just evacuated.

        After an error Nova would record the server on its old host, while its
        LPAR runs here. Without one it stops the LPAR later, when it compares
        power states.
        """
        try:
            yield
        except exception.PowerVMError as error:
            if (
                instance.task_state != task_states.POWERING_OFF
                or instance.host == self._host.nodename
            ):
                raise
            LOG.error(
                'The server was evacuated to this host, but could not be '
                'stopped afterwards: %s',
                error,
                instance=instance,
            )

    def crash_dump(self, instance: Any) -> None:
        """Have the guest write a dump of its memory, and restart.

        :raises nova.exception.InstanceNotRunning: The instance is off.
        """
        lpar_uuid = translation.lpar_of(instance)
        if not power.crash_dump(self._host.partitions, lpar_uuid):
            raise nova_exception.InstanceNotRunning(instance_id=instance.uuid)

    def reboot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        reboot_type: str,
        block_device_info: Any,
        accel_info: Any,
    ) -> None:
        """Restart the instance with its slots and ports, 'SOFT' or 'HARD'."""
        self._deferred_starts.forget(instance)
        try:
            requests = self._await_requests(context, instance, accel_info)
            if reboot_type == 'HARD':
                with instance_records.unchanged(instance):
                    self._hard_reboots.hard_reboot(
                        context,
                        instance,
                        network_info,
                        block_device_info,
                        requests,
                    )
            else:
                volume_attachments.Renewal(
                    self._host, context, instance
                ).check()
                self.run(
                    operations.SOFT_REBOOT,
                    instance,
                    network_info,
                    requests,
                    translation.shutdown_timeout(instance),
                )
        except exception.PowerVMError as error:
            # If the instance keeps running, Nova does not log the reason and
            # records the reboot as a success.
            LOG.error(
                'The instance is not rebooted: %s', error, instance=instance
            )
            errors.record_failure(
                context,
                instance,
                _REBOOT_EVENT,
                nova_exception.NovaException(errors.for_users(error)),
            )
            raise
        accelerator_requests.save_slots(instance, requests)

    def run(
        self,
        operation: operations.Operation,
        instance: Any,
        network_info: Any,
        requests: Sequence[accelerators.Request],
        timeout: int = 0,
    ) -> None:
        """Start or restart an instance with its slots and ports."""
        allocations = self._host.allocations.find_moved(instance)
        askers = self._host.descriptions.askers(instance, network_info)
        wanted = dataclasses.replace(
            self._host.descriptions.recorded(instance, allocations, requests),
            ports=askers.passed_ports,
            timeout=timeout,
            volumes=instance_volumes.recorded_boot_volume(instance),
        )
        outcome = self._host.lpars.run(operation, wanted, askers)
        slot_records.try_to_save(instance, outcome)


def start_at_boot(
    host: host_operations.HostOperations, context: Any, instance: Any
) -> None:
    """Start an instance that Nova expects to be running.

    Nova passes no accelerator requests. Fetch them without waiting for unbound
    ones, because nova-compute is starting. Fetch the ports, too, because Nova
    passes its cache, which may be outdated.
    """
    requests = accelerator_requests.fetch_requests(
        context, instance, host.nodename, wait=False
    )
    ports = instance_ports.fetch_ports_at_boot(instance, host.nodename)
    askers = host.descriptions.askers(instance, None)
    askers.present_ports = ports or ()
    wanted = dataclasses.replace(
        host.descriptions.recorded(instance, requests=requests),
        ports=ports,
        rescued=rescues.is_rescued(instance),
        volumes=instance_volumes.recorded_boot_volume(instance),
    )
    outcome = host.lpars.run(operations.START, wanted, askers)
    slot_records.try_to_save(instance, outcome)
    accelerator_requests.save_slots(instance, requests)
