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

"""Physical volumes of Virtual I/O Servers, and their mappings to LPARs.

:mod:`nova_powervm.powervm.disk.scsi_mappings` maps virtual disks, logical
units and media, which this module leaves as they are.

A :class:`Server` is what one reading shows of a Virtual I/O Server; ``vios``
is pypowervm's wrapper of it.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from oslo_utils import uuidutils
from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm.tasks import hdisk
from pypowervm.tasks import partition as partition_tasks
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.lpar import volumes
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import system
from nova_powervm.powervm import virtual_io_servers

LOG = logging.getLogger(__name__)

_VIOS = virtual_io_server.VIOS
_XAG = (const.XAG.VIO_STOR, const.XAG.VIO_SMAP)
_MIB = 1024**2
#: The PCI class of an adapter for Fibre Channel.
_FIBRE_CHANNEL = 0x0C04
#: What stands for the class of a card that the host could not read.
_UNREAD = (None, 0, 0xFFFF)


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """A physical volume of a server.

    :param name: Such as hdisk3. Another server has another name for the same
        disk, and a server gives names again.
    :param udid: The unique device id; empty if the server does not know it.
    :param size: The size in bytes.
    :param is_free: Whether nothing has it.
    :param is_fibre_channel: Whether a port of the server leads to it.
    :param reserve_policy: Such as SinglePath or NoReserve.
    """

    name: str
    udid: str
    size: int
    is_free: bool
    is_fibre_channel: bool
    reserve_policy: str


@dataclasses.dataclass(frozen=True, slots=True)
class Mapped:
    """A physical volume that a server maps to a partition.

    :param lpar_uuid: Upper-case uuid of the partition; empty if it is gone.
    :param udid: The unique device id of the disk.
    :param name: The name of the disk.
    :param tag: The tag that it got when it was mapped; empty for none. A
        server may lose it.
    :param slot: The virtual slot of the partition; None if that is gone.
    """

    lpar_uuid: str
    udid: str
    name: str
    tag: str
    slot: int | None = None

    @property
    def volume_id(self) -> str:
        """The id of the volume that :func:`tag_of` has made the tag for.

        It is empty for any other tag: administrators can map and tag disks,
        too.
        """
        volume_id = self.tag.rpartition(':')[2]
        return volume_id if uuidutils.is_uuid_like(volume_id) else ''

    @property
    def kind(self) -> str:
        """The ``driver_volume_type`` of this volume; empty for none."""
        kind = self.tag.rpartition(':')[0] or volumes.FIBRE_CHANNEL
        return kind if self.volume_id else ''


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A Virtual I/O Server, as one reading shows it.

    :param uuid: Its uuid.
    :param name: Its name.
    :param answers: Whether it runs and carries out requests.
    :param is_off: Whether it is stopped. A server that neither answers nor is
        off may serve guests.
    :param ports: Its Fibre Channel ports: worldwide port name -> worldwide
        node name, in upper case.
    :param disks: Its physical volumes.
    :param mapped: The physical volumes that it maps.
    :param paths: Upper-case LPAR uuid -> what is on the adapters of the LPAR
        that are connected to this server.
    :param may_have_ports: Whether it has an adapter for Fibre Channel or an
        unknown adapter, or shows no adapters at all.
    """

    uuid: str
    name: str
    answers: bool
    is_off: bool
    ports: dict[str, str]
    disks: tuple[Disk, ...]
    mapped: tuple[Mapped, ...]
    paths: dict[str, list[live_migration.Path]]
    may_have_ports: bool = True

    def slots(self, lpar_uuid: str) -> set[int]:
        """Return the virtual slots of an LPAR's adapters to this server."""
        return {path.slot for path in self.paths.get(lpar_uuid, ())}

    @property
    def reaches_volumes(self) -> bool:
        """Whether it has ports, or may have some and hides them.

        Counting servers that hide their ports keeps the number of each server
        the same, whichever of them run.
        """
        return bool(self.ports) or (self.is_blank and self.may_have_ports)

    @property
    def wwpns(self) -> frozenset[str]:
        """The names of its Fibre Channel ports, in upper case."""
        return frozenset(self.ports)

    @property
    def is_blank(self) -> bool:
        """Whether it is off and hides its storage, and so may have anything.

        A server that runs shows at least its own disks.
        """
        return not (self.answers or self.disks)

    def disk(self, udid: str) -> Disk | None:
        """Return its disk with a unique device id, if it has that disk."""
        disks = (disk for disk in self.disks if udid and disk.udid == udid)
        return next(disks, None)

    def unused(self, is_meant: Callable[[Disk], bool]) -> list[Disk]:
        """Return those of some disks that nothing uses.

        A disk whose UDID the server does not know counts as used.
        """
        used = {'', *(mapping.udid for mapping in self.mapped)}
        return [
            disk
            for disk in self.disks
            if is_meant(disk) and disk.is_free and disk.udid not in used
        ]


