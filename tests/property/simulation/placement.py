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

"""A Placement service in memory, used through the real report client.

It serves providers, inventories, traits, aggregates and allocations, and
refuses what Placement refuses.
"""

import dataclasses
import json
import urllib.parse

_DEFAULTS = {
    'reserved': 0,
    'min_unit': 1,
    'max_unit': 2147483647,
    'step_size': 1,
    'allocation_ratio': 1.0,
}
STALE = 'placement.concurrent_update'
IN_USE = 'placement.inventory.inuse'
WITHDRAWN = 'CUSTOM_POWERVM_WITHDRAWN'
QUARANTINED = 'CUSTOM_POWERVM_QUARANTINED'
#: What Nova's provider.yaml adds; it is nobody's device.
ADDED_CLASS = 'CUSTOM_BY_NOVA'


class Wrong(AssertionError):
    """A request that the driver must never make."""


class Answer:
    """A response of the HTTP client."""

    def __init__(self, status_code, content=None, code='', detail=''):
        self.headers = {}
        self.status_code = status_code
        self._content = content
        if status_code >= 400:
            error = {'status': status_code, 'code': code, 'detail': detail}
            self._content = {'errors': [error]}

    def __bool__(self):
        return self.status_code < 400

    @property
    def text(self):
        return json.dumps(self._content)

    @property
    def content(self):
        return self.text.encode()

    def json(self):
        # A copy, so that callers share no state.
        return json.loads(self.text)


@dataclasses.dataclass
class Row:
    """A provider."""

    uuid: str
    name: str
    parent: str | None = None
    inventory: dict = dataclasses.field(default_factory=dict)
    traits: frozenset = frozenset()
    aggregates: frozenset = frozenset()
    generation: int = 0

    @property
    def offer(self):
        """The inventory that the driver has set."""
        return {
            name: record
            for name, record in self.inventory.items()
            if name != ADDED_CLASS
        }

    @property
    def reserved(self):
        return any(r['reserved'] for r in self.offer.values())

    @property
    def state(self):
        """Everything that a client can change."""
        return (self.inventory, self.traits, self.aggregates)


