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

"""The volume groups of a Virtual I/O Server."""

import threading
from collections.abc import Callable

from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm.powervm import errors
from nova_powervm.powervm import session

_VIOS = virtual_io_server.VIOS


class ServerGroups:
    """All volume groups of the Virtual I/O Server that has the media.

    :param adapter: An adapter with a session that has logged on.
    :param find_vios: Returns the uuid of the server.
    """

    def __init__(
        self, adapter: pvm_adapter.Adapter, find_vios: Callable[[], str]
    ) -> None:
        self._adapter = adapter
        self._find_vios = find_vios
        self._changing = threading.Lock()

    @property
    def vios(self) -> str:
        """The uuid of the Virtual I/O Server."""
        return self._find_vios()

    def all(self, vios: str | None = None) -> list[storage.VG]:
        """Read all groups of a Virtual I/O Server.

        :param vios: Its uuid; None for :attr:`vios`.
        """
        vios = vios or self.vios
        with errors.translated(f'reading the volume groups of VIOS {vios}'):
            return self._read_groups(vios)

    @errors.retried_on_conflict
    def change(
        self, edit: Callable[[storage.VG], bool], uuid: str | None = None
    ) -> storage.VG:
        """Change a group, and repeat the change if somebody else was faster.

        :param edit: Changes a wrapper and returns whether it did.
        :param uuid: Uuid of the group.
        :returns: The group after the change.
        """
        with self._changing, errors.translated(f'changing group {uuid}'):
            group = storage.VG.get(
                self._adapter,
                uuid=uuid,
                parent_type=_VIOS,
                parent_uuid=self.vios,
            )
            return self._update(group) if edit(group) else group

    @errors.retried_on_conflict
    def change_all(
        self, edit: Callable[[storage.VG], bool], vios: str | None = None
    ) -> None:
        """Change all groups of a Virtual I/O Server.

        :param edit: As in :meth:`change`.
        :param vios: As in :meth:`all`.
        """
        with self._changing:
            for group in self.all(vios):
                if edit(group):
                    with errors.translated(f'changing {group.name}'):
                        self._update(group)

    def _update(self, group: storage.VG) -> storage.VG:
        """Send a changed group, with a time limit that pypowervm lacks."""
        return group.update(timeout=session.ANSWER_SECONDS)

    def _read_groups(self, vios: str) -> list[storage.VG]:
        groups = storage.VG.get(
            self._adapter, parent_type=_VIOS, parent_uuid=vios
        )
        return list(groups)
