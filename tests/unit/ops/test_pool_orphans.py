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

"""Disks in a pool go if Nova says so, and stay if it says nothing."""

import types
import unittest

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.lpar import stored_disks
from nova_powervm.ops import pool_orphans

KNOWN = '4B1C2D3E-0F00-4000-8000-000000000001'
GONE = '4B1C2D3E-0F00-4000-8000-000000000002'
UNKNOWN = '4B1C2D3E-0F00-4000-8000-000000000003'


def disk(lpar, role='r'):
    """Return a disk of a pool."""
    stored = stored_disks.Stored(f'{lpar} {role}', None)
    return stored_disks.PoolDisk(lpar, storage.Disk(role, 1), False, stored)


class Cloud:
    """A pool, and Nova's records of the instances of its disks."""

    def __init__(self, *found):
        self.found = found
        self.asked = []
        self.deleted = []

    def disks(self):
        return self.found

    def delete(self, disks):
        self.deleted.append(list(disks))

    def gone(self, lpars):
        self.asked.append(set(lpars))
        return frozenset({GONE} & set(lpars))


class PoolOrphansTest(unittest.TestCase):
    def remove(self, cloud, **driver):
        disks = types.SimpleNamespace(**{'pool': cloud, **driver})
        pool_orphans.PoolOrphans(disks, cloud).remove()

    def test_disks_of_instances_that_are_gone_are_deleted(self):
        cloud = Cloud(disk(KNOWN), disk(GONE), disk(UNKNOWN), disk(GONE, 's'))
        with self.assertLogs(pool_orphans.LOG.logger, 'WARNING') as logged:
            self.remove(cloud)
        self.assertEqual([{KNOWN, GONE, UNKNOWN}], cloud.asked)
        self.assertEqual([[disk(GONE), disk(GONE, 's')]], cloud.deleted)
        (line,) = logged.output
        self.assertIn(f'Removing the disks {GONE} r, {GONE} s from', line)

    def test_disks_of_other_instances_stay_without_a_warning(self):
        cloud = Cloud(disk(KNOWN), disk(UNKNOWN))
        with self.assertNoLogs(pool_orphans.LOG.logger, 'WARNING'):
            self.remove(cloud)
        self.assertEqual([], cloud.deleted)

    def test_empty_pool_asks_nova_nothing(self):
        cloud = Cloud()
        self.remove(cloud)
        self.assertEqual([], cloud.asked)

    def test_storage_of_one_host_has_no_orphans(self):
        cloud = Cloud(disk(GONE))
        self.remove(cloud, pool=None)
        self.assertEqual([], cloud.asked + cloud.deleted)

    def test_unknown_records_delete_nothing(self):
        cloud = Cloud(disk(GONE))

        def fail(lpars):
            raise exception.RestUnreachable(server='it', reason='no answer')

        cloud.gone = fail
        with self.assertRaises(exception.RestUnreachable):
            self.remove(cloud)
        self.assertEqual([], cloud.deleted)
