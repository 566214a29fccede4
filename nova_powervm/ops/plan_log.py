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

"""The log of plans: one line for each change of a device.

The first plan of a service is summed up in one line; a device that needs
somebody's attention has a line of its own then, too. Each line about a device
ends with its state, a :class:`nova_powervm.devices.plan.State`, in brackets.
"""

import collections
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
    state: plans.State

    def __str__(self) -> str:
        return f'{self.text} [{self.state}]'


class PlanLog:
    """Logs plans, and paragraphs of the file that this host does not use."""

    def __init__(self) -> None:
        self._logged: Mapping[int, _Line] | None = None
        self._replacements: Mapping[int, str] = {}
        self._policy: policies.Policy | None = None

    def log(self, policy: policies.Policy, plan: plans.Plan) -> None:
        """Log what has changed since the last plan.

        :param policy: The policy that the plan was made from.
        :param plan: The plan.
        """
        if policy != self._policy:
            self._policy = policy
            _log_unused(policy, plan.verdicts)
        self._log_replacements(plan)
        lines = _lines(policy, plan)
        before = self._logged
        if before is None:
            _log_summary(lines.values())
            changed = [v for v in lines.values() if v.level > logging.INFO]
        else:
            changed = [v for k, v in lines.items() if before.get(k) != v]
        for line in changed:
            LOG.log(line.level, str(line))
        self._logged = lines

    def _log_replacements(self, plan: plans.Plan) -> None:
        """Log replaced cards, each once."""
        replacements = {
            e.drc_index: e.replacement for e in plan.entries if e.replacement
        }
        for index, replacement in replacements.items():
            if self._replacements.get(index) != replacement:
                LOG.warning(
                    'Slot %(slot)s shows the ids of another card: %(ids)s. '
                    'The device is in quarantine until you accept the card. '
                    'See "Replace a card" in the page on tasks on a host.',
                    {
                        'slot': slots.format_drc_index(index),
                        'ids': replacement,
                    },
                )
        self._replacements = replacements


def _log_summary(lines: Collection[_Line]) -> None:
    """Count the devices of a host in each state."""
    counts = collections.Counter(line.state for line in lines)
    foreign = counts.pop(plans.State.FOREIGN, 0)
    texts = [f'{counts[s]} {s}' for s in plans.State if counts[s]]
    LOG.info(
        'Devices of this host: %(counts)s. %(foreign)d slots are not offered. '
        '`nova-powervm-inventory show` lists all slots with the reasons.',
        {'counts': ', '.join(texts) or 'none', 'foreign': foreign},
    )


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
        verdict.slot.drc_index: _Line(
            logging.INFO, _withheld(verdict), plans.State.FOREIGN
        )
        for verdict in plan.verdicts
        if verdict.reason
    }
    for entry in plan.entries:
        # A burned device that waits may be anywhere, for example where it is
        # being cleaned.
        grave = (
            entry.action is plans.Action.WITHDRAW
            and entry.state is not plans.State.BURNED
        ) or (entry.consumers and entry.action is not plans.Action.QUARANTINE)
        lines[entry.drc_index] = _Line(
            logging.WARNING if grave else logging.INFO,
            describe(entry),
            entry.state,
        )
    for index in plan.contested:
        lines[index] = dataclasses.replace(lines[index], level=logging.ERROR)
    for verdict in matching.conflicts(plan.verdicts):
        lines[verdict.slot.drc_index] = _Line(
            logging.ERROR,
            _conflict(policy, plan, verdict),
            plans.State.FOREIGN,
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
        case plans.Action.QUARANTINE:
            text = (
                f'Keeping {where} in quarantine: {entry.reason}. It is '
                'offered again after `nova-powervm-inventory restore '
                f'{index}{" --new-card" if entry.replacement else ""}`'
            )
        case plans.Action.WITHDRAW:
            text = f'Withdrawing {where}: {entry.reason}. {_cure(entry)}.'
        case plans.Action.DELETE:
            text = f'Removing {where}: {entry.reason}'
        case plans.Action.KEEP_CLASS:
            text = f'Offering {where} as {offer}: {entry.reason}'
        case _ if entry.burned:
            text = (
                f'Withholding {where}: its one-time-use device was allocated. '
                'When it is free again, clean it and release it with '
                f'`nova-powervm-inventory release {index}`'
            )
        case _ if entry.owner:
            text = f'Keeping {where} for {entry.owner}, which has it'
        case _ if entry.reserved:
            text = (
                f'Withholding {where}: somebody has reserved it in Placement'
            )
        case _:
            text = f'Offering {where} as {offer}'
    return text


def _cure(entry: plans.Entry) -> str:
    if entry.consumers:
        return (
            f'It is allocated to {_names(entry)}: undo the change, or delete '
            'the instance'
        )
    if not entry.inventory:
        return 'It offers nothing meanwhile'
    return 'It stays until it is neither allocated nor reserved'


def _names(entry: plans.Entry) -> str:
    return ', '.join(entry.consumers)
