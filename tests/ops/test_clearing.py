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

"""No guest reads what deleted disks have left on a Virtual I/O Server.

The attack: an ordinary member boots an image of one byte with a root disk of
one GB, and makes a snapshot. Before, one byte was written, and the snapshot
had all of what others had left in the rest of the logical volume. The host of
these stories leaves that wherever a disk is made or enlarged.
"""

import base64
import dataclasses
import hashlib
import unittest.mock

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from nova_powervm.ops import images
from nova_powervm.powervm import management_partition
from nova_powervm.powervm.disk import clearing
from nova_powervm.powervm.disk import disk_reading
from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.powervm.disk import uploads
from tests.ops import base
from tests.ops import test_kills
from tests.ops import test_reading

RESIDUE = 'what another tenant had on a deleted disk'
BYTE = b'\x01'
ONE_BYTE = image.Image(
    'it', 'raw', len(BYTE), 'sha512', hashlib.sha512(BYTE).hexdigest()
)
#: A file of qcow2 whose disk has nothing.
QCOW2 = (
    b'QFI\xfb\x00\x00\x00\x02'
    + bytes(16)
    + base.SMALL_GB.to_bytes(8, 'big')
    + bytes(1 << 16)
)
QCOW2_IMAGE = image.Image(
    'it', 'qcow2', len(QCOW2), 'sha512', hashlib.sha512(QCOW2).hexdigest()
)
WRITTEN = b'written by the guest'
#: So many changes come before the disk that has grown is lent and cleared.
CLEARING = 5


class ClearingTestCase(base.HostTestCase):
    """A host whose volume groups show what deleted disks have left."""

    disk_clear = 'zero'

    def setUp(self):
        base.make_gigabytes_small(self)
        self.enterContext(
            unittest.mock.patch.object(disk_reading, '_UNDO_SECONDS', 0)
        )
        super().setUp()

    def world(self):
        return super().world() | {'residue': RESIDUE}

    def start_service(self, **settings):
        super().start_service(**{'disk_clear': self.disk_clear} | settings)

    def boot(self, data=BYTE, described=ONE_BYTE, **fields):
        """Spawn from an image; return the description."""
        wanted = self.describe(root=spec.WantedImage(described, 1), **fields)
        self.run_plan(operations.SPAWN, wanted, image=base.Source(data))
        return wanted

    def count_requests(self):
        """Return what a boot with a swap disk costs, without and with this.

        Whoever lends a disk finds the management partition once.
        """
        counts = []
        for disk_clear in ('zero', 'none', 'zero'):
            self.removals.destroy(base.INSTANCE)
            self.start_service(disk_clear=disk_clear)
            self.disks.image_formats  # noqa: B018
            self.boot(blanks=(base.SWAP,))
            counts.append(len(self.trail()))
        return counts[1:]

    def bytes_of(self, role):
        """Return what is on a disk, with zeros where nothing was written."""
        disk = self.stored()[role]
        size = clearing.MIB * round(disk['capacity'] * 1024)
        return self.control.contents(disk['udid']).ljust(size, b'\0')

    def assert_holds(self, role, written=b'', size_gb=1):
        """Assert that a disk holds some bytes, and zeros to its end."""
        found = self.bytes_of(role)
        self.assertEqual(size_gb * base.SMALL_GB, len(found))
        self.assertEqual(written, found[: len(written)])
        self.assertFalse(found[len(written) :].strip(b'\0'), role)


