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

"""What a story may not leave on a host, nor take away, in words."""

from nova_powervm.lpar import storage


def found_in(state):
    """Return what a host has, from the state of its emulator."""
    found = set()
    for system in state['systems']:
        for slot in system['slots']:
            card = f'{slot["vendor_id"]}:{slot["device_id"]}'
            found.add(f'slot {slot["drc_index"]} {card} of {slot["owner"]}')
        for partition in system['partitions']:
            slots = [slot['drc_index'] for slot in partition['slots']]
            found.add(f'LPAR {partition["name"]} with {slots}')
            if partition['kind'] == 'VirtualIOServer':
                found.add(f'{partition["name"]} {partition["state"]}')
            found |= _storage_of(partition)
    for cluster in state['clusters']:
        found |= {
            f'logical unit {unit["name"]}'
            for unit in cluster['pool']['logical_units']
            if storage.parse_unit_name(unit['name'])
        }
    return found


def _storage_of(partition):
    """Return what a Virtual I/O Server has of servers; images may stay."""
    found = {
        f'mapping of {mapping["client"]} {mapping["name"]}'
        for mapping in partition.get('scsi_mappings', ())
    }
    for group in partition.get('volume_groups', ()):
        found |= {
            f'disk {disk["name"]}'
            for disk in group['disks']
            if storage.is_ours(disk['name'])
        }
        repository = group['media_repository'] or {'media': ()}
        found |= {f'medium {each["name"]}' for each in repository['media']}
    return found
