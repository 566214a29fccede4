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

"""The URIs of virtual Ethernet."""

from typing import NamedTuple

from nova_powervm.emulator.handlers import children
from nova_powervm.emulator.state import adapters
from nova_powervm.emulator.state import bridges
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import networks
from nova_powervm.emulator.state import partition
from nova_powervm.emulator.state import switches
from nova_powervm.emulator.state import system


class Noun(NamedTuple):
    """A kind of child, and what makes, changes and deletes one."""

    parent: str
    kind: str
    create: children.Create
    update: children.Update
    delete: children.Delete


_ADAPTER = (
    ethernet.ADAPTER,
    adapters.create,
    adapters.update,
    adapters.delete,
)
NOUNS = (
    Noun(
        system.KIND,
        ethernet.SWITCH,
        switches.create,
        switches.update,
        switches.delete,
    ),
    Noun(
        system.KIND,
        ethernet.NETWORK,
        networks.create,
        networks.update,
        networks.delete,
    ),
    Noun(
        system.KIND,
        ethernet.BRIDGE,
        bridges.create,
        bridges.update,
        bridges.delete,
    ),
    Noun(partition.LPAR, *_ADAPTER),
    Noun(partition.VIOS, *_ADAPTER),
)
