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
from collections.abc import Sequence

from nova_powervm.devices import matching
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import Problem
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.rules import device_kinds

# More would hide what is said of them.
_MOST_NAMED = 4


class Severity(enum.StrEnum):
    """What a finding leads to."""

    #: nova-compute does not start.
    ERROR = 'error'
    #: It starts, but perhaps not as it was meant.
    WARNING = 'warning'


class Access(enum.StrEnum):
    """Whether there is a file to be checked."""

    READ = 'read'
    MISSING = 'missing'
    #: This user may not read it; nova-compute perhaps may.
    UNREADABLE = 'unreadable'


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing to be said.

    :param severity: What it leads to.
    :param problem: What it is, and where.
    """

    severity: Severity
    problem: Problem


def make_error_findings(problems: Iterable[Problem]) -> tuple[Finding, ...]:
    """Take over what the parser found, which the service says at start."""
    return tuple(Finding(Severity.ERROR, problem) for problem in problems)


def find_empty_file(
    policy: policies.Policy, exists: bool
) -> Iterator[Finding]:
    """Say that a file without problems offers nothing.

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


def make_missing_file_finding() -> Finding:
    """Say that there is no file of the name that somebody typed."""
    return Finding(
        Severity.ERROR,
        Problem(
            what='there is no such file',
            hint='check the name; without it the file that '
            '[powervm]inventory_file names is checked',
        ),
    )


def find_host_mismatches(
    policy: policies.Policy, reading: host_reader.HostReading
) -> Iterator[Finding]:
    """Hold a file without problems against a host.

    :param policy: What the file says.
    :param reading: The host.
    """
    verdicts = matching.judge(policy, reading.view.io_slots)
    yield from _conflicts(verdicts)
    if policy.paragraphs and not any(v.paragraphs for v in verdicts):
        yield _warning(
            f'no paragraph offers a device of {reading.source}',
            'nova-powervm-inventory show lists what the host has',
        )
    for paragraph in matching.unused(policy, reading.view.io_slots):
        yield Finding(Severity.WARNING, _unused(paragraph, reading))
    yield from _wired(verdicts)


def _conflicts(verdicts: Iterable[matching.Verdict]) -> Iterator[Finding]:
    """Say which paragraphs take the same devices, once for each reason."""
    by_reason: dict[str, list[matching.Verdict]] = {}
    for verdict in matching.conflicts(verdicts):
        by_reason.setdefault(str(verdict.reason), []).append(verdict)
    for reason, found in by_reason.items():
        yield Finding(
            Severity.ERROR,
            _problem(
                found[0].paragraphs[-1],
                f'{_slots(found)}: {reason}',
                'change the identification sections so that each device is '
                'identified by one paragraph only',
            ),
        )


def _unused(
    paragraph: policies.Paragraph, reading: host_reader.HostReading
) -> Problem:
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


def _wired(verdicts: Iterable[matching.Verdict]) -> Iterator[Finding]:
    """Say which paragraphs allow wired adapters, once for each of them."""
    by_place: dict[tuple[int, str], list[matching.Verdict]] = {}
    for verdict in verdicts:
        if verdict.paragraphs and not verdict.denials:
            wired = device_kinds.kind_of(verdict.slot).wired
            if wired:
                place = (verdict.paragraphs[0].line, wired)
                by_place.setdefault(place, []).append(verdict)
    for (_, wired), found in sorted(by_place.items()):
        yield Finding(
            Severity.WARNING,
            _problem(
                found[0].paragraphs[0],
                f'{_slots(found)}: it is connected to {wired}',
                'the instance would be connected to it, too, past Neutron '
                'and Cinder; take it out of the paragraph, or deny it in a '
                'paragraph with allow: false',
            ),
        )


def _slots(verdicts: Sequence[matching.Verdict]) -> str:
    """Name slots that the same is said of."""
    named = [str(verdict.slot) for verdict in verdicts[:_MOST_NAMED]]
    if len(verdicts) > _MOST_NAMED:
        named.append(f'and {len(verdicts) - _MOST_NAMED} more')
    return f'each of {"; ".join(named)}' if len(verdicts) > 1 else named[0]


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


def describe_offer(
    policy: policies.Policy, reading: host_reader.HostReading
) -> Iterator[str]:
    """Say in a few lines what a file offers on a host."""
    slots = reading.view.io_slots
    verdicts = matching.judge(policy, slots)
    found = matching.devices(verdicts)
    counts = collections.Counter(device.resource_class for device in found)
    classes = ', '.join(f'{n} {name}' for name, n in sorted(counts.items()))
    yield (
        f'It offers {len(found)} of the {len(slots)} slots of '
        f'{reading.source}{classes and ": " + classes}.'
    )
    for verdict in verdicts:
        if verdict.reason and verdict.paragraphs and not verdict.denials:
            yield f'Allowed, but not free now: {verdict.slot}: ' + str(
                verdict.reason
            )
