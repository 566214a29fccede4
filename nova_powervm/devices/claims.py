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

"""Claims: the slots that an instance gets for its allocations."""

import dataclasses
import enum
import re
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import policy
from nova_powervm.devices import slots

# Nova's syntax: resources[_a-zA-Z0-9-]{0,64}:<class>=<amount>
_RESOURCES_KEY = re.compile(r'resources[a-zA-Z0-9_-]{0,64}:([A-Z0-9_]+)')


class Source(enum.StrEnum):
    """Who manages a claimed device (specification "cyborg owned vGPU")."""

    COMPUTE = 'COMPUTE'
    ACCELERATOR = 'ACCELERATOR'


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One slot that an instance gets.

    :param provider_uuid: The slot's provider, ours or Cyborg's.
    :param drc_index: The slot.
    :param source: Who manages the device.
    :param request: Uuid of the accelerator request that provides the slot;
        None if Nova allocated it.
    :param resource_classes: The provider's resource classes, without those
        that provider.yaml adds. Empty if they are unknown.
    """

    provider_uuid: str | None
    drc_index: int
    source: Source = Source.COMPUTE
    request: str | None = None
    resource_classes: frozenset[str] = dataclasses.field(
        default=frozenset(), compare=False
    )

    def __str__(self) -> str:
        return slots.format_drc_index(self.drc_index)

    @property
    def origin(self) -> str:
        """The source of the claim, in words."""
        if self.source is Source.ACCELERATOR:
            return f'accelerator request {self.request} provides slot {self}'
        return f'slot {self} was allocated to it'


@dataclasses.dataclass(frozen=True, slots=True)
class SlotProvider:
    """A provider of the driver's own, as the last update left it.

    :param uuid: Its uuid in Placement.
    :param drc_index: The slot it stands for.
    :param resource_classes: The classes that it has inventory of.
    """

    uuid: str
    drc_index: int
    resource_classes: frozenset[str]

    @property
    def claim(self) -> Claim:
        """The claim of an instance that this provider is allocated to."""
        return Claim(
            self.uuid, self.drc_index, resource_classes=self.resource_classes
        )


@dataclasses.dataclass(frozen=True, slots=True)
class OtherProviders:
    """Providers below the compute node that are not the driver's own.

    :param cyborg: Uuids of the providers that Cyborg owns.
    :param uuids: Uuids of all these providers.
    """

    cyborg: frozenset[str] = frozenset()
    uuids: frozenset[str] = frozenset()


def requested_amounts(extra_specs: Mapping[str, str]) -> dict[str, int]:
    """Add up the amounts that a flavor's resource groups ask for.

    :param extra_specs: The flavor's extra specs.
    :returns: Resource class to the sum over all groups. An amount that is not
        a number counts as 0; Nova's API refuses such a flavor.
    """
    amounts: dict[str, int] = {}
    for key, value in extra_specs.items():
        match = _RESOURCES_KEY.fullmatch(key)
        if match and str(value).strip().isdecimal():
            name = match.group(1)
            amounts[name] = amounts.get(name, 0) + int(value)
    return amounts


def resolve(
    instance_uuid: str,
    allocations: Mapping[str, Mapping[str, Any]] | None,
    providers: Mapping[str, SlotProvider],
    requested: Mapping[str, int],
    others: OtherProviders | None = None,
    device_classes: Collection[str] = (),
    bound: Collection[str | None] = (),
) -> tuple[Claim, ...]:
    """Find the slots that an instance was allocated on this host.

    Only providers in this host's tree count: during an evacuation, the
    allocations also include providers of the source host.

    :param instance_uuid: The instance's uuid, for messages.
    :param allocations: Provider uuid to ``{'resources': {class: amount}}``, as
        Nova passes them. Nova passes None or {} if Placement did not answer;
        then the instance must not be built without its devices.
    :param providers: Provider uuid to provider, of this host.
    :param requested: Resource class to the amount that the flavor asks for.
    :param others: The host's providers that are not the driver's own.
    :param device_classes: Classes of the inventory file. A request for one of
        these must be met by a slot of this host.
    :param bound: Uuids of the providers that accelerator requests are bound
        to.
    :returns: The claims, by DRC index.
    :raises exception.ClaimFailed: The allocations are missing, are fewer or
        more than the flavor asks for, or include a Cyborg device without an
        accelerator request.
    """
    if not allocations:
        raise exception.ClaimFailed(
            instance_uuid=instance_uuid,
            reason='Nova got no allocations from Placement, so it is unknown '
            'which devices belong to the instance. See the nova-compute log '
            'for the failed request to Placement.',
        )
    _refuse_other_providers(
        instance_uuid,
        {uuid: r for uuid, r in allocations.items() if uuid not in bound},
        requested,
        others or OtherProviders(),
    )
    granted = [
        (providers[uuid], resource_class, int(amount))
        for uuid, record in allocations.items()
        if uuid in providers
        for resource_class, amount in record['resources'].items()
    ]
    _check_amounts(
        instance_uuid,
        granted,
        requested,
        _device_amounts(requested, providers.values(), device_classes),
    )
    return sort_by_slot({provider.claim for provider, _, _ in granted})


def resolve_stored(
    instance_uuid: str,
    remembered: Mapping[str, SlotProvider],
    requested: Mapping[str, int],
    device_classes: Collection[str] = (),
) -> tuple[Claim, ...]:
    """Find the slots of an instance when Nova passes no allocations.

    :param instance_uuid: The instance's uuid, for messages.
    :param remembered: Slot providers that Nova stored with the instance.
    :param requested: Resource class to the amount that the flavor asks for.
    :param device_classes: Classes of the inventory file.
    :returns: The claims, by DRC index.
    :raises exception.ClaimFailed: Nova stored fewer or more slots than the
        flavor asks for.
    """
    _check_amounts(
        instance_uuid,
        [
            (provider, resource_class, 1)
            for provider in remembered.values()
            for resource_class in provider.resource_classes
        ],
        requested,
        _device_amounts(requested, remembered.values(), device_classes),
    )
    return sort_by_slot(provider.claim for provider in remembered.values())


def describe(claims: Iterable[Claim]) -> str:
    """List slots with their sources, for log lines and messages."""
    return ', '.join(f'{claim} ({claim.source})' for claim in claims)


def sort_by_slot(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Sort claims by DRC index."""
    return tuple(sorted(claims, key=lambda claim: claim.drc_index))


