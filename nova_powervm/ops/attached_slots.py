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

"""The slots of LPARs beside those that Nova allocated, for messages."""

from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

#: Slot providers by uuid, as Nova stored them with an instance.
Stored = Mapping[str, claims.SlotProvider]


def log_missing(
    instance_uuid: str, stored: Stored, managed: host_values.ManagedSystem
) -> None:
    """Log the slots that the LPAR of an instance lacks, and change nothing.

    :param instance_uuid: The instance's uuid.
    :param managed: The last reading of the host.
    """
    lpar_uuid = partition.lpar_uuid(instance_uuid)
    owned = {
        s.drc_index for s in managed.io_slots if s.owner_lpar == lpar_uuid
    }
    lost = _indexes(stored) - owned
    if lost:
        LOG.error(
            'Instance %(instance_uuid)s was allocated the slots %(slots)s, '
            'but its LPAR does not have them. Reboot the server hard or start '
            'it to assign those that are free.',
            {
                'instance_uuid': instance_uuid,
                'slots': slots.format_drc_indexes(lost),
            },
        )


def list_slots(
    partitions: interfaces.Partitions, instance_uuid: str, stored: Stored
) -> tuple[int, ...]:
    """List the slots that an instance has or was allocated.

    If the host does not answer, list only those that Nova knows.

    :param instance_uuid: The instance's uuid.
    """
    uuid = partition.lpar_uuid(instance_uuid)
    try:
        lpar = partitions.find(uuid)
    except exception.PowerVMError as error:
        LOG.warning('LPAR %s cannot be read: %s', uuid, error)
        lpar = None
    return tuple(sorted(_indexes(stored) | set(lpar.slots if lpar else ())))


def _indexes(stored: Stored) -> set[int]:
    return {provider.drc_index for provider in stored.values()}
