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

"""What flavors say of devices: their groups, and how they are made."""

import dataclasses
import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies

#: Needed as soon as there are two groups. Slots have one unit each, so no two
#: groups can get the same one, whatever the policy.
GROUP_POLICY = 'group_policy'
REQUIRED = 'required'

# Nova's syntax, with the suffix that names a group.
_KEY = re.compile(r'(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)', re.DOTALL)
# What tells a slot from others of its host, not devices from each other.
_PLACES = ('drc_index', 'drc_name')


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorGroup:
    """One group of a flavor's extra specs.

    :param suffix: What stands behind ``resources``; empty in the group
        without a number.
    :param resources: Resource class to amount, as the flavor has it.
    :param traits: Trait to ``required`` or ``forbidden``.
    """

    suffix: str
    resources: Mapping[str, str]
    traits: Mapping[str, str]

    @property
    def required(self) -> frozenset[str]:
        """The traits that a provider has to have."""
        return frozenset(t for t, v in self.traits.items() if v == REQUIRED)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A kind of device that a flavor shall ask for.

    :param resource_class: Class of its provider's inventory.
    :param traits: Traits that tell it from other devices of the class.
    """

    resource_class: str
    traits: frozenset[str]


def read_groups(extra_specs: Mapping[str, str]) -> tuple[FlavorGroup, ...]:
    """Read the groups as Nova reads them.

    :param extra_specs: Of a flavor.
    :returns: In the order in which the flavor first names them. What Nova
        does not take for a part of a group is left out.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for key, value in extra_specs.items():
        match = _KEY.fullmatch(key)
        if match:
            kind, suffix, name = match.groups(default='')
            parts = found.setdefault(suffix, {'resources': {}, 'trait': {}})
            parts[kind][name] = value
    return tuple(
        FlavorGroup(suffix, parts['resources'], parts['trait'])
        for suffix, parts in found.items()
    )


def request_for_paragraph(
    policy: policies.Policy, name: str, device: str | None = None
) -> DeviceRequest:
    """Say how a flavor asks for the devices of a paragraph.

    Traits are taken from values without wildcards. Those that name a place
    in one host are left out: a flavor is for many hosts.

    :param policy: The inventory file.
    :param name: The paragraph's.
    :param device: Vendor and device id as ``10DE:1DB6``, for one kind of
        device of a paragraph that takes several.
    :raises exception.ConfigurationError: There is no such paragraph, or it
        does not offer such devices.
    """
    paragraph = next((p for p in policy.paragraphs if p.name == name), None)
    if paragraph is None or not paragraph.allow:
        offering = ', '.join(p.name for p in policy.paragraphs if p.allow)
        raise exception.ConfigurationError(
            reason=f"{policy.source} has no paragraph '{name}' that offers "
            f'devices; there are: {offering or "none"}'
        )
    ids = _ids(device) if device else {}
    if not _takes(paragraph, ids):
        raise exception.ConfigurationError(
            reason=f'{paragraph} of {policy.source} does not take devices '
            f'{device}'
        )
    exact = {
        key: value
        for key, value in paragraph.identification.items()
        if key not in _PLACES and not policies.has_wildcard(value)
    }
    return DeviceRequest(
        paragraph.resource_class,
        frozenset(paragraph.traits)
        | {names.property_trait(k, v) for k, v in {**exact, **ids}.items()},
    )


def request_for_device(policy: policies.Policy, device: str) -> DeviceRequest:
    """Say how a flavor asks for devices with a vendor and device id.

    :param policy: The inventory file, which gives them their class.
    :param device: As ``10DE:1DB6``.
    :raises exception.ConfigurationError: The ids are no ids, or not exactly
        one paragraph can take such devices.
    """
    ids = _ids(device)
    taking = [p for p in policy.paragraphs if p.allow and _takes(p, ids)]
    if not taking:
        raise exception.ConfigurationError(
            reason=f'no paragraph of {policy.source} takes devices {device}. '
            'Add one, or look at the ids with "nova-powervm-inventory show"'
        )
    classes = sorted({p.resource_class for p in taking})
    if len(classes) > 1:
        raise exception.ConfigurationError(
            reason=f'devices {device} can be of the classes '
            f'{" and ".join(classes)}, by {" and ".join(map(str, taking))} '
            f'of {policy.source}. Say which with --paragraph, too'
        )
    return DeviceRequest(
        classes[0],
        frozenset(names.property_trait(k, v) for k, v in ids.items()),
    )


def _ids(device: str) -> dict[str, str]:
    vendor, colon, model = device.partition(':')
    ids = {'vendor_id': vendor.upper(), 'device_id': model.upper()}
    for key, value in ids.items():
        problem = policies.problem_with_value(key, value)
        if not colon or problem or policies.has_wildcard(value):
            raise exception.ConfigurationError(
                reason=f"'{device}' is not a vendor and a device id of four "
                'hexadecimal digits each, as in 10DE:1DB6'
            )
    return ids


def _takes(paragraph: policies.Paragraph, ids: Mapping[str, str]) -> bool:
    """Whether a paragraph can identify a device with these ids."""
    return all(
        policies.value_matches(paragraph.identification[key], value)
        for key, value in ids.items()
        if key in paragraph.identification
    )


def make_extra_specs(requests: Sequence[DeviceRequest]) -> dict[str, str]:
    """Make the extra specs that ask for one device for each request.

    Each device is a group of its own: nothing is added up over providers.

    :param requests: In the order of their groups.
    """
    made: dict[str, str] = {}
    for number, request in enumerate(requests, start=1):
        made[f'resources{number}:{request.resource_class}'] = '1'
        for trait in sorted(request.traits):
            made[f'trait{number}:{trait}'] = REQUIRED
        made[f'trait{number}:{names.OWNER_TRAIT}'] = REQUIRED
    if len(requests) > 1:
        made[GROUP_POLICY] = 'none'
    return made


def find_conflicting_keys(
    existing: Mapping[str, str], wanted: Mapping[str, str]
) -> tuple[str, ...]:
    """Find what a flavor has already that would join or change the groups.

    :param existing: The flavor's extra specs.
    :param wanted: Those that are to be set.
    :returns: Keys, sorted.
    """
    ours = _keys_of_groups(existing)
    return tuple(sorted(k for k in ours if existing[k] != wanted.get(k)))


def _keys_of_groups(extra_specs: Mapping[str, str]) -> Iterable[str]:
    for key in extra_specs:
        match = _KEY.fullmatch(key)
        if key == GROUP_POLICY or (match and match.group(2)):
            yield key
