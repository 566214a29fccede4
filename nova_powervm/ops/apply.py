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

"""Carries out the plan for an LPAR: the one place that changes LPARs.

:mod:`nova_powervm.lpar.plan` plans each operation of Nova, which is carried
out here step by step. There is one write of an LPAR's document, with the burn
of its one-time-use devices just before it, and one undo.
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from oslo_utils import timeutils

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import plan as lpar_plan
from nova_powervm.lpar import spec
from nova_powervm.lpar import steps
from nova_powervm.lpar import storage
from nova_powervm.lpar import virtual_slots
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.ops import claiming
from nova_powervm.ops import drivers
from nova_powervm.ops import power
from nova_powervm.ops import removal
from nova_powervm.ops import survey

LOG = logging.getLogger(__name__)

#: The steps within the context in which the ports of a new LPAR are plugged,
#: and the steps after it.
_PLUGGING = (steps.CreateAdapters, steps.Map, steps.ConnectVolumes)
_AFTER_PLUGGING = (steps.GrowRoot, steps.FitSwap, steps.Start)
_STARTS_AGAIN = (operations.Failure.RESTART, operations.Failure.RESTORE)


class LparOperations:
    """Plans operations on LPARs and carries them out.

    :param readers: Reads the host; its parts also carry out the steps.
    :param burns: Burns one-time-use devices.
    :param removals: Removes LPARs.
    """

    def __init__(
        self,
        readers: survey.Readers,
        burns: claiming.BurnOps,
        removals: removal.RemovalOps,
    ) -> None:
        self.readers = readers
        self.burns = burns
        self.removals = removals

    def check(
        self,
        operation: operations.Operation,
        wanted: spec.Wanted,
        askers: survey.Askers | None = None,
    ) -> steps.LparPlan:
        """Plan an operation, and change nothing; an image may be cached.

        :returns: The plan.
        :raises exception.PowerVMError: The operation would be refused.
        """
        row, uuid = operation.as_check(), wanted.lpar_uuid
        askers = askers or survey.Askers()
        with survey.Survey(self.readers, row, wanted, askers) as surveyed:
            planned = surveyed.plan()
            LOG.debug('Plan for LPAR %s: %s.', uuid, planned)
            self._check_room(wanted, planned)
            if planned.document and row.disks is operations.Disks.MADE:
                # The guest's present LPAR is removed before this one is made.
                self.burns.check(wanted.instance_uuid, planned.document.burns)
            return planned

    def read_virtual_slots(
        self, lpar_uuid: str, volumes: Sequence[lpar_volumes.Volume]
    ) -> dict[str, int]:
        """Read the virtual slots of an LPAR's ports and volumes.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param volumes: The volumes that the LPAR should have.
        :returns: See :mod:`nova_powervm.lpar.virtual_slots`.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        adapters = self.readers.networks.adapters(lpar_uuid)
        by_owner = network_ports.slots_of(adapters)
        if volumes:
            connected = self.readers.volumes.connected(lpar_uuid, volumes)
            by_owner |= virtual_slots.of_connected(connected)
        return by_owner

    def _check_room(self, wanted: spec.Wanted, plan: steps.LparPlan) -> None:
        """Refuse a plan if there is not enough space for new disks.

        The disks of a rescue come in addition to the disks of the LPAR.

        :raises exception.InsufficientSpace: There is not enough.
        """
        disks = [
            step.disk
            for step in plan.steps
            if isinstance(step, steps.MakeRoot | steps.MakeBlank)
        ]
        media = [s.size for s in plan.steps if isinstance(s, steps.MakeMedium)]
        if disks:
            self.readers.disks.check_room(
                wanted.lpar_uuid,
                disks,
                media[0] if media else None,
                beside=plan.operation.disks is operations.Disks.RESCUED,
            )

    def _check_rescue(self, wanted: spec.Wanted, plan: steps.LparPlan) -> None:
        """Refuse to begin or end a rescue before the guest is stopped.

        :raises exception.InsufficientSpace: There is not enough space.
        :raises exception.RestError: The disks could not be connected anew.
        """
        if any(isinstance(step, steps.Reconnect) for step in plan.steps):
            self.readers.disks.check_reconnect(wanted.lpar_uuid)
        if plan.operation.disks is operations.Disks.RESCUED:
            self._check_room(wanted, plan)

    @contextlib.contextmanager
    def plan(
        self,
        operation: operations.Operation,
        wanted: spec.Wanted,
        askers: survey.Askers | None = None,
    ) -> Iterator['Execution']:
        """Plan an operation, for a caller with checks or records of its own.

        :returns: A context that changes nothing; within it, the plan can be
            carried out.
        :raises exception.PowerVMError: The operation is refused.
        """
        readers, askers = self.readers, askers or survey.Askers()
        with survey.Survey(readers, operation, wanted, askers) as surveyed:
            planned = surveyed.plan()
            self._check_rescue(wanted, planned)
            if operation.volumes is operations.Volumes.LEFT:
                readers.volumes.check_disconnection(
                    wanted.lpar_uuid, wanted.volumes
                )
            yield Execution(self, planned, wanted, askers, surveyed)

    def run(
        self,
        operation: operations.Operation,
        wanted: spec.Wanted,
        askers: survey.Askers | None = None,
    ) -> 'Outcome':
        """Plan an operation, and carry it out.

        :returns: What was done.
        :raises exception.PowerVMError: The operation was refused before it
            changed anything; or it failed, and the operation's row says what
            was done then.
        """
        with self.plan(operation, wanted, askers) as execution:
            return execution.carry_out()


