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

"""What hosts refuse of partitions, disks and servers, beside sizes."""

from pypowervm import util
from pypowervm.tasks import power
from pypowervm.wrappers import virtual_io_server

from . import storage
from . import wire

# Without ~, which pypowervm replaces although it says that it is legal.
ASCII = ''.join(map(chr, range(0x20, 0x7E)))
SLOTS = 'PartitionIOConfiguration/MaximumVirtualIOSlots'


class PlatformRulesTest(storage.StorageTestCase, wire.WireTestCase):
    def change(self, path, value):
        """Post a partition with another value; return the answer."""
        where = self.path_of('vm1')
        document = self.get(where).content
        wire.child(document, path).text = value
        return self.ask('POST', where, document)

    def test_names_have_characters_that_pypowervm_knows(self):
        made = self.create()
        for character in ASCII + 'ä¿':
            name = f'a{character}b'
            with self.subTest(name):
                made = self.read(made.uuid)
                made.name = name
                if util.sanitize_partition_name_for_api(name) == name:
                    self.assertEqual(name, made.update().name)
                else:
                    self.assert_refused(500, 'partition name', made.update)

    def test_id_is_within_partitions_of_system(self):
        system = self.get('uom/ManagedSystem').content
        most = wire.child(system, 'MaximumPartitions')
        last = 65535 if most is None else int(most.text)
        self.create('last', id=last)
        self.assert_refused(
            500, f'these are 1 to {last}', self.create, id=last + 1
        )

    def test_virtual_slots_are_within_bounds_of_pypowervm(self):
        self.create()
        for value in ('0', '1', '65535', '100000'):
            with self.subTest(value):
                answer = self.change(SLOTS, value)
                self.assert_refusal(answer, 'these are 2 to 65534', 500)
        for value in ('2', '65534'):
            self.assertEqual(200, self.change(SLOTS, value).status)

    def test_partition_without_virtual_slots_gets_six(self):
        built = self.build()
        section = built.io_config.element
        section.remove(section.find('MaximumVirtualIOSlots'))
        self.assertEqual(6, built.create().io_config.max_virtual_slots)

    def test_disk_has_name_of_no_device(self):
        names = {pv.name for pv in self.vios(['ViosStorage']).phys_vols}
        for name in (*sorted(names)[:1], 'rootvg', 'image_pool'):
            with self.subTest(name):
                self.assert_refused(500, 'by a device', self.disk, name)

    def test_new_disk_needs_running_server(self):
        self.control.set_partition('vios1', state='not activated')
        self.assert_refused(500, 'is not running', self.disk)
        self.control.set_partition('vios1', state='running')
        self.disk()

    def test_server_with_disk_of_running_client_is_not_deleted(self):
        client = self.create()
        self.map(client, self.disk())
        power.power_on(client, None)
        self.control.set_partition(
            'vios1', state='not activated', rmc_state='inactive'
        )
        server = virtual_io_server.VIOS.get(self.adapter)[0]
        self.assert_refused(500, "'vm1' is active", server.delete)
        power.power_off(self.read(client.uuid), None, force_immediate=True)
        server.delete()
