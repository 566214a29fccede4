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

"""Virtual SCSI mappings: which LPAR sees which disks, in which order.

Physical volumes are left alone: they belong to the volume drivers, and to
:mod:`nova_powervm.powervm.volume.volume_mappings`.
"""

import copy
import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.powervm import management_partition
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import virtual_io_servers

LOG = logging.getLogger(__name__)

_Server: TypeAlias = virtual_io_server.VIOS
_Mapping: TypeAlias = virtual_io_server.VSCSIMapping
#: What to read of servers for their mappings.
XAG = (const.XAG.VIO_SMAP,)
_RUNNING = bp.LPARState.RUNNING

#: Uuid of each server -> pypowervm's wrappers of what it has of an LPAR.
Elements = Mapping[str, Sequence[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """How a Virtual I/O Server connects a disk to an LPAR.

    :param server_name: The name of the server.
    :param is_running: Whether the server runs.
    :param slots: The slots of the client adapters that have the disk.
    :param has_others: Whether one of these adapters has other storage, too.
    :param path: The path of the disk on the server; empty if it has none.
    """

    server_name: str
    is_running: bool
    slots: frozenset[int]
    has_others: bool
    path: str


class ScsiMappings:
    """The virtual SCSI mappings of Virtual I/O Servers.

    :param adapter: An adapter with a session that has logged on.
    :param management: The management partition, to which storage is lent to
        be read.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        management: management_partition.ManagementPartition,
    ) -> None:
        self._adapter = adapter
        self._management = management

    def attach(
        self,
        server_uuid: str,
        lpar_uuid: str,
        elements: Iterable[Any],
        number: int = 0,
    ) -> bool:
        """Map storage of a server to an LPAR, unless it is mapped already.

        Each element is alone on its client adapter, and other mappings stay
        as they are. It gets the virtual slot that
        :func:`nova_powervm.lpar.storage.virtual_slot` gives it, unless
        another adapter of the LPAR has that already. An adapter there that
        :meth:`unload` has left is used.

        :param server_uuid: Uuid of the server.
        :param lpar_uuid: Upper-case PowerVM uuid.
        :param elements: pypowervm's wrappers of the storage.
        :param number: The number of the server, counted from 0.
        :returns: Whether the server runs; otherwise nothing is mapped.
        """

        def add_missing(server: _Server) -> bool:
            if server.state != _RUNNING:
                return False
            missing = [
                element
                for element in elements
                if not _find(server, lpar_uuid, element)
            ]
            for element, slot in _choose_slots(
                server, lpar_uuid, number, missing
            ):
                self._add(server, lpar_uuid, element, slot)
            return bool(missing)

        action = f'mapping storage to LPAR {lpar_uuid}'
        server = virtual_io_servers.change_mappings(
            self._adapter, server_uuid, action, add_missing
        )
        if server.state == _RUNNING:
            return True
        LOG.warning(
            'Virtual I/O Server %(name)s is %(state)s and maps no storage to '
            'LPAR %(lpar_uuid)s.',
            {
                'name': server.name,
                'state': server.state,
                'lpar_uuid': lpar_uuid,
            },
        )
        return False

    def _add(
        self,
        server: _Server,
        client: str,
        element: Any,
        slot: int | None = None,
    ) -> None:
        """Add a mapping in memory, with an adapter of its own.

        pypowervm's own tasks would use any adapter that exists.
        """
        # bld() moves the element out of the document that it is in.
        element = copy.deepcopy(element)
        empty = _empty_ones(server, client).get(slot)
        if empty is None:
            mapping = _Mapping.bld(
                self._adapter, None, client, element, lpar_slot_num=slot
            )
        else:
            mapping = _Mapping.bld_from_existing(empty, element)
            server.scsi_mappings.remove(empty)
        server.scsi_mappings.append(mapping)

    @rest_errors.retried
    def names(self, lpar_uuid: str, by_all: Collection[str] = ()) -> set[str]:
        """Return the names of the disks and media that are mapped to an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param by_all: Uuids of servers. A disk that one of them does not map
            although it runs is left out; media are on one server only.
        :raises exception.RestError: Nothing is mapped, but a server that does
            not run may have mappings.
        """
        action = f'reading the storage of LPAR {lpar_uuid}'
        with rest_errors.translated(action):
            servers = virtual_io_servers.read_all(self._adapter, XAG)
        names = {
            name
            for server in servers
            for name in _mapped_names(server, lpar_uuid)
        }
        for server in servers:
            if not names and server.state != _RUNNING:
                raise exception.RestError(
                    action=action,
                    reason=f'Virtual I/O Server {server.name} is '
                    f'{server.state}',
                )
        medium = storage.config_drive_name(lpar_uuid)
        for server in servers:
            if server.uuid in by_all and server.state == _RUNNING:
                names &= {medium, *_mapped_names(server, lpar_uuid)}
        return names

    def detach(
        self,
        lpar_uuid: str,
        name: str | None = None,
        *,
        ours_only: bool = False,
    ) -> set[str]:
        """Unmap the disks and media of an LPAR on all servers.

        This includes storage that is lent to the management partition.

        :param lpar_uuid: Upper-case PowerVM uuid; the LPAR may no longer
            exist.
        :param name: Name of the storage; None for all.
        :param ours_only: Whether to leave what the driver has not made.
        :returns: Uuids of the servers that had such mappings.
        """

        def is_doomed(mapping: _Mapping) -> bool:
            return (
                not _is_volume(mapping)
                and (name is None or _is_of(mapping, name))
                and (not ours_only or _is_ours(mapping))
                and (
                    _is_mapped_to(mapping, lpar_uuid)
                    or self._is_lent(mapping, lpar_uuid)
                )
            )

        action = f'unmapping the storage of LPAR {lpar_uuid}'
        removed = self._remove(action, is_doomed)
        return {server.uuid for server, _ in removed}

    def unload(self, lpar_uuid: str, name: str) -> None:
        """Unmap a medium of an LPAR, and leave the adapter that it was on.

        A running guest would have to release the adapter.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param name: Name of the medium.
        """

        def is_medium(element: Any) -> bool:
            return element is not None and (
                storage.base_name(element.name or '') == name
            )

        def detach(server: _Server) -> bool:
            return bool(
                scsi_mapper.detach_storage(server, lpar_uuid, is_medium)
            )

        virtual_io_servers.change_all_mappings(
            self._adapter, f'unloading {name} of LPAR {lpar_uuid}', detach
        )

    def detach_unneeded(
        self, lpar_uuids: Collection[str] | None = None
    ) -> None:
        """Unmap the driver's storage from where nobody needs it.

        An LPAR that is deleted outside of Nova leaves its mappings, without a
        client, and so does an interrupted reading. The storage cannot be
        deleted as long as they exist. Call this only while no LPAR is being
        removed, and no disk is being read.

        :param lpar_uuids: Deleted LPARs, to unmap only what they had; None
            for all storage.
        """

        def is_unneeded(mapping: _Mapping) -> bool:
            if not _is_ours(mapping):
                return False
            if lpar_uuids is not None:
                return not mapping.client_lpar_href and any(
                    storage.belongs_to(mapping.backing_storage.name, uuid)
                    for uuid in lpar_uuids
                )
            return not mapping.client_lpar_href or self._is_lent(mapping)

        for server, mapping in self._remove(
            'unmapping storage that nobody needs', is_unneeded
        ):
            LOG.warning(
                'Unmapped %(name)s on Virtual I/O Server %(server)s: its LPAR '
                'was deleted outside of Nova, or reading it was interrupted.',
                {'name': mapping.backing_storage.name, 'server': server.name},
            )

    def lend(self, server_uuid: str, element: Any) -> int | None:
        """Map storage to the management partition, unless it is mapped there.

        :param server_uuid: Uuid of the server.
        :param element: pypowervm's wrapper of the storage.
        :returns: The slot of the client adapter; None if the server does not
            run, so that nothing was mapped.
        """
        client = self._management.uuid

        def add(server: _Server) -> bool:
            if server.state != _RUNNING or _find(server, client, element):
                return False
            self._add(server, client, element)
            return True

        action = f'mapping {element.name} to the management partition'
        server = virtual_io_servers.change_mappings(
            self._adapter, server_uuid, action, add
        )
        if server.state != _RUNNING:
            return None
        return _slot_of(_find(server, client, element)[0])

    @rest_errors.retried
    def name_of_stopped(self, server_uuid: str) -> str | None:
        """Return the name of a server that does not run; None if it does."""
        action = f'reading the state of VIOS {server_uuid}'
        with rest_errors.translated(action):
            server = _Server.get(self._adapter, uuid=server_uuid)
        return None if server.state == _RUNNING else str(server.name)

    def take_back(self, lpar_uuid: str) -> bool:
        """Unmap storage of an LPAR from the management partition.

        :returns: Whether there was some.
        """
        removed = self._remove(
            f'unmapping the storage of LPAR {lpar_uuid} from the management '
            'partition',
            lambda mapping: self._is_lent(mapping, lpar_uuid),
        )
        return bool(removed)

    @rest_errors.retried
    def connection(
        self, server_uuid: str, lpar_uuid: str, *names: str
    ) -> Connection:
        """Read how a server connects a disk to an LPAR.

        :param names: The names that the disk may have.
        """
        with rest_errors.translated(f'reading the mappings of {names[0]}'):
            server = virtual_io_servers.read(self._adapter, server_uuid, XAG)
        mappings = [
            mapping
            for mapping in server.scsi_mappings
            if mapping.client_adapter is not None
            and _is_mapped_to(mapping, lpar_uuid)
        ]
        of_disk = [mapping for mapping in mappings if _is_of(mapping, *names)]
        slots = frozenset(map(_slot_of, of_disk))
        sharing = [
            mapping for mapping in mappings if _slot_of(mapping) in slots
        ]
        path = of_disk[0].server_adapter.backing_dev_name if of_disk else None
        return Connection(
            server_name=server.name,
            is_running=server.state == _RUNNING,
            slots=slots,
            has_others=len(sharing) > len(of_disk),
            path=path if path and path.startswith('/') else '',
        )

    def check_reconnect(self, lpar_uuid: str, elements: Elements) -> None:
        """Refuse to unmap the storage of an LPAR if some would stay unmapped.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param elements: All storage of the LPAR.
        :raises exception.RestBusy: A server does not run.
        :raises exception.RestError: Mapped storage is not among the elements.
        """
        action = f'connecting the disks of LPAR {lpar_uuid} anew'
        stopped = [*filter(None, map(self.name_of_stopped, elements))]
        if stopped:
            raise exception.RestBusy(
                action=action,
                reason=f'{" and ".join(stopped)}, which serves its disks, does'
                ' not run. Start the Virtual I/O Server, and try again; the '
                'guest was left as it was',
            )
        expected = {
            storage.base_name(element.name)
            for element in itertools.chain.from_iterable(elements.values())
        }
        for name in sorted(self.names(lpar_uuid) - expected):
            if storage.belongs_to(name, lpar_uuid):
                raise exception.RestError(
                    action=action,
                    reason=f'{name} is connected, but not where the options '
                    'of [powervm] say that new disks are made',
                )

    def reconnect(
        self, lpar_uuid: str, elements: Elements, *, rescued: bool
    ) -> None:
        """Connect the storage of an LPAR that is off anew.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param elements: All storage of the LPAR.
        :param rescued: Whether the rescue disk comes first; otherwise it is
            left out.
        :raises exception.RestError: As :meth:`check_reconnect`; nothing was
            changed.
        """
        self.check_reconnect(lpar_uuid, elements)
        # All of it: each disk gets another virtual slot.
        self.detach(lpar_uuid, ours_only=True)
        for number, (server_uuid, stored) in enumerate(elements.items()):
            chosen = [
                element
                for element in stored
                if storage.is_connected(element.name, rescued=rescued)
            ]
            if not self.attach(server_uuid, lpar_uuid, chosen, number):
                raise exception.RestBusy(
                    action=f'connecting the disks of LPAR {lpar_uuid} anew',
                    reason='a Virtual I/O Server has stopped meanwhile',
                )

    def _remove(
        self, action: str, is_doomed: Callable[[_Mapping], bool]
    ) -> list[tuple[_Server, _Mapping]]:
        """Remove mappings on all servers.

        :returns: The servers with the mappings, including those of a try
            whose answer was lost.
        """
        removed: dict[tuple[str | None, ...], tuple[_Server, _Mapping]] = {}

        def remove(server: _Server) -> bool:
            doomed = list(filter(is_doomed, server.scsi_mappings))
            for mapping in doomed:
                server.scsi_mappings.remove(mapping)
                element = mapping.backing_storage
                name = None if element is None else element.name
                client = virtual_io_servers.client_of(mapping)
                # Before the write, whose answer may be lost.
                removed[server.uuid, client, name] = server, mapping
            for mapping in _emptied(server, doomed):
                server.scsi_mappings.remove(mapping)
            return bool(doomed)

        virtual_io_servers.change_all_mappings(self._adapter, action, remove)
        for _, mapping in removed.values():
            if self._is_lent(mapping):
                # Not before the write: a scan would bring the device back.
                adapter = mapping.client_adapter
                slot = adapter and adapter.lpar_slot_num
                self._management.drop(mapping.backing_storage.udid, slot)
        return list(removed.values())

    def _is_lent(
        self, mapping: _Mapping, lpar_uuid: str | None = None
    ) -> bool:
        """Return whether storage of an LPAR is lent for reading.

        :param lpar_uuid: The LPAR; None for any.
        """
        client = virtual_io_servers.client_of(mapping)
        element = mapping.backing_storage
        if not client or element is None or not _is_ours(mapping):
            return False
        if lpar_uuid and not storage.belongs_to(element.name, lpar_uuid):
            return False
        if storage.belongs_to(element.name, client):
            return False
        # Last: this may ask the host for the management partition.
        return bool(client == self._management.uuid.upper())


def _find(server: _Server, client: str, element: Any) -> Any:
    """Return the mappings by which a partition has some storage."""
    return scsi_mapper.find_maps(
        server.scsi_mappings, client, stg_elem=element
    )


def _slot_of(mapping: _Mapping) -> int:
    return int(mapping.client_adapter.lpar_slot_num)


def _mapped_names(server: _Server, lpar_uuid: str) -> Iterator[str]:
    """Yield the names of what a server maps to an LPAR, without volumes."""
    for mapping in server.scsi_mappings:
        if (
            mapping.backing_storage is not None
            and not _is_volume(mapping)
            and _is_mapped_to(mapping, lpar_uuid)
        ):
            yield storage.base_name(mapping.backing_storage.name or '')


def _empty_ones(server: _Server, lpar_uuid: str) -> dict[int | None, _Mapping]:
    """Return the mappings of an LPAR without any storage, by virtual slot."""
    return {
        _slot_of(mapping): mapping
        for mapping in server.scsi_mappings
        if mapping.client_adapter is not None
        and mapping.backing_storage is None
        and virtual_io_servers.client_of(mapping) == lpar_uuid.upper()
    }


def _emptied(server: _Server, gone: Sequence[_Mapping]) -> Iterator[_Mapping]:
    """Yield what :meth:`ScsiMappings.unload` has left of deleted LPARs.

    :param gone: Mappings, some of which may be of deleted LPARs.
    """
    ids = {*map(_former_client, gone)} - {None, pvm_storage.ANY_SLOT}
    for mapping in [*server.scsi_mappings]:
        if mapping.backing_storage is None and _former_client(mapping) in ids:
            yield mapping


def _former_client(mapping: _Mapping) -> int | None:
    """Return the id that the LPAR of an adapter had; None if it has one."""
    adapter = mapping.server_adapter
    if mapping.client_adapter is not None or adapter is None:
        return None
    lpar_id: int | None = adapter.lpar_id
    return lpar_id


def _choose_slots(
    server: _Server, lpar_uuid: str, number: int, elements: Sequence[Any]
) -> Iterator[tuple[Any, int | None]]:
    """Yield storage with the virtual slots to map it at.

    An adapter of an earlier version of the driver, or one that was made by
    hand, may have the slot of a disk: the disk gets the last free one then.
    """
    taken = {
        mapping.client_adapter.lpar_slot_num
        for mapping in server.scsi_mappings
        if mapping.client_adapter is not None
        and _is_mapped_to(mapping, lpar_uuid)
    } - {*_empty_ones(server, lpar_uuid)}
    rescued = any(storage.is_of_rescue(element.name) for element in elements)
    for element in elements:
        name = element.name or ''
        slot = storage.virtual_slot(name, number, rescued=rescued)
        if slot is None or slot in taken:
            others = reversed(storage.virtual_slots(number))
            free = (other for other in others if other not in taken)
            slot = next(free, None)
        taken.add(slot)
        yield element, slot


def _is_mapped_to(mapping: _Mapping, lpar_uuid: str) -> bool:
    """Return whether a mapping belongs to an LPAR, which may be deleted.

    The name of the storage decides only if the mapping has no client: others
    may give their storage any name.
    """
    client = virtual_io_servers.client_of(mapping)
    if client:
        return client == lpar_uuid.upper()
    element = mapping.backing_storage
    return element is not None and storage.belongs_to(
        element.name or '', lpar_uuid
    )


def _is_of(mapping: _Mapping, *names: str) -> bool:
    """Return whether storage with one of the names is mapped."""
    element = mapping.backing_storage
    return element is not None and (
        storage.base_name(element.name or '') in names
    )


def _is_volume(mapping: _Mapping) -> bool:
    """Return whether a physical volume is mapped."""
    return isinstance(mapping.backing_storage, pvm_storage.PV)


def _is_ours(mapping: _Mapping) -> bool:
    """Return whether storage is mapped that the driver has made."""
    element = mapping.backing_storage
    if element is None:
        return False
    name = element.name or ''
    return storage.is_ours(name) or storage.parse_unit_name(name) is not None
