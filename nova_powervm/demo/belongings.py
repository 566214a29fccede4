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

from nova_powervm.demo import cloud as cloud_lib
from nova_powervm.demo import guest
from nova_powervm.demo import host as host_lib
from nova_powervm.demo import report

_DISK = 'VirtualDisk'
_MEDIUM = 'VirtualOpticalMedia'


@dataclasses.dataclass(frozen=True)
class Belongings:
    """What was found of one server, on its host and in neutron."""

    stored: tuple[host_lib.Stored, ...]
    ports: tuple[cloud_lib.Port, ...]
    adapters: tuple[host_lib.Adapter, ...]

    @property
    def disks(self) -> list[host_lib.Stored]:
        """The virtual disks."""
        return [item for item in self.stored if item.kind == _DISK]

    @property
    def config_drives(self) -> list[guest.ConfigDrive]:
        """The config drives, read as a guest would."""
        return [
            guest.read_config_drive(item.contents)
            for item in self.stored
            if item.kind == _MEDIUM
        ]

    @property
    def macs(self) -> list[str]:
        """The MAC addresses of the ports in neutron."""
        return [port.mac for port in self.ports]

    def document(self) -> report.Json:
        """Return all of it in values that can be compared."""
        return {
            'disks, with the SHA-256 of their bytes': [
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


def look(
    host: host_lib.Host,
    cloud: cloud_lib.Cloud,
    server: cloud_lib.Server,
    partition: str,
) -> Belongings:
    """Look for what a server has.

    :param partition: the UUID of the server's partition.
    """
    return Belongings(
        stored=tuple(host.storage(partition)),
        ports=tuple(cloud.ports(server)),
        adapters=tuple(host.adapters(partition)),
    )


def expected(
    server: cloud_lib.Server,
    network: cloud_lib.Network,
    image: bytes,
    locations: collections.abc.Iterable[str],
    macs: collections.abc.Iterable[str],
) -> report.Json:
    """Return what has to be found, in the form of :meth:`document`.

    :param image: the bytes that the server was booted from.
    :param locations: the location codes of the server's slots.
    :param macs: the MAC addresses that neutron chose; there must be one.
    """
    mac = next(iter(macs), 'that of a port')
    return {
        'disks, with the SHA-256 of their bytes': [
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
