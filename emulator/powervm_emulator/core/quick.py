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

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import resource

Resource = resource.Resource
JSON = str | int | float | None
Reader = Callable[[Resource], JSON]


def text(path: str) -> Reader:
    """Read the text at a path; None if it is empty.

    Hosts give truth values as text, too.
    """

    def read(resource: Resource) -> JSON:
        return resource.text(path) or None

    return read


def number(path: str) -> Reader:
    """Read the number at a path; None without one."""

    def read(resource: Resource) -> JSON:
        if not resource.text(path):
            return None
        value = resource.number(path)
        return int(value) if value.is_integer() else value

    return read


def exists(path: str) -> Reader:
    """Say whether there is an element at a path."""

    def read(resource: Resource) -> JSON:
        found = content.find(resource.element, path)
        return content.as_text(found is not None)

    return read


def texts(*names: str) -> dict[str, Reader]:
    """Read texts below the root by the names of their elements."""
    return {name: text(name) for name in names}


@dataclasses.dataclass(frozen=True)
class Values:
    """The quick properties of one resource.

    :ivar readers: by the names of the properties.
    :ivar base: goes before paths of the REST API.
    """

    readers: Mapping[str, Reader]
    resource: Resource
    base: str

    def every(self) -> dict[str, JSON]:
        """Return all of them by name."""
        return {name: self.one(name) for name in self.readers}

    def one(self, name: str) -> JSON:
        """Return one of them.

        :raises errors.NoQuickProperty: the kind has none with this name.
        """
        if name not in self.readers:
            raise errors.NoQuickProperty(
                f'{self.resource.kind} has no quick property {name!r}.'
            )
        value = self.readers[name](self.resource)
        if isinstance(value, str) and value.startswith(resource.API):
            return self.base + value
        return value
