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

"""The noun ClientNetworkAdapter."""

from powervm_emulator.core import noun
from powervm_emulator.nouns.client_network_adapter import (
    described as client_network_adapter_described,
)
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.client_network_adapter import (
    update as client_network_adapter_update,
)
from powervm_emulator.nouns.partition import model as partition_module

NOUN = noun.Noun(
    net_adapter.ADAPTER,
    parents=(partition_module.LPAR, partition_module.VIOS),
    create=client_network_adapter_update.create,
    update=client_network_adapter_update.update,
    delete=client_network_adapter_update.delete,
    world=noun.WorldKey(
        'adapters',
        (partition_module.LPAR, partition_module.VIOS),
        client_network_adapter_described.SCHEMA,
        required=('vlan',),
        captured=('vlan', 'mac', 'switch'),
        build=client_network_adapter_described.build,
    ),
    summary=net_adapter.summary,
)
