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

"""Names and contents of disks, groups and config drives."""

import io
import math
import types
import unittest

import pycdlib
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from oslo_utils.imageutils import format_inspector

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import volume_groups
from nova_powervm.virt import config_drives

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


#: Allocation units are powers of two, of MiB.
UNITS_MB = st.sampled_from([2**power for power in range(14)])
#: Root disk and whether Placement counts it, ephemeral disk, swap in MiB.
INSTANCES = st.tuples(
    LPARS,
    st.integers(1, 50),
    st.booleans(),
    st.integers(0, 20),
    st.integers(0, 4096),
)


def rounded(size_gb, unit_mb):
    """Return the size that a VIOS gives a disk, in GB."""
    return math.ceil(size_gb * 1024 / unit_mb) * unit_mb / 1024


class Group:
    """A volume group with the disks of instances.

    :param free_mb: The space that is left.
    :param others_mb: The space that others use.
    """

    def __init__(self, instances, unit_mb, free_mb, others_mb):
        self.virtual_disks = [
            types.SimpleNamespace(
                name=storage.disk_name(lpar, disk.role),
                capacity=rounded(disk.size_gb, unit_mb),
            )
            for lpar, root, counted, ephemeral, swap in instances
            for disk in (
                storage.Disk(storage.root_role(root if counted else 0), root),
                *storage.blank_disks([ephemeral] if ephemeral else [], swap),
            )
        ]
        self.available_size = free_mb / 1024
        self.capacity = (
            self.available_size
            + others_mb / 1024
            + sum(disk.capacity for disk in self.virtual_disks)
        )
        self.element = {'MinimumAllocationSize': str(unit_mb / 1024)}
        self.element = types.SimpleNamespace(findtext=self.element.get)


class CapacityTest(unittest.TestCase):
    @given(
        st.lists(INSTANCES, max_size=5),
        UNITS_MB,
        st.integers(0, 100000),
        st.integers(0, 100000),
    )
    def test_promised_space_is_free(self, instances, unit, free, others):
        found = volume_groups.capacity(Group(instances, unit, free, others))
        # As Nova's scheduler adds them up.
        allocated = sum(
            (root if counted else 0) + ephemeral + math.ceil(swap / 1024)
            for _, root, counted, ephemeral, swap in instances
        )
        promised = found.total_gb - found.reserved_gb - allocated
        self.assertLessEqual(promised, free / 1024)

    @given(st.lists(INSTANCES, max_size=5), st.integers(0, 100))
    def test_disks_of_whole_sizes_reserve_nothing(self, instances, free):
        whole = [
            (lpar, root, True, ephemeral, swap // 1024 * 1024)
            for lpar, root, _, ephemeral, swap in instances
        ]
        found = volume_groups.capacity(Group(whole, 64, free * 1024, 0))
        self.assertEqual(0, found.reserved_gb)
        self.assertEqual(free, found.total_gb - found.used_gb)


#: Without what a file name can not have, what is no name, and what is longer
#: than pycdlib lets a Joliet name be; Nova's own names are short.
_NAMES = st.text(
    st.characters(exclude_categories=['Cs', 'Cc'], exclude_characters='/'),
    min_size=1,
    max_size=40,
).filter(lambda name: name not in ('.', '..') and len(name.encode()) <= 64)
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map('/'.join)


def _is_no_directory(files):
    """Return whether no path is also a directory of another."""
    return not any(
        other.startswith(f'{path}/') for path in files for other in files
    )


trees = st.dictionaries(_PATHS, st.binary(max_size=5000), max_size=8).filter(
    _is_no_directory
)


def read(disc, kind):
    """Return the files by path, as an extension of ISO 9660 names them."""
    found = {}
    for directory, _, names in disc.walk(**{kind: '/'}):
        for name in names:
            path = f'{directory.rstrip("/")}/{name}'
            data = io.BytesIO()
            disc.get_file_from_iso_fp(data, **{kind: path})
            found[path.removeprefix('/')] = data.getvalue()
    return found


class ConfigDriveTest(unittest.TestCase):
    @settings(deadline=None, max_examples=60)
    @given(trees)
    def test_rock_ridge_and_joliet_return_written_files(self, files):
        disc = pycdlib.PyCdlib()
        disc.open_fp(io.BytesIO(config_drives.make_iso(files.items())))
        self.addCleanup(disc.close)
        self.assertEqual(files, read(disc, 'rr_path'))
        self.assertEqual(files, read(disc, 'joliet_path'))

    @settings(deadline=None, max_examples=60)
    @given(trees)
    def test_plain_names_are_those_that_iso_9660_allows(self, files):
        disc = pycdlib.PyCdlib()
        disc.open_fp(io.BytesIO(config_drives.make_iso(files.items())))
        self.addCleanup(disc.close)
        plain = read(disc, 'iso_path')
        self.assertEqual(sorted(files.values()), sorted(plain.values()))
        for path in plain:
            *directories, name = path.split('/')
            self.assertRegex(name, r'^[A-Z0-9_]+\.[A-Z0-9_]*;1$')
            self.assertLessEqual(len(name), len('.;1') + 30)
            for directory in directories:
                self.assertRegex(directory, '^[A-Z0-9_]{1,31}$')

    def test_plain_names_resemble_the_real_ones(self):
        names = {
            'openstack/latest/meta_data.json': (
                'OPENSTACK/LATEST/META_DATA.JSON;1'
            ),
            'ec2/2009-04-04/meta-data.json': 'EC2/2009_04_04/META_DATA.JSON;1',
            'openstack/content/0000': 'OPENSTACK/CONTENT/0000.;1',
            'a.b.profile': 'A_B.PROFILE;1',
            '.profile': '_PROFILE.;1',
            'name.': 'NAME.;1',
            f'{"a" * 30}.{"b" * 30}': f'{"A" * 18}.{"B" * 12};1',
        }
        disc = pycdlib.PyCdlib()
        made = config_drives.make_iso((name, b'') for name in names)
        disc.open_fp(io.BytesIO(made))
        self.addCleanup(disc.close)
        self.assertEqual(
            sorted(names.values()), sorted(read(disc, 'iso_path'))
        )

    def test_names_that_would_be_alike_are_numbered(self):
        names = ['a-b', 'a_b', 'A_b', f'{"a" * 40}1', f'{"a" * 40}2', 'a-b!/c']
        disc = pycdlib.PyCdlib()
        made = config_drives.make_iso((name, b'') for name in names)
        disc.open_fp(io.BytesIO(made))
        self.addCleanup(disc.close)
        self.assertEqual(
            {
                'A_B.;1',
                'A_B_2.;1',
                'A_B_3.;1',
                f'{"A" * 30}.;1',
                f'{"A" * 28}_2.;1',
                'A_B_/C.;1',
            },
            {*read(disc, 'iso_path')},
        )

    @settings(deadline=None, max_examples=20)
    @given(trees)
    def test_config_drive_matches_iso_format(self, files):
        image = config_drives.make_iso(files.items())
        inspector = format_inspector.ISOInspector()
        inspector.eat_chunk(image)
        inspector.finish()
        self.assertTrue(inspector.format_match)
