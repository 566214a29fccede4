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

import threading
import unittest

import requests
import werkzeug
import werkzeug.serving

from demo import host
from demo import stack

_UOM = 'http://www.ibm.com/xmlns/systems/power/firmware/uom/mc/2012_10/'
_WEB = 'http://www.ibm.com/xmlns/systems/power/firmware/web/mc/2012_10/'

_LOGON = f"""\
<?xml version="1.0" encoding="UTF-8"?>
<LogonResponse xmlns="{_WEB}"><X-API-Session>a token
</X-API-Session></LogonResponse>"""

_SYSTEM = f"""\
<feed xmlns="http://www.w3.org/2005/Atom"><entry><content>
<ms:ManagedSystem xmlns:ms="{_UOM}" xmlns="{_UOM}">
<SystemName>a system</SystemName><IOSlots>
 <IOSlot>
  <Description>Two</Description>
  <PartitionName>vios1</PartitionName>
  <SlotDynamicReconfigurationConnectorIndex>553713698
  </SlotDynamicReconfigurationConnectorIndex>
 </IOSlot>
 <IOSlot>
  <Description>One</Description>
  <PCIClass>770</PCIClass>
  <PCIDeviceID>7606</PCIDeviceID>
  <PCIRevisionID>161</PCIRevisionID>
  <PCIVendorID>4318</PCIVendorID>
  <SlotDynamicReconfigurationConnectorIndex>553713697
  </SlotDynamicReconfigurationConnectorIndex>
  <SlotDynamicReconfigurationConnectorName>U78-P1-C1
</SlotDynamicReconfigurationConnectorName>
 </IOSlot>
</IOSlots></ms:ManagedSystem></content></entry></feed>"""

_PARTITIONS = f"""\
<feed xmlns="http://www.w3.org/2005/Atom"><entry><content>
<l:LogicalPartition xmlns:l="{_UOM}" xmlns="{_UOM}">
 <PartitionIOConfiguration><ProfileIOSlots><ProfileIOSlot><AssociatedIOSlot>
  <SlotDynamicReconfigurationConnectorIndex>553713697
  </SlotDynamicReconfigurationConnectorIndex>
 </AssociatedIOSlot></ProfileIOSlot></ProfileIOSlots>
 </PartitionIOConfiguration>
 <PartitionMemoryConfiguration><DesiredMemory>2048</DesiredMemory>
 </PartitionMemoryConfiguration>
 <PartitionName>instance-00000001</PartitionName>
 <PartitionProcessorConfiguration><SharedProcessorConfiguration>
  <DesiredVirtualProcessors>3</DesiredVirtualProcessors>
 </SharedProcessorConfiguration></PartitionProcessorConfiguration>
 <PartitionState>running</PartitionState>
 <PartitionUUID>7A-B</PartitionUUID>
</l:LogicalPartition></content></entry></feed>"""


_SERVERS = f"""\
<feed xmlns="http://www.w3.org/2005/Atom"><entry><content>
<v:VirtualIOServer xmlns:v="{_UOM}" xmlns="{_UOM}">
 <PartitionUUID>70-B</PartitionUUID>
 <VirtualSCSIMappings>
  <VirtualSCSIMapping>
   <AssociatedLogicalPartition href="http://h/LogicalPartition/7A-B?group=x"/>
   <Storage><VirtualDisk>
    <DiskCapacity>100.00</DiskCapacity><DiskName>one</DiskName>
    <UniqueDeviceID>an id</UniqueDeviceID>
   </VirtualDisk></Storage>
  </VirtualSCSIMapping>
  <VirtualSCSIMapping>
   <AssociatedLogicalPartition href="http://h/LogicalPartition/OTHER"/>
  </VirtualSCSIMapping>
  <VirtualSCSIMapping/>
 </VirtualSCSIMappings>
</v:VirtualIOServer></content></entry></feed>"""

_GROUPS = f"""\
<feed xmlns="http://www.w3.org/2005/Atom"><entry><content>
<g:VolumeGroup xmlns:g="{_UOM}" xmlns="{_UOM}">
 <MediaRepositories><VirtualMediaRepository><OpticalMedia>
  <VirtualOpticalMedia><MediaName>drive</MediaName></VirtualOpticalMedia>
 </OpticalMedia></VirtualMediaRepository></MediaRepositories>
 <VirtualDisks>
  <VirtualDisk><DiskName>one</DiskName></VirtualDisk>
 </VirtualDisks>
</g:VolumeGroup></content></entry></feed>"""

_ADAPTERS = f"""\
<feed xmlns="http://www.w3.org/2005/Atom"><entry><content>
<a:ClientNetworkAdapter xmlns:a="{_UOM}" xmlns="{_UOM}">
 <MACAddress>FA163E000001</MACAddress><PortVLANID>152</PortVLANID>
</a:ClientNetworkAdapter></content></entry></feed>"""


