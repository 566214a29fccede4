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

"""What Placement is promised of a volume group is there."""

import math
import types
import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import volume_groups

LPARS = st.uuids().map(lambda uuid: str(uuid).upper())
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
