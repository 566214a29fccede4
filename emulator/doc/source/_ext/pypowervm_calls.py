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

"""Which requests the installed pypowervm can make.

Found, not written down: nouns are the entry wrappers; where they are in the
REST API is read from the links in pypowervm's captures; jobs and quick
properties are what its tasks ask for, by the source. The tables here have
only what none of these shows.
"""

import collections
import dataclasses
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import re
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pypowervm_tasks

UUID = '00000000-0000-4000-8000-000000000000'

# Places of nouns that no capture has a link to; None is the root.
MORE_PLACES: dict[str, tuple[str | None, ...]] = {
    'File': (None,),
    'PersistentMemoryDevice': ('ManagedSystem',),
    'PersistentMemoryVolume': ('ManagedSystem',),
    'SRIOVEthernetLogicalPort': ('LogicalPartition',),
    'Tier': ('SharedStoragePool',),
    'VirtualPersistentMemoryVolume': ('LogicalPartition',),
}
# Wrappers of what has URIs of another form; OTHERS has these.
NO_NOUNS = ('HttpErrorResponse', 'Job', 'ManagedSystemPcmPreference')
# Requests of another form: method, path, and the function that makes them.
OTHERS = (
    ('PUT', 'web/Logon', 'adapter.Session._logon'),
    ('DELETE', 'web/Logon', 'adapter.Session._logoff'),
    ('GET', 'uom/jobs/{uuid}', 'adapter.Adapter.read_job'),
    ('DELETE', 'uom/jobs/{uuid}', 'wrappers.job.Job.delete_job'),
    ('POST', 'uom/jobs/{uuid}/cancel', 'wrappers.job.Job.cancel_job'),
    (
        'PUT',
        'web/File/contents/{uuid}',
        'adapter.Adapter.upload_file',
    ),
    (
        'POST',
        'web/File/contents/{uuid}',
        'adapter.Adapter.upload_file',
    ),
    (
        'GET',
        'web/File/contents/{uuid}',
        'adapter.Adapter.download_file',
    ),
    (
        'GET',
        'pcm/ManagedSystem/{uuid}/preferences',
        'tasks.monitor.util.ensure_ltm_monitors',
    ),
    (
        'POST',
        'pcm/ManagedSystem/{uuid}/preferences',
        'tasks.monitor.util.ensure_ltm_monitors',
    ),
    (
        'GET',
        'pcm/ManagedSystem/{uuid}/RawMetrics/LongTermMonitor',
        'tasks.monitor.util.query_ltm_feed',
    ),
)
_LINK = re.compile(r'/rest/api/uom/([^"?<&\s]+)')
_ID = re.compile(r'[0-9A-Fa-f-]{36}|\d+')


@dataclasses.dataclass(frozen=True, order=True)
class Call:
    """One request that pypowervm can make.

    :ivar path: below ``/rest/api``, with ``{uuid}`` for ids.
    :ivar what: ``feed``, ``entry``, ``search``, ``create``, ``update``,
        ``delete``, ``quick``, ``job`` or ``other``.
    :ivar operation: of a job, or the quick property.
    """

    path: str
    what: str
    method: str
    operation: str = ''

    @property
    def example(self) -> str:
        """The path of such a request, with ids in it."""
        return '/rest/api/' + self.path.replace('{uuid}', UUID)


def every() -> list[Call]:
    """Return every call, by path."""
    calls = {*_of_nouns(), *_of_tasks(), *_others()}
    return sorted(calls)


def nouns() -> dict[str, type[Any]]:
    """Return the wrapper of each noun, by its name in URIs."""
    package = importlib.import_module('pypowervm.wrappers')
    for _ in _modules(package):
        pass
    entry = importlib.import_module('pypowervm.wrappers.entry_wrapper')
    return {
        wrapper.schema_type: wrapper
        for wrapper in _subclasses(entry.EntryWrapper)
        if getattr(wrapper, 'schema_type', None)
        and wrapper.schema_type not in NO_NOUNS
    }


def places() -> dict[str, set[str | None]]:
    """Return the parents under which each noun is; None is the root."""
    found: dict[str, set[str | None]] = collections.defaultdict(set)
    for noun, parents in MORE_PLACES.items():
        found[noun].update(parents)
    for path in (_folder() / 'tests' / 'data').iterdir():
        text = path.read_text(encoding='utf-8', errors='replace')
        for link in set(_LINK.findall(text)):
            names = [
                part for part in link.split('/') if not _ID.fullmatch(part)
            ]
            if len(names) in (1, 2):
                found[names[-1]].add(names[0] if len(names) == 2 else None)
    return found


def _of_nouns() -> Iterator[Call]:
    where = places()
    for noun, wrapper in nouns().items():
        service = 'web' if '/web/' in wrapper.schema_ns else 'uom'
        for parent in where[noun]:
            above = f'{parent}/{{uuid}}/' if parent else ''
            root = f'{service}/{above}{noun}'
            for what, method in _operations(wrapper, parent):
                one = what in ('entry', 'update', 'delete')
                path = f'{root}/{{uuid}}' if one else root
                if what == 'search':
                    path += "/search/(Name=='a')"
                yield Call(path, what, method)


def _operations(
    wrapper: type[Any], parent: str | None
) -> Iterator[tuple[str, str]]:
    """Yield what can be done with a noun.

    What can be built can be created and deleted; what has a property that
    can be set can be updated.
    """
    yield 'feed', 'GET'
    yield 'entry', 'GET'
    if parent is None and hasattr(wrapper, 'search_keys'):
        yield 'search', 'GET'
    if any(name.startswith('bld') for name in dir(wrapper)):
        yield 'create', 'PUT'
        yield 'delete', 'DELETE'
    if any(
        found.fset is not None and name != 'uuid'
        for name, found in inspect.getmembers(
            wrapper, lambda member: isinstance(member, property)
        )
    ):
        yield 'update', 'POST'


def _of_tasks() -> Iterator[Call]:
    """Yield the jobs and quick properties that tasks ask for."""
    package = importlib.import_module('pypowervm.tasks')
    for found in pypowervm_tasks.asked_for(_modules(package)):
        path = f'{found.above}/{found.suffix}/{found.operation}'
        if found.suffix == 'do':
            yield Call(path, 'job', 'PUT', found.operation)
        else:
            yield Call(path, found.suffix, 'GET', found.operation)


def _others() -> Iterator[Call]:
    for method, path, maker in OTHERS:
        _check_is_there(maker)
        yield Call(path, 'other', method)


def _check_is_there(maker: str) -> None:
    """Raise AttributeError if pypowervm has no such function any more."""
    parts = maker.split('.')
    found: Any = importlib.import_module('pypowervm')
    for number, part in enumerate(parts):
        if inspect.ismodule(found) and not hasattr(found, part):
            name = '.'.join(('pypowervm', *parts[: number + 1]))
            importlib.import_module(name)
        found = getattr(found, part)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules of a package, imported."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        for found in pkgutil.walk_packages(
            package.__path__, f'{package.__name__}.'
        ):
            yield importlib.import_module(found.name)


def _subclasses(class_: type[Any]) -> Iterator[type[Any]]:
    for subclass in class_.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _folder() -> pathlib.Path:
    spec = importlib.util.find_spec('pypowervm')
    if spec is None or not spec.submodule_search_locations:
        raise ImportError('pypowervm is not installed')
    return pathlib.Path(spec.submodule_search_locations[0])