class Placement:
    """Providers and their consumers."""

    def __init__(self):
        self.rows = {}
        # Consumer to provider to class to amount.
        self.allocations = {}
        self.traits = set()
        # Number of changes that were made by clients.
        self.writes = 0
        # Names of the providers that clients deleted.
        self.deleted = []
        # Called with a provider before a client raises its reserve.
        self.before_raise = lambda row: None
        # Only the client acts now, so it must not be refused anything.
        self.strict = True

    # State for the test, and actions of others than nova-compute

    def below(self, root):
        """Return the direct children of a provider."""
        return [row for row in self.rows.values() if row.parent == root]

    def holders(self, uuid):
        """Return the consumers of a provider."""
        return [c for c, held in self.allocations.items() if uuid in held]

    def has_room(self, row, name=None):
        """Return whether a unit of a class, or of any, can be allocated."""
        return any(
            record['total'] - record['reserved'] - self._used(row, each) >= 1
            for each, record in row.offer.items()
            if name in (None, each)
        )

    def _used(self, row, name):
        return sum(
            held.get(row.uuid, {}).get(name, 0)
            for held in self.allocations.values()
        )

    def allocate(self, consumer, wanted, moved=()):
        """Add to a consumer's allocations, as the scheduler does.

        :param moved: Providers of which another consumer gives up as much.
        """
        for provider in wanted.keys() - moved:
            for name in wanted[provider]:
                assert self.has_room(self.rows[provider], name)
        held = self.allocations.setdefault(consumer, {})
        for provider, amounts in wanted.items():
            held[provider] = dict(amounts)
            self.rows[provider].generation += 1

    def move(self, consumer, to):
        """Move all allocations of a consumer to another one."""
        held = self.allocations.pop(consumer, {})
        if held:
            self.allocations[to] = held
        for provider in held:
            self.rows[provider].generation += 1

    def free(self, consumer, providers=None):
        """Remove all allocations of a consumer, or those of some providers."""
        held = self.allocations.get(consumer, {})
        for provider in list(held if providers is None else providers):
            held.pop(provider, None)
        if not held:
            self.allocations.pop(consumer, None)

    def reserve(self, row, amount):
        """Set reserved, as an operator does."""
        row.inventory = {
            name: record | ({'reserved': amount} if name in row.offer else {})
            for name, record in row.inventory.items()
        }
        row.generation += 1

    # Requests over HTTP

    def answer(self, method, url, content):
        """Answer a request."""
        split = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(split.query))
        kind, *rest = split.path.strip('/').split('/')
        handler = getattr(self, f'_{method}_{kind}')
        return handler(*rest, query=query, content=content)

    def _get_resource_providers(self, uuid=None, what=None, *, query, content):
        if uuid is None:
            return Answer(200, {'resource_providers': self._list(query)})
        row = self.rows.get(uuid)
        if row is None:
            return Answer(404, detail=f'No resource provider {uuid}')
        if what is None:
            return Answer(200, self._show(row))
        body = {
            'inventories': lambda: row.inventory,
            'traits': lambda: sorted(row.traits),
            'aggregates': lambda: sorted(row.aggregates),
            'allocations': lambda: {
                consumer: {'resources': self.allocations[consumer][uuid]}
                for consumer in self.holders(uuid)
            },
        }[what]()
        generation = {'resource_provider_generation': row.generation}
        return Answer(200, {what: body} | generation)

    def _list(self, query):
        if 'in_tree' not in query:
            return []
        member = self.rows.get(query['in_tree'])
        if member is None:
            return []
        root = member.parent or member.uuid
        found = [self.rows[root], *self.below(root)]
        if 'resources' in query:
            name = query['resources'].partition(':')[0]
            found = [row for row in found if self.has_room(row, name)]
        return [self._show(row) for row in found]

    def _show(self, row):
        return {
            'uuid': row.uuid,
            'name': row.name,
            'generation': row.generation,
            'parent_provider_uuid': row.parent,
            'root_provider_uuid': row.parent or row.uuid,
            'links': [],
        }

    def _post_resource_providers(self, *, query, content):
        if any(row.name == content['name'] for row in self.rows.values()):
            detail = f'Conflicting resource provider name: {content["name"]}'
            return Answer(409, detail=detail)
        parent = content.get('parent_provider_uuid')
        if parent and parent not in self.rows:
            return Answer(400, detail='no such parent')
        uuid = content['uuid']
        if uuid in self.rows:
            return Answer(409, detail='Conflicting uuid')
        self.rows[uuid] = Row(uuid, content['name'], parent)
        self.writes += 1
        return Answer(200, self._show(self.rows[uuid]))

    def _delete_resource_providers(self, uuid, *, query, content):
        if uuid not in self.rows:
            return Answer(404)
        row = self.rows[uuid]
        if self.holders(uuid):
            return self._refuse(f'{row.name} is allocated, and deleted')
        if QUARANTINED in row.traits:
            self._refuse(f'{row.name} is in quarantine, and deleted')
        if row.reserved and WITHDRAWN not in row.traits:
            self._refuse(f'{row.name} is reserved, and deleted')
        if self.below(uuid):
            return Answer(409, detail='has children')
        del self.rows[uuid]
        self.deleted.append(row.name)
        self.writes += 1
        return Answer(204)

    def _put_resource_providers(self, uuid, what, *, query, content):
        row = self.rows.get(uuid)
        if row is None:
            return Answer(404)
        if content['resource_provider_generation'] != row.generation:
            return Answer(409, code=STALE, detail='generation conflict')
        if what == 'inventories':
            inventory = {
                name: _DEFAULTS | record
                for name, record in content['inventories'].items()
            }
            for name in row.inventory.keys() - inventory.keys():
                if self._used(row, name):
                    return self._refuse(f'{row.name}: allocated {name} goes')
            after = dataclasses.replace(row, inventory=inventory)
            if after.reserved and not row.reserved:
                self.before_raise(row)
            row.inventory = inventory
        elif what == 'traits':
            unknown = set(content['traits']) - self.traits
            if unknown:
                return Answer(400, detail=f'No such trait {unknown}')
            row.traits = frozenset(content['traits'])
        else:
            row.aggregates = frozenset(content['aggregates'])
        row.generation += 1
        self.writes += 1
        return self._get_resource_providers(
            uuid, what, query=query, content=None
        )

    def _refuse(self, what):
        """Raise for a request that the client should not have made."""
        if self.strict:
            raise Wrong(what)
        return Answer(409, code=IN_USE, detail=what)

    def _get_traits(self, *, query, content):
        wanted = query['name'].removeprefix('in:').split(',')
        return Answer(200, {'traits': [t for t in wanted if t in self.traits]})

    def _put_traits(self, name, *, query, content):
        self.traits.add(name)
        return Answer(201)

    def _delete_traits(self, name, *, query, content):
        if name not in self.traits:
            return Answer(404)
        if any(name in row.traits for row in self.rows.values()):
            return Answer(409)
        self.traits.discard(name)
        return Answer(204)

    def _put_resource_classes(self, name, *, query, content):
        return Answer(201)

    def _get_allocations(self, consumer, *, query, content):
        held = self.allocations.get(consumer, {})
        return Answer(
            200,
            {
                'allocations': {
                    provider: {
                        'generation': self.rows[provider].generation,
                        'resources': amounts,
                    }
                    for provider, amounts in held.items()
                },
                'project_id': 'project',
                'user_id': 'user',
                'consumer_generation': 1,
            },
        )

    def _post_allocations(self, *, query, content):
        moved = {
            provider
            for consumer in content
            for provider in self.allocations.get(consumer, ())
        }
        for consumer in content:
            self.free(consumer)
        for consumer, held in content.items():
            if held['allocations']:
                self.allocate(
                    consumer,
                    {
                        provider: given['resources']
                        for provider, given in held['allocations'].items()
                    },
                    moved,
                )
        return Answer(204)

    def _put_allocations(self, consumer, *, query, content):
        return self._post_allocations(query=query, content={consumer: content})

    def _delete_allocations(self, consumer, *, query, content):
        if consumer not in self.allocations:
            return Answer(404)
        self.free(consumer)
        return Answer(204)


def new_uuid(number):
    """Return a uuid that is the same in each run."""
    return f'{number:08x}-0000-4000-8000-{number:012x}'
