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

"""What every resource of the REST API has in common."""

import uuid as uuid_module
import zlib
from typing import Any
from typing import Self
from typing import TypeAlias

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import groups as groups_module

Groups = groups_module.Groups
API = '/rest/api/uom'
JSON: TypeAlias = dict[str, Any]
_ALL_BITS = 0xFFFFFFFF
_GROUP_BITS = len(groups_module.EXTENDED)


class Resource:
    """A resource: its content element and the revision of it.

    :param kind: the REST element's name, for example ``LogicalPartition``.
    :param uuid: as it stands in URIs; upper case for partitions.
    :param element: the content, as ``content.normalise`` returns it. The
        resource owns it from now on.
    :param parent: the resource whose child this is, None for a root.
    :cvar announced: whether changes send events.
    :cvar conditional: whether a request whose If-Match names an earlier
        revision is refused.
    :ivar pool_uuid: the uuid of the storage pool that it is a part of; empty
        for what belongs to one host.
    """

    announced = True
    conditional = True
    pool_uuid = ''

    def __init__(
        self,
        kind: str,
        uuid: str,
        element: content.Element,
        parent: 'Resource | None' = None,
    ) -> None:
        self.kind = kind
        self.uuid = uuid
        self.element = element
        self.parent = parent
        self.revision = 0

    @property
    def path(self) -> str:
        """The resource's root URI, without host and query."""
        return f'{API}/{self.kind}/{self.uuid}'

    @property
    def event_path(self) -> str:
        """The URI that events name: under the parent, if it has one."""
        if self.parent is None:
            return self.path
        return f'{self.parent.path}/{self.kind}/{self.uuid}'

    def use_of(self, _other: 'Resource') -> str:
        """Tell how this resource uses another, which then can't be deleted.

        :returns: the end of a sentence that begins with the name of the other
            resource, such as ``is in use by the network adapter in ...``;
            empty if this resource does not use it.
        """
        return ''

    def etag(self, groups: Groups) -> str:
        """Return the entity tag of this revision as seen through groups.

        A signed 32-bit number, as K2 makes them. The low bits are the
        groups, the others the revision: see :meth:`is_current`.
        """
        number = self.revision << _GROUP_BITS | groups.mask
        return _signed(number & _ALL_BITS)

    def is_current(self, etag: str) -> bool:
        """Whether an entity tag names this revision, through any groups.

        A client may delete without groups what it read with some. ``*`` names
        every revision.
        """
        if etag == '*':
            return True
        try:
            number = int(etag.strip('"')) & _ALL_BITS
        except ValueError:
            return False
        current = (self.revision << _GROUP_BITS) & _ALL_BITS
        return number >> _GROUP_BITS == current >> _GROUP_BITS

    def view(self, groups: Groups) -> content.Element:
        """Return a copy of the content that has only the groups' parts."""
        copy = content.copy(self.element)
        for child in list(copy):
            if not groups.shows(child):
                copy.remove(child)
        return copy

    def merge_groups(self, posted: content.Element, groups: Groups) -> None:
        """Complete a posted body with the groups that it does not include.

        Updates of a resource with groups must call this, or they would delete
        what the client has not read.
        """
        for child in self.element:
            if not groups.shows(child):
                content.replace(posted, content.copy(child))

    def text(self, path: str, default: str = '') -> str:
        """Return the text at a path of the content."""
        return content.text(self.element, path, default)

    def integer(self, path: str, default: int = 0) -> int:
        """Return the whole number at a path of the content."""
        return content.integer(self.element, path, default)

    def number(self, path: str, default: float = 0.0) -> float:
        """Return the number at a path of the content."""
        return content.number(self.element, path, default)

    def boolean(self, path: str, default: bool = False) -> bool:
        """Return the truth value at a path of the content."""
        return content.boolean(self.element, path, default)

    def put(self, path: str, value: content.Value) -> Self:
        """Set the value at a path of the content."""
        content.put(self.element, path, value)
        return self


class Derived(Resource):
    """A resource that is made of what others show, for one request.

    Its revision is that of its content.

    :param name: tells it from others of its kind and parent.
    """

    def __init__(
        self, name: str, element: content.Element, parent: Resource
    ) -> None:
        kind = content.local_name(element)
        space = uuid_module.UUID(parent.uuid)
        uuid = str(uuid_module.uuid3(space, f'{kind} {name}'))
        super().__init__(kind, uuid, element, parent)
        content.identify(element, uuid)
        if kind in elements.CHILDREN:
            elements.sort(element)
        self.revision = zlib.crc32(etree.tostring(element))


def _signed(number: int) -> str:
    return str(number - (1 << 32) if number >= 1 << 31 else number)
