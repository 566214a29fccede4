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

"""Checks of the extra specs of flavors that request slots.

Nova's API accepts most of these mistakes. Without a check, they show only as
"No valid host" or as an instance without its device.
"""

import dataclasses
import enum
import math
import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from nova_powervm.devices import accelerators
from nova_powervm.devices import card_ids
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.lpar import supported_features
from nova_powervm.tool.rules import flavors

#: Number of equal devices on a host from which on some flavors are slow.
MANY_DEVICES = 8
#: Candidates of each host that leave the scheduler's filter a choice.
FEWEST_OF_HOST = 4
_CANDIDATES_OF_HOST = 8
# Nova's own limit, which is enough for small clouds.
_LEAST_CANDIDATES = 1000
# What a candidate costs Placement (measured by "tests.benchmark scale"): these
# seconds, twice as many with each group of the flavor, and kilobytes.
_SECONDS = 4.2e-6
_KILOBYTES = 1.8
# Seconds that are worth a warning.
_SLOW_SECONDS = 2
# A large host, for devices that are not known.
_LARGE = 256
# Equal groups that are fast enough wherever the devices are not known.
_FEW_GROUPS = 2
_NEAR_KEY = re.compile(r'(traits|resource(?!s))([a-zA-Z0-9_-]{0,63}):(.*)')
_PRODUCT = 'CUSTOM_POWERVM_IOSLOT_PRODUCT_ID_'
_DEVICE = 'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_'
_SLOT = 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_'
_OWNERS = re.compile('OWNER_.*')


class Severity(enum.StrEnum):
    """Severity of a finding."""

    #: No instance of the flavor can be built with its devices.
    ERROR = 'error'
    #: The flavor may work, but not always as intended.
    WARNING = 'warning'
    #: It works as intended; what that costs.
    NOTE = 'note'


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a flavor.

    :param severity: Its severity.
    :param key: Key of the extra spec.
    :param problem: What is wrong.
    :param hint: The remedy.
    """

    severity: Severity
    key: str
    problem: str
    hint: str


def error(key: str, problem: str, hint: str) -> Finding:
    """Return a finding for which no instance gets its devices."""
    return Finding(Severity.ERROR, key, problem, hint)


def warning(key: str, problem: str, hint: str) -> Finding:
    """Return a finding that may be intended."""
    return Finding(Severity.WARNING, key, problem, hint)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceOffers:
    """Devices that flavors can request, as far as known.

    :param classes: Resource classes of slots.
    :param traits: Traits of slot providers; None if unknown.
    :param devices: Devices of one host; None if no host was read.
    :param foreign: Classes whose providers are not slot providers.
    :param used_up: Existing classes without a free unit.
    :param whole: Whether the whole cloud was read, not only one host.
    :param source: Name of the source, for messages.
    :param cyborgs: Classes of the slots that Cyborg has, as far as known.
    :param burning: Classes of one-time-use devices.
    :param publishes_locations: Whether the configuration lets providers have
        traits for the location codes of their slots.
    :param free: Number of free devices on each host that has any, of those
        that fit a request; empty if unknown.
    """

    classes: frozenset[str]
    traits: frozenset[str] | None = None
    devices: tuple[flavors.DeviceRequest, ...] | None = None
    foreign: frozenset[str] = frozenset()
    used_up: frozenset[str] = frozenset()
    whole: bool = False
    source: str = 'the inventory file'
    cyborgs: frozenset[str] = frozenset()
    burning: frozenset[str] = frozenset()
    publishes_locations: bool = True
    free: Mapping[flavors.DeviceRequest, tuple[int, ...]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def doubt(self) -> Severity:
        """Severity of a request for something without a known offer."""
        return Severity.ERROR if self.whole else Severity.WARNING


def offers_of_file(policy: policies.Policy) -> DeviceOffers:
    """Return the classes that the inventory file offers.

    The file alone does not tell the traits of devices.
    """
    return DeviceOffers(
        policy.resource_classes,
        source=policy.source,
        burning=frozenset(
            paragraph.resource_class
            for paragraph in policy.paragraphs
            if paragraph.allow and paragraph.one_time_use
        ),
    )


def lint_flavor(
    extra_specs: Mapping[str, str], offers: DeviceOffers
) -> tuple[Finding, ...]:
    """Find all mistakes in a flavor.

    :param extra_specs: Extra specs of the flavor. If it requests no device,
        only extra specs that the driver refuses are reported, because the
        flavor may be meant for other hosts.
    :returns: Findings, errors first, in the order of the extra specs.
    """
    groups = flavors.read_groups(extra_specs)
    devices = [g for g in groups if _asks_for_devices(g, offers)]
    findings = [
        *_near_keys(extra_specs, groups),
        *_policy(extra_specs, groups),
        *(f for group in devices for f in _group(group, offers)),
        *_explosion(devices, offers),
        *_promises(extra_specs, bool(devices)),
    ]
    return errors_first(findings)


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by their severity."""
    return tuple(sorted(findings, key=lambda f: f.severity != Severity.ERROR))


