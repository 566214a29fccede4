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

"""Checks of device profiles, and of the flavors that name them.

Cyborg accepts all of these mistakes. They show as servers that get a device of
Nova's, or one device of several, and whose build the driver then refuses.
"""

import dataclasses
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

import os_traits

from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors

_MARK = f'trait:{names.CYBORG_TRAIT}'
_MISSPELLED = re.compile(r'(accel(erator)?[:_-]?)?device[_-]?profile(_name)?')
_Finding = flavor_lint.Finding
_CYBORGS = {names.CYBORG_TRAIT, os_traits.OWNER_CYBORG}


@dataclasses.dataclass(frozen=True, slots=True)
class CyborgOffers:
    """Device profiles, and the slots that they can get.

    :param profiles: Name to device profile.
    :param slots: The deployables that are slots of PowerVM hosts.
    """

    profiles: Mapping[str, cyborg_slots.Profile]
    slots: tuple[cyborg_slots.Deployable, ...] = ()

    @property
    def classes(self) -> frozenset[str]:
        """The resource classes of the slots."""
        return frozenset(
            slot.resource_class for slot in self.slots if slot.resource_class
        )


def make_offers(
    profiles: Iterable[cyborg_slots.Profile],
    deployables: Iterable[cyborg_slots.Deployable],
) -> CyborgOffers:
    """Bring together what Cyborg tells."""
    return CyborgOffers(
        {profile.name: profile for profile in profiles},
        tuple(each for each in deployables if each.is_slot),
    )


def as_extra_specs(profile: cyborg_slots.Profile) -> Mapping[str, str]:
    """Return the extra specs of a flavor that requests the same.

    The suffix of a group is its position in the profile, from 0.
    """
    return {
        key.replace(':', f'{number}:', 1): str(value)
        for number, group in enumerate(profile.groups)
        for key, value in group.items()
    }


def lint_profile(
    profile: cyborg_slots.Profile,
    offers: flavor_lint.DeviceOffers,
    cyborg: CyborgOffers,
) -> tuple[_Finding, ...]:
    """Find all mistakes in a device profile.

    :param profile: The profile. Groups for devices of other drivers are left
        out.
    """
    ours = offers.classes | cyborg.classes
    findings = [
        finding
        for group in flavors.read_groups(as_extra_specs(profile))
        if names.CYBORG_TRAIT in group.required or ours & set(group.resources)
        for finding in _lint_group(group, offers, cyborg)
    ]
    return flavor_lint.errors_first(findings)


def _lint_group(
    group: flavors.Group,
    offers: flavor_lint.DeviceOffers,
    cyborg: CyborgOffers,
) -> Iterator[_Finding]:
    if names.CYBORG_TRAIT not in group.required:
        yield _without_mark(group, offers)
    yield from _amounts(group)
    if not any(_is_met(group, slot) for slot in cyborg.slots):
        yield flavor_lint.warning(
            f'groups[{group.suffix}]',
            'no slot that Cyborg has on a PowerVM host has this class and all '
            'of these traits',
            "slots of Cyborg's have the classes: "
            f'{", ".join(sorted(cyborg.classes)) or "none"}; compare the '
            'traits with "openstack accelerator deployable list"',
        )


def _is_met(group: flavors.Group, slot: cyborg_slots.Deployable) -> bool:
    """Return whether a slot has the class and the traits of a group.

    Whether it bears the mark changes with who uses it.
    """
    return set(group.resources) == {slot.resource_class} and (
        group.required - _CYBORGS <= slot.traits
    )


def _without_mark(
    group: flavors.Group, offers: flavor_lint.DeviceOffers
) -> _Finding:
    shared = sorted(offers.classes & set(group.resources))
    key = f'groups[{group.suffix}]: {_MARK}'
    hint = f'create the profile anew with "{_MARK}": "required"'
    if shared:
        return flavor_lint.error(
            key,
            f'missing, and Nova has devices of class {", ".join(shared)}: a '
            'server may get one of these, and the build fails',
            hint,
        )
    return flavor_lint.warning(
        key,
        'missing: a server may get a slot that is withheld from Cyborg, or a '
        "device of Nova's as soon as Nova has one of this class",
        hint,
    )


