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

"""The disks of a build: what they are made from, and what is refused."""

import dataclasses
import hashlib
import unittest.mock

import ddt
from pypowervm.wrappers import storage as storage_wrappers

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import image_cache
from tests import plain_rest
from tests import proofs
from tests.functional import images
from tests.ops import base

SPAWN = operations.SPAWN
GIB = storage.GIB
#: More than is looked at before a disk is made.
LONG = b'\x01boot sector' + bytes(400_000)
HALF = 300_000


class Glance:
    """An image whose first transfers can be replaced.

    :param data: Its bytes.
    :param meddlers: What is sent instead in the first transfers; an exception
        breaks the transfer off.
    """

    def __init__(self, data=LONG, meddlers=()):
        self.data = data
        self.meddlers = list(meddlers)
        self.opened = self.closed = 0

    def __call__(self):
        self.opened += 1
        chunks = self.meddlers.pop(0) if self.meddlers else [self.data]
        try:
            for chunk in chunks:
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
        finally:
            self.closed += 1


def broken(after):
    """Return a transfer that breaks off after some bytes."""
    gone = exception.ImageUnreadable(image='it', reason='Glance went away')
    return [LONG[:after], gone]


class BuildTestCase(base.HostTestCase):
    """Spawns instances from images."""

    def setUp(self):
        super().setUp()
        self.reader = plain_rest.Host(
            self.emulator.url, self.emulator.username, self.emulator.password
        )

    def build(self, data=LONG, *, source=None, flavor_gb=1, **changes):
        """Spawn from an image; return its source.

        :param changes: What Glance says of the image that is not so.
        """
        source, wanted = self.prepare(data, source, flavor_gb, **changes)
        self.run_plan(SPAWN, wanted, image=source)
        return source

    def prepare(self, data, source=None, flavor_gb=1, **changes):
        """Return the source of an image, and the instance."""
        described = dataclasses.replace(
            image.Image(
                'it',
                'raw',
                len(data),
                'sha512',
                hashlib.sha512(data).hexdigest(),
            ),
            **changes,
        )
        wanted = self.describe(root=spec.WantedImage(described, flavor_gb))
        return source or Glance(data), wanted

    def refuse(self, error, *words, data=LONG, source=None, **changes):
        """Have a build refused before it changes anything."""
        flavor_gb = changes.pop('flavor_gb', 1)
        source, wanted = self.prepare(data, source, flavor_gb, **changes)
        self.refused(error, SPAWN, wanted, *words, image=source)
        self.assertEqual(source.opened, source.closed)
        return source

    def fail_to_build(self, error, *words, data=LONG, source=None, **changes):
        """Have a build fail that leaves nothing."""
        source, wanted = self.prepare(data, source, **changes)
        self.failed(error, SPAWN, wanted, *words, image=source)
        self.assert_nothing_left()
        self.assertEqual([], self.reader.files())
        self.assertEqual(source.opened, source.closed)
        return source

    def assert_boots_from(self, data, role='r'):
        """Assert that the root disk holds an image, and is connected."""
        self.assert_lpar(disks=role)
        self.assertEqual(
            hashlib.sha256(data).hexdigest(), self.stored()[role]['sha256']
        )


