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
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

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

_VIOS = virtual_io_server.VIOS
_XAG = (const.XAG.VIO_SMAP,)
#: A server, and a mapping that it had.
_Removed = tuple[virtual_io_server.VIOS, virtual_io_server.VSCSIMapping]


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """How a Virtual I/O Server connects a disk to an LPAR.

    :param server: The name of the server.
    :param is_running: Whether the server runs.
    :param slots: The slots of the client adapters that have the disk.
    :param has_others: Whether one of these adapters has other storage, too.
    :param path: The path of the disk on the server; empty if it has none.
    """

    server: str
    is_running: bool
    slots: frozenset[int]
    has_others: bool
    path: str


class ScsiMappings:
    """The virtual SCSI mappings of Virtual I/O Servers.

    :param adapter: An adapter with a session that has logged on.
    :param management: The management partition, to which storage of LPARs is
        lent that is being read.
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
        vios: str,
        lpar_uuid: str,
        elements: Iterable[Any],
        number: int = 0,
    ) -> bool:
        """Map storage of a VIOS to an LPAR, unless it is mapped already.

        Each element is alone on its client adapter, and other mappings stay
        as they are. It gets the virtual slot that
        :func:`nova_powervm.lpar.storage.virtual_slot` gives it, unless
        another adapter of the LPAR has that already.

        :param vios: Uuid of the server.
        :param lpar_uuid: Upper-case PowerVM uuid.
        :param elements: pypowervm's wrappers of the storage.
        :param number: Which of several servers this is, counted from 0.
        :returns: Whether the server runs; otherwise nothing is mapped.
        """

        def add_missing(server: virtual_io_server.VIOS) -> bool:
            if server.state != bp.LPARState.RUNNING:
                return False
            missing = [
                element
                for element in elements
                if not scsi_mapper.find_maps(
                    server.scsi_mappings, lpar_uuid, stg_elem=element
                )
            ]
            # pypowervm's own tasks would put it on an adapter that is there,
            # and bld() moves the element out of the document that it is in.
            server.scsi_mappings.extend(
                virtual_io_server.VSCSIMapping.bld(
                    self._adapter,
                    None,
                    lpar_uuid,
                    copy.deepcopy(element),
                    lpar_slot_num=slot,
                )
                for element, slot in _choose_slots(
                    server, lpar_uuid, number, missing
                )
            )
            return bool(missing)

        server = virtual_io_servers.change_mappings(
            self._adapter,
            vios,
            f'mapping storage to LPAR {lpar_uuid}',
            add_missing,
        )
        if server.state == bp.LPARState.RUNNING:
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

    @rest_errors.retried
    def names(self, lpar_uuid: str, by_all: Collection[str] = ()) -> set[str]:
        """Return the names of the disks and media that are mapped to an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param by_all: Uuids of servers. A disk that one of them does not map
            although it runs is left out; media are on one server only.
        :raises exception.RestError: None was found, but a server that does
            not run may have some.
        """
        action = f'reading the storage of LPAR {lpar_uuid}'
        with rest_errors.translated(action):
            servers = virtual_io_servers.read_all(self._adapter, _XAG)
        found = {
            name
            for server in servers
            for name in _mapped_names(server, lpar_uuid)
        }
        for server in servers:
            if not found and server.state != bp.LPARState.RUNNING:
                raise exception.RestError(
                    action=action,
                    reason=f'Virtual I/O Server {server.name} is '
                    f'{server.state}',
                )
        medium = storage.config_drive_name(lpar_uuid)
        for server in servers:
            if server.uuid in by_all and server.state == bp.LPARState.RUNNING:
                found &= {medium, *_mapped_names(server, lpar_uuid)}
        return found

    def detach(
        self,
        lpar_uuid: str,
        name: str | None = None,
        *,
        ours_only: bool = False,
    ) -> set[str]:
        """Unmap disks and media of an LPAR on all servers, if there are any.

        This includes storage that is lent to the management partition.

        :param lpar_uuid: Upper-case PowerVM uuid; the LPAR may no longer
            exist.
        :param name: Name of the storage; None for all.
        :param ours_only: Whether to leave what the driver has not made.
        :returns: Uuids of the servers that had such mappings.
        """
        removed = self._remove(
            f'unmapping the storage of LPAR {lpar_uuid}',
            lambda mapping: (
                not _is_volume(mapping)
                and (name is None or _is_of(mapping, name))
                and (not ours_only or _is_ours(mapping))
                and (
                    _is_mapped_to(mapping, lpar_uuid)
                    or self._is_lent(mapping, lpar_uuid)
                )
            ),
        )
        return {server.uuid for server, _ in removed}

    def detach_unneeded(
        self, lpar_uuids: Collection[str] | None = None
    ) -> None:
        """Unmap the driver's storage from where nobody needs it.

        Whoever deletes an LPAR outside of Nova leaves its mappings, without a
        client, and the storage cannot be deleted as long as they exist. So
        does an interrupted reading. Call this only while no LPAR is being
        removed, and no disk is being read.

        :param lpar_uuids: Only what these deleted LPARs had; None for
            everything.
        """

        def is_unneeded(mapping: virtual_io_server.VSCSIMapping) -> bool:
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
                {
                    'name': mapping.backing_storage.name,
                    'server': server.name,
                },
            )

    def lend(self, vios: str, element: Any) -> int | None:
        """Map storage to the management partition, unless it is mapped there.

        :param vios: Uuid of the server.
        :param element: pypowervm's wrapper of the storage.
        :returns: The slot of the client adapter; None if the server does not
            run, so that nothing was mapped.
        """
        client = self._management.uuid

        def found_in(server: virtual_io_server.VIOS) -> Any:
            return scsi_mapper.find_maps(
                server.scsi_mappings, client, stg_elem=element
            )

        def add(server: virtual_io_server.VIOS) -> bool:
            if server.state != bp.LPARState.RUNNING or found_in(server):
                return False
            server.scsi_mappings.append(
                virtual_io_server.VSCSIMapping.bld(
                    self._adapter, None, client, copy.deepcopy(element)
                )
            )
            return True

        server = virtual_io_servers.change_mappings(
            self._adapter,
            vios,
            f'mapping {element.name} to the management partition',
            add,
        )
        if server.state != bp.LPARState.RUNNING:
            return None
        return int(found_in(server)[0].client_adapter.lpar_slot_num)

    @rest_errors.retried
    def name_of_stopped(self, vios: str) -> str | None:
        """Return the name of a server that does not run; None if it does."""
        with rest_errors.translated(f'reading the state of VIOS {vios}'):
            found = _VIOS.get(self._adapter, uuid=vios)
        if found.state == bp.LPARState.RUNNING:
            return None
        return str(found.name)

    def take_back(self, lpar_uuid: str) -> bool:
        """Unmap storage of an LPAR from the management partition.

        :returns: Whether there was some.
        """
        return bool(
            self._remove(
                f'unmapping the storage of LPAR {lpar_uuid} from the '
                'management partition',
                lambda mapping: self._is_lent(mapping, lpar_uuid),
            )
        )

    @rest_errors.retried
    def connection(self, vios: str, lpar_uuid: str, *names: str) -> Connection:
        """Read how a server connects a disk to an LPAR.

        :param names: The names that the disk may have.
        """
        with rest_errors.translated(f'reading the mappings of {names[0]}'):
            server = virtual_io_servers.read(self._adapter, vios, _XAG)
        mappings = [
            mapping
            for mapping in server.scsi_mappings
            if mapping.client_adapter is not None
            and _is_mapped_to(mapping, lpar_uuid)
        ]
        found = [mapping for mapping in mappings if _is_of(mapping, *names)]
        slots = [mapping.client_adapter.lpar_slot_num for mapping in mappings]
        own = frozenset(one.client_adapter.lpar_slot_num for one in found)
        path = found[0].server_adapter.backing_dev_name if found else None
        return Connection(
            server=server.name,
            is_running=server.state == bp.LPARState.RUNNING,
            slots=own,
            has_others=sum(slot in own for slot in slots) > len(found),
            path=path if path and path.startswith('/') else '',
        )

    def _remove(
        self,
        action: str,
        is_doomed: Callable[[virtual_io_server.VSCSIMapping], bool],
    ) -> list[_Removed]:
        """Remove mappings on all servers.

        :returns: The servers with the mappings, including those of a try
            whose answer was lost.
        """
        removed: dict[tuple[str, str | None], _Removed] = {}

        def remove(server: virtual_io_server.VIOS) -> bool:
            doomed = list(filter(is_doomed, server.scsi_mappings))
            for mapping in doomed:
                server.scsi_mappings.remove(mapping)
                element = mapping.backing_storage
                name = None if element is None else element.name
                # Before the write, whose answer may be lost.
                removed[server.uuid, name] = server, mapping
            return bool(doomed)

        virtual_io_servers.change_all_mappings(self._adapter, action, remove)
        for _, mapping in removed.values():
            if self._is_lent(mapping):
                # Never before: a scan would bring it back.
                client = mapping.client_adapter
                self._management.drop(
                    mapping.backing_storage.udid,
                    client and client.lpar_slot_num,
                )
        return list(removed.values())

    def _is_lent(
        self,
        mapping: virtual_io_server.VSCSIMapping,
        lpar_uuid: str | None = None,
    ) -> bool:
        """Return whether storage of an LPAR is lent for reading.

        :param lpar_uuid: The LPAR; None for any. Which partition is the
            management partition is only asked if it may be the client.
        """
        client = virtual_io_servers.client_of(mapping)
        element = mapping.backing_storage
        if not client or element is None or not _is_ours(mapping):
            return False
        if lpar_uuid and not storage.belongs_to(element.name, lpar_uuid):
            return False
        if storage.belongs_to(element.name, client):
            return False
        return bool(client == self._management.uuid.upper())


def _mapped_names(
    server: virtual_io_server.VIOS, lpar_uuid: str
) -> Iterator[str]:
    """Yield the names of what a server maps to an LPAR, without volumes."""
    for mapping in server.scsi_mappings:
        if (
            mapping.backing_storage is not None
            and not _is_volume(mapping)
            and _is_mapped_to(mapping, lpar_uuid)
        ):
            yield storage.base_name(mapping.backing_storage.name or '')


def _choose_slots(
    server: virtual_io_server.VIOS,
    lpar_uuid: str,
    number: int,
    elements: Sequence[Any],
) -> Iterator[tuple[Any, int | None]]:
    """Yield storage with the virtual slots to map it at.

    An adapter of an earlier version of the driver, or one that was made by
    hand, may have the slot of another disk: then that gets the last free one.
    """
    taken = {
        mapping.client_adapter.lpar_slot_num
        for mapping in server.scsi_mappings
        if mapping.client_adapter is not None
        and _is_mapped_to(mapping, lpar_uuid)
    }
    rescued = any(storage.is_of_rescue(element.name) for element in elements)
    for element in elements:
        slot = storage.virtual_slot(
            element.name or '', number, rescued=rescued
        )
        if slot is None or slot in taken:
            others = reversed(storage.virtual_slots(number))
            slot = next(
                (other for other in others if other not in taken), None
            )
        taken.add(slot)
        yield element, slot


def _is_mapped_to(
    mapping: virtual_io_server.VSCSIMapping, lpar_uuid: str
) -> bool:
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


def _is_of(mapping: virtual_io_server.VSCSIMapping, *names: str) -> bool:
    """Return whether storage with one of the names is mapped."""
    element = mapping.backing_storage
    return element is not None and (
        storage.base_name(element.name or '') in names
    )


def _is_volume(mapping: virtual_io_server.VSCSIMapping) -> bool:
    """Return whether a physical volume is mapped."""
    return isinstance(mapping.backing_storage, pvm_storage.PV)


def _is_ours(mapping: virtual_io_server.VSCSIMapping) -> bool:
    """Return whether storage is mapped that the driver has made."""
    element = mapping.backing_storage
    if element is None:
        return False
    name = element.name or ''
    return storage.is_ours(name) or storage.parse_unit_name(name) is not None


#: Uuid of each server -> pypowervm's wrappers of what it has of an LPAR.
Elements = Mapping[str, Sequence[Any]]


def check(mappings: ScsiMappings, elements: Elements, lpar_uuid: str) -> None:
    """Refuse to unmap what could not be mapped again.

    :param elements: All storage of the LPAR.
    :param lpar_uuid: Upper-case PowerVM uuid.
    :raises exception.RestBusy: A server does not run.
    :raises exception.RestError: Some storage was not found.
    """
    action = f'connecting the disks of LPAR {lpar_uuid} anew'
    stopped = [*filter(None, map(mappings.name_of_stopped, elements))]
    if stopped:
        raise exception.RestBusy(
            action=action,
            reason=f'{" and ".join(stopped)}, which serves its disks, does not'
            ' run. Start the Virtual I/O Server, and try again; the guest was '
            'left as it was',
        )
    found = {
        storage.base_name(element.name)
        for present in elements.values()
        for element in present
    }
    for name in sorted(mappings.names(lpar_uuid) - found):
        if storage.belongs_to(name, lpar_uuid):
            raise exception.RestError(
                action=action,
                reason=f'{name} is connected, but not where the options of '
                '[powervm] say that new disks are made',
            )


def reconnect(
    mappings: ScsiMappings,
    elements: Elements,
    lpar_uuid: str,
    *,
    rescued: bool,
) -> None:
    """Connect the storage of an LPAR that is off anew.

    :param elements: All storage of the LPAR.
    :param lpar_uuid: Upper-case PowerVM uuid.
    :param rescued: Whether the rescue disk comes first; otherwise it is left
        out.
    :raises exception.RestError: As :func:`check`; nothing was changed.
    """
    check(mappings, elements, lpar_uuid)
    # All of it: each disk gets another virtual slot.
    mappings.detach(lpar_uuid, ours_only=True)
    for number, (server, present) in enumerate(elements.items()):
        chosen = [
            element
            for element in present
            if storage.is_connected(element.name, rescued=rescued)
        ]
        if not mappings.attach(server, lpar_uuid, chosen, number):
            raise exception.RestBusy(
                action=f'connecting the disks of LPAR {lpar_uuid} anew',
                reason='a Virtual I/O Server has stopped meanwhile',
            )
