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

"""Which calls of pypowervm the emulator answers.

Made when the documentation is built, of the installed pypowervm and the
emulator's own route table and jobs.
"""

import collections
import dataclasses
import functools
import re
from collections.abc import Iterable
from collections.abc import Iterator

import pypowervm_calls
from werkzeug import exceptions
from werkzeug import routing

from powervm_emulator import nouns
from powervm_emulator.core import route as route_module
from powervm_emulator.nouns import empty

Call = pypowervm_calls.Call

SERVED = 'served'
EMPTY = 'empty'
REFUSED = 'refused'
MISSING = 'missing'
STATES = (SERVED, EMPTY, REFUSED, MISSING)

# What the emulator will not have, and why: a pattern for ``METHOD path``.
REASONS = {
    r'\S+ uom/PowerEnterprisePool.*': 'an HMC has it, NovaLink has not',
    r'\S+ uom/ManagementConsole/\{uuid\}/ManagedSystem.*': (
        'the form of an HMC'
    ),
    r'\S+ uom/ManagementConsole/do/CLIRunner': (
        'for an HMC; of NovaLink, pypowervm asks for RemoveDevice'
    ),
    r'\S+ uom/ManagedSystem/\{uuid\}/do/(Request|Release)Master': (
        'for a host that an HMC manages as well'
    ),
    r'(PUT|DELETE) uom/.*/VirtualFibreChannelClientAdapter.*': (
        'they come and go with the mappings of Virtual I/O Servers'
    ),
    r'DELETE uom/Event/\{uuid\}': 'events are sent and not kept',
}
# Rows of the route table that pypowervm has no call for, by their rule.
NOT_OF_PYPOWERVM = {
    r'.*/quick(/All|/<name>)?': (
        'quick properties other than those that tasks of pypowervm read'
    ),
    r'.*/ManagedSystem/search/.*': 'a search that pypowervm does itself',
    r'.*/ManagedSystem/<parent>/\w+/<uuid>/do/<operation>': (
        'jobs by way of the system'
    ),
    r'.*/(Group|SharedMemoryPool|HostEthernetAdapter)(/<uuid>)?': (
        'empty feeds that inventories ask for'
    ),
    r'.*/LogicalPartitionProfile(/<uuid>)?': 'what partitions of HMCs link to',
    r'.*/(quick|search)': 'what can be asked for in this way',
    r'.*/web/schema/.*': 'the schema, of which pypowervm has its own notion',
    r'.*/RawMetrics/ShortTermMonitor': 'samples, as those of LongTermMonitor',
    r'.*/RawMetrics/LongTermMonitor/<name>': 'where its feed leads to',
    r'.*/(SRIOVAdapter|VirtualSCSIClientAdapter)(/<uuid>)?': (
        'what pypowervm reads of their system and of mappings'
    ),
}


@dataclasses.dataclass(frozen=True)
class Mark:
    """What the emulator does with a call.

    :ivar reason: why it refuses it, if it does.
    """

    call: Call
    state: str
    reason: str = ''


def marks() -> list[Mark]:
    """Return each call of pypowervm with what the emulator does."""
    return [_mark(call) for call in pypowervm_calls.every()]


def strangers() -> list[route_module.Route]:
    """Return the routes that no call leads to and no table names."""
    reached = {
        route for call in pypowervm_calls.every() for route in _routes(call)
    }
    return [
        route
        for route in nouns.ROUTES
        if route not in reached
        and not any(
            re.fullmatch(pattern, route.rule) for pattern in NOT_OF_PYPOWERVM
        )
    ]


def page() -> list[str]:
    """Return the lines of the page in reStructuredText."""
    found = marks()
    return [
        *_counts(found),
        *_section('Resources', _resources(found)),
        *_section('Jobs', _jobs(found)),
        *_section('Others', _others(found)),
        *_section('Refused, and why', _reasons(found)),
    ]


