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

"""VirtualIOServers; see :mod:`.partition` for what LPARs have, too."""

import functools

from powervm_emulator.core import noun
from powervm_emulator.core import quick
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import described
from powervm_emulator.nouns.partition import lifecycle
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import power
from powervm_emulator.nouns.partition import quick_properties

KIND = partition_module.VIOS

NOUN = noun.Noun(
    KIND,
    parents=(noun.ROOT, managed_system.KIND),
    create=functools.partial(lifecycle.create, KIND),
    update=lifecycle.update,
    delete=lifecycle.delete,
    quick=quick_properties.PROPERTIES
    | quick.texts('APICapable', 'VirtualIOServerLicenseAccepted'),
    operations=power.BY_NAME,
    world=noun.WorldKey(
        'virtual_io_servers',
        (managed_system.KIND,),
        described.VIOS_SCHEMA,
        required=described.REQUIRED,
        captured=described.CAPTURED,
    ),
)
