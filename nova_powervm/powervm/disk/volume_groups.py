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

"""The volume groups of a Virtual I/O Server: their disks, media and space."""

import contextlib
import copy
import math
import threading
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import storage
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session

LOG = logging.getLogger(__name__)

#: Changes the wrapper of a volume group, and returns whether it did. It is
#: called again with each new reading.
Edit = Callable[[pvm_storage.VG], bool]

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

    def all(self, vios: str | None = None) -> list[pvm_storage.VG]:
        """Read all groups of a Virtual I/O Server.

        :param vios: Its uuid; None for :attr:`vios`.
        """
        vios = vios or self.vios
        action = f'reading the volume groups of VIOS {vios}'
        with rest_errors.translated(action):
            return self._read_groups(vios)

    @rest_errors.retried_on_conflict
    def change(self, edit: Edit, uuid: str | None = None) -> pvm_storage.VG:
        """Change a group, and repeat the change if somebody else was faster.

        :param uuid: Uuid of the group.
        :returns: The group after the change.
        """
        with self._changing, rest_errors.translated(f'changing group {uuid}'):
            group = self._get(uuid)
            return self._update(group) if edit(group) else group

    def _get(self, uuid: str | None) -> pvm_storage.VG:
        return pvm_storage.VG.get(
            self._adapter, uuid=uuid, parent_type=_VIOS, parent_uuid=self.vios
        )

    @rest_errors.retried_on_conflict
    def change_all(self, edit: Edit, vios: str | None = None) -> None:
        """Change all groups of a Virtual I/O Server.

        :param vios: As in :meth:`all`.
        """
        with self._changing:
            for group in self.all(vios):
                if edit(group):
                    with rest_errors.translated(f'changing {group.name}'):
                        self._update(group)

    def _update(self, group: pvm_storage.VG) -> pvm_storage.VG:
        """Send a changed group, with a time limit that pypowervm lacks."""
        return group.update(timeout=session.ANSWER_SECONDS)

    def _read_groups(self, vios: str) -> list[pvm_storage.VG]:
        groups = pvm_storage.VG.get(
            self._adapter, parent_type=_VIOS, parent_uuid=vios
        )
        return list(groups)


