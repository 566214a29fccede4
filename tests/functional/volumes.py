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

"""Nova's fixture of Cinder, with an array that the emulated hosts reach."""

import contextlib
import copy
import json

from nova import context as nova_context
from nova import objects
from nova.tests import fixtures as nova_fixtures
from oslo_utils import units

from emulator.tests import san
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.virt import instance_volumes
from tests.functional import base

#: A volume with an image, which Nova's fixture can write anew.
BOOT_VOLUME = nova_fixtures.CinderFixture.IMAGE_BACKED_VOL


def recorded_udids(server):
    """Return what Nova has recorded the volumes of a server as, by id."""
    disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
        nova_context.get_admin_context(), server['id']
    )
    return {
        disk.volume_id: json.loads(disk.connection_info)['data'].get(
            lpar_volumes.UDID_KEY
        )
        for disk in disks
        if disk.is_volume
    }


class ArrayFixture(nova_fixtures.CinderFixture):
    """Maps a volume to the ports that a connector names, and to no others.

    What it tells Nova is never read by the array. A volume that is mapped anew
    is at another unit number.

    :param case: The test case.
    :param apply: Makes the array that is described the truth.
    :ivar sizes: Sizes of volumes in GB, by their ids; 1 for others.
    :ivar told: What Nova is told instead of the truth, by volume id.
    :ivar promises: What Nova is told of all volumes besides.
    :ivar complete: The ids of the attachments that Nova has completed.
    :ivar exchanged: The volumes whose places lead to other disks.
    """

    def __init__(self, case, apply):
        super().__init__(case)
        self._apply = apply
        self._luns = {}
        self.sizes = {}
        self.told = {}
        self.promises = {}
        self.complete = set()
        self.exchanged = set()

    def uid(self, volume_id):
        """Return the uid of a volume."""
        uid = volume_id.replace('-', '').upper()
        if volume_id in self.exchanged:
            uid = uid[:-1] + ('1' if uid[-1] == '0' else '0')
        return uid

    def exchange(self, *volume_ids):
        """Have these volumes lead to disks whose uids differ by one digit."""
        self.exchanged = {*volume_ids}
        self.publish()

    def mapped(self):
        """Return the ids of volumes that the array maps to some host."""
        return sorted(
            volume_id
            for volume_id, found in self.volume_to_attachment.items()
            if any(each.get('connector') for each in found.values())
        )

    def publish(self):
        """Map what has an attachment with a connector."""
        array = san.array()
        array |= {'hosts': [], 'volumes': [], 'maps': []}
        for volume_id in self.mapped():
            found = self.volume_to_attachment[volume_id]
            array['volumes'].append(
                {
                    'name': volume_id,
                    'uid': self.uid(volume_id),
                    'size': self.sizes.get(volume_id, 1) * units.Gi,
                }
            )
            for attachment in found.values():
                connector = attachment.get('connector')
                if connector:
                    array['hosts'].append(
                        {
                            'name': attachment['id'],
                            'wwpns': connector['wwpns'],
                        }
                    )
                    array['maps'].append(
                        {
                            'host': attachment['id'],
                            'volume': volume_id,
                            'lun': self._lun(attachment['id']),
                        }
                    )
        self._apply(array)

    def _lun(self, attachment_id):
        return self._luns.setdefault(attachment_id, len(self._luns))

    def _find_connection_info(self, volume_id, attachment_id):
        attachment = self.volume_to_attachment[volume_id][attachment_id]
        connector = attachment.get('connector')
        if not connector:
            return {}
        told = {
            'driver_volume_type': 'fibre_channel',
            'status': 'attached'
            if attachment_id in self.complete
            else 'attaching',
            'data': {
                'volume_id': 'not its id',
                'target_wwn': [*san.TARGETS],
                'target_lun': self._lun(attachment_id),
                'initiator_target_map': {
                    wwpn: [*san.TARGETS] for wwpn in connector['wwpns']
                },
            }
            | self.promises,
        }
        return copy.deepcopy(self.told.get(volume_id, told))

    def fake_attachment_create(
        self, context, volume_id, instance_uuid, connector=None, *rest, **more
    ):
        """Map a volume at once if there is a connector, as Cinder does."""
        made = super().fake_attachment_create(
            context, volume_id, instance_uuid, None, *rest, **more
        )
        if connector:
            found = self.volume_to_attachment[volume_id][made['id']]
            found['connector'] = connector
            self.publish()
            made['connection_info'] = self._find_connection_info(
                volume_id, made['id']
            )
        return made

    def fake_attachment_update(self, context, attachment_id, connector, *rest):
        """Map a volume."""
        answer = super().fake_attachment_update(
            context, attachment_id, connector, *rest
        )
        self.publish()
        return answer

    def fake_attachment_complete(self, context, attachment_id):
        """Note it."""
        super().fake_attachment_complete(context, attachment_id)
        self.complete.add(attachment_id)

    def fake_attachment_delete(self, context, attachment_id):
        """Unmap a volume."""
        super().fake_attachment_delete(context, attachment_id)
        self.publish()

    def fake_attachment_get_all(
        self, context, instance_id=None, volume_id=None
    ):
        """Return the attachments of an instance, as Cinder's.

        Nova's fixture returns what it keeps about them.

        :param volume_id: Those of this volume; None for all volumes.
        """
        return [
            {
                'id': each['id'],
                'status': 'attaching' if each['connector'] else 'reserved',
            }
            for volume, found in self.volume_to_attachment.items()
            if volume_id in (None, volume)
            for each in found.values()
            if each['instance_uuid'] == instance_id
        ]

    def fake_get(self, context, volume_id, microversion=None):
        """Return a volume with its size."""
        found = super().fake_get(context, volume_id, microversion)
        return found | {
            'size': self.sizes.get(volume_id, 1),
            'display_description': '',
        }