@ddt.ddt
class RootDiskTest(BuildTestCase):
    def test_root_disk_has_size_of_flavor_and_is_counted(self):
        source = self.build(flavor_gb=7)

        self.assert_boots_from(LONG)
        self.assertEqual(7, self.stored()['r']['capacity'])
        self.assertEqual((1, 1), (source.opened, source.closed))

    def test_flavor_without_disk_gets_uncounted_disk_of_image_size(self):
        self.build(flavor_gb=0)

        self.assert_boots_from(LONG, storage.UNCOUNTED_ROOT)
        self.assertEqual(1, self.stored()['x']['capacity'])

    def test_image_larger_than_flavor_is_refused(self):
        source = self.refuse(
            exception.RootDiskTooSmall, size=2 * GIB, flavor_gb=1
        )

        self.assertEqual(1, source.opened)

    def test_image_is_closed_if_something_else_is_refused(self):
        def config_drive(slots, mac):
            raise exception.RestError(action='it', reason='no drive')

        source, wanted = self.prepare(LONG)

        self.refused(
            exception.PowerVMError,
            SPAWN,
            dataclasses.replace(wanted, config_drive=True),
            image=source,
            make_config_drive=config_drive,
        )

        self.assertEqual((1, 1), (source.opened, source.closed))

    def test_config_drive_knows_slots_of_instance(self):
        seen = []

        def config_drive(slots, mac):
            seen.extend(slot.drc_index for slot in slots)
            return base.ISO

        self.run_plan(
            SPAWN,
            self.describe(config_drive=True, slots=(base.slot(base.GPU),)),
            make_config_drive=config_drive,
        )

        self.assertEqual([base.GPU], seen)
        self.assertEqual(
            base.ISO, self.control.contents(self.stored()['i']['udid'])
        )

    def test_full_volume_group_leaves_nothing(self):
        self.fail_to_build(
            exception.RestError, '2000 GB free', flavor_gb=10**4
        )


@ddt.ddt
class BlankDiskTest(BuildTestCase):
    @ddt.data(1, 2, 3, 4)
    def test_refused_disk_leaves_nothing(self, nth):
        self.control.add_fault(
            match='VolumeGroup.update',
            nth=nth,
            status=500,
            message='No more.',
        )

        self.failed(
            exception.RestError,
            SPAWN,
            self.describe(
                blanks=(
                    base.EPHEMERAL,
                    storage.Disk(storage.EPHEMERALS[1], 1),
                    base.SWAP,
                )
            ),
            'No more.',
        )

        self.assert_nothing_left()


@ddt.ddt
class Qcow2Test(BuildTestCase):
    """The host unpacks qcow2 images; they are sent as they are."""

    @proofs.proves('storage.image')
    def test_qcow2_is_sent_as_it_is(self):
        data = images.qcow2(2 * GIB, b'boot sector')

        self.build(data, flavor_gb=2, disk_format='qcow2')

        self.assert_boots_from(data)
        self.assertEqual(2, self.stored()['r']['capacity'])
        self.assertEqual('QCOW2', self.format_of_disk())

    def test_raw_image_is_sent_as_raw(self):
        self.build()

        self.assertEqual('RAW', self.format_of_disk())

    def format_of_disk(self):
        """Return what the host reports as the format of its only disk."""
        (vios,) = (
            p for p in self._system()['partitions'] if p.get('volume_groups')
        )
        (found,) = (
            disk_format
            for group in vios['volume_groups']
            for disk_format in self.reader.disk_formats(
                vios['uuid'], group['uuid']
            ).values()
        )
        return found.upper()

    def test_virtual_size_is_rounded_up_to_whole_gigabytes(self):
        data = images.qcow2(GIB + 512)

        self.build(data, disk_format='qcow2', flavor_gb=0)

        self.assert_boots_from(data, storage.UNCOUNTED_ROOT)
        self.assertEqual(2, self.stored()['x']['capacity'])

    def test_qcow2_larger_than_flavor_is_refused(self):
        self.refuse(
            exception.RootDiskTooSmall,
            'needs a root disk of 2 GB',
            'has 1 GB',
            data=images.qcow2(2 * GIB),
            disk_format='qcow2',
        )

    @ddt.named_data(
        ['backing file', {'backing': b'/etc/shadow'}, 'backing_file'],
        ['data file', {'features': images.DATA_FILE}, 'data_file'],
        ['unknown features', {'features': 1 << 40}, 'unknown_features'],
    )
    def test_qcow2_is_refused(self, options, words):
        self.refuse(
            exception.ImageRefused,
            words,
            data=images.qcow2(GIB, **options),
            disk_format='qcow2',
        )


