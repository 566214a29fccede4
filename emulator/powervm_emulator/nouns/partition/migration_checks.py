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

"""What two hosts ask of a live migration before it begins."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping as Parameters

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import jobs
from powervm_emulator.nouns import management_console
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.fibre_channel import disks
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import ownership
from powervm_emulator.nouns.partition import rules
from powervm_emulator.nouns.partition import virtual_slots
from powervm_emulator.nouns.shared_storage_pool import model as storage_pool
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.volume_group import physical_volume

Adapter = net_adapter.Adapter
Host = host_module.Host
JobError = jobs.JobError
Mapping = scsi_mapping.Mapping
Partition = partition_module.Partition
System = managed_system.System
# Says of a check that it is not to be made.
_OVERRIDE = '2'


@dataclasses.dataclass(frozen=True)
class Port:
    """A network adapter that is to be, in place of one of the source.

    :ivar vlans: the PVID first.
    """

    source: Adapter
    switch: virtual_switch.Switch
    vlans: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Server:
    """Which Virtual I/O Server gets a client adapter, and at which slot.

    :ivar slot: None for any.
    """

    vios: Partition
    slot: int | None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the destination makes for a partition.

    :ivar host: the destination, as ``system`` is.
    :ivar servers: by the virtual slot of the client adapter.
    :ivar pool_id: of the shared processor pool.
    """

    host: Host
    system: System
    ports: tuple[Port, ...]
    servers: dict[int, Server]
    pool_id: str


def plan(
    host: Host, partition: Partition, parameters: Parameters[str, str]
) -> Plan:
    """Return how a partition can migrate as the parameters of a job say.

    :raises JobError: it cannot; the message has all reasons.
    """
    there, system = _destination(host, partition, parameters)
    pool_id = parameters.get('SharedProcPoolID', '0')
    if not content.is_whole(pool_id):
        raise JobError(f'{system.name} has no pool {pool_id!r}.')
    problems = [
        *_of_partition(partition),
        *_of_systems((host, partition.system), (there, system)),
        *_of_place(there, system, partition),
    ]
    ports = _Ports(host, partition, there, system, parameters)
    servers = _Servers(host, partition, there, system, parameters)
    problems += [*ports.problems, *servers.problems]
    if problems:
        raise JobError(
            f'The partition {partition.name} cannot migrate from '
            f'{partition.system.name} to {system.name}. {" ".join(problems)}'
        )
    return Plan(there, system, tuple(ports.found), servers.found, pool_id)


def mappings(host: Host, partition: Partition) -> Iterator[Mapping]:
    """Yield the virtual SCSI mappings of a partition."""
    for vios in scsi_mapping.servers(partition, host):
        for mapping in scsi_mapping.of(vios):
            if mapping.client_uuid == partition.uuid.upper():
                yield mapping


def _destination(
    host: Host, partition: Partition, parameters: Parameters[str, str]
) -> tuple[Host, System]:
    """Return where to; the other management console lets this one log on."""
    name = parameters.get('TargetManagedSystemName', '')
    found = _system_named(host, name)
    if found is None or found[1] is partition.system:
        raise JobError(f'{name!r} is no system to migrate to.')
    there, system = found
    if there is host:
        return found
    address = parameters.get('TargetRemoteHMCIPAddress', '')
    if not address:
        raise JobError(
            f'{name} has another management console: its address is missing.'
        )
    if there.is_off:
        raise JobError(f'The management console {address} does not answer.')
    keys = management_console.authorized_keys(there)
    if not management_console.public_keys(host) & keys:
        user = parameters.get('TargetRemoteHMCUserID', '')
        raise JobError(
            f'The management console {address} does not let {user!r} log on: '
            'the public key of this one is not among its authorized keys.'
        )
    return there, system


def _system_named(host: Host, name: str) -> tuple[Host, System] | None:
    for one in host.site.hosts:
        for system in one.of_type(System):
            if system.name == name:
                return one, system
    return None


