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

import contextlib
import copy
import math
import threading
from collections.abc import Callable

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.powervm import rest_errors
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
        with rest_errors.translated(
            f'reading the volume groups of VIOS {vios}'
        ):
            return self._read_groups(vios)

    @rest_errors.retried_on_conflict
    def change(
        self, edit: Callable[[storage.VG], bool], uuid: str | None = None
    ) -> storage.VG:
        """Change a group, and repeat the change if somebody else was faster.

        :param edit: Changes a wrapper and returns whether it did.
        :param uuid: Uuid of the group.
        :returns: The group after the change.
        """
        with self._changing, rest_errors.translated(f'changing group {uuid}'):
            group = storage.VG.get(
                self._adapter,
                uuid=uuid,
                parent_type=_VIOS,
                parent_uuid=self.vios,
            )
            return self._update(group) if edit(group) else group

    @rest_errors.retried_on_conflict
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
                    with rest_errors.translated(f'changing {group.name}'):
                        self._update(group)

    def _update(self, group: storage.VG) -> storage.VG:
        """Send a changed group, with a time limit that pypowervm lacks."""
        return group.update(timeout=session.ANSWER_SECONDS)

    def _read_groups(self, vios: str) -> list[storage.VG]:
        groups = storage.VG.get(
            self._adapter, parent_type=_VIOS, parent_uuid=vios
        )
        return list(groups)


LOG = logging.getLogger(__name__)

_VIOS = virtual_io_server.VIOS


