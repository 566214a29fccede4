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

"""Refuses live migration so that the server stays as it is."""

from typing import Any

from nova import exception as nova_exception
from nova.objects import migrate_data

from nova_powervm.devices import slots as host_slots
from nova_powervm.ops import attached_slots
from nova_powervm.ops import interfaces
from nova_powervm.virt import instance_records


def make_check_data() -> migrate_data.LibvirtLiveMigrateData:
    """Return the empty result of the destination's check.

    RPC transfers only classes that Nova registers. The base class
    LiveMigrateData is not registered, and a conductor would not know a class
    of this driver. Nova's fake driver uses libvirt's class as well.
    """
    return migrate_data.LibvirtLiveMigrateData()


def refusal(
    partitions: interfaces.Partitions, instance: Any
) -> nova_exception.NovaException:
    """Return the error that refuses a migration, and names the slots.

    :param partitions: The host's LPARs.
    :param instance: nova.objects.Instance.
    """
    slots = attached_slots.list_slots(
        partitions,
        instance.uuid,
        instance_records.stored_slots(instance.resources),
    )
    reason = (
        'the instance has the physical I/O slot(s) '
        f'{host_slots.format_drc_indexes(slots)}, whose state '
        'cannot be moved'
        if slots
        else 'live migration is not supported by this driver yet'
    )
    return nova_exception.MigrationPreCheckError(reason=f'PowerVM: {reason}')