def _mark(call: Call) -> Mark:
    found = [route for route in _routes(call) if _serves(route, call)]
    if found:
        never = all(_is_empty(route) for route in found)
        return Mark(call, EMPTY if never else SERVED)
    for pattern, reason in REASONS.items():
        if re.fullmatch(pattern, f'{call.method} {call.path}'):
            return Mark(call, REFUSED, reason)
    return Mark(call, MISSING)


def _is_empty(route: route_module.Route) -> bool:
    """Whether a route never answers with anything: 204, or 404."""
    kinds = {'RawMetrics', *(noun.kind for noun in empty.NOUNS)}
    return route.label.partition('.')[0] in kinds


def _serves(route: route_module.Route, call: Call) -> bool:
    if call.what != 'job':
        return True
    kind = call.path.split('/')[1]
    return (kind, call.operation) in nouns.OPERATIONS


def _routes(call: Call) -> Iterator[route_module.Route]:
    """Yield the routes of a call; a job has one for its template, too."""
    table = _table().bind('any')
    for method in ('PUT', 'GET') if call.what == 'job' else (call.method,):
        try:
            route, _ = table.match(call.example, method)
        except exceptions.HTTPException:
            continue
        yield route


@functools.cache
def _table() -> routing.Map:
    """Return the emulator's route table, compiled."""
    rules = [
        routing.Rule(route.rule, methods=[route.method], endpoint=route)
        for route in nouns.ROUTES
    ]
    return routing.Map(rules, strict_slashes=False)


def _counts(found: Iterable[Mark]) -> Iterator[str]:
    counts = collections.Counter(mark.state for mark in found)
    yield (
        f'Of {counts.total()} calls, {counts[SERVED]} are served, '
        f'{counts[EMPTY]} only ever answered with 204 or 404, '
        f'{counts[REFUSED]} refused for a reason, and {counts[MISSING]} '
        'missing.'
    )
    yield ''


def _section(title: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    head, *body = rows
    yield from (f'.. rubric:: {title}', '')
    yield from ('.. list-table::', '   :header-rows: 1', '')
    for row in (head, *body):
        for number, cell in enumerate(row):
            start = '* -' if number == 0 else '  -'
            yield f'   {start} {cell}'.rstrip()
    yield ''


def _resources(found: Iterable[Mark]) -> Iterator[tuple[str, ...]]:
    yield ('Resource', 'Served', 'Empty', 'Missing', 'Refused')
    by_path: dict[str, dict[str, list[str]]] = {}
    for mark in found:
        if mark.call.what in ('job', 'other'):
            continue
        cells = by_path.setdefault(_noun_path(mark.call), {})
        cells.setdefault(mark.state, []).append(_verb(mark.call))
    for path, cells in sorted(by_path.items()):
        texts = [
            ', '.join(cells.get(state, ()))
            for state in (SERVED, EMPTY, MISSING, REFUSED)
        ]
        yield (f'``{path}``', *texts)


def _noun_path(call: Call) -> str:
    path = call.path.partition('/search/')[0].partition('/quick/')[0]
    return path.removesuffix('/{uuid}')


def _verb(call: Call) -> str:
    return f'quick {call.operation}' if call.operation else call.what


def _jobs(found: Iterable[Mark]) -> Iterator[tuple[str, ...]]:
    yield ('Job', 'Of', 'State')
    rows = {
        (
            f'``{mark.call.operation}``',
            mark.call.path.split('/')[1],
            mark.state,
        )
        for mark in found
        if mark.call.what == 'job'
    }
    yield from sorted(rows)


def _others(found: Iterable[Mark]) -> Iterator[tuple[str, ...]]:
    yield ('Request', 'State')
    for mark in found:
        if mark.call.what == 'other':
            yield (f'``{mark.call.method} {mark.call.path}``', mark.state)


def _reasons(found: Iterable[Mark]) -> Iterator[tuple[str, ...]]:
    yield ('Request', 'Why')
    for mark in found:
        if mark.state == REFUSED:
            yield (f'``{mark.call.method} {mark.call.path}``', mark.reason)
