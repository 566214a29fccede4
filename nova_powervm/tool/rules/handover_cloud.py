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

"""Steps of a hand-over that let users request the device."""

import json
import shlex

import os_traits

from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules.handover_facts import CLASS_UNKNOWN
from nova_powervm.tool.rules.handover_facts import Facts
from nova_powervm.tool.rules.handover_step import Step
from nova_powervm.tool.rules.handover_step import blocked
from nova_powervm.tool.rules.handover_step import done
from nova_powervm.tool.rules.handover_step import to_do

_SIZES = '--vcpus 1 --ram 2048 --disk 10'
_ANY = 'other names, sizes and traits do as well'


def profile_exists(facts: Facts) -> Step:
    """Judge whether a device profile can get the device.

    :param facts: The facts about the slot.
    """
    goal = 'A device profile requests such a device'
    if facts.cloud.cyborg is None:
        return blocked(goal, facts.cloud.cyborg_problem)
    if facts.profiles:
        return done(goal, f'profile {" and ".join(facts.profiles)}')
    if not facts.resource_class:
        return blocked(goal, CLASS_UNKNOWN)
    groups = [
        {f'resources:{facts.resource_class}': '1'}
        | {
            f'trait:{trait}': flavors.REQUIRED
            for trait in (names.CYBORG_TRAIT, *facts.model_traits)
        }
    ]
    return to_do(
        goal,
        f'no profile requests one {facts.resource_class} with the trait '
        f'{names.CYBORG_TRAIT}; {_ANY}',
        f'{facts.openstack} accelerator device profile create '
        f'{_new_profile(facts)} {shlex.quote(json.dumps(groups))}',
    )


def flavor_names_profile(facts: Facts) -> Step:
    """Judge whether a flavor names such a device profile.

    :param facts: The facts about the slot.
    """
    goal = 'A flavor names this device profile'
    if facts.cloud.flavors is None:
        return blocked(goal, facts.cloud.flavors_problem)
    if facts.profile_flavors:
        return done(goal, f'flavor {" and ".join(facts.profile_flavors)}')
    if not facts.resource_class:
        return blocked(goal, CLASS_UNKNOWN)
    profile = facts.profiles[0] if facts.profiles else _new_profile(facts)
    flavor = _unused(f'{facts.noun}.cyborg', facts.cloud.flavors)
    extra_specs = {accelerators.PROFILE: profile, flavors.GROUP_POLICY: 'none'}
    return to_do(goal, _ANY, *_creation(facts, flavor, extra_specs))


def flavor_requests_slot(facts: Facts) -> Step:
    """Judge whether a flavor can get the device from Nova.

    :param facts: The facts about the slot.
    """
    goal = 'A flavor requests such a device from Nova'
    if facts.cloud.flavors is None:
        return blocked(goal, facts.cloud.flavors_problem)
    if facts.slot_flavors:
        return done(goal, f'flavor {" and ".join(facts.slot_flavors)}')
    if not facts.resource_class:
        return blocked(goal, CLASS_UNKNOWN)
    flavor = _unused(f'{facts.noun}.nova', facts.cloud.flavors)
    extra_specs = {f'resources1:{facts.resource_class}': '1'} | {
        f'trait1:{trait}': flavors.REQUIRED
        for trait in (os_traits.OWNER_NOVA, *facts.model_traits)
    }
    return to_do(goal, _ANY, *_creation(facts, flavor, extra_specs))


def server_has_device(facts: Facts) -> Step:
    """Judge whether a server has the device from Cyborg.

    :param facts: The facts about the slot.
    """
    goal = 'A server has the device from Cyborg'
    provider = facts.cyborg_provider
    if provider and provider.consumers:
        return done(goal, f'server {" and ".join(sorted(provider.consumers))}')
    flavor = facts.profile_flavors[0] if facts.profile_flavors else ''
    chosen = flavor and facts.cloud.image and facts.cloud.network
    command = (
        f'{facts.openstack} server create --wait --flavor '
        f'{shlex.quote(flavor)} --image {shlex.quote(facts.cloud.image)} '
        f'--network {shlex.quote(facts.cloud.network)} {facts.noun}-server'
    )
    return to_do(
        goal,
        'create a server from its image; another one of the same flavor may '
        'get another device of the same type'
        + ('' if chosen else ': choose a flavor, an image and a network'),
        command if chosen else '',
    )


def _creation(
    facts: Facts, flavor: str, extra_specs: dict[str, str]
) -> tuple[str, str]:
    properties = ' '.join(
        f'--property {shlex.quote(f"{key}={value}")}'
        for key, value in extra_specs.items()
    )
    return (
        f'{facts.openstack} flavor create {flavor} {_SIZES}',
        f'{facts.openstack} flavor set {flavor} {properties}',
    )


def _new_profile(facts: Facts) -> str:
    cyborg = facts.cloud.cyborg
    taken = {p.name for p in cyborg.records.profiles} if cyborg else set()
    return _unused(facts.noun, taken)


def _unused(name: str, taken: object) -> str:
    """Return a name that does not exist yet."""
    number = 1
    found = name
    while found in taken:  # type: ignore[operator]
        number += 1
        found = f'{name}-{number}'
    return found
