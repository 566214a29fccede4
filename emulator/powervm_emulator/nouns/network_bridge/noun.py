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

"""The noun NetworkBridge."""

from powervm_emulator.core import noun
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.network_bridge import described as bridge_described
from powervm_emulator.nouns.network_bridge import model as network_bridge
from powervm_emulator.nouns.network_bridge import update as bridge_update

NOUN = noun.Noun(
    network_bridge.BRIDGE,
    parents=(managed_system.KIND,),
    create=bridge_update.create,
    update=bridge_update.update,
    delete=bridge_update.delete,
    world=noun.WorldKey(
        'network_bridges',
        (managed_system.KIND,),
        bridge_described.SCHEMA,
        required=('vios', 'pvid'),
        captured=('vios', 'failover_vios', 'switch', 'pvid', 'vlans'),
        build=bridge_described.build,
    ),
    summary=network_bridge.summary,
)