class VolumeMappings:
    """Reads and changes the mappings of physical volumes.

    :param adapter: An adapter with a session that has logged on.
    :param managed: The managed system.
    """

    def __init__(
        self, adapter: pvm_adapter.Adapter, managed: system.RestSystem
    ) -> None:
        self._adapter = adapter
        self._managed = managed

    @rest_errors.retried
    def read(self) -> list[Server]:
        """Read all servers of the host, in the order of their names."""
        with rest_errors.translated('reading the Virtual I/O Servers'):
            wrappers = virtual_io_servers.read_all(self._adapter, _XAG)
        active = partition_tasks.get_active_vioses(
            self._adapter, vios_wraps=wrappers
        )
        answering = {vios.uuid for vios in active}
        servers = (
            _server(vios, answers=vios.uuid in answering) for vios in wrappers
        )
        return sorted(servers, key=lambda server: (server.name, server.uuid))

    def discover(
        self, server: Server, paths: Sequence[volumes.Path]
    ) -> tuple[str | None, str | None, str | None]:
        """Have a server look for the disk at the end of paths.

        pypowervm's ``discover_hdisk`` is not called: after a failure, it would
        delete the storage of partitions that it takes for stale.

        :returns: The status (see pypowervm's ``LUAStatus``), the name of the
            disk and its UDID; each is None if the server does not report it.
        :raises exception.RestError: The server did not look.
        """
        try:
            return self._discover(server, paths)
        except exception.RestError:
            # The answer may have been lost, and a second look does no harm.
            return self._discover(server, paths)

    def _discover(
        self, server: Server, paths: Sequence[volumes.Path]
    ) -> tuple[str | None, str | None, str | None]:
        itls = [hdisk.ITL(p.initiator, p.target, p.lun) for p in paths]
        with rest_errors.translated(f'discovering a disk on {server.name}'):
            status, name, udid = hdisk.lua_recovery(
                self._adapter, server.uuid, itls
            )
        return status, name, udid

    def map(
        self,
        server: Server,
        lpar_uuid: str,
        disk: Disk,
        volume: volumes.Volume,
        slot: int,
    ) -> None:
        """Map a disk to an LPAR, alone on its adapter, unless it is mapped.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param volume: The volume, for the tag.
        :param slot: The virtual slot of the LPAR.
        :raises exception.RestError: The server refused, or has mapped another
            disk.
        """
        action = f'mapping {disk.name} of {server.name} to LPAR {lpar_uuid}'

        def add(vios: virtual_io_server.VIOS) -> bool:
            _check_read(vios, action)
            if _maps(vios, lpar_uuid, disk.udid):
                return False
            tagged = pvm_storage.PV.bld(
                self._adapter, disk.name, udid=disk.udid, tag=tag_of(volume)
            )
            mapping = virtual_io_server.VSCSIMapping.bld(
                self._adapter, None, lpar_uuid, tagged, lpar_slot_num=slot
            )
            vios.scsi_mappings.append(mapping)
            return True

        vios = virtual_io_servers.change_mappings(
            self._adapter, server.uuid, action, add
        )
        if not _maps(vios, lpar_uuid, disk.udid):
            raise exception.RestError(
                action=action,
                reason='the server does not show the mapping afterwards',
            )

    def unmap(
        self, server: Server, is_doomed: Callable[[Mapped], bool]
    ) -> None:
        """Remove some mappings, if there are any."""
        action = f'unmapping volumes of {server.name}'

        def remove(vios: virtual_io_server.VIOS) -> bool:
            _check_read(vios, action)
            doomed = [
                each for each, mapped in _volumes(vios) if is_doomed(mapped)
            ]
            for mapping in doomed:
                vios.scsi_mappings.remove(mapping)
            return bool(doomed)

        virtual_io_servers.change_mappings(
            self._adapter, server.uuid, action, remove
        )

    def forget(self, server: Server, is_meant: Callable[[Disk], bool]) -> None:
        """Have a server forget some of its disks.

        A disk that is mapped or otherwise in use stays. A disk that cannot be
        forgotten does no harm, but is in the way of an administrator, so
        errors are only logged.
        """
        with logged(server, 'the disk of a volume'):
            vios = _VIOS.get(self._adapter, uuid=server.uuid, xag=_XAG)
            for disk in _server(vios, answers=True).unused(is_meant):
                with logged(server, disk.name):
                    system_name = self._managed.wrapper.system_name
                    hdisk.remove_hdisk(
                        self._adapter, system_name, disk.name, server.uuid
                    )


def tag_of(volume: volumes.Volume) -> str:
    """Return the tag for the disk of a volume that is mapped.

    It names the type of the volume: a driver reads the mappings of all
    drivers, and nothing else tells them apart, because hosts report a mapped
    disk as not backed by Fibre Channel even if it is. For Fibre Channel the
    tag is the id alone, as in earlier versions.
    """
    if volume.kind == volumes.FIBRE_CHANNEL:
        return volume.id
    return f'{volume.kind}:{volume.id}'


