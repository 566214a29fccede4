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

"""The disks of a build: which are made, which are kept, and when."""

import dataclasses
import unittest

import ddt

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.lpar import stored_disks
from nova_powervm.ops import build_disks
from nova_powervm.ops import images
from nova_powervm.ops import instance_spec

INSTANCE = '4b1c2d3e-0f00-4000-8000-000000000001'
LPAR = INSTANCE.upper()
DATA = b'\x01boot sector' + bytes(1000)
EPHEMERAL = storage.Disk(storage.EPHEMERALS[0], 3)
SWAP = storage.Disk(storage.SWAP, 0.5)
RAW = image.Contents(len(DATA), 'raw', len(DATA))


class Pool:
    """A pool with some disks and cached images.

    :param disks: Its disks.
    :param cached: Contents of cached images by their fingerprints.
    """

    def __init__(self, disks=(), cached=()):
        self.found = list(disks)
        self.cached = dict(cached)

    def disks(self, lpar=None):
        return [each for each in self.found if lpar in (None, each.lpar)]

    def cached_image(self, described):
        return self.cached.get(described.fingerprint)


class Disks:
    """Notes what it is asked to make."""

    image_formats = image.FORMATS

    def __init__(self, pool=None):
        self.pool = pool
        self.calls = []

    def check(self, *, config_drive):
        self.calls.append(('check', config_drive))

    def check_room(self, lpar, disks, medium_bytes):
        self.calls.append(('check room', *disks, medium_bytes))

    def make_root(self, lpar, disk, described, contents, source):
        self.calls.append(('root', disk, contents))
        return stored_disks.Stored(f'{lpar} {disk.role}', None)

    def make_blank(self, lpar, disk):
        self.calls.append(('blank', disk))
        return stored_disks.Stored(f'{lpar} {disk.role}', None)

    def make_medium(self, lpar, iso):
        self.calls.append(('medium', iso))
        return stored_disks.Stored(f'{lpar} iso', None)


class Source:
    """An image in Glance that counts its readings."""

    def __init__(self):
        self.chunks = [DATA]
        self.opened = self.closed = 0

    def __call__(self):
        self.opened += 1
        try:
            yield from self.chunks
        finally:
            self.closed += 1


def pool_disk(role, lpar=LPAR, *, in_use=False):
    """Return a disk of a pool."""
    return stored_disks.PoolDisk(
        lpar,
        storage.Disk(role, 1),
        in_use,
        stored_disks.Stored(f'{lpar} {role}', None),
    )


class BuildDisksTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.disks = Disks()
        self.source = Source()
        self.image = image.Image('it', 'raw', len(DATA))
        root = instance_spec.RootDisk(self.image, self.source, 0)
        self.instance = instance_spec.InstanceSpec(
            uuid=INSTANCE, name='one', root=root, blanks=(EPHEMERAL, SWAP)
        )

    @property
    def ops(self):
        return build_disks.DiskOps(self.disks, images.ImageOps())

    def change_root(self, **changes):
        """Give the instance another root disk."""
        root = dataclasses.replace(self.instance.root, **changes)
        self.instance = dataclasses.replace(self.instance, root=root)

    def make(self, iso=None):
        with self.ops.opened(self.instance) as disks:
            return [stored.name for stored in disks.make(iso)]


class NewDisksTest(BuildDisksTestCase):
    def test_disks_are_made_in_the_order_that_guests_see(self):
        names = self.make(b'iso')
        root = storage.Disk(storage.UNCOUNTED_ROOT, 1)
        self.assertEqual(
            [
                ('root', root, RAW),
                ('blank', EPHEMERAL),
                ('blank', SWAP),
                ('medium', b'iso'),
            ],
            self.disks.calls,
        )
        self.assertEqual(
            [f'{LPAR} {end}' for end in ('x', '0', 's', 'iso')], names
        )

    def test_root_disk_has_size_of_flavor_and_is_counted(self):
        self.change_root(flavor_gb=7)
        self.make()
        root = storage.Disk(storage.ROOT, 7)
        self.assertEqual(('root', root, RAW), self.disks.calls[0])

    def test_image_larger_than_flavor_makes_nothing(self):
        self.change_root(
            image=dataclasses.replace(self.image, size=2 * storage.GIB),
            flavor_gb=1,
        )
        with self.assertRaises(exception.RootDiskTooSmall):
            self.make()
        self.assertEqual([], self.disks.calls)
        self.assertEqual(1, self.source.closed)

    def test_unknown_image_is_opened_before_disks_are_made(self):
        # More than is looked at, so that the transfer is not at its end.
        self.source.chunks *= 1000
        size = len(DATA) * 1000
        self.change_root(image=dataclasses.replace(self.image, size=size))
        with self.ops.opened(self.instance) as held:
            self.assertEqual(1, self.source.opened)
            self.assertEqual([], self.disks.calls)
        # It is closed although something still refers to it.
        self.assertTrue(held)
        self.assertEqual(1, self.source.closed)

    def test_cached_image_is_not_read(self):
        self.disks.pool = Pool(cached={self.image.fingerprint: RAW})
        self.make()
        self.assertEqual(RAW, self.disks.calls[0][2])
        self.assertEqual(0, self.source.opened)

    def test_rebuild_from_cached_image_is_checked_without_reading_it(self):
        self.disks.pool = Pool(cached={self.image.fingerprint: RAW})
        self.ops.check_rebuild(self.instance, None)
        self.assertEqual(0, self.source.opened)

    def test_rebuild_needs_room_for_all_disks_and_medium(self):
        self.ops.check_rebuild(self.instance, 300)
        root = storage.Disk(storage.UNCOUNTED_ROOT, 1)
        self.assertEqual(
            [('check room', root, EPHEMERAL, SWAP, 300)], self.disks.calls
        )

    def test_format_that_driver_does_not_support_is_refused(self):
        self.disks.image_formats = (image.RAW,)
        self.change_root(
            image=dataclasses.replace(self.image, disk_format='qcow2')
        )
        with self.assertRaises(exception.ImageRefused) as caught:
            self.ops.check(self.instance)
        self.assertIn('Convert it to raw and', str(caught.exception))
        self.assertEqual([], self.disks.calls)


