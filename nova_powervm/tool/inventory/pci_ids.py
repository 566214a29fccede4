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

"""Names of PCI devices, from the distribution's list of ids.

The list comes with the package hwdata (Fedora, Red Hat, SUSE, Debian) or
pci.ids (Debian, Ubuntu) and is updated with it. Nothing that is offered for
Python could replace these few lines: the packages that bring a list of their
own bring an old one, and the one that reads the distribution's has the GPL,
which a program under the Apache license can't import.
"""

import argparse
import re
from collections.abc import Iterable
from collections.abc import Mapping

from nova_powervm.devices import slots

#: Where distributions put the list.
PATHS = (
    '/usr/share/hwdata/pci.ids',
    '/usr/share/misc/pci.ids',
    '/var/lib/pciutils/pci.ids',
)

# One with a tab in front is a device of the vendor above; two tabs, which
# this leaves out, are subsystems. The list of classes at the end begins "C ".
_LINE = re.compile(r'(?P<tab>\t?)(?P<id>[0-9a-f]{4}) {2}(?P<name>\S.*)')
_LEGAL_FORM = re.compile(
    r'([,\s]+(Corporation|Corp|Inc|Incorporated|Ltd|Limited|Co|LLC|GmbH|AG)'
    r'\b\.?)+$',
    re.IGNORECASE,
)


class DeviceNames:
    """Finds names of devices.

    :param vendors: Vendor id to name.
    :param devices: Vendor and device id to name.
    """

    def __init__(
        self,
        vendors: Mapping[int, str] | None = None,
        devices: Mapping[tuple[int, int], str] | None = None,
    ) -> None:
        self._vendors = vendors or {}
        self._devices = devices or {}

    def describe(self, slot: slots.Slot) -> str:
        """Say what a slot holds, as well as is known.

        :returns: A name with the ids in parentheses; the host's own
            description if the list does not have the device.
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
        return f'{_short(self._vendors[slot.vendor_id])} {device}'


def read_names(paths: Iterable[str] = PATHS) -> DeviceNames:
    """Read the first of these lists that there is.

    :param paths: Of files in the format of pci.ids.
    :returns: The names; none if there is no list.
    """
    for path in paths:
        try:
            with open(path, encoding='utf-8', errors='replace') as lines:
                return parse_names(lines)
        except OSError:
            continue
    return DeviceNames()


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names another list."""
    parser.add_argument(
        '--pci-ids',
        metavar='FILE',
        help='a list of the names of PCI devices (default: that of the '
        'package hwdata or pci.ids, if one of them is installed)',
    )


def read_chosen_names(parsed_args: argparse.Namespace) -> DeviceNames:
    """Read the list that the option names, or the distribution's.

    :raises OSError: The named one can't be read.
    """
    if not parsed_args.pci_ids:
        return read_names()
    with open(parsed_args.pci_ids, encoding='utf-8', errors='replace') as own:
        return parse_names(own)


def parse_names(lines: Iterable[str]) -> DeviceNames:
    """Read the lines of a list; what is not understood is passed over."""
    vendors: dict[int, str] = {}
    devices: dict[tuple[int, int], str] = {}
    vendor: int | None = None
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            # Devices below anything else, as a class, are none of a vendor.
            if not line.startswith(('\t', '#')) and line.strip():
                vendor = None
            continue
        number, name = int(found['id'], 16), printable(found['name'].strip())
        if not found['tab']:
            vendor = number
            vendors[vendor] = name
        elif vendor is not None:
            devices[vendor, number] = name
    return DeviceNames(vendors, devices)


def printable(text: str) -> str:
    """Leave out what could break a line or a terminal."""
    return ''.join(c if c.isprintable() else ' ' for c in text).strip()


def _short(vendor: str) -> str:
    """Leave out the legal form, which tells nothing about the device."""
    return _LEGAL_FORM.sub('', vendor)
