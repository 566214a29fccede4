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

"""Volumes of instances, and disks that hosts share."""

import types
import unittest

from nova import objects
from nova.compute import vm_states
from oslo_utils import uuidutils

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.virt import shared_storage
from nova_powervm.virt import system_metadata
from tests.unit.virt import test_instance_records

objects.register_all()

from nova_powervm.virt import instance_volumes  # noqa: E402 - needs the objects


class IdentifyTest(unittest.TestCase):
    def test_volume_that_was_never_connected_is_told_too(self):
        connected = {
            'serial': 'v1',
            'driver_volume_type': 'fibre_channel',
            'data': {lpar_volumes.UDID_KEY: 'udid'},
        }
        found = instance_volumes.identify_all(
            {
                'block_device_mapping': [
                    {'connection_info': connected, 'boot_index': 0},
                    {'connection_info': None, 'boot_index': None},
                ]
            }
        )
        self.assertEqual(
            [('v1', 'udid', True), ('', '', False)],
            [(one.id, one.udid, one.is_boot) for one in found],
        )


class ParseTest(unittest.TestCase):
    def parse(self, vm_state):
        """Describe a volume with a promise that the host cannot keep."""
        info = {
            'serial': 'v1',
            'driver_volume_type': 'fibre_channel',
            'data': {'qos_specs': {'total_iops_sec': '100'}},
        }
        return instance_volumes.parse_all(
            types.SimpleNamespace(vm_state=vm_state),
            {'block_device_mapping': [{'connection_info': info}]},
        )

    def test_first_build_refuses_promise_by_name(self):
        with self.assertRaisesRegex(
            exception.VolumeRefused,
            'v1 cannot be connected: it has qos_specs, but the host',
        ):
            self.parse(vm_states.BUILDING)

    def test_volume_that_a_server_has_stays_with_a_warning(self):
        for state in (
            vm_states.ACTIVE,
            vm_states.ERROR,
            vm_states.SHELVED_OFFLOADED,
            vm_states.STOPPED,
        ):
            with self.subTest(state), self.assertLogs(level='WARNING') as log:
                self.assertEqual(['v1'], [one.id for one in self.parse(state)])
                self.assertIn('volume v1 stays attached', log.output[0])
                self.assertIn('it has qos_specs, but', log.output[0])


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

    def test_disks_are_shared_with_hosts_of_the_same_pool(self):
        instance = self.recorded()
        told = self.storage.describe(instance)
        self.assertTrue(self.storage.is_shared(told))
        self.pool.identity = lambda: 'pool2'
        self.assertFalse(self.storage.is_shared(told))
        # Nova would keep disks that no other host has.
        self.pool.disks = lambda _: []
        self.assertRaises(NotImplementedError, self.storage.describe, instance)
        self.pool.pool = None
        self.assertFalse(self.storage.is_shared(told))
        self.assertTrue(self.storage.may_delete_disks(instance))

    def test_pool_is_recorded_with_a_server_until_it_has_another_place(self):
        instance = self.recorded('pool2')
        self.storage.record_pool(instance)
        self.assertEqual('pool1', shared_storage.recorded_pool(instance))
        self.pool.pool = None
        self.storage.record_pool(instance)
        self.assertIsNone(shared_storage.recorded_pool(instance))
