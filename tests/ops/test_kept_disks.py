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

"""Disks in a pool that an instance keeps: arrivals, and what was lost."""

import base64
import contextlib
import dataclasses
import hashlib
import unittest.mock

from pypowervm.wrappers import storage as storage_wrappers

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import pools
from tests.ops import base

ARRIVAL, HARD = operations.ARRIVAL, operations.HARD_REBOOT
START, RETURN = operations.START, operations.RETURN
#: What the guest has written to its root disk.
WRITTEN = b'what the guest wrote'
NVRAM = 'Ym9vdC1kZXZpY2U9L3ZkZXZpY2U='


class KeptTestCase(base.HostTestCase):
    """Has a running LPAR with three disks in a pool."""

    disk_driver = 'ssp'

    def setUp(self):
        super().setUp()
        self.wanted = self.spawn(
            slots=(base.slot(base.GPU, one_time_use=True),),
            blanks=(base.EPHEMERAL, base.SWAP),
            config_drive=True,
        )
        self.control.write_disk(
            self.stored()['r']['udid'], base64.b64encode(WRITTEN).decode()
        )
        self.before = self.stored()['r']['sha256']

    def change(self, **changes):
        """Change what is wanted."""
        self.wanted = dataclasses.replace(self.wanted, **changes)

    def lose_lpar(self):
        """Lose the LPAR, but not its disks."""
        self.removals.destroy(base.INSTANCE, delete_disks=False)
        self.assertIsNone(self.lpar())

    def delete_disk(self, role):
        """Delete a disk of the LPAR."""
        pool = self.disks.pool
        pool.delete([d for d in pool.disks() if d.disk.role == role])

    def use_disk(self, role):
        """Let another running LPAR use a disk."""
        (found,) = (d for d in self.disks.pool.disks() if d.disk.role == role)
        self.disks.attach(
            self.lpar('database')['uuid'].upper(), [found.stored]
        )

    def free_disks(self):
        """Take from the other LPAR what :meth:`use_disk` gave it."""
        self.disks.remove(self.lpar('database')['uuid'].upper(), delete=False)

    def assert_kept(self, state=base.RUNNING, disks='r0si'):
        """Assert that the LPAR is there with its disks and their bytes."""
        self.assert_lpar(state, slots=[base.GPU], disks=disks)
        self.assertEqual(self.before, self.stored()['r']['sha256'])

    def assert_disks_stay(self):
        """Assert that there is no LPAR, and the disks have their bytes."""
        self.assertIsNone(self.lpar())
        self.assertEqual(self.before, self.stored()['r']['sha256'])
        self.assertEqual([], [m for m in self.mapped().values() if m])


