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

"""Quick properties: single values of a resource, in JSON."""

from collections.abc import Callable
from collections.abc import Mapping

from nova_powervm.emulator.core import content
from nova_powervm.emulator.core import errors
from nova_powervm.emulator.core import resource

Resource = resource.Resource
JSON = str | int | float | bool | None
Reader = Callable[[Resource], JSON]


def text(path: str) -> Reader:
    """Read the text at a path; None if it is empty."""

    def read(resource: Resource) -> JSON:
        return resource.text(path) or None

    return read


def integer(path: str) -> Reader:
    """Read the whole number at a path; None without one."""

    def read(resource: Resource) -> JSON:
        if content.find(resource.element, path) is None:
            return None
        return resource.integer(path)

    return read


def number(path: str) -> Reader:
    """Read the number at a path; None without one."""

    def read(resource: Resource) -> JSON:
        if content.find(resource.element, path) is None:
            return None
        return resource.number(path)

    return read


def boolean(path: str) -> Reader:
    """Read the truth value at a path."""

    def read(resource: Resource) -> JSON:
        return resource.boolean(path)

    return read


def every(
    readers: Mapping[str, Reader], resource: Resource
) -> dict[str, JSON]:
    """Return every quick property of a resource."""
    return {name: read(resource) for name, read in readers.items()}


def one(readers: Mapping[str, Reader], resource: Resource, name: str) -> JSON:
    """Return one quick property of a resource.

    :raises errors.NotFound: the kind has none with this name.
    """
    if name not in readers:
        raise errors.NotFound(
            f'{resource.kind} has no quick property {name!r}.'
        )
    return readers[name](resource)
