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

"""Reading, for every kind of resource: feed, entry, search, quick."""

import re
from collections.abc import Callable

from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import errors
from nova_powervm.emulator import exchange
from nova_powervm.emulator.state import quick as quick_module
from nova_powervm.emulator.state import resource as resource_module
from nova_powervm.emulator.state import system as system_module

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
Resource = resource_module.Resource
Handler = Callable[..., Answer]

_SEARCH = re.compile(
    r"^\((?P<name>\w+)(?P<operator>==|!=)'?(?P<value>.*?)'?\)$"
)


def parent_of(emulation: Emulation, system: str | None) -> Resource | None:
    """Return the system that a URI names as the parent, None for a root."""
    if system is None:
        return None
    return emulation.host.get(system_module.KIND, system)


def locate(
    emulation: Emulation, kind: str, uuid: str, system: str | None
) -> Resource:
    """Return the resource that a URI names.

    :raises errors.NotFound: it is not there, or not of that system.
    """
    parent = parent_of(emulation, system)
    if parent is None:
        return emulation.host.get(kind, uuid)
    return emulation.host.get_child(parent, kind, uuid)


def root_path(kind: str, system: str | None) -> str:
    """Return the URI of a kind's feed, as a child of a system if given."""
    if system is None:
        return f'{resource_module.API}/{kind}'
    return f'{resource_module.API}/{system_module.KIND}/{system}/{kind}'


def feed(kind: str) -> Handler:
    """Return the handler of a kind's feed."""

    def handle(
        emulation: Emulation, call: Call, system: str | None = None
    ) -> Answer:
        parent = parent_of(emulation, system)
        resources = emulation.host.all(kind, parent)
        return call.feed(resources, root_path(kind, system))

    return handle


def entry(kind: str) -> Handler:
    """Return the handler of a kind's single resources."""

    def handle(
        emulation: Emulation, call: Call, uuid: str, system: str | None = None
    ) -> Answer:
        found = locate(emulation, kind, uuid, system)
        return call.entry(found, f'{root_path(kind, system)}/{found.uuid}')

    return handle


def search(kind: str) -> Handler:
    """Return the handler of searches: ``(PartitionName=='a')`` or ``!=``."""

    def handle(emulation: Emulation, call: Call, expression: str) -> Answer:
        parts = _SEARCH.match(expression)
        if parts is None:
            raise errors.BadRequest(f'{expression!r} is not a search.')
        wanted = parts['operator'] == '=='
        found = [
            resource
            for resource in emulation.host.all(kind)
            if (resource.text(parts['name']) == parts['value']) == wanted
        ]
        return call.feed(found, root_path(kind, None))

    return handle


def quick(kind: str) -> Handler:
    """Return the handler of one or all quick properties, in JSON."""

    def handle(
        emulation: Emulation,
        _call: Call,
        uuid: str,
        name: str | None = None,
        system: str | None = None,
    ) -> Answer:
        found = locate(emulation, kind, uuid, system)
        if name in (None, 'All'):
            return exchange.json_answer(quick_module.every(found))
        return exchange.json_answer(quick_module.one(found, str(name)))

    return handle


def quick_all(kind: str) -> Handler:
    """Return the handler of all quick properties of all resources."""

    def handle(
        emulation: Emulation, _call: Call, system: str | None = None
    ) -> Answer:
        parent = parent_of(emulation, system)
        return exchange.json_answer(
            [
                {'UUID': resource.uuid, **quick_module.every(resource)}
                for resource in emulation.host.all(kind, parent)
            ]
        )

    return handle
