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

import dataclasses
import os
from collections.abc import Iterator

from nova_powervm import exception
from nova_powervm.devices import accelerator_policy
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import load
from nova_powervm.inventory_file import parse
from nova_powervm.inventory_file import read_excerpt
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import file_findings
from nova_powervm.tool.inventory import host_reader

NOVA = 'nova-compute'
CYBORG = 'cyborg-agent'

_STDIN = '-'
_NOT_CHECKED = (
    'Not checked without a host: whether two paragraphs identify the same '
    'device there, whether each identifies one, and whether a device has an '
    'external connection.'
)
_READ = file_findings.Access.READ


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file, or its comparison with another file, with the findings.

    :param source: Name of the file.
    :param service: The service that reads the file; empty for a comparison.
    :param text: Text of the file, for excerpts.
    :param found: The findings.
    :param policy: Content of a valid file.
    :param offer: Lines that describe the offered devices if a host was read,
        or else what could not be checked.
    :param access: Whether the file could be read.
    :param other_source: Name of the other file of a comparison.
    """

    source: str
    service: str = ''
    text: str = ''
    found: tuple[file_findings.Finding, ...] = ()
    policy: policies.Policy | None = None
    offer: tuple[str, ...] = ()
    access: file_findings.Access = file_findings.Access.READ
    other_source: str = ''

    @property
    def is_refused(self) -> bool:
        """Whether there is an error."""
        return any(
            finding.severity is file_findings.Severity.ERROR
            for finding in self.found
        )

    def compare(self, reading: host_reader.HostReading) -> 'CheckedFile':
        """Add what a host tells about a valid file.

        :param reading: The state of the host.
        """
        if self.policy is None:
            return self
        found = file_findings.find_host_mismatches(self.policy, reading)
        return dataclasses.replace(
            self,
            found=(*self.found, *found),
            offer=tuple(file_findings.describe_offer(self.policy, reading)),
        )

    def compare_paragraphs(self) -> 'CheckedFile':
        """Add what can be told about a valid file without a host."""
        if self.policy is None:
            return self
        return dataclasses.replace(
            self,
            found=(*self.found, *file_findings.find_clashes(self.policy)),
            offer=(_NOT_CHECKED,),
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
    if path == _STDIN:
        text = getattr(app.stdin, 'buffer', app.stdin).read()
        return _check('<stdin>', text, service, _READ)
    access = _access(path)
    if named and access is file_findings.Access.MISSING:
        return CheckedFile(
            path,
            service,
            found=(file_findings.make_missing_file_finding(),),
            access=access,
        )
    return _check(path, None, service, access)


def _check(
    source: str,
    text: bytes | str | None,
    service: str,
    access: file_findings.Access,
) -> CheckedFile:
    """Parse a file.

    :param text: Its text; None to read the file that ``source`` names.
    """
    policy = None
    try:
        policy = load(source) if text is None else parse(text, source)
    except exception.PolicyInvalid as error:
        found = file_findings.make_error_findings(error.fields['problems'])
    else:
        found = tuple(_find(policy, service, access))
    return CheckedFile(
        source, service, _shown(source, text), found, policy, access=access
    )


def _find(
    policy: policies.Policy, service: str, access: file_findings.Access
) -> Iterator[file_findings.Finding]:
    yield from file_findings.find_empty_file(
        policy, access is not file_findings.Access.MISSING
    )
    if service == CYBORG:
        yield from file_findings.refuse_one_time_use(
            accelerator_policy.one_time_use_paragraphs(policy)
        )


def _access(path: str) -> file_findings.Access:
    if not os.path.lexists(path):
        return file_findings.Access.MISSING
    if not os.access(path, os.R_OK, effective_ids=True):
        return file_findings.Access.UNREADABLE
    return file_findings.Access.READ


def _shown(path: str, text: bytes | str | None) -> str:
    """Read the file again for excerpts; return an empty text on failure."""
    if text is None:
        text = read_excerpt(path)
    return text if isinstance(text, str) else text.decode(errors='replace')
