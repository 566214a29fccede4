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

"""Removes the LPARs of deleted instances and of failed builds.

Their guests are stopped first: Nova gives their ports away whatever happens
here. Then their volumes are disconnected, which soon belong to others.

:mod:`.sweep` has what is removed without a request.
"""

import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.ops import drivers
from nova_powervm.ops import interfaces
from nova_powervm.ops import volumes as volume_ops

LOG = logging.getLogger(__name__)

#: Seconds for which a host that did not answer may still complete a request.
LATE_SECONDS = 600


class RemovalOps:
    """Removes LPARs with their disks.

    Only this process knows which LPARs failed builds may have left: on the
    host they look like stale LPARs, and Nova has no record that tells them
    apart. After a restart :mod:`.sweep` finds disks without an LPAR, but an
    LPAR stays until Nova has it removed because its instance was deleted, or
    until :meth:`note_leftover` names it.

    :param partitions: The host's LPARs.
    :param disks: The disk driver.
    :param volume_drivers: Disconnects volumes.
    :param clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        disks: drivers.Disks,
        volume_drivers: volume_ops.VolumeOps,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions = partitions
        self._disks = disks
        self._volumes = volume_drivers
        self._clock = clock
        # LPAR uuid to the time until which a missing LPAR may still appear.
        self._leftovers: dict[str, float] = {}
        # The volumes that this host may have found for some of them.
        self._found: dict[str, Collection[lpar_volumes.Volume]] = {}
        # Keeps a new build of an LPAR from being taken for a leftover, and one
        # that fails now from being forgotten with an earlier one.
        self._lock = threading.Lock()

    def destroy(
        self,
        instance_uuid: str,
        *,
        delete_disks: bool = True,
        volumes: Collection[lpar_volumes.Volume] = (),
    ) -> None:
        """Stop and delete the LPAR of an instance and its disks.

        This frees its slots. An LPAR or disk that is already gone is no error.

        :param instance_uuid: The instance's uuid.
        :param delete_disks: False to keep its disks.
        :param volumes: The volumes that it is known to have.
        :raises exception.VolumeHeld: A Virtual I/O Server that may connect a
            volume does not answer; the LPAR is off, and keeps its disks.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        uuid = partition.lpar_uuid(instance_uuid)
        lpar = self._partitions.find(uuid)
        if lpar is None:
            LOG.info('Instance %s has no LPAR to delete.', instance_uuid)
        self.remove(uuid, lpar, delete_disks=delete_disks, volumes=volumes)
        self.forget_leftover(uuid)

    def remove(
        self,
        uuid: str,
        lpar: partition.Partition | None,
        *,
        delete_disks: bool = True,
        volumes: Collection[lpar_volumes.Volume] = (),
    ) -> None:
        """Remove an LPAR and its disks, and disconnect its volumes.

        Delete the LPAR last: as long as it exists, Nova repeats a removal
        that was interrupted.

        :param uuid: Upper-case PowerVM uuid.
        :param lpar: The LPAR as just read; None if there is none.
        :param delete_disks: False to disconnect its disks only.
        :param volumes: As for :meth:`destroy`.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        if lpar and lpar.is_active:
            self._partitions.power_off(lpar, hard=True)
        self._volumes.remove(uuid, volumes)
        self._disks.remove(uuid, delete=delete_disks)
        if lpar:
            self._partitions.delete(uuid)

    def remove_failed_build(
        self,
        uuid: str,
        name: str,
        cause: BaseException,
        *,
        delete_disks: bool = True,
    ) -> None:
        """Remove what a failed build created, now or in a later cycle.

        :param uuid: The LPAR of the build: its upper-case PowerVM uuid.
        :param name: Its name.
        :param cause: Why the build failed. A host that did not answer may
            still complete the request.
        :param delete_disks: False if the instance had its disks before.
        """
        if isinstance(cause, exception.RestUnreachable):
            self._note(uuid, self._clock() + LATE_SECONDS)
        try:
            self.remove(
                uuid, self._partitions.find(uuid), delete_disks=delete_disks
            )
        except Exception as error:
            self.note_leftover(uuid)
            LOG.error(
                'LPAR %(name)s (%(uuid)s) and its disks %(stem)s* could not '
                'be removed after its build failed: %(error)s. Each cycle '
                'tries again; check with `pvmctl lpar list` and `pvmctl '
                'vdisk list` that they are gone.',
                {
                    'name': name,
                    'uuid': uuid,
                    'stem': storage.stem(uuid),
                    'error': error,
                },
            )

    def note_leftover(
        self, uuid: str, volumes: Collection[lpar_volumes.Volume] = ()
    ) -> None:
        """Have what a killed nova-compute built removed in the next cycle.

        :param uuid: The LPAR of an instance that is not on this host.
        :param volumes: The volumes of the instance, which the host may have
            found without connecting them.
        """
        self._found[uuid] = volumes
        self._note(uuid, self._clock())

    def _note(self, uuid: str, until: float) -> None:
        """Have an LPAR removed, even if it appears later, until a time."""
        with self._lock:
            self._leftovers[uuid] = max(
                until, self._leftovers.get(uuid, until)
            )

    def forget_leftover(self, uuid: str) -> None:
        """Stop treating an LPAR as left over from a failed build."""
        with self._lock:
            self._leftovers.pop(uuid, None)
            self._found.pop(uuid, None)

    def remove_leftovers(
        self, instance_uuids: Callable[[], Iterable[str]]
    ) -> None:
        """Remove what could not be removed when builds failed.

        Nova may have built the instance on another host since, with disks of
        the same names if the hosts share storage. Disks there are left to
        :func:`.sweep.remove_pool_disks`. Keep the LPAR of an instance of this
        host: its user can start, rebuild or delete it.

        :param instance_uuids: Returns the uuids of all instances of this host.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        with self._lock:
            if not self._leftovers:
                return
            ours = {partition.lpar_uuid(uuid) for uuid in instance_uuids()}
            for uuid in sorted(self._leftovers):
                if self._remove_leftover(uuid, is_ours=uuid in ours):
                    del self._leftovers[uuid]
                    self._found.pop(uuid, None)

    def _remove_leftover(self, uuid: str, *, is_ours: bool) -> bool:
        """Remove the remains of a failed build.

        :param is_ours: Whether the LPAR belongs to an instance of this host.
            Nova removes the instance from the host soon after its build
            failed.
        :returns: Whether nothing is left to remove.
        """
        lpar = self._partitions.find(uuid)
        if is_ours:
            return lpar is not None and lpar.is_active
        self.remove(
            uuid,
            lpar,
            delete_disks=self._disks.pool is None,
            volumes=self._found.get(uuid, ()),
        )
        return lpar is not None or self._clock() >= self._leftovers[uuid]
