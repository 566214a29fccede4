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

"""Nouns that hosts have, and of which there is nothing here.

Clients that take inventories ask for them. Their feeds are empty; nothing
can be created.
"""

from powervm_emulator.core import noun
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

_PARENTS = {
    'Group': (noun.ROOT,),
    'HostEthernetAdapter': (managed_system.KIND,),
    'SharedMemoryPool': (managed_system.KIND,),
    'SRIOVEthernetLogicalPort': (partition_module.LPAR, partition_module.VIOS),
    'VirtualNICDedicated': (partition_module.LPAR,),
}
NOUNS = tuple(
    noun.Noun(kind, parents=parents) for kind, parents in _PARENTS.items()
)
