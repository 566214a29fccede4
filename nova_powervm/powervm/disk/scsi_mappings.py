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

"""Virtual SCSI mappings: which LPAR sees which storage."""

import copy
import threading
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm import util
from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session

LOG = logging.getLogger(__name__)

_VIOS = virtual_io_server.VIOS


class ScsiMappings:
    """The virtual SCSI mappings of Virtual I/O Servers.

    All mappings of a server are in one document, so every change writes all of
    them, with the document's ETag, and is repeated if this is outdated.

    :param adapter: An adapter with a session that has logged on.
    """

    def __init__(self, adapter: pvm_adapter.Adapter) -> None:
        self._adapter = adapter
        # Prevents conflicts between the threads of this service.
        self._changing = threading.Lock()

    @rest_errors.retried_on_conflict
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
        action = f'mapping storage to LPAR {lpar_uuid}'
        with self._changing, rest_errors.translated(action):
            server = self._read(vios)
            if server.state != bp.LPARState.RUNNING:
                LOG.warning(
                    'Virtual I/O Server %(name)s is %(state)s and maps no '
                    'storage to LPAR %(lpar_uuid)s.',
                    {
                        'name': server.name,
                        'state': server.state,
                        'lpar_uuid': lpar_uuid,
                    },
                )
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
            if missing:
                server.update(timeout=session.ANSWER_SECONDS)
            return True

    @rest_errors.retried
    def names(self, lpar_uuid: str, by_all: Collection[str] = ()) -> set[str]:
        """Return the names of the storage that is mapped to an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param by_all: Uuids of servers. A disk that one of them does not map
            although it runs is left out; media are on one server only.
        :raises exception.RestError: None was found, but a server that does
            not run may have some.
        """
        action = f'reading the storage of LPAR {lpar_uuid}'
        with rest_errors.translated(action):
            servers = _VIOS.get(self._adapter, xag=[const.XAG.VIO_SMAP])
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

    def detach(self, lpar_uuid: str, name: str | None = None) -> set[str]:
        """Unmap storage of an LPAR on all servers, if there is any.

        :param lpar_uuid: Upper-case PowerVM uuid; the LPAR may no longer
            exist.
        :param name: Name of the storage; None for all.
        :returns: Uuids of the servers that had such mappings.
        """
        found: set[str] = set()
        self._detach(lpar_uuid, name, found)
        return found

    @rest_errors.retried_on_conflict
    def _detach(
        self, lpar_uuid: str, name: str | None, found: set[str]
    ) -> None:
        action = f'unmapping the storage of LPAR {lpar_uuid}'
        with self._changing, rest_errors.translated(action):
            for server in _VIOS.get(self._adapter, xag=[const.XAG.VIO_SMAP]):
                doomed = [
                    mapping
                    for mapping in server.scsi_mappings
                    if _is_mapped_to(mapping, lpar_uuid)
                    and (name is None or _is_of(mapping, name))
                ]
                for mapping in doomed:
                    server.scsi_mappings.remove(mapping)
                if doomed:
                    # Before the write, whose answer may be lost.
                    found.add(server.uuid)
                    server.update(timeout=session.ANSWER_SECONDS)

    @rest_errors.retried_on_conflict
    def detach_deleted(self) -> None:
        """Unmap the driver's storage from LPARs that do not exist any more.

        Whoever deletes an LPAR outside of Nova leaves its mappings, without a
        client, and the storage cannot be deleted as long as they exist. Call
        this only while no LPAR is being removed.
        """
        action = 'unmapping the storage of deleted LPARs'
        with self._changing, rest_errors.translated(action):
            for server in _VIOS.get(self._adapter, xag=[const.XAG.VIO_SMAP]):
                doomed = [
                    mapping
                    for mapping in server.scsi_mappings
                    if not mapping.client_lpar_href and _is_ours(mapping)
                ]
                for mapping in doomed:
                    LOG.warning(
                        'Unmapping %(name)s on Virtual I/O Server '
                        '%(server)s: its LPAR was deleted outside of Nova.',
                        {
                            'name': mapping.backing_storage.name,
                            'server': server.name,
                        },
                    )
                    server.scsi_mappings.remove(mapping)
                if doomed:
                    server.update(timeout=session.ANSWER_SECONDS)

    def _read(self, vios: str) -> virtual_io_server.VIOS:
        return _VIOS.get(self._adapter, uuid=vios, xag=[const.XAG.VIO_SMAP])


def _mapped_names(
    server: virtual_io_server.VIOS, lpar_uuid: str
) -> Iterator[str]:
    """Yield the names of the storage that a server maps to an LPAR."""
    for mapping in server.scsi_mappings:
        if mapping.backing_storage is not None and _is_mapped_to(
            mapping, lpar_uuid
        ):
            yield storage.base_name(mapping.backing_storage.name or '')


def _choose_slots(
    server: virtual_io_server.VIOS,
    lpar_uuid: str,
    number: int,
    elements: Iterable[Any],
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
    for element in elements:
        slot = storage.virtual_slot(element.name or '', number)
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
    client = util.get_req_path_uuid(mapping.client_lpar_href or '')
    if client:
        return bool(client.upper() == lpar_uuid.upper())
    element = mapping.backing_storage
    return element is not None and storage.belongs_to(
        element.name or '', lpar_uuid
    )


def _is_of(mapping: virtual_io_server.VSCSIMapping, name: str) -> bool:
    """Return whether storage with a name is mapped."""
    element = mapping.backing_storage
    return element is not None and (
        storage.base_name(element.name or '') == name
    )


def _is_ours(mapping: virtual_io_server.VSCSIMapping) -> bool:
    """Return whether storage is mapped that the driver has made."""
    element = mapping.backing_storage
    if element is None:
        return False
    name = element.name or ''
    return storage.is_ours(name) or storage.parse_unit_name(name) is not None
