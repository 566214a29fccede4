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

"""The facts that a report to Cyborg depends on."""

import dataclasses
from collections.abc import Mapping

from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.lpar import partition


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A provider of a slot in Placement, Cyborg's or Nova's.

    :param uuid: Its uuid.
    :param name: Its name.
    :param reserved: Resource class to reserved units.
    :param traits: Its traits.
    :param consumers: Uuids of the instances that it is allocated to.
    """

    uuid: str
    name: str
    reserved: Mapping[str, int] = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    consumers: tuple[str, ...] = ()

    @property
    def resource_class(self) -> str | None:
        """The class of its inventory; None without an inventory."""
        return min(self.reserved, default=None)

    @property
    def is_idle(self) -> bool:
        """Whether it is neither allocated nor reserved."""
        return not self.consumers and not any(self.reserved.values())

    @property
    def lpar_uuids(self) -> frozenset[str]:
        """Upper-case uuids of the LPARs of its consumers."""
        return frozenset(map(partition.lpar_uuid, self.consumers))


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a report depends on, apart from earlier reports.

    :param policy: The content of Cyborg's file.
    :param nova_policy: The content of Nova's inventory file; None if unknown.
        A slot that was withheld then stays withheld.
    :param io_slots: All slots of the host.
    :param providers: DRC index to Cyborg's provider of this host.
    :param nova_providers: DRC index to Nova's provider of this host.
    :param unbindable: DRC indexes of the slots that Cyborg has, but no request
        can be bound to.
    :param publishes_locations: Whether providers have traits for the location
        codes of their slots.
    """

    policy: policies.Policy
    nova_policy: policies.Policy | None = None
    io_slots: tuple[slots.Slot, ...] = ()
    providers: Mapping[int, Provider] = dataclasses.field(default_factory=dict)
    nova_providers: Mapping[int, Provider] = dataclasses.field(
        default_factory=dict
    )
    unbindable: frozenset[int] = frozenset()
    publishes_locations: bool = True