def taken_slots(servers: Iterable[Server], lpar_uuid: str) -> set[int]:
    """Return the virtual slots of an LPAR that have an adapter for storage."""
    return {slot for server in servers for slot in server.slots(lpar_uuid)}


@contextlib.contextmanager
def logged(server: Server, disk: str) -> Iterator[None]:
    """Log an error that keeps a server from forgetting a disk."""
    try:
        with rest_errors.translated('forgetting a disk'):
            yield
    except Exception as error:
        LOG.warning(
            'Virtual I/O Server %(server)s may keep %(disk)s, which nothing '
            'uses any more: %(error)s. Remove it there with `rmdev -dev`.',
            {'server': server.name, 'disk': disk, 'error': error},
        )


def _check_read(vios: virtual_io_server.VIOS, action: str) -> None:
    """Verify that a server reports its mappings.

    :raises exception.RestError: It does not.
    """
    if virtual_io_servers.is_sick(vios):
        raise exception.RestError(
            action=action,
            reason=f'{vios.name} does not report its storage',
        )


def _server(vios: virtual_io_server.VIOS, *, answers: bool) -> Server:
    paths: dict[str, list[live_migration.Path]] = {}
    for mapping in vios.scsi_mappings:
        client = virtual_io_servers.client_of(mapping)
        if client and mapping.client_adapter is not None:
            paths.setdefault(client, []).append(_path(mapping))
    return Server(
        uuid=vios.uuid,
        name=vios.name,
        answers=answers,
        is_off=vios.state == bp.LPARState.NOT_ACTIVATED,
        ports=dict(_ports(vios)),
        disks=tuple(map(_disk, vios.phys_vols)),
        mapped=tuple(mapped for _, mapped in _volumes(vios)),
        paths=paths,
        may_have_ports=may_have_ports(vios.io_config.io_slots),
    )


def _path(mapping: virtual_io_server.VSCSIMapping) -> live_migration.Path:
    disk, slot = mapping.backing_storage, mapping.client_adapter.lpar_slot_num
    if isinstance(disk, pvm_storage.PV):
        name = disk.udid
    elif isinstance(disk, pvm_storage.LU):
        name = disk.name
    else:
        return live_migration.Path(slot)
    target = mapping.target_dev
    address = None if target is None else target.lua
    return live_migration.Path(slot, address or '', name or '')


def _ports(vios: virtual_io_server.VIOS) -> Iterator[tuple[str, str]]:
    """Yield the names of Fibre Channel ports and of their nodes."""
    for port in vios.pfc_ports:
        if port.wwpn:
            node = volumes.normal_wwpn(node_name(port))
            yield volumes.normal_wwpn(port.wwpn), node


def _disk(volume: pvm_storage.PV) -> Disk:
    return Disk(
        name=volume.name,
        udid=volume.udid or '',
        size=(volume.capacity or 0) * _MIB,
        is_free=volume.avail_for_use,
        is_fibre_channel=volume.is_fc_backed,
        reserve_policy=volume.element.findtext('ReservePolicy') or '',
    )


def may_have_ports(slots: Collection[Any]) -> bool:
    """Return whether I/O slots may have an adapter for Fibre Channel.

    A server that is off may show the adapters, but not their ports.
    """
    return not slots or any(map(_may_have_ports, slots))


def _may_have_ports(slot: Any) -> bool:
    description = (slot.description or '').lower()
    # A card that the host could not read may be one, and some Fibre Channel
    # cards have another class.
    unknown = slot.pci_class in _UNREAD and description != 'empty slot'
    return (
        unknown
        or slot.pci_class == _FIBRE_CHANNEL
        or 'fibre channel' in description
    )


def node_name(port: bp.PhysFCPort) -> str:
    """Return the name of a port's node, or of the port if REST has none.

    Most drivers of Cinder demand the name of a node for each port, and a few
    name their initiators by it. PowerVC, too, sends that of the port.
    """
    return str(port.element.findtext('WWNN') or port.wwpn)


def _volumes(vios: virtual_io_server.VIOS) -> Iterator[tuple[Any, Mapped]]:
    """Yield the wrappers of the mappings of physical volumes, translated."""
    for mapping in vios.scsi_mappings:
        disk = mapping.backing_storage
        if isinstance(disk, pvm_storage.PV):
            adapter = mapping.client_adapter
            mapped = Mapped(
                lpar_uuid=virtual_io_servers.client_of(mapping),
                udid=disk.udid or '',
                name=disk.name or '',
                tag=disk.tag or '',
                slot=adapter and adapter.lpar_slot_num,
            )
            yield mapping, mapped


def _maps(vios: virtual_io_server.VIOS, lpar_uuid: str, udid: str) -> bool:
    """Return whether a server maps a disk to an LPAR."""
    return any(
        (mapped.lpar_uuid, mapped.udid) == (lpar_uuid, udid)
        for _, mapped in _volumes(vios)
    )
