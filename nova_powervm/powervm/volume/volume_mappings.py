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

Only these are touched here: virtual disks, logical units and media belong to
the disk drivers, and :mod:`nova_powervm.powervm.disk.scsi_mappings`.
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

    :param name: Such as hdisk3. Another server has another name for the same,
        and a name is given again.
    :param udid: The unique device id; empty if the server does not know it.
    :param size: In bytes.
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
    :param tag: What it was tagged with when it was mapped; empty for nothing.
        A server may lose it.
    :param slot: The virtual slot of the partition; None for a partition that
        is gone.
    """

    lpar_uuid: str
    udid: str
    name: str
    tag: str
    slot: int | None = None

    @property
    def volume_id(self) -> str:
        """The id of the volume that :func:`tag_of` has made the tag for.

        It is empty for another tag: an administrator can map and tag disks,
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
    :param answers: Whether it runs and can be told to do something.
    :param is_off: Whether it is stopped. One that neither answers nor is off
        may serve guests.
    :param ports: Its Fibre Channel ports: worldwide port name -> worldwide
        node name, in upper case.
    :param disks: Its physical volumes.
    :param mapped: Those that it maps.
    :param slots: Upper-case LPAR uuid -> the virtual slots of the LPAR whose
        adapters are connected to this server.
    :param may_have_ports: Whether it has an adapter for Fibre Channel, or one
        that nothing is known of, or shows no adapters at all.
    """

    uuid: str
    name: str
    answers: bool
    is_off: bool
    ports: dict[str, str]
    disks: tuple[Disk, ...]
    mapped: tuple[Mapped, ...]
    slots: dict[str, frozenset[int]]
    may_have_ports: bool = True

    @property
    def reaches_volumes(self) -> bool:
        """Whether it has ports, or hides what it has, and may have some.

        So the place of a server among those that do does not depend on which
        ones run.
        """
        return bool(self.ports) or (self.is_blank and self.may_have_ports)

    @property
    def wwpns(self) -> frozenset[str]:
        """The names of its Fibre Channel ports, in upper case."""
        return frozenset(self.ports)

    @property
    def is_blank(self) -> bool:
        """Whether it is off and hides its storage, and so may have anything.

        One that runs has disks at least for itself.
        """
        return not (self.answers or self.disks)

    def disk(self, udid: str) -> Disk | None:
        """Return its disk with a unique device id, if that is known."""
        found = (one for one in self.disks if udid and one.udid == udid)
        return next(found, None)

    def unused(self, is_meant: Callable[[Disk], bool]) -> list[Disk]:
        """Return some of its disks, those that nothing has.

        One that its server does not know the id of may be anybody's.
        """
        mapped = {one.udid for one in self.mapped}
        return [
            disk
            for disk in self.disks
            if is_meant(disk)
            and disk.is_free
            and disk.udid
            and disk.udid not in mapped
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
            found = virtual_io_servers.read_all(self._adapter, _XAG)
        active = {
            server.uuid
            for server in partition_tasks.get_active_vioses(
                self._adapter, vios_wraps=found
            )
        }
        return sorted(
            (_server(one, answers=one.uuid in active) for one in found),
            key=lambda server: (server.name, server.uuid),
        )

    def discover(
        self, server: Server, paths: Sequence[volumes.Path]
    ) -> tuple[str | None, str | None, str | None]:
        """Have a server look for the disk at the end of paths.

        pypowervm's ``discover_hdisk`` would delete the storage of partitions
        that it takes for stale after a failure, so this does not call it.

        :returns: The status (see pypowervm's ``LUAStatus``), the name of the
            disk and its UDID, each None if there is none.
        :raises exception.RestError: The server did not look.
        """
        try:
            return self._discover(server, paths)
        except exception.RestError:
            # Its answer may have been lost, and to look again does no harm.
            return self._discover(server, paths)

    def _discover(
        self, server: Server, paths: Sequence[volumes.Path]
    ) -> tuple[str | None, str | None, str | None]:
        with rest_errors.translated(f'discovering a disk on {server.name}'):
            status, name, udid = hdisk.lua_recovery(
                self._adapter,
                server.uuid,
                [hdisk.ITL(p.initiator, p.target, p.lun) for p in paths],
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

        def add(found: virtual_io_server.VIOS) -> bool:
            _check_read(found, action)
            if _find(found, lpar_uuid, disk.udid):
                return False
            found.scsi_mappings.append(
                virtual_io_server.VSCSIMapping.bld(
                    self._adapter,
                    None,
                    lpar_uuid,
                    pvm_storage.PV.bld(
                        self._adapter,
                        disk.name,
                        udid=disk.udid,
                        tag=tag_of(volume),
                    ),
                    lpar_slot_num=slot,
                )
            )
            return True

        found = virtual_io_servers.change_mappings(
            self._adapter, server.uuid, action, add
        )
        if not _find(found, lpar_uuid, disk.udid):
            raise exception.RestError(
                action=action,
                reason='the server does not show the mapping afterwards',
            )

    def unmap(
        self, server: Server, is_doomed: Callable[[Mapped], bool]
    ) -> None:
        """Unmap disks, if there are such mappings."""
        action = f'unmapping volumes of {server.name}'

        def remove(found: virtual_io_server.VIOS) -> bool:
            _check_read(found, action)
            doomed = [
                wrapper
                for wrapper, mapped in _volumes(found)
                if is_doomed(mapped)
            ]
            for wrapper in doomed:
                found.scsi_mappings.remove(wrapper)
            return bool(doomed)

        virtual_io_servers.change_mappings(
            self._adapter, server.uuid, action, remove
        )

    def forget(self, server: Server, is_meant: Callable[[Disk], bool]) -> None:
        """Have a server forget some of its disks.

        One that is mapped or otherwise in use stays. One that cannot be
        forgotten does no harm, but is in the way of an administrator, so
        errors are only logged.
        """
        with logged(server, 'the disk of a volume'):
            current = _server(
                _VIOS.get(self._adapter, uuid=server.uuid, xag=_XAG),
                answers=True,
            )
            for disk in current.unused(is_meant):
                with logged(server, disk.name):
                    hdisk.remove_hdisk(
                        self._adapter,
                        self._managed.wrapper.system_name,
                        disk.name,
                        server.uuid,
                    )


def tag_of(volume: volumes.Volume) -> str:
    """Return what the disk of a volume is tagged with when it is mapped.

    It names the type: a driver finds the mappings of all drivers, and nothing
    else tells them apart, because hosts report a mapped disk as not backed by
    Fibre Channel even if it is. Volumes of Fibre Channel have their id alone,
    as earlier versions have tagged them.
    """
    if volume.kind == volumes.FIBRE_CHANNEL:
        return volume.id
    return f'{volume.kind}:{volume.id}'


def taken_slots(servers: Iterable[Server], lpar_uuid: str) -> set[int]:
    """Return the virtual slots of an LPAR that have an adapter for storage."""
    return {slot for one in servers for slot in one.slots.get(lpar_uuid, ())}


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


def _check_read(found: virtual_io_server.VIOS, action: str) -> None:
    """Verify that a server shows what it maps.

    :raises exception.RestError: It does not.
    """
    if virtual_io_servers.is_sick(found):
        raise exception.RestError(
            action=action,
            reason=f'{found.name} does not report its storage',
        )


def _server(found: virtual_io_server.VIOS, *, answers: bool) -> Server:
    slots: dict[str, set[int]] = {}
    for mapping in found.scsi_mappings:
        client = virtual_io_servers.client_of(mapping)
        if client and mapping.client_adapter is not None:
            slots.setdefault(client, set()).add(
                mapping.client_adapter.lpar_slot_num
            )
    return Server(
        uuid=found.uuid,
        name=found.name,
        answers=answers,
        is_off=found.state == bp.LPARState.NOT_ACTIVATED,
        ports={
            volumes.normal_wwpn(port.wwpn): volumes.normal_wwpn(
                node_name(port)
            )
            for port in found.pfc_ports
            if port.wwpn
        },
        disks=tuple(
            Disk(
                name=volume.name,
                udid=volume.udid or '',
                size=(volume.capacity or 0) * _MIB,
                is_free=volume.avail_for_use,
                is_fibre_channel=volume.is_fc_backed,
                reserve_policy=volume.element.findtext('ReservePolicy') or '',
            )
            for volume in found.phys_vols
        ),
        mapped=tuple(mapped for _, mapped in _volumes(found)),
        slots={client: frozenset(of) for client, of in slots.items()},
        may_have_ports=may_have_ports(found.io_config.io_slots),
    )


def may_have_ports(slots: Collection[Any]) -> bool:
    """Return whether slots may have an adapter for Fibre Channel.

    A server that is off shows them, if anything, without the ports.
    """
    return not slots or any(map(_may_have_ports, slots))


def _may_have_ports(slot: Any) -> bool:
    description = (slot.description or '').lower()
    # A card that was not read is no evidence, and some have another class.
    unknown = slot.pci_class in _UNREAD and description != 'empty slot'
    return (
        unknown
        or slot.pci_class == _FIBRE_CHANNEL
        or 'fibre channel' in description
    )


def node_name(port: bp.PhysFCPort) -> str:
    """Return the name of a port's node, or of the port if REST has none.

    Most drivers of Cinder demand one for each port, and a few name their
    initiators by it. PowerVC sends them that of the port, too.
    """
    return str(port.element.findtext('WWNN') or port.wwpn)


def _volumes(
    found: virtual_io_server.VIOS,
) -> Iterator[tuple[Any, Mapped]]:
    """Yield the mappings of physical volumes of a server."""
    for mapping in found.scsi_mappings:
        disk = mapping.backing_storage
        if isinstance(disk, pvm_storage.PV):
            yield (
                mapping,
                Mapped(
                    lpar_uuid=virtual_io_servers.client_of(mapping),
                    udid=disk.udid or '',
                    name=disk.name or '',
                    tag=disk.tag or '',
                    slot=mapping.client_adapter
                    and mapping.client_adapter.lpar_slot_num,
                ),
            )


def _find(found: virtual_io_server.VIOS, lpar_uuid: str, udid: str) -> bool:
    return any(
        (one.lpar_uuid, one.udid) == (lpar_uuid, udid)
        for _, one in _volumes(found)
    )