def _asks_for_devices(group: flavors.Group, offers: DeviceOffers) -> bool:
    """Return whether a group requests slots, or may be meant to.

    Other services use numbered groups and custom classes, too.
    """
    return any(rc in offers.classes for rc in group.resources) or any(
        policies.may_be_device(rc) and rc not in offers.foreign
        for rc in group.resources
    )


def _near_keys(
    extra_specs: Mapping[str, str], groups: Sequence[flavors.Group]
) -> Iterator[Finding]:
    meant = {group.suffix for group in groups if group.resources}
    for key in extra_specs:
        match = _NEAR_KEY.fullmatch(key)
        if not match:
            continue
        word, suffix, name = match.groups()
        if word == 'traits' and f's{suffix}' in meant:
            # A group may well have a name that begins with s.
            continue
        right = {'traits': 'trait', 'resource': 'resources'}[word]
        meaning = (
            f"a group named 's{suffix}', which asks for nothing"
            if word == 'traits'
            else 'nothing at all'
        )
        yield error(
            key,
            f'Nova takes "{word}{suffix}" for {meaning}',
            f'write {right}{suffix}:{name.replace(_PRODUCT, _DEVICE)}',
        )


def _policy(
    extra_specs: Mapping[str, str], groups: Sequence[flavors.Group]
) -> Iterator[Finding]:
    numbered = [g for g in groups if g.suffix and g.resources]
    value = extra_specs.get(flavors.GROUP_POLICY)
    if value is None and len(numbered) > 1:
        yield error(
            flavors.GROUP_POLICY,
            f'missing; the flavor has {len(numbered)} groups, and Placement '
            'refuses two or more groups without it',
            'add group_policy=none or group_policy=isolate',
        )
    elif value not in (None, 'none', 'isolate'):
        yield error(
            flavors.GROUP_POLICY,
            f"'{value}' is not a policy, so Nova ignores it",
            'write group_policy=none or group_policy=isolate',
        )


def _group(group: flavors.Group, offers: DeviceOffers) -> Iterator[Finding]:
    for name, amount in group.resources.items():
        yield from _resource(group, name, amount, offers)
    for name, value in group.traits.items():
        yield from _trait(group, name, value, offers)
    if group.suffix:
        yield from _whole_group(group, offers)


def _resource(
    group: flavors.Group, name: str, amount: str, offers: DeviceOffers
) -> Iterator[Finding]:
    key = f'resources{group.suffix}:{name}'
    if not policies.may_be_device(name) and name not in offers.classes:
        return
    if name in offers.used_up:
        yield warning(
            key,
            f'{offers.source} has no free device of class {name}',
            'no server of this flavor can be built until one becomes free',
        )
    elif name not in offers.classes:
        yield Finding(
            offers.doubt,
            key,
            f'{offers.source} offers no device of class {name}',
            f'there are: {", ".join(sorted(offers.classes)) or "none"}',
        )
    if amount.isdecimal() and int(amount) > 1:
        yield error(
            key,
            f'requests {amount} units of one provider, but each slot is a '
            'provider with one unit',
            f'write {amount} groups: resources1:{name}=1, '
            f'resources2:{name}=1, …',
        )
    if not group.suffix:
        yield warning(
            key,
            'the group has no number, so its traits apply to the host as well '
            'as to the device, and it cannot request a second device',
            f'write resources1:{name}=1 and trait1:… for its traits',
        )
    if name in offers.burning:
        yield Finding(
            Severity.NOTE,
            key,
            'a device of this class may be for one-time use: each build, move '
            'and unshelve of a server burns another one',
            'release devices after cleaning; stop servers instead of shelving '
            'them',
        )


