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

"""Request groups for devices in the extra specs of flavors."""

import dataclasses
import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies

#: Required with two or more groups. Slots have one unit each, so two groups
#: can't get the same slot with any policy.
GROUP_POLICY = 'group_policy'
REQUIRED = 'required'

# Nova's syntax of keys, with the suffix of the group.
_KEY = re.compile(r'(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)', re.DOTALL)
# Properties that identify a slot of one host, not a type of device.
_PLACES = ('drc_index', 'drc_name')


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor, as far as known.

    :param extra_specs: Its extra specs.
    :param memory_mb: Its memory in MiB.
    :param vcpus: Its vCPUs.
    """

    extra_specs: Mapping[str, str]
    memory_mb: int | None = None
    vcpus: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A request group in the extra specs of a flavor.

    :param suffix: Suffix of the keys; empty for the unnumbered group.
    :param resources: Resource class to amount, as in the flavor.
    :param traits: Trait to ``required`` or ``forbidden``.
    """

    suffix: str
    resources: Mapping[str, str]
    traits: Mapping[str, str]

    @property
    def required(self) -> frozenset[str]:
        """Traits that a provider must have."""
        return frozenset(t for t, v in self.traits.items() if v == REQUIRED)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request for one device in a flavor.

    :param resource_class: Resource class of the device.
    :param traits: Required traits.
    """

    resource_class: str
    traits: frozenset[str]


def read_groups(extra_specs: Mapping[str, str]) -> tuple[Group, ...]:
    """Read the request groups in the same way as Nova.

    :returns: The groups, in the order in which they first appear. Keys that
        Nova ignores are left out.
    """
    groups: dict[str, dict[str, dict[str, str]]] = {}
    for key, value in extra_specs.items():
        match = _KEY.fullmatch(key)
        if match:
            kind, suffix, name = match.groups(default='')
            parts = groups.setdefault(suffix, {'resources': {}, 'trait': {}})
            parts[kind][name] = value
    return tuple(
        Group(suffix, parts['resources'], parts['trait'])
        for suffix, parts in groups.items()
    )


def request_for_paragraph(
    policy: policies.Policy, name: str, device: str | None = None
) -> DeviceRequest:
    """Create the request for a device of a paragraph.

    The traits are generated from the values without wildcards. Locations are
    left out, because a flavor applies to many hosts.

    :param device: Vendor and device ID such as ``10DE:1DB6``, to choose a type
        of device if the paragraph identifies several.
    :raises exception.ConfigurationError: The paragraph does not exist, or does
        not offer such devices.
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
            reason=f'{paragraph} of {policy.source} does not match devices '
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
    """Create the request for a device with a vendor and device ID.

    :param device: Vendor and device ID such as ``10DE:1DB6``.
    :raises exception.ConfigurationError: The IDs are invalid, or the matching
        paragraphs do not have exactly one resource class.
    """
    ids = _ids(device)
    taking = [p for p in policy.paragraphs if p.allow and _takes(p, ids)]
    if not taking:
        raise exception.ConfigurationError(
            reason=f'no paragraph of {policy.source} matches devices '
            f'{device}. Add one, or check the IDs with '
            '"nova-powervm-inventory show"'
        )
    classes = sorted({p.resource_class for p in taking})
    if len(classes) > 1:
        raise exception.ConfigurationError(
            reason=f'devices {device} can have the classes '
            f'{" and ".join(classes)}, by {" and ".join(map(str, taking))} '
            f'of {policy.source}. Choose one with --paragraph'
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
                reason=f"'{device}' is not a vendor and a device ID of four "
                'hexadecimal digits each, as in 10DE:1DB6'
            )
    return ids


def _takes(paragraph: policies.Paragraph, ids: Mapping[str, str]) -> bool:
    """Return whether a paragraph can match a device with these IDs."""
    return all(
        policies.value_matches(paragraph.identification[key], value)
        for key, value in ids.items()
        if key in paragraph.identification
    )


def make_extra_specs(requests: Sequence[DeviceRequest]) -> dict[str, str]:
    """Create extra specs with a numbered group for each request.

    Each device needs a group of its own, because Placement takes all resources
    of a group from one provider.

    :param requests: The requests, in the order of their groups.
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
    """Find existing extra specs that would add to or change the groups.

    :returns: Keys, sorted.
    """
    return tuple(
        sorted(
            key
            for key, value in existing.items()
            if value != wanted.get(key)
            and (
                key == GROUP_POLICY
                or ((match := _KEY.fullmatch(key)) and match.group(2))
            )
        )
    )


def parse_pairs(lines: Iterable[str]) -> dict[str, str]:
    """Parse extra specs of the form KEY=VALUE.

    :raises exception.ConfigurationError: One has another form.
    """
    pairs = {}
    for line in lines:
        key, equals, value = line.strip().partition('=')
        if not equals or not key:
            raise exception.ConfigurationError(
                reason=f"'{line.strip()}' does not have the form KEY=VALUE"
            )
        pairs[key] = value
    return pairs
