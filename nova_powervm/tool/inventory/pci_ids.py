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

"""Names of PCI devices from the distribution's list of IDs.

The package hwdata (Fedora, Red Hat, SUSE, Debian) or pci.ids (Debian, Ubuntu)
provides and updates the list. No Python package can replace this module: some
ship an outdated list, and the one that reads the distribution's list has the
GPL, which a program under the Apache license can't import.
"""

import re
from collections.abc import Iterable
from collections.abc import Mapping

from nova_powervm.devices import slots

#: Paths of the list in different distributions.
PATHS = (
    '/usr/share/hwdata/pci.ids',
    '/usr/share/misc/pci.ids',
    '/var/lib/pciutils/pci.ids',
)

# A line with one tab is a device of the vendor above. Lines with two tabs are
# subsystems, and those that begin with "C " are classes; neither matches.
_LINE = re.compile(r'(?P<tab>\t?)(?P<id>[0-9a-f]{4}) {2}(?P<name>\S.*)')
_LEGAL_FORM = re.compile(
    r'([,\s]+(Corporation|Corp|Inc|Incorporated|Ltd|Limited|Co|LLC|GmbH|AG)'
    r'\b\.?)+$',
    re.IGNORECASE,
)


class DeviceNames:
    """Lookup of device names.

    :param vendors: Vendor ID to vendor name.
    :param devices: Vendor ID and device ID to device name.
    """

    def __init__(
        self,
        vendors: Mapping[int, str] | None = None,
        devices: Mapping[tuple[int, int], str] | None = None,
    ) -> None:
        self._vendors = vendors or {}
        self._devices = devices or {}

    def describe(self, slot: slots.Slot) -> str:
        """Describe the device in a slot.

        :returns: Name with the IDs in parentheses; the host's description if
            the device is not in the list.
        """
        if slot.is_empty:
            return 'empty slot'
        name = self._name(slot) or printable(slot.description or 'adapter')
        ids = '/'.join(
            f'{value:04X}'
            for value in (slot.vendor_id, slot.device_id)
            if value is not None
        ).replace('/', ':')
        return f'{name} ({ids})' if ids else name

    def _name(self, slot: slots.Slot) -> str | None:
        if slot.vendor_id is None or slot.device_id is None:
            return None
        device = self._devices.get((slot.vendor_id, slot.device_id))
        if device is None:
            return None
        # The legal form of the vendor does not tell what the device is.
        vendor = _LEGAL_FORM.sub('', self._vendors[slot.vendor_id])
        return f'{vendor} {device}'


def read_names(paths: Iterable[str] = ()) -> DeviceNames:
    """Read the first list that exists.

    :param paths: Paths of lists; by default :data:`PATHS`.
    :returns: The names; empty if no list exists.
    """
    for path in paths or PATHS:
        try:
            with open(path, encoding='utf-8', errors='replace') as lines:
                return parse_names(lines)
        except OSError:
            continue
    return DeviceNames()


def parse_names(lines: Iterable[str]) -> DeviceNames:
    """Parse the lines of a list; ignore unknown lines."""
    vendors: dict[int, str] = {}
    devices: dict[tuple[int, int], str] = {}
    vendor: int | None = None
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            # Lines below a class, for example, do not belong to a vendor.
            if not line.startswith(('\t', '#')) and line.strip():
                vendor = None
            continue
        number, name = int(match['id'], 16), printable(match['name'].strip())
        if not match['tab']:
            vendor = number
            vendors[vendor] = name
        elif vendor is not None:
            devices[vendor, number] = name
    return DeviceNames(vendors, devices)


def printable(text: str) -> str:
    """Replace characters that are not printable by spaces."""
    return ''.join(c if c.isprintable() else ' ' for c in text).strip()
