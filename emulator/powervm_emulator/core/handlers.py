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

"""Answering requests for resources of a noun, in the same way for all."""

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import errors
from powervm_emulator.core import exchange
from powervm_emulator.core import job_documents
from powervm_emulator.core import media
from powervm_emulator.core import noun as noun_module
from powervm_emulator.core import quick as quick_module
from powervm_emulator.core import resource
from powervm_emulator.core import route

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
Resource = resource.Resource
Route = route.Route
_QUICK = 'QuickPropertyCollection'
_SEARCHES = 'SearchParameterSet'
_PARAMETER = 'ParameterName'
# A value without quotes has no blanks.
_SEARCH = re.compile(
    r'\((?P<name>\w+)(?P<operator>==|!=)'
    r"('(?P<quoted>.*)'|(?P<plain>[^\s']*))\)"
)


@dataclasses.dataclass(frozen=True)
class _Handlers:
    """The handlers of a noun under one kind of parent.

    ``parent`` is the uuid of the parent in the URI.
    """

    noun: noun_module.Noun
    parent_kind: str

    def routes(self) -> Iterator[Route]:
        """Yield the routes of what clients can do here."""
        kind = self.noun.kind
        feed = f'/rest/api/{self.noun.service}/{kind}'
        if self.parent_kind:
            feed = f'/rest/api/uom/{self.parent_kind}/<parent>/{kind}'
        one = f'{feed}/<uuid>'
        yield Route('GET', feed, self.feed, f'{kind}.feed')
        yield Route('GET', one, self._of(self.read), f'{kind}.read')
        if self.noun.quick:
            if not self.parent_kind:
                yield self._anchor(feed, 'quick', _QUICK)
            quick = self._of(self.quick)
            for rule, handler in (
                (f'{feed}/quick/All', self.quick_all),
                (f'{one}/quick', quick),
                (f'{one}/quick/<name>', quick),
            ):
                label = f'{kind}.quick'
                yield Route('GET', rule, handler, label, served=media.JSON)
        searched = self.noun.quick or self.noun.searchable
        if searched and not self.parent_kind:
            yield self._anchor(feed, 'search', _SEARCHES)
            rule = f'{feed}/search/<path:expression>'
            yield Route('GET', rule, self.search, f'{kind}.search')
        if self.noun.create:
            yield Route('PUT', feed, self.create, f'{kind}.create')
        if self.noun.update:
            yield Route('POST', one, self._of(self.update), f'{kind}.update')
        if self.noun.delete:
            yield Route('DELETE', one, self._of(self.delete), f'{kind}.delete')
        if self.noun.operations:
            rule = f'{one}/do/<operation>'
            template = self._of(self.job_template)
            yield Route('GET', rule, template, f'{kind}.job_template')
            yield Route('PUT', rule, self._of(self.job), f'{kind}.job')

    def _anchor(self, feed: str, name: str, kind: str) -> Route:
        """Return the route that tells what quick properties there are.

        :param name: ``quick``, or ``search`` for those to search by.
        :param kind: of the document.
        """

        def handle(_: Emulation, call: Call) -> Answer:
            names = [
                content.leaf(_PARAMETER, one, content.WEB_NS)
                for one in self.noun.quick
            ]
            element = content.new(kind, *names, namespace=content.WEB_NS)
            entry = atom.Entry(exchange.feed_id(call.path), element)
            return exchange.documents(call, [entry], call.path)

        rule = f'{feed}/{name}'
        label = f'{self.noun.kind}.{name}'
        return Route('GET', rule, handle, label, served=media.WEB)

    def _of(self, answer: Callable[..., Answer]) -> Callable[..., Answer]:
        """Return the handler that answers of the resource of a URI."""

        def handle(
            emulation: Emulation,
            call: Call,
            uuid: str,
            parent: str = '',
            **placeholders: str,
        ) -> Answer:
            found = self._find(emulation, uuid, parent)
            return answer(emulation, call, found, **placeholders)

        return handle

    def feed(
        self, emulation: Emulation, call: Call, parent: str = ''
    ) -> Answer:
        """Answer with all resources of the parent."""
        return call.feed(self._all(emulation, parent), self._path(call))

    def read(self, _: Emulation, call: Call, found: Resource) -> Answer:
        """Answer with one resource."""
        return self._answer(call, found)

    def search(
        self, emulation: Emulation, call: Call, expression: str
    ) -> Answer:
        """Answer a search: ``(PartitionName=='a')`` or ``!=``."""
        parts = _SEARCH.fullmatch(expression)
        if parts is None:
            raise errors.Refused(f'{expression!r} is not a search.', '')
        wanted = parts['operator'] == '=='
        value = parts['quoted'] or parts['plain'] or ''
        found = [
            one
            for one in self._all(emulation, '')
            if (one.text(parts['name']) == value) == wanted
        ]
        return call.feed(found, self._path(call))

    def quick(
        self, _: Emulation, call: Call, found: Resource, name: str = ''
    ) -> Answer:
        """Answer with one or all quick properties of a resource."""
        values = quick_module.Values(self.noun.quick, found, call.base)
        return exchange.json_answer(
            values.one(name) if name else values.every()
        )

    def quick_all(
        self, emulation: Emulation, call: Call, parent: str = ''
    ) -> Answer:
        """Answer with all quick properties of all resources."""
        readers = self.noun.quick
        return exchange.json_answer(
            [
                {
                    'UUID': one.uuid,
                    **quick_module.Values(readers, one, call.base).every(),
                }
                for one in self._all(emulation, parent)
            ]
        )

    def create(
        self, emulation: Emulation, call: Call, parent: str = ''
    ) -> Answer:
        """PUT: make a resource of the body."""
        assert self.noun.create is not None  # noqa: S101 - has a route
        body = self._body(call)
        above = self._parent(emulation, parent)
        created = self.noun.create(emulation.host, above, body)
        with emulation.host.drafting():
            return self._answer(call, created)

    def update(
        self, emulation: Emulation, call: Call, found: Resource
    ) -> Answer:
        """POST: change a resource to the body."""
        assert self.noun.update is not None  # noqa: S101 - has a route
        call.check_current(found)
        body = self._body(call, found.element)
        self.noun.update(emulation.host, found, body, call.groups)
        with emulation.host.drafting():
            return self._answer(call, found)

    def delete(
        self, emulation: Emulation, call: Call, found: Resource
    ) -> Answer:
        """DELETE a resource."""
        assert self.noun.delete is not None  # noqa: S101 - has a route
        call.check_current(found)
        self.noun.delete(emulation.host, found)
        return exchange.NO_CONTENT

    def job_template(
        self, emulation: Emulation, call: Call, found: Resource, operation: str
    ) -> Answer:
        """GET do/{operation}: answer with an empty JobRequest."""
        emulation.jobs.check_operation(self.noun.kind, operation)
        return job_documents.template(call, found, operation)

    def job(
        self, emulation: Emulation, call: Call, found: Resource, operation: str
    ) -> Answer:
        """PUT do/{operation}: start a job."""
        parameters = job_documents.parameters(call, found, operation)
        job = emulation.jobs.submit(found, operation, parameters)
        return job_documents.answer(call, job)

    def _parent(self, emulation: Emulation, uuid: str) -> Resource | None:
        if not self.parent_kind:
            return None
        return emulation.host.get(self.parent_kind, uuid)

    def _all(self, emulation: Emulation, parent: str) -> Iterable[Resource]:
        above = self._parent(emulation, parent)
        if self.noun.derive is not None:
            return self.noun.derive(emulation.host, above)
        return emulation.host.all(self.noun.kind, above)

    def _find(self, emulation: Emulation, uuid: str, parent: str) -> Resource:
        above = self._parent(emulation, parent)
        if self.noun.derive is not None:
            for found in self.noun.derive(emulation.host, above):
                if found.uuid == uuid.lower():
                    return found
            raise errors.NotFound(
                f'There is no {self.noun.kind} with the uuid {uuid}.'
            )
        if above is None:
            return emulation.host.get(self.noun.kind, uuid)
        return emulation.host.get_child(above, self.noun.kind, uuid)

    def _body(
        self, call: Call, old: content.Element | None = None
    ) -> content.Element:
        """Return the posted document.

        Not to be called in ``drafting()``: lxml's table of names is that of
        the thread, and a reader of what this thread parsed before would see
        it change.
        """
        is_web = self.noun.service == noun_module.WEB
        namespace = content.WEB_NS if is_web else content.UOM_NS
        return call.content(self.noun.kind, namespace, old)

    def _path(self, call: Call) -> str:
        """Return the URI of the feed, in the form that was asked for."""
        noun = f'/{self.noun.kind}'
        before, _, _ = call.path.rpartition(noun)
        return before + noun

    def _answer(self, call: Call, found: Resource) -> Answer:
        return call.entry(found, f'{self._path(call)}/{found.uuid}')


def routes(noun: noun_module.Noun) -> Iterator[Route]:
    """Yield every route of a noun."""
    for parent in noun.parents:
        yield from _Handlers(noun, parent).routes()
    yield from noun.routes
