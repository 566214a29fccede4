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

"""What Cyborg's API tells, and the state of the slots that Cyborg has."""

import dataclasses
import shlex
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping

import os_traits

from nova_powervm.devices import names
from nova_powervm.devices import slot_providers
from nova_powervm.tool.rules import placement_tree

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
    :param instance_uuid: Uuid of its server, if any.
    """

    uuid: str
    state: str
    profile: str = ''
    hostname: str | None = None
    provider_uuid: str | None = None
    instance_uuid: str | None = None


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


@dataclasses.dataclass(frozen=True, slots=True)
class CyborgSlot:
    """A slot that Cyborg has.

    :param drc_index: Its DRC index.
    :param provider: Cyborg's provider in Placement; None if there is none.
    :param state: The state in words, without the name of the manager.
    :param remedy: Commands or instructions for a state that does not change
        unasked, one per line; empty if there is nothing to do.
    :param device: The device in Cyborg; None if it is unknown.
    :param requests: The requests that are bound to it.
    """

    drc_index: int
    provider: placement_tree.PlacementProvider | None
    state: str
    remedy: tuple[str, ...] = ()
    device: Device | None = None
    requests: tuple[Request, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class CyborgFacts:
    """What was read from Cyborg and Nova about the slots.

    :param records: The records of Cyborg.
    :param gone: Uuids of servers in these records, or in allocations, that do
        not exist.
    :param cloud: Name of the cloud, for commands; None for the environment's.
    """

    records: Records
    gone: frozenset[str] = frozenset()
    cloud: str | None = None

    @property
    def openstack(self) -> str:
        """The command ``openstack``, with the option that names the cloud."""
        return openstack_command(self.cloud)


def openstack_command(cloud: str | None) -> str:
    """Return the command ``openstack`` for a cloud.

    :param cloud: Name of the cloud; None for the environment's.
    """
    return (
        f'openstack --os-cloud {shlex.quote(cloud)}' if cloud else 'openstack'
    )


def find_providers(
    tree: placement_tree.Tree,
) -> Mapping[int, placement_tree.PlacementProvider]:
    """Find the providers of Cyborg's slots below a compute node.

    A provider of our own driver for Cyborg has the slot in its name. One of
    another driver is known by OWNER_CYBORG and the trait of the slot.

    :returns: DRC index to provider.
    """
    found: dict[int, placement_tree.PlacementProvider] = {}
    for provider in tree.below:
        named = names.slot_of_cyborg_provider(provider.name)
        if named is not None:
            found[named] = provider
        elif os_traits.OWNER_CYBORG in provider.traits:
            for index in slot_providers.slots_named_by(
                provider.name, provider.traits
            ):
                found.setdefault(index, provider)
    return found


def find_servers(
    tree: placement_tree.Tree, records: Records
) -> frozenset[str]:
    """Return the servers that have, or had, slots of Cyborg's on a host."""
    providers = find_providers(tree).values()
    return frozenset(
        request.instance_uuid
        for provider in providers
        for request in records.requests_of(provider.uuid)
        if request.instance_uuid
    ) | frozenset(c for provider in providers for c in provider.consumers)


def find_slots(
    tree: placement_tree.Tree, facts: CyborgFacts | None = None
) -> Mapping[int, CyborgSlot]:
    """Find the slots of a host that Cyborg has.

    :param facts: What Cyborg and Nova tell; None if they were not asked: then
        the states are those of Placement.
    :returns: DRC index to slot.
    """
    providers = find_providers(tree)
    found = {
        index: _of_placement(index, provider)
        if facts is None
        else _of_cyborg(index, provider, tree.node, facts)
        for index, provider in providers.items()
    }
    for device in facts.records.devices if facts else ():
        if device.hostname == tree.node and device.drc_index not in found:
            found[device.drc_index] = CyborgSlot(
                device.drc_index,
                None,
                'unknown to Placement',
                ('see the log of cyborg-agent, which reports it again',),
                device,
            )
    return found


def _of_placement(
    index: int, provider: placement_tree.PlacementProvider
) -> CyborgSlot:
    if provider.consumers:
        state = f'in use by {" ".join(sorted(provider.consumers))}'
    elif names.WITHDRAWN_TRAIT in provider.traits:
        state = 'withheld'
    else:
        state = 'disabled or reserved' if provider.reserved else 'free'
    return CyborgSlot(index, provider, state)


