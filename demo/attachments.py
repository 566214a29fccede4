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

"""What a server has besides its slots: disk, port and config drive."""

import collections.abc
import dataclasses

from demo import cloud as cloud_lib
from demo import guest
from demo import host as host_lib
from demo import report

_DISK = 'VirtualDisk'
_MEDIUM = 'VirtualOpticalMedia'

_DISKS = 'disks and the SHA-256 of their contents'


@dataclasses.dataclass(frozen=True)
class Attachments:
    """The storage, ports and network adapters of one server.

    ``ports`` are those in Neutron; the rest is read from the host.
    """

    storage: tuple[host_lib.StorageElement, ...]
    ports: tuple[cloud_lib.Port, ...]
    adapters: tuple[host_lib.Adapter, ...]

    @property
    def disks(self) -> list[host_lib.StorageElement]:
        """The virtual disks."""
        return [element for element in self.storage if element.kind == _DISK]

    @property
    def config_drives(self) -> list[guest.ConfigDrive]:
        """The config drives, read as a guest reads them."""
        return [
            guest.read_config_drive(element.contents)
            for element in self.storage
            if element.kind == _MEDIUM
        ]

    @property
    def macs(self) -> list[str]:
        """The MAC addresses of the ports in Neutron."""
        return [port.mac for port in self.ports]

    def document(self) -> report.Json:
        """Return the attachments as JSON values for comparison."""
        return {
            _DISKS: [
                {
                    'GB': float(disk.size),
                    'SHA-256': guest.sha256(disk.contents),
                }
                for disk in self.disks
            ],
            'config drives': [
                drive.document() for drive in self.config_drives
            ],
            'ports': [dataclasses.asdict(port) for port in self.ports],
            'adapters': [
                dataclasses.asdict(adapter) for adapter in self.adapters
            ],
        }


def read_attachments(
    host: host_lib.Host,
    cloud: cloud_lib.Cloud,
    server: cloud_lib.Server,
    partition: str,
) -> Attachments:
    """Read the attachments of a server from its host and from Neutron.

    :param partition: the UUID of the server's partition.
    """
    return Attachments(
        storage=tuple(host.storage(partition)),
        ports=tuple(cloud.ports(server)),
        adapters=tuple(host.adapters(partition)),
    )


def expected_attachments(
    server: cloud_lib.Server,
    network: cloud_lib.Network,
    image: bytes,
    locations: collections.abc.Iterable[str],
    macs: collections.abc.Iterable[str],
) -> report.Json:
    """Return what :meth:`Attachments.document` has to be for a server.

    :param image: the contents of the image that the server booted from.
    :param locations: the location codes of the server's slots.
    :param macs: the MAC addresses that Neutron chose: exactly one is
        expected.
    """
    mac = next(iter(macs), 'the MAC address of a port')
    return {
        _DISKS: [
            {'GB': float(cloud_lib.DISK_GB), 'SHA-256': guest.sha256(image)}
        ],
        'config drives': [
            {
                'uuid': server.id,
                'name': server.name,
                'public_keys': {cloud_lib.KEY: guest.PUBLIC_KEY},
                'locations of devices': sorted(locations),
                'user_data': guest.USER_DATA,
            }
        ],
        'ports': [{'mac': mac, 'status': 'ACTIVE', 'vif_type': 'pvm_sea'}],
        'adapters': [{'mac': mac, 'vlan': network.vlan}],
    }
