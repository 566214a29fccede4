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

"""The volume groups of the Virtual I/O Server that holds the disks."""

import threading
from collections.abc import Callable

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.powervm import errors

LOG = logging.getLogger(__name__)

_VIOS = virtual_io_server.VIOS


class VolumeGroups:
    """One volume group, and the others of its Virtual I/O Server.

    :param adapter: A logged-on adapter.
    :param name: ``[powervm]volume_group_name``: ``GROUP`` (REST element
        ``GroupName``) or ``VIOS/GROUP``.
    """

    def __init__(self, adapter: pvm_adapter.Adapter, name: str) -> None:
        self._adapter = adapter
        self._name = name
        self._reading = threading.Lock()
        self._changing = threading.Lock()
        self._vios: str | None = None
        self._group: storage.VG | None = None

    @property
    def vios(self) -> str:
        """The uuid of the Virtual I/O Server; looked for once."""
        if self._vios is None:
            self.read()
        assert self._vios is not None  # noqa: S101 - read finds or raises
        return self._vios

    @errors.retried
    def read(self) -> storage.VG:
        """Read the group; an unchanged one costs one conditional request.

        The wrapper is shared: change nothing in it.

        :raises exception.ConfigurationError: There is not exactly one group
            of this name.
        """
        with self._reading, errors.translated(f'reading {self}'):
            try:
                self._group = (
                    self._group.refresh() if self._group else self._find()
                )
            except pvm.HttpNotFound:
                self._group = self._find()
            return self._group

    def all(self) -> list[storage.VG]:
        """Read all groups of the Virtual I/O Server."""
        with errors.translated(f'reading the volume groups beside {self}'):
            return self._of(self.vios)

    @errors.contended
    def change(
        self, edit: Callable[[storage.VG], bool], uuid: str | None = None
    ) -> storage.VG:
        """Change a group as it is now, again if somebody else was faster.

        :param edit: Changes a wrapper and says whether it did.
        :param uuid: Of the group; None for the one of this name.
        :returns: The group as it is afterwards.
        """
        uuid = uuid or self._uuid
        with self._changing, errors.translated(f'changing {self}'):
            group = storage.VG.get(
                self._adapter,
                uuid=uuid,
                parent_type=_VIOS,
                parent_uuid=self.vios,
            )
            return group.update() if edit(group) else group

    @errors.contended
    def change_all(self, edit: Callable[[storage.VG], bool]) -> None:
        """Change all groups of the Virtual I/O Server.

        :param edit: As in :meth:`change`.
        """
        with self._changing:
            for group in self.all():
                if edit(group):
                    with errors.translated(f'changing {group.name}'):
                        group.update()

    @property
    def _uuid(self) -> str:
        group = self._group or self.read()
        return str(group.uuid)

    def _find(self) -> storage.VG:
        server, _, name = self._name.rpartition('/')
        found = [
            (vios, group)
            for vios in _VIOS.get(self._adapter)
            if server in ('', vios.name)
            for group in self._offered(vios)
            if group.name == name
        ]
        if len(found) != 1:
            raise exception.ConfigurationError(reason=self._lost(found))
        vios, group = found[0]
        self._vios = vios.uuid
        return group

    def _offered(self, vios: virtual_io_server.VIOS) -> list[storage.VG]:
        try:
            return self._of(vios.uuid)
        except pvm.HttpError as error:
            LOG.warning(
                'Virtual I/O Server %(name)s does not tell its volume '
                'groups: %(error)s',
                {'name': vios.name, 'error': error},
            )
            return []

    def _of(self, vios: str) -> list[storage.VG]:
        groups = storage.VG.get(
            self._adapter, parent_type=_VIOS, parent_uuid=vios
        )
        return list(groups)

    def _lost(
        self, found: list[tuple[virtual_io_server.VIOS, storage.VG]]
    ) -> str:
        option = f"[powervm]volume_group_name = '{self._name}'"
        if found:
            names = ', '.join(f'{vios.name}/{vg.name}' for vios, vg in found)
            return (
                f'{option}: several Virtual I/O Servers have a volume group '
                f'of this name. Say which: {names}'
            )
        return (
            f'{option}: no Virtual I/O Server of the host has a volume group '
            'of this name, or the one that has it is not running. `pvmctl vg '
            'list` shows those that there are.'
        )

    def __str__(self) -> str:
        return f'volume group {self._name}'
