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

"""Finding what the arguments of verbs name."""

from powervm_emulator.control import arguments
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

Host = host_module.Host
Partition = partition_module.Partition
System = managed_system.System


def system(host: Host, name: str | None) -> System:
    """Return the system with a name or UUID; the only one for None.

    :raises errors.ControlError: there is none, or more than one.
    """
    found = [
        system
        for system in host.of_type(System)
        if name is None
        or name == system.name
        or name.lower() == system.uuid.lower()
    ]
    if len(found) != 1:
        raise errors.ControlError(
            f'{len(found)} systems match {name!r}; name exactly one'
        )
    return found[0]


def partition(host: Host, name: str | int, of: System) -> Partition:
    """Return the partition of a system with a UUID, name or id.

    :raises errors.ControlError: there is none.
    """
    for found in host.of_type(Partition, of):
        if arguments.is_named(found, name):
            return found
    raise errors.ControlError(f'unknown partition {name!r}')


def slot(of: System, drc_index: str) -> io_slot.Slot:
    """Return the slot of a system with a DRC index in hexadecimal.

    :raises errors.ControlError: there is none.
    """
    found = of.find_slot(arguments.parse_drc_index(drc_index))
    if found is None:
        raise errors.ControlError(f'unknown slot {drc_index!r}')
    return found
