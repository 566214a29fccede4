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

import threading
from collections.abc import Iterable
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm import util
from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import virtual_io_server

from nova_powervm.instance import storage
from nova_powervm.powervm import errors
from nova_powervm.powervm import session

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

    @errors.retried_on_conflict
    def attach(self, vios: str, lpar: str, elements: Iterable[Any]) -> None:
        """Map storage of a VIOS to an LPAR, unless it is mapped already.

        :param vios: Uuid of the server.
        :param lpar: Upper-case PowerVM uuid.
        :param elements: pypowervm's wrappers of the storage.
        """
        action = f'mapping storage to LPAR {lpar}'
        with self._changing, errors.translated(action):
            server = self._read(vios)
            wanted = [
                scsi_mapper.build_vscsi_mapping(None, server, lpar, element)
                for element in elements
            ]
            if any([scsi_mapper.add_map(server, new) for new in wanted]):
                server.update(timeout=session.ANSWER_SECONDS)

    def detach(self, lpar: str) -> set[str]:
        """Unmap all storage of an LPAR on all servers, if there is any.

        :param lpar: Upper-case PowerVM uuid; the LPAR may no longer exist.
        :returns: Uuids of the servers that had mappings of it.
        """
        found: set[str] = set()
        self._detach(lpar, found)
        return found

    @errors.retried_on_conflict
    def _detach(self, lpar: str, found: set[str]) -> None:
        action = f'unmapping the storage of LPAR {lpar}'
        with self._changing, errors.translated(action):
            for server in _VIOS.get(self._adapter, xag=[const.XAG.VIO_SMAP]):
                doomed = [
                    mapping
                    for mapping in server.scsi_mappings
                    if _is_mapped_to(mapping, lpar)
                ]
                for mapping in doomed:
                    server.scsi_mappings.remove(mapping)
                if doomed:
                    # Before the write, whose answer may be lost.
                    found.add(server.uuid)
                    server.update(timeout=session.ANSWER_SECONDS)

    def _read(self, vios: str) -> virtual_io_server.VIOS:
        return _VIOS.get(self._adapter, uuid=vios, xag=[const.XAG.VIO_SMAP])


def _is_mapped_to(mapping: virtual_io_server.VSCSIMapping, lpar: str) -> bool:
    """Return whether a mapping belongs to an LPAR, which may be deleted."""
    client = util.get_req_path_uuid(mapping.client_lpar_href or '')
    if client and client.upper() == lpar.upper():
        return True
    element = mapping.backing_storage
    return element is not None and storage.belongs_to(element.name or '', lpar)
