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

"""Captured resources, from pypowervm's tests or from files of the user.

pypowervm's are read from the installed package at run time, found without
importing any of its code. Real hosts gave them; see
:data:`nouns.io_slot.VENDORS` for the one thing that is known to be wrong in
them.
"""

import dataclasses
import functools
import importlib.util
import pathlib
from collections.abc import Mapping
from typing import Any

from lxml import etree

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import errors

_PACKAGE = 'pypowervm'
_FOLDER = ('tests', 'data')
_START = b'BODY{'
_END = b'END OF SECTION}'
# Resources of each kind that has a name have it in one of these.
_NAMES = (
    'SystemName',
    'PartitionName',
    'GroupName',
    'SwitchName',
    'NetworkName',
)


@dataclasses.dataclass(frozen=True)
class Capture:
    """One captured resource.

    :ivar uuid: the Atom entry's id.
    :ivar element: the content, normalised.
    """

    kind: str
    uuid: str
    element: content.Element

    @property
    def name(self) -> str:
        """The resource's name, or nothing if its kind has none."""
        found = (content.text(self.element, name) for name in _NAMES)
        return next(filter(None, found), '')


def folder() -> pathlib.Path:
    """Return the folder of captures.

    :raises errors.WorldError: pypowervm is not installed, or without it.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    locations = spec.submodule_search_locations if spec else None
    for location in locations or ():
        found = pathlib.Path(location, *_FOLDER)
        if found.is_dir():
            return found
    raise errors.WorldError(
        f'{_PACKAGE} with its {"/".join(_FOLDER)} is not installed'
    )


def read(file: str) -> list[Capture]:
    """Return the resources of a capture, in the order of its feed.

    :param file: a file of the user by path, or the name of one of
        pypowervm's files, which has no slash.
    :raises errors.WorldError: there is no such capture.
    """
    return [_copy(capture) for capture in _captures(file)]


def find(named: Mapping[str, Any], kind: str) -> Capture:
    """Return the resource that the key ``capture`` of a world names.

    :param kind: what it must be, for example ``ManagedSystem``.
    :raises errors.RestError: it is not there, is of another kind, or is no
        XML.
    """
    if 'document' in named:
        return _inline(named, kind)
    file = named['file']
    found = _captures(file)
    if 'name' in named:
        name = named['name']
        found = tuple(
            capture
            for capture in found
            if (capture.kind, capture.name) == (kind, name)
        )
        if len(found) != 1:
            raise errors.WorldError(
                f'{file} has {len(found)} entries for {kind} {name!r}'
            )
    entry = named.get('entry', 0)
    if entry >= len(found) or found[entry].kind != kind:
        raise errors.WorldError(f'{file} has no {kind} as entry {entry}')
    return _copy(found[entry])


def parse(data: bytes) -> list[Capture]:
    """Return the resources of a feed or entry.

    :raises etree.XMLSyntaxError: it is no XML.
    """
    root = etree.fromstring(data.strip(), content.parser())
    name = f'{{{atom.ATOM_NS}}}entry'
    return [_capture(entry) for entry in root.iter(name)]


def _inline(named: Mapping[str, Any], kind: str) -> Capture:
    """Return the resource whose document is in the world itself."""
    element = content.parse(named['document'])
    found = content.local_name(element)
    if found != kind:
        raise errors.WorldError(f'a document of a {kind} is a {found}')
    return Capture(kind, named['uuid'], element)


def _copy(capture: Capture) -> Capture:
    return dataclasses.replace(capture, element=content.copy(capture.element))


def _captures(file: str) -> tuple[Capture, ...]:
    path = pathlib.Path(file) if '/' in file else folder() / file
    try:
        if not path.is_file():
            raise errors.WorldError(f'{file} is not a capture: no such file')
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, LookupError, ValueError, etree.XMLSyntaxError) as error:
        # Clients of the control plane name files, and don't get to see what
        # is in one that is no capture.
        reason = getattr(error, 'strerror', None) or 'no feed or entry'
        raise errors.WorldError(
            f'{file} is not a capture: {reason}'
        ) from error


@functools.lru_cache(maxsize=8)
def _read(path: pathlib.Path, _changed: int) -> tuple[Capture, ...]:
    """Read a file, in pypowervm's format or plain XML.

    :param _changed: when; a file of the user may change while this runs.
    """
    data = path.read_bytes()
    if _START in data:
        data = data.partition(_START)[2].partition(_END)[0]
    return tuple(parse(data))


def _capture(entry: content.Element) -> Capture:
    element = content.section(entry, 'content')[0]
    return Capture(
        content.local_name(element),
        content.text(entry, 'id'),
        content.normalise(element),
    )