class VolumeGroupTest(BuildTestCase):
    """Two servers have a volume group of the same name."""

    #: What is different about the group of the first.
    group = {  # noqa: RUF012 - not changed
        'capacity': 100,
        'free': 70.5,
        'disks': [
            {'name': 'database', 'capacity': 20},
            {'name': 'nv-not-ours', 'capacity': 5},
        ],
    }

    def world(self):
        """Return a world with two servers."""
        world = super().world()
        servers = world['systems'][0]['virtual_io_servers']
        groups = servers[0]['volume_groups']
        servers.append(
            servers[0]
            | {
                'name': 'vios2',
                'id': 9,
                'volume_groups': [
                    {'name': 'rootvg', 'capacity': 100},
                    {'name': 'image_pool', 'capacity': 99.9},
                ],
            }
        )
        for group in groups:
            if group['name'] == 'image_pool':
                group.update(self.group)
        return world

    def test_name_of_two_groups_is_refused(self):
        with self.assertRaises(exception.ConfigurationError) as caught:
            self.disks.capacity()

        self.assertIn(
            'vios1/image_pool, vios2/image_pool', str(caught.exception)
        )

    def test_disks_of_others_are_reserved(self):
        self.start_service(volume_group='vios1/image_pool')

        found = self.disks.capacity()

        self.assertEqual((100, 30), (found.total_gb, found.reserved_gb))

    def test_fraction_of_a_gigabyte_is_not_offered(self):
        self.start_service(volume_group='vios2/image_pool')

        found = self.disks.capacity()

        self.assertEqual((99, 0), (found.total_gb, found.reserved_gb))

    def test_server_of_group_is_chosen_by_its_name(self):
        self.start_service(volume_group='vios2/image_pool')

        self.build()

        self.assertEqual({'vios1': [], 'vios2': ['r']}, self.mapped())
        self.assertEqual(
            hashlib.sha256(LONG).hexdigest(), self.stored()['r']['sha256']
        )
        self.removals.destroy(base.INSTANCE)
        self.assert_nothing_left()

    def test_spawn_without_group_is_refused(self):
        self.start_service(volume_group=None)

        self.assertEqual(0, self.disks.capacity().total_gb)
        self.refuse(exception.ConfigurationError, '[powervm]volume_group_name')


class RefusedImageTest(BuildTestCase):
    """An image that is not what Glance says never becomes a disk."""

    @proofs.proves('storage.image')
    def test_unsupported_format_is_refused_unread(self):
        for disk_format in ('iso', 'vmdk'):
            source = self.refuse(
                exception.ImageRefused,
                f'its disk format is {disk_format}',
                disk_format=disk_format,
            )
            self.assertEqual(0, source.opened)

    def test_qcow2_that_is_declared_raw_is_refused(self):
        self.refuse(
            exception.ImageRefused,
            'says its format is raw',
            'qcow2',
            data=images.qcow2(GIB),
        )

    def test_raw_that_is_declared_qcow2_is_refused(self):
        self.refuse(
            exception.ImageRefused,
            'says its format is qcow2',
            'bytes are raw',
            disk_format='qcow2',
        )

    def test_image_is_trusted_if_nova_is_told_to(self):
        source, wanted = self.prepare(images.qcow2(GIB))
        root = dataclasses.replace(wanted.root, inspect=False)

        self.run_plan(
            SPAWN, dataclasses.replace(wanted, root=root), image=source
        )

        self.assert_boots_from(source.data)

    @proofs.proves('storage.image')
    def test_wrong_hash_leaves_nothing(self):
        source = self.fail_to_build(
            exception.ImageDamaged,
            'arrived damaged',
            'Glance says 0000',
            hash_value='0' * 128,
        )

        self.assertEqual(1, source.opened)

    def test_wrong_size_leaves_nothing(self):
        size = len(LONG)

        self.fail_to_build(
            exception.ImageUnreadable,
            f'{size} bytes, but Glance says {size + 1}',
            size=size + 1,
        )

    def test_missing_size_is_refused_unread(self):
        source = self.refuse(
            exception.ImageRefused, 'does not report its size', size=None
        )

        self.assertEqual(0, source.opened)

    def test_unknown_hash_algorithm_is_refused(self):
        self.refuse(
            exception.ImageRefused,
            "hash algorithm 'rot13' is not available",
            hash_algorithm='rot13',
        )

    def test_empty_image_is_refused(self):
        self.refuse(exception.ImageRefused, 'it is empty', data=b'')

    def test_changed_bytes_leave_nothing(self):
        self.fail_to_build(
            exception.ImageDamaged,
            'arrived damaged',
            source=Glance(meddlers=[[bytes(len(LONG))]] * 9),
        )

    def test_format_that_changes_between_uploads_leaves_nothing(self):
        self.fail_to_build(
            exception.ImageRefused,
            'its bytes are qcow2',
            source=Glance(meddlers=[broken(HALF), [images.qcow2(GIB)]]),
        )


