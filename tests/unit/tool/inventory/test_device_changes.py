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

"""Changes of devices, each decided by what was just read."""

import dataclasses
import unittest

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import device_changes
from tests.unit.devices import values
from tests.unit.tool.rules import test_releasing


class Placement:
    """Has one provider, which others change before the first write."""

    def __init__(self, provider, **changes):
        self.now = provider
        self._changes = changes
        self.written = []

    def provider(self, uuid):
        return self.now

    def write_inventory(self, provider, name, record):
        if self._changes:
            self.now = dataclasses.replace(
                self.now, generation=provider.generation + 1, **self._changes
            )
            self._changes = {}
            return False
        self.written.append((provider.generation, name, record['reserved']))
        return True


class ReleaseTest(unittest.TestCase):
    def release(self, placement, *slots):
        device_changes.release(placement, test_releasing.burned(), slots)

    def test_release_is_written_to_what_was_just_read(self):
        burned = test_releasing.burned()
        for changes, generation in (({}, 7), ({'name': burned.name}, 8)):
            placement = Placement(burned, **changes)
            self.release(placement, values.slot())
            self.assertEqual(
                [(generation, 'CUSTOM_GPU', 0)], placement.written
            )

    def test_owned_slot_is_not_released(self):
        placement = Placement(test_releasing.burned())
        with self.assertRaisesRegex(errors.DeviceUnchanged, 'is owned by'):
            self.release(placement, values.slot(owner=values.client()))
        self.assertEqual([], placement.written)

    def test_device_that_is_allocated_meanwhile_is_not_released(self):
        placement = Placement(
            test_releasing.burned(), consumers={'one': {'CUSTOM_GPU': 1}}
        )
        with self.assertRaisesRegex(errors.DeviceUnchanged, 'allocated to'):
            self.release(placement, values.slot())
        self.assertEqual([], placement.written)