def _of_cyborg(
    index: int,
    provider: placement_tree.PlacementProvider,
    node: str,
    facts: CyborgFacts,
) -> CyborgSlot:
    device = facts.records.device(node, index)
    requests = facts.records.requests_of(provider.uuid)
    found = [
        *_request_states(provider, requests, facts),
        *_consumer_states(provider, requests, facts),
        *_device_states(provider, device, facts),
    ]
    if not found and names.WITHDRAWN_TRAIT in provider.traits:
        found.append(('withheld, see the log of cyborg-agent', ''))
    if not found:
        found.append(('free', ''))
    return CyborgSlot(
        index,
        provider,
        '; '.join(state for state, _ in found),
        tuple(remedy for _, remedy in found if remedy),
        device,
        requests,
    )


_State = tuple[str, str]


def _request_states(
    provider: placement_tree.PlacementProvider,
    requests: Collection[Request],
    facts: CyborgFacts,
) -> Iterator[_State]:
    for request in requests:
        removal = removal_command(request, facts)
        if request.instance_uuid is None:
            yield f'request {request.uuid} is left over', removal
        elif request.instance_uuid in facts.gone:
            yield (
                f'bound to server {request.instance_uuid}, which does not '
                f'exist any more: request {request.uuid} is left over',
                removal,
            )
        elif request.state != BOUND:
            yield (
                f'request {request.uuid} of server {request.instance_uuid} is '
                f'in state {request.state}',
                f'{facts.openstack} accelerator arq show {request.uuid}',
            )
        elif request.instance_uuid not in provider.consumers:
            yield (
                f'in use by {request.instance_uuid}, which Placement has not '
                'allocated it to',
                f'{facts.openstack} server show {request.instance_uuid}',
            )
        else:
            yield f'in use by {request.instance_uuid}', ''


def _consumer_states(
    provider: placement_tree.PlacementProvider,
    requests: Collection[Request],
    facts: CyborgFacts,
) -> Iterator[_State]:
    """Yield the allocations that no request explains."""
    bound = {request.instance_uuid for request in requests}
    for consumer in sorted(set(provider.consumers) - bound):
        if consumer in facts.gone:
            yield (
                f'allocated to {consumer}, which does not exist',
                f'{facts.openstack} resource provider allocation delete '
                f'{consumer}',
            )
        else:
            yield (
                f'allocated to {consumer}, for which it has no request',
                f'{facts.openstack} server show {consumer}',
            )


def _device_states(
    provider: placement_tree.PlacementProvider,
    device: Device | None,
    facts: CyborgFacts,
) -> Iterator[_State]:
    if device is None:
        yield (
            'no device in Cyborg',
            'see the log of cyborg-agent, which reports it in each period',
        )
    elif device.is_disabled and provider.reserved:
        yield 'disabled', ''
    elif device.is_disabled:
        yield (
            'disabled, but Placement does not reserve it',
            f'{facts.openstack} accelerator device disable {device.uuid}',
        )
    elif provider.reserved:
        yield (
            'reserved in Placement, although the device is enabled',
            f'{facts.openstack} accelerator device enable {device.uuid}',
        )


def removal_command(request: Request, facts: CyborgFacts) -> str:
    """Return the command that removes a request that is left over.

    Cyborg accepts the removal of a request with a server only together with
    the token of a service, which the client for its API never sends. The token
    goes through a pipe: every user of the machine can read arguments.
    """
    if request.instance_uuid is None:
        return f'{facts.openstack} accelerator arq delete {request.uuid}'
    url = f'{facts.records.endpoint}/accelerator_requests?arqs={request.uuid}'
    return (
        f'{facts.openstack} token issue -f value -c id | '
        r"sed 's/.*/X-Auth-Token: &\nX-Service-Token: &/' | "
        f'curl -sSf -X DELETE -H @- {shlex.quote(url)}'
    )


def unbound_requests(
    records: Records,
) -> tuple[Request, ...]:
    """Return the requests without a server.

    Nova creates them when it builds a server, and binds or removes them soon.
    Those that stay are left over.
    """
    return tuple(
        request
        for request in records.requests
        if request.instance_uuid is None and request.provider_uuid is None
    )
