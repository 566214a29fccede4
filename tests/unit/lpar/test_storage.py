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

"""Names and contents of disks, media and images."""

import dataclasses
import unittest

import ddt

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import storage

LPAR = '4B1C2D3E-0F00-4000-8000-000000000001'
OTHER = '4B1C2D3E-0F01-4000-8000-000000000001'
GIB = storage.GIB


class StorageNameTest(unittest.TestCase):
    def test_virtual_slots_have_order_of_roles(self):
        for make_name in (storage.disk_name, storage.unit_name):
            slots = [
                storage.virtual_slot(make_name(LPAR, role), 0)
                for role in ('r', *storage.EPHEMERALS, 's')
            ]
            medium = storage.config_drive_name(LPAR)
            slots.append(storage.virtual_slot(medium, 0))
            self.assertEqual([*range(48, 61)], slots)
            root = make_name(LPAR, storage.UNCOUNTED_ROOT)
            self.assertEqual(48, storage.virtual_slot(root, 0))

    def test_virtual_slots_of_second_server_are_16_below(self):
        name = storage.disk_name(LPAR, storage.SWAP)
        self.assertEqual(59, storage.virtual_slot(f'0300f8d6.3/{name}', 0))
        self.assertEqual(43, storage.virtual_slot(name, 1))
        self.assertEqual(range(32, 48), storage.virtual_slots(1))

    def test_rescue_disk_has_virtual_slot_of_root_disk(self):
        names = [
            storage.disk_name(LPAR, role)
            for role in (storage.RESCUE, 'r', *storage.EPHEMERALS, 's')
        ]
        names.append(storage.config_drive_name(LPAR, rescue=True))

        for server in (0, 1):
            slots = [
                storage.virtual_slot(name, server, rescued=True)
                for name in names
            ]
            first = storage.virtual_slots(server)[0]
            self.assertEqual([*range(first, first + 14)], slots)

    def test_lpar_is_connected_to_one_config_drive(self):
        for make_name in (storage.disk_name, storage.unit_name):
            own = [
                make_name(LPAR, storage.ROOT),
                storage.config_drive_name(LPAR),
            ]
            rescue = [
                make_name(LPAR, storage.RESCUE),
                storage.config_drive_name(LPAR, rescue=True),
            ]
            for rescued, expected in (
                (False, own),
                (True, [own[0], *rescue]),
            ):
                self.assertEqual(
                    expected,
                    [
                        name
                        for name in own + rescue
                        if storage.is_connected(name, rescued=rescued)
                    ],
                )
            for name in own + rescue:
                self.assertEqual(name in rescue, storage.is_of_rescue(name))

    def test_virtual_slots_of_others_are_left_to_host(self):
        self.assertIsNone(storage.virtual_slot('lv01', 0))
        name = storage.disk_name(LPAR, storage.SWAP)
        self.assertIsNone(storage.virtual_slot(name, 2))

    def test_names_of_others_are_not_counted(self):
        for name in (
            'lv01',
            'nvram',
            'nv4b1c2d3e0f00',
            'nv4b1c2d3e0f00rr',
            'nv4b1c2d3e0f00r0',
            'nv4b1c2d3e0f00e',
            'xnv4b1c2d3e0f0r',
            'nv4B1C2D3E0F00r',
            storage.config_drive_name(LPAR),
            storage.config_drive_name(LPAR, rescue=True),
            storage.disk_name(LPAR, storage.RESCUE),
            storage.unit_name(LPAR, storage.RESCUE),
        ):
            self.assertFalse(storage.is_counted(name), name)

    def test_belongs_to_ignores_directory_of_path(self):
        path = f'{storage.stem(LPAR)}/lv01'
        self.assertFalse(storage.belongs_to(path, LPAR))
        self.assertEqual('lv01', storage.base_name(path))


