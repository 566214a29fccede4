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

"""Resources that are there only as children of another one."""

from collections.abc import Callable
from typing import Any

from nova_powervm.emulator import content
from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import errors
from nova_powervm.emulator import exchange
from nova_powervm.emulator.state import groups as groups_module
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import resource as resource_module

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
Handler = Callable[..., Answer]
Host = host_module.Host
Resource = resource_module.Resource
# A function of state gets the subclass that its kind is of.
Create = Callable[[Host, Any, content.Element], Resource]
Update = Callable[[Host, Any, content.Element, groups_module.Groups], None]
Delete = Callable[[Host, Any], None]


def feed(parent_kind: str, kind: str) -> Handler:
    """Return the handler of the feed of one parent's children."""

    def handle(emulation: Emulation, call: Call, parent: str) -> Answer:
        above = emulation.host.get(parent_kind, parent)
        children = emulation.host.all(kind, above)
        return call.feed(children, f'{above.path}/{kind}')

    return handle


def entry(parent_kind: str, kind: str) -> Handler:
    """Return the handler of one child."""

    def handle(
        emulation: Emulation, call: Call, parent: str, uuid: str
    ) -> Answer:
        found = _child(emulation, parent_kind, parent, kind, uuid)
        return call.entry(found, found.event_path)

    return handle


def create(parent_kind: str, kind: str, make: Create) -> Handler:
    """Return the handler of PUT: make a child of the body."""

    def handle(emulation: Emulation, call: Call, parent: str) -> Answer:
        above = emulation.host.get(parent_kind, parent)
        made = make(emulation.host, above, _body(call, kind))
        return call.entry(made, made.event_path)

    return handle


def update(parent_kind: str, kind: str, change: Update) -> Handler:
    """Return the handler of POST: change a child to the body."""

    def handle(
        emulation: Emulation, call: Call, parent: str, uuid: str
    ) -> Answer:
        found = _child(emulation, parent_kind, parent, kind, uuid)
        call.check_current(found)
        change(emulation.host, found, _body(call, kind), call.groups)
        return call.entry(found, found.event_path)

    return handle


def delete(parent_kind: str, kind: str, remove: Delete) -> Handler:
    """Return the handler of DELETE."""

    def handle(
        emulation: Emulation, call: Call, parent: str, uuid: str
    ) -> Answer:
        found = _child(emulation, parent_kind, parent, kind, uuid)
        call.check_current(found)
        remove(emulation.host, found)
        return exchange.NO_CONTENT

    return handle


def _child(
    emulation: Emulation, parent_kind: str, parent: str, kind: str, uuid: str
) -> Resource:
    above = emulation.host.get(parent_kind, parent)
    return emulation.host.get_child(above, kind, uuid)


def _body(call: Call, kind: str) -> content.Element:
    body = call.content()
    if content.local_name(body) != kind:
        raise errors.BadRequest(
            f'The body is a {content.local_name(body)}, not a {kind}.'
        )
    return body
