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

"""A shared storage pool, and the logical units of one of its tiers."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm import util as pvm_util
from pypowervm.wrappers import cluster as pvm_cluster
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session

LOG = logging.getLogger(__name__)

DISK = pvm_storage.LUType.DISK
IMAGE = pvm_storage.LUType.IMAGE

#: UDIDs of an image and of what its clones say that they were cloned from
#: differ in the type, with which each of them begins.
_TYPE_DIGITS = 2
_UP = pvm_cluster.NodeState.UP


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where the pool is.

    :param cluster: The cluster as last read.
    :param pool: The pool as last read.
    :param tiers: All tiers of the pool.
    :param tier: The tier for new units.
    """

    cluster: pvm_cluster.Cluster
    pool: pvm_storage.SSP
    tiers: Sequence[pvm_storage.Tier]
    tier: pvm_storage.Tier

    @property
    def nodes(self) -> list[pvm_cluster.Node]:
        """The nodes that are Virtual I/O Servers of this host.

        They are always in the same order, which decides about virtual slots.

        :raises exception.ConfigurationError: There are none.
        """
        nodes = [node for node in self.cluster.nodes if node.vios_uuid]
        if not nodes:
            raise exception.ConfigurationError(
                reason='no Virtual I/O Server of this host is a node of '
                f'cluster {self.cluster.name}. Add one with `cluster -addnode`'
            )
        return sorted(nodes, key=lambda node: node.lpar_id or 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """The size of the tier for disks, and what is in it.

    :param capacity_gb: The size in GB.
    :param free_gb: The free space in GB. If there are other tiers, some of it
        may be in those: the host does not tell.
    :param units: The logical units in the tier.
    """

    capacity_gb: float
    free_gb: float
    units: Sequence[pvm_storage.LU | pvm_storage.LUEnt]


class StoragePool:
    """The pool of a cluster to which Virtual I/O Servers of this host belong.

    :param adapter: An adapter with a session that has logged on.
    :param cluster_name: Name of the cluster; None for the only cluster.
    :param tier_name: Name of the tier for new units; None for the default.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        cluster_name: str | None = None,
        tier_name: str | None = None,
    ) -> None:
        self._adapter = adapter
        self._cluster_name = cluster_name
        self._tier_name = tier_name
        self._lock = threading.Lock()
        self._place: _Place | None = None

    @property
    def servers(self) -> tuple[str, ...]:
        """Uuids of this host's Virtual I/O Servers in the cluster."""
        return tuple(node.vios_uuid for node in self._get_place().nodes)

    @property
    def main_server(self) -> str:
        """Uuid of the first of these servers that is up, for uploads."""
        nodes = self._get_place().nodes
        up = [node for node in nodes if node.state in (_UP, None)]
        return str((up or nodes)[0].vios_uuid)

    @property
    def udid(self) -> str:
        """The UDID of the pool."""
        return str(self._get_place().pool.udid)

    @property
    def tier(self) -> pvm_storage.Tier:
        """The tier in which units are created."""
        return self._get_place().tier

    @rest_errors.retried
    def read_nodes(self) -> None:
        """Read the nodes of the cluster, with one conditional request."""
        with rest_errors.translated(f'reading the cluster of {self}'):
            place = self._get_place()
            try:
                cluster = place.cluster.refresh(use_etag=True)
            except pvm.HttpNotFound:
                self.forget()
            else:
                self._replace(place, cluster=cluster)

    @rest_errors.retried
    def read(self) -> pvm_storage.SSP:
        """Read the pool, with one conditional request if it is unchanged.

        :raises exception.ConfigurationError: There is not exactly one pool
            and tier that the options name, or no server.
        """
        with rest_errors.translated(f'reading {self}'):
            place = self._get_place()
            try:
                pool = place.pool.refresh(use_etag=True)
            except pvm.HttpNotFound:
                pool = None
            # A pool of another size may have other tiers.
            if pool is None or pool.capacity != place.pool.capacity:
                self.forget()
                return self._get_place().pool
            self._replace(place, pool=pool)
            return pool

    def _replace(self, place: _Place, **new: Any) -> None:
        """Keep a new reading unless the pool was looked up anew meanwhile."""
        with self._lock:
            if self._place is place:
                self._place = dataclasses.replace(place, **new)

    def usage(self) -> Usage:
        """Read how large the tier is, and what is in it.

        These are the requests of :meth:`read` if the pool has one tier.
        """
        pool, place = self.read(), self._get_place()
        if len(place.tiers) == 1:
            return Usage(pool.capacity, pool.free_space, pool.logical_units)
        action = f'reading tier {place.tier.name} of {self}'
        with rest_errors.translated(action):
            capacity = place.tier.refresh().capacity
        return Usage(capacity, min(capacity, pool.free_space), self.units())

    @rest_errors.retried
    def units(self, *, of_all_tiers: bool = False) -> list[pvm_storage.LUEnt]:
        """Read logical units.

        :param of_all_tiers: Whether to read those of all tiers, and not only
            of the tier for new units.
        """
        with rest_errors.translated(f'reading the logical units of {self}'):
            try:
                return self._read_units(of_all_tiers)
            except pvm.HttpNotFound:
                self.forget()
                return self._read_units(of_all_tiers)

    def _read_units(self, of_all_tiers: bool) -> list[pvm_storage.LUEnt]:
        place = self._get_place()
        return [
            unit
            for tier in (place.tiers if of_all_tiers else (place.tier,))
            for unit in pvm_storage.LUEnt.get(self._adapter, parent=tier)
        ]

    def in_tier(
        self, units: Iterable[pvm_storage.LUEnt]
    ) -> list[pvm_storage.LUEnt]:
        """Return those of some units that are in the tier for new units."""
        tier = self.tier.uuid.lower()
        return [
            unit
            for unit in units
            if pvm_util.get_req_path_uuid(unit.href, root=True) == tier
        ]

    @rest_errors.retried
    def unit(self, uuid: str) -> pvm_storage.LUEnt | None:
        """Read a logical unit of the tier; return None if there is none."""
        with rest_errors.translated(f'reading logical unit {uuid} of {self}'):
            try:
                return pvm_storage.LUEnt.get(
                    self._adapter, uuid=uuid, parent=self.tier
                )
            except pvm.HttpNotFound:
                return None

    def create(
        self,
        name: str,
        size_gb: float,
        kind: str,
        image: pvm_storage.LUEnt | None = None,
    ) -> pvm_storage.LUEnt:
        """Create a logical unit with a name of its own.

        :param size_gb: Its size in GiB.
        :param kind: :data:`DISK` or :data:`IMAGE`.
        :param image: The image to clone; None for an empty unit.
        """
        new = pvm_storage.LUEnt.bld(
            self._adapter, name, size_gb, thin=True, typ=kind, clone=image
        )
        try:
            with rest_errors.translated(f'creating logical unit {name}'):
                made = new.create(
                    parent=self.tier, timeout=session.ANSWER_SECONDS
                )
        except exception.RestUnreachable:
            # The unit may exist although the answer was lost.
            made = next((u for u in self.units() if u.name == name), None)
            if made is None:
                raise
        return _checked(made, size_gb, 'creating')

    @rest_errors.retried_on_conflict
    def rename(self, unit: pvm_storage.LUEnt, name: str) -> pvm_storage.LUEnt:
        """Rename a logical unit unless it was changed since it was read.

        :raises exception.RestConflict: It was changed.
        """
        with rest_errors.translated(f'renaming logical unit {unit.name}'):
            # It may be in another tier.
            current = unit.refresh(use_etag=False)
            if current.name == name:
                # An earlier try did it, and its answer was lost.
                return current
            if current.name != unit.name:
                raise _Renamed(
                    action=f'renaming logical unit {unit.name}',
                    reason=f'it was renamed to {current.name}',
                )
            current.set_parm_value('UnitName', name)
            return current.update(timeout=session.ANSWER_SECONDS)

    @rest_errors.retried_on_conflict
    def grow(self, unit: pvm_storage.LUEnt, size_gb: float) -> None:
        """Enlarge a logical unit, which may be in use, if it is smaller.

        Its contents stay.

        :param size_gb: The new size in GiB.
        :raises exception.RestError: The pool refuses it.
        """
        with rest_errors.translated(f'enlarging logical unit {unit.name}'):
            # With its ETag, a try that failed would get its own change back.
            current = unit.refresh(use_etag=False)
            if storage.is_smaller(current.capacity, size_gb):
                current.set_float_gb_value('UnitCapacity', size_gb)
                current = current.update(timeout=session.ANSWER_SECONDS)
        _checked(current, size_gb, 'enlarging')

    @rest_errors.retried
    def delete(
        self, unit: pvm_storage.LUEnt, *, etag: str | None = None
    ) -> None:
        """Delete a logical unit if it exists.

        :param etag: Delete it only if it still has this ETag.
        :raises exception.RestError: It is mapped, or an image of others.
        """
        with (
            rest_errors.translated(f'deleting logical unit {unit.name}'),
            contextlib.suppress(pvm.HttpNotFound),
        ):
            self._adapter.delete_by_href(unit.href, etag=etag)

    def forget(self) -> None:
        """Look for the cluster again the next time."""
        with self._lock:
            self._place = None

    def _get_place(self) -> _Place:
        """Return where the pool is; look for it unless that is known."""
        with self._lock:
            if self._place is None:
                with rest_errors.translated(f'looking for {self}'):
                    self._place = self._find()
            return self._place

    def _find(self) -> _Place:
        cluster = self._find_cluster()
        pool = pvm_storage.SSP.get(self._adapter, uuid=cluster.ssp_uuid)
        tiers = pvm_storage.Tier.get(
            self._adapter,
            parent_type=pvm_storage.SSP.schema_type,
            parent_uuid=pool.uuid,
        )
        place = _Place(cluster, pool, tiers, self._choose_tier(pool, tiers))
        # Without nodes, this raises an error now.
        _ = place.nodes
        return place

    def _find_cluster(self) -> pvm_cluster.Cluster:
        clusters = pvm_cluster.Cluster.get(self._adapter)
        wanted = self._cluster_name
        matches = [c for c in clusters if wanted in (None, c.name)]
        if len(matches) == 1:
            return matches[0]
        names = ', '.join(cluster.name for cluster in clusters) or 'none'
        problem = (
            f"[powervm]cluster_name = '{wanted}': no cluster of this host has "
            'this name'
            if wanted
            else '[powervm]cluster_name is not set, and this host does not '
            'belong to exactly one cluster'
        )
        raise exception.ConfigurationError(
            reason=f'{problem}. The clusters are: {names}'
        )

    def _choose_tier(
        self, pool: pvm_storage.SSP, tiers: Sequence[pvm_storage.Tier]
    ) -> pvm_storage.Tier:
        wanted = self._tier_name
        for tier in tiers:
            if tier.name == wanted or (wanted is None and tier.is_default):
                return tier
        names = ', '.join(tier.name for tier in tiers)
        problem = (
            f"[powervm]tier_name = '{wanted}': there is no such tier in"
            if wanted
            else '[powervm]tier_name is not set, and there is no default in'
        )
        raise exception.ConfigurationError(
            reason=f'{problem} pool {pool.name}. Its tiers are: {names}'
        )

    def __str__(self) -> str:
        name = self._cluster_name
        return 'the shared storage pool' + (
            f' of cluster {name}' if name else ''
        )


class _Renamed(exception.RestError):
    """Another host has renamed the unit, so it is in another state now."""


def is_clone_of(unit: pvm_storage.LUEnt, image: pvm_storage.LUEnt) -> bool:
    """Return whether a logical unit is a linked clone of an image."""
    origin = unit.cloned_from_udid or ''
    return bool(origin) and image.udid[_TYPE_DIGITS:] == origin[_TYPE_DIGITS:]


def has_clones(
    image: pvm_storage.LUEnt, units: Iterable[pvm_storage.LUEnt]
) -> bool:
    """Return whether there is a linked clone of an image among units."""
    return any(is_clone_of(unit, image) for unit in units)


def _checked(
    unit: pvm_storage.LUEnt, size_gb: float, action: str
) -> pvm_storage.LUEnt:
    """Verify that a logical unit is not too small after a request."""
    if storage.is_smaller(unit.capacity, size_gb):
        raise exception.RestError(
            action=f'{action} logical unit {unit.name}',
            reason=f'it has {unit.capacity:g} GB instead of {size_gb:g} GB',
        )
    return unit
