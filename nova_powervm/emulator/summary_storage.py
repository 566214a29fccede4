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


"""A summary of a Virtual I/O Server's storage, as JSON values."""

from typing import Any

from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import mappings
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import volumes

JSON = dict[str, Any]
Host = host_module.Host
Partition = partition_module.Partition


def storage(host: Host, vios: Partition) -> JSON:
    """Summarize the volume groups and SCSI mappings of a VIOS."""
    return {
        'volume_groups': [
            _group(host, group) for group in volumes.of(host, vios)
        ],
        'scsi_mappings': [
            _mapping(host, mapping) for mapping in mappings.of(vios)
        ],
    }


def _group(host: Host, group: volumes.VolumeGroup) -> JSON:
    """Summarize a volume group; capacities are in GB, sizes in bytes."""
    return {
        'name': group.name,
        'uuid': group.uuid,
        'capacity': group.capacity,
        'free': group.free,
        'disks': [
            {
                'name': disk.name,
                'udid': disk.udid,
                'capacity': disk.capacity,
                **_contents(host, group.vios, disk.udid),
            }
            for disk in group.disks
        ],
        'media_repository': _repository(host, group),
    }


def _repository(host: Host, group: volumes.VolumeGroup) -> JSON | None:
    repository = group.repository
    if repository is None:
        return None
    return {
        'name': repository.name,
        'size': repository.size,
        'media': [
            {
                'name': medium.name,
                'udid': medium.udid,
                **_contents(host, group.vios, medium.udid),
            }
            for medium in repository.media
        ],
    }


def _contents(host: Host, vios: Partition, udid: str) -> JSON:
    found = host.contents.find(vios.uuid, udid)
    if found is None:
        return {'size': 0, 'sha256': None}
    return {'size': found.size, 'sha256': found.sha256}


def _mapping(host: Host, mapping: mappings.Mapping) -> JSON:
    """Summarize a mapping; ``client`` is None for an orphan."""
    client = mappings.client_of(host, mapping)
    return {
        'client': client.name if client else None,
        'client_slot': mapping.client_slot,
        'server_slot': mapping.server_slot,
        'adapter': mapping.adapter_name,
        'lua': mapping.lua,
        'kind': mapping.kind,
        'name': mapping.name,
        'udid': mapping.udid,
    }