class VolumeGroups(ServerGroups):
    """A volume group, and the other groups of its Virtual I/O Server.

    :param adapter: An adapter with a session that has logged on.
    :param name: ``[powervm]volume_group_name``: ``GROUP`` (REST element
        ``GroupName``) or ``VIOS/GROUP``.
    """

    def __init__(self, adapter: pvm_adapter.Adapter, name: str) -> None:
        super().__init__(adapter, self._look_up_vios)
        self._name = name
        self._reading = threading.Lock()
        self._vios: str | None = None
        self._group: pvm_storage.VG | None = None
        # The host's answer to the last change.
        self._answered: pvm_storage.VG | None = None

    def _look_up_vios(self) -> str:
        """Return the uuid of the Virtual I/O Server, reading it once."""
        if self._vios is None:
            self.read()
        assert self._vios is not None  # noqa: S101 - read finds or raises
        return self._vios

    @rest_errors.retried
    def read(self) -> pvm_storage.VG:
        """Read the group, with one conditional request if it is unchanged.

        The wrapper is shared and must not be changed.

        :raises exception.ConfigurationError: There is not exactly one group
            of this name.
        """
        with self._reading, rest_errors.translated(f'reading {self}'):
            self._group = self._fetch()
            return self._group

    def _fetch(self) -> pvm_storage.VG:
        """Refresh the group, or find it."""
        try:
            group = self._group and self._group.refresh(use_etag=True)
        except pvm.HttpNotFound:
            group = None
        group = group or self._find()
        if group.capacity is None or group.available_size is None:
            raise exception.RestBusy(
                action=f'reading {self}', reason='it does not report its size'
            )
        return group

    @rest_errors.retried_on_conflict
    def change(self, edit: Edit, uuid: str | None = None) -> pvm_storage.VG:
        """Change a group, and repeat the change if somebody else was faster.

        The first try is based on the host's answer to the last change, which
        saves a request if its ETag is still current.

        :param edit: If it changes nothing, or raises an error, it is called
            again with a fresh reading.
        :param uuid: Uuid of the group; None for the configured one.
        :returns: The group after the change.
        """
        uuid = uuid or self._uuid
        with self._changing, rest_errors.translated(f'changing {self}'):
            group = self._answered
            if group is not None and group.uuid == uuid:
                self._answered = None
                with contextlib.suppress(_OutdatedError, pvm.HttpNotFound):
                    return self._update(_attempt(group, edit))
            group = self._get(uuid)
            return self._update(group) if edit(group) else group

    def _get(self, uuid: str | None) -> pvm_storage.VG:
        try:
            return super()._get(uuid)
        except pvm.HttpNotFound as error:
            self._forget()
            raise exception.RestBusy(
                action=f'changing {self}', reason='it was recreated'
            ) from error

    def _update(self, group: pvm_storage.VG) -> pvm_storage.VG:
        """Send a changed group, and keep the answer for the configured one.

        A copy is kept: changes that callers make to the disks of the answer
        must not be part of the next update.
        """
        answer = super()._update(group)
        if answer.uuid == self._uuid:
            self._answered = pvm_storage.VG.wrap(
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

    def _find(self) -> pvm_storage.VG:
        vios_name, _, name = self._name.rpartition('/')
        matches = []
        problem = None
        for vios in _VIOS.get(self._adapter):
            if vios_name not in ('', vios.name):
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
                problem = error
            else:
                matches += [(vios, g) for g in groups if g.name == name]
        if not matches and problem is not None:
            # The server may still be booting, like the NovaLink partition.
            raise exception.RestBusy(
                action=f'looking for {self}', reason=problem
            )
        if len(matches) != 1:
            names = [f'{vios.name}/{group.name}' for vios, group in matches]
            raise exception.ConfigurationError(reason=self._explain(names))
        vios, group = matches[0]
        self._vios = vios.uuid
        return group

    def _explain(self, matches: Sequence[str]) -> str:
        """Say why there is not exactly one group.

        :param matches: The names of the groups, with those of their servers.
        """
        option = f"[powervm]volume_group_name = '{self._name}'"
        if matches:
            return (
                f'{option}: several Virtual I/O Servers have a volume group '
                f'of this name. Specify one of: {", ".join(matches)}'
            )
        return (
            f'{option}: no Virtual I/O Server of the host has a volume group '
            'of this name, or the one that has it is not running. `pvmctl vg '
            'list` shows the existing groups.'
        )

    def __str__(self) -> str:
        return f'volume group {self._name}'


def unit_gb(group: pvm_storage.VG) -> float:
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


def rounded(group: pvm_storage.VG, size_gb: float) -> float:
    """Round the size of a disk in GB up, as the host does."""
    unit = unit_gb(group)
    return math.ceil(size_gb / unit) * unit if unit else size_gb


def _attempt(group: pvm_storage.VG, edit: Edit) -> pvm_storage.VG:
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


def capacity(group: pvm_storage.VG) -> host_values.DiskCapacity:
    """Return a group's size and how much of it is used, in whole GiB.

    The free space is rounded down.
    """
    total = math.floor(group.capacity)
    counted = [
        disk.capacity
        for disk in group.virtual_disks
        if storage.is_counted(disk.name)
    ]
    others = group.capacity - group.available_size - sum(counted)
    # How much larger than its flavor's size a disk may be.
    excess = max(0, math.ceil(unit_gb(group)) - 1)
    return host_values.DiskCapacity(
        total_gb=total,
        used_gb=max(0, total - math.floor(group.available_size)),
        reserved_gb=max(0, math.ceil(round(others, 3)))
        + excess * len(counted),
    )


def find(group: pvm_storage.VG, name: str) -> pvm_storage.VDisk | None:
    """Return the virtual disk of a group with a name, or None."""
    for disk in group.virtual_disks:
        if storage.base_name(disk.name) == name:
            return disk
    return None


def repositories(
    groups: Iterable[pvm_storage.VG],
) -> Iterator[pvm_storage.VMediaRepos]:
    """Yield the media repositories of groups; a server has at most one."""
    for group in groups:
        yield from group.vmedia_repos


class LeftoverError(Exception):
    """A disk exists before its creation was requested."""


def addition(name: str, build: Callable[[], pvm_storage.VDisk]) -> Edit:
    """Return an edit that adds a virtual disk to a group.

    The edit raises :class:`LeftoverError` if the disk exists when it is called
    for the first time. If the disk exists later, the answer to the request
    that created it was lost.

    :param name: Name of the disk.
    :param build: Builds its wrapper.
    """
    is_requested = False

    def edit(group: pvm_storage.VG) -> bool:
        nonlocal is_requested
        if find(group, name) is not None:
            if not is_requested:
                raise LeftoverError
            return False
        is_requested = True
        group.virtual_disks.append(build())
        return True

    return edit


def find_root(group: pvm_storage.VG, lpar_uuid: str) -> pvm_storage.VDisk:
    """Return the root disk of an LPAR in a group.

    :raises exception.DiskMissing: There is none.
    """
    for role in storage.ROOTS:
        disk = find(group, storage.disk_name(lpar_uuid, role))
        if disk is not None:
            return disk
    raise exception.DiskMissing(
        owner=f'LPAR {lpar_uuid}',
        what='root',
        place=f'volume group {group.name}',
    )


def growth(lpar_uuid: str, size_gb: float) -> Edit:
    """Return an edit that enlarges an LPAR's root disk if it is smaller.

    :param size_gb: The new size in GiB.
    """

    def edit(group: pvm_storage.VG) -> bool:
        disk = find_root(group, lpar_uuid)
        is_smaller = storage.is_smaller(disk.capacity, size_gb)
        if is_smaller:
            disk.capacity = size_gb
        return is_smaller

    return edit


def removal(
    is_doomed: Callable[[str], bool], *, media_only: bool = False
) -> Edit:
    """Return an edit that removes disks and media from a group.

    :param is_doomed: Whether to remove the disk or medium with a name.
    :param media_only: Whether to remove no disk.
    """

    def edit(group: pvm_storage.VG) -> bool:
        doomed = [
            (elements, element)
            for elements in _lists(group, media_only=media_only)
            for element in elements
            if is_doomed(storage.base_name(element.name))
        ]
        for elements, element in doomed:
            elements.remove(element)
        return bool(doomed)

    return edit


def _lists(group: pvm_storage.VG, *, media_only: bool = False) -> list[Any]:
    """Return the lists of disks and of media in the document of a group."""
    disks = [] if media_only else [group.virtual_disks]
    media = [media.optical_media for media in group.vmedia_repos]
    return [*disks, *media]


def names(group: pvm_storage.VG) -> list[str]:
    """Return the names of all disks and media in a group."""
    return [element.name for each in _lists(group) for element in each]


def removal_of(names: Collection[str]) -> Edit:
    """Return an edit that removes the disks and media with some names."""
    return removal(lambda name: name in names)


def rescue_removal(lpar_uuid: str, *, media_only: bool = False) -> Edit:
    """Return an edit that removes what the rescue system of an LPAR has.

    :param media_only: Whether to remove its medium only.
    """
    return removal(
        lambda name: (
            storage.is_of_rescue(name) and storage.belongs_to(name, lpar_uuid)
        ),
        media_only=media_only,
    )


def discard(
    groups: ServerGroups, name: str, cause: exception.PowerVMError
) -> None:
    """Delete a disk or medium after a failed upload.

    A failure to delete is only logged: the upload's error is reported.

    :param groups: The groups of the server that has the disk or medium.
    :param cause: Why the upload failed.
    """
    LOG.warning('Removing %s after a failed upload: %s', name, cause)
    try:
        groups.change_all(removal_of([name]))
    except exception.PowerVMError as error:
        LOG.error(
            '%(name)s could not be removed: %(error)s',
            {'name': name, 'error': error},
        )
