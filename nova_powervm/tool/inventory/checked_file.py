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

"""Reads an inventory file for ``validate``, with all its problems."""

import contextlib
import dataclasses
import os
from collections.abc import Iterable

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import Problem
from nova_powervm.inventory_file import load
from nova_powervm.inventory_file import parse
from nova_powervm.inventory_file import structure
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import file_findings
from nova_powervm.tool.inventory import host_reader

NOVA = 'nova-compute'
CYBORG = 'cyborg-agent'

_NOT_CHECKED = (
    'Not checked without a host: whether two paragraphs identify the same '
    'device there, whether each identifies one, and whether a device has an '
    'external connection.'
)


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file, or its comparison with another file, with the findings.

    :param source: Name of the file.
    :param effect: What the file does, with ``{}`` for "starts" or "does not
        start"; empty for a comparison.
    :param text: Text of the file, for excerpts.
    :param found: The findings.
    :param policy: Content of a valid file.
    :param offer: Lines that describe the offered devices if a host was read,
        or else what could not be checked.
    :param other_source: Name of the other file of a comparison.
    """

    source: str
    effect: str = ''
    text: str = ''
    found: tuple[file_findings.Finding, ...] = ()
    policy: policies.Policy | None = None
    offer: tuple[str, ...] = ()
    other_source: str = ''

    @property
    def is_refused(self) -> bool:
        """Whether there is an error."""
        return any(
            finding.severity is file_findings.Severity.ERROR
            for finding in self.found
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
        found = file_findings.find_clashes(self.policy)
        offer: Iterable[str] = (_NOT_CHECKED,)
        if reading:
            found = file_findings.find_host_mismatches(self.policy, reading)
            offer = file_findings.describe_offer(self.policy, reading)
        return dataclasses.replace(
            self, found=(*self.found, *found), offer=tuple(offer)
        )


def read_checked(
    app: 'base.App', path: str, service: str, *, named: bool
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
        found = _make_errors([problem])
        return CheckedFile(path, 'Nothing was checked.', found=found)
    policy = policies.Policy(source=path)
    return CheckedFile(
        path,
        f'{service} starts without the file and offers no device.',
        found=(
            *file_findings.find_empty_file(policy, 'there is no such file'),
        ),
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
        if any(each.code == 'unreadable' for each in problems):
            # Another user, who runs the service, may be able to read it.
            effect = 'The file was not checked.'
        found = _make_errors(problems)
    else:
        empty = 'the file has no paragraph'
        found = tuple(file_findings.find_empty_file(policy, empty))
        if service == CYBORG:
            found += tuple(file_findings.refuse_one_time_use(policy))
    if text is None:
        text = _read_excerpt(source)
    shown = text if isinstance(text, str) else text.decode(errors='replace')
    return CheckedFile(source, effect, shown, found, policy)


def _read_excerpt(path: str) -> bytes:
    """Read a file, for excerpts; return nothing if that is a problem."""
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, 'rb') as stream:
                return stream.read(structure.MAX_BYTES)
    return b''


def _make_errors(
    problems: Iterable[Problem],
) -> tuple[file_findings.Finding, ...]:
    error = file_findings.Severity.ERROR
    return tuple(file_findings.Finding(error, each) for each in problems)
