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

"""Whether an LPAR can move to another host while its guest runs, and how.

The destination describes itself (:class:`Destination`), and the source
compares this with the LPAR (:class:`Guest`). PowerVM moves the LPAR; the hosts
then say where it is, which alone decides how the move has ended
(:func:`judge`).
"""

import dataclasses
import enum
import json
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from nova_powervm.devices import slots as host_slots
from nova_powervm.lpar import management_adapter

#: PowerVM's state of an LPAR that is not being migrated.
SETTLED = 'Not_Migrating'
#: That of an LPAR whose migration has failed so that it has to be recovered.
_FAILED = 'Migration_Failed'
#: The mode of an LPAR that follows the host's newest one.
_DEFAULT_MODE = 'default'
#: What a host says of an LPAR whose storage it could not read.
UPDATE_FAILED = 'Update_Failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """The host that is to get an LPAR, as it describes itself.

    :param system: The name of its managed system.
    :param address: The address of its NovaLink.
    :param memory_region_mb: MemoryRegionSize in MiB.
    :param compatibility_modes: The processor modes that it supports.
    :param pool: The identity of its shared storage pool; empty for none.
    :param disk_servers: The names of the Virtual I/O Servers that map disks
        in the pool, in the order of their numbers.
    :param volume_servers: The names of those that map volumes.
    :param switches: MAC address of each port of the server -> the virtual
        switch that the port gets there.
    :param has_management: Whether an LPAR can have a management adapter there.
    :param key: The public key by which its NovaLink logs on to others.
    """

    system: str
    address: str
    memory_region_mb: int
    compatibility_modes: tuple[str, ...]
    pool: str
    disk_servers: tuple[str, ...]
    volume_servers: tuple[str, ...]
    switches: Mapping[str, str]
    has_management: bool
    key: str = ''

    def to_text(self) -> str:
        """Return a text that another host reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> 'Destination':
        """Read what :meth:`to_text` has made.

        :raises ValueError: It is something else.
        """
        try:
            fields = json.loads(text)
            for name in ('compatibility_modes', 'disk_servers'):
                fields[name] = tuple(fields[name])
            fields['volume_servers'] = tuple(fields['volume_servers'])
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise ValueError(f'no description of a host: {error}') from error


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A virtual SCSI adapter of an LPAR.

    :param slot: Its virtual slot in the LPAR.
    :param number: The number of the Virtual I/O Server that serves it, among
        those for disks or for volumes.
    :param is_volume: Whether it is for a volume.
    """

    slot: int
    number: int
    is_volume: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """Where a Virtual I/O Server connects something to an LPAR.

    :param slot: The virtual slot in the LPAR.
    :param address: The logical unit address; empty for none.
    :param disk: What both hosts call the disk; empty if it does not move.
    """

    slot: int
    address: str = ''
    disk: str = ''

    def __str__(self) -> str:
        return f'virtual slot {self.slot} ({self.address})'


def changed_paths(
    before: Sequence[Path], after: Sequence[Path]
) -> Iterator[tuple[str, str, str]]:
    """Yield each disk that is not where it was, and both places in words."""
    for disk in sorted({path.disk for path in before if path.disk}):
        was, now = (
            ', '.join(sorted(str(path) for path in paths if path.disk == disk))
            for paths in (before, after)
        )
        if was != now:
            yield disk, was, now or 'nowhere'


@dataclasses.dataclass(frozen=True, slots=True)
class MappedDisk:
    """A physical volume of a Virtual I/O Server that an LPAR has.

    :param volume_id: The volume that its tag names; empty for none.
    :param udid: Its unique device id.
    :param name: Its name on the server.
    """

    volume_id: str
    udid: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """An LPAR that is to move, as its host reports it.

    :param obstacle: Why PowerVM would not move it; empty if nothing is known.
    :param state: Its migration state.
    :param storage_status: MigrationStorageViosDataStatus.
    :param compatibility_mode: Its present processor mode.
    :param slots: Its physical slots.
    :param memory_region_mb: MemoryRegionSize of its host in MiB.
    :param pool: The identity of the pool that has its disks; empty if it has
        none there.
    :param strangers: What is connected to it, and neither in the pool nor a
        volume of the server.
    :param locked: The disks of volumes that only one server can open.
    :param devices: Its virtual SCSI adapters.
    :param mapped: The physical volumes that it has, by each path.
    :param paths: Where its disks are.
    :param switches: MAC address of each adapter -> its virtual switch.
    """

    obstacle: str = ''
    state: str = SETTLED
    storage_status: str = ''
    compatibility_mode: str = _DEFAULT_MODE
    slots: tuple[int, ...] = ()
    memory_region_mb: int = 0
    pool: str = ''
    strangers: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    mapped: tuple[MappedDisk, ...] = ()
    paths: tuple[Path, ...] = ()
    switches: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def identified(self, udids: Mapping[str, str]) -> 'Guest':
        """Return the LPAR with its physical volumes identified.

        :param udids: Id of each volume of the server -> UDID as far as it is
            on record; empty if not.
        """
        by_udid = {udid: volume for volume, udid in udids.items() if udid}
        known = []
        strangers = set()
        for disk in self.mapped:
            volume_id = disk.volume_id or by_udid.get(disk.udid, '')
            if volume_id in udids:
                known.append(dataclasses.replace(disk, volume_id=volume_id))
            else:
                strangers.add(f'disk {disk.name}')
        return dataclasses.replace(
            self,
            mapped=tuple(known),
            strangers=(*self.strangers, *sorted(strangers)),
        )

    @property
    def udids(self) -> dict[str, str]:
        """Id of each volume -> the UDID of its disk."""
        return {disk.volume_id: disk.udid for disk in self.mapped}

    @property
    def has_management(self) -> bool:
        """Whether it has an adapter on the management switch."""
        return management_adapter.SWITCH in self.switches.values()


def refusals(guest: Guest, destination: Destination) -> Iterator[str]:
    """Yield the reasons why an LPAR cannot move while its guest runs."""
    if guest.slots:
        yield (
            'the server has the physical I/O slot(s) '
            f'{host_slots.format_drc_indexes(guest.slots)}, whose state '
            'cannot be moved. Migrate it cold'
        )
    if guest.state != SETTLED:
        yield f'its LPAR is being migrated already (state {guest.state})'
    if guest.obstacle:
        yield (
            f'{guest.obstacle.rstrip(".")}. Without RMC, migrate the server '
            'cold'
        )
    if guest.storage_status == UPDATE_FAILED:
        yield (
            'the host could not read the storage of the server '
            f'(MigrationStorageViosDataStatus is {UPDATE_FAILED}). Check its '
            'Virtual I/O Servers'
        )
    yield from _of_system(guest, destination)
    yield from _of_storage(guest, destination)
    yield from _of_network(guest, destination)


def _of_system(guest: Guest, destination: Destination) -> Iterator[str]:
    if guest.memory_region_mb != destination.memory_region_mb:
        yield (
            'the hosts have memory regions of different sizes '
            f'({guest.memory_region_mb} and {destination.memory_region_mb} '
            'MB). Give them the same'
        )
    modes = destination.compatibility_modes
    mode = guest.compatibility_mode
    if mode.lower() != _DEFAULT_MODE and mode not in modes:
        yield (
            f'it runs in processor mode {mode}, and the destination has '
            f'{", ".join(modes)}'
        )


def _of_storage(guest: Guest, destination: Destination) -> Iterator[str]:
    if guest.strangers:
        yield (
            f'it has {", ".join(guest.strangers)}, which is neither in a '
            'shared storage pool nor one of its volumes, so the destination '
            'does not see it'
        )
    if guest.pool and guest.pool != destination.pool:
        yield 'the destination does not see the same shared storage pool'
    if guest.locked:
        yield (
            f'{", ".join(guest.locked)} can be reserved by one Virtual I/O '
            'Server, and in a live migration servers of both hosts open it. '
            'Set its reserve_policy to no_reserve'
        )
    for kind, numbers, servers in (
        ('disks', _numbers(guest, of_volumes=False), destination.disk_servers),
        (
            'volumes',
            _numbers(guest, of_volumes=True),
            destination.volume_servers,
        ),
    ):
        if numbers and max(numbers) >= len(servers):
            yield (
                f'{len(set(numbers))} Virtual I/O Server(s) connect its '
                f'{kind}, and the destination has {len(servers)} that run'
            )


def _numbers(guest: Guest, *, of_volumes: bool) -> list[int]:
    return [
        device.number
        for device in guest.devices
        if device.is_volume is of_volumes
    ]


def _of_network(guest: Guest, destination: Destination) -> Iterator[str]:
    if guest.has_management and not destination.has_management:
        yield (
            'it has an adapter on the virtual switch '
            f'{management_adapter.SWITCH}, which the destination lacks'
        )
    for mac, switch in sorted(guest.switches.items()):
        other = destination.switches.get(mac, switch)
        if other != switch:
            yield (
                f'its port {mac} is on the virtual switch {switch}, and would '
                f'be on {other} there: give the switches the same name'
            )


def scsi_mappings(
    devices: Sequence[Device], destination: Destination
) -> list[str]:
    """Name the server of the destination for each virtual SCSI adapter.

    Without this, PowerVM may connect both paths through one server.

    :returns: As pypowervm's ``migrate_lpar`` takes them.
    """
    mappings = []
    for device in sorted(devices, key=lambda device: device.slot):
        servers = (
            destination.volume_servers
            if device.is_volume
            else destination.disk_servers
        )
        mappings.append(f'{device.slot}/{servers[device.number]}/')
    return mappings


def vlan_mappings(vlans: Mapping[str, int]) -> list[str]:
    """Return the VLAN of each adapter, as ``migrate_lpar`` takes them.

    :param vlans: MAC address, as Neutron writes it -> VLAN ID.
    """
    return [
        f'{mac.replace(":", "").upper()}/{vlan}'
        for mac, vlan in sorted(vlans.items())
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where PowerVM is to move an LPAR.

    :param system: The name of the managed system.
    :param address: The address of its NovaLink.
    :param scsi: From :func:`scsi_mappings`.
    :param vlans: From :func:`vlan_mappings`.
    """

    system: str
    address: str
    scsi: tuple[str, ...] = ()
    vlans: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """An LPAR as one of the two hosts shows it.

    :param state: Its state.
    :param migration_state: Its migration state.
    """

    state: str
    migration_state: str = SETTLED

    @property
    def is_settled(self) -> bool:
        """Whether its host has ended all migrations of it."""
        return self.migration_state == SETTLED and not (
            self.state.startswith('migrating')
        )

    @property
    def is_to_recover(self) -> bool:
        """Whether a migration has ended, and its host has to clean up."""
        return self.migration_state == _FAILED


class Ending(enum.Enum):
    """How a live migration has ended."""

    ARRIVED = 'it has arrived'
    STAYED = 'it has stayed'
    UNKNOWN = 'unknown'


def judge(here: Sight | None, there: Sight | None) -> Ending:
    """Decide from what both hosts show where an LPAR is.

    :param here: The LPAR on the source; None if it has none.
    :param there: The LPAR on the destination.
    """
    if here is None and there is not None and there.is_settled:
        return Ending.ARRIVED
    if here is not None and here.is_settled and there is None:
        return Ending.STAYED
    return Ending.UNKNOWN