class ArrivalTest(KeptTestCase):
    """An evacuation, or the end of a move, on the host that gets it."""

    def setUp(self):
        super().setUp()
        self.lose_lpar()

    def arrive(self, **changes):
        """Make the LPAR around the disks."""
        self.change(**changes)
        self.run_plan(ARRIVAL, self.wanted, image=self.fail)

    def refuse(self, error, *words):
        """Have the arrival refused."""
        self.refused(error, ARRIVAL, self.wanted, *words)
        self.assert_disks_stay()

    def test_kept_disks_have_the_order_of_new_ones(self):
        for role in 'r0s':
            with self.subTest('in use', role=role):
                self.use_disk(role)
                self.refuse_in_use()
        with self.subTest('slot of another'):
            self.give(base.GPU, 'archive')
            with self.others_changed():
                self.refuse(
                    exception.ClaimFailed, 'owned by partition archive'
                )
            self.give(base.GPU, None)

        self.arrive()

        self.assert_kept()
        self.assertEqual({base.GPU}, self.burned())

        with self.subTest('one that is not asked for is in use'):
            self.lose_lpar()
            self.use_disk('0')
            # It would have to be free for a start.
            self.arrive(
                blanks=(base.SWAP,), config_drive=False, power_on=False
            )

            self.assert_kept(base.OFF, disks='rs')

    def refuse_in_use(self):
        """Have the arrival refused for a disk, which becomes free."""
        self.refused(exception.DiskInUse, ARRIVAL, self.wanted, 'is in use')
        self.free_disks()
        self.assert_disks_stay()

    @contextlib.contextmanager
    def others_changed(self):
        """Have others own what a story has given them meanwhile."""
        before, self._others = self._others, self._state_of_others()
        yield
        self._assert_safe()
        self._others = before

    def test_nvram_of_the_former_lpar_is_that_of_the_new_one(self):
        with self.logged('DEBUG') as logs:
            self.arrive(nvram=NVRAM)

        found = self.partitions.nvram(self.wanted.lpar_uuid)
        self.assertEqual(NVRAM, found)
        self.assertIn('and its former NVRAM', str(logs.output))
        self.assertNotIn(NVRAM, str(logs.output))
        self.assert_kept()

    def test_lpar_whose_nvram_is_refused_burns_its_device_once(self):
        self.control.add_fault(match='LogicalPartition.create', status=400)

        self.arrive(nvram=NVRAM)

        self.assertIsNone(self.partitions.nvram(self.wanted.lpar_uuid))
        self.assert_kept()
        self.assertEqual({base.GPU}, self.burned())

    def test_root_disk_of_image_size_is_kept(self):
        self.removals.destroy(base.INSTANCE)
        self.spawn(root=dataclasses.replace(self.wanted.root, flavor_gb=0))
        self.lose_lpar()

        self.arrive(blanks=(), slots=(), config_drive=False)

        self.assert_lpar(disks='x')

    def test_missing_disk_is_named(self):
        for role, words in (('0', 'ephemeral 1'), ('r', 'root')):
            self.delete_disk(role)

            found = self.refused(exception.DiskMissing, ARRIVAL, self.wanted)

            self.assertIn(f'The {words} disk of', str(found))

    def test_swap_disk_is_kept_or_made_in_its_place(self):
        with self.subTest('rounded'), self.logged('INFO') as logs:
            self.arrive(
                blanks=(base.EPHEMERAL, storage.Disk(storage.SWAP, 0.501))
            )
        self.assertEqual(
            [], [line for line in logs.output if 'WARNING' in line]
        )

        self.lose_lpar()
        with self.subTest('of other size'), self.logged('WARNING') as logs:
            self.arrive(blanks=(base.EPHEMERAL, storage.Disk(storage.SWAP, 1)))
        self.assertIn(
            'keeping the swap disk of 0.5 GB, although the flavor has one of '
            '1 GB.',
            logs.output[0],
        )
        self.assert_kept()

        self.lose_lpar()
        self.delete_disk('s')
        with self.subTest('not asked for'):
            self.arrive(blanks=(base.EPHEMERAL,))
            self.assert_kept(disks='r0i')

        self.lose_lpar()
        with self.subTest('missing'):
            self.arrive(blanks=(base.EPHEMERAL, base.SWAP))
            self.assert_kept()

    def test_disk_that_comes_into_use_during_arrival_is_refused(self):
        # The plan finds them free, and the look after it does not.
        disks = self.disks.pool.disks

        def then_used(lpar_uuid=None):
            found = disks(lpar_uuid)
            patched.stop()
            self.use_disk('r')
            return found

        patched = unittest.mock.patch.object(
            type(self.disks.pool),
            'disks',
            lambda _, lpar_uuid=None: then_used(lpar_uuid),
        )
        patched.start()
        self.addCleanup(patched.stop)

        self.failed(exception.DiskInUse, ARRIVAL, self.wanted)

        self.assertNotIn('PUT LogicalPartition.create', self.trail())
        self.assertNotIn('burn 21010020', self.trail())

    def test_disk_that_comes_into_use_before_the_start_is_refused(self):
        @contextlib.contextmanager
        def plugging():
            yield
            self.disks.remove(self.wanted.lpar_uuid, delete=False)
            self.use_disk('r')
            self._others = self._state_of_others()

        self.failed(
            exception.DiskInUse, ARRIVAL, self.wanted, plugging=plugging
        )

        self.assertEqual([], self.jobs)
        self.assertIsNone(self.lpar())
        self.assertEqual(self.before, self.stored()['r']['sha256'])

    def test_failed_start_removes_lpar_and_keeps_disks(self):
        self.control.plan_job('PowerOn', 'no power')

        self.failed(exception.RestError, ARRIVAL, self.wanted, 'no power')

        self.assert_disks_stay()
        # One that is to stay off does.
        self.arrive(power_on=False)
        self.assert_kept(base.OFF)


