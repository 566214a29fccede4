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

"""The nouns LogicalPartition and VirtualIOServer."""

import functools
from collections.abc import Mapping

from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.core import noun
from powervm_emulator.core import quick
from powervm_emulator.core import resource
from powervm_emulator.nouns.fibre_channel import jobs as fibre_channel_jobs
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import described
from powervm_emulator.nouns.partition import lifecycle
from powervm_emulator.nouns.partition import migration
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import power
from powervm_emulator.nouns.partition import quick_properties
from powervm_emulator.nouns.partition import terminal


def _noun(
    kind: str,
    key: str,
    schema: resource.JSON,
    properties: dict[str, quick.Reader],
    operations: Mapping[str, type[jobs_module.Operation]],
) -> noun.Noun:
    """Return the noun of one kind of partitions.

    :param key: of worlds, with descriptions of this schema.
    :param properties: quick properties that the other kind does not have,
    :param operations: and jobs.
    """
    return noun.Noun(
        kind,
        parents=(noun.ROOT, managed_system.KIND),
        create=functools.partial(lifecycle.create, kind),
        update=lifecycle.update,
        delete=lifecycle.delete,
        quick=quick_properties.PROPERTIES | properties,
        operations={**power.BY_NAME, **terminal.BY_NAME, **operations},
        world=noun.WorldKey(
            key,
            (managed_system.KIND,),
            schema,
            required=described.REQUIRED,
            captured=described.CAPTURED,
        ),
    )


NOUNS = (
    _noun(
        partition_module.LPAR,
        'partitions',
        described.SCHEMA,
        quick_properties.OF_LPARS,
        migration.BY_NAME,
    ),
    _noun(
        partition_module.VIOS,
        'virtual_io_servers',
        described.VIOS_SCHEMA,
        quick.texts('APICapable', 'VirtualIOServerLicenseAccepted'),
        fibre_channel_jobs.BY_NAME,
    ),
)