def _of_partition(partition: Partition) -> Iterator[str]:
    """Yield what is in the way at the partition itself."""
    if partition.boolean(partition_module.MANAGEMENT):
        yield 'It manages its host.'
    if partition.migration_state != partition_module.NOT_MIGRATING:
        yield f'Its migration has the state {partition.migration_state}.'
    elif partition.state != partition_module.RUNNING:
        yield f'Its state is {partition.state}.'
    elif partition.type == partition_module.IBM_I:
        if not partition.boolean('IsRestrictedIOPartition'):
            yield 'It is an IBM i partition without restricted I/O.'
    elif partition.rmc_state != partition_module.RMC_ACTIVE:
        yield (
            'HSCLA246 The management console cannot communicate with it: its '
            f'RMC connection is {partition.rmc_state}.'
        )
    if partition.boolean('MigrationDisable'):
        yield 'Its migration is disabled.'
    status = partition.text('MigrationStorageViosDataStatus')
    if status.endswith('Failed'):
        yield f'The data of its storage have the state {status}.'
    slots = {
        slot.drc_index
        for slot in partition.system.slots()
        if ownership.owns(partition, slot)
    }
    for drc_index in sorted(slots | set(partition.profile_slots)):
        yield f'It has the physical I/O slot {drc_index:08X}.'


def _of_systems(*ends: tuple[Host, System]) -> Iterator[str]:
    """Yield what is in the way at the systems."""
    for host, system in ends:
        if not system.can_migrate:
            yield f'{system.name} is not capable of live migration.'
        if system.migrations >= system.most_migrations:
            yield (
                f'{system.name} has {system.migrations} of at most '
                f'{system.most_migrations} migrations in progress.'
            )
        if not any(map(_answers, _vioses(host, system))):
            yield f'{system.name} has no Virtual I/O Server to move it.'
    regions = [system.region_size for _, system in ends]
    if regions[0] != regions[1]:
        yield 'The memory regions have {} and {} MB.'.format(*regions)


def _of_place(
    there: Host, system: System, partition: Partition
) -> Iterator[str]:
    """Yield why the destination cannot have the partition."""
    element = partition.element
    yield from _refusals(
        lambda: rules.check_uuid(there, partition.uuid),
        lambda: rules.check_name(there, system, partition.name, ''),
        lambda: rules.check_capacity(there, system, element),
        lambda: rules.check_compatibility(system, element),
        lambda: rules.check_remote_restart(system, element),
    )
    mode = partition.text('CurrentProcessorCompatibilityMode')
    modes = system.compatibility_modes
    if mode and modes and mode not in modes:
        yield f'{system.name} does not have its processor mode {mode}.'


def _refusals(*checks: Callable[[], object]) -> Iterator[str]:
    for check in checks:
        try:
            check()
        except errors.RestError as error:
            yield error.message


def _vioses(host: Host, system: System) -> Iterator[Partition]:
    for found in host.of_type(Partition, system):
        if found.kind == partition_module.VIOS:
            yield found


def _answers(vios: Partition) -> bool:
    states = vios.state, vios.rmc_state
    return states == (partition_module.RUNNING, partition_module.RMC_ACTIVE)


class _Part:
    """A part of a plan.

    :ivar problems: why it cannot be.
    """

    def __init__(
        self,
        host: Host,
        partition: Partition,
        there: Host,
        system: System,
        parameters: Parameters[str, str],
    ) -> None:
        self._host = host
        self._partition = partition
        self._there = there
        self._system = system
        self._parameters = parameters
        self.problems: list[str] = []
        self._find()

    def _find(self) -> None:
        raise NotImplementedError

    def _list(self, name: str) -> list[str]:
        """Return the parts of a parameter that is a list."""
        return [
            one for one in self._parameters.get(name, '').split(',') if one
        ]

    def _overrides(self, name: str) -> bool:
        return self._parameters.get(name) == _OVERRIDE