class CommonMixin:
    """What holds however the disks are cleared."""

    def test_disks_hold_zeros_where_nothing_was_written(self):
        wanted = self.boot(blanks=(base.EPHEMERAL, base.SWAP))
        self.assert_lpar(disks='r0s')
        self.assert_holds('r', BYTE)
        self.assert_holds('0', size_gb=3)
        self.assert_holds('s', size_gb=0.5)

        with self.subTest('new swap disk of a resized server'):
            self.set_state(base.OFF)
            larger = storage.Disk(storage.SWAP, 2)
            self.disks.fit_swap(wanted.lpar_uuid, larger)
            self.assert_holds('s', size_gb=2)
            self.assert_lpar(base.OFF, disks='r0s')

        with self.subTest('swap disk that was not connected'):
            name = storage.disk_name(wanted.lpar_uuid, storage.SWAP)
            before = self.stored()['s']['udid']
            self.disks.mappings.detach(wanted.lpar_uuid, name)
            self.disks.fit_swap(wanted.lpar_uuid, larger)
            self.assertNotEqual(before, self.stored()['s']['udid'])
            self.assert_holds('s', size_gb=2)

        with self.subTest('rescue disk'):
            self.run_plan(
                operations.RESCUE,
                dataclasses.replace(wanted, rescued=True),
                image=base.Source(BYTE),
            )
            self.assert_lpar(disks='zr0s')
            self.assert_holds('z', BYTE)

    def test_rescue_connects_no_swap_disk_that_was_not_cleared(self):
        wanted = self.boot(blanks=(base.SWAP,))
        self.set_state(base.OFF)
        # A resize was killed between making its new swap disk and clearing it.
        self.disks.fit_swap(wanted.lpar_uuid, None)
        with (
            test_reading.kill_when(1, ('POST', 'PUT')),
            self.assertRaises(test_kills.Killed),
        ):
            self.disks.fit_swap(wanted.lpar_uuid, base.SWAP)
        self.start_service()
        self.assertIn(RESIDUE.encode(), self.bytes_of('s'))
        self.set_state(base.RUNNING)
        self.run_plan(
            operations.RESCUE,
            dataclasses.replace(wanted, rescued=True),
            image=base.Source(BYTE),
        )
        self.assert_lpar(disks='zrs')
        self.assert_holds('s', size_gb=0.5)

    def test_host_without_clearing_shows_what_deleted_disks_left(self):
        self.start_service(disk_clear='none')
        self.boot(blanks=(base.EPHEMERAL,))
        for role in 'r0':
            self.assertIn(RESIDUE.encode(), self.bytes_of(role))


class UploadedTest(CommonMixin, ClearingTestCase):
    """nova-compute reaches the host by a URL."""

    def test_images_have_to_be_raw(self):
        self.assertEqual(('raw',), self.disks.image_formats)
        wanted = self.describe(root=spec.WantedImage(QCOW2_IMAGE, 1))
        self.refused(
            exception.ImageRefused,
            operations.SPAWN,
            wanted,
            'Convert it to raw',
            image=base.Source(QCOW2),
        )

    def test_root_disk_costs_no_request_and_another_one_three(self):
        without, clears = self.count_requests()
        self.assertEqual(3, clears - without)

    def test_larger_root_disk_is_refused(self):
        wanted = self.boot()
        self.set_state(base.OFF)
        self.forget()
        for grow in self.disks.check_growth, self.disks.grow_root:
            self.disks.check_growth(wanted.lpar_uuid, 1)
            with self.assertRaisesRegex(
                exception.DiskNotCleared, 'disk_clear'
            ):
                grow(wanted.lpar_uuid, 2)
        self.assertEqual([], self.changes())

    def test_root_disk_grows_and_qcow2_is_taken_without_clearing(self):
        self.start_service(disk_clear='none')
        self.assertEqual(('raw', 'qcow2'), self.disks.image_formats)
        wanted = self.boot()
        self.assertTrue(self.disks.grow_root(wanted.lpar_uuid, 2))
        self.assertEqual(2, self.stored()['r']['capacity'])

    def test_upload_that_breaks_off_leaves_no_disk(self):
        self.control.add_fault(match='File.upload', nth=2, status=500)
        with self.assertRaises(exception.RestError):
            self.boot(blanks=(base.SWAP,))
        self.assert_nothing_left()


class ServerItselfTest(ClearingTestCase):
    """The management partition is the server that has the disks."""

    is_local = True

    def world(self):
        return base.managed_by_server(super().world())

    def test_disks_are_cleared_by_uploads(self):
        self.assertEqual(('raw',), self.disks.image_formats)
        self.boot(blanks=(base.SWAP,))
        self.assert_holds('r', BYTE)
        self.assert_holds('s', size_gb=0.5)


