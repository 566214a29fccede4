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

"""LogicalPartitions; see :mod:`.partition` for what VIOSes have, too."""

import functools

from powervm_emulator.core import noun
from powervm_emulator.core import quick
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import described
from powervm_emulator.nouns.partition import lifecycle
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import power
from powervm_emulator.nouns.partition import quick_properties

KIND = partition_module.LPAR

_QUICK = {
    **quick.texts(
        'Description',
        'LastActivatedProfile',
        'MigrationState',
        'PowerManagementMode',
        'ProgressState',
        'RemoteRestartState',
    ),
    'HasPhysicalIO': quick.exists(
        f'{partition_module.IO}/ProfileIOSlots/ProfileIOSlot'
    ),
    # No partition shares its memory here.
    'MemoryMode': lambda _partition: 'Dedicated',
}

NOUN = noun.Noun(
    KIND,
    parents=(noun.ROOT, managed_system.KIND),
    create=functools.partial(lifecycle.create, KIND),
    update=lifecycle.update,
    delete=lifecycle.delete,
    quick=quick_properties.PROPERTIES | _QUICK,
    operations=power.BY_NAME,
    world=noun.WorldKey(
        'partitions',
        (managed_system.KIND,),
        described.SCHEMA,
        required=described.REQUIRED,
        captured=described.CAPTURED,
    ),
)
