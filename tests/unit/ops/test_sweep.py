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

"""What nobody wants goes, and whatever is in doubt stays."""

import types
import unittest
import unittest.mock

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.ops import sweep

KNOWN = '4B1C2D3E-0F00-4000-8000-000000000001'
GONE = '4B1C2D3E-0F00-4000-8000-000000000002'
UNKNOWN = '4B1C2D3E-0F00-4000-8000-000000000003'
LOGGER = sweep.LOG.logger


def disk(lpar_uuid, role='r'):
    """Return a disk of a pool."""
    stored = storage.Stored(f'{lpar_uuid} {role}', None)
    return storage.PoolDisk(lpar_uuid, storage.Disk(role, 1), False, stored)


class Cloud:
    """A pool, and Nova's records of the instances of its disks."""

    def __init__(self, *disks):
        self.pool_disks = disks
        self.requests = []
        self.deleted = []

    def disks(self):
        return self.pool_disks

    def delete(self, disks):
        self.deleted.append(list(disks))

    def unmap(self, lpar_uuids):
        """Be called only for what is deleted afterwards."""
        assert lpar_uuids == {GONE}, lpar_uuids

    def gone(self, lpar_uuids):
        self.requests.append(set(lpar_uuids))
        return frozenset({GONE} & set(lpar_uuids))

    def instances_of(self, lpar_uuids):
        return {
            lpar_uuid: 'its uuid'
            for lpar_uuid in {KNOWN, GONE} & set(lpar_uuids)
        }


class PoolDisksTest(unittest.TestCase):
    def remove(self, cloud, named=None, **driver):
        means = types.SimpleNamespace(
            disks=types.SimpleNamespace(
                **{'pool': cloud, 'unmap_deleted': cloud.unmap, **driver}
            ),
            records=cloud,
        )
        named = set() if named is None else named
        sweep.remove_pool_disks(sweep.Pass(means, named, None))

    def test_disk_that_is_unknown_or_stays_is_named_once(self):
        for disks, words, deleted in (
            ((disk(KNOWN), disk(UNKNOWN)), f'The disks {UNKNOWN} r in', []),
            ((disk(GONE),), '', [[disk(GONE)]] * 2),
        ):
            cloud, named = Cloud(*disks), set()
            with self.assertLogs(LOGGER, 'INFO') as logged:
                self.remove(cloud, named)
                self.remove(cloud, named)
            (line,) = logged.output
            self.assertIn(words, line)
            self.assertEqual(bool(deleted), line.startswith('WARNING'))
            self.assertEqual(deleted, [each for each in cloud.deleted if each])

    def test_empty_pool_or_storage_of_one_host_asks_nova_nothing(self):
        for cloud, driver in (
            (Cloud(), {}),
            (Cloud(disk(GONE)), {'pool': None}),
        ):
            self.remove(cloud, **driver)
            self.assertEqual([], cloud.requests + cloud.deleted)

    def test_unknown_records_delete_nothing(self):
        cloud = Cloud(disk(GONE))

        def fail(lpar_uuids):
            raise exception.RestUnreachable(server='it', reason='no answer')

        cloud.gone = fail
        with self.assertRaises(exception.RestUnreachable):
            self.remove(cloud)
        self.assertEqual([], cloud.deleted)


class TableTest(unittest.TestCase):
    """A pass takes the rows of its moment, and fails nobody."""

    def setUp(self):
        self.calls = []
        self.errors = {}
        rows = [
            self.row('a', sweep.When.START),
            self.row('b', sweep.When.CYCLE),
            self.row('c', sweep.When.FIRST_CYCLE, sweep.When.IMAGE_CACHE),
        ]
        self.enterContext(unittest.mock.patch.object(sweep, 'TABLE', rows))
        self.sweep = sweep.Sweep(None)

    def row(self, kind, *when):
        """Return a row whose removal is noted, and may fail."""

        def remove(this):
            self.calls.append(kind)
            if kind in self.errors:
                raise self.errors[kind]

        return sweep.Row(kind, '', '', '', when, '', remove)

    def run_at(self, *moments):
        self.calls.clear()
        self.sweep.run(*moments)
        return ''.join(self.calls)

    def test_pass_takes_rows_of_its_moments(self):
        when = sweep.When
        for expected, moments in (
            ('a', [when.START]),
            ('b', [when.CYCLE]),
            ('bc', [when.FIRST_CYCLE, when.CYCLE]),
            ('c', [when.IMAGE_CACHE]),
        ):
            self.assertEqual(expected, self.run_at(*moments))

    def test_failed_row_stops_no_other_and_is_logged_once(self):
        moments = sweep.When.CYCLE, sweep.When.FIRST_CYCLE
        refused = exception.RestError(action='it', reason='HTTP 500')
        self.errors['b'] = refused
        with self.assertLogs(LOGGER, 'WARNING') as logged:
            self.assertEqual('bc', self.run_at(*moments))
            self.assertEqual('bc', self.run_at(*moments))
        (line,) = logged.output
        self.assertIn(f'removed in each cycle, could not be: {refused}', line)

        del self.errors['b']
        self.run_at(*moments)
        self.errors['b'] = refused
        with self.assertLogs(LOGGER, 'WARNING'):
            self.run_at(*moments)

    def test_unexpected_error_stops_no_other_row(self):
        self.errors['b'] = ValueError('an error of the database')
        with self.assertLogs(LOGGER, 'ERROR') as logged:
            order = self.run_at(sweep.When.CYCLE, sweep.When.FIRST_CYCLE)
        self.assertEqual('bc', order)
        self.assertIn('an error of the database', logged.output[0])

    def test_pass_reads_host_and_nova_once(self):
        requests = []
        means = types.SimpleNamespace(
            nodename='host1',
            records=types.SimpleNamespace(hosted=requests.append),
            partitions=types.SimpleNamespace(
                names=lambda: requests.append('names')
            ),
        )
        this = sweep.Pass(means, set(), None)
        for _ in range(2):
            self.assertIsNone(this.instance_uuids)
            self.assertIsNone(this.lpar_names)
        self.assertEqual(['host1', 'names'], requests)
