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

"""A host with two Virtual I/O Servers, and volumes that both of them reach."""

import copy
import uuid

from emulator.tests import san
from nova_powervm.lpar import operations
from nova_powervm.lpar import volumes
from powervm_emulator.core import san as san_module
from tests.ops import base

GB = san.GB
#: Volumes of the array: their uids, and where they are mapped.
UIDS = {'v1': san.UID, 'v2': san.UID[:-1] + '5', 'v3': san.UID[:-1] + '6'}
UDIDS = {
    name: san_module.Volume(name, uid, GB).udid for name, uid in UIDS.items()
}
NAMES = {udid: name for name, udid in UDIDS.items()}
LUNS = {'v1': 0, 'v2': 1, 'v3': 2}
#: Their ids in Cinder.
IDS = {name: str(uuid.uuid5(uuid.NAMESPACE_OID, name)) for name in UIDS}
_ADAPTER = 'Quad 8 Gigabit Fibre Channel LP Adapter'
BOTH = [*san.WWPNS['vios1'], *san.WWPNS['vios2']]


def volume(name='v1', *, is_boot=False, **data):
    """Return a volume as Cinder describes it, mapped to both servers."""
    return volumes.parse(
        {
            'driver_volume_type': 'fibre_channel',
            'serial': IDS[name],
            'data': {
                'target_wwn': [*san.TARGETS],
                'target_lun': LUNS[name],
                'initiator_target_map': {
                    # In the forms that Cinder's drivers return.
                    wwpn.lower(): [san.TARGETS[place % 3]]
                    for place, wwpn in enumerate(BOTH)
                    if place % 3 < 2  # The third port has no link.
                },
            }
            | data,
        },
        is_boot=is_boot,
    )


def array(*names, **fields):
    """Describe the array with some volumes, mapped to both servers."""
    described = san.array()
    described['volumes'] = [
        {'name': name, 'uid': UIDS[name], 'size': GB} | fields
        for name in names
    ]
    described['maps'] = [
        {'host': 'host1', 'volume': name, 'lun': LUNS[name]} for name in names
    ]
    return described


class VolumesTestCase(base.HostTestCase):
    """A host with volumes ``v1``, ``v2`` and ``v3`` of an array.

    :cvar has_own_disk: Whether the second server shows a disk of its own.
    """

    has_own_disk = True

    def world(self):
        """Return the world with a second server, and ports for both."""
        made = super().world()
        servers = made['systems'][0]['virtual_io_servers']
        # With a pool, there is a second one already.
        del servers[1:]
        san.add_to(made)
        if not self.has_own_disk:
            del servers[1]['volume_groups']
        return made | {'rmc_after_power_on': 'active'}

    def begin(self):
        """Load the world anew, with all volumes on the array."""
        super().begin()
        self.set_san('v1', 'v2', 'v3')

    def set_san(self, *names, **fields):
        """Map these volumes to the host, and no others."""
        self.control.set_san([array(*names, **fields)])

    def change_san(self, change):
        """Change the array, of which the service is not told."""
        changed = copy.deepcopy(array('v1', 'v2', 'v3'))
        change(changed)
        self.control.set_san([changed])

    def stop_server(self, name='vios2'):
        """Stop a Virtual I/O Server."""
        self.control.set_partition(name, state='not activated')

    def hide_server(self, name='vios2'):
        """Stop the second server, which shows no ports or mappings.

        So does a captured one without a connection, which shows no disks,
        either, but the adapter.
        """
        self.control.plug('21010002', {'description': _ADAPTER})
        self.stop_server(name)

    def start_server(self, name='vios2'):
        """Start it again."""
        self.control.set_partition(name, state='running', rmc_state='active')

    def attach(self, *wanted):
        """Attach volumes to the instance; return their UDIDs."""
        done = self.run_plan(
            operations.ATTACH_VOLUME, self.describe(volumes=wanted)
        )
        return done.udids

    def detach(self, *wanted):
        """Detach volumes from the instance."""
        self.run_plan(operations.DETACH_VOLUME, self.describe(volumes=wanted))

    def connected(self, client=base.NAME):
        """Return virtual slot -> name of volumes of an LPAR, by server.

        A disk that is no volume of the array has the name that it has there.
        """
        return {
            partition['name']: {
                mapping['client_slot']: NAMES.get(
                    mapping['udid'], mapping['name']
                )
                for mapping in partition['scsi_mappings']
                if mapping['client'] == client
                and mapping['kind'] == 'PhysicalVolume'
            }
            for partition in self._system()['partitions']
            if 'scsi_mappings' in partition
        }

    def places(self):
        """Return virtual slot -> role of what is no volume, by server."""
        return {
            name: {slot: role for slot, role in found.items() if role}
            for name, found in super().places().items()
        }

    def mapped_disks(self):
        """Return the roles on the only server with disks."""
        return ''.join(self.mapped()['vios1'])

    def hdisks(self):
        """Return the names of the disks of the array, by server."""
        return {
            partition['name']: [
                disk['name']
                for disk in partition['physical_volumes']
                if disk['udid'] in NAMES
            ]
            for partition in self._system()['partitions']
            if 'physical_volumes' in partition
        }

    def assert_no_volumes(self):
        """Assert that neither a mapping nor a disk of a volume is left."""
        self.assertEqual({'vios1': [], 'vios2': []}, self.hdisks())
        self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())