def _amounts(group: flavors.Group) -> Iterator[_Finding]:
    if len(group.resources) > 1:
        yield flavor_lint.error(
            f'groups[{group.suffix}]',
            f'requests {" and ".join(sorted(group.resources))} of one '
            'provider, but each slot has one class',
            'use a group for each class',
        )
    for name, amount in group.resources.items():
        if amount != '1':
            yield flavor_lint.error(
                f'groups[{group.suffix}]: resources:{name}',
                f'{amount} instead of 1: Cyborg binds all requests of a group '
                'to one provider, and each slot is a provider with one unit',
                f'use several groups with "resources:{name}": "1"',
            )


def lint_flavor(
    extra_specs: Mapping[str, str],
    offers: flavor_lint.DeviceOffers,
    cyborg: CyborgOffers,
) -> tuple[_Finding, ...]:
    """Find the mistakes in a flavor that Cyborg's records show."""
    findings = [
        *_misspelled(extra_specs),
        *_profile(extra_specs, cyborg),
        *(
            finding
            for group in flavors.read_groups(extra_specs)
            for finding in _requests_of_nova(group, offers, cyborg)
        ),
    ]
    return flavor_lint.errors_first(findings)


def _misspelled(extra_specs: Mapping[str, str]) -> Iterator[_Finding]:
    """Find spellings outside of Nova's namespace accel, which is checked."""
    for key, value in extra_specs.items():
        if not key.startswith('accel:') and _MISSPELLED.fullmatch(key.lower()):
            yield flavor_lint.error(
                key,
                'Nova ignores it, so servers get no accelerator',
                f'write {accelerators.PROFILE}={value}',
            )


def _profile(
    extra_specs: Mapping[str, str], cyborg: CyborgOffers
) -> Iterator[_Finding]:
    name = extra_specs.get(accelerators.PROFILE)
    if name is None:
        return
    profile = cyborg.profiles.get(name)
    if profile is None:
        known = ', '.join(sorted(cyborg.profiles)) or 'none'
        yield flavor_lint.error(
            accelerators.PROFILE,
            f"Cyborg has no device profile '{name}', so no server can be "
            'built',
            f'there are: {known}',
        )
        return
    numbered = [
        group
        for group in flavors.read_groups(extra_specs)
        if group.suffix and group.resources
    ]
    # The flavor's own groups alone are checked without Cyborg.
    if (
        len(numbered) < 2 <= len(numbered) + len(profile.groups)
        and flavors.GROUP_POLICY not in extra_specs
    ):
        yield flavor_lint.error(
            flavors.GROUP_POLICY,
            f'missing; the flavor has {len(numbered)} group(s), its device '
            f"profile '{name}' {len(profile.groups)}, and Placement refuses "
            'two or more groups without it',
            'add group_policy=none or group_policy=isolate',
        )


def _requests_of_nova(
    group: flavors.Group,
    offers: flavor_lint.DeviceOffers,
    cyborg: CyborgOffers,
) -> Iterator[_Finding]:
    """Find groups that ask Nova for slots of Cyborg's."""
    marks = sorted(group.required & _CYBORGS)
    classes = sorted(set(group.resources) & cyborg.classes & offers.foreign)
    if marks:
        key = f'trait{group.suffix}:{marks[0]}'
    elif classes:
        key = f'resources{group.suffix}:{classes[0]}'
    else:
        return
    yield flavor_lint.error(
        key,
        "requests a slot of Cyborg's without a device profile: the server "
        'would have no accelerator request for it, and the build fails',
        f'remove the group, and set {accelerators.PROFILE}',
    )
