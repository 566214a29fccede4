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

"""Whose disks in a pool are an instance's, and whose to delete."""

from nova import objects
from oslo_utils import uuidutils

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.virt import shared_storage
from nova_powervm.virt import system_metadata
from tests.unit.virt import test_instance_records


class Pool:
    """Has the root disk of each LPAR, and an LPAR that may use it.

    It also stands for the disk driver that it belongs to.
    """

    def __init__(self):
        self.pool = self
        self.in_use = False

    def identity(self):
        return 'pool1'

    def disks(self, lpar_uuid):
        name = storage.unit_name(lpar_uuid, storage.ROOT)
        return [
            storage.PoolDisk(
                lpar_uuid,
                storage.Disk(storage.ROOT, 1),
                self.in_use,
                storage.Stored(name, None),
            )
        ]


class SharedStorageTest(test_instance_records.RecordsTestCase):
    def setUp(self):
        super().setUp()
        self.pool = Pool()
        self.storage = shared_storage.SharedStorage(
            self.pool, None, None, 'host2'
        )

    def recorded(self, pool='pool1', host='host1'):
        """Make a server with disks in a pool; None for no pool."""
        self.uuid = uuidutils.generate_uuid()
        instance = self.instance()
        instance.system_metadata = {}
        if pool:
            system_metadata.POOL.write(instance.system_metadata, pool)
        instance.host = host
        instance.save()
        return instance

    def test_server_has_its_disks_where_its_record_says(self):
        for pool, expected in (('pool1', 1), ('pool2', 0), (None, 0)):
            with self.subTest(pool):
                found = self.storage.kept_disks(self.recorded(pool))
                self.assertEqual(expected, len(found))

    def test_server_whose_disks_an_lpar_uses_is_not_evacuated(self):
        self.assertTrue(self.storage.sees_disks(self.recorded()))
        self.pool.in_use = True
        self.assertFalse(self.storage.sees_disks(self.recorded('pool2')))
        self.assertRaises(
            exception.DiskInUse, self.storage.sees_disks, self.recorded()
        )

    def test_host_deletes_no_disks_that_a_server_has_elsewhere(self):
        deleted = self.recorded()
        deleted.destroy()
        for instance, expected in (
            (self.recorded(), False),
            (self.recorded(host='host2'), True),
            # Its disks are elsewhere: those in this pool are old.
            (self.recorded('pool2'), True),
            (deleted, True),
            (objects.Instance(uuid=uuidutils.generate_uuid()), True),
        ):
            # What Nova passes can be older than its record.
            handed = objects.Instance(uuid=instance.uuid, host='host2')
            self.assertIs(expected, self.storage.may_delete_disks(handed))