def _device_amounts(
    requested: Mapping[str, int],
    providers: Iterable[SlotProvider],
    device_classes: Collection[str],
) -> dict[str, int]:
    """Return the requested amounts of the classes that slots here have."""
    ours = set(device_classes).union(
        *(provider.resource_classes for provider in providers)
    )
    return {rc: amount for rc, amount in requested.items() if rc in ours}


def _refuse_other_providers(
    instance_uuid: str,
    allocations: Mapping[str, Mapping[str, Any]],
    requested: Mapping[str, int],
    others: OtherProviders,
) -> None:
    """Refuse allocated devices that neither Nova nor Cyborg would attach.

    Providers of Neutron and of Nova's PCI tracker are not affected: they are
    not requested by the groups of a flavor, or have standard classes.
    """
    of_cyborg = sorted(set(allocations) & others.cyborg)
    if of_cyborg:
        raise exception.ForeignDevice(
            instance_uuid=instance_uuid,
            reason=exception.Listing(
                of_cyborg,
                before='it was allocated a device that Cyborg manages. Add '
                "traitN:OWNER_NOVA=required to the flavor's groups, or use a "
                'device profile. Provider: ',
            ),
        )
    unpublished = sorted(
        uuid
        for uuid in set(allocations) & others.uuids
        if any(
            rc in requested and policy.may_be_device(rc)
            for rc in allocations[uuid]['resources']
        )
    )
    if unpublished:
        raise exception.ForeignDevice(
            instance_uuid=instance_uuid,
            reason=exception.Listing(
                unpublished,
                before='it was allocated a device that this driver did '
                'not publish. Add traitN:OWNER_NOVA=required to the groups of '
                'its flavor. Provider: ',
            ),
        )


def _check_amounts(
    instance_uuid: str,
    granted: Iterable[tuple[SlotProvider, str, int]],
    requested: Mapping[str, int],
    required: Mapping[str, int],
) -> None:
    """Verify that an instance has as many slots as its flavor asks for.

    :param requested: The amounts of all classes that the flavor asks for.
    :param required: The amounts among them that slots of this host must meet.
    """
    amounts: dict[str, int] = {}
    for provider, resource_class, amount in granted:
        amounts[resource_class] = amounts.get(resource_class, 0) + amount
        if amount > 1:
            raise exception.ClaimFailed(
                instance_uuid=instance_uuid,
                reason=f'provider {provider.uuid} of slot '
                f'{slots.format_drc_index(provider.drc_index)} is allocated '
                f'{amount} times; a slot is one device',
            )
    for resource_class in sorted({*required, *amounts}):
        due = requested.get(resource_class, 0)
        allocated = amounts.get(resource_class, 0)
        if allocated != due:
            raise exception.ClaimFailed(
                instance_uuid=instance_uuid,
                reason=f'its flavor asks for {due} {resource_class} but '
                f'{allocated} of its allocations are slots of this host',
            )