class TransferTest(BuildTestCase):
    """A transfer that breaks off starts again, once."""

    def test_interrupted_transfer_is_tried_again(self):
        source = self.build(source=Glance(meddlers=[[b'half']]))

        self.assert_boots_from(LONG)
        self.assertEqual(2, source.opened)

    def test_transfer_that_breaks_off_during_look_and_upload(self):
        source = self.build(
            source=Glance(meddlers=[broken(1000), broken(HALF)])
        )

        self.assert_boots_from(LONG)
        self.assertEqual(3, source.opened)

    def test_silence_during_the_look_is_refused(self):
        self.refuse(
            exception.ImageUnreadable,
            'Glance went away',
            source=Glance(meddlers=[broken(1000)] * 9),
        )

    def test_silence_during_the_upload_leaves_nothing(self):
        self.fail_to_build(
            exception.ImageUnreadable,
            'Glance went away',
            source=Glance(meddlers=[broken(HALF)] * 9),
        )

    def test_session_that_ends_at_the_upload_is_renewed(self):
        self.control.add_fault(match='File.upload', status=401)

        self.build()

        self.assert_boots_from(LONG)

    def test_session_that_ends_between_look_and_upload_is_renewed(self):
        def ends():
            yield LONG[:HALF]
            self.control.expire_sessions()
            yield LONG[HALF:]

        self.build(source=Glance(meddlers=[ends()]))

        self.assert_boots_from(LONG)

    def test_session_that_ends_at_each_upload_fails_build(self):
        self.control.add_fault(match='File.upload', status=401, every=True)

        self.fail_to_build(exception.PowerVMError, 'the session ended')

    def test_upload_that_the_host_refuses_fails_build(self):
        self.control.add_fault(
            match='File.upload', status=500, message='No more.'
        )

        self.fail_to_build(exception.RestError, 'No more.')

    def test_upload_is_tried_again_after_dropped_connection(self):
        self.control.add_fault(match='File.upload', drop=True)

        self.build()

        self.assert_boots_from(LONG)

    def test_upload_whose_connections_all_drop_fails_build(self):
        self.control.add_fault(match='File.upload', drop=True, every=True)

        self.fail_to_build(exception.RestUnreachable, 'uploading')

    def test_description_of_file_that_stays_is_no_error(self):
        self.control.add_fault(match='File.delete', status=500)

        self.build()

        self.assert_boots_from(LONG)

    def test_mapping_that_the_host_refuses_leaves_nothing(self):
        self.control.add_fault(
            match='VirtualIOServer.update', status=500, message='No slot.'
        )

        self.fail_to_build(exception.RestError, 'No slot.')


class SickServerTest(BuildTestCase):
    """The storage of one of two Virtual I/O Servers cannot be read."""

    disk_driver = 'ssp'

    def test_server_is_built_and_deleted_by_the_other(self):
        self.sicken('vios2')

        with self.logged('WARNING') as logs:
            self.build()

        self.assertIn('vios2 does not report its storage', logs.output[0])
        self.assertEqual({'vios1': ['r'], 'vios2': []}, self.mapped())
        self.removals.destroy(base.INSTANCE)
        self.assert_nothing_left()