@ddt.ddt
class KeptDisksTest(BuildDisksTestCase):
    def setUp(self):
        super().setUp()
        self.disks.pool = Pool(
            pool_disk(role) for role in ('s', '1', '0', 'r')
        )
        self.instance = dataclasses.replace(
            self.instance, root=None, keeps_disks=True
        )

    def test_kept_disks_have_the_order_of_new_ones(self):
        self.assertEqual(
            [f'{LPAR} {end}' for end in ('r', '0', 's', 'iso')],
            self.make(b'iso'),
        )
        self.assertEqual([('medium', b'iso')], self.disks.calls)

    def test_check_of_kept_disks_needs_no_image(self):
        self.ops.check(self.instance)
        self.assertEqual([('check', False)], self.disks.calls)

    def test_root_disk_of_image_size_is_kept(self):
        self.disks.pool.found[-1] = pool_disk(storage.UNCOUNTED_ROOT)
        self.assertEqual(f'{LPAR} x', self.make()[0])

    @ddt.named_data(
        ['root', 'r', 'root'],
        ['ephemeral', '0', 'ephemeral 1'],
    )
    def test_missing_disk_is_named(self, role, words):
        pool = self.disks.pool
        pool.found = [each for each in pool.found if each.disk.role != role]
        # That of another instance does not help.
        pool.found.append(pool_disk(role, LPAR.replace('4B', '5B')))
        with self.assertRaises(exception.DiskMissing) as caught:
            self.make()
        self.assertIn(f'The {words} disk of', str(caught.exception))

    def test_missing_swap_disk_is_made_in_its_place(self):
        self.disks.pool.found = self.disks.pool.found[1:]
        self.assertEqual(
            [f'{LPAR} {end}' for end in ('r', '0', 's', 'iso')],
            self.make(b'iso'),
        )
        self.assertEqual(
            [('blank', SWAP), ('medium', b'iso')], self.disks.calls
        )

    def test_swap_disk_is_not_made_for_flavor_without_one(self):
        self.instance = dataclasses.replace(self.instance, blanks=(EPHEMERAL,))
        self.assertEqual([f'{LPAR} r', f'{LPAR} 0'], self.make())
        self.assertEqual([], self.disks.calls)

    def test_swap_disk_of_other_size_is_kept_with_a_warning(self):
        with self.assertLogs('nova_powervm', 'WARNING') as logs:
            self.make()
        self.assertIn(
            'Keeping the swap disk of 1 GB, although the flavor has one of '
            '0.5 GB.',
            logs.output[0],
        )
        self.assertEqual([], self.disks.calls)

    def test_swap_disk_whose_size_is_rounded_is_kept_in_silence(self):
        swap = storage.Disk(storage.SWAP, 0.501)
        self.disks.pool.found[0] = dataclasses.replace(
            self.disks.pool.found[0], disk=swap
        )
        with self.assertNoLogs('nova_powervm', 'WARNING'):
            self.make()

    @ddt.data('r', '0', 's')
    def test_disk_in_use_is_refused_before_anything_is_made(self, role):
        pool = self.disks.pool
        pool.found = [
            dataclasses.replace(each, in_use=each.disk.role == role)
            for each in pool.found
        ]
        with self.assertRaises(exception.DiskInUse) as caught:
            self.make(b'iso')
        self.assertIn(f'Disk {LPAR} {role} is in use', str(caught.exception))
        self.assertEqual([], self.disks.calls)

    def test_disk_that_instance_does_not_ask_for_may_be_in_use(self):
        pool = self.disks.pool
        pool.found[1] = pool_disk('1', in_use=True)
        self.make()

    def test_disk_that_comes_into_use_during_build_is_refused(self):
        with (
            self.assertRaises(exception.DiskInUse),
            self.ops.opened(self.instance) as disks,
        ):
            self.disks.pool.found[-1] = pool_disk('r', in_use=True)
            disks.make(b'iso')
        self.assertEqual([], self.disks.calls)

    def test_storage_of_one_host_has_no_disks_to_keep(self):
        self.disks.pool = None
        with self.assertRaises(exception.DiskMissing):
            self.make()
