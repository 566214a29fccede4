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

"""What nobody wants on a host, row by row of the table."""

from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.ops import sweep
from tests.ops import base

LPAR = partition.lpar_uuid(base.INSTANCE)
START = sweep.When.START
CYCLE = sweep.When.CYCLE
FIRST = sweep.When.FIRST_CYCLE, sweep.When.CYCLE
IMAGE_CACHE = sweep.When.IMAGE_CACHE


class Records(base.Records):
    """Nova's records of the instance, as sets of its uuids."""

    def __init__(self):
        self.here = {base.INSTANCE}
        self.failed_evacuations = set()
        self.arriving = set()
        self.deleted = set()

    def hosted(self, host):
        """Return the instances of the host."""
        return self.here

    def abandoned(self, lpar_uuids, host):
        """Return the LPARs that evacuations left."""
        return self.failed_evacuations & set(lpar_uuids)

    def awaited(self, host):
        """Return the LPARs that live migrations may bring."""
        return self.arriving

    def gone(self, lpar_uuids):
        """Return the LPARs whose instances need no disks."""
        return self.deleted & set(lpar_uuids)

    def instances_of(self, lpar_uuids):
        """Return the LPARs of instances."""
        return {LPAR: base.INSTANCE}


class SweepTestCase(base.HostTestCase):
    def records(self):
        """Return the same records for each service."""
        return self.nova

    def begin(self):
        self.nova = Records()
        super().begin()

    def start_service(self, **settings):
        """Start a service, and sweep as it does then."""
        super().start_service(**settings)
        self.sweep = sweep.Sweep(
            sweep.Means(
                self.partitions,
                self.disks,
                self.networks,
                self.nova,
                self.removals,
                'host1',
            )
        )
        self.run_at(START)

    def run_at(self, *moments):
        """Sweep at some moment; forget the requests before it."""
        self.forget()
        self.sweep.run(*moments, image_age=0)

    def delete_lpar(self):
        """Delete the LPAR as another tool does, with its mappings left."""
        self.set_state(base.OFF)
        self.partitions.delete(LPAR)

    def maps(self):
        """Return the clients of all mappings of the host."""
        return [
            mapping['client']
            for found in self._system()['partitions']
            for mapping in found.get('scsi_mappings', ())
        ]


