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

"""Power: on, off, restart and state of an instance's LPAR."""

import contextlib
from collections.abc import Iterator
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import slots as host_slots
from nova_powervm.lpar import lpar_state
from nova_powervm.lpar import partition
from nova_powervm.ops import attached_slots
from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import disk_use
from nova_powervm.ops import instance_spec
from nova_powervm.ops import interfaces
from nova_powervm.ops import network
from nova_powervm.ops import removal

LOG = logging.getLogger(__name__)

#: States in which an operating system cannot be asked to shut down.
_CANNOT_SHUT_DOWN = frozenset(
    (lpar_state.Power.FAILED, lpar_state.Power.SUSPENDED)
)


class PowerOps:
    """Starts and stops LPARs.

    :param partitions: The host's LPARs.
    :param slots: Ensures that an LPAR starts with its instance's slots.
    :param networks: Ensures that an LPAR starts with the adapters of its
        instance's ports.
    :param disks: The disk driver.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        slots: attached_slots.AttachedSlotOps,
        networks: network.NetworkOps,
        disks: disk_interfaces.Disks,
    ) -> None:
        self._partitions = partitions
        self._slots = slots
        self._networks = networks
        self._disks = disks

    def state(self, uuid: str) -> lpar_state.Power:
        """Return an LPAR's power state.

        :param uuid: Upper-case PowerVM uuid.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        return lpar_state.power(self._partitions.state(uuid))

    def is_running(self, lpar: partition.Partition) -> bool:
        """Return whether an LPAR, as just read, is not off."""
        return removal.is_active(lpar)

    def power_on(self, instance: instance_spec.InstanceSpec) -> None:
        """Start an instance's LPAR with exactly its slots and ports.

        If the LPAR is already running, check its slots and change its
        adapters. If the host reports it as failed, stop it hard first.

        :raises exception.PartitionNotFound: There is no such LPAR.
        :raises exception.PartitionNotStartable: It is suspended, or the host
            does not know whether it is running.
        :raises exception.SlotsDiffer: It has other slots.
        :raises exception.SlotsMissing: It is running without one of its
            slots.
        :raises exception.ClaimFailed: A missing slot cannot be assigned.
        :raises exception.DiskInUse: Another LPAR uses one of its disks.
        :raises exception.DiskNotConnected: Its root disk is not connected.
        :raises exception.PortRefused: A missing adapter cannot be created.
        :raises exception.PortsUnknown: Neutron did not report its ports.
        """
        lpar = interfaces.require_lpar(self._partitions, instance.lpar)
        power = require_known_state(instance, lpar)
        if power is lpar_state.Power.SUSPENDED:
            raise exception.PartitionNotStartable(
                name=lpar.name,
                instance=instance.uuid,
                state=lpar.state,
                reason='starting it would discard the memory of its guest. '
                'Resume it on the host, or reboot the server hard to discard '
                'the memory',
            )
        missing = self._slots.find_missing(instance, lpar)
        with self._networks.compare_adapters(
            lpar.uuid, instance.ports
        ) as changes:
            if power is not lpar_state.Power.RUNNING:
                self._start(instance, lpar, missing, changes)
                return
            if missing:
                raise exception.SlotsMissing(
                    instance=instance.uuid,
                    name=lpar.name,
                    slots=host_slots.format_drc_indexes(
                        s.drc_index for s in missing
                    ),
                )
            self._networks.prepare_host(changes)
            self._networks.apply_changes(lpar, changes)

    def _start(
        self,
        instance: instance_spec.InstanceSpec,
        lpar: partition.Partition,
        missing: Sequence[partition.SlotAssignment],
        changes: network.Changes,
        timeout: int = 0,
    ) -> None:
        """Start an LPAR; stop it first if it is not off.

        Change adapters before assigning slots, because adapters burn nothing.
        If the change fails and the LPAR was stopped for it, start the LPAR
        unchanged.

        :param timeout: Seconds to shut down, as for :meth:`power_off`.
        """
        if not removal.is_active(lpar):
            disk_use.check_start(self._disks, lpar.uuid)
        self._networks.prepare_host(changes)
        if removal.is_active(lpar):
            self._stop(lpar, timeout)
            with self._start_on_failure(lpar, missing):
                self._networks.apply_changes(lpar, changes)
        else:
            self._networks.apply_changes(lpar, changes)
        if missing:
            lpar = self._slots.assign_missing(instance, missing)
        self._partitions.power_on(lpar)

    @contextlib.contextmanager
    def _start_on_failure(
        self,
        lpar: partition.Partition,
        missing: Sequence[partition.SlotAssignment],
    ) -> Iterator[None]:
        """Start a stopped LPAR if the block fails.

        An LPAR without one of its slots stays off.
        """
        try:
            yield
        except Exception:
            if missing:
                raise
            LOG.error(
                'The network adapters of LPAR %(name)s cannot be changed; '
                'starting it with its present adapters.',
                {'name': lpar.name},
            )
            try:
                self._partitions.power_on(lpar)
            except exception.PowerVMError as error:
                LOG.error(
                    'LPAR %(name)s stays off: %(error)s',
                    {'name': lpar.name, 'error': error},
                )
            raise

    def power_off(self, uuid: str, timeout: int = 0) -> None:
        """Stop an LPAR unless it is already off.

        :param uuid: Upper-case PowerVM uuid.
        :param timeout: Seconds for the operating system to shut down before
            the LPAR is stopped hard; 0 to stop it hard at once.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        lpar = interfaces.require_lpar(self._partitions, uuid)
        if not removal.is_active(lpar):
            return
        self._stop(lpar, timeout)

    def _stop(self, lpar: partition.Partition, timeout: int) -> None:
        """Stop an LPAR that is not off."""
        if (
            timeout
            and lpar_state.power(lpar.state) not in _CANNOT_SHUT_DOWN
            and self._shut_down(lpar, timeout)
        ):
            return
        self._partitions.power_off(lpar, hard=True)

    def reboot(
        self, instance: instance_spec.InstanceSpec, *, hard: bool, timeout: int
    ) -> None:
        """Restart an instance's LPAR, or start it if it is not running.

        If a soft restart fails, restart the LPAR hard. If the LPAR lacks a
        slot, or its adapters differ from its ports, stop it, correct that,
        and start it instead of restarting it. A guest that failed or is
        suspended cannot shut down, so stop it hard. After an error, the LPAR
        keeps running.

        :param hard: Whether to restart without asking the operating system.
        :param timeout: Seconds for a soft restart or shutdown before it is
            done hard; 0 to do it hard at once.
        :raises exception.PartitionNotFound: There is no such LPAR.
        :raises exception.PartitionNotStartable: The host does not know
            whether the LPAR is running.
        :raises exception.SlotsDiffer: It has an additional slot.
        :raises exception.ClaimFailed: A missing slot cannot be assigned.
        :raises exception.DiskInUse: Another LPAR uses one of its disks.
        :raises exception.DiskNotConnected: Its root disk is not connected.
        :raises exception.PortRefused: A missing adapter cannot be created.
        :raises exception.PortsUnknown: Neutron did not report its ports.
        """
        lpar = interfaces.require_lpar(self._partitions, instance.lpar)
        power = require_known_state(instance, lpar)
        missing = self._slots.find_missing(instance, lpar)
        with self._networks.compare_adapters(
            lpar.uuid, instance.ports
        ) as changes:
            if missing or changes or power is not lpar_state.Power.RUNNING:
                self._start(
                    instance, lpar, missing, changes, 0 if hard else timeout
                )
            elif hard:
                self._partitions.restart(lpar, hard=True)
            else:
                self._restart(instance, lpar, timeout)

    def _restart(
        self,
        instance: instance_spec.InstanceSpec,
        lpar: partition.Partition,
        timeout: int,
    ) -> None:
        """Restart a running LPAR softly, or hard if that fails."""
        if self._restart_softly(lpar, timeout):
            return
        # It may have shut down after the time limit, and would stay off.
        lpar = interfaces.require_lpar(self._partitions, instance.lpar)
        if removal.is_active(lpar):
            self._partitions.restart(lpar, hard=True)
        else:
            self._partitions.power_on(lpar)

    def _shut_down(self, lpar: partition.Partition, timeout: int) -> bool:
        try:
            self._partitions.power_off(lpar, hard=False, timeout=timeout)
        except exception.RestError as error:
            LOG.warning(
                'LPAR %(name)s did not shut down within %(timeout)d seconds '
                '(%(error)s); it is stopped hard.',
                {'name': lpar.name, 'timeout': timeout, 'error': error},
            )
            return False
        return True

    def _restart_softly(self, lpar: partition.Partition, timeout: int) -> bool:
        if not timeout:
            return False
        try:
            self._partitions.restart(lpar, hard=False, timeout=timeout)
        except exception.RestError as error:
            LOG.warning(
                'LPAR %(name)s did not restart softly (%(error)s); it is '
                'restarted hard.',
                {'name': lpar.name, 'error': error},
            )
            return False
        return True


def require_known_state(
    instance: instance_spec.InstanceSpec, lpar: partition.Partition
) -> lpar_state.Power:
    """Return an LPAR's power state; refuse one that the host does not know."""
    power = lpar_state.power(lpar.state)
    if power is lpar_state.Power.UNKNOWN:
        raise exception.PartitionNotStartable(
            name=lpar.name,
            instance=instance.uuid,
            state=lpar.state,
            reason='the host does not know whether it is running, so the '
            'driver neither starts nor stops it. Try again when `pvmctl lpar '
            'list` shows another state',
        )
    return power
