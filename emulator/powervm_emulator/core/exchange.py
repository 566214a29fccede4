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

"""A request as handlers see it, and what they answer."""

import dataclasses
import json
import uuid as uuid_module
import zlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from powervm_emulator.core import atom
from powervm_emulator.core import bodies
from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import habits
from powervm_emulator.core import media
from powervm_emulator.core import resource
from powervm_emulator.core import schema
from powervm_emulator.core import sessions

Resource = resource.Resource
Groups = groups_module.Groups


@dataclasses.dataclass(frozen=True)
class Answer:
    """A response.

    :ivar etag: goes into the ETag header if it is not empty.
    :ivar cookies: that the client is to keep, by name.
    :ivar chunks: the body, if it is too long to be held in memory.
    :ivar length: of the chunks, in bytes.
    """

    status: int = 200
    body: bytes = b''
    content_type: str = atom.CONTENT_TYPE
    etag: str = ''
    cookies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    chunks: Iterable[bytes] | None = None
    length: int = 0


NO_CONTENT = Answer(204)
#: Kinds to the names of the rules by which an outdated change is refused.
_CONFLICTS = {
    'LogicalPartition': 'lpar-etag',
    'VolumeGroup': 'group-etag',
    'VirtualIOServer': 'mapping-etag',
}


@dataclasses.dataclass(frozen=True)
class Call:
    """A request to the REST API.

    :ivar method: in upper case.
    :ivar path: without host and query, unquoted.
    :ivar query: as it was sent, without the question mark.
    :ivar parameters: the query's parameters.
    :ivar headers: by name as ``X-Api-Session``.
    :ivar cookies: by name.
    :ivar body: as it was sent; empty if the route streams.
    :ivar arriving: what is still to come of the body.
    :ivar base: ``http://host:port`` as the client addressed the server.
    :ivar now: the time of the request, in seconds since the epoch.
    """

    method: str
    path: str
    query: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    body: bytes
    base: str
    now: float
    arriving: bodies.Body = dataclasses.field(default_factory=bodies.Body)

    @property
    def groups(self) -> Groups:
        """The extended attribute groups that the request is about."""
        return Groups.from_query(self.parameters.get('group'))

    @property
    def writer(self) -> atom.Writer:
        """Writes Atom documents for this request."""
        return atom.Writer(self.base, self.now)

    @property
    def token(self) -> str | None:
        """The session token, if the request has one.

        Some clients only send the cookies of their logon.
        """
        cookie = self.cookies.get(sessions.COOKIE)
        return self.headers.get('X-Api-Session', cookie)

    def content(
        self,
        kind: str,
        namespace: str = content.UOM_NS,
        old: content.Element | None = None,
    ) -> content.Element:
        """Return the content element of the body.

        :param kind: its name.
        :param namespace: its namespace.
        :param old: what it is to replace; None if it is new.
        :raises errors.RestError: the body is no XML or something else, its
            Content-Type says so, the schema has no such document, or a value
            is not of its type.
        """
        body = content.parse(self.body)
        found = content.local_name(body)
        if found != kind:
            raise errors.BadDocument(f'The body is a {found}, not a {kind}.')
        if content.namespace_of(body) != namespace:
            raise errors.BadDocument(
                f'The {kind} is not in the namespace {namespace}.'
            )
        media.check_body(self.headers.get('Content-Type', ''), body)
        schema.check(body, old)
        elements.check_values(body, old)
        elements.keep_marks(body, old)
        return body

    def check(self, served: Sequence[str]) -> None:
        """Refuse what no answer could satisfy, whatever the URI is.

        :param served: the media types of answers.
        :raises errors.RestError: the client accepts none of them, or asks
            for an unknown group.
        """
        media.check_accepted(self.headers.get('Accept', ''), served)
        Groups.from_query(self.parameters.get('group'))

    def self_path(self, path: str) -> str:
        """Return a path with this request's groups, for a SELF link.

        Clients update and refresh by that link, and must so get the same
        groups again.
        """
        group = self.parameters.get('group')
        return path if group is None else f'{path}?group={group}'

    def entry(self, resource: Resource, path: str) -> Answer:
        """Answer with one resource, or 304 if the client has it.

        :param path: the URI of the resource in the form that was asked for.
        """
        etag = resource.etag(self.groups)
        if self.has(etag):
            return Answer(304, etag=etag)
        body = self.writer.entry(self._atom_entry(resource, path))
        return Answer(200, body, etag=etag)

    def feed(self, resources: Iterable[Resource], path: str) -> Answer:
        """Answer with a feed of resources; 204 if there are none.

        :param path: the URI of the feed in the form that was asked for.
        """
        listed = list(resources)
        if not listed:
            return NO_CONTENT
        tags = ' '.join(resource.etag(self.groups) for resource in listed)
        etag = str(zlib.crc32(tags.encode()) & 0x7FFFFFFF)
        if self.has(etag):
            return Answer(304, etag=etag)
        entries = [
            self._atom_entry(resource, f'{path}/{resource.uuid}')
            for resource in listed
        ]
        body = self.writer.feed(feed_id(path), self.self_path(path), entries)
        return Answer(200, body, etag=etag)

    def check_current(self, resource: Resource) -> None:
        """Refuse if the client has seen another revision than the present.

        No If-Match at all is accepted: clients send some changes so.

        :raises errors.PreconditionFailed: If-Match names another revision.
        """
        etag = self.headers.get('If-Match')
        if not resource.conditional or etag is None:
            return
        if not resource.is_current(etag):
            problem = errors.PreconditionFailed(
                f'{resource.kind} {resource.uuid} has been changed since the '
                'revision that If-Match names.'
            )
            habits.refuse(_CONFLICTS.get(resource.kind, ''), problem)

    def has(self, etag: str) -> bool:
        """Whether the client has what an entity tag names."""
        return self.headers.get('If-None-Match', '').strip('"') == etag

    def _atom_entry(self, resource: Resource, path: str) -> atom.Entry:
        return atom.Entry(
            id=resource.uuid,
            element=resource.view(self.groups),
            path=self.self_path(path),
            etag=resource.etag(self.groups),
        )


def feed_id(path: str) -> str:
    """Return the id of the feed at a path."""
    return str(uuid_module.uuid3(uuid_module.NAMESPACE_URL, path))


def json_answer(value: object, status: int = 200) -> Answer:
    """Answer with a JSON value."""
    body = json.dumps(value).encode()
    return Answer(status, body, 'application/json')


def documents(call: Call, entries: Sequence[atom.Entry], path: str) -> Answer:
    """Answer with a feed of entries that are no resources; 204 if none."""
    if not entries:
        return NO_CONTENT
    return Answer(200, call.writer.feed(feed_id(path), path, entries))