class ArrivalAgainTest(KeptTestCase):
    """What an interrupted arrival left, and what is in the way."""

    def test_stopped_lpar_is_made_anew_around_its_disks(self):
        self.refused(
            exception.PartitionConflict, ARRIVAL, self.wanted, 'is running'
        )
        self.assert_kept()
        self.set_state(base.OFF)

        self.run_plan(ARRIVAL, self.wanted, image=self.fail)

        self.assert_kept()

    def test_check_of_arrival_refuses_what_is_in_the_way(self):
        self.forget()
        for state in (base.RUNNING, 'suspended'):
            self.set_state(state)
            self.refuse_check(exception.PartitionConflict, f'is {state}')

        # Not a stopped LPAR.
        self.set_state(base.OFF)
        self.give(base.GPU, base.NAME)
        self.forget()
        self.lpars.check(ARRIVAL, self.wanted)
        self.assertEqual([], self.changes())

        # Nor a disk that the guest uses on the other host.
        self.lose_lpar()
        self.use_disk('r')
        self.forget()
        self.lpars.check(ARRIVAL, self.wanted)
        self.assertEqual([], self.changes())

        self.free_disks()
        self.give(base.GPU, 'archive')
        self._others = self._state_of_others()
        self.forget()
        self.refuse_check(exception.ClaimFailed, 'owned by partition archive')

    def refuse_check(self, error, words):
        """Assert that the check refuses an arrival."""
        with self.assertRaises(error) as caught:
            self.lpars.check(ARRIVAL, self.wanted)
        self.assertIn(words, str(caught.exception))
        self.assertEqual([], self.changes())


class TwinTest(KeptTestCase):
    def test_disk_is_not_guessed_among_those_of_same_name(self):
        self.lose_lpar()
        name = storage.unit_name(self.wanted.lpar_uuid, storage.ROOT)
        storage_wrappers.LUEnt.bld(
            self.adapter, name, 1, typ=pools.DISK
        ).create(parent=self.disks._units.tier)

        self.refused(
            exception.DiskAmbiguous,
            ARRIVAL,
            self.wanted,
            'has 2 logical units that may be the root disk',
        )


class TierTest(KeptTestCase):
    """The service is restarted with another tier."""

    def world(self):
        """Return a world whose pool has two tiers."""
        world = super().world()
        (cluster,) = world['clusters']
        cluster['pool'] |= {
            'tiers': [
                {'name': 'SYSTEM', 'capacity': 10, 'default': True},
                {'name': 'fast', 'capacity': 10},
            ]
        }
        return world

    def setUp(self):
        super().setUp()
        self.assertEqual('SYSTEM', self.stored()['r']['tier'])
        self.start_service(tier_name='fast')

    def test_disks_are_found_in_their_former_tier(self):
        self.lose_lpar()

        self.run_plan(ARRIVAL, self.wanted, image=self.fail)

        self.assert_kept()
        self.assertEqual('SYSTEM', self.stored()['r']['tier'])

    def test_root_disk_grows_in_its_former_tier(self):
        self.change(grow_root_gb=3)

        self.assertTrue(self.run_plan(HARD, self.wanted).has_grown)

        root = self.stored()['r']
        self.assertEqual(('SYSTEM', 3), (root['tier'], root['capacity']))
        self.assert_kept()


class DisconnectedTest(KeptTestCase):
    def test_disk_driver_gets_root_disk_first_and_medium_last(self):
        self.set_state(base.OFF)
        self.disks.remove(self.wanted.lpar_uuid, delete=False)
        attach = self.disks.attach
        with unittest.mock.patch.object(
            self.disks, 'attach', wraps=attach
        ) as attached:
            self.run_plan(HARD, self.wanted)

        (_, stored), _ = attached.call_args
        names = [each.name for each in stored]
        self.assertTrue(storage.is_root_name(names[0]), names)
        self.assertTrue(names[-1].endswith('.iso'), names)


class LocalArrivalTest(base.HostTestCase):
    def test_storage_of_one_host_has_no_disks_to_keep(self):
        self.refused(exception.DiskMissing, ARRIVAL, self.describe())