class Outcome:
    """The results of an operation, for Nova's records.

    :ivar has_grown: Whether the root disk has the wanted size.
    :ivar udids: Volume id -> unique device id, of volumes that were found.
    :ivar slots: The virtual slots of ports and volumes, as far as they were
        read or chosen; see :mod:`nova_powervm.lpar.virtual_slots`.
    :ivar removed: The MAC addresses of removed adapters, and the ids of
        removed volumes.
    """

    def __init__(self) -> None:
        self.has_grown = False
        self.udids: dict[str, str] = {}
        self.slots: dict[str, int] = {}
        self.removed: set[str] = set()

    def forget(self, owner: str) -> None:
        """Forget the slots of a device that was removed."""
        self.removed.add(owner)
        self.slots = {
            name: slot
            for name, slot in self.slots.items()
            if virtual_slots.owner_of(name) != owner
        }


class Execution:
    """Carries out one plan.

    :param ops: The means to carry it out.
    :param plan: The plan.
    :param wanted: What Nova and Placement say about the LPAR.
    :param askers: Asks Nova and Neutron.
    :param surveyed: What the operation has read.
    """

    def __init__(
        self,
        ops: LparOperations,
        plan: steps.LparPlan,
        wanted: spec.Wanted,
        askers: survey.Askers,
        surveyed: survey.Survey,
    ) -> None:
        self._ops = ops
        self._readers = ops.readers
        self._disks = ops.readers.disks
        self._plan = plan
        self._wanted = wanted
        self._lpar_uuid = wanted.lpar_uuid
        self._askers = askers
        self._survey = surveyed
        self._written: partition.Partition | None = None
        self._stored: list[storage.Stored] = []
        self._medium: storage.Stored | None = None
        self._volumes: dict[str, drivers.LocatedVolume] = {}
        self._left: list[lpar_volumes.Volume] = []
        self._stopped: partition.Partition | None = None
        self._is_reordered = False
        self._gave_up_swap = False
        self._outcome = Outcome()
        self._outcome.slots |= surveyed.actual.known_slots(wanted)
        self._do: dict[type[steps.Step], Callable[[Any], None]] = {
            steps.RemoveRemains: self._remove_remains,
            steps.PrepareHost: self._prepare_host,
            steps.Stop: self._stop,
            steps.MakeRoot: self._make_root,
            steps.KeepDisks: self._keep_disks,
            steps.MakeBlank: self._make_blank,
            steps.MakeMedium: self._make_medium,
            steps.GrowRoot: self._grow_root,
            steps.FitSwap: self._fit_swap,
            steps.RemoveAdapter: self._remove_adapter,
            steps.RemovePort: self._remove_port,
            steps.CreateAdapters: self._create_adapters,
            steps.Map: self._map,
            steps.FindVolumes: self._find_volumes,
            steps.ConnectVolumes: self._connect_volumes,
            steps.DisconnectVolumes: self._disconnect_volumes,
            steps.Reconnect: self._reconnect,
            steps.Document: self._write_document,
            steps.Start: self._start,
            steps.Restart: self._restart,
        }

    @property
    def _lpar(self) -> partition.Partition:
        """The LPAR as last read; there is none before its creation."""
        lpar = self._written or self._survey.actual.lpar
        assert lpar is not None  # noqa: S101 - for the type checker
        return lpar

    def carry_out(self) -> Outcome:
        """Do all steps; after a failure, do what the operation's row says.

        :returns: What was done.
        :raises exception.PowerVMError: A step failed.
        """
        self._log_plan()
        if self._plan.makes:
            self._make()
        else:
            try:
                self._do_all(self._plan.steps)
            except Exception as error:
                self._forget_volumes()
                self._start_unchanged(error)
                raise
        return self._outcome

    def _log_plan(self) -> None:
        wanted = self._wanted
        LOG.log(
            logging.INFO if self._plan.steps else logging.DEBUG,
            'Plan for LPAR %(lpar_uuid)s: %(plan)s.',
            {'lpar_uuid': wanted.lpar_uuid, 'plan': self._plan},
            instance_uuid=wanted.instance_uuid,
        )
        for remark in self._plan.remarks:
            LOG.warning(
                'LPAR %(lpar_uuid)s: %(remark)s',
                {'lpar_uuid': wanted.lpar_uuid, 'remark': remark},
                instance_uuid=wanted.instance_uuid,
            )

    def _do_all(self, planned: Iterable[steps.Step]) -> None:
        for step in planned:
            self._do[type(step)](step)

    def _make(self) -> None:
        """Make an LPAR, and remove everything if this fails."""
        planned, uuid = self._plan.steps, self._lpar_uuid
        later = _PLUGGING + _AFTER_PLUGGING
        self._ops.removals.forget_leftover(uuid)
        try:
            self._do_all(s for s in planned if not isinstance(s, later))
            with self._askers.plugging():
                self._do_all(s for s in planned if isinstance(s, _PLUGGING))
            self._do_all(s for s in planned if isinstance(s, _AFTER_PLUGGING))
        except BaseException as error:
            name = partition.lpar_name(self._wanted.name)
            LOG.warning(
                'Instance %(instance_uuid)s could not be built; removing what '
                'was created for LPAR %(name)s.',
                {'instance_uuid': self._wanted.instance_uuid, 'name': name},
            )
            made_disks = self._plan.operation.disks is operations.Disks.MADE
            self._ops.removals.remove_failed_build(
                uuid, name, error, delete_disks=made_disks
            )
            self._forget_volumes()
            raise

    def _forget_volumes(self) -> None:
        """Have the host forget volumes that were found but not connected."""
        for volume in self._volumes.values():
            self._readers.volumes.forget(volume)

    def _start_unchanged(self, error: Exception) -> None:
        """Start a guest again that was stopped for a change that failed.

        An LPAR that may lack one of its slots, or have a slot too many, stays
        off. So does an LPAR that somebody else has changed at the same time.

        :raises exception.GuestStaysOff: The guest could not be started.
        """
        failure = self._plan.operation.failure
        if failure not in _STARTS_AGAIN:
            return
        document = self._plan.document
        if document and (document.added or document.spec.freed):
            return
        if isinstance(error, exception.DocumentDiffers):
            return
        if self._is_reordered and failure is operations.Failure.RESTART:
            # The rescue disk is still there, so the next start connects all.
            return
        try:
            if failure is operations.Failure.RESTORE:
                self._undo_rescue()
            self._restore_swap()
            self._restore_volumes()
            # Another LPAR may write to the disk now.
            is_used = isinstance(error, exception.DiskInUse)
            if self._stopped is not None and not is_used:
                LOG.error(
                    'LPAR %s could not be changed; starting it as it was.',
                    self._stopped.name,
                )
                power.start(self._readers.partitions, self._stopped)
        except Exception as second:
            # Also an error of a volume driver that nobody expects.
            raise exception.GuestStaysOff(
                reason=error, second=second
            ) from error

    def _undo_rescue(self) -> None:
        """Delete the rescue disk, after connecting the other disks as before.

        The rescue system may run although its start has failed.
        """
        uuid, disks = self._lpar_uuid, self._disks
        # The LPAR may have been deleted meanwhile.
        if self._is_reordered and self._readers.partitions.find(uuid):
            power.power_off(self._readers.partitions, uuid)
            disks.reconnect(uuid, rescued=False)
        try:
            disks.delete_rescue(uuid)
        except exception.PowerVMError as error:
            LOG.error(
                'The rescue disk of LPAR %(lpar_uuid)s could not be deleted: '
                '%(error)s. The next hard reboot of the server deletes it.',
                {'lpar_uuid': uuid, 'error': error},
                instance_uuid=self._wanted.instance_uuid,
            )

    def _restore_volumes(self) -> None:
        """Connect volumes again that were to go to another LPAR."""
        for volume in self._left:
            located = self._readers.volumes.find(volume, self._lpar_uuid)
            self._readers.volumes.connect(located, self._lpar)

    def _restore_swap(self) -> None:
        """Make a swap disk again that was given up; guests run without it."""
        swap = self._wanted.swap
        if swap is None or not self._gave_up_swap:
            return
        try:
            self._disks.fit_swap(self._lpar_uuid, swap)
        except exception.PowerVMError as error:
            LOG.error(
                'The swap disk of LPAR %(lpar_uuid)s could not be made again: '
                '%(error)s',
                {'lpar_uuid': self._lpar_uuid, 'error': error},
                instance_uuid=self._wanted.instance_uuid,
            )

    # Steps

    def _remove_remains(self, step: steps.RemoveRemains) -> None:
        LOG.warning(
            'LPAR %s is left over from an interrupted build; recreating it.',
            self._lpar.name,
        )
        self._ops.removals.remove(
            self._lpar.uuid,
            self._lpar,
            delete_disks=step.delete_disks,
            volumes=self._wanted.volumes,
        )

    def _prepare_host(self, step: steps.PrepareHost) -> None:
        self._readers.networks.prepare_host(
            step.connections, self._askers.metadata()
        )

    def _stop(self, step: steps.Stop) -> None:
        if self._lpar.power is partition.Power.RUNNING:
            self._stopped = self._lpar
        elif self._lpar.power is partition.Power.FAILED:
            LOG.warning(
                'LPAR %(name)s has failed (reference code %(code)s); it is '
                'stopped.',
                {
                    'name': self._lpar.name,
                    'code': self._lpar.reference_code or 'none',
                },
                instance_uuid=self._wanted.instance_uuid,
            )
        power.stop(self._readers.partitions, self._lpar, step.timeout)

    def _make_root(self, step: steps.MakeRoot) -> None:
        root = self._wanted.root
        assert root is not None  # noqa: S101 - for the type checker
        contents = self._survey.actual.image
        with self._timed(f'{step.product} ({contents.size} bytes)'):
            stored = self._disks.make_root(
                self._lpar_uuid,
                step.disk,
                root.described,
                contents,
                self._survey.image_source,
            )
            self._stored.append(stored)
            # Not earlier: whether the driver reads the bytes is known now.
            self._survey.verify_signature()

    def _keep_disks(self, step: steps.KeepDisks) -> None:
        """Ask again whether a disk is in use: minutes may have passed."""
        pool = self._disks.pool
        kept = storage.select_kept(
            pool.disks(self._lpar_uuid) if pool else (),
            self._wanted.blanks,
            self._wanted.instance_uuid,
            has_root=not self._wanted.boots_from_volume,
        )
        self._stored += [pool_disk.stored for pool_disk in kept]

    def _make_blank(self, step: steps.MakeBlank) -> None:
        with self._timed(step.product):
            blank = self._disks.make_blank(self._lpar_uuid, step.disk)
            self._stored.append(blank)

    def _make_medium(self, step: steps.MakeMedium) -> None:
        with self._timed(step.product):
            self._medium = self._disks.make_medium(
                self._lpar_uuid, self._survey.iso, rescue=step.rescue
            )

    def _grow_root(self, step: steps.GrowRoot) -> None:
        """Enlarge the root disk; a failure keeps no server from running."""
        try:
            self._disks.grow_root(self._lpar_uuid, step.size_gb)
        except exception.PowerVMError as error:
            LOG.error(
                'The root disk could not be grown to %(size)d GB, which the '
                "server's flavor has: %(error)s. The next hard reboot of the "
                'server tries again.',
                {'size': step.size_gb, 'error': error},
                instance_uuid=self._wanted.instance_uuid,
            )
        else:
            self._outcome.has_grown = True

    def _fit_swap(self, step: steps.FitSwap) -> None:
        self._gave_up_swap = step.swap is None
        self._disks.fit_swap(self._lpar_uuid, step.swap)

    def _remove_adapter(self, step: steps.RemoveAdapter) -> None:
        self._readers.networks.remove(self._lpar, step.adapter)
        self._outcome.forget(step.adapter.mac)

    def _remove_port(self, step: steps.RemovePort) -> None:
        self._readers.networks.detach(self._lpar_uuid, step.port)
        self._outcome.forget(step.port.mac)

    def _create_adapters(self, step: steps.CreateAdapters) -> None:
        self._outcome.slots |= self._readers.networks.create(
            self._lpar, step.connections, self._askers.metadata()
        )

    def _map(self, step: steps.Map) -> None:
        # A medium may be made before the disks are looked for.
        medium = [self._medium] if self._medium else []
        self._disks.attach(self._lpar_uuid, [*self._stored, *medium])
        LOG.info(
            'Attached the disks of LPAR %s.',
            self._lpar.name,
            instance_uuid=self._wanted.instance_uuid,
        )

    def _find_volumes(self, step: steps.FindVolumes) -> None:
        for volume in step.volumes:
            located = self._readers.volumes.find(volume, self._lpar_uuid)
            self._volumes[volume.id] = located
            self._outcome.udids[volume.id] = located.volume.udid

    def _connect_volumes(self, step: steps.ConnectVolumes) -> None:
        for volume in step.volumes:
            slots = self._readers.volumes.connect(
                self._volumes[volume.id], self._lpar
            )
            self._outcome.slots |= virtual_slots.of_volume(volume.id, slots)

    def _disconnect_volumes(self, step: steps.DisconnectVolumes) -> None:
        """Disconnect volumes; a server may run with a surplus volume."""
        how = self._plan.operation.volumes
        fits = how is operations.Volumes.FITTED
        for volume in step.volumes:
            if how is operations.Volumes.LEFT:
                self._left.append(volume)
            try:
                self._readers.volumes.disconnect(volume, self._lpar_uuid)
                if how is not operations.Volumes.LEFT:
                    self._outcome.forget(volume.id)
            except exception.PowerVMError as error:
                if not fits:
                    raise
                LOG.error(
                    '%(volume)s, which does not belong to the server, stays '
                    'connected: %(error)s',
                    {'volume': volume, 'error': error},
                    instance_uuid=self._wanted.instance_uuid,
                )

    def _reconnect(self, step: steps.Reconnect) -> None:
        """Ask again whether a disk is in use: minutes may have passed."""
        pool = self._disks.pool
        if pool is not None:
            storage.check_unused(pool.disks(self._lpar_uuid))
        self._is_reordered = True
        self._disks.reconnect(self._lpar_uuid, rescued=step.rescued)
        if not step.rescued:
            self._disks.delete_rescue(self._lpar_uuid)
            self._is_reordered = False
        LOG.info(
            'Attached the disks of LPAR %(name)s%(order)s.',
            {
                'name': self._lpar.name,
                'order': ', the rescue disk first' if step.rescued else '',
            },
            instance_uuid=self._wanted.instance_uuid,
        )

    def _write_document(self, step: steps.Document) -> None:
        """Burn devices, write the document, and compare the answer.

        A burn cannot be taken back, so the slots are looked at once more just
        before one. If nothing burns, they are not: the host itself refuses a
        slot that another partition has got meanwhile, and nothing is lost.

        :raises exception.DocumentDiffers: The LPAR is not as it was written.
        """

        def look_and_burn() -> None:
            if not step.burns:
                return
            managed = self._readers.host.managed_system()
            for claim in step.added:
                lpar_plan.assign(self._wanted, claim, managed)
            self._ops.burns.burn(self._wanted.instance_uuid, step.burns)

        try:
            lpar = self._readers.partitions.write(
                step.spec, look_and_burn, creates=step.creates
            )
        except exception.RestUnreachable:
            # The document may be written although the answer was lost.
            present = self._readers.partitions.find(step.spec.uuid)
            if present is None or present.differences(step.spec):
                raise
            lpar = present
        # The sizes of a new LPAR, which a host may round, are not "changed".
        different = lpar.differences(step.spec)
        if different:
            raise exception.DocumentDiffers(
                name=lpar.name,
                wanted=slots.format_drc_indexes(step.spec.drc_indexes),
                found=slots.format_drc_indexes(lpar.slots),
                reason='; '.join(different),
            )
        self._written = lpar
        LOG.info(
            '%(done)s LPAR %(name)s (%(uuid)s) with the slots: %(slots)s.',
            {
                'done': 'Created' if step.creates else 'Changed',
                'name': lpar.name,
                'uuid': lpar.uuid,
                'slots': slots.format_drc_indexes(lpar.slots) or 'none',
            },
            instance_uuid=self._wanted.instance_uuid,
        )

    def _start(self, step: steps.Start) -> None:
        pool = self._disks.pool
        if step.asks_again and pool is not None:
            storage.check_unused(pool.disks(self._lpar_uuid))
        may_be_read = pool is None and not self._wanted.boots_from_volume
        if may_be_read and not self._plan.makes:
            self._disks.end_read(self._lpar_uuid)
        power.start(self._readers.partitions, self._lpar)
        LOG.info(
            'Started LPAR %s.',
            self._lpar.name,
            instance_uuid=self._wanted.instance_uuid,
        )

    def _restart(self, step: steps.Restart) -> None:
        power.restart(self._readers.partitions, self._lpar, step.timeout)

    @contextlib.contextmanager
    def _timed(self, product: str) -> Iterator[None]:
        """Log that a disk or medium is made, and how long that takes."""
        instance_uuid = self._wanted.instance_uuid
        LOG.info('Creating %s.', product, instance_uuid=instance_uuid)
        with timeutils.StopWatch() as watch:
            yield
        LOG.info(
            'Created %(what)s in %(seconds).1f seconds.',
            {'what': product, 'seconds': watch.elapsed()},
            instance_uuid=instance_uuid,
        )