class VolumesTestCase(base.PowerVMTestCase):
    """Starts hosts with two Virtual I/O Servers that reach an array."""

    def setUp(self):
        super().setUp()
        self.cinder = self.useFixture(ArrayFixture(self, self._set_san))

    def _set_san(self, array):
        for name in self.hosts:
            self.control(name).set_san([array])

    def connected(self, server, host='host1'):
        """Return slot -> uid of the volumes of a server, by VIOS."""
        name = server['OS-EXT-SRV-ATTR:instance_name']
        return {
            partition['name']: {
                mapping['client_slot']: mapping['udid']
                for mapping in partition['scsi_mappings']
                if mapping['client'] == name
                and mapping['kind'] == 'PhysicalVolume'
            }
            for partition in self.host_state(host)['partitions']
            if 'scsi_mappings' in partition
        }

    def slots(self, server, host='host1'):
        """Return the virtual slots of the volumes of a server, sorted."""
        found = self.connected(server, host)
        return sorted(slot for of in found.values() for slot in of)

    def boot_volumes(self, server):
        """Return what a start takes for the root disk of a server."""
        found = instance_volumes.recorded_boot_volume(self.instance(server))
        return [volume.id for volume in found]

    def array_disks(self, host='host1'):
        """Return the disks of the array on both servers of a host."""
        return [
            disk['name']
            for partition in self.host_state(host)['partitions']
            for disk in partition.get('physical_volumes', ())
            if disk['udid'].startswith('01M0lCTTIxNDUx')
        ]

    def assert_no_volumes(self, host='host1'):
        """Assert that neither the host nor the array has one connected."""
        self.assertEqual([], self.array_disks(host))
        self.assertEqual([], self.cinder.mapped())

    def root_volume(self, volume_id=BOOT_VOLUME):
        """Return what boots a server from a volume, in a request."""
        return self.disk(volume_id, 0)

    def disk(self, volume_id, boot_index=-1):
        """Return an entry of block_device_mapping_v2."""
        return {
            'source_type': 'volume',
            'destination_type': 'volume',
            'uuid': volume_id,
            'boot_index': boot_index,
        }

    def boot_from_volume(self, *more, extra_specs=None, **options):
        """Boot a server from a volume, with a device.

        :param more: Ids of further volumes.
        """
        disks = [self.root_volume(), *map(self.disk, more)]
        return self.boot(
            base.gpu_groups(1) if extra_specs is None else extra_specs,
            image='',
            request={'block_device_mapping_v2': disks}
            | options.pop('request', {}),
            **options,
        )

    def attach(self, server, volume_id, expected='success', **options):
        """Attach a volume; return the event that ends this.

        :param options: More of the request, such as ``tag``.
        """
        body = {'volumeAttachment': {'volumeId': volume_id} | options}
        with self.ended(server, 'attach_volume', expected) as event:
            self.api.post_server_volume(server['id'], body)
        return event

    def detach(self, server, volume_id, expected='success'):
        """Detach a volume; return the event that ends this."""
        with self.ended(server, 'detach_volume', expected) as event:
            self.api.delete_server_volume(server['id'], volume_id)
        return event

    @contextlib.contextmanager
    def ended(self, server, action, expected, method=''):
        """Yield the event of an action, which is empty until this has ended.

        A server has events of earlier actions, too.

        :param method: What nova-compute does; empty if it is as the action.
        """
        event, name = {}, f'compute_{method or action}'
        earlier = len(self.events(server, action, name))
        yield event

        def find_event():
            found = self.events(server, action, name)
            # The first of those that have come since then.
            newest = found[: len(found) - earlier][-1:]
            return next((one for one in newest if one['result']), None)

        event |= self.await_found(find_event, f'{action} has no end')
        self.assertEqual(expected, event['result'].lower(), event)