class _Ports(_Part):
    """The network adapters that are to be.

    :ivar found: as far as they can be.
    """

    def _find(self) -> None:
        self.found: list[Port] = []
        given = dict(map(_vlans, self._list('VlanMappings')))
        for adapter in self._host.of_type(Adapter, self._partition):
            own = adapter.pvid, *adapter.tagged
            self._add(adapter, given.pop(adapter.mac.upper(), own))
        for mac in given:
            self.problems.append(f'It has no network adapter {mac}.')

    def _add(self, adapter: Adapter, vlans: tuple[int, ...]) -> None:
        name = virtual_switch.name_of(
            self._host, self._partition.system, adapter.switch_id
        )
        self.problems += _refusals(
            lambda: net_adapter.check_mac(
                self._there, self._system, adapter.mac
            ),
            lambda: virtual_switch.by_name(
                self._there, self._system, name or ''
            ),
        )
        if not self.problems:
            switch = virtual_switch.by_name(
                self._there, self._system, name or ''
            )
            self.problems += self._unbridged(adapter, switch, vlans)
            self.found.append(Port(adapter, switch, vlans))

    def _unbridged(
        self,
        adapter: Adapter,
        switch: virtual_switch.Switch,
        vlans: tuple[int, ...],
    ) -> Iterator[str]:
        """Yield which VLANs the Virtual I/O Servers do not bridge."""
        system = self._partition.system
        local = [
            vlan
            for vlan in sorted(adapter.vlans)
            if not _bridged(self._host, system, adapter.switch_id, vlan)
        ]
        for vlan in local:
            if not self._overrides('OVSOverride'):
                yield (
                    f'No Virtual I/O Server of {system.name} bridges the '
                    f'VLAN {vlan} of its network adapter {adapter.mac}.'
                )
        if local or self._overrides('VLANBridgeOverride'):
            return
        for vlan in vlans:
            if not _bridged(self._there, self._system, switch.id, vlan):
                yield (
                    f'No Virtual I/O Server of {self._system.name} bridges '
                    f'the VLAN {vlan} on {switch.name}.'
                )


def _vlans(mapping: str) -> tuple[str, tuple[int, ...]]:
    """Return what ``MAC/PVID[/VLAN VLAN...]`` says."""
    mac, *numbers = mapping.split('/')
    vlans = ' '.join(numbers).split()
    if not vlans or not all(map(content.is_whole, vlans)):
        raise JobError(f'{mapping!r} is no mapping of VLANs.')
    return mac.upper(), tuple(map(int, vlans))


def _bridged(host: Host, system: System, switch_id: int, vlan: int) -> bool:
    return any(
        adapter.priority
        and adapter.switch_id == switch_id
        and vlan in adapter.vlans
        and adapter.partition.kind == partition_module.VIOS
        for adapter in net_adapter.every(host, system)
    )