_POOLS = f"""\
<feed xmlns="http://www.w3.org/2005/Atom"><entry><content>
<p:SharedStoragePool xmlns:p="{_UOM}" xmlns="{_UOM}"><LogicalUnits>
 <LogicalUnit>
  <UniqueDeviceID>27abc</UniqueDeviceID><UnitName>root</UnitName>
  <ClonedFrom>27def</ClonedFrom>
 </LogicalUnit>
 <LogicalUnit>
  <UniqueDeviceID>29def</UniqueDeviceID><UnitName>image</UnitName>
 </LogicalUnit>
</LogicalUnits></p:SharedStoragePool></content></entry></feed>"""


class _Silent(werkzeug.serving.WSGIRequestHandler):
    def log(self, *_arguments):
        pass


class HostClientTest(unittest.TestCase):
    """The client against a server with prepared answers."""

    def setUp(self):
        super().setUp()
        self.partitions = (_PARTITIONS, 200)
        self.requests = []
        server = werkzeug.serving.make_server(
            stack.ADDRESS, 0, self._answer, request_handler=_Silent
        )
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.rest = stack.HostRest(
            f'http://{stack.ADDRESS}:{server.port}', 'me', 'a<b'
        )

    @werkzeug.Request.application
    def _answer(self, request):
        text = request.get_data(as_text=True)
        self.requests.append((request.method, request.path, text))
        if request.path.endswith('/Logon'):
            return werkzeug.Response(_LOGON, 200)
        if request.path.startswith('/control/'):
            return werkzeug.Response(b'the bytes', 200)
        if request.headers.get('X-API-Session') != 'a token':
            return werkzeug.Response('', 401)
        if request.path.endswith('/ManagedSystem'):
            return werkzeug.Response(_SYSTEM, 200)
        for path, text in (
            ('/ClientNetworkAdapter', _ADAPTERS),
            ('/VolumeGroup', _GROUPS),
            ('/SharedStoragePool', _POOLS),
            ('/VirtualIOServer', _SERVERS),
        ):
            if request.path.endswith(path):
                return werkzeug.Response(text, 200)
        return werkzeug.Response(*self.partitions)

    def test_logon_escapes_password(self):
        host.Host(self.rest)

        self.assertIn('a&lt;b', self.requests[0][2])

    def test_system_has_its_name(self):
        self.assertEqual('a system', host.Host(self.rest).system_name())

    def test_slots_are_sorted_with_hexadecimal_ids(self):
        one, two = host.Host(self.rest).slots()

        self.assertEqual(
            {
                'vendor_id': '10DE',
                'device_id': '1DB6',
                'class': '0302',
                'revision_id': 'A1',
                'drc_index': '21010021',
                'drc_name': 'U78-P1-C1',
            },
            one.properties,
        )
        self.assertIsNone(one.owner)
        self.assertEqual('vios1', two.owner)

    def test_partitions_have_state_and_slots(self):
        (partition,) = host.Host(self.rest).partitions()

        self.assertEqual(
            {
                'name': 'instance-00000001',
                'uuid': '7a-b',
                'state': 'running',
                'slots': ['21010021'],
            },
            partition.document(),
        )

    def test_partitions_of_empty_feed_are_none(self):
        self.partitions = ('', 204)

        self.assertEqual([], host.Host(self.rest).partitions())

    def test_partition_has_memory_and_processors(self):
        size = host.Host(self.rest).size('7a-b')

        self.assertEqual(host.PartitionSize(2048, 3), size)
        self.assertTrue(self.requests[-1][1].endswith('/7A-B'))

    def test_storage_of_partition_includes_contents(self):
        self.assertEqual(
            [
                host.StorageElement(
                    'VirtualDisk', 'one', '100.00', b'the bytes', 'an id'
                )
            ],
            host.Host(self.rest).storage('7a-b'),
        )

    def test_volume_group_contents_lists_disks_and_media(self):
        self.assertEqual(
            ['one', 'drive'], host.Host(self.rest).volume_group_contents()
        )

    def test_clones_in_a_pool_have_the_name_of_their_image(self):
        self.assertEqual(
            [
                host.PoolUnit('image', '29def', None),
                host.PoolUnit('root', '27abc', 'image'),
            ],
            host.Host(self.rest).pool_units(),
        )

    def test_only_disks_can_be_written(self):
        (disk,) = host.Host(self.rest).storage('7a-b')
        medium = host.StorageElement('VirtualOpticalMedia', 'a', '1', b'')

        self.assertTrue(disk.is_disk)
        self.assertFalse(medium.is_disk)

    def test_adapters_have_mac_and_vlan(self):
        self.assertEqual(
            [host.Adapter('fa:16:3e:00:00:01', 152)],
            host.Host(self.rest).adapters('7a-b'),
        )

    def test_refused_request_raises(self):
        self.partitions = ('no', 500)

        with self.assertRaises(requests.HTTPError):
            host.Host(self.rest).partitions()

    def test_log_off_deletes_session(self):
        host.Host(self.rest).log_off()

        self.assertEqual('DELETE', self.requests[-1][0])
