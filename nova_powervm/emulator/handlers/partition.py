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

"""Changing LogicalPartitions and VirtualIOServers."""

from collections.abc import Callable

from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import errors
from nova_powervm.emulator import exchange
from nova_powervm.emulator.handlers import resources
from nova_powervm.emulator.state import lpars
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import system as system_module

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
Handler = Callable[..., Answer]
Partition = partition_module.Partition


def create(kind: str) -> Handler:
    """Return the handler of PUT: make a partition of the body."""

    def handle(
        emulation: Emulation, call: Call, system: str | None = None
    ) -> Answer:
        target = _system(emulation, system)
        made = lpars.create(emulation.host, target, kind, call.content())
        return call.entry(
            made, f'{resources.root_path(kind, system)}/{made.uuid}'
        )

    return handle


def update(kind: str) -> Handler:
    """Return the handler of POST: change a partition to the body."""

    def handle(
        emulation: Emulation, call: Call, uuid: str, system: str | None = None
    ) -> Answer:
        found = _partition(emulation, kind, uuid, system)
        call.check_current(found)
        lpars.update(emulation.host, found, call.content(), call.groups)
        return call.entry(
            found, f'{resources.root_path(kind, system)}/{found.uuid}'
        )

    return handle


def delete(kind: str) -> Handler:
    """Return the handler of DELETE."""

    def handle(
        emulation: Emulation, call: Call, uuid: str, system: str | None = None
    ) -> Answer:
        found = _partition(emulation, kind, uuid, system)
        call.check_current(found)
        lpars.delete(emulation.host, found)
        return exchange.NO_CONTENT

    return handle


def _partition(
    emulation: Emulation, kind: str, uuid: str, system: str | None
) -> Partition:
    found = resources.locate(emulation, kind, uuid, system)
    assert isinstance(found, Partition)  # noqa: S101 - for the type checker
    return found


def _system(emulation: Emulation, uuid: str | None) -> system_module.System:
    """Return the system of a URI, or the only one there is."""
    systems = list(emulation.host.of_type(system_module.System))
    if uuid is not None:
        systems = [
            system for system in systems if system.uuid.upper() == uuid.upper()
        ]
    if not systems:
        raise errors.NotFound(f'There is no ManagedSystem {uuid or ""}.')
    if len(systems) > 1:
        raise errors.BadRequest(
            'There are several systems: create the partition under '
            'ManagedSystem/{uuid}.'
        )
    return systems[0]
