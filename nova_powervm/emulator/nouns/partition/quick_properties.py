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

"""Quick properties that partitions of both kinds have."""

from nova_powervm.emulator.core import quick
from nova_powervm.emulator.core import resource


def _system_link(resource: resource.Resource) -> quick.JSON:
    return resource.parent.path if resource.parent else None


PROPERTIES: dict[str, quick.Reader] = {
    'IsVirtualServiceAttentionLEDOn': quick.boolean(
        'IsVirtualServiceAttentionLEDOn'
    ),
    'PartitionType': quick.text('PartitionType'),
    'PartitionName': quick.text('PartitionName'),
    'PartitionID': quick.integer('PartitionID'),
    'PartitionState': quick.text('PartitionState'),
    'AssociatedManagedSystem': _system_link,
    'RMCState': quick.text('ResourceMonitoringControlState'),
}
