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

"""Steps of a hand-over that take a device from who has it."""

from collections.abc import Iterator

from nova_powervm.devices import slots
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules.handover_facts import Facts
from nova_powervm.tool.rules.handover_step import Step
from nova_powervm.tool.rules.handover_step import blocked
from nova_powervm.tool.rules.handover_step import done
from nova_powervm.tool.rules.handover_step import to_do

_RESIZE = 'delete the server, or resize it to a flavor without the device'


def taken_from_nova(facts: Facts) -> Step:
    """Judge whether no server has the device from Nova.

    :param facts: The facts about the slot.
    """
    goal = 'No server has the device from Nova'
    if reason := _unusable(facts):
        return blocked(goal, reason)
    provider = facts.nova_provider
    consumers = sorted(provider.consumers) if provider else []
    for consumer in consumers:
        if consumer in facts.cloud.gone:
            return blocked(
                goal,
                f'it is allocated to {consumer}, which is no server: a resize '
                'or migration that waits for its confirmation, or a leftover',
                f'{facts.openstack} resource provider allocation show '
                f'{consumer}',
                f'{facts.openstack} server list --all-projects --status '
                'VERIFY_RESIZE',
            )
    if consumers:
        return to_do(
            goal,
            f'server {" and ".join(consumers)} has it: {_RESIZE}. A server '
            'with a device profile can be neither resized nor migrated, so '
            'there is no resize that takes the device along',
            *_deletions(facts, consumers),
        )
    return _of_owner(facts, goal) or done(goal)


def taken_from_cyborg(facts: Facts) -> Step:
    """Judge whether no server has the device from Cyborg.

    :param facts: The facts about the slot.
    """
    goal = 'No server has the device from Cyborg'
    if reason := _unusable(facts):
        return blocked(goal, reason)
    leftovers = [*_removals(facts)]
    provider = facts.cyborg_provider
    servers = {r.instance for r in facts.requests if r.instance} | set(
        provider.consumers if provider else ()
    )
    there = sorted(servers - facts.cloud.gone)
    if there:
        return to_do(
            goal,
            f'server {" and ".join(there)} has it: delete it. Servers with a '
            'device profile cannot be resized',
            *_deletions(facts, there),
            *leftovers,
        )
    if leftovers:
        return to_do(
            goal,
            'its server does not exist any more, but a request or an '
            'allocation is left over',
            *leftovers,
        )
    if provider and facts.cloud.cyborg is None:
        # Placement knows nothing of requests that keep the device.
        return blocked(
            goal, facts.cloud.cyborg_problem or 'Cyborg did not answer'
        )
    return _of_owner(facts, goal) or done(goal)


def _deletions(facts: Facts, servers: list[str]) -> list[str]:
    return [f'{facts.openstack} server delete --wait {s}' for s in servers]


def _removals(facts: Facts) -> Iterator[str]:
    """Yield the commands that remove what servers have left over."""
    provider, cyborg = facts.cyborg_provider, facts.cloud.cyborg
    if provider is None or cyborg is None:
        return
    for request in facts.requests:
        if request.instance is None or request.instance in facts.cloud.gone:
            yield cyborg_slots.removal_command(request, cyborg)
    for consumer in sorted(set(provider.consumers) & facts.cloud.gone):
        yield (
            f'{facts.openstack} resource provider allocation delete {consumer}'
        )


def _unusable(facts: Facts) -> str:
    """Return why the slot can't be given to any server; empty if it can."""
    reason = slots.reason_unavailable(
        facts.slot,
        {facts.slot.owner_lpar} - {''},
        slots.duplicated_indexes(facts.io_slots),
    )
    return str(reason or '')


def _of_owner(facts: Facts, goal: str) -> Step | None:
    """Return a step for a slot that a partition has without an allocation."""
    owner = facts.slot.owner
    if owner is None or _is_allocated(facts):
        return None
    server = facts.owner_consumer
    whose = f'instance {server}' if server else 'no instance of this node'
    return blocked(
        goal,
        f'{owner}, which is {whose}, owns the slot without an allocation. '
        'Delete the server, or remove the slot from the partition with pvmctl',
    )


def _is_allocated(facts: Facts) -> bool:
    """Return whether the instance that owns the slot was allocated it."""
    return facts.owner_consumer is not None and any(
        facts.owner_consumer in provider.consumers
        for provider in (facts.nova_provider, facts.cyborg_provider)
        if provider
    )
