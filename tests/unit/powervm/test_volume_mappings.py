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


"""Which disks a Virtual I/O Server may forget."""

import dataclasses
import unittest

from nova_powervm.powervm.volume import volume_mappings

DISK = volume_mappings.Disk('hdisk1', 'udid', 1, True, True, 'NoReserve')
SERVER = volume_mappings.Server(
    'uuid', 'vios1', True, False, frozenset(), (DISK,), (), {}
)


class UnusedTest(unittest.TestCase):
    def unused(self, udids, mapped=(), **changes):
        """Return the disks that may be forgotten, one being changed."""
        disk = dataclasses.replace(DISK, **changes)
        server = dataclasses.replace(SERVER, disks=(disk,), mapped=mapped)
        return server.unused(udids)

    def test_disk_of_volume_is_unused(self):
        self.assertEqual([DISK], self.unused({'udid'}))

    def test_disk_that_may_be_of_others_is_left(self):
        mapped = volume_mappings.Mapped('', 'udid', 'hdisk1', '')
        for given in (
            {'udids': {'other'}},
            {'udids': {'', 'udid'}, 'udid': ''},
            {'udids': {'udid'}, 'mapped': (mapped,)},
            {'udids': {'udid'}, 'is_free': False},
            {'udids': {'udid'}, 'is_fibre_channel': False},
        ):
            with self.subTest(given):
                self.assertEqual([], self.unused(**given))