class PoolTest(BuildTestCase):
    """Disks in a pool are linked clones of cached images."""

    disk_driver = 'ssp'

    def units(self):
        """Return the logical units of the pool by name."""
        (cluster,) = self.control.state()['clusters']
        return {u['name']: u for u in cluster['pool']['logical_units']}

    def test_root_disk_is_linked_clone_of_image(self):
        self.build()

        self.assert_boots_from(LONG)
        (image_unit,) = (
            unit
            for unit in self.units().values()
            if unit['type'] == 'VirtualIO_Image'
        )
        self.assertEqual(
            image_unit['udid'][2:], self.stored()['r']['cloned_from'][2:]
        )

    def test_cached_image_is_neither_read_nor_written_again(self):
        self.build()
        self.removals.destroy(base.INSTANCE)
        self.assert_nothing_left()

        source = self.build(source=Glance())

        self.assert_boots_from(LONG)
        self.assertEqual(0, source.opened)
        self.assertNotIn('PUT File.upload', self.trail())

    @proofs.proves('storage.image')
    def test_qcow2_is_refused_unread(self):
        self.refuse(
            exception.ImageRefused,
            'Convert it to raw and',
            data=images.qcow2(GIB),
            disk_format='qcow2',
        )

    def test_disks_and_medium_are_seen_in_the_order_of_guests(self):
        self.spawn(blanks=(base.EPHEMERAL, base.SWAP), config_drive=True)

        self.assert_lpar(disks='r0si')

    def test_rebuild_from_cached_image_is_checked_unread(self):
        self.build()
        source, wanted = self.prepare(LONG)

        self.forget()
        self.lpars.check(SPAWN, wanted, base.Askers(image=source))

        self.assertEqual((0, []), (source.opened, self.changes()))

    def fill(self, size_gb):
        """Make a thick logical unit that is not the driver's."""
        storage_wrappers.LUEnt.bld(
            self.adapter, 'filler', size_gb, thin=False
        ).create(parent=self.disks._units.tier)

    def fail_for_lack_of_room(self, *words, flavor_gb=1, **changes):
        """Have a build fail that leaves nothing but its image."""
        source, wanted = self.prepare(LONG, flavor_gb=flavor_gb)
        wanted = dataclasses.replace(wanted, **changes)

        self.failed(
            exception.InsufficientSpace, SPAWN, wanted, *words, image=source
        )

        self.assert_nothing_left()
        self.assertEqual(source.opened, source.closed)

    def test_disk_that_does_not_fit_is_refused(self):
        self.fill(18.5)

        self.fail_for_lack_of_room(
            'has 1.5 GB free, but 2 GB are needed',
            'root disk of 2 GB',
            flavor_gb=2,
        )

        self.assertEqual(['filler'], list(self.units()))

    def test_blank_disk_that_does_not_fit_is_refused(self):
        self.fill(18.5)

        self.fail_for_lack_of_room(
            'ephemeral 1 disk of 3 GB', blanks=(base.EPHEMERAL,)
        )

    def test_overcommitment_divides_what_has_to_be_free(self):
        self.start_service(disk_overcommitment=4.0)
        self.fill(18.5)
        self.build(flavor_gb=3)
        self.assert_boots_from(LONG)
        self.removals.destroy(base.INSTANCE)
        self.fill(1)

        self.fail_for_lack_of_room(
            '0.75 GB are needed for root disk of 3 GB', flavor_gb=3
        )

    def test_image_that_does_not_fit_is_refused(self):
        self.start_service(disk_overcommitment=100.0)
        self.fill(20)

        self.refuse(
            exception.InsufficientSpace,
            '0 GB free, but 0.04 GB are needed for the image',
            data=bytes(40 * 1024**2),
        )

    def test_rebuild_without_room_is_refused(self):
        self.build(flavor_gb=12)
        self.fill(10)
        source, wanted = self.prepare(LONG, flavor_gb=12)
        self.forget()

        with self.assertRaises(exception.InsufficientSpace) as caught:
            self.lpars.check(SPAWN, wanted, base.Askers(image=source))

        self.assertIn('12 GB are needed', str(caught.exception))
        self.assertEqual([], self.changes())

    def test_rebuild_from_unknown_image_caches_it_and_no_more(self):
        wanted = self.spawn()
        source, other = self.prepare(LONG)
        before = self.stored()

        self.lpars.check(SPAWN, other, base.Askers(image=source))

        self.assertEqual(before, self.stored())
        self.assert_lpar()
        self.assertEqual(1, source.opened)
        self.assertEqual(3, len(self.units()))
        self.assertEqual(wanted.instance_uuid, other.instance_uuid)


