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

"""Steps that hand a slot over from Nova to Cyborg, or back.

The rules change nothing: they say of each step whether it is done, and which
commands do it in this cloud. Called again, they see what has changed.
"""

from nova_powervm.devices import names
from nova_powervm.tool.rules import file_edits
from nova_powervm.tool.rules import handover_cloud
from nova_powervm.tool.rules import handover_holders
from nova_powervm.tool.rules import handover_step
from nova_powervm.tool.rules.handover_facts import CLASS_UNKNOWN
from nova_powervm.tool.rules.handover_facts import Facts
from nova_powervm.tool.rules.handover_facts import Manager
from nova_powervm.tool.rules.handover_step import Step
from nova_powervm.tool.rules.handover_step import at_any_time
from nova_powervm.tool.rules.handover_step import blocked
from nova_powervm.tool.rules.handover_step import done
from nova_powervm.tool.rules.handover_step import to_do


def make_steps(facts: Facts) -> tuple[Step, ...]:
    """Return the steps of a hand-over, in the order in which to do them.

    :param facts: The facts about the slot.
    """
    judged = (
        _to_cyborg(facts) if facts.to is Manager.CYBORG else _to_nova(facts)
    )
    return handover_step.put_in_order(judged)


def _to_cyborg(facts: Facts) -> list[Step]:
    return [
        handover_holders.taken_from_nova(facts),
        _released(facts),
        _out_of_nova_file(facts),
        _nova_provider_gone(facts),
        _in_cyborg_file(facts),
        _offered_by_cyborg(facts),
        at_any_time(handover_cloud.profile_exists(facts)),
        at_any_time(handover_cloud.flavor_names_profile(facts)),
        handover_cloud.server_has_device(facts),
    ]


def _to_nova(facts: Facts) -> list[Step]:
    return [
        _disabled(facts),
        handover_holders.taken_from_cyborg(facts),
        _out_of_cyborg_file(facts),
        _enabled_again(facts),
        _cyborg_provider_gone(facts),
        _in_nova_file(facts),
        _offered_by_nova(facts),
        at_any_time(handover_cloud.flavor_requests_slot(facts)),
    ]


def _released(facts: Facts) -> Step:
    goal = 'A used one-time-use device is cleaned and released'
    provider = facts.nova_provider
    if provider is None or not provider.one_time_use or not provider.reserved:
        return done(goal, 'there is nothing to release')
    if names.WITHDRAWN_TRAIT in provider.traits:
        return blocked(
            goal,
            'the device is used, and withdrawn: let the inventory file '
            'identify it again, and begin anew a minute later',
        )
    return to_do(
        goal,
        'clean the device first. Once Cyborg has it, nothing keeps it from '
        'the next server after a use',
        facts.own_command(f'release {facts.index}'),
    )


def _out_of_nova_file(facts: Facts) -> Step:
    goal = f"Nova's inventory file {facts.nova.path} leaves the slot out"
    has_provider = facts.nova_provider is not None
    return _left_out(facts, goal, facts.nova, 'nova-compute', has_provider)


def _out_of_cyborg_file(facts: Facts) -> Step:
    goal = f"Cyborg's file {facts.cyborg.path} leaves the slot out"
    has_provider = facts.cyborg_provider is not None
    return _left_out(facts, goal, facts.cyborg, 'cyborg-agent', has_provider)


def _denied(
    facts: Facts, goal: str, file: file_edits.SlotFile, service: str
) -> Step:
    """Return a step for a file that has lost its last paragraph."""
    edit = file_edits.deny(file, facts.slot, facts.io_slots)
    return to_do(
        goal,
        f'the file has no paragraph, and a running {service} refuses such a '
        f'file: what it read before stays in force; {edit.what}',
        edit.command,
    )


def _left_out(
    facts: Facts,
    goal: str,
    file: file_edits.SlotFile,
    service: str,
    has_provider: bool,
) -> Step:
    if file.policy is None:
        return blocked(goal, file.problem)
    if file.is_empty and has_provider:
        return _denied(facts, goal, file, service)
    if file.giving(facts.slot, facts.io_slots) is None:
        return done(goal)
    edit = file_edits.take_out(file, facts.slot, facts.io_slots)
    reminder = (
        '. Once the provider is gone, too, nothing tells the class: run this '
        f'again with {facts.class_option}'
    )
    return to_do(
        goal,
        f'{edit.what}. {service} reads the file again without a restart'
        + (reminder if edit.removes else ''),
        edit.command,
    )


def _in_cyborg_file(facts: Facts) -> Step:
    goal = f"Cyborg's file {facts.cyborg.path} identifies the slot"
    paragraph = facts.cyborg_paragraph
    if paragraph and paragraph.one_time_use:
        return blocked(
            goal,
            f'{paragraph} has one_time_use: true, for which cyborg-agent does '
            'not start: remove it',
        )
    return _identified(facts, goal, facts.cyborg, 'cyborg-agent')


