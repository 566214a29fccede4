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

"""Properties of names and sizes of disks."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm.lpar import storage

LPARS = st.uuids().map(lambda uuid: str(uuid).upper())
GIGABYTES = st.integers(0, 1000)
ROLES = st.sampled_from(
    (
        storage.ROOT,
        storage.UNCOUNTED_ROOT,
        storage.SWAP,
        storage.RESCUE,
        *storage.EPHEMERALS,
    )
)
#: Around whole gigabytes, where it matters.
SIZES = st.builds(
    lambda gigabytes, bytes_: max(1, gigabytes * storage.GIB + bytes_),
    st.integers(0, 1000),
    st.integers(-2, 2),
)


class StorageNamesTest(unittest.TestCase):
    @given(LPARS, LPARS, GIGABYTES)
    def test_storage_names_are_valid_and_identify_lpar(self, one, two, size):
        disk = storage.disk_name(one, storage.root_role(size))
        medium = storage.config_drive_name(one)
        self.assertRegex(disk, r'^[\w.-]{1,15}$')
        self.assertRegex(medium, r'^[\w.-]{1,37}$')
        self.assertEqual(size > 0, storage.is_counted(disk))
        self.assertFalse(storage.is_counted(medium))
        for name in (disk, medium):
            self.assertTrue(storage.belongs_to(name, one))
            self.assertEqual(
                storage.stem(one) == storage.stem(two),
                storage.belongs_to(name, two),
            )

    @given(LPARS, LPARS, ROLES, ROLES)
    def test_disk_names_identify_lpar_and_role(self, one, two, role, other):
        name = storage.disk_name(one, role)
        self.assertRegex(name, r'^[\w.-]{1,15}$')
        self.assertTrue(storage.is_ours(name))
        self.assertEqual(
            role not in (storage.UNCOUNTED_ROOT, storage.RESCUE),
            storage.is_counted(name),
        )
        self.assertEqual(
            (storage.stem(one), role) == (storage.stem(two), other),
            name == storage.disk_name(two, other),
        )

    @given(st.lists(st.integers(1, 100), max_size=10), st.integers(0, 5000))
    def test_blank_disks_have_wanted_sizes_and_different_roles(
        self, ephemerals, swap
    ):
        disks = storage.blank_disks(ephemerals, swap)
        self.assertEqual(
            [*ephemerals, *([swap / 1024] if swap else [])],
            [disk.size_gb for disk in disks],
        )
        roles = [disk.role for disk in disks]
        self.assertEqual(len(roles), len(set(roles)))
        self.assertFalse(any(map(storage.is_root, roles)))

    @given(GIGABYTES, SIZES)
    def test_root_disk_fits_image_and_flavor(self, flavor, size):
        try:
            made = storage.root_disk_gb(flavor, size, 'it')
        except exception.RootDiskTooSmall:
            self.assertLess(0, flavor)
            self.assertLess(flavor * storage.GIB, size)
            return
        self.assertGreaterEqual(made * storage.GIB, size)
        if flavor:
            self.assertEqual(flavor, made)
        else:
            self.assertLess((made - 1) * storage.GIB, size)
