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

"""Kinds of devices by their PCI class.

The specification excludes devices "with a wire out the back". Only the PCI
class tells them from others: its first two hex digits are the base class, the
other two the subclass (PCI Code and ID Assignment).
"""

import dataclasses

from nova_powervm.devices import slots


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of devices, and whether they are safe to pass through.

    :param code: Short name in lower case.
    :param title: Plural, for headings.
    :param resource_class: Resource class of this kind.
    :param doubt: Reason not to offer such devices by default, as a clause;
        empty if they are safe.
    :param wired: What the device is connected to outside of the host, if
        anything.
    """

    code: str
    title: str
    resource_class: str = 'CUSTOM_IOSLOT'
    doubt: str = ''
    wired: str = ''

    @property
    def safe(self) -> bool:
        """Whether devices of this kind are offered by default."""
        return not self.doubt


_DISKS = 'the disks of the host itself, or of a VIOS, may be behind them'
_UNKNOWN = 'their PCI class does not tell that they are accelerators'


def _wired(code: str, title: str, to: str) -> DeviceKind:
    return DeviceKind(
        code, title, doubt=f'they are connected to {to}', wired=to
    )


GPU = DeviceKind('gpu', 'Graphics processors (GPUs)', 'CUSTOM_GPU')
NVME = DeviceKind('nvme', 'NVMe drives', 'CUSTOM_NVME')
CRYPTO = DeviceKind('crypto', 'Cryptographic adapters', 'CUSTOM_CRYPTO')
FPGA = DeviceKind('fpga', 'FPGAs', 'FPGA')
ACCELERATOR = DeviceKind('accelerator', 'Accelerators', 'CUSTOM_ACCELERATOR')
NETWORK = _wired('network', 'Network adapters', 'a network')
FABRIC = _wired('fabric', 'Adapters of fabrics', 'a storage fabric')
STORAGE = DeviceKind('storage', 'Storage controllers', doubt=_DISKS)
OTHER = DeviceKind('other', 'Other adapters', doubt=_UNKNOWN)

#: Kinds in the order of listings.
KINDS = (GPU, NVME, CRYPTO, FPGA, ACCELERATOR, STORAGE, NETWORK, FABRIC, OTHER)

#: Xilinx and Altera, whose FPGAs have the PCI class of accelerators.
_FPGA_VENDORS = (0x10EE, 0x1172)
_BY_CLASS = {
    0x0108: NVME,
    0x0B40: ACCELERATOR,
    # Fibre Channel, and InfiniBand in its two classes.
    0x0C04: FABRIC,
    0x0C06: FABRIC,
    0x0207: FABRIC,
}
_BY_GROUP = {
    0x01: STORAGE,
    0x02: NETWORK,
    0x03: GPU,
    # Wireless, and satellites.
    0x0D: NETWORK,
    0x0F: NETWORK,
    0x10: CRYPTO,
    0x12: ACCELERATOR,
}


def kind_of(slot: slots.Slot) -> DeviceKind:
    """Return the kind of the device in a slot.

    :param slot: A slot that is not empty.
    """
    if slot.pci_class is None:
        return OTHER
    kind = _BY_CLASS.get(slot.pci_class) or _BY_GROUP.get(
        slot.pci_class >> 8, OTHER
    )
    if kind is ACCELERATOR and _is_fpga(slot):
        return FPGA
    return kind


def _is_fpga(slot: slots.Slot) -> bool:
    return (
        slot.vendor_id in _FPGA_VENDORS
        or 'fpga' in (slot.description or '').lower()
    )