class LentTest(CommonMixin, ClearingTestCase):
    """nova-compute runs on the management partition."""

    is_local = True

    def test_disk_of_qcow2_is_cleared_before_it_is_written(self):
        self.boot(QCOW2, QCOW2_IMAGE)
        self.assert_holds('r', QCOW2)

    def test_clearing_costs_four_requests_for_a_disk(self):
        without, clears = self.count_requests()
        self.assertEqual(2 * 4, clears - without)

    def test_waiting_image_is_read_again_from_its_beginning(self):
        source = base.Source(BYTE)
        with unittest.mock.patch.object(images, '_MAX_WAIT', -1):
            self.run_plan(
                operations.SPAWN,
                self.describe(root=spec.WantedImage(ONE_BYTE, 1)),
                image=source,
            )
        self.assertEqual((2, 2), (source.opened, source.closed))
        self.assert_holds('r', BYTE)

    def test_disk_that_cannot_be_written_is_deleted(self):
        with (
            unittest.mock.patch.object(
                clearing.os, 'fsync', side_effect=OSError(5, 'I/O error')
            ),
            self.assertRaisesRegex(exception.DiskUnwritable, 'I/O error'),
        ):
            self.boot()
        self.assert_nothing_left()

    def test_build_clears_in_one_way_while_host_is_odd(self):
        uuids = iter(['', '', ''])
        find = management_partition.ManagementPartition.uuid.fget
        self.enterContext(
            unittest.mock.patch.object(
                management_partition.ManagementPartition,
                'uuid',
                property(lambda found: next(uuids, None) or find(found)),
            )
        )
        # Whichever question is the first one that is answered.
        for _ in range(3):
            self.boot(blanks=(base.SWAP,))
            self.assert_holds('r', BYTE)
            self.assert_holds('s', size_gb=0.5)
            self.removals.destroy(base.INSTANCE)

    def test_disk_without_running_server_lets_nova_try_elsewhere(self):
        with (
            unittest.mock.patch.object(
                scsi_mappings.ScsiMappings, 'lend', lambda *args: None
            ),
            self.assertRaisesRegex(
                exception.DiskUnwritable, 'is running'
            ) as caught,
        ):
            self.boot()
        self.assertTrue(caught.exception.elsewhere)
        self.assert_nothing_left()

    def test_removal_ends_clearing(self):
        def remove(disk, start, check):
            self.disks.reader._active[wanted.lpar_uuid].cancelled.set()
            check()

        wanted = self.describe()
        with (
            unittest.mock.patch.object(clearing, 'write_zeros', remove),
            self.assertRaises(exception.ReadingCancelled),
        ):
            self.boot()
        self.assert_nothing_left()

    def test_killed_build_shows_nothing_after_the_next_one(self):
        for number in range(30):
            with self.subTest(number=number):
                self.begin()
                with test_reading.kill_when(number, ('POST', 'PUT')):
                    try:
                        self.boot(blanks=(base.SWAP,))
                        done = True
                    except test_kills.Killed:
                        done = False
                self.start_service()
                self.assert_no_guest_has_residue()
                if self.lpar() and not done:
                    # The disks are as after a whole build.
                    continue
                self.disks.unmap_deleted()
                self.removals.destroy(base.INSTANCE)
                if not self.is_new() and not done:
                    # What is built here was seen after another kill.
                    continue
                self.boot(blanks=(base.SWAP,))
                self.assert_holds('r', BYTE)
                self.assert_holds('s', size_gb=0.5)
                if done:
                    break
        self.assertGreater(number, 5)

    def assert_no_guest_has_residue(self):
        """Assert that what is connected to the LPAR is clean."""
        for role in set(''.join(map(''.join, self.mapped().values()))) - {'i'}:
            self.assertNotIn(RESIDUE.encode(), self.bytes_of(role), role)