class _Servers(_Part):
    """The Virtual I/O Servers that are to have the storage.

    :ivar found: as far as there is one.
    """

    def _find(self) -> None:
        self.found: dict[int, Server] = {}
        self._vioses = list(_vioses(self._there, self._system))
        named = dict(map(self._named, self._list('VirtualSCSIMappings')))
        for one in self._list('VirtualFCMappings'):
            self.problems.append(f'No virtual Fibre Channel moves as {one!r}.')
        for vios in scsi_mapping.servers(self._partition, self._host):
            self.problems += _fibre_channel(vios, self._partition)
        slots: dict[int, list[Mapping]] = {}
        for mapping in mappings(self._host, self._partition):
            slots.setdefault(mapping.client_slot or 0, []).append(mapping)
        for slot in named.keys() - slots.keys():
            self.problems.append(
                f'It has no virtual SCSI adapter in the slot {slot}.'
            )
        anywhere = [Server(vios, None) for vios in self._vioses]
        for slot, of_slot in slots.items():
            self._add(
                slot, of_slot, [named[slot]] if slot in named else anywhere
            )
        wanted = [server.vios for server in self.found.values()]
        for vios in self._vioses:
            free = virtual_slots.free(self._there, vios)
            if wanted.count(vios) > len(free):
                self.problems.append(
                    f'{vios.name} has {len(free)} free virtual slots.'
                )

    def _named(self, text: str) -> tuple[int, Server]:
        """Return what ``slot/name/id[/slot]`` says."""
        slot, name, number, at, *more = [*text.split('/'), '', '', ''][:5]
        whole = content.is_whole(slot) and content.is_whole(at or '0')
        if not whole or not (name or number) or any(more):
            raise JobError(f'{text!r} is no mapping of an adapter.')
        for vios in self._vioses:
            if name in ('', vios.name) and number in ('', str(vios.id)):
                return int(slot), Server(vios, int(at) if at else None)
        raise JobError(
            f'{self._system.name} has no Virtual I/O Server as in {text!r}.'
        )

    def _add(
        self, slot: int, of_slot: list[Mapping], choices: list[Server]
    ) -> None:
        staying = [why for one in of_slot for why in _staying(one)]
        reasons = {
            server: [
                why for one in of_slot for why in self._unseen(server, one)
            ]
            for server in choices
        }
        good = [server for server, why in reasons.items() if not why]
        if staying:
            self.problems += staying
        elif good:
            self.found[slot] = good[0]
        else:
            for why in reasons.values():
                self.problems += why

    def _unseen(self, server: Server, mapping: Mapping) -> Iterator[str]:
        """Yield why a server cannot have the storage of a mapping."""
        vios = server.vios
        if not _answers(vios):
            yield (
                f'{vios.name} does not answer: its state is {vios.state}, and '
                f'its RMC connection {vios.rmc_state}.'
            )
        elif server.slot in virtual_slots.taken(self._there, vios):
            yield f'The virtual slot {server.slot} of {vios.name} is taken.'
        elif mapping.kind == scsi_mapping.UNIT:
            if storage_pool.unit_of(self._there, vios, mapping.udid) is None:
                yield f'{vios.name} does not see the unit {mapping.name}.'
        elif mapping.kind == scsi_mapping.VOLUME:
            yield from _unseen_volume(self._there, vios, mapping.udid)


def _fibre_channel(vios: Partition, partition: Partition) -> Iterator[str]:
    path = f'{scsi_mapping.FIBRE_CHANNEL}/*'
    for element in content.find_all(vios.element, path):
        if Mapping(element).client_uuid == partition.uuid.upper():
            yield f'It has a virtual Fibre Channel adapter of {vios.name}.'


def _staying(mapping: Mapping) -> Iterator[str]:
    """Yield why storage cannot leave the source."""
    if mapping.kind == scsi_mapping.MEDIA:
        yield (
            f'The optical drive at its slot {mapping.client_slot} has the '
            f'medium {mapping.name}.'
        )
    elif mapping.kind == scsi_mapping.DISK:
        yield f'Its disk {mapping.name} is in a volume group.'
    elif mapping.kind == scsi_mapping.VOLUME:
        storage = mapping.storage
        if storage is not None and not physical_volume.is_shared(storage):
            yield f'Its disk {mapping.name} is reserved for one server.'


def _unseen_volume(there: Host, vios: Partition, udid: str) -> Iterator[str]:
    volume = physical_volume.find(vios, udid)
    name = '' if volume is None else content.text(volume, 'VolumeName')
    if volume is None or name in disks.stale(there, vios):
        yield f'{vios.name} does not see the disk {udid}.'
    elif not physical_volume.is_free(volume):
        yield f'{name} of {vios.name} is in use.'
    elif not physical_volume.is_shared(volume):
        yield f'{name} of {vios.name} is reserved for one server.'
