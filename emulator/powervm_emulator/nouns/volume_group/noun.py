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

"""The noun VolumeGroup."""

from powervm_emulator.core import noun
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.volume_group import described as group_described
from powervm_emulator.nouns.volume_group import lifecycle
from powervm_emulator.nouns.volume_group import model as volume_group
from powervm_emulator.nouns.volume_group import update as volume_group_update

NOUN = noun.Noun(
    volume_group.KIND,
    parents=(partition_module.VIOS,),
    create=lifecycle.create,
    update=volume_group_update.update,
    delete=lifecycle.delete,
    world=noun.WorldKey(
        'volume_groups',
        (partition_module.VIOS,),
        group_described.SCHEMA,
        required=('name', 'capacity'),
        captured=('name', 'capacity', 'free'),
        build=group_described.build,
    ),
    summary=volume_group.summary,
)
