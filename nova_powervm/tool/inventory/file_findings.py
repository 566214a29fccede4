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

"""Finds the problems of an inventory file for ``validate``.

Those of its text come from the parser. The others are found by comparing its
paragraphs with each other, with a host, and with Cyborg's file.
"""

import collections
import contextlib
import dataclasses
import enum
import itertools
import os
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import matching
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import Problem
from nova_powervm.inventory_file import load
from nova_powervm.inventory_file import parse
from nova_powervm.inventory_file import structure
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.rules import device_kinds

NOVA = 'nova-compute'
CYBORG = 'cyborg-agent'

_NOT_CHECKED = (
    'Not checked without a host: whether two paragraphs identify the same '
    'device there, whether each identifies one, and whether a device has an '
    'external connection.'
)
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
    """A problem that was found.

    :param severity: Its severity.
    :param problem: The problem, with its place in the file.
    """

    severity: Severity
    problem: Problem


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file, or its comparison with another file, with the findings.

    :param source: Name of the file.
    :param effect: What the file does, with ``{}`` for "starts" or "does not
        start"; empty for a comparison.
    :param text: Text of the file, for excerpts.
    :param findings: What was found.
    :param policy: Content of a valid file.
    :param offer: Lines that describe the offered devices if a host was read,
        or else what could not be checked.
    :param other_source: Name of the other file of a comparison.
    """

    source: str
    effect: str = ''
    text: str = ''
    findings: tuple[Finding, ...] = ()
    policy: policies.Policy | None = None
    offer: tuple[str, ...] = ()
    other_source: str = ''

    @property
    def is_refused(self) -> bool:
        """Whether there is an error."""
        return any(
            finding.severity is Severity.ERROR for finding in self.findings
        )

    def compare(
        self, reading: host_reader.HostReading | None
    ) -> 'CheckedFile':
        """Add what a host tells about a valid file.

        :param reading: The state of the host; None to add what can be told
            without one.
        """
        if self.policy is None:
            return self
        more = find_clashes(self.policy)
        offer: Iterable[str] = (_NOT_CHECKED,)
        if reading:
            more = find_host_mismatches(self.policy, reading)
            offer = describe_offer(self.policy, reading)
        return dataclasses.replace(
            self, findings=(*self.findings, *more), offer=tuple(offer)
        )


def read_checked(
    app: base.App, path: str, service: str, *, named: bool
) -> CheckedFile:
    """Read a file and find its problems.

    :param app: The application, for standard input.
    :param path: Path of the file; ``-`` for standard input.
    :param service: The service that reads the file.
    :param named: Whether the user named the file, which then has to exist.
    """
    if path == '-':
        text = getattr(app.stdin, 'buffer', app.stdin).read()
        return _check('<stdin>', text, service)
    if os.path.lexists(path):
        return _check(path, None, service)
    if named:
        problem = Problem(
            what='there is no such file',
            hint='check the name; without it the file that '
            '[powervm]inventory_file names is checked',
        )
        return CheckedFile(
            path, 'Nothing was checked.', findings=_make_errors([problem])
        )
    policy = policies.Policy(source=path)
    return CheckedFile(
        path,
        f'{service} starts without the file and offers no device.',
        findings=(*find_empty_file(policy, 'there is no such file'),),
        policy=policy,
    )


def _check(source: str, text: bytes | str | None, service: str) -> CheckedFile:
    """Parse a file.

    :param text: Its text; None to read the file that ``source`` names.
    """
    policy = None
    effect = f'{service} {{}} with it.'
    try:
        policy = load(source) if text is None else parse(text, source)
    except exception.PolicyInvalid as error:
        problems = error.fields['problems']
        if any(problem.code == 'unreadable' for problem in problems):
            # Another user, who runs the service, may be able to read it.
            effect = 'The file was not checked.'
        findings = _make_errors(problems)
    else:
        findings = (*find_empty_file(policy, 'the file has no paragraph'),)
        if service == CYBORG:
            findings += (*refuse_one_time_use(policy),)
    if text is None:
        text = _read_excerpt(source)
    shown = text if isinstance(text, str) else text.decode(errors='replace')
    return CheckedFile(source, effect, shown, findings, policy)


def _read_excerpt(path: str) -> bytes:
    """Read a file, for excerpts; return nothing if that is a problem."""
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, 'rb') as stream:
                return stream.read(structure.MAX_BYTES)
    return b''


def _make_errors(problems: Iterable[Problem]) -> tuple[Finding, ...]:
    return tuple(Finding(Severity.ERROR, problem) for problem in problems)


def find_empty_file(
    policy: policies.Policy, problem: str
) -> Iterator[Finding]:
    """Find a file without paragraphs.

    :param policy: The parsed file.
    :param problem: What to say of it.
    """
    if not policy.paragraphs:
        yield _make_finding(
            None,
            f'{problem}, so no device is offered',
            'nova-powervm-inventory generate creates a first file',
        )


def refuse_one_time_use(policy: policies.Policy) -> Iterator[Finding]:
    """Find paragraphs of one-time-use devices in Cyborg's file."""
    for paragraph in accelerators.one_time_use_paragraphs(policy):
        yield _make_finding(
            paragraph,
            'one_time_use is true, but Cyborg offers a device again as soon '
            'as its server is deleted',
            "move the paragraph to Nova's inventory file, or remove "
            'one_time_use',
            Severity.ERROR,
        )