class GrowthTest(ClearingTestCase):
    """A root disk grows; its guest has written to the end of it."""

    is_local = True

    def setUp(self):
        super().setUp()
        self.prepare()

    def prepare(self):
        """Have a server that is off, with something at its disk's end."""
        self.wanted = self.boot()
        self.set_state(base.OFF)
        self.control.write_disk(
            self.stored()['r']['udid'],
            base64.b64encode(WRITTEN).decode(),
            base.SMALL_GB - len(WRITTEN),
        )
        self.old = self.bytes_of('r')
        self.forget()

    def grow(self):
        """Grow the root disk to 3 GB."""
        return self.disks.grow_root(self.wanted.lpar_uuid, 3)

    def assert_grown(self, state=base.OFF):
        """Assert that the guest has its bytes, and zeros after them."""
        self.assert_lpar(state, disks='r')
        self.assertEqual(['r'], [*self.stored()])
        self.assert_holds('r', self.old, 3)

    def test_end_of_larger_disk_holds_zeros(self):
        with self.subTest('no space'):
            with self.assertRaises(exception.RestError):
                self.disks.grow_root(self.wanted.lpar_uuid, 10**5)
            self.assert_lpar(base.OFF, disks='r')
            self.assertEqual(['r'], [*self.stored()])
            self.assertEqual(self.old, self.bytes_of('r'))

        self.assertTrue(self.grow())
        self.assert_grown()
        self.assertFalse(self.grow())

    def test_disk_of_running_guest_grows_at_its_hard_reboot(self):
        with self.subTest('growth that could not be noted'):
            self.refuse_to_check()

        self.set_state(base.RUNNING)
        with self.assertRaisesRegex(exception.GrowthPutOff, 'does not run'):
            self.grow()
        self.assertEqual([], self.changes())
        self.run_plan(
            operations.HARD_REBOOT,
            dataclasses.replace(self.wanted, grow_root_gb=3),
        )
        self.assert_grown(base.RUNNING)

    def test_start_ends_growth_that_was_killed(self):
        number = 0
        while self.recover(
            number, lambda: self.run_plan(operations.START, self.wanted)
        ):
            number += 1
        self.assertGreater(number, 7)

    def test_unrescue_ends_growth_that_was_killed(self):
        self.recover(
            CLEARING,
            lambda: self.disks.reconnect(self.wanted.lpar_uuid, rescued=False),
        )

    def test_snapshot_ends_growth_that_was_killed(self):
        def read():
            with self.disks.read_root(self.wanted.lpar_uuid):
                pass

        self.recover(CLEARING, read)

    def test_end_that_guest_got_otherwise_is_never_cleared(self):
        with (
            test_reading.kill_when(CLEARING, ('POST', 'PUT')),
            self.assertRaises(test_kills.Killed),
        ):
            self.grow()
        self.start_service()
        # An administrator maps the disk, and the guest writes to its end.
        (root,) = (
            disk
            for disk in self.disks.groups.read().virtual_disks
            if disk.name.endswith('r')
        )
        self.disks.attach(
            self.wanted.lpar_uuid,
            [storage.Stored(root.name, root)],
        )
        self.control.write_disk(
            root.udid,
            base64.b64encode(WRITTEN).decode(),
            3 * base.SMALL_GB - len(WRITTEN),
        )
        with self.logged('WARNING') as logs:
            self.disks.reconnect(self.wanted.lpar_uuid, rescued=False)
        self.assertIn('not cleared any more', str(logs.output))
        self.assertTrue(self.bytes_of('r').endswith(WRITTEN))
        self.assertEqual([], self.media())

    def refuse_to_check(self):
        """Assert that a growth needs room for its note."""
        with (
            unittest.mock.patch.object(
                uploads.MediaRepository,
                'check_room',
                side_effect=exception.InsufficientSpace(
                    place='the repository',
                    free_gb=0,
                    needed_gb=1,
                    what='the config drive',
                ),
            ),
            self.assertRaises(exception.InsufficientSpace),
        ):
            self.disks.check_growth(self.wanted.lpar_uuid, 3)

    def test_deletion_removes_what_a_killed_growth_left(self):
        with (
            test_reading.kill_when(CLEARING, ('POST', 'PUT')),
            self.assertRaises(test_kills.Killed),
        ):
            self.grow()
        self.start_service()
        self.assertIn('g', {name[14] for name in self.media()})
        self.removals.destroy(base.INSTANCE)
        self.assert_nothing_left()
        self.assertEqual([], self.media())

    def media(self):
        """Return the names of all media."""
        return [
            medium['name']
            for partition in self._system()['partitions']
            for group in partition.get('volume_groups', ())
            for medium in (group['media_repository'] or {}).get('media', ())
        ]

    def recover(self, number, recover):
        """Kill a growth after some of its changes, and recover from that.

        In between, no guest has what deleted disks have left.

        :returns: Whether it came so far.
        """
        is_killed = False
        with self.subTest(number=number):
            self.begin()
            self.prepare()
            with test_reading.kill_when(number, ('POST', 'PUT')):
                try:
                    self.grow()
                except test_kills.Killed:
                    is_killed = True
            self.start_service()
            if self.mapped_disks() == 'r':
                self.assertNotIn(RESIDUE.encode(), self.bytes_of('r'))
            self.disks.unmap_deleted()
            recover()
            self.assertEqual('r', self.mapped_disks())
            size = self.stored()['r']['capacity']
            self.assert_holds('r', self.old, size)
            self.assertEqual([], self.media())
        return is_killed
