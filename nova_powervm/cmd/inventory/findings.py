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

"""What is to be said against an inventory file."""

import collections
import dataclasses
import enum
from collections.abc import Iterable
from collections.abc import Iterator

from nova_powervm.cmd.inventory import hosts
from nova_powervm.domain import kinds
from nova_powervm.domain import matching
from nova_powervm.domain import policy as policies
from nova_powervm.policyfile import Problem


class Severity(enum.StrEnum):
    """What a finding leads to."""

    #: nova-compute does not start.
    ERROR = 'error'
    #: It starts, but perhaps not as it was meant.
    WARNING = 'warning'


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing to be said.

    :param severity: What it leads to.
    :param problem: What it is, and where.
    """

    severity: Severity
    problem: Problem


def of_problems(problems: Iterable[Problem]) -> tuple[Finding, ...]:
    """Take over what the parser found, which the service says at start."""
    return tuple(Finding(Severity.ERROR, problem) for problem in problems)


def of_policy(policy: policies.Policy, exists: bool) -> Iterator[Finding]:
    """Say what is odd about a file that has no problems.

    :param policy: What the file says.
    :param exists: Whether there is such a file.
    """
    if policy.paragraphs:
        return
    what = 'the file has no paragraph' if exists else 'there is no such file'
    yield _warning(
        f'{what}, so no device is offered',
        'nova-powervm-inventory generate writes one to start from',
    )


def of_host(
    policy: policies.Policy, reading: hosts.Reading
) -> Iterator[Finding]:
    """Hold a file without problems against a host.

    :param policy: What the file says.
    :param reading: The host.
    """
    verdicts = matching.judge(policy, reading.view.io_slots)
    for verdict in matching.conflicts(verdicts):
        yield Finding(
            Severity.ERROR,
            _problem(
                verdict.paragraphs[-1],
                f'{verdict.slot}: {verdict.reason}',
                'change the identification sections so that each device is '
                'identified by one paragraph only',
            ),
        )
    if policy.paragraphs and not any(v.paragraphs for v in verdicts):
        yield _warning(
            f'no paragraph offers a device of {reading.source}',
            'nova-powervm-inventory show lists what the host has',
        )
    for paragraph in matching.unused(policy, reading.view.io_slots):
        yield Finding(Severity.WARNING, _unused(paragraph, reading))
    for verdict in verdicts:
        yield from _wired(verdict)


def _unused(paragraph: policies.Paragraph, reading: hosts.Reading) -> Problem:
    what = (
        'identifies no device of'
        if paragraph.allow
        else 'denies nothing that another paragraph allows on'
    )
    return _problem(
        paragraph,
        f'the paragraph {what} {reading.source}',
        'compare its values with those that nova-powervm-inventory show '
        '--long prints, or remove it',
    )


def _wired(verdict: matching.Verdict) -> Iterator[Finding]:
    if not verdict.paragraphs or verdict.denials:
        return
    kind = kinds.kind_of(verdict.slot)
    if kind.wired:
        yield Finding(
            Severity.WARNING,
            _problem(
                verdict.paragraphs[0],
                f'{verdict.slot} is allowed although it is connected to '
                f'{kind.wired}',
                'the instance would be connected to it, too, past Neutron '
                'and Cinder; take it out of the paragraph, or deny it in a '
                'paragraph with allow: false',
            ),
        )


def _warning(what: str, hint: str) -> Finding:
    return Finding(Severity.WARNING, Problem(what=what, hint=hint))


def _problem(paragraph: policies.Paragraph, what: str, hint: str) -> Problem:
    return Problem(
        line=paragraph.line,
        column=1,
        paragraph=paragraph.name,
        what=what,
        hint=hint,
    )


def offers(policy: policies.Policy, reading: hosts.Reading) -> str:
    """Say in one line what a file offers on a host."""
    slots = reading.view.io_slots
    found = matching.devices(matching.judge(policy, slots))
    counts = collections.Counter(device.resource_class for device in found)
    classes = ', '.join(f'{n} {name}' for name, n in sorted(counts.items()))
    return (
        f'It offers {len(found)} of the {len(slots)} slots of '
        f'{reading.source}{classes and ": " + classes}.'
    )