class LostLparTest(KeptTestCase):
    """A hard reboot and a return make an LPAR around its disks."""

    def setUp(self):
        super().setUp()
        self.lose_lpar()

    def test_lost_lpar_is_made_around_its_disks(self):
        for operation in (HARD, RETURN):
            with self.subTest(operation):
                self.run_plan(operation, self.wanted, image=self.fail)

                self.assert_kept()
            self.lose_lpar()

        with self.subTest('config drive of killed arrival'):
            self.disks.make_medium(self.wanted.lpar_uuid, b'of the arrival')
            self.start_service()

            self.run_plan(HARD, self.wanted)

            self.assert_kept()
            self.assertEqual(
                base.ISO, self.control.contents(self.stored()['i']['udid'])
            )

        self.lose_lpar()
        with self.subTest('ports are bound anew'):
            self.change(ports=())

            self.run_plan(HARD, self.wanted, bind_ports=lambda: (base.PORT,))

            self.assert_kept()

    def test_return_makes_former_swap_disk_for_lost_lpar(self):
        # That of the flavor that the move was to.
        self.delete_disk('s')
        self.disks.make_blank(
            self.wanted.lpar_uuid, storage.Disk(storage.SWAP, 1)
        )

        self.run_plan(
            RETURN, dataclasses.replace(self.wanted, checks_swap=True)
        )

        # It has the slot of the one before.
        self.assert_kept(disks='r0si')
        self.assertEqual(0.5, self.stored()['s']['capacity'])

    def test_root_disk_of_lost_lpar_is_grown(self):
        self.change(grow_root_gb=3)

        outcome = self.run_plan(HARD, self.wanted)

        self.assertTrue(outcome.has_grown)
        self.assertEqual(3, self.stored()['r']['capacity'])

    def test_lost_lpar_is_not_made_without_disks_of_its_own(self):
        self.refused(exception.PartitionNotFound, START, self.wanted)

        with self.subTest('of years ago'):
            self.change(pool_is_current=False)
            self.refused(exception.PartitionNotFound, HARD, self.wanted)
            self.change(pool_is_current=True)

        with self.subTest('in use elsewhere'):
            self.use_disk('r')
            self.refused(exception.DiskInUse, HARD, self.wanted)
            self.free_disks()

        with self.subTest('failed start'):
            self.control.plan_job('PowerOn', 'no power')
            self.failed(exception.RestError, HARD, self.wanted)
            self.assert_disks_stay()

        with self.subTest('none'):
            for role in 'r0s':
                self.delete_disk(role)
            self.refused(exception.PartitionNotFound, HARD, self.wanted)


class LostMappingTest(KeptTestCase):
    """A hard reboot connects what a move that was interrupted left."""

    def setUp(self):
        super().setUp()
        self.set_state(base.OFF)
        self.disks.remove(self.wanted.lpar_uuid, delete=False)
        self.assertEqual('', self.mapped_disks())

    def test_lost_mappings_and_medium_are_made_again(self):
        for operation in (START, operations.SOFT_REBOOT):
            with self.subTest('no root disk', operation=operation):
                self.refused(
                    exception.DiskNotConnected, operation, self.wanted
                )
                self.assertEqual(base.OFF, self.lpar()['state'])

        self.use_disk('r')
        for operation in (HARD, RETURN, START):
            with self.subTest('in use elsewhere', operation=operation):
                self.refused(exception.DiskInUse, operation, self.wanted)
        self.free_disks()

        with self.subTest('of years ago'):
            self.change(pool_is_current=False)
            self.refused(exception.DiskNotConnected, HARD, self.wanted)
            self.change(pool_is_current=True)

        self.run_plan(RETURN, self.wanted)

        self.assert_kept()

    def test_unknown_mappings_refuse_hard_reboot(self):
        before = self.lpar()
        names = list(self.mapped())
        for name in names:
            self.control.set_partition(name, base.OFF)

        self.failed(
            exception.PowerVMError, HARD, self.wanted, 'Virtual I/O Server'
        )

        self.assertEqual(before, self.lpar())
        for name in names:
            self.control.set_partition(name, base.RUNNING)
        self.run_plan(HARD, self.wanted)
        self.assert_kept()


class GrowthTest(KeptTestCase):
    def test_root_disk_of_running_lpar_grows_and_keeps_its_bytes(self):
        # That is, those that the guest wrote.
        data = self.control.contents(self.stored()['r']['udid'])
        self.assertTrue(data.startswith(WRITTEN))
        self.assertEqual(hashlib.sha256(data).hexdigest(), self.before)
        self.change(grow_root_gb=3)

        self.assertTrue(self.run_plan(HARD, self.wanted).has_grown)

        self.assertEqual(3, self.stored()['r']['capacity'])
        self.assert_kept()
