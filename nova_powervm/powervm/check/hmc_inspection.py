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

"""Reads what an HMC shows of one of its systems, for ``nova-powervm-check``.

The feeds of an HMC have the partitions of all its systems, and DRC indexes
repeat on each: all is read below the one system that was chosen. Like its base
class, this only reads.
"""

import dataclasses
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import management_console
from pypowervm.wrappers import virtual_io_server

from nova_powervm.conf import powervm as options
from nova_powervm.devices import host_values
from nova_powervm.powervm import system
from nova_powervm.powervm import virtual_io_servers
from nova_powervm.powervm.check import inspection
from nova_powervm.powervm.vif import virtual_ethernet

#: The port from V11 on; earlier versions have pypowervm's default as well.
OTHER_PORT = 443
_LPAR = logical_partition.LPAR
_VIOS = virtual_io_server.VIOS
_SYSTEM = managed_system.System.schema_type
_PROFILE = 'LogicalPartitionProfile'
_PROFILE_SLOTS = 'IOConfigurationInstance/ProfileIOSlots/ProfileIOSlot'
_DRC_INDEX = 'AssociatedIOSlot/SlotDynamicReconfigurationConnectorIndex'


class _ChosenSystem(system.RestSystem):
    """One of several systems, as far as the virtual Ethernet needs it."""

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        server: options.Server,
        wrapper: managed_system.System,
    ) -> None:
        super().__init__(adapter, server)
        self._chosen = wrapper

    @property
    def wrapper(self) -> managed_system.System:
        """See the base class."""
        return self._chosen


class HmcInspection(inspection.Inspection):
    """One system of an HMC; see the base class."""

    @property
    def system(self) -> Any:
        """The managed system that was chosen, or the only one.

        :raises exception.ConfigurationError: There is none, or several.
        """
        return self.choose()

    @property
    def managed(self) -> host_values.ManagedSystem:
        """The managed system as the driver would read it."""
        return self._once('the slots', self._translate)

    def _translate(self) -> host_values.ManagedSystem:
        owners = None
        if not self.reports_owners:
            owners = system.profile_owners((*self.servers, *self.lpars))
        return system.managed_system_of(self.system, owners)

    @property
    def reports_owners(self) -> bool:
        """Whether the system claims to name the owners of all slots."""
        return system.reports_owners(self.system)

    @property
    def uptime(self) -> int:
        """The seconds since the start of the management partition."""
        return max((each.uptime or 0 for each in self.managers), default=0)

    def _read_noun(self, noun: str) -> Any:
        if noun == _SYSTEM:
            return self._adapter.read(noun, root_id=self.system.uuid)
        return self._adapter.read(
            _SYSTEM, root_id=self.system.uuid, child_type=noun
        )

    @property
    def lpars(self) -> Sequence[Any]:
        """All partitions of the system but Virtual I/O Servers."""
        return self._once('the LPARs', lambda: self._of_system(_LPAR))

    @property
    def servers(self) -> Sequence[Any]:
        """All Virtual I/O Servers of the system with their storage."""
        return self._once('the Virtual I/O Servers', self._read_servers)

    def _read_servers(self) -> list[Any]:
        groups = (const.XAG.VIO_STOR, const.XAG.VIO_SMAP)
        return [
            virtual_io_servers.read(self._adapter, each.uuid, groups)
            for each in self._of_system(_VIOS)
        ]

    @property
    def usable_bridges(self) -> Sequence[Any]:
        """The bridges that the driver would use."""
        chosen = _ChosenSystem(self._adapter, self.server, self.system)
        ethernet = virtual_ethernet.VirtualEthernet(self._adapter, chosen)
        return self._once('the bridges', ethernet.bridges)

    @property
    def port(self) -> int:
        """The port of the API."""
        return int(self._adapter.session.port)

    @property
    def version(self) -> str:
        """The version of the HMC; empty if it does not tell it."""
        (console,) = self._once(
            'the management console',
            lambda: list(
                management_console.ManagementConsole.get(self._adapter)
            ),
        )
        return console.element.findtext('BaseVersion') or ''

    @property
    def partitions(self) -> Sequence[Any]:
        """All partitions of the system."""
        return [*self.lpars, *self.servers]

    @property
    def all_partitions(self) -> Sequence[Any]:
        """The partitions of all systems."""
        return self._once(
            'the partitions of all systems',
            lambda: [*_LPAR.get(self._adapter), *_VIOS.get(self._adapter)],
        )

    def profiles_of(self, lpar: Any) -> Sequence[frozenset[int]]:
        """Return the slots of each profile of an LPAR."""
        return self._once(
            f'the profiles of {lpar.name}',
            lambda: [*self._read_profiles(lpar)],
        )

    def _read_profiles(self, lpar: Any) -> Iterator[frozenset[int]]:
        answer = self._adapter.read(
            lpar.schema_type, root_id=lpar.uuid, child_type=_PROFILE
        )
        # A feed without entries comes without a body.
        for entry in answer.feed.entries if answer.feed else ():
            yield frozenset(
                int(slot.findtext(_DRC_INDEX) or 0)
                for slot in entry.element.findall(_PROFILE_SLOTS)
            )

    def first_events(self) -> Sequence[str]:
        """Return the types of what the first poll of a queue answers."""
        return self._once(
            'events',
            lambda: [
                str(each.etype) for each in self.events(inspection.new_queue())
            ],
        )


def at_other_port(server: options.Server) -> options.Server | None:
    """Return the other place where an HMC may serve its API, if there is one.

    :param server: The options; a port in them is the only one.
    """
    parts = server.parts
    if server.url is None or parts.scheme != 'https' or parts.port:
        return None
    return dataclasses.replace(
        server, url=f'https://{parts.netloc.rstrip(":")}:{OTHER_PORT}'
    )


def inspect(
    adapter: pvm_adapter.Adapter, server: options.Server, wanted: str | None
) -> inspection.Inspection:
    """Return what looks at a host, or at a system of an HMC.

    :param wanted: See :class:`.inspection.Inspection`.
    :raises exception.ConfigurationError: It is not clear which system.
    """
    kind = inspection.kind_of(adapter)
    if kind == inspection.HMC:
        found = HmcInspection(adapter, server, wanted)
        found.choose()
        return found
    host = inspection.Inspection(adapter, server, wanted)
    if wanted is not None:
        host.choose()
    return host
