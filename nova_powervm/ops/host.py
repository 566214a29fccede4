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

"""The host: one reading per cycle, combined with Nova's records."""

import dataclasses
from collections.abc import Collection
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.ops import drivers
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

#: Upper-case uuid of an LPAR to the slot providers, by uuid, that Nova stored
#: with its instance.
Holdings = Mapping[str, Mapping[str, claims.SlotProvider]]


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the host, with what Nova knows of its LPARs.

    :param system: The managed system.
    :param disk: The storage for instances' disks.
    :param holdings: Each LPAR that owns a slot and belongs to an instance, to
        the slot providers that Nova stored with the instance.
    :param lost: Uuids of providers without an allocation, although the LPAR
        that they were allocated to owns their slots.
    :param stale_lpars: Each stale LPAR that owns a slot, to where its instance
        is.
    """

    system: host_values.ManagedSystem
    disk: host_values.DiskCapacity
    holdings: Holdings = dataclasses.field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    stale_lpars: Mapping[str, slot_providers.StaleLpar] = dataclasses.field(
        default_factory=dict
    )

    @property
    def lpars_by_provider(self) -> Mapping[str, str]:
        """Map the uuid of each provider to the LPAR that has its slot."""
        return {
            provider.uuid: lpar_uuid
            for slot in self.system.io_slots
            if (lpar_uuid := slot.owner_lpar) in self.holdings
            for provider in self.holdings[lpar_uuid].values()
            if provider.drc_index == slot.drc_index
        }


class HostReader:
    """Reads the host outside of Nova's locks and keeps the last reading.

    :param system: The managed system.
    :param storage: The disk driver.
    :param records: Nova's records of instances.
    :param placement: Tells who holds allocations of providers.
    :param nodename: This host's name in Nova, as in ``instance.host``.
    """

    def __init__(
        self,
        system: interfaces.System,
        storage: drivers.Disks,
        records: interfaces.Records,
        placement: interfaces.Placement,
        nodename: str,
    ) -> None:
        self._system = system
        self._storage = storage
        self._records = records
        self._placement = placement
        self._nodename = nodename
        self._last: Reading | None = None

    def last_or_read(self) -> Reading:
        """Return the last reading; read the host first if there is none."""
        return self._last or self.read()

    def managed_system(self) -> host_values.ManagedSystem:
        """Read only the managed system.

        :raises exception.RestError: The server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """
        return self._system.read()

    def hypervisor_memory(
        self, memory_mb: int, max_mem: int
    ) -> host_values.HypervisorMemory:
        """Ask what the hypervisor needs for an LPAR."""
        return self._system.hypervisor_memory(memory_mb, max_mem)

    def read(self) -> Reading:
        """Read everything that a cycle needs; this does its REST requests.

        Nova removes an LPAR before its allocations. Therefore ask Placement
        first: a provider without an allocation has lost it if the same LPAR
        owned the slot before the question and still owns it afterwards. Nova
        deletes allocations when a rebuild with another image fails, and an
        operator can delete them manually.

        :raises exception.RestError: The server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """
        before = self._last
        unallocated = self._find_unallocated(before) if before else frozenset()
        managed = self._system.read()
        reading = self._with_records(Reading(managed, self._capacity()))
        if before and unallocated:
            owned = before.lpars_by_provider
            lost = frozenset(
                uuid
                for uuid, lpar_uuid in reading.lpars_by_provider.items()
                if uuid in unallocated and owned.get(uuid) == lpar_uuid
            )
            reading = dataclasses.replace(reading, lost=lost)
        self._last = reading
        return reading

    def uptime(self) -> int:
        """Return the seconds since the management partition was booted."""
        return self._system.uptime()

    def _capacity(self) -> host_values.DiskCapacity:
        """Read the storage; use the last size if a running service fails.

        Devices must be managed even while a Virtual I/O Server is down.
        """
        try:
            return self._storage.capacity()
        except exception.PowerVMError as error:
            if self._last is None:
                raise
            LOG.warning(
                'Keeping the disk capacity of the last reading: %(error)s',
                {'error': error},
            )
            return self._last.disk

    def _find_unallocated(self, before: Reading) -> frozenset[str]:
        """Ask Placement which providers of used slots have no allocation.

        Send one request for each provider. A provider that Placement does not
        answer about stays lost if it was lost before.
        """
        used = frozenset(before.lpars_by_provider)
        consumers_of = self._placement.get_consumers(used)
        unanswered = used - consumers_of.keys()
        return frozenset(
            uuid for uuid, consumers in consumers_of.items() if not consumers
        ) | (before.lost & unanswered)

    def _with_records(self, reading: Reading) -> Reading:
        """Ask Nova which slot owners are instances, and for their slots."""
        owners = sorted(_client_lpars(reading.system))
        if not owners:
            return reading
        return dataclasses.replace(
            reading,
            holdings=self._records.holdings(owners),
            stale_lpars=self._records.stale_lpars(owners, self._nodename),
        )


def _client_lpars(managed: host_values.ManagedSystem) -> Collection[str]:
    return {
        slot.owner.uuid
        for slot in managed.io_slots
        if slot.owner
        and slot.owner.uuid
        and slot.owner.kind is slots.PartitionKind.CLIENT
    }
