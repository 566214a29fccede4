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

"""The log of plans: log each decision once, until it changes."""

import dataclasses
from collections.abc import Collection
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm.devices import matching
from nova_powervm.devices import plan as plans
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    level: int
    text: str


class PlanLog:
    """Logs plans, and paragraphs of the file that this host does not use."""

    def __init__(self) -> None:
        self._logged: Mapping[int, _Line] = {}
        self._policy: policies.Policy | None = None

    def log(self, policy: policies.Policy, plan: plans.Plan) -> None:
        """Log what has changed since the last plan.

        :param policy: The policy that the plan was made from.
        :param plan: The plan.
        """
        if policy != self._policy:
            self._policy = policy
            _log_unused(policy, plan.verdicts)
        lines = _lines(policy, plan)
        for index, line in lines.items():
            if self._logged.get(index) != line:
                LOG.log(line.level, line.text)
        self._logged = lines


def _log_unused(
    policy: policies.Policy, verdicts: Collection[matching.Verdict]
) -> None:
    """Log which paragraphs of a new file have no effect.

    One file may serve many hosts, so a single unused paragraph is INFO only.
    """
    if policy.paragraphs and not any(
        verdict.paragraphs or verdict.denials for verdict in verdicts
    ):
        LOG.warning(
            'No paragraph of %(source)s identifies a device of this host, so '
            'none is offered. Compare its values with `pvmctl ioslot list`.',
            {'source': policy.source},
        )
        return
    judged = [verdict.slot for verdict in verdicts]
    for paragraph in matching.unused(policy, judged):
        LOG.info(
            'No device of this host is %(done)s by %(paragraph)s of '
            '%(source)s.',
            {
                'done': 'identified' if paragraph.allow else 'excluded',
                'paragraph': paragraph,
                'source': policy.source,
            },
        )


def _lines(policy: policies.Policy, plan: plans.Plan) -> dict[int, _Line]:
    """Describe a plan with one line for each slot or provider."""
    lines = {
        verdict.slot.drc_index: _Line(logging.INFO, _withheld(verdict))
        for verdict in plan.verdicts
        if verdict.reason
    }
    for entry in plan.entries:
        grave = entry.consumers or entry.action is plans.Action.WITHDRAW
        lines[entry.drc_index] = _Line(
            logging.WARNING if grave else logging.INFO, describe(entry)
        )
    for index in plan.contested:
        lines[index] = dataclasses.replace(lines[index], level=logging.ERROR)
    for verdict in matching.conflicts(plan.verdicts):
        lines[verdict.slot.drc_index] = _Line(
            logging.ERROR, _conflict(policy, plan, verdict)
        )
    return lines


def _withheld(verdict: matching.Verdict) -> str:
    return f'{verdict.slot} is not offered: {verdict.reason}'


def _conflict(
    policy: policies.Policy, plan: plans.Plan, verdict: matching.Verdict
) -> str:
    """Describe a conflict.

    The words are the same before and after a free provider is deleted, so
    that the error is logged once.
    """
    kept = [
        f" Provider '{entry.name}' is withdrawn and stays"
        + (f', allocated to {_names(entry)}.' if entry.consumers else '.')
        for entry in plan.entries_with(plans.Action.WITHDRAW)
        if entry.drc_index == verdict.slot.drc_index
    ]
    return (
        f'{_withheld(verdict)}. Change the identification sections of '
        f'{policy.source} so that each device is identified by one paragraph '
        'only.' + ''.join(kept)
    )


def describe(entry: plans.Entry) -> str:
    """Describe what happens to a provider, and why."""
    index = slots.format_drc_index(entry.drc_index)
    where = f"slot {index} (provider '{entry.name}')"
    offer = ', '.join(entry.resource_classes)
    match entry.action:
        case plans.Action.CREATE | plans.Action.PUBLISH if entry.burned:
            return (
                f'Withholding {where}: its one-time-use device was allocated. '
                'When it is free again, clean it and release it with '
                f'`nova-powervm-inventory release {index}`'
            )
        case plans.Action.CREATE | plans.Action.PUBLISH:
            return f'Offering {where} as {offer}'
        case plans.Action.KEEP_CLASS:
            return f'Offering {where} as {offer}: {entry.reason}'
        case plans.Action.DELETE:
            return f'Removing {where}: {entry.reason}'
        case plans.Action.QUARANTINE:
            return (
                f'Keeping {where} in quarantine: {entry.reason}. It is '
                'offered again after `nova-powervm-inventory restore '
                f'{index}`'
            )
    cure = (
        f'It is allocated to {_names(entry)}: undo the change, or delete the '
        'instance'
        if entry.consumers
        else 'It stays until it is neither allocated nor reserved'
    )
    return f'Withdrawing {where}: {entry.reason}. {cure}.'


def _names(entry: plans.Entry) -> str:
    return ', '.join(entry.consumers)
