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

"""SR-IOV adapters, as the I/O configuration of their system shows them."""

from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.nouns.managed_system import model as managed_system

KIND = 'SRIOVAdapter'


def derive(
    _host: host_module.Host, system: managed_system.System
) -> Iterator[resource.Resource]:
    """Yield the adapters of a system, in SR-IOV mode or not."""
    path = f'{managed_system.SRIOV}/{KIND}'
    for shown in content.find_all(system.element, path):
        name = content.text(shown, 'AdapterID')
        yield resource.Derived(name, content.copy(shown), system)


NOUN = noun.Noun(KIND, parents=(managed_system.KIND,), derive=derive)