class VolumeGroups(ServerGroups):
    """A volume group, and the other groups of its Virtual I/O Server.

    :param adapter: An adapter with a session that has logged on.
    :param name: ``[powervm]volume_group_name``: ``GROUP`` (REST element
        ``GroupName``) or ``VIOS/GROUP``.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        name: str,
    ) -> None:
        super().__init__(adapter, self._look_up_vios)
        self._name = name
        self._reading = threading.Lock()
        self._vios: str | None = None
        self._group: storage.VG | None = None
        # The host's answer to the last change.
        self._answered: storage.VG | None = None

    def _look_up_vios(self) -> str:
        """Return the uuid of the Virtual I/O Server, reading it once."""
        if self._vios is None:
            self.read()
        assert self._vios is not None  # noqa: S101 - read finds or raises
        return self._vios

    @rest_errors.retried
    def read(self) -> storage.VG:
        """Read the group, with one conditional request if it is unchanged.

        The wrapper is shared and must not be changed.

        :raises exception.ConfigurationError: There is not exactly one group
            of this name.
        """
        with self._reading, rest_errors.translated(f'reading {self}'):
            self._group = self._fetch()
            return self._group

    def _fetch(self) -> storage.VG:
        """Refresh the group, or find it."""
        try:
            group = (
                self._group.refresh(use_etag=True)
                if self._group
                else self._find()
            )
        except pvm.HttpNotFound:
            group = self._find()
        if group.capacity is None or group.available_size is None:
            raise exception.RestBusy(
                action=f'reading {self}', reason='it does not report its size'
            )
        return group

    @rest_errors.retried_on_conflict
    def change(
        self, edit: Callable[[storage.VG], bool], uuid: str | None = None
    ) -> storage.VG:
        """Change a group, and repeat the change if somebody else was faster.

        The first try is based on the host's answer to the last change, which
        saves a request if its ETag is still current.

        :param edit: Changes a wrapper and returns whether it did. If it
            changes nothing, or raises an error, it is called again with a
            fresh reading.
        :param uuid: Uuid of the group; None for the configured one.
        :returns: The group after the change.
        """
        uuid = uuid or self._uuid
        with self._changing, rest_errors.translated(f'changing {self}'):
            known = self._answered
            if known is not None and known.uuid == uuid:
                self._answered = None
                with contextlib.suppress(_OutdatedError, pvm.HttpNotFound):
                    return self._update(_attempt(known, edit))
            group = self._get(uuid)
            return self._update(group) if edit(group) else group

    def _get(self, uuid: str) -> storage.VG:
        try:
            return storage.VG.get(
                self._adapter,
                uuid=uuid,
                parent_type=_VIOS,
                parent_uuid=self.vios,
            )
        except pvm.HttpNotFound as error:
            self._forget()
            raise exception.RestBusy(
                action=f'changing {self}', reason='it was recreated'
            ) from error

    def _update(self, group: storage.VG) -> storage.VG:
        """Send a changed group, with a time limit that pypowervm lacks.

        The answer for the configured group is copied and kept: changes that
        callers make to its disks must not be part of the next update.
        """
        answer = super()._update(group)
        if answer.uuid == self._uuid:
            self._answered = storage.VG.wrap(
                copy.deepcopy(answer.entry), etag=answer.etag
            )
        return answer

    @property
    def unit_gb(self) -> float:
        """The allocation unit of the group's disks, which stays the same."""
        return unit_gb(self._group or self.read())

    @property
    def _uuid(self) -> str:
        group = self._group or self.read()
        return str(group.uuid)

    def _forget(self) -> None:
        with self._reading:
            self._group = None
            self._vios = None

    def _find(self) -> storage.VG:
        server, _, name = self._name.rpartition('/')
        found = []
        silent = None
        for vios in _VIOS.get(self._adapter):
            if server not in ('', vios.name):
                continue
            try:
                groups = self._read_groups(vios.uuid)
            except pvm.HttpError as error:
                # Another server may have the group.
                LOG.warning(
                    'Virtual I/O Server %(name)s does not report its '
                    'volume groups: %(error)s',
                    {'name': vios.name, 'error': error},
                )
                silent = error
            else:
                found += [(vios, g) for g in groups if g.name == name]
        if not found and silent is not None:
            # The server may still be booting, like the NovaLink partition.
            raise exception.RestBusy(
                action=f'looking for {self}', reason=silent
            )
        if len(found) != 1:
            raise exception.ConfigurationError(reason=self._not_found(found))
        vios, group = found[0]
        self._vios = vios.uuid
        return group

    def _not_found(
        self, found: list[tuple[virtual_io_server.VIOS, storage.VG]]
    ) -> str:
        option = f"[powervm]volume_group_name = '{self._name}'"
        if found:
            names = ', '.join(f'{vios.name}/{vg.name}' for vios, vg in found)
            return (
                f'{option}: several Virtual I/O Servers have a volume group '
                f'of this name. Specify one of: {names}'
            )
        return (
            f'{option}: no Virtual I/O Server of the host has a volume group '
            'of this name, or the one that has it is not running. `pvmctl vg '
            'list` shows the existing groups.'
        )

    def __str__(self) -> str:
        return f'volume group {self._name}'


def unit_gb(group: storage.VG) -> float:
    """Return the allocation unit of a group's disks.

    Disk sizes are multiples of it. pypowervm does not support the element
    ``MinimumAllocationSize``.

    :returns: GB; 0 if the host does not report it.
    """
    text = group.element.findtext('MinimumAllocationSize')
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def rounded(group: storage.VG, size_gb: float) -> float:
    """Return the size in GB that a disk of a wanted size gets."""
    unit = unit_gb(group)
    return math.ceil(size_gb / unit) * unit if unit else size_gb


def _attempt(
    group: storage.VG, edit: Callable[[storage.VG], bool]
) -> storage.VG:
    """Apply an edit to a wrapper that may be outdated.

    :raises _OutdatedError: The edit changed nothing or failed.
    """
    try:
        is_changed = edit(group)
    except Exception as error:
        # Any error may stem from outdated data; a fresh reading decides.
        raise _OutdatedError from error
    if not is_changed:
        raise _OutdatedError
    return group


class _OutdatedError(Exception):
    """An edit does not fit the cached state of a group."""