def compare_files(
    novas: CheckedFile,
    cyborgs: CheckedFile,
    reading: host_reader.HostReading,
) -> list[CheckedFile]:
    """Find the devices that Nova's and Cyborg's files both give away.

    :param reading: The state of the host.
    :returns: The comparison; none if a file is not valid.
    """
    policy, other = novas.policy, cyborgs.policy
    if policy is None or other is None:
        return []
    findings = (
        _make_finding(
            shared.paragraph,
            f'{shared.slot}: {shared.nova_paragraph} of {policy.source} '
            'identifies it, too. Whichever service a server has it from '
            'keeps it; while no server has it, neither offers it',
            'deny it in one of the files, or narrow the paragraph; '
            f'"nova-powervm-inventory handover {shared.slot.drc_hex} --to '
            'cyborg" (or nova) prints the steps',
            Severity.ERROR,
        )
        for shared in accelerators.find_shared_slots(
            other, policy, reading.system.io_slots
        )
    )
    return [
        CheckedFile(
            cyborgs.source,
            text=cyborgs.text,
            findings=tuple(findings),
            other_source=novas.source,
        )
    ]


def find_clashes(policy: policies.Policy) -> Iterator[Finding]:
    """Find paragraphs that identify the same devices on any host.

    :param policy: The parsed file.
    """
    for paragraph, other, is_wider in find_overlaps(policy):
        yield _make_finding(
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
        yield _make_finding(
            None,
            f'no paragraph offers a device of {reading.source}',
            'nova-powervm-inventory show lists what the host has',
        )
    for paragraph in matching.unused(policy, reading.system.io_slots):
        verb = (
            'identifies no device of'
            if paragraph.allow
            else 'denies nothing that another paragraph allows on'
        )
        yield _make_finding(
            paragraph,
            f'the paragraph {verb} {reading.source}',
            'compare its values with those that nova-powervm-inventory show '
            '--long prints, or remove it',
        )
    yield from _wired(verdicts)


def _conflicts(verdicts: Iterable[matching.Verdict]) -> Iterator[Finding]:
    """Find paragraphs that identify the same device, grouped by reason."""
    by_reason: dict[str, list[matching.Verdict]] = {}
    for verdict in matching.conflicts(verdicts):
        by_reason.setdefault(str(verdict.reason), []).append(verdict)
    for reason, alike in by_reason.items():
        yield _make_finding(
            alike[0].paragraphs[-1],
            f'{_slots(alike)}: {reason}',
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
    for (_, wired), alike in sorted(by_place.items()):
        yield _make_finding(
            alike[0].paragraphs[0],
            f'{_slots(alike)}: it is connected to {wired}',
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


def _make_finding(
    paragraph: policies.Paragraph | None,
    problem: str,
    hint: str,
    severity: Severity = Severity.WARNING,
) -> Finding:
    """Return a finding about a paragraph, or about the file as a whole."""
    place = (paragraph.line, 1, paragraph.name) if paragraph else (0, 0, '')
    return Finding(severity, Problem(*place, problem, hint))


def describe_offer(
    policy: policies.Policy, reading: host_reader.HostReading
) -> Iterator[str]:
    """Summarize the devices that a file offers on a host."""
    slots = reading.system.io_slots
    verdicts = matching.judge(policy, slots)
    devices = matching.devices(verdicts)
    counts = collections.Counter(device.resource_class for device in devices)
    classes = ', '.join(f'{n} {name}' for name, n in sorted(counts.items()))
    yield (
        f'It offers {len(devices)} of the {len(slots)} slots of '
        f'{reading.source}{classes and ": " + classes}.'
    )
    for verdict in verdicts:
        if verdict.reason and verdict.paragraphs and not verdict.denials:
            yield f'Allowed, but not free now: {verdict.slot}: ' + str(
                verdict.reason
            )


def find_overlaps(
    policy: policies.Policy,
) -> Iterator[tuple[policies.Paragraph, policies.Paragraph, bool]]:
    """Find the paragraphs of a file that identify the same devices.

    A denial does not help: two allowing paragraphs for one device are an error
    in any case.

    :returns: The later paragraph, the earlier one, and whether the later
        identifies all devices of the earlier, or else the other way round.
    """
    allowing = [each for each in policy.paragraphs if each.allow]
    for earlier, later in itertools.combinations(allowing, 2):
        if _covers(earlier, later):
            yield later, earlier, False
        elif _covers(later, earlier):
            yield later, earlier, True


def _covers(wide: policies.Paragraph, narrow: policies.Paragraph) -> bool:
    """Return whether a paragraph identifies all devices of another."""
    return bool(wide.identification) and all(
        _takes_all(key, wanted, narrow.identification.get(key))
        for key, wanted in wide.identification.items()
    )


def _takes_all(key: str, wanted: str, other: str | None) -> bool:
    """Return whether a value or pattern takes all that another one takes.

    :param other: None if the other paragraph does not have the key.
    """
    if wanted == other:
        return True
    if not policies.has_wildcard(wanted):
        return False
    if other is None or policies.has_wildcard(other):
        # Each value that a host can report.
        digits = policies.PROPERTIES[key].digits
        return set(wanted) <= set('*?' if digits else '*')
    return policies.value_matches(wanted, other)
