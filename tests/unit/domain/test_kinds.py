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

from nova_powervm.domain import kinds
from nova_powervm.domain import policy
from tests.unit.domain import values


class KindTest(unittest.TestCase):
    def test_kinds(self):
        for pci_class, kind in (
            (0x0300, kinds.GPU),
            (0x0302, kinds.GPU),
            (0x0108, kinds.NVME),
            (0x0104, kinds.STORAGE),
            (0x1000, kinds.CRYPTO),
            (0x1200, kinds.ACCELERATOR),
            (0x0B40, kinds.ACCELERATOR),
            (0x0200, kinds.NETWORK),
            (0x0280, kinds.NETWORK),
            (0x0D11, kinds.NETWORK),
            (0x0207, kinds.FABRIC),
            (0x0C04, kinds.FABRIC),
            (0x0C06, kinds.FABRIC),
            (0x0C03, kinds.OTHER),
            (0x0604, kinds.OTHER),
            (4, kinds.OTHER),
            (None, kinds.OTHER),
        ):
            with self.subTest(pci_class=pci_class):
                slot = values.slot(pci_class=pci_class)
                self.assertIs(kind, kinds.kind_of(slot))

    def test_fpgas(self):
        for changes in (
            {'vendor_id': 0x10EE},
            {'description': 'CAPI FPGA Adapter'},
        ):
            slot = values.slot(pci_class=0x1200, **changes)
            self.assertIs(kinds.FPGA, kinds.kind_of(slot))
        self.assertIs(
            kinds.NETWORK,
            kinds.kind_of(values.slot(pci_class=0x0200, vendor_id=0x10EE)),
        )

    def test_what_has_a_wire_out_the_back_is_in_doubt(self):
        wired = [kind for kind in kinds.KINDS if kind.wired]
        self.assertEqual([kinds.NETWORK, kinds.FABRIC], wired)
        for kind in wired:
            self.assertFalse(kind.safe)

    def test_every_class_can_be_that_of_a_device(self):
        for kind in kinds.KINDS:
            self.assertTrue(policy.may_be_device(kind.resource_class))
