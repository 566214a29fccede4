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

"""A summary of the emulator's state, as JSON values."""

from typing import Any

from nova_powervm.emulator import content
from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import summary_network
from nova_powervm.emulator import summary_storage
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import jobs as jobs_module
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import slots as slots_module
from nova_powervm.emulator.state import system as system_module

JSON = dict[str, Any]

_IDS = {
    'vendor_id': ('PCIVendorID', 4),
    'device_id': ('PCIDeviceID', 4),
    'subsystem_vendor_id': ('PCISubsystemVendorID', 4),
    'subsystem_device_id': ('PCISubsystemDeviceID', 4),
    'revision_id': ('PCIRevisionID', 2),
    'class': ('PCIClass', 4),
}


def state(emulation: emulation_module.Emulation) -> JSON:
    """Summarize everything but the journal and the faults."""
    host = emulation.host
    return {
        'systems': [
            system(found)
            | summary_network.system(host, found)
            | {
                'partitions': [
                    partition(other)
                    | _storage(host, other)
                    | summary_network.partition(host, other)
                    for other in host.of_type(
                        partition_module.Partition, found
                    )
                ]
            }
            for found in host.of_type(system_module.System)
        ],
        'jobs': [job(other) for other in emulation.jobs],
        'job_mode': emulation.jobs.mode.value,
        'sessions': len(host.sessions),
    }


def system(found: system_module.System) -> JSON:
    """Summarize a system and its slots."""
    return {
        'uuid': found.uuid,
        'name': found.name,
        'memory_available': found.memory_available,
        'processor_units_available': found.units_available,
        'reports_slot_owners': found.reports_owners,
        'slots': [slot(found, other) for other in found.slots()],
    }


def slot(found: system_module.System, one: slots_module.Slot) -> JSON:
    """Summarize a slot; ``owner`` is the name of a partition, or None."""
    ids = {
        key: _hexadecimal(one.element, name, digits)
        for key, (name, digits) in _IDS.items()
    }
    return {
        'drc_index': f'{one.drc_index:08X}',
        'drc_name': one.drc_name,
        'description': one.description,
        **ids,
        'owner': one.owner.name if one.owner else None,
        'assignable': one.assignable,
        'sriov': found.in_sriov_mode(one),
    }


def partition(found: partition_module.Partition) -> JSON:
    """Summarize a partition, with the slots in its profile."""
    return {
        'uuid': found.uuid,
        'id': found.id,
        'name': found.name,
        'kind': found.kind,
        'type': found.type,
        'state': found.state,
        'rmc_state': found.rmc_state,
        'memory': found.memory,
        'processor_units': found.units,
        'slots': [
            {'drc_index': f'{index:08X}', 'required': required}
            for index, required in found.profile_slots.items()
        ],
    }


def _storage(
    host: host_module.Host, found: partition_module.Partition
) -> JSON:
    """Summarize storage, which only Virtual I/O Servers have."""
    if found.kind != partition_module.VIOS:
        return {}
    return summary_storage.storage(host, found)


def job(found: jobs_module.Job) -> JSON:
    """Summarize a job and its progress."""
    return {
        'id': found.id,
        'operation': found.name,
        'target': found.operation.target.uuid,
        'parameters': dict(found.operation.parameters),
        'status': found.status.value,
        'message': found.message,
    }


def _hexadecimal(
    element: content.Element, name: str, digits: int
) -> str | None:
    if not content.text(element, name):
        return None
    return f'{content.integer(element, name):0{digits}X}'
