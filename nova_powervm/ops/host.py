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

"""The host: what is read in each cycle, and what it offers Nova."""

import dataclasses

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.domain import host
from nova_powervm.domain import slots
from nova_powervm.ops import ports

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of the host, with what Nova knows of its partitions.

    :param view: The managed system.
    :param disk: The storage for instances' disks.
    :param instance_lpars: Upper-case uuids of the LPARs that own a slot and
        belong to instances of Nova.
    """

    view: host.HostView
    disk: host.DiskCapacity
    instance_lpars: frozenset[str]


class HostOps:
    """Reads the host outside of Nova's locks and keeps the last reading.

    :param system: The managed system.
    :param storage: Where disks are made.
    :param records: Nova's records of instances.
    """

    def __init__(
        self,
        system: ports.System,
        storage: ports.Disks,
        records: ports.Records,
    ) -> None:
        self._system = system
        self._storage = storage
        self._records = records
        self._known_lpars: frozenset[str] = frozenset()
        self._last: Snapshot | None = None

    @property
    def last(self) -> Snapshot:
        """The last reading; the host is read now if there is none."""
        return self._last or self.read()

    def view(self) -> host.HostView:
        """Read the managed system alone, whatever its events tell.

        :raises exception.RestError: The server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """
        return self._system.read(fresh=True)

    def read(self) -> Snapshot:
        """Read all that a cycle needs; this is where its REST work is done.

        An unchanged host gives the same object again.

        :raises exception.RestError: The server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """
        last = self._last
        view = self._system.read()
        disk = self._capacity()
        lpars = (
            last.instance_lpars
            if last and last.view is view
            else self._instance_lpars(view)
        )
        if last and last.view is view and last.disk == disk:
            return last
        self._last = Snapshot(view, disk, lpars)
        return self._last

    def uptime(self) -> int:
        """Give the seconds since the management partition was booted."""
        return self._system.uptime()

    def _capacity(self) -> host.DiskCapacity:
        """Read the storage; in a running service the last size will do.

        Devices are looked after even while a Virtual I/O Server is down.
        """
        try:
            return self._storage.capacity()
        except exception.PowerVMError as error:
            if self._last is None:
                raise
            LOG.warning(
                'The disk capacity stays as last read: %(error)s',
                {'error': error},
            )
            return self._last.disk

    def _instance_lpars(self, view: host.HostView) -> frozenset[str]:
        """Ask Nova which of the slots' owners are instances of its own.

        An LPAR that was found to be one stays one; only others are asked
        about, and an unchanged host asks nothing: Nova has its record of an
        instance before the instance has an LPAR.
        """
        owners = {
            slot.owner.uuid
            for slot in view.io_slots
            if slot.owner
            and slot.owner.uuid
            and slot.owner.kind is slots.PartitionKind.CLIENT
        }
        unknown = owners - self._known_lpars
        if unknown:
            found = frozenset(self._records.instances_of(sorted(unknown)))
            self._known_lpars = (self._known_lpars & owners) | found
        else:
            self._known_lpars &= owners
        return self._known_lpars