class BlankDisksTest(unittest.TestCase):
    def test_blank_disks_are_ephemeral_ones_in_order_and_then_swap(self):
        self.assertEqual(
            (
                storage.Disk('0', 5),
                storage.Disk('1', 3),
                storage.Disk('s', 0.25),
            ),
            storage.blank_disks([5, 3], 256),
        )

    def test_disks_are_described_by_role_and_size(self):
        for disk, words in (
            (storage.Disk(storage.ROOT, 20), 'root disk of 20 GB'),
            (storage.Disk(storage.UNCOUNTED_ROOT, 1), 'root disk of 1 GB'),
            (storage.Disk('9', 2), 'ephemeral 10 disk of 2 GB'),
            (storage.Disk(storage.SWAP, 0.5), 'swap disk of 0.5 GB'),
            (storage.Disk(storage.RESCUE, 1), 'rescue disk of 1 GB'),
        ):
            self.assertEqual(words, str(disk))


@ddt.ddt
class RootDiskSizeTest(unittest.TestCase):
    def test_root_disk_smaller_than_image_is_refused(self):
        with self.assertRaises(exception.RootDiskTooSmall) as caught:
            storage.root_disk_gb(2, 2 * GIB + 1, 'it')
        self.assertIn('needs a root disk of 3 GB', str(caught.exception))


class CheckImageTest(unittest.TestCase):
    def test_check_accepts_raw_and_qcow2(self):
        for name in ('raw', 'qcow2'):
            self.assertEqual(7, image.Image('it', name, 7).check())

    def test_check_refuses_other_formats_by_name(self):
        for name in ('iso', 'vmdk', 'aki', 'unknown', 'RAW', ''):
            with self.assertRaises(exception.ImageRefused) as caught:
                image.Image('it', name, 1).check()
            self.assertIn(f'format is {name}.', str(caught.exception))

    def test_check_refuses_unknown_and_zero_size(self):
        for size, words in (
            (None, 'does not report its size'),
            (0, 'is empty'),
        ):
            with self.assertRaises(exception.ImageRefused) as caught:
                image.Image('it', 'raw', size).check()
            self.assertIn(words, str(caught.exception))

    def test_check_refuses_format_that_disk_driver_does_not_support(self):
        with self.assertRaises(exception.ImageRefused) as caught:
            image.Image('it', 'qcow2', 1).check(('raw',))
        self.assertIn('Convert it to raw and', str(caught.exception))


class FingerprintTest(unittest.TestCase):
    ONE = image.Image('one', 'raw', 7, 'sha512', 'AB' * 64)

    def test_images_with_equal_hashes_share_fingerprint(self):
        other = dataclasses.replace(self.ONE, id='other', hash_value='ab' * 64)
        self.assertEqual(self.ONE.fingerprint, other.fingerprint)

    def test_certificates_leave_strong_hash_alone_only(self):
        for algorithm, is_shared in (
            ('sha512', True),
            ('sha256', True),
            ('md5', False),
            ('', False),
        ):
            first = dataclasses.replace(self.ONE, hash_algorithm=algorithm)
            trusting = dataclasses.replace(first, certificates=('a', 'b'))
            same = dataclasses.replace(first, certificates=('b', 'a'))
            with self.subTest(algorithm):
                self.assertEqual(
                    is_shared, first.fingerprint == trusting.fingerprint
                )
                self.assertEqual(same.fingerprint, trusting.fingerprint)

    def test_images_without_hash_differ_by_their_ids(self):
        first = dataclasses.replace(self.ONE, hash_algorithm='', hash_value='')
        other = dataclasses.replace(first, id='other')
        self.assertNotEqual(first.fingerprint, other.fingerprint)
        self.assertEqual(
            first.fingerprint, dataclasses.replace(first).fingerprint
        )

    def test_fingerprint_depends_on_all_that_makes_the_bytes(self):
        fingerprints = [self.ONE.fingerprint]
        for changes in (
            {'hash_value': 'cd' * 64},
            {'hash_algorithm': 'sha256'},
            {'disk_format': 'qcow2'},
            {'size': 8},
        ):
            changed = dataclasses.replace(self.ONE, **changes)
            fingerprints.append(changed.fingerprint)
        self.assertEqual(len(fingerprints), len(set(fingerprints)))

    def test_image_cannot_pass_for_another_by_its_id(self):
        forged = image.Image(self.ONE.hash_value.lower(), 'raw', 7)
        self.assertNotEqual(self.ONE.fingerprint, forged.fingerprint)
