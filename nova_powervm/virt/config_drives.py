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

"""Config drives: Nova's content on an ISO 9660 file system."""

import collections
import io
import itertools
import json
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import pycdlib
from nova.api.metadata import base as instance_metadata
from nova.virt import netutils

from nova_powervm.devices import slots
from nova_powervm.lpar import management_adapter

#: The label that cloud-init looks for.
_LABEL = 'config-2'
# What ISO 9660 allows in the names of interchange level 3, and their lengths;
# the longest extension leaves room for a name and its number.
_NOT_PLAIN = re.compile('[^A-Z0-9_]')
_LONGEST_FILE, _LONGEST_DIRECTORY, _LONGEST_EXTENSION = 30, 31, 12
_META_DATA = re.compile(r'openstack/[^/]+/meta_data\.json')

File = tuple[str, bytes]


def collect_files(
    instance: Any,
    network_info: Any,
    injected_files: Any,
    admin_password: str | None,
    owned: Sequence[slots.Slot],
    management_mac: str | None = None,
) -> list[File]:
    """Collect Nova's files for a config drive, and add the instance's slots.

    Nova's own list of devices has only network interfaces, disks and shares.
    Add each slot to that list, with its location code.

    :param owned: The slots that the instance gets.
    :param management_mac: The MAC address of its management adapter, which is
        added to the networks.
    """
    network_data = netutils.get_network_metadata(network_info)
    if management_mac:
        network_data = management_adapter.describe(
            network_data, management_mac
        )
    metadata = instance_metadata.InstanceMetadata(
        instance,
        content=injected_files,
        extra_md={'admin_pass': admin_password} if admin_password else {},
        network_info=network_info,
        network_metadata=network_data,
    )
    return [
        (path, _with_slots(path, _bytes(data), owned))
        for path, data in metadata.metadata_for_config_drive()
    ]


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _with_slots(path: str, data: bytes, owned: Sequence[slots.Slot]) -> bytes:
    """Add slots to the devices of a meta_data.json that lists devices."""
    if not (owned and _META_DATA.fullmatch(path)):
        return data
    document = json.loads(data)
    if 'devices' not in document:
        return data
    document['devices'] += [describe_slot(slot) for slot in owned]
    return json.dumps(document).encode()


def describe_slot(slot: slots.Slot) -> Mapping[str, Any]:
    """Describe a slot in the form of Nova's device metadata.

    ``location`` is the location code, which a guest finds in ``ibm,loc-code``
    of its device tree. There is no bus address, because the guest assigns it.
    """
    ids = {
        'vendor_id': slot.vendor_id,
        'device_id': slot.device_id,
        'subsys_vendor_id': slot.subsys_vendor_id,
        'subsys_device_id': slot.subsys_device_id,
        'class': slot.pci_class,
    }
    return {
        'type': 'ioslot',
        'bus': 'pci',
        'address': 'none',
        'location': slot.drc_name,
        'drc_index': slot.drc_hex,
        'description': slot.description,
        'tags': [],
        **{
            name: f'{value:04X}'
            for name, value in ids.items()
            if value is not None
        },
    }


def make_iso(files: Iterable[File]) -> bytes:
    """Create an ISO 9660 image with Rock Ridge and Joliet names.

    :param files: Pairs of a path with slashes and contents. Each name in a
        path has at most 64 bytes in UTF-8.
    """
    disc = pycdlib.PyCdlib()
    disc.new(
        interchange_level=3, rock_ridge='1.09', joliet=3, vol_ident=_LABEL
    )
    try:
        _Tree(disc).add_all(files)
        image = io.BytesIO()
        disc.write_fp(image)
    finally:
        disc.close()
    return image.getvalue()


class _Tree:
    """Writes files and their directories to a disc.

    Rock Ridge and Joliet have the real names. The plain ISO names, which some
    systems see, resemble them as far as ISO 9660 allows.
    """

    def __init__(self, disc: Any) -> None:
        self._disc = disc
        self._directories = {'': ''}
        # Plain path of a directory -> the plain names in it.
        self._taken: dict[str, set[str]] = collections.defaultdict(set)

    def add_all(self, files: Iterable[File]) -> None:
        for path, data in files:
            above, _, name = path.strip('/').rpartition('/')
            stem, _, extension = name.rpartition('.')
            if not stem:
                stem, extension = name, ''
            plain = self._choose(above, stem, extension, _LONGEST_FILE)
            if not extension:
                plain += '.'
            self._disc.add_fp(
                io.BytesIO(data),
                len(data),
                f'{plain};1',
                rr_name=name,
                joliet_path=f'/{path.strip("/")}',
            )

    def _directory(self, path: str) -> str:
        if path not in self._directories:
            above, _, name = path.rpartition('/')
            plain = self._choose(above, name, '', _LONGEST_DIRECTORY)
            self._disc.add_directory(
                plain, rr_name=name, joliet_path=f'/{path}'
            )
            self._directories[path] = plain
        return self._directories[path]

    def _choose(
        self, directory: str, stem: str, extension: str, longest: int
    ) -> str:
        """Return a plain path that nothing in its directory has yet.

        :param directory: The real path of the directory.
        :param longest: How many characters the name can have, without dot.
        """
        above = self._directory(directory)
        taken = self._taken[above]
        names = _plain_names(stem, extension, longest)
        name = next(name for name in names if name not in taken)
        taken.add(name)
        return f'{above}/{name}'


def _plain_names(stem: str, extension: str, longest: int) -> Iterator[str]:
    """Yield plain names, the most similar one first."""
    stem, extension = (
        _NOT_PLAIN.sub('_', part.upper()) for part in (stem, extension)
    )
    end = f'.{extension[:_LONGEST_EXTENSION]}' if extension else ''
    longest -= len(end.removeprefix('.'))
    for number in itertools.count(1):
        suffix = f'_{number}' if number > 1 else ''
        yield f'{stem[: longest - len(suffix)]}{suffix}{end}'