def _trait(
    group: flavors.Group, name: str, value: str, offers: DeviceOffers
) -> Iterator[Finding]:
    key = f'trait{group.suffix}:{name}'
    is_location = bool(card_ids.select_place([name]))
    if name.startswith(_PRODUCT):
        right = name.replace(_PRODUCT, _DEVICE)
        yield error(
            key,
            'no provider has it: the trait of a device ID contains DEVICE_ID',
            f'write trait{group.suffix}:{right}={value}',
        )
    elif value not in (flavors.REQUIRED, 'forbidden'):
        yield error(
            key,
            f"'{value}' is not a value that Nova knows",
            'write required or forbidden',
        )
    elif (
        group.suffix
        and value == flavors.REQUIRED
        and offers.traits is not None
        and name not in offers.traits
        and name != names.OWNER_TRAIT
    ):
        yield Finding(
            offers.doubt,
            key,
            f'{offers.source} has no device with this trait',
            _without_location(group)
            if is_location
            else '"nova-powervm-inventory show" lists the traits of each slot',
        )
    elif is_location and not offers.publishes_locations:
        yield warning(
            key,
            'nova-compute does not publish locations, by '
            '[powervm]publish_location_traits',
            _without_location(group),
        )


def _without_location(group: flavors.Group) -> str:
    """Say how to name a slot on hosts that do not publish locations."""
    return (
        'hosts with [powervm]publish_location_traits = false do not have it: '
        f'write trait{group.suffix}:{_SLOT}… or a trait of the inventory file'
    )


def _whole_group(
    group: flavors.Group, offers: DeviceOffers
) -> Iterator[Finding]:
    owners = [t for t in group.required if _OWNERS.fullmatch(t)]
    if not owners:
        yield _without_owner(group, offers)
    known = group.required <= (offers.traits or frozenset()) | set(owners)
    if (
        offers.devices is not None
        and known
        and set(group.resources) <= offers.classes
        and not any(
            set(group.resources) == {device.resource_class}
            and group.required <= device.traits
            for device in offers.devices
        )
    ):
        yield warning(
            f'resources{group.suffix}:{"+".join(group.resources)}',
            'no device of this host has this class and all of these traits',
            'compare with "nova-powervm-inventory show"; another host may '
            'have one',
        )


def _without_owner(group: flavors.Group, offers: DeviceOffers) -> Finding:
    shared = sorted(offers.cyborgs & set(group.resources))
    problem = (
        f'missing, and Cyborg has slots of class {", ".join(shared)}: the '
        'group may get one of these, and the build fails'
        if shared
        else 'missing; the group may get a device of Cyborg or of another '
        'service, for which the build fails'
    )
    return Finding(
        Severity.ERROR if shared else Severity.WARNING,
        f'trait{group.suffix}:{names.OWNER_TRAIT}',
        problem,
        f'add trait{group.suffix}:{names.OWNER_TRAIT}=required',
    )


def find_repeated(
    groups: Iterable[flavors.Group],
) -> dict[flavors.DeviceRequest, int]:
    """Return the requests that several groups make, and their number."""
    kinds = Counter(
        flavors.DeviceRequest(next(iter(group.resources)), group.required)
        for group in groups
        if group.suffix and group.resources
    )
    return {kind: number for kind, number in kinds.items() if number > 1}


