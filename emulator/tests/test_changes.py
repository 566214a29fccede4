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

"""Updates with missing or invalid values."""

import http.client

from pypowervm.wrappers import virtual_io_server

from . import base

MEMORY = 'PartitionMemoryConfiguration'
PROCESSORS = 'PartitionProcessorConfiguration'


class MissingValuesTest(base.EmulatorTestCase):
    """An update that omits a resource of an active partition is refused."""

    def setUp(self):
        super().setUp()
        self.create()
        self.control.set_partition('vm1', 'running', 'active')
        (self.lpar,) = (
            self.read(item['uuid'])
            for item in self.control.state()['systems'][0]['partitions']
            if item['name'] == 'vm1'
        )

    def remove(self, section, name):
        """Remove an element from the LPAR to be posted."""
        parent = self.lpar.element.find(section)
        parent.remove(parent.find(name))

    def test_update_refuses_missing_memory_of_active_partition(self):
        free = self.system().memory_free
        self.remove(MEMORY, 'DesiredMemory')
        self.assert_refused(500, '0 desired', self.lpar.update)
        self.assertEqual(free, self.system().memory_free)

    def test_update_refuses_missing_processors_of_active_partition(self):
        self.remove(PROCESSORS, 'SharedProcessorConfiguration')
        self.assert_refused(
            500, 'no SharedProcessorConfiguration', self.lpar.update
        )

    def test_update_refuses_memory_that_is_not_a_number(self):
        for text in ('many', '', 'nan', '1e3', '2048.5'):
            desired = self.lpar.element.find(f'{MEMORY}/DesiredMemory')
            desired.text = text
            self.assert_refused(400, 'not a number', self.lpar.update)

    def test_create_refuses_processor_units_that_are_not_a_number(self):
        wrong = self.build('vm2')
        wrong.element.find(
            f'{PROCESSORS}/SharedProcessorConfiguration/DesiredProcessingUnits'
        ).text = 'inf'
        self.assert_refused(400, 'not a number', wrong.create)


class ManagementPartitionTest(base.EmulatorTestCase):
    def test_client_cannot_make_management_partition(self):
        planned = self.build()
        planned.set_parm_value('IsManagementPartition', 'true')
        created = planned.create()
        self.assertFalse(created.is_mgmt_partition)
        created.set_parm_value('IsManagementPartition', 'true')
        self.assertFalse(created.update().is_mgmt_partition)


class ChildResourcesTest(base.EmulatorTestCase):
    def test_delete_of_vios_removes_its_volume_groups(self):
        host = self.emulator._application._emulation.host
        self.control.set_partition('vios1', state='not activated')
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        vios.delete()
        self.assertEqual([], list(host.all('VolumeGroup')))


class OddRequestTest(base.EmulatorTestCase):
    """Requests that pypowervm does not make."""

    def request(self, method, path, headers, body=b''):
        """Send a raw request; return its status and body."""
        connection = http.client.HTTPConnection(
            self.emulator.host, self.emulator.port, timeout=30
        )
        self.addCleanup(connection.close)
        connection.putrequest(method, path)
        token = self.adapter.session._sessToken
        for item in ({'X-API-Session': token} | headers).items():
            connection.putheader(*item)
        connection.endheaders()
        connection.send(body)
        connection.sock.shutdown(1)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def test_requests_with_control_characters_are_answered(self):
        path = '/rest/api/uom/ManagedSystem'
        for suffix, expected in (
            ('/%01', 404),
            ('%00?a=%02', 400),
            ('?group=%01', 400),
        ):
            status, text = self.request('GET', path + suffix, {})
            self.assertEqual(expected, status)
            self.assertIn('HttpErrorResponse', text)
        status, _ = self.request('GET', f'{path}/x', {'X-Odd': '\x01'})
        self.assertEqual(404, status)

    def test_unreadable_bodies_are_refused(self):
        path = '/rest/api/uom/LogicalPartition'
        for headers in (
            {'Content-Length': '1000'},
            {'Transfer-Encoding': 'chunked'},
        ):
            status, text = self.request('PUT', path, headers, b'nonsense')
            self.assertEqual(400, status)
            self.assertIn('cannot be read', text)

    def test_document_type_declaration_is_refused(self):
        body = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
        status, text = self.request(
            'PUT',
            '/rest/api/uom/LogicalPartition',
            {'Content-Length': str(len(body))},
            body,
        )
        self.assertEqual(400, status)
        self.assertIn('document type', text)
