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
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import host
from nova_powervm.devices import slots
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of the host, with what Nova knows of its partitions.

    :param view: The managed system.
    :param disk: The storage for instances' disks.
    :param instance_lpars: Upper-case uuids of the LPARs that own a slot and
        belong to instances of Nova.
    :param holdings: Each of these to the uuids of the providers that its
        instance was allocated.
    """

    view: host.HostView
    disk: host.DiskCapacity
    instance_lpars: frozenset[str]
    holdings: Mapping[str, frozenset[str]] = dataclasses.field(
        default_factory=dict
    )


class HostOps:
    """Reads the host outside of Nova's locks and keeps the last reading.

    :param system: The managed system.
    :param storage: Where disks are made.
    :param records: Nova's records of instances.
    """

    def __init__(
        self,
        system: interfaces.System,
        storage: interfaces.Disks,
        records: interfaces.Records,
    ) -> None:
        self._system = system
        self._storage = storage
        self._records = records
        self._holdings: Mapping[str, frozenset[str]] = {}
        self._last: Snapshot | None = None
        #: How often a reading began, of an unchanged host, too.
        self.begun = 0
        #: Number of the last one that ended; ``last`` is not older.
        self.readings = 0

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
        self.begun += 1
        number = self.begun
        view = self._system.read()
        disk = self._capacity()
        holdings = (
            last.holdings if last and last.view is view else self._held(view)
        )
        if not (last and last.view is view and last.disk == disk):
            last = Snapshot(view, disk, frozenset(holdings), holdings)
            self._last = last
        self.readings = number
        return last

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

    def _held(self, view: host.HostView) -> Mapping[str, frozenset[str]]:
        """Ask Nova which of the slots' owners are instances, and what of.

        An LPAR that was found to be one stays one. It is asked about again
        only if it has more slots than its instance was allocated, so a
        settled host asks nothing, and neither does an unchanged one: Nova has
        its record of an instance before the instance has an LPAR.
        """
        owned: dict[str, int] = {}
        for slot in view.io_slots:
            owner = slot.owner
            if (
                owner
                and owner.uuid
                and owner.kind is slots.PartitionKind.CLIENT
            ):
                owned[owner.uuid] = owned.get(owner.uuid, 0) + 1
        unsure = {
            uuid
            for uuid, count in owned.items()
            if count > len(self._holdings.get(uuid, ()))
        }
        known = {
            uuid: providers
            for uuid, providers in self._holdings.items()
            if uuid in owned and uuid not in unsure
        }
        if unsure:
            known.update(self._records.holdings(sorted(unsure)))
        self._holdings = known
        return known
