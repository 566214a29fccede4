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
from nova_powervm.instance import lpar_state
from nova_powervm.instance import partition
from nova_powervm.ops import attached_slots
from nova_powervm.ops import instance_spec
from nova_powervm.ops import interfaces
from nova_powervm.ops import network
from nova_powervm.ops import removal

LOG = logging.getLogger(__name__)

#: States in which an operating system can't be asked to shut down.
_CANNOT_SHUT_DOWN = frozenset(
    (lpar_state.Power.FAILED, lpar_state.Power.SUSPENDED)
)


class PowerOps:
    """Runs and stops LPARs.

    :param partitions: The host's LPARs.
    :param slots: Sees to it that an LPAR starts with its instance's slots.
    :param networks: Sees to it that it starts with the adapters of its ports.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        slots: attached_slots.AttachedSlotOps,
        networks: network.NetworkOps,
    ) -> None:
        self._partitions = partitions
        self._slots = slots
        self._networks = networks

    def state(self, uuid: str) -> lpar_state.Power:
        """Give an LPAR's power state.

        :param uuid: Upper-case PowerVM uuid.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        return lpar_state.power(self._partitions.state(uuid))

    def power_on(self, instance: instance_spec.InstanceSpec) -> None:
        """Start an instance's LPAR; one that runs already is fine.

        It starts with exactly its slots, and the adapters of its ports. One
        that runs must have its slots; its adapters are changed while it
        runs. One that the host holds for failed is stopped hard first.

        :raises exception.PartitionNotFound: There is no such LPAR.
        :raises exception.PartitionNotStartable: It is suspended, or the host
            does not know whether it runs.
        :raises exception.SlotsDiffer: It has other slots.
        :raises exception.ClaimFailed: A missing slot can't be given back.
        :raises exception.PortRefused: A missing adapter can't be made.
        :raises exception.PortsUnknown: It can't be told which there must be.
        """
        lpar = self._find(instance.lpar)
        power = _require_known_state(instance, lpar)
        if power is lpar_state.Power.SUSPENDED:
            raise exception.PartitionNotStartable(
                name=lpar.name,
                instance=instance.uuid,
                state=lpar.state,
                reason='a start would lose what its guest has in memory. '
                'Resume it on the host, or reboot the server hard to start '
                'it anew',
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
                    slots=', '.join(f'{s.drc_index:08X}' for s in missing),
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
        """Start an LPAR; one that is not off is stopped first.

        Adapters come before slots: they burn nothing. If they can't be
        changed, an LPAR that was stopped for it is started as it is.

        :param timeout: Seconds to shut down, as for :meth:`power_off`.
        """
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
        """Start an LPAR that is off if the block fails.

        One that lacks a slot stays off: none starts without its devices.
        """
        try:
            yield
        except Exception:
            if missing:
                raise
            LOG.error(
                'The network adapters of LPAR %(name)s can not be changed; it '
                'is started with those that it has.',
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
        """Stop an LPAR; one that is off already is fine.

        :param uuid: Upper-case PowerVM uuid.
        :param timeout: Seconds for the operating system to shut down before
            the LPAR is stopped hard; 0 stops it hard at once.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        lpar = self._find(uuid)
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
        """Restart an instance's LPAR; one that does not run is started.

        A soft restart that fails becomes a hard one. An LPAR that lacks a
        slot, or whose adapters are not those of its ports, is stopped and
        started in place of a restart: that is put right while it is off. A
        guest that failed or is suspended can't be asked: it is stopped hard.

        :param timeout: Seconds for a soft restart, or to shut down, before
            it is done hard; 0 does it hard at once.
        :raises exception.PartitionNotFound: There is no such LPAR.
        :raises exception.PartitionNotStartable: The host does not know
            whether it runs.
        :raises exception.SlotsDiffer: It has a slot too many; it runs on.
        :raises exception.ClaimFailed: A missing slot can't be given back;
            the LPAR runs on.
        :raises exception.PortRefused: A missing adapter can't be made; the
            LPAR runs on.
        :raises exception.PortsUnknown: It can't be told which adapters there
            must be; the LPAR runs on.
        """
        lpar = self._find(instance.lpar)
        power = _require_known_state(instance, lpar)
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
        """Restart a running LPAR softly, or hard if that does not work."""
        if self._restart_softly(lpar, timeout):
            return
        # It may have gone down too late, and does not come up again.
        lpar = self._find(instance.lpar)
        if removal.is_active(lpar):
            self._partitions.restart(lpar, hard=True)
        else:
            self._partitions.power_on(lpar)

    def _find(self, uuid: str) -> partition.Partition:
        lpar = self._partitions.find(uuid)
        if lpar is None:
            raise exception.PartitionNotFound(uuid=uuid)
        return lpar

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


def _require_known_state(
    instance: instance_spec.InstanceSpec, lpar: partition.Partition
) -> lpar_state.Power:
    """Give an LPAR's power state; the host has to know it."""
    power = lpar_state.power(lpar.state)
    if power is lpar_state.Power.UNKNOWN:
        raise exception.PartitionNotStartable(
            name=lpar.name,
            instance=instance.uuid,
            state=lpar.state,
            reason='the host does not know whether it runs, so it is neither '
            'started nor stopped. Try again when `pvmctl lpar list` shows '
            'another state',
        )
    return power
