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

"""The requests of a build and of a removal, in their order."""

from nova_powervm.lpar import operations
from nova_powervm.ops import network
from tests import proofs
from tests.ops import base

#: What a boot asks of the REST server, in this order. It is of a server with
#: a device, a port of a VLAN that the bridge does not carry, a disk and a
#: config drive, the first of its service.
FIRST_BOOT = [
    'GET VolumeGroup.feed',
    'GET ManagedSystem.read',
    'GET NetworkBridge.feed',
    'GET VirtualSwitch.feed',
    'GET LogicalPartition.read',
    'GET VolumeGroup.read',
    'POST VolumeGroup.update',
    'PUT File.create',
    'PUT File.upload',
    'DELETE File.delete',
    'GET VolumeGroup.feed',
    'GET VolumeGroup.read',
    'POST VolumeGroup.update',
    'PUT File.create',
    'PUT File.upload',
    'DELETE File.delete',
    'GET NetworkBridge.feed',
    'GET NetworkBridge.feed',
    'GET VirtualIOServer.feed',
    'GET VirtualSwitch.feed',
    'POST NetworkBridge.update',
    'PUT LogicalPartition.create',
    'PUT ClientNetworkAdapter.create',
    'GET VirtualIOServer.read',
    'POST VirtualIOServer.update',
    'GET LogicalPartition.job_template',
    'PUT LogicalPartition.job',
    'DELETE Job.delete',
    'GET LogicalPartition.quick',
]
#: Where those stand that later boots have no need of: switches and templates
#: of jobs, which are remembered, what the volume group's last change left,
#: and the media repository.
ONLY_FIRST = (0, 3, 5, 10, 11, 12, 25)
LATER_BOOT = [
    request
    for number, request in enumerate(FIRST_BOOT)
    if number not in ONLY_FIRST
]
#: What deleting such a server asks, the first of its service.
FIRST_DELETE = [
    'GET LogicalPartition.read',
    'GET LogicalPartition.job_template',
    'PUT LogicalPartition.job',
    'DELETE Job.delete',
    # Whether it has volumes.
    'GET VirtualIOServer.feed',
    'GET VirtualIOServer.feed',
    'POST VirtualIOServer.update',
    'GET VolumeGroup.feed',
    'POST VolumeGroup.update',
    'POST VolumeGroup.update',
    'DELETE LogicalPartition.delete',
]
_TEMPLATE = 'GET LogicalPartition.job_template'
DELETE = [request for request in FIRST_DELETE if request != _TEMPLATE]


class KnownRequestsTest(base.HostTestCase):
    """What a build and a removal ask of the host.

    That each of the requests may fail is tested in ``test_faults.py``.
    """

    def world(self):
        """Return a host whose bridge carries no VLAN."""
        world = super().world()
        del world['systems'][0]['network_bridges'][0]['vlans']
        return world

    def start_service(self, **settings):
        """Start a service, which reads the host before the first build."""
        super().start_service(**settings)
        self.managed.read()
        self.disks.unmap_deleted()
        self.disks.forget_uploads()
        self.disks.capacity()

    def requests_of(self, action, *arguments):
        """Return the requests of an action, as faults name them."""
        self.forget()
        action(*arguments)
        return [
            f'{record["method"]} {record["label"]}'
            for record in self.control.journal()
        ]

    @proofs.proves('D92')
    def test_boot_and_delete_make_known_requests(self):
        wanted = self.describe(slots=(base.slot(base.GPU),), config_drive=True)
        boot = self.run_plan, operations.SPAWN, wanted
        delete = self.removals.destroy, wanted.instance_uuid

        self.assertEqual(FIRST_BOOT, self.requests_of(*boot))
        self.assertEqual(FIRST_DELETE, self.requests_of(*delete))
        self.networks.release_unused(network.NO_METADATA)
        self.assertEqual(LATER_BOOT, self.requests_of(*boot))
        self.assertEqual(DELETE, self.requests_of(*delete))
        # One reading of the bridges less, since the VLAN is there.
        self.assertEqual(17, len(self.requests_of(*boot)))
