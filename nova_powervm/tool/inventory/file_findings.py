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

"""Findings about an inventory file."""

import collections
import dataclasses
import enum
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_powervm.devices import accelerators as devices_accelerators
from nova_powervm.devices import matching
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import Problem
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.rules import clashes
from nova_powervm.tool.rules import device_kinds

# More slots would hide the problem in the text.
_MOST_NAMED = 4


class Severity(enum.StrEnum):
    """Severity of a finding."""

    #: The service does not start, or neither service offers a device.
    ERROR = 'error'
    #: The service starts, but perhaps not with the intended devices.
    WARNING = 'warning'


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    :param severity: Its severity.
    :param problem: The problem, with its place in the file.
    """

    severity: Severity
    problem: Problem


def find_empty_file(policy: policies.Policy, what: str) -> Iterator[Finding]:
    """Find a file without paragraphs.

    :param policy: The parsed file.
    :param what: What to say of it.
    """
    if not policy.paragraphs:
        yield _find(
            None,
            f'{what}, so no device is offered',
            'nova-powervm-inventory generate creates a first file',
        )


def refuse_one_time_use(policy: policies.Policy) -> Iterator[Finding]:
    """Find paragraphs of one-time-use devices in Cyborg's file."""
    for paragraph in devices_accelerators.one_time_use_paragraphs(policy):
        yield _find(
            paragraph,
            'one_time_use is true, but Cyborg offers a device again as soon '
            'as its server is deleted',
            "move the paragraph to Nova's inventory file, or remove "
            'one_time_use',
            Severity.ERROR,
        )


def find_shared_slots(
    policy: policies.Policy,
    accelerators: policies.Policy,
    reading: host_reader.HostReading,
) -> Iterator[Finding]:
    """Find the slots that both files give away.

    :param policy: Nova's file.
    :param accelerators: Cyborg's file.
    :param reading: The state of the host.
    """
    for shared in devices_accelerators.find_shared_slots(
        accelerators, policy, reading.system.io_slots
    ):
        yield _find(
            shared.paragraph,
            f'{shared.slot}: {shared.nova_paragraph} of {policy.source} '
            'identifies it, too. Whichever service a server has it from '
            'keeps it; while no server has it, neither offers it',
            'deny it in one of the files, or narrow the paragraph; '
            f'"nova-powervm-inventory handover {shared.slot.drc_hex} --to '
            'cyborg" (or nova) prints the steps',
            Severity.ERROR,
        )


def find_clashes(policy: policies.Policy) -> Iterator[Finding]:
    """Find paragraphs that identify the same devices on any host.

    :param policy: The parsed file.
    """
    for paragraph, other, is_wider in clashes.find_clashes(policy):
        yield _find(
            paragraph,
            f'it also identifies each device that {other} identifies'
            if is_wider
            else f'{other} identifies each of its devices, too',
            'change the identification sections so that each device is '
            'identified by one paragraph only: on a host with such a '
            'device, the service does not start',
        )


def find_host_mismatches(
    policy: policies.Policy, reading: host_reader.HostReading
) -> Iterator[Finding]:
    """Compare a valid file with a host.

    :param policy: The parsed file.
    :param reading: The state of the host.
    """
    verdicts = matching.judge(policy, reading.system.io_slots)
    yield from _conflicts(verdicts)
    if policy.paragraphs and not any(v.paragraphs for v in verdicts):
        yield _find(
            None,
            f'no paragraph offers a device of {reading.source}',
            'nova-powervm-inventory show lists what the host has',
        )
    for paragraph in matching.unused(policy, reading.system.io_slots):
        what = (
            'identifies no device of'
            if paragraph.allow
            else 'denies nothing that another paragraph allows on'
        )
        yield _find(
            paragraph,
            f'the paragraph {what} {reading.source}',
            'compare its values with those that nova-powervm-inventory show '
            '--long prints, or remove it',
        )
    yield from _wired(verdicts)


def _conflicts(verdicts: Iterable[matching.Verdict]) -> Iterator[Finding]:
    """Find paragraphs that identify the same device, grouped by reason."""
    by_reason: dict[str, list[matching.Verdict]] = {}
    for verdict in matching.conflicts(verdicts):
        by_reason.setdefault(str(verdict.reason), []).append(verdict)
    for reason, found in by_reason.items():
        yield _find(
            found[0].paragraphs[-1],
            f'{_slots(found)}: {reason}',
            'change the identification sections so that each device is '
            'identified by one paragraph only',
            Severity.ERROR,
        )


def _wired(verdicts: Iterable[matching.Verdict]) -> Iterator[Finding]:
    """Find paragraphs that allow adapters with external connections."""
    by_place: dict[tuple[int, str], list[matching.Verdict]] = {}
    for verdict in verdicts:
        if verdict.paragraphs and not verdict.denials:
            wired = device_kinds.kind_of(verdict.slot).wired
            if wired:
                place = (verdict.paragraphs[0].line, wired)
                by_place.setdefault(place, []).append(verdict)
    for (_, wired), found in sorted(by_place.items()):
        yield _find(
            found[0].paragraphs[0],
            f'{_slots(found)}: it is connected to {wired}',
            'an instance would be connected to it, bypassing Neutron and '
            'Cinder; remove it from the paragraph, or deny it in a '
            'paragraph with allow: false',
        )


def _slots(verdicts: Sequence[matching.Verdict]) -> str:
    """Name the slots of one finding."""
    named = [str(verdict.slot) for verdict in verdicts[:_MOST_NAMED]]
    if len(verdicts) > _MOST_NAMED:
        named.append(f'and {len(verdicts) - _MOST_NAMED} more')
    return f'each of {"; ".join(named)}' if len(verdicts) > 1 else named[0]


def _find(
    paragraph: policies.Paragraph | None,
    what: str,
    hint: str,
    severity: Severity = Severity.WARNING,
) -> Finding:
    """Return a finding about a paragraph, or about the file as a whole."""
    place = (paragraph.line, 1, paragraph.name) if paragraph else (0, 0, '')
    return Finding(severity, Problem(*place, what, hint))


def describe_offer(
    policy: policies.Policy, reading: host_reader.HostReading
) -> Iterator[str]:
    """Summarize the devices that a file offers on a host."""
    slots = reading.system.io_slots
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