class TrustedCertificatesTestCase(BuildTestCase):
    """A server with certificates gets an image that Nova has verified for it.

    Nova tells of a bad signature when it has sent all bytes.
    """

    certificates = ('certificate',)

    def setUp(self):
        super().setUp()
        refusal = exception.ImageRefused(image='it', reason='bad signature')
        self.unsigned = Glance(LONG, [[LONG, refusal]] * 2)

    def check(self, source):
        """Check a rebuild; return whether it is refused."""
        _, wanted = self.prepare(LONG, certificates=self.certificates)
        self.forget()
        try:
            self.lpars.check(SPAWN, wanted, base.Askers(image=source))
        except exception.ImageRefused:
            return True
        finally:
            self.assertEqual([], self.changes())
            self.assert_boots_from(LONG)
        return False


class SignedPoolImageTest(TrustedCertificatesTestCase):
    """A copy in the pool saves the writing, but not the verification."""

    disk_driver = 'ssp'

    def cache(self):
        """Have the image in the pool, as for a server without certificates."""
        self.build()
        self.removals.destroy(base.INSTANCE)

    def fail_unsigned(self, **changes):
        """Have a build fail for the signature of its image."""
        _, wanted = self.prepare(
            LONG, certificates=self.certificates, **changes
        )
        wanted = dataclasses.replace(
            wanted, slots=(base.slot(base.GPU, one_time_use=True),)
        )
        self.failed(
            exception.ImageRefused,
            SPAWN,
            wanted,
            'bad signature',
            image=self.unsigned,
        )
        self.assert_nothing_left()
        self.assertEqual(set(), self.burned())
        self.assertEqual(self.unsigned.opened, self.unsigned.closed)

    def test_cached_image_is_read_but_not_written_again(self):
        self.cache()

        source = self.build(certificates=self.certificates)

        self.assert_boots_from(LONG)
        self.assertEqual(1, source.opened)
        self.assertNotIn('PUT File.upload', self.trail())

    def test_new_image_is_read_once(self):
        source = self.build(certificates=self.certificates)

        self.assert_boots_from(LONG)
        self.assertEqual(1, source.opened)

    def test_new_image_with_bad_signature_leaves_and_burns_nothing(self):
        self.fail_unsigned()

        self.assertEqual(
            [], self.control.state()['clusters'][0]['pool']['logical_units']
        )

    @proofs.proves('operation.trusted-certs')
    def test_cached_image_with_bad_signature_leaves_and_burns_nothing(self):
        self.cache()

        self.fail_unsigned()

    def test_image_that_another_host_writes_meanwhile_is_verified(self):
        provide = image_cache.ImageCache.provide

        def provide_unread(cache, described, contents, source):
            provide(cache, described, contents, Glance())
            return provide(cache, described, contents, source)

        with unittest.mock.patch.object(
            image_cache.ImageCache, 'provide', provide_unread
        ):
            self.fail_unsigned()

    def test_cached_image_without_strong_hash_is_not_used(self):
        weak = {'hash_algorithm': '', 'hash_value': ''}
        self.build(**weak)
        self.removals.destroy(base.INSTANCE)

        self.build(certificates=self.certificates, **weak)

        self.assertIn('PUT File.upload', self.trail())

    def test_rebuild_from_cached_image_is_checked_with_its_signature(self):
        self.build()

        self.assertTrue(self.check(self.unsigned))
        self.assertFalse(self.check(Glance()))


class RememberedImageTest(TrustedCertificatesTestCase):
    """A service remembers the images that it has verified by their hashes."""

    disk_driver = 'localdisk'

    def test_remembered_image_is_read_for_its_signature(self):
        self.build(certificates=self.certificates)

        self.assertTrue(self.check(self.unsigned))
        self.assertFalse(self.check(Glance()))


