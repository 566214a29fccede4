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

"""What makes up a noun of the REST API."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from powervm_emulator.core import jobs
from powervm_emulator.core import quick as quick_module
from powervm_emulator.core import resource
from powervm_emulator.core import route

#: The API itself, as the parent of nouns that are not under another one.
ROOT = ''
UOM = 'uom'
WEB = 'web'
Derive = Callable[..., Iterable[resource.Resource]]
Create = Callable[..., resource.Resource]
Update = Callable[..., None]
Delete = Callable[..., None]


@dataclasses.dataclass(frozen=True)
class WorldKey:
    """The key of world documents that describes resources of a noun.

    :ivar name: the key, whose value is a list of descriptions.
    :ivar holders: the kinds whose descriptions have the key; empty for a key
        of the document itself.
    :ivar schema: the JSON schema of one description.
    :ivar required: keys that a description without ``capture`` must have.
    :ivar captured: keys that one with ``capture`` can't have, because they
        would change nothing.
    :ivar build: builds the resources: ``build(host, holder, descriptions)``.
        It is called for each holder, and at last with the holder None for a
        key of the document. None for systems and partitions, which
        ``worlds.builder`` builds itself.
    :ivar default: the descriptions for a holder without the key.
    """

    name: str
    holders: tuple[str, ...]
    schema: Mapping[str, Any]
    required: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()
    build: Callable[..., None] | None = None
    default: tuple[resource.JSON, ...] = ()


@dataclasses.dataclass(frozen=True)
class Noun:
    """A noun of the REST API: what clients can do with resources of a kind.

    :ivar kind: the REST element's name, such as ``NetworkBridge``.
    :ivar parents: the kinds of the resources below whose URIs it is served;
        :data:`ROOT` for ``/rest/api/uom`` itself. If this is empty, only
        ``routes`` lead to it.
    :ivar derive: for resources that are not kept, but made of what others
        show: ``derive(host, parent)`` yields them. Only reading goes with it.
    :ivar create: creates a resource: ``create(host, parent, body)``, with the
        parent None at the root. None if clients cannot create one.
    :ivar update: changes a resource: ``update(host, resource, body, groups)``.
    :ivar delete: deletes a resource: ``delete(host, resource)``.
    :ivar quick: quick properties by name. A noun at the root that has some
        can be searched, too.
    :ivar searchable: whether a noun without quick properties can be, too.
    :ivar operations: jobs by name.
    :ivar routes: further URIs.
    :ivar service: ``uom`` or ``web``.
    :ivar world: how world documents describe such resources.
    :ivar summary: summarizes the resources of a parent for the control
        plane: ``summary(host, parent)`` returns keys that are added to the
        summary of the parent, or to that of the host if the parent is None.
    """

    kind: str
    parents: tuple[str, ...] = ()
    derive: Derive | None = None
    create: Create | None = None
    update: Update | None = None
    delete: Delete | None = None
    quick: Mapping[str, quick_module.Reader] = dataclasses.field(
        default_factory=dict
    )
    operations: Mapping[str, type[jobs.Operation]] = dataclasses.field(
        default_factory=dict
    )
    routes: tuple[route.Route, ...] = ()
    service: str = UOM
    world: WorldKey | None = None
    summary: Callable[..., resource.JSON] | None = None
    searchable: bool = False
