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

"""Readings of the host, seen from another thread."""

import unittest

from nova_powervm.devices import host
from nova_powervm.ops import host as host_ops
from tests.unit.devices import values


class System:
    """A host that calls a function while it is read."""

    def __init__(self):
        self.view = values.view()
        self.meanwhile = lambda: None

    def read(self, *, fresh=False):
        view = self.view
        self.meanwhile()
        return view


class Storage:
    def capacity(self):
        return host.DiskCapacity(0, 0)


class ReadingTest(unittest.TestCase):
    """The number of a reading is never ahead of what was read."""

    def setUp(self):
        self.system = System()
        # Nobody owns a slot, so no records are asked for.
        self.ops = host_ops.HostOps(self.system, Storage(), None)
        self.seen = []

    def look(self):
        self.seen.append((self.ops.begun, self.ops.readings))

    def test_an_unchanged_host_is_a_reading_too(self):
        first = self.ops.read()
        self.assertIs(first, self.ops.read())
        self.assertEqual(2, self.ops.readings)

    def test_one_under_way_has_begun_and_not_ended(self):
        self.system.meanwhile = self.look
        self.ops.read()
        self.ops.read()
        self.assertEqual([(1, 0), (2, 1)], self.seen)

    def test_one_that_failed_has_not_ended(self):
        self.ops.read()
        self.system.meanwhile = lambda: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            self.ops.read()
        self.assertEqual((2, 1), (self.ops.begun, self.ops.readings))
        self.system.meanwhile = lambda: None
        self.ops.read()
        self.assertEqual((3, 3), (self.ops.begun, self.ops.readings))

    def test_it_ends_when_it_can_be_seen(self):
        self.ops.read()
        self.system.view = values.view(memory_mb=1)
        numbers = []

        class Watched(host_ops.HostOps):
            def __setattr__(self, name, value):
                super().__setattr__(name, value)
                if name in ('_last', 'readings'):
                    numbers.append((self.last.view.memory_mb, self.readings))

        self.ops.__class__ = Watched
        self.ops.read()
        self.assertEqual([(1, 1), (1, 2)], numbers)