class PoolCostTest(BuildTestCase):
    """A pool of one VIOS, and an image that it has."""

    disk_driver = 'ssp'

    def world(self):
        world = super().world()
        world['systems'][0]['virtual_io_servers'].pop()
        world['clusters'][0]['nodes'].pop()
        return world

    def test_boot_from_cached_image_makes_twelve_requests(self):
        # Nova reads the power state afterwards, which makes thirteen.
        self.build()
        self.removals.destroy(base.INSTANCE)

        self.spawn(ports=(), root=self.prepare(LONG)[1].root)

        self.assertEqual(
            [
                'GET LogicalPartition.read',
                'GET LogicalUnit.feed',
                'GET LogicalUnit.feed',
                'GET SharedStoragePool.read',
                'PUT LogicalUnit.create',
                'GET LogicalUnit.read',
                'PUT LogicalPartition.create',
                'GET VirtualIOServer.read',
                'POST VirtualIOServer.update',
                'PowerOn',
                'DELETE Job.delete',
                'GET LogicalPartition.quick',
            ],
            self.trail(),
        )


@ddt.ddt
class RebuildCheckTest(BuildTestCase):
    """What would refuse a rebuild is found out while the guest runs."""

    def setUp(self):
        super().setUp()
        self.wanted = self.spawn(
            slots=(base.slot(base.GPU, one_time_use=True),),
            blanks=(base.SWAP,),
        )
        self.forget()

    def check(self, source=None, **changes):
        """Check a rebuild, which changes nothing."""
        self.forget()
        wanted = dataclasses.replace(self.wanted, **changes)
        try:
            return self.lpars.check(
                SPAWN,
                wanted,
                base.Askers(
                    image=source or Glance(base.DATA),
                    make_config_drive=lambda slots, mac: base.ISO,
                ),
            )
        finally:
            self.assertEqual([], self.changes())
            self.assert_lpar(slots=[base.GPU], disks='rs')

    def test_check_plans_the_whole_build_and_burns_nothing(self):
        plan = self.check(config_drive=True)

        self.assertTrue(plan.makes)
        self.assertIn('burn the one-time-use devices in 21010020', str(plan))

    def test_check_refuses_device_that_placement_is_silent_about(self):
        self.give(base.GPU, None)
        self.placement.silent = {base.provider(base.GPU)}
        with self.assertRaises(exception.ClaimFailed):
            self.lpars.check(
                SPAWN,
                self.wanted,
                base.Askers(image=Glance(base.DATA)),
            )
        self.assertEqual([], self.changes())

    def test_check_reads_whole_image(self):
        # A service that has verified the image does not read it again.
        self.start_service()
        with self.assertRaises(exception.ImageDamaged):
            self.check(source=Glance(bytes(len(base.DATA))))

    def rebuild(self, data):
        """Check and rebuild; return how often the image was read."""
        source, wanted = self.prepare(data)
        self.check(source=source, root=wanted.root)
        self.removals.destroy(base.INSTANCE)
        self.run_plan(SPAWN, wanted, image=source)
        return source.opened

    def test_rebuild_reads_unknown_image_twice(self):
        self.assertEqual(2, self.rebuild(LONG))

    def test_rebuild_reads_known_image_once(self):
        self.assertEqual(1, self.rebuild(base.DATA))

    def test_check_refuses_disks_without_room(self):
        root = dataclasses.replace(self.wanted.root, flavor_gb=10**4)

        with self.assertRaises(exception.InsufficientSpace):
            self.check(root=root)

    def test_check_counts_room_of_present_disks(self):
        self.check(root=dataclasses.replace(self.wanted.root, flavor_gb=1990))
        with self.assertRaises(exception.InsufficientSpace):
            self.check(
                root=dataclasses.replace(self.wanted.root, flavor_gb=1990),
                blanks=(storage.Disk(storage.SWAP, 500),),
            )

    @ddt.data('VolumeGroup', 'ManagedSystem')
    def test_check_fails_without_answer_of_host(self, label):
        self.start_service()
        self.control.add_fault(
            match=label, every=True, status=500, message='No.'
        )
        with self.assertRaisesRegex(exception.RestError, 'No.'):
            self.check(blanks=(base.EPHEMERAL, base.SWAP))

    def test_check_refuses_slot_of_another(self):
        with self.assertRaises(exception.ClaimFailed):
            self.check(slots=(base.slot(base.FOREIGN),))

    def test_check_refuses_sizes_that_the_host_does_not_support(self):
        with self.assertRaises(exception.MemorySizeRefused):
            self.check(settings=lpar_settings.FlavorSettings(1000, 1, 0.5))