def _explosion(
    groups: Sequence[flavors.Group], offers: DeviceOffers
) -> Iterator[Finding]:
    """Find equal groups that Placement can satisfy in very many ways."""
    for kind, number in find_repeated(groups).items():
        free = offers.free.get(kind, ())
        # Those in use are free at other times.
        fitting = max(_count_fitting(kind, offers), *free, 0)
        cost = Explosion(number, fitting or _LARGE, len(free) or 1)
        if cost.seconds >= _SLOW_SECONDS and (fitting or number > _FEW_GROUPS):
            where = f' and {fitting} devices that fit on {cost.place}'
            doubt = (
                f' and each host with {_LARGE} such devices; --cloud counts'
            )
            yield warning(
                f'resources*:{kind.resource_class}',
                f'{number} equal groups{where if fitting else ""} take '
                f'Placement {cost} for each server'
                f'{"" if fitting else doubt}',
                f'set {describe_options(len(free))}; if they are set, ignore '
                'this warning',
            )


def _count_fitting(kind: flavors.DeviceRequest, offers: DeviceOffers) -> int:
    return sum(
        device.resource_class == kind.resource_class
        and kind.traits <= device.traits
        for device in offers.devices or ()
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Explosion:
    """Estimated cost of the candidates for a server, if nothing limits them.

    On each host, there are as many as there are ways to assign the devices
    that fit to equal groups.

    :param groups: Equal groups of the flavor.
    :param devices: Devices on a host that fit.
    :param hosts: Hosts with such devices.
    """

    groups: int
    devices: int
    hosts: int

    @property
    def candidates(self) -> int:
        """How many candidates Placement builds."""
        return self.hosts * math.perm(self.devices, self.groups)

    @property
    def seconds(self) -> float:
        """Time of the processor."""
        return self.candidates * _SECONDS * math.pow(2, self.groups)

    @property
    def megabytes(self) -> float:
        """Memory that a process of Placement needs."""
        return self.candidates * _KILOBYTES / 1000

    @property
    def place(self) -> str:
        """The hosts in words."""
        return f'each of {self.hosts} hosts' if self.hosts > 1 else 'one host'

    def __str__(self) -> str:
        seconds, size = round(self.seconds), self.megabytes
        memory = f'{size:.0f} MB' if size < 1000 else f'{size / 1000:.2g} GB'
        if seconds < 120:
            return f'about {seconds} s and {memory}'
        if seconds < 7200:
            return f'about {seconds // 60} minutes and {memory}'
        return 'many hours and all memory'


def max_candidates(hosts: int) -> int:
    """Return how many candidates Placement should build, and Nova ask for.

    Fewer than there are hosts hide hosts; as many as there are hosts leave the
    scheduler's filter one device of each.

    :param hosts: Hosts with devices.
    """
    return max(_LEAST_CANDIDATES, _CANDIDATES_OF_HOST * hosts)


def describe_options(hosts: int) -> str:
    """Return in words the options that limit the candidates.

    :param hosts: Hosts with devices; 0 if unknown.
    """
    most = (
        str(max_candidates(hosts))
        if hosts
        else f'{_CANDIDATES_OF_HOST} for each host, at least '
        f'{_LEAST_CANDIDATES}'
    )
    return (
        f'in placement.conf [placement]max_allocation_candidates = {most}, '
        '[placement]allocation_candidates_generation_strategy = '
        'breadth-first and [workarounds]optimize_for_wide_provider_trees = '
        'true, and in nova.conf of nova-scheduler '
        f'[scheduler]max_placement_results = '
        f'{most if hosts else "the same number"}'
    )


def _promises(
    extra_specs: Mapping[str, str], for_this_driver: bool
) -> Iterator[Finding]:
    for broken in supported_features.refused_extra_specs(extra_specs):
        misspelled = broken.key.startswith('accel:')
        yield Finding(
            Severity.ERROR
            if for_this_driver or misspelled
            else Severity.WARNING,
            broken.key,
            f"'{broken.value}' is refused: {broken.reason}",
            f'write {accelerators.PROFILE}={broken.value}'
            if misspelled
            else 'remove it, or keep the flavor away from PowerVM hosts',
        )