class LocalSweepTest(SweepTestCase):
    def test_mapping_of_deleted_lpar_goes_at_start_without_its_disk(self):
        others = self.maps()
        self.spawn()
        self.delete_lpar()
        self.assertIn(None, self.maps())
        self.run_at(*FIRST)
        self.assertIn(None, self.maps())

        with self.logged('WARNING') as logged:
            self.start_service()

        self.assertEqual(others, self.maps())
        self.assertEqual(['r'], list(self.stored()))
        self.assertIn('its LPAR was deleted outside of Nova', logged.output[0])

    def test_disk_without_lpar_and_instance_goes_in_first_cycle_only(self):
        self.spawn(config_drive=True)
        self.delete_lpar()
        self.start_service()
        self.run_at(*FIRST)
        self.assertEqual({'r', 'i'}, set(self.stored()))
        self.nova.here = set()

        self.run_at(CYCLE)
        self.assertEqual({'r', 'i'}, set(self.stored()))
        self.run_at(*FIRST)

        self.assert_nothing_left()

    def test_what_a_live_migration_needs_stays(self):
        self.spawn(config_drive=True)
        self.delete_lpar()
        self.nova.here = set()
        self.nova.arriving = {LPAR}
        with self.logged('INFO') as logged:
            self.start_service()
        self.run_at(*FIRST)
        self.assertIn(None, self.maps())
        self.assertEqual({'r', 'i'}, set(self.stored()))
        self.assertIn('a live migration may still bring', logged.output[0])
        self.nova.arriving = set()
        self.start_service()
        self.run_at(*FIRST)
        self.assert_nothing_left()

    def test_arriving_lpar_is_no_leftover_of_a_build(self):
        self.spawn()
        self.nova.here = set()
        self.removals.note_leftover(LPAR)
        self.nova.arriving = {LPAR}
        self.run_at(CYCLE)
        self.assertIsNotNone(self.partitions.find(LPAR))
        # It is not treated as one later, either.
        self.nova.arriving = set()
        self.run_at(CYCLE)
        self.assertIsNotNone(self.partitions.find(LPAR))

    def test_lpar_without_instance_stays(self):
        self.spawn()
        self.nova.here = set()

        for moments in ([START], FIRST, [IMAGE_CACHE]):
            self.run_at(*moments)

        self.assert_lpar()

    def test_lpar_of_interrupted_evacuation_goes_in_first_cycle_only(self):
        self.spawn()
        self.nova.here, self.nova.failed_evacuations = set(), {LPAR}

        self.run_at(CYCLE)
        self.assert_lpar()
        self.run_at(*FIRST)

        self.assert_nothing_left()

    def test_lpar_of_failed_build_goes_in_any_cycle(self):
        self.control.plan_job('PowerOn', 'no power')
        self.control.add_fault(
            match='LogicalPartition.delete', status=500, every=True
        )
        self.failed(Exception, operations.SPAWN, self.describe())
        self.nova.here = set()
        with self.logged('WARNING') as logged:
            self.run_at(CYCLE)
        (line,) = [
            each for each in logged.output if 'LPARs of failed builds' in each
        ]
        self.assertIn('removed in each cycle, could not be', line)
        self.control.clear_faults()

        self.run_at(CYCLE)

        self.assert_nothing_left()

    def test_cycle_without_anything_unwanted_asks_host_nothing(self):
        self.spawn()
        self.run_at(CYCLE)
        self.run_at(CYCLE)
        self.assertEqual([], self.trail())

    def test_silent_host_fails_no_pass(self):
        self.spawn()
        for label in ('VirtualIOServer.feed', 'VolumeGroup.feed'):
            self.control.add_fault(match=label, status=500, every=True)
        with self.logged('WARNING') as logged:
            for moments in ([START], FIRST, [IMAGE_CACHE]):
                self.run_at(*moments)
        lines = ''.join(logged.output)
        self.assertIn(
            'mappings of deleted LPARs and interrupted readings', lines
        )
        self.assertIn('disks and media without an LPAR, which', lines)
        self.control.clear_faults()
        self.assert_lpar()


class PoolSweepTest(SweepTestCase):
    disk_driver = 'ssp'

    def test_disks_outlive_lpar_of_interrupted_evacuation(self):
        self.spawn()
        self.nova.here, self.nova.failed_evacuations = set(), {LPAR}

        self.run_at(*FIRST)

        self.assertIsNone(self.lpar())
        self.assertEqual(['r'], list(self.stored()))

    def test_disk_of_deleted_instance_goes_with_its_image(self):
        self.spawn()
        self.removals.destroy(base.INSTANCE, delete_disks=False)
        self.nova.here = set()
        self.run_at(CYCLE)
        self.run_at(*FIRST)
        self.run_at(IMAGE_CACHE)
        self.assertEqual(['r'], list(self.stored()))
        self.nova.deleted = {LPAR}

        # An image is deleted when it is found unused for the second time.
        for _ in range(2):
            self.run_at(IMAGE_CACHE)

        self.assertEqual([], self.units())

    def test_disk_that_is_mapped_to_nobody_goes_with_its_instance(self):
        others = self.maps()
        self.spawn()
        self.delete_lpar()
        self.assertIn(None, self.maps())
        self.run_at(IMAGE_CACHE)
        self.assertEqual(['r'], list(self.stored()))
        self.assertIn(None, self.maps())
        self.nova.deleted = {LPAR}

        self.run_at(IMAGE_CACHE)

        self.assertEqual(others, self.maps())
        self.assertEqual([], list(self.stored()))

    def test_disk_that_an_lpar_uses_stays_and_is_named_once(self):
        self.spawn()
        self.nova.deleted = {LPAR}
        with self.logged('WARNING') as logged:
            for _ in range(2):
                self.run_at(IMAGE_CACHE)
        kept = [line for line in logged.output if 'is kept' in line]
        self.assertEqual(1, len(kept), kept)
        self.assert_lpar()

    def units(self):
        """Return the names of the logical units."""
        (cluster,) = self.control.state()['clusters']
        return [each['name'] for each in cluster['pool']['logical_units']]
