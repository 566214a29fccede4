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

"""One-time-use devices: which are burned, which stay burned, and by whom.

A device is *burned* when the whole inventory of its provider is reserved. This
is recorded in Placement only (specification "One-time-use devices"). The burn
is a single step, :meth:`nova_powervm.ops.claiming.BurnOps.burn`, just before
the write that gives the slot to an LPAR (``ops/apply.py``). A plan only
repairs a missing burn: a slot that an LPAR of an instance owns has been used.
Only an operator releases a device. A device has one holder at a time, so its
last holder has burned it.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping

from nova_powervm.devices import claims
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers


def select_claims(
    claimed: Iterable[claims.Claim], one_time_use: Collection[int]
) -> list[claims.Claim]:
    """Select the claims whose devices are burned before use.

    Cyborg takes care of the devices of accelerator requests.

    :param claimed: Claims of one instance.
    :param one_time_use: DRC indexes of the host's one-time-use devices.
    """
    return [
        claim
        for claim in claimed
        if claim.source is claims.Source.COMPUTE
        and claim.drc_index in one_time_use
    ]


def expand_to_duplicates(
    burning: Iterable[claims.Claim],
    providers: Mapping[str, claims.SlotProvider],
) -> list[claims.Claim]:
    """Add the other providers of the slots to burn.

    A slot can have two providers, if one bears the specification's short name.
    Both must show that the device was used. A provider without inventory
    offers nothing and is left out.

    :param burning: Claims from :func:`select_claims`.
    :param providers: Uuid to each slot provider of the host.
    """
    claimed = {claim.provider_uuid: claim for claim in burning}
    indexes = {claim.drc_index for claim in claimed.values()}
    duplicates = [
        provider.claim
        for uuid, provider in providers.items()
        if provider.drc_index in indexes
        and uuid not in claimed
        and provider.resource_classes
    ]
    return [*claimed.values(), *duplicates]


def find_devices(verdicts: Iterable[matching.Verdict]) -> frozenset[int]:
    """Return the DRC indexes of one-time-use devices, offered or not."""
    return frozenset(v.slot.drc_index for v in verdicts if v.one_time_use)


def find_used(
    devices: Collection[int],
    held: Collection[int],
    orphans: Iterable[slot_providers.Provider],
    allocations: slot_providers.Allocations,
) -> frozenset[int]:
    """Find the one-time-use devices that have been used.

    If one of a slot's two providers shows the use, it counts for both.

    :param devices: DRC indexes from :func:`find_devices`.
    :param held: DRC indexes of the slots that LPARs of instances own.
    :param orphans: Providers of devices that are not offered.
    :param allocations: The allocations of the orphans.
    """
    reserved = slots_where(orphans, allocations.is_reserved)
    return frozenset(devices) & {*held, *reserved}


def drop_stale_trait(
    device: matching.Device, provider: slot_providers.Provider
) -> slot_providers.Provider:
    """Remove the one-time-use trait unless the file or a burn requires it."""
    if device.one_time_use or provider.reserved:
        return provider
    return dataclasses.replace(
        provider, traits=provider.traits - {names.ONE_TIME_USE_TRAIT}
    )


def kept_trait(provider: slot_providers.Provider) -> frozenset[str]:
    """Return the one-time-use trait that a burned device keeps, if any."""
    if not provider.reserved:
        return frozenset()
    return frozenset({names.ONE_TIME_USE_TRAIT}) & provider.traits


def slots_where(
    providers: Iterable[slot_providers.Provider],
    condition: Callable[[slot_providers.Provider], bool],
) -> frozenset[int]:
    """Return the DRC indexes of the providers that satisfy a predicate."""
    indexes = (
        names.slot_of_provider(provider.name)
        for provider in providers
        if condition(provider)
    )
    return frozenset(index for index in indexes if index is not None)


#: Stands for the id of a project that is not known.
UNKNOWN = 'unknown'
#: Seconds that the clocks of Nova and of Placement may be apart.
_SKEW = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """An instance, live or deleted, and the devices that it had last.

    Times are in seconds since 1970.

    :param instance_uuid: The instance's uuid.
    :param project: The id of its project.
    :param providers: The uuids of the providers of its devices.
    :param since: When it began to run with these devices; if it never ran,
        when it was created.
    :param until: When it was deleted; None if it was not.
    :param has_run: Whether it ever ran.
    """

    instance_uuid: str
    project: str
    providers: frozenset[str]
    since: float
    until: float | None = None
    has_run: bool = True


def find_last(
    holders: Iterable[Holder], providers: Collection[str]
) -> dict[str, Holder]:
    """Find the last holder of each provider.

    :param providers: The uuids of the providers.
    :returns: Provider uuid to holder, without providers that had no holder.
    """
    last: dict[str, Holder] = {}
    for holder in holders:
        for uuid in holder.providers.intersection(providers):
            if uuid not in last or last[uuid].since < holder.since:
                last[uuid] = holder
    return last


def name_project(
    holder: Holder | None, reserved_at: float | None = None
) -> str:
    """Return the project that has burned a device, or :data:`UNKNOWN`.

    A device that was reserved after its last holder had been deleted was not
    burned by this holder: an operator reserved it, or put it in quarantine.

    :param holder: The last holder; None if it is unknown.
    :param reserved_at: When its inventory was written, in seconds since 1970;
        None if unknown.
    """
    if holder is None:
        return UNKNOWN
    if holder.until and reserved_at and reserved_at > holder.until + _SKEW:
        return UNKNOWN
    return holder.project
