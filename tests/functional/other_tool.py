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

"""Another management tool of the same host, and the resources it owns."""

import re

from pypowervm import const
from pypowervm import exceptions
from pypowervm.tasks import network_bridger
from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from emulator.tests import base
from powervm_emulator import worlds

MAC = '0a:00:00:00:00:01'
VLAN = 55
DISK = 'archive_data'

_OURS = re.compile(r'nv[0-9a-f]{12}')
_OUR_LPARS = re.compile(r'instance-')
_GROUP = 'image_pool'
_CLIENT = 'archive'
_RACES = 200


def world():
    """Return the default world with resources of others."""
    made = worlds.default()
    (system,) = made['systems']
    (vios,) = system['virtual_io_servers']
    for group in vios['volume_groups']:
        if group['name'] == _GROUP:
            group['disks'] = [{'name': DISK, 'capacity': 10}]
    system['network_bridges'][0]['vlans'] = [VLAN]
    for partition in system['partitions']:
        if partition['name'] == _CLIENT:
            partition['adapters'] = [{'mac': MAC, 'vlan': VLAN}]
    return made


def resources_of_others(state):
    """Return the resources of an emulated host that belong to no instance.

    :param state: The system in the control plane's state.
    """
    return {
        'disks': _disks(state, ours=False),
        'media': _media(state, ours=False),
        'mappings': _mappings(state, ours=False),
        'slots': _slots(state, ours=False),
        'adapters': [
            (partition['name'], adapter['mac'], adapter['vlan'])
            for partition in state['partitions']
            if not _OUR_LPARS.match(partition['name'])
            and partition['kind'] == 'LogicalPartition'
            for adapter in partition['adapters']
        ],
    }


def resources_of_instances(state):
    """Return the resources of an emulated host that belong to instances."""
    return {
        'disks': _disks(state, ours=True),
        'media': _media(state, ours=True),
        'mappings': _mappings(state, ours=True),
        'slots': _slots(state, ours=True),
        'lpars': [
            partition['name']
            for partition in state['partitions']
            if _OUR_LPARS.match(partition['name'])
        ],
    }


#: What leftovers gives when there are none.
NO_RESOURCES = {
    'disks': [],
    'media': [],
    'mappings': [],
    'slots': [],
    'lpars': [],
}


def _vios(state):
    (found,) = (
        partition
        for partition in state['partitions']
        if partition['kind'] == 'VirtualIOServer'
    )
    return found


def _disks(state, ours):
    return [
        (disk['name'], disk['udid'], disk['sha256'])
        for group in _vios(state)['volume_groups']
        for disk in group['disks']
        if bool(_OURS.match(disk['name'])) is ours
    ]


def _media(state, ours):
    return [
        medium['name']
        for group in _vios(state)['volume_groups']
        if group['media_repository']
        for medium in group['media_repository']['media']
        if bool(_OURS.match(medium['name'])) is ours
    ]


def _mappings(state, ours):
    # Orphan mappings without client count as the instances'.
    return [
        (mapping['client'], mapping['name'])
        for mapping in _vios(state)['scsi_mappings']
        if (
            _OURS.match(mapping['name'] or 'nv' + '0' * 12) is not None
            or _OUR_LPARS.match(mapping['client'] or 'instance-') is not None
        )
        is ours
    ]


def _slots(state, ours):
    return [
        (slot['drc_index'], slot['owner'])
        for slot in state['slots']
        if slot['owner'] and bool(_OUR_LPARS.match(slot['owner'])) is ours
    ]


class Client:
    """Changes the host in its own pypowervm session, with retries on 412.

    :param emulator: Emulator of the host.
    """

    def __init__(self, emulator):
        self._adapter = base.adapter_for(emulator)
        self._system = managed_system.System.get(self._adapter)[0].uuid
        self._vios = virtual_io_server.VIOS.get(self._adapter)[0].uuid

    def close(self):
        """Log off."""
        self._adapter.session._logoff()
        base.forget(self._adapter.session)

    def make_disk(self, name, gigabytes=1):
        """Create a disk in the volume group that instances use."""

        def edit(group):
            group.virtual_disks.append(
                storage.VDisk.bld(self._adapter, name, gigabytes)
            )

        self._change(self._group, edit)

    def delete_disk(self, name):
        """Delete a disk that it created."""

        def edit(group):
            group.virtual_disks.remove(_named(group, name))

        self._change(self._group, edit)

    def map_disk(self, name):
        """Map a disk to the tool's own LPAR."""
        (client,) = logical_partition.LPAR.search(self._adapter, name=_CLIENT)
        disk = _named(self._group(), name)

        def edit(server):
            scsi_mapper.add_map(
                server,
                scsi_mapper.build_vscsi_mapping(
                    None, server, client.uuid, disk
                ),
            )

        self._change(self._server, edit)

    def unmap_disk(self, name):
        """Remove the mapping of a disk."""

        def edit(server):
            (found,) = (
                mapping
                for mapping in server.scsi_mappings
                if mapping.backing_storage is not None
                and mapping.backing_storage.name == name
            )
            server.scsi_mappings.remove(found)

        self._change(self._server, edit)

    def delete_adapters(self, uuid):
        """Delete all network adapters of an LPAR."""
        for adapter in network.CNA.get(
            self._adapter,
            parent_type=logical_partition.LPAR,
            parent_uuid=uuid,
        ):
            adapter.delete()

    def make_adapter(self, uuid, vlan):
        """Create an adapter of an LPAR on the first virtual switch."""
        (switch, *_) = network.VSwitch.get(
            self._adapter,
            parent_type=managed_system.System,
            parent_uuid=self._system,
        )
        network.CNA.bld(self._adapter, vlan, switch.related_href).create(
            parent=logical_partition.LPAR.get(self._adapter, uuid=uuid)
        )

    def add_vlan(self, vlan):
        """Add a VLAN to the first bridge."""
        network_bridger.ensure_vlan_on_nb(
            self._adapter, self._system, self._bridge(), vlan
        )

    def remove_vlan(self, vlan):
        """Remove a VLAN from the first bridge."""
        network_bridger.remove_vlan_from_nb(
            self._adapter, self._system, self._bridge(), vlan
        )

    def _change(self, read, edit):
        for _ in range(_RACES):
            found = read()
            edit(found)
            try:
                return found.update()
            except exceptions.HttpError as error:
                if error.response.status != 412:
                    raise
        raise AssertionError(f'others were faster {_RACES} times')

    def _groups(self):
        return storage.VG.get(
            self._adapter,
            parent_type=virtual_io_server.VIOS,
            parent_uuid=self._vios,
        )

    def _group(self):
        return next(group for group in self._groups() if group.name == _GROUP)

    def _server(self):
        return virtual_io_server.VIOS.get(
            self._adapter, uuid=self._vios, xag=[const.XAG.VIO_SMAP]
        )

    def _bridge(self):
        return network.NetBridge.get(
            self._adapter,
            parent_type=managed_system.System,
            parent_uuid=self._system,
        )[0].uuid


def _named(group, name):
    return next(disk for disk in group.virtual_disks if disk.name == name)
