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

"""What Cyborg's API tells, in the form that the rules take."""

import dataclasses
from collections.abc import Mapping

from nova_powervm.devices import names

BOUND = 'Bound'
MAINTAINING = 'maintaining'


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A device profile.

    :param name: Its name, which flavors refer to.
    :param groups: Its groups, as the API has them.
    """

    name: str
    groups: tuple[Mapping[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A device of a PowerVM host.

    :param uuid: Its uuid in Cyborg.
    :param hostname: Name of its host.
    :param drc_index: The slot.
    :param status: ``enabled``, ``maintaining``, or empty if Cyborg does not
        tell.
    """

    uuid: str
    hostname: str
    drc_index: int
    status: str = ''

    @property
    def is_disabled(self) -> bool:
        """Whether an administrator has disabled it."""
        return self.status == MAINTAINING


@dataclasses.dataclass(frozen=True, slots=True)
class Deployable:
    """What Cyborg reported to Placement of a device.

    :param name: Name of the provider.
    :param provider_uuid: Uuid of the provider.
    :param resource_class: Class of its inventory; None if unknown.
    :param traits: Its traits.
    """

    name: str
    provider_uuid: str
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()

    @property
    def is_slot(self) -> bool:
        """Whether it is a slot of a PowerVM host."""
        return names.slot_of_cyborg_provider(self.name) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """An accelerator request.

    :param uuid: Its uuid.
    :param state: Its state, for example ``Bound``.
    :param profile: Name of its device profile.
    :param hostname: The host that it is bound on, if any.
    :param provider_uuid: The provider that it is bound to, if any.
    :param instance: Uuid of its server, if any.
    """

    uuid: str
    state: str
    profile: str = ''
    hostname: str | None = None
    provider_uuid: str | None = None
    instance: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Records:
    """Everything that was read from Cyborg.

    :param profiles: All device profiles.
    :param devices: All devices of PowerVM hosts.
    :param deployables: All deployables, those of other drivers as well.
    :param requests: All accelerator requests.
    :param endpoint: URL of the API.
    """

    profiles: tuple[Profile, ...] = ()
    devices: tuple[Device, ...] = ()
    deployables: tuple[Deployable, ...] = ()
    requests: tuple[Request, ...] = ()
    endpoint: str = ''

    def device(self, hostname: str, drc_index: int) -> Device | None:
        """Return the device of a slot; None if Cyborg has none."""
        for device in self.devices:
            if (device.hostname, device.drc_index) == (hostname, drc_index):
                return device
        return None

    def requests_of(self, provider_uuid: str) -> tuple[Request, ...]:
        """Return the requests that are bound to a provider."""
        return tuple(
            request
            for request in self.requests
            if request.provider_uuid == provider_uuid
        )