def _in_nova_file(facts: Facts) -> Step:
    goal = f"Nova's inventory file {facts.nova.path} identifies the slot"
    return _identified(facts, goal, facts.nova, 'nova-compute')


def _identified(
    facts: Facts, goal: str, file: file_edits.SlotFile, service: str
) -> Step:
    if file.policy is None:
        return blocked(goal, file.problem)
    if paragraph := file.giving(facts.slot, facts.io_slots):
        return done(goal, f'{paragraph}: {paragraph.resource_class}')
    if not facts.resource_class:
        return blocked(goal, CLASS_UNKNOWN, facts.again)
    edit = file_edits.put_in(
        file, facts.slot, facts.io_slots, facts.resource_class
    )
    return to_do(
        goal,
        f'{edit.what}. {service} reads the file again without a restart',
        edit.command,
    )


def _nova_provider_gone(facts: Facts) -> Step:
    goal = "Nova's provider of the slot is gone from Placement"
    provider = facts.nova_provider
    if provider is None:
        return done(goal)
    return to_do(
        goal,
        f"wait for nova-compute, which deletes '{provider.name}' in its next "
        'updates, once a minute; if it does not, its log says why',
    )


def _cyborg_provider_gone(facts: Facts) -> Step:
    goal = "Cyborg's provider of the slot is gone from Placement"
    provider = facts.cyborg_provider
    if provider is None:
        return done(goal)
    return to_do(
        goal,
        f"wait for cyborg-agent, which leaves '{provider.name}' out once the "
        'slot was missing three times, once a minute; if it does not, its log '
        'says why',
    )


def _offered_by_cyborg(facts: Facts) -> Step:
    goal = 'Cyborg offers the slot in Placement'
    provider = facts.cyborg_provider
    if provider is None:
        return to_do(
            goal,
            'wait for cyborg-agent, which reports the slot in its next '
            'period, once a minute; if it does not, its log says why',
        )
    if names.CYBORG_TRAIT not in provider.traits:
        return to_do(
            goal,
            'cyborg-agent withholds it; its log says why. Wait for its next '
            'period, once a minute',
        )
    if provider.reserved:
        return to_do(
            goal,
            'the device is disabled',
            _device_command(facts, 'enable'),
        )
    return done(goal)


def _offered_by_nova(facts: Facts) -> Step:
    goal = 'Nova offers the slot in Placement'
    provider = facts.nova_provider
    if provider is None:
        return to_do(
            goal,
            'wait for nova-compute, which creates the provider within a '
            "minute. It notices that Cyborg's provider is gone within "
            '[compute]resource_provider_association_refresh (5 minutes), or '
            'at once after a SIGHUP',
        )
    if names.WITHDRAWN_TRAIT in provider.traits:
        return to_do(
            goal,
            'nova-compute withholds it; the command says why',
            facts.own_command(f'show --slot {facts.index} --long'),
        )
    if provider.reserved and not provider.consumers:
        return to_do(
            goal,
            'the device is reserved',
            facts.own_command(f'release {facts.index}')
            if provider.one_time_use
            else f'{facts.openstack} resource provider inventory set --amend '
            f'--resource {facts.resource_class}:reserved=0 {provider.uuid}',
        )
    return done(goal)


def _enabled_again(facts: Facts) -> Step:
    goal = 'Cyborg withholds the slot, and does not keep it as disabled'
    provider = facts.cyborg_provider
    if provider is None:
        return done(goal)
    if names.CYBORG_TRAIT in provider.traits:
        return to_do(
            goal,
            'wait for cyborg-agent, which withholds the slot in its next '
            'period, once a minute; if it does not, its log says why',
        )
    if not provider.reserved:
        return done(goal)
    return to_do(
        goal,
        'enable the device: the agent reports it as long as it is disabled',
        _device_command(facts, 'enable'),
    )


def _disabled(facts: Facts) -> Step:
    goal = 'Cyborg gives the device to no new server'
    provider = facts.cyborg_provider
    if (
        provider is None
        or provider.reserved
        or names.CYBORG_TRAIT not in provider.traits
    ):
        return done(goal)
    if facts.device is None:
        why = facts.cloud.cyborg_problem or 'Cyborg does not know the device'
        return blocked(goal, why)
    return to_do(goal, 'disable the device', _device_command(facts, 'disable'))


def _device_command(facts: Facts, verb: str) -> str:
    """Return the command for a device, or the one that finds its uuid."""
    words = f'{facts.openstack} accelerator device'
    if facts.device is None:
        return f'{words} list --long'
    return f'{words} {verb} {facts.device.uuid}'
