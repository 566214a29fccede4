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

"""The table of the nouns of the REST API.

Each noun is a module of this package. A long one is a package whose module
``noun`` describes it.
"""

from powervm_emulator.core import handlers
from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.core import noun
from powervm_emulator.core import route
from powervm_emulator.nouns import empty
from powervm_emulator.nouns import event
from powervm_emulator.nouns import file
from powervm_emulator.nouns import job
from powervm_emulator.nouns import logon
from powervm_emulator.nouns import management_console
from powervm_emulator.nouns import partition_profile
from powervm_emulator.nouns import pcm
from powervm_emulator.nouns import raw_metrics
from powervm_emulator.nouns import schema_document
from powervm_emulator.nouns import shared_processor_pool
from powervm_emulator.nouns import sriov_adapter
from powervm_emulator.nouns import virtual_network
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.client_network_adapter import noun as cna_noun
from powervm_emulator.nouns.managed_system import noun as managed_system_noun
from powervm_emulator.nouns.network_bridge import noun as network_bridge_noun
from powervm_emulator.nouns.partition import noun as partition_noun
from powervm_emulator.nouns.shared_storage_pool import noun as pool_noun
from powervm_emulator.nouns.virtual_scsi_mapping import noun as scsi_noun
from powervm_emulator.nouns.volume_group import noun as volume_group_noun
from powervm_emulator.nouns.volume_group import physical_volume

#: Worlds are built in this order. Another order gives other uuids to what a
#: seed makes, so add a noun at the end unless it must be built earlier.
NOUNS: tuple[noun.Noun, ...] = (
    logon.NOUN,
    managed_system_noun.NOUN,
    *partition_noun.NOUNS,
    volume_group_noun.NOUN,
    file.NOUN,
    virtual_switch.NOUN,
    virtual_network.NOUN,
    network_bridge_noun.NOUN,
    cna_noun.NOUN,
    *pool_noun.NOUNS,
    job.NOUN,
    event.NOUN,
    management_console.NOUN,
    shared_processor_pool.NOUN,
    sriov_adapter.NOUN,
    pcm.NOUN,
    raw_metrics.NOUN,
    *scsi_noun.NOUNS,
    *empty.NOUNS,
    physical_volume.NOUN,
    schema_document.NOUN,
    partition_profile.NOUN,
)
#: Every URI of the emulated REST API, and who answers it.
ROUTES: tuple[route.Route, ...] = tuple(
    row for one in NOUNS for row in handlers.routes(one)
)
OPERATIONS: jobs_module.Operations = {
    (one.kind, name): operation
    for one in NOUNS
    for name, operation in one.operations.items()
}
