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

"""Decides what an operation does to an LPAR.

:func:`decide` compares what Nova and Placement say about the LPAR with what
the host says. It does no I/O: :class:`.spec.Actual` reads a part of the host
when a decision needs the part, so that no operation reads more.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import slots
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import setting_checks
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import spec
from nova_powervm.lpar import steps
from nova_powervm.lpar import storage
from nova_powervm.lpar import virtual_slots
from nova_powervm.lpar import volumes as lpar_volumes

Power = partition.Power

#: The disks of an operation that begins or ends a rescue.
_OF_RESCUE = (operations.Disks.RESCUED, operations.Disks.RESTORED)


def decide(
    operation: operations.Operation, wanted: spec.Wanted, actual: spec.Actual
) -> steps.LparPlan:
    """Plan an operation.

    :param operation: The operation, with what it may do.
    :param wanted: What Nova and Placement say about the LPAR.
    :param actual: What the host says.
    :raises exception.PowerVMError: The operation is refused, or a part of the
        host could not be read.
    """
    planner = _Planner(operation, wanted, actual)
    unsorted = planner.plan()
    order = steps.MAKING if planner.makes else steps.CHANGING
    planned = sorted(unsorted, key=lambda step: order.index(type(step)))
    return steps.LparPlan(operation, tuple(planned), tuple(planner.remarks))


class _Planner:
    """The making of one plan.

    :ivar makes: Whether the LPAR is made anew.
    :ivar remarks: Facts that an operator should know, for the log.
    """

    def __init__(
        self,
        operation: operations.Operation,
        wanted: spec.Wanted,
        actual: spec.Actual,
    ) -> None:
        self._operation = operation
        self._wanted = wanted
        self._actual = actual
        self.makes = False
        self.remarks: list[str] = []

    def plan(self) -> Sequence[steps.Step]:
        """Return the steps, in any order.

        :raises exception.PowerVMError: The operation is refused.
        """
        if self._operation.stops is operations.Stop.NO and (
            self._operation.creates is operations.Creation.NO
        ):
            return self._devices_only()
        if self._operation.creates is operations.Creation.YES:
            self.makes = True
            return self._making()
        lpar = self._actual.lpar
        if lpar is not None:
            return self._changing(lpar)
        if self._operation.creates is operations.Creation.NO:
            raise exception.PartitionNotFound(uuid=self._wanted.lpar_uuid)
        self.makes = True
        return self._making_lost()

    # Making

    def _making(self) -> list[steps.Step]:
        """Plan a new LPAR; the cheapest checks come first."""
        wanted = self._wanted
        document = self._creation()
        connections = self._actual.adapters.connections
        kept = self._keep_slots(connections)
        remains = self._remains()
        if self._makes_disks:
            disks = self._made_disks()
        elif self._operation.is_check:
            # The guest that is to move here uses its disks.
            disks = []
        else:
            disks = self._kept_disks()
        is_moved = self._operation.is_check and not self._makes_disks
        if wanted.config_drive and not is_moved:
            disks.append(steps.MakeMedium(self._actual.medium_bytes))
        return [
            *remains,
            *disks,
            *self._connect_new(connections, kept),
            document,
            *([steps.Map()] if disks or not wanted.boots_from_volume else ()),
            *_connect_volumes(self._new_volumes(), kept),
            *self._start_of_new(),
        ]

    @property
    def _makes_disks(self) -> bool:
        return self._operation.disks is operations.Disks.MADE

    def _new_volumes(self) -> Sequence[lpar_volumes.Volume]:
        """Return the volumes to connect to a new LPAR.

        A check finds none: the old LPAR still has them.
        """
        if self._operation.is_check:
            return ()
        if self._operation.volumes is operations.Volumes.NO:
            return ()
        return self._wanted.volumes

    def _keep_slots(
        self, connections: Sequence[network_ports.Connection]
    ) -> Mapping[str, int]:
        """Return the slots on record that the devices of a new LPAR can have.

        Only a check refuses to lose a slot: later, the guest is gone, or Nova
        lets nobody detach the device.

        :raises exception.PortRefused: A new LPAR cannot have the slot of a
            port, or all ports.
        :raises exception.VolumeRefused: It cannot have the slot of a volume.
        """
        recorded = self._wanted.virtual_slots
        virtual_slots.check_number(connections, recorded)
        kept, lost = virtual_slots.keep(
            recorded,
            [*(c.port for c in connections), *self._wanted.volumes],
            self._actual.virtual_slots,
            self._slots_of_disks(),
        )
        if lost and self._operation.is_check:
            raise lost[0].refusal
        self.remarks += map(str, lost)
        return kept

    def _slots_of_disks(self) -> Set[int]:
        wanted = self._wanted
        roles = [disk.role for disk in wanted.blanks]
        if not wanted.boots_from_volume:
            roles.append(storage.ROOT)
        uuid = wanted.lpar_uuid
        names = [storage.disk_name(uuid, role) for role in roles]
        if wanted.config_drive:
            names.append(storage.config_drive_name(uuid))
        return storage.slots_of(names)

    def _connect_new(
        self,
        connections: Sequence[network_ports.Connection],
        kept: Mapping[str, int],
    ) -> list[steps.Step]:
        """Connect the ports of a new LPAR.

        The host chooses their slots unless a port keeps a slot on record.
        """
        if not any(c.port.mac in kept for c in connections):
            return _connect(connections)
        used = {*self._wanted.virtual_slots.values(), *self._slots_of_disks()}
        return _connect(
            virtual_slots.place(connections, kept, used, virtual_slots.ALL)
        )

    def _connect_added(
        self,
        lpar: partition.Partition,
        connections: Sequence[network_ports.Connection],
        removed: Sequence[network_ports.Adapter] = (),
    ) -> list[steps.Step]:
        """Connect further ports of an LPAR.

        :param removed: Adapters that are removed before.
        :raises exception.PortRefused: There are too many.
        """
        if not connections:
            return []
        present = self._actual.adapters.present
        if self._operation.adapters is operations.Adapters.ADDED:
            virtual_slots.check_number(
                connections, self._wanted.virtual_slots, len(present)
            )
        recorded = {**self._wanted.virtual_slots}
        recorded |= network_ports.slots_of(present)
        ports = [connection.port for connection in connections]
        staying = [adapter for adapter in present if adapter not in removed]
        used = {*network_ports.slots_of(staying).values()}
        used |= self._slots_of_storage(recorded, ports)
        kept, lost = virtual_slots.keep(
            recorded, ports, lpar.virtual_slots, used
        )
        self.remarks += map(str, lost)
        return _connect(
            virtual_slots.place(connections, kept, recorded.values())
        )

    def _slots_of_storage(
        self, recorded: Mapping[str, int], ports: Sequence[network_ports.Port]
    ) -> Set[int]:
        """Return the slots of storage, if a port may have had such a slot."""
        slots_of_ports = {recorded.get(port.mac, 0) for port in ports}
        if max(slots_of_ports) < virtual_slots.LATER.stop:
            return set()
        connected = virtual_slots.of_connected(self._actual.volumes)
        return storage.slots_of(self._actual.mappings) | {*connected.values()}

    def _making_lost(self) -> list[steps.Step]:
        """Plan an LPAR around the disks that the instance has elsewhere.

        :raises exception.PartitionNotFound: It has none in the pool, and needs
            one.
        :raises exception.ClaimFailed: Its slots are not slots of this host.
        """
        wanted = self._wanted
        # A swap disk that is missing is made.
        needs_disks = not wanted.boots_from_volume or any(
            disk.role != storage.SWAP for disk in wanted.blanks
        )
        has_disks = self._actual.has_pool and wanted.pool_is_current
        if needs_disks and not (has_disks and self._actual.disks):
            raise exception.PartitionNotFound(uuid=wanted.lpar_uuid)
        self.remarks.append(
            'there is none on this host; making one around the disks of the '
            "instance, from Nova's records, without the NVRAM that it had."
        )
        swap = [steps.FitSwap(wanted.swap)] if wanted.checks_swap else []
        return [*self._making(), *self._growth(), *swap]

    def _creation(self) -> steps.Document:
        """Return the document of a new LPAR."""
        wanted = self._wanted
        added = wanted.slots
        # What a host supports never changes, but the slots do.
        settings = setting_checks.choose_settings(
            wanted, self._actual.slots if added else self._actual.rules
        )
        self._refuse_devices(added)
        assigned = tuple(self._assignment(slot) for slot in added)
        if settings and (wanted.power_on or wanted.runs_later):
            self._check_room(settings, self._held_in_rebuild())
        name = partition.lpar_name(wanted.name)
        indexes = slots.format_drc_indexes(wanted.drc_indexes) or 'none'
        return steps.Document(
            spec=partition.PartitionSpec(
                wanted.lpar_uuid, name, settings, assigned, nvram=wanted.nvram
            ),
            reason=f'{settings}, slots: {indexes}'
            + (', and its former NVRAM' if wanted.nvram else ''),
            creates=True,
            added=tuple(slot.claim for slot in added),
            burns=self._burns(added),
        )

    @property
    def _is_rebuild_check(self) -> bool:
        """Whether Nova removes the LPAR before it builds it again."""
        return self._operation.is_check and self._makes_disks

    def _held_in_rebuild(self) -> lpar_settings.Settings | None:
        """Return the settings of a running LPAR that a rebuild removes."""
        lpar = self._actual.lpar if self._is_rebuild_check else None
        return lpar.settings if lpar and lpar.is_active else None

    def _remains(self) -> list[steps.Step]:
        """Plan to remove what an interrupted build left.

        A disk may be incomplete, so none is used again, unless the instance
        keeps disks that it had before.

        :raises exception.PartitionConflict: The LPAR runs.
        """
        if self._is_rebuild_check:
            return []
        lpar = self._actual.lpar
        if lpar is None:
            return []
        if lpar.is_active:
            raise exception.PartitionConflict(
                name=lpar.name,
                uuid=lpar.uuid,
                reason=f'it exists and is {lpar.state}. Check with `pvmctl '
                'lpar list` whether Nova removes it now, and remove it if '
                'not, but never its disks in a shared storage pool; then try '
                'again',
            )
        return [steps.RemoveRemains(delete_disks=self._makes_disks)]

    def _made_disks(self) -> list[steps.Step]:
        wanted = self._wanted
        blanks = [steps.MakeBlank(disk) for disk in wanted.blanks]
        if wanted.boots_from_volume:
            return [*blanks]
        assert wanted.root is not None  # noqa: S101 - for the type checker
        flavor_gb, image = wanted.root.flavor_gb, wanted.root.described.id
        size = storage.root_disk_gb(
            flavor_gb, self._actual.image.disk_bytes, image
        )
        disk = storage.Disk(storage.root_role(flavor_gb), size)
        return [steps.MakeRoot(disk, image), *blanks]

    def _kept_disks(self) -> list[steps.Step]:
        """Plan to use the disks in the pool, and make a missing swap disk."""
        wanted = self._wanted
        kept = storage.select_kept(
            self._actual.disks,
            wanted.blanks,
            wanted.instance_uuid,
            has_root=not wanted.boots_from_volume,
        )
        planned: list[steps.Step] = [steps.KeepDisks(tuple(kept))] * bool(kept)
        if wanted.swap is None:
            return planned
        present = [k.disk for k in kept if k.disk.role == storage.SWAP]
        if not present:
            return [*planned, steps.MakeBlank(wanted.swap)]
        if not wanted.checks_swap and not storage.is_same_size(
            present[0].size_gb, wanted.swap.size_gb
        ):
            self.remarks.append(
                f'keeping the {present[0]}, although the flavor has one of '
                f'{wanted.swap.size_gb:g} GB.'
            )
        return planned

    def _start_of_new(self) -> list[steps.Step]:
        if not self._wanted.power_on:
            return []
        return [steps.Start(asks_again=not self._makes_disks)]

    # Changing

    def _changing(self, lpar: partition.Partition) -> list[steps.Step]:
        """Plan the changes of an LPAR, which is stopped only for a change.

        :raises exception.PartitionNotStartable: It is not known whether it
            runs, or starting it would cost its guest's memory.
        :raises exception.SlotsDiffer: It has a slot that no move gave it.
        :raises exception.RecordOutdated: It has such a slot, which Placement
            has allocated to it.
        """
        power = lpar.power
        if self._operation.stops is operations.Stop.NEVER_RUNNING and (
            power not in (Power.OFF, Power.FAILED)
        ):
            self.remarks.append(f'it is {lpar.state}, and left as it is.')
            return []
        self._refuse_state(lpar, power)
        self._refuse_additional_slots(lpar)
        if self._operation.disks in _OF_RESCUE:
            return self._reordering(lpar, power)
        if not self._operation.adds_slots:
            return self._departure(power)
        document = self._change(lpar)
        changes = (
            self._actual.adapters
            if self._operation.adapters is operations.Adapters.FITTED
            and self._starts
            and self._wanted.ports is not None
            else network_ports.Changes()
        )
        swap = self._swap(power)
        growth = self._growth()
        restored = self._restoration(power)
        volumes = self._fitted_volumes()
        changed = [
            *self._connect_added(lpar, changes.connections, changes.surplus),
            *(steps.RemoveAdapter(adapter) for adapter in changes.surplus),
            *growth,
            *swap,
            *volumes,
            *(restored or self._checked_disks(lpar, power)),
            *([document] if document else ()),
        ]
        # In any order: the plan sorts them.
        return [*changed, *self._power(lpar, power, changed)]

    @property
    def _starts(self) -> bool:
        return self._wanted.power_on or self._operation.restarts

    def _refuse_state(self, lpar: partition.Partition, power: Power) -> None:
        if power is Power.UNKNOWN:
            reason = (
                'the host does not know whether it is running, so the driver '
                'neither starts nor stops it. Try again when `pvmctl lpar '
                'list` shows another state'
            )
        elif power is Power.SUSPENDED and (
            self._operation.disks is operations.Disks.RESCUED
            or self._operation.stops
            in (operations.Stop.FAILED_ONLY, operations.Stop.TO_CHANGE)
        ):
            reason = (
                'starting it would discard the memory of its guest. Resume '
                'it on the host, or reboot the server hard to discard the '
                'memory'
            )
        else:
            return
        raise exception.PartitionNotStartable(
            name=lpar.name,
            instance_uuid=self._wanted.instance_uuid,
            state=lpar.state,
            reason=reason,
        )

    def _refuse_additional_slots(self, lpar: partition.Partition) -> None:
        """Refuse an LPAR with a slot that it may neither keep nor lose.

        Somebody assigned it deliberately, and the guest may have written to
        its device.
        """
        own = self._wanted.drc_indexes
        moved = self._wanted.moved_slots if self._operation.frees_slots else {}
        additional = lpar.slots.keys() - own - moved.keys()
        if not additional:
            return
        refusal = (
            exception.RecordOutdated
            if self._are_allocated(lpar, additional)
            else exception.SlotsDiffer
        )
        raise refusal(
            instance_uuid=self._wanted.instance_uuid,
            name=lpar.name,
            wanted=slots.format_drc_indexes(own),
            found=slots.format_drc_indexes(lpar.slots),
            reason='; '.join(partition.slot_differences(lpar.slots, own)),
        )

    def _are_allocated(
        self, lpar: partition.Partition, additional: Set[int]
    ) -> bool:
        """Return whether a slot that Nova does not record is allocated.

        Before the first update of Placement, the providers of this host are
        unknown. Then Nova's record decides: it is outdated if Placement has
        allocated other providers in place of slots that the LPAR lacks.
        """
        wanted = self._wanted
        if wanted.allocated is not None:
            return False
        allocated = self._actual.allocated
        if wanted.providers:
            return any(
                wanted.providers.get(uuid) in additional for uuid in allocated
            )
        recorded = {
            slot.claim.provider_uuid: slot.claim.drc_index
            for slot in wanted.slots
            if slot.claim.source is claims.Source.COMPUTE
        }
        return not recorded.keys() >= {*allocated} and any(
            uuid not in allocated and index not in lpar.slots
            for uuid, index in recorded.items()
        )

    def _departure(self, power: Power) -> list[steps.Step]:
        """Plan to stop the guest, and to give up a swap disk that will change.

        :raises exception.MoveRefused: A rescue has not ended, whose system
            would start after the move. Nova allows no move then, unless an
            administrator sets the state.
        """
        if self._actual.has_rescue:
            raise exception.MoveRefused(
                reason='a rescue of it has not ended. Reboot the server hard '
                'first'
            )
        planned: list[steps.Step] = []
        if power is not Power.OFF:
            planned.append(steps.Stop('it moves', self._wanted.timeout))
        if self._wanted.checks_swap:
            planned.append(steps.FitSwap(None))
        return [*planned, *self._left_volumes()]

    def _left_volumes(self) -> list[steps.Step]:
        """Plan to disconnect the volumes of an LPAR that may stay without.

        They have the virtual slots at which they are connected, in case that
        they have to be connected again.
        """
        wanted = self._wanted
        if not wanted.volumes:
            return []
        present = virtual_slots.of_connected(self._actual.volumes)
        slots = {**wanted.virtual_slots, **present}
        return _disconnect(virtual_slots.place_volumes(wanted.volumes, slots))

    def _reordering(
        self, lpar: partition.Partition, power: Power
    ) -> list[steps.Step]:
        """Plan to start the rescue system of an instance, or its own again.

        :raises exception.SlotsMissing: The LPAR lacks a slot.
        :raises exception.DiskInUse: Another LPAR uses a disk.
        """
        if not all(map(lpar.slots.get, self._wanted.drc_indexes)):
            raise self._slots_missing(lpar)
        self._refuse_used_disks(power)
        rescued = self._operation.disks is operations.Disks.RESCUED
        planned = self._rescue_system() if rescued else []
        if power is not Power.OFF:
            reason = 'another system is to start'
            planned.append(steps.Stop(reason, self._wanted.timeout))
        return [*planned, steps.Reconnect(rescued), steps.Start()]

    def _rescue_system(self) -> list[steps.Step]:
        """Plan to make the disk of a rescue system, as large as its image.

        :raises exception.RescueRefused: The disks are not as they were before
            a rescue.
        """
        wanted, actual = self._wanted, self._actual
        setting_checks.check_guest(wanted, actual.rules)
        if actual.has_rescue:
            self._refuse_rescue('an earlier rescue has left its disk')
        if not any(map(storage.is_root_name, actual.mappings)):
            self._refuse_rescue('its root disk is not connected')
        self._refuse_ports_in_the_way()
        assert wanted.root is not None  # noqa: S101 - for the type checker
        image = wanted.root.described.id
        size = storage.root_disk_gb(0, actual.image.disk_bytes, image)
        disk = storage.Disk(storage.RESCUE, size)
        planned: list[steps.Step] = [steps.MakeRoot(disk, image)]
        if wanted.config_drive:
            planned.append(steps.MakeMedium(actual.medium_bytes, rescue=True))
        return planned

    def _refuse_rescue(self, reason: str) -> None:
        raise exception.RescueRefused(
            instance_uuid=self._wanted.instance_uuid,
            reason=f'{reason}. Reboot the server hard first',
        )

    def _refuse_ports_in_the_way(self) -> None:
        """Refuse a rescue whose disks need the virtual slot of a port."""
        needed = storage.slots_of(self._actual.mappings, rescued=True)
        for port in self._wanted.ports or ():
            slot = self._wanted.virtual_slots.get(port.mac)
            if slot in needed:
                raise exception.RescueRefused(
                    instance_uuid=self._wanted.instance_uuid,
                    reason=f'port {port.id} has virtual slot {slot}, which '
                    'its disks need meanwhile. Detach the port, and attach '
                    'it again',
                )

    def _restoration(self, power: Power) -> list[steps.Step]:
        """Plan to end a failed or interrupted rescue before a start."""
        disks = self._operation.disks
        maps = disks is operations.Disks.MAPPED
        if not (maps or (self._starts and disks is operations.Disks.CHECKED)):
            return []
        if power is Power.RUNNING and not (maps and self._operation.restarts):
            return []
        if self._wanted.rescued or not self._has_rescue(power):
            return []
        self._refuse_used_disks(power)
        return [steps.Reconnect(rescued=False)]

    def _fitted_volumes(self) -> list[steps.Step]:
        """Plan to connect missing volumes, and to disconnect surplus ones."""
        wanted, recorded = self._wanted, self._wanted.known_volumes
        if self._operation.volumes is not operations.Volumes.FITTED:
            return []
        if not wanted.volumes and recorded is None:
            return []
        connected = self._actual.volumes
        missing = [
            volume
            for volume in wanted.volumes
            if volume.id not in connected
            or not connected[volume.id].is_complete
        ]
        surplus = [
            lpar_volumes.Volume(volume_id, connected[volume_id].kind)
            for volume_id in sorted(connected)
            if recorded is not None and volume_id not in recorded
        ]
        return [
            *_connect_volumes(missing, wanted.virtual_slots),
            *_disconnect(surplus),
        ]

    def _has_rescue(self, power: Power) -> bool:
        if power is Power.OFF and self._actual.has_pool:
            roles = {pool_disk.disk.role for pool_disk in self._actual.disks}
            return storage.RESCUE in roles
        return self._actual.has_rescue

    def _refuse_used_disks(self, power: Power) -> None:
        """Refuse to use disks that another LPAR uses, if this LPAR is off.

        :raises exception.DiskInUse: A running LPAR uses one of them.
        """
        if power is Power.OFF and self._actual.has_pool:
            storage.check_unused(self._actual.disks)

    def _change(self, lpar: partition.Partition) -> steps.Document | None:
        """Return the change of the document; None if it is right."""
        wanted = self._wanted
        # A slot that is assigned, but not required, is assigned anew.
        gaps = [s for s in wanted.slots if not lpar.slots.get(s.drc_index)]
        freed = frozenset(lpar.slots) - wanted.drc_indexes
        settings = None
        if self._operation.settings:
            settings = setting_checks.choose_settings(
                wanted,
                self._actual.slots if gaps else self._actual.rules,
                lpar.settings,
            )
        changed = lpar.settings.changes(settings) if settings else frozenset()
        if not (gaps or freed or changed):
            return None
        why = lpar.settings.differences(settings, changed) if settings else []
        why += self._slot_changes(lpar, freed)
        if settings and (self._starts or wanted.runs_later):
            self._check_room(settings, lpar.settings, lpar.settings)
        added = [s for s in gaps if s.drc_index not in lpar.slots]
        lost = {s.drc_index for s in added} - wanted.moved_slots.keys()
        if lost:
            self.remarks.append(
                f'it lacks the slots {slots.format_drc_indexes(lost)}; '
                'assigning them again.'
            )
        self._refuse_devices(added)
        assigned = tuple(
            self._assignment(slot)
            if slot in gaps
            else partition.SlotAssignment(slot.drc_index)
            for slot in wanted.slots
        )
        return steps.Document(
            spec=partition.PartitionSpec(
                wanted.lpar_uuid, lpar.name, settings, assigned, changed, freed
            ),
            reason='; '.join(why),
            added=tuple(slot.claim for slot in added),
            burns=self._burns(added),
        )

    def _slot_changes(
        self, lpar: partition.Partition, freed: Set[int]
    ) -> list[str]:
        """Describe how the slots change, and which move takes a slot away."""
        kept = {i: lpar.slots[i] for i in lpar.slots if i not in freed}
        return [
            *partition.slot_differences(kept, self._wanted.drc_indexes),
            *(
                f'slot {slots.format_drc_index(index)} is given up for '
                f'migration {self._wanted.moved_slots[index]}'
                for index in sorted(freed)
            ),
        ]

    def _swap(self, power: Power) -> list[steps.Step]:
        """Plan to fit the swap disk, unless it is known to be right."""
        if not self._wanted.checks_swap:
            return []
        # The step would find out, too, but the guest would be stopped for it.
        if power is not Power.OFF and self._actual.swap_fits:
            return []
        return [steps.FitSwap(self._wanted.swap)]

    def _power(
        self,
        lpar: partition.Partition,
        power: Power,
        changes: Sequence[steps.Step],
    ) -> list[steps.Step]:
        """Plan to stop the LPAR for its changes, and to start it.

        A reboot stops it for any of them, the others only where it must.
        """
        is_running = power is Power.RUNNING
        if self._operation.restarts:
            return self._reboot(power, must_be_off=bool(changes))
        needs_stop = any(step.needs_off for step in changes)
        stops_failed_only = (
            self._operation.stops is operations.Stop.FAILED_ONLY
        )
        if is_running and needs_stop and stops_failed_only:
            raise self._slots_missing(lpar)
        planned: list[steps.Step] = []
        if needs_stop and power is not Power.OFF:
            planned.append(steps.Stop('it changes'))
        elif power is Power.FAILED and self._wanted.power_on:
            planned.append(steps.Stop('it has failed'))
        if self._wanted.power_on and (planned or not is_running):
            planned.append(steps.Start())
        return planned

    def _reboot(self, power: Power, *, must_be_off: bool) -> list[steps.Step]:
        """Plan to restart a running guest; it is stopped for changes."""
        timeout = self._wanted.timeout
        if power is Power.OFF:
            return [steps.Start()]
        if power is not Power.RUNNING:
            # A guest in another state cannot shut down.
            return [steps.Stop(f'it is {power}'), steps.Start()]
        if must_be_off:
            return [steps.Stop('it changes', timeout), steps.Start()]
        return [steps.Restart(timeout)]

    def _slots_missing(
        self, lpar: partition.Partition
    ) -> exception.SlotsMissing:
        return exception.SlotsMissing(
            instance_uuid=self._wanted.instance_uuid,
            name=lpar.name,
            slots=slots.format_drc_indexes(
                s.drc_index
                for s in self._wanted.slots
                if not lpar.slots.get(s.drc_index)
            ),
        )

    def _checked_disks(
        self, lpar: partition.Partition, power: Power
    ) -> list[steps.Step]:
        """Verify the disks of an LPAR that is off and is to be started.

        A move that was interrupted may have disconnected them.

        :raises exception.DiskInUse: A running LPAR uses one of them.
        :raises exception.DiskNotConnected: The root disk is not connected,
            and this operation does not connect it.
        """
        maps = self._operation.disks is operations.Disks.MAPPED
        if power is not Power.OFF:
            return []
        if not self._actual.has_pool:
            return self._mapped_config_drive() if maps else []
        if not (self._starts or maps):
            return []
        disks = self._actual.disks
        storage.check_unused(disks)
        if maps and self._wanted.pool_is_current:
            return self._mapped_disks(disks)
        for pool_disk in disks:
            name = pool_disk.stored.name
            if storage.is_root(pool_disk.disk.role) and (
                name not in self._actual.mappings
            ):
                raise exception.DiskNotConnected(
                    name=name,
                    lpar_uuid=lpar.uuid,
                    cure='Nova records that its disks are in another pool: '
                    'connect them with pvmctl'
                    if maps
                    else 'Reboot the server hard: that connects its disks, or '
                    'says why not',
                )
        return []

    def _mapped_config_drive(self) -> list[steps.Step]:
        """Plan to connect the only medium of a server that has only volumes.

        A move or an unshelve may have been killed before it was connected.
        """
        wanted = self._wanted
        name = storage.config_drive_name(wanted.lpar_uuid)
        if (
            not (wanted.boots_from_volume and wanted.config_drive)
            or name in self._actual.mappings
        ):
            return []
        return [steps.Reconnect(rescued=False)]

    def _mapped_disks(
        self, disks: Sequence[storage.PoolDisk]
    ) -> list[steps.Step]:
        """Plan to connect the disks in the pool if one is not connected.

        A swap disk does not count.
        """
        if not disks:
            return []
        connected = self._actual.mappings
        if all(
            pool_disk.stored.name in connected
            for pool_disk in disks
            if pool_disk.disk.role != storage.SWAP
        ):
            return []
        kept = storage.select_kept(
            disks,
            self._wanted.blanks,
            self._wanted.instance_uuid,
            has_root=not self._wanted.boots_from_volume,
        )
        medium = storage.config_drive_name(self._wanted.lpar_uuid)
        planned: list[steps.Step] = [steps.KeepDisks(tuple(kept)), steps.Map()]
        if self._wanted.config_drive and medium not in connected:
            planned.append(steps.MakeMedium(self._actual.medium_bytes))
        return planned

    def _growth(self) -> list[steps.Step]:
        size_gb = self._wanted.grow_root_gb
        return [] if size_gb is None else [steps.GrowRoot(size_gb)]

    # What both need

    def _check_room(
        self,
        settings: lpar_settings.Settings,
        held: lpar_settings.Settings | None,
        present: lpar_settings.Settings | None = None,
    ) -> None:
        """Check that the host has room for the LPAR.

        If this takes a fresh reading, what the host supports is checked again:
        a plan does not mix two readings.
        """
        rules = self._actual.rules
        setting_checks.check_room(settings, held, self._actual)
        if self._actual.rules is not rules:
            setting_checks.choose_settings(
                self._wanted, self._actual.rules, present
            )

    def _refuse_devices(self, added: Sequence[spec.WantedSlot]) -> None:
        """Refuse slots that the LPAR lacks and must not get."""
        for slot in added:
            if slot.refusal:
                raise exception.AcceleratorRefused(
                    instance_uuid=self._wanted.instance_uuid,
                    reason=slot.refusal,
                )

    def _assignment(self, slot: spec.WantedSlot) -> partition.SlotAssignment:
        """Verify that the LPAR can get a slot.

        :raises exception.ClaimFailed: It is missing, empty or not free.
        """
        return assign(self._wanted, slot.claim, self._actual.slots)

    def _burns(
        self, added: Sequence[spec.WantedSlot]
    ) -> tuple[claims.Claim, ...]:
        """Return the providers to burn for slots that the LPAR gets.

        :raises exception.ClaimFailed: Placement has not allocated one of the
            devices to the instance.
        """
        burning = [slot for slot in added if slot.burns]
        if self._operation.is_check and not self._makes_disks:
            # Nova has just allocated the slots of a move, whose end asks.
            return ()
        for slot in burning:
            if slot.claim.provider_uuid not in self._actual.allocated:
                raise exception.ClaimFailed(
                    instance_uuid=self._wanted.instance_uuid,
                    reason=f'slot {slot.claim} has a one-time-use device that '
                    'Placement does not allocate to it. '
                    + (
                        'Build or evacuate it through the scheduler'
                        if self._operation.creates is operations.Creation.YES
                        else 'Restore all its allocations with `openstack '
                        'resource provider allocation set`, and try again'
                    ),
                )
        return tuple(claim for slot in burning for claim in slot.burns)

    # Ports and volumes alone

    def _devices_only(self) -> list[steps.Step]:
        """Plan to connect or disconnect devices of an LPAR in any state."""
        if self._operation.volumes is operations.Volumes.NO:
            return self._ports_only()
        lpar, wanted = self._actual.lpar, self._wanted
        adds = self._operation.volumes is operations.Volumes.ADDED
        if lpar is None and adds:
            raise exception.PartitionNotFound(uuid=wanted.lpar_uuid)
        if lpar is not None and lpar.obstacle:
            raise exception.VolumesImpossible(
                where=f' to LPAR {lpar.name} or disconnected from it',
                reason=f'{lpar.obstacle.rstrip(".")}. Stop the server first',
            )
        if adds:
            return _connect_volumes(wanted.volumes, wanted.virtual_slots)
        return _disconnect(wanted.volumes)

    def _ports_only(self) -> list[steps.Step]:
        """Plan to create or remove adapters of an LPAR in any state.

        :raises exception.PortRefused: Another adapter has the address of a
            port to attach.
        """
        wanted = self._wanted.ports or ()
        if self._operation.adapters is operations.Adapters.REMOVED:
            return [steps.RemovePort(port) for port in wanted]
        changes = self._actual.adapters
        if self._operation.adapters is operations.Adapters.ADDED:
            for adapter in changes.surplus:
                _refuse_taken_address(wanted, adapter)
        else:
            self.remarks += [
                f'it has the network adapter {adapter}, which belongs to no '
                'port of its instance, and is removed when the server is '
                'rebooted or started.'
                for adapter in changes.surplus
            ]
        if not changes.additions:
            return []
        if self._actual.lpar is None:
            raise exception.PartitionNotFound(uuid=self._wanted.lpar_uuid)
        return self._connect_added(self._actual.lpar, changes.additions)


def assign(
    wanted: spec.Wanted,
    claim: claims.Claim,
    managed: host_values.ManagedSystem,
) -> partition.SlotAssignment:
    """Verify a claimed slot against the host, just before it is used.

    :param wanted: The LPAR, which may already own the slot.
    :param claim: The slot.
    :param managed: A fresh reading of the host.
    :raises exception.ClaimFailed: The slot is missing, empty or not free.
    """
    slot = managed.slot(claim.drc_index)
    duplicated = slots.duplicated_indexes(managed.io_slots)
    reason = (
        slots.Reason('gone', 'the host does not report it')
        if slot is None
        else slots.reason_unavailable(slot, (wanted.lpar_uuid,), duplicated)
    )
    if slot is None or reason is not None:
        refusal = (
            exception.AcceleratorRefused
            if claim.source is claims.Source.ACCELERATOR
            else exception.ClaimFailed
        )
        raise refusal(
            instance_uuid=wanted.instance_uuid,
            reason=exception.PrivateText(
                f'{claim.origin} but it cannot be used: {reason}',
                f'{claim.origin} but it cannot be used: {_for_users(reason)}',
            ),
        )
    return partition.SlotAssignment(slot.drc_index, slot.bus_group_required)


def _for_users(reason: slots.Reason | None) -> str:
    """Return a reason without the name of the partition that has the slot."""
    if reason is None or reason.code == slots.OWNED:
        return 'it is owned by another partition'
    return reason.text


def _connect(
    connections: Sequence[network_ports.Connection],
) -> list[steps.Step]:
    if not connections:
        return []
    planned = tuple(connections)
    return [steps.PrepareHost(planned), steps.CreateAdapters(planned)]


def _connect_volumes(
    missing: Sequence[lpar_volumes.Volume], kept: Mapping[str, int]
) -> list[steps.Step]:
    if not missing:
        return []
    placed = virtual_slots.place_volumes(missing, kept)
    return [steps.FindVolumes(placed), steps.ConnectVolumes(placed)]


def _disconnect(surplus: Sequence[lpar_volumes.Volume]) -> list[steps.Step]:
    return [steps.DisconnectVolumes(tuple(surplus))] if surplus else []


def _refuse_taken_address(
    ports: Sequence[network_ports.Port], adapter: network_ports.Adapter
) -> None:
    for port in ports:
        if port.mac == adapter.mac:
            raise exception.PortRefused(
                port=port.id,
                reason='the LPAR has an adapter with its MAC address on '
                f'another network: {adapter}. Remove that adapter with pvmctl',
            )
