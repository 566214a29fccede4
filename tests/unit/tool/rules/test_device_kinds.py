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

"""What a PCI class tells of a device."""

import unittest

from nova_powervm.devices import policy
from nova_powervm.tool.rules import device_kinds
from tests.unit.devices import values


class DeviceKindTest(unittest.TestCase):
    def test_kind_follows_pci_class(self):
        for pci_class, kind in (
            (0x0300, device_kinds.GPU),
            (0x0302, device_kinds.GPU),
            (0x0108, device_kinds.NVME),
            (0x0104, device_kinds.STORAGE),
            (0x1000, device_kinds.CRYPTO),
            (0x1200, device_kinds.ACCELERATOR),
            (0x0B40, device_kinds.ACCELERATOR),
            (0x0200, device_kinds.NETWORK),
            (0x0280, device_kinds.NETWORK),
            (0x0D11, device_kinds.NETWORK),
            (0x0207, device_kinds.FABRIC),
            (0x0C04, device_kinds.FABRIC),
            (0x0C06, device_kinds.FABRIC),
            (0x0C03, device_kinds.OTHER),
            (0x0604, device_kinds.OTHER),
            (4, device_kinds.OTHER),
            (None, device_kinds.OTHER),
        ):
            with self.subTest(pci_class=pci_class):
                slot = values.slot(pci_class=pci_class)
                self.assertIs(kind, device_kinds.kind_of(slot))

    def test_fpga_is_told_by_vendor_or_description(self):
        for changes in (
            {'vendor_id': 0x10EE},
            {'description': 'CAPI FPGA Adapter'},
        ):
            slot = values.slot(pci_class=0x1200, **changes)
            self.assertIs(device_kinds.FPGA, device_kinds.kind_of(slot))
        self.assertIs(
            device_kinds.NETWORK,
            device_kinds.kind_of(
                values.slot(pci_class=0x0200, vendor_id=0x10EE)
            ),
        )

    def test_wired_kinds_are_not_safe(self):
        wired = [kind for kind in device_kinds.KINDS if kind.wired]
        self.assertEqual([device_kinds.NETWORK, device_kinds.FABRIC], wired)
        for kind in wired:
            self.assertFalse(kind.safe)

    def test_resource_class_of_each_kind_is_valid(self):
        for kind in device_kinds.KINDS:
            self.assertTrue(policy.may_be_device(kind.resource_class))
