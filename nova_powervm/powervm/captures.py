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

"""Stored responses of the REST server, read from files.

With these, an inventory file can be checked without access to the host.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.powervm import system as powervm_system

_WRAPPERS = {
    'ManagedSystem': managed_system.System,
    'LogicalPartition': logical_partition.LPAR,
    'VirtualIOServer': virtual_io_server.VIOS,
}
# pypowervm stores responses in files with named sections.
_BODY = b'BODY{'
_END_OF_SECTION = b'END OF SECTION}'
_CURE = (
    'Store what a GET of /rest/api/uom/ManagedSystem answers, as it is, in '
    'a file'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Capture:
    """A host as stored responses describe it.

    :param system: The managed system with its slots.
    :param owners_known: False if slots without an owner may have one: the
        system does not report all owners, and its partitions or its Virtual
        I/O Servers are not among the responses.
    """

    system: host_values.ManagedSystem
    owners_known: bool


def read(paths: Sequence[str], system_name: str | None = None) -> Capture:
    """Read the files of one host.

    Each file has a response of the REST server for ManagedSystem,
    LogicalPartition or VirtualIOServer: the Atom feed or entry itself, or the
    format of pypowervm's own tool for captures.

    :param paths: Paths of the files.
    :param system_name: Name of the system; None for the only system.
    :raises exception.ConfigurationError: A file cannot be read, or has the
        wrong content.
    """
    try:
        return _read(paths, system_name)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # pypowervm fails like this if a mandatory element is missing.
        raise exception.ConfigurationError(
            reason=f'{", ".join(paths)}: a resource is incomplete ({error}). '
            f'{_CURE}.'
        ) from error


def _read(paths: Sequence[str], system_name: str | None) -> Capture:
    resources: dict[str, list[Any]] = {kind: [] for kind in _WRAPPERS}
    for path in paths:
        for kind, wrapper in _wrappers(path):
            resources[kind].append(wrapper)
    where = ', '.join(paths)
    system = _choose(resources['ManagedSystem'], system_name, where)
    reported = powervm_system.reports_owners(system)
    own = [
        _partitions_of(resources[kind], system.uuid)
        for kind in ('VirtualIOServer', 'LogicalPartition')
    ]
    owners = None
    if not reported:
        partitions = itertools.chain.from_iterable(own)
        owners = powervm_system.profile_owners(partitions)
    try:
        managed = powervm_system.managed_system_of(system, owners)
    except exception.RestBusy as error:
        raise exception.ConfigurationError(
            reason=f'{where}: system {system.system_name} comes without its '
            f'I/O slots. {_CURE}; the answer has to hold the element '
            'AssociatedSystemIOConfiguration.'
        ) from error
    return Capture(managed, reported or all(own))


def _wrappers(path: str) -> Iterator[tuple[str, Any]]:
    """Yield each resource of a file with its kind."""
    response = _response(path)
    entries = response.feed.entries if response.feed else [response.entry]
    for entry in entries:
        element = getattr(entry, 'element', None)
        kind = getattr(element, 'tag', None)
        if kind not in _WRAPPERS:
            raise exception.ConfigurationError(
                reason=f'{path} holds {_article(kind)}, but no '
                f'{", ".join(_WRAPPERS)}. {_CURE}.'
            )
        yield kind, _WRAPPERS[kind].wrap(entry)


def _article(kind: str | None) -> str:
    return f'a resource of the kind {kind}' if kind else 'an empty resource'


def _response(path: str) -> Any:
    try:
        with open(path, 'rb') as stream:
            body = stream.read()
    except (OSError, ValueError) as error:
        raise exception.ConfigurationError(
            reason=f'{path} cannot be read: {error}. Give the path of a '
            'stored REST answer.'
        ) from error
    before, start, rest = body.partition(_BODY)
    if start and not before.lstrip().startswith(b'<'):
        body = rest.partition(_END_OF_SECTION)[0]
    response = pvm_adapter.Response(
        'GET', path, 200, 'OK', {}, body=body.strip() or b'<empty/>'
    )
    try:
        response._unmarshal_atom()  # noqa: SLF001 - as an Adapter does
    except pvm.Error as error:
        raise exception.ConfigurationError(
            reason=f'{path} is no REST answer: it is neither an Atom feed '
            f'nor an Atom entry. {_CURE}.'
        ) from error
    return response


def _choose(systems: Sequence[Any], name: str | None, where: str) -> Any:
    names = ', '.join(sorted(str(s.system_name) for s in systems)) or 'none'
    wanted = [s for s in systems if name in (None, s.system_name)]
    if len(wanted) == 1:
        return wanted[0]
    if not systems:
        reason = f'{where}: there is no ManagedSystem. {_CURE}.'
    elif name is None:
        reason = (
            f'{where}: there are {len(systems)} systems ({names}). Choose '
            'one with --system-name.'
        )
    else:
        reason = f"{where}: there is no system '{name}' among: {names}."
    raise exception.ConfigurationError(reason=reason)


def _partitions_of(partitions: Iterable[Any], uuid: str) -> list[Any]:
    """Return a system's partitions; DRC indexes repeat on other systems."""
    return [
        partition
        for partition in partitions
        if not partition.assoc_sys_uuid
        or partition.assoc_sys_uuid.upper() == uuid.upper()
    ]
