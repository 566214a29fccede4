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

"""Captured resources from the data files that pypowervm ships with its tests.

They are read from the installed package at run time, found without importing
any of its code. Real hosts gave them; see :data:`VENDORS` for the one thing
that is known to be wrong in them.
"""

import dataclasses
import functools
import importlib.util
import pathlib
from collections.abc import Mapping
from typing import Any

from lxml import etree

from nova_powervm.emulator.core import atom
from nova_powervm.emulator.core import content
from nova_powervm.emulator.core import errors

_PACKAGE = 'pypowervm'
_FOLDER = ('tests', 'data')
_START = 'BODY{'
_END = 'END OF SECTION}'


@dataclasses.dataclass(frozen=True)
class Capture:
    """One captured resource.

    :ivar uuid: the Atom entry's id.
    :ivar element: the content, normalised.
    """

    kind: str
    uuid: str
    element: content.Element


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
        [f'{_PACKAGE} with its {"/".join(_FOLDER)} is not installed']
    )


def read(file: str) -> list[Capture]:
    """Return the resources of a capture, in the order of its feed.

    :param file: the file's name in the folder.
    :raises errors.WorldError: there is no such capture.
    """
    return [
        dataclasses.replace(capture, element=content.copy(capture.element))
        for capture in _read(folder() / file)
    ]


def get(file: str, entry: int, kind: str) -> Capture:
    """Return one resource of a capture.

    :param file: the file's name in the folder.
    :param entry: which one, counted from 0.
    :param kind: what it must be, for example ``ManagedSystem``.
    :raises errors.WorldError: it is not there, or is of another kind.
    """
    found = read(file)
    if entry >= len(found) or found[entry].kind != kind:
        raise errors.WorldError([f'{file} has no {kind} as entry {entry}'])
    return found[entry]


def described(spec: Mapping[str, Any], kind: str) -> Capture:
    """Return the capture that a description in a world document names.

    :raises errors.WorldError: it is not there, or is of another kind.
    """
    named = spec['capture']
    return get(named['file'], named.get('entry', 0), kind)


@functools.lru_cache(maxsize=8)
def _read(path: pathlib.Path) -> tuple[Capture, ...]:
    try:
        text = path.read_text(encoding='utf-8')
        _head, _start, rest = text.partition(_START)
        body, _end, _tail = rest.partition(_END)
        root = etree.fromstring(body.strip().encode())
    except (OSError, etree.XMLSyntaxError) as error:
        raise errors.WorldError(
            [f'{path.name} is not a capture: {error}']
        ) from error
    name = f'{{{atom.ATOM_NS}}}entry'
    return tuple(_capture(entry) for entry in root.iter(name))


def _capture(entry: content.Element) -> Capture:
    element = content.section(entry, 'content')[0]
    return Capture(
        content.local_name(element),
        content.text(entry, 'id'),
        content.normalise(element),
    )
