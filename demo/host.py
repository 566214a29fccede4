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

"""A client of a PowerVM host's REST API that does not use pypowervm.

The demonstration compares its results with those of the driver, so a defect
of the driver's library must not affect both.
"""

import base64
import contextlib
import dataclasses
import typing
from xml.sax import saxutils

import requests
from lxml import etree

from demo import guest
from demo import stack as stack_lib
from powervm_emulator import client
from powervm_emulator.core import errors

_NAMESPACE = 'http://www.ibm.com/xmlns/systems/power/firmware/{}/mc/2012_10/'
_UOM = '{' + _NAMESPACE.format('uom') + '}'
_WEB = _NAMESPACE.format('web')

_TIMEOUT = 30

#: Not every world has NovaLink's management switch.
_MANAGEMENT_VLAN = 4094

_LOGON = f"""\
<LogonRequest xmlns="{_WEB}" schemaVersion="V1_0">
  <UserID>{{username}}</UserID><Password>{{password}}</Password>
</LogonRequest>
"""

#: Identification key in inventory.yaml -> the REST element with its number,
#: and the number of hexadecimal digits that it is written with.
_NUMBERS = {
    'vendor_id': ('PCIVendorID', 4),
    'device_id': ('PCIDeviceID', 4),
    'subsys_vendor_id': ('PCISubsystemVendorID', 4),
    'subsys_device_id': ('PCISubsystemDeviceID', 4),
    'class': ('PCIClass', 4),
    'revision_id': ('PCIRevisionID', 2),
    'drc_index': ('SlotDynamicReconfigurationConnectorIndex', 8),
}

#: Kind of storage -> the elements of its name and size, and that of its UDID.
_STORAGE = {
    'VirtualDisk': (('DiskName', 'DiskCapacity'), 'UniqueDeviceID'),
    'VirtualOpticalMedia': (('MediaName', 'Size'), 'MediaUDID'),
    'LogicalUnit': (('UnitName', 'UnitCapacity'), 'UniqueDeviceID'),
    'PhysicalVolume': (('VolumeName', 'VolumeCapacity'), 'UniqueDeviceID'),
}

_ARRAY_DISK = 'PhysicalVolume'
_DISKS = ('VirtualDisk', 'LogicalUnit', _ARRAY_DISK)

#: The kinds of storage that :meth:`Host.volume_group_contents` finds.
_IN_VOLUME_GROUPS = ('VirtualDisk', 'VirtualOpticalMedia')


@dataclasses.dataclass(frozen=True)
class Slot:
    """A physical I/O slot.

    ``properties`` has the identification keys of inventory.yaml that the
    host reports, with upper-case hexadecimal values. ``owner`` is the name
    of the partition that owns the slot, or None.
    """

    description: str
    properties: dict[str, str]
    owner: str | None

    @property
    def drc_index(self) -> str:
        """The DRC index in eight upper-case hexadecimal digits."""
        return self.properties['drc_index']


@dataclasses.dataclass(frozen=True)
class Partition:
    """An LPAR; ``slots`` are the sorted DRC indexes in its profile."""

    name: str
    uuid: str
    state: str
    slots: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """Return the LPAR as JSON values."""
        return {**dataclasses.asdict(self), 'slots': list(self.slots)}


@dataclasses.dataclass(frozen=True)
class PartitionSize:
    """The memory and the virtual processors of an LPAR."""

    memory_mb: int
    processors: int


@dataclasses.dataclass(frozen=True)
class StorageElement:
    """A virtual disk or optical medium that is mapped to an LPAR.

    ``kind`` is the name of the REST element, ``size`` its capacity as the
    host reports it (of a disk in GB, of one of an array in MB), ``contents``
    what was uploaded to it, ``slot`` the virtual slot in which the guest sees
    it.
    """

    kind: str
    name: str
    size: str
    contents: bytes = dataclasses.field(repr=False)
    udid: str = ''
    slot: int = 0

    @property
    def is_disk(self) -> bool:
        """Whether a guest can write to it."""
        return self.kind in _DISKS

    @property
    def gigabytes(self) -> float:
        """The size of a disk."""
        size = float(self.size)
        return size / 1024 if self.kind == _ARRAY_DISK else size


@dataclasses.dataclass(frozen=True)
class PoolUnit:
    """A logical unit of a shared storage pool.

    ``image`` is the name of the unit of which it is a clone, or None.
    """

    name: str
    udid: str
    image: str | None


@dataclasses.dataclass(frozen=True)
class ArrayDisk:
    """A volume of an array, as one Virtual I/O Server has it.

    ``users`` are the UUIDs of the partitions that it is mapped to, ``slots``
    the virtual slots in which their guests see it.
    """

    name: str
    megabytes: int
    users: list[str]
    slots: list[str]


@dataclasses.dataclass(frozen=True)
class Adapter:
    """A client network adapter; ``mac`` has Neutron's notation."""

    mac: str
    vlan: int


class Host:
    """A session with one PowerVM host.

    All methods raise requests.RequestException if the host can't be reached
    or refuses a request.
    """

    def __init__(self, rest: stack_lib.HostRest) -> None:
        self._url = rest.url.rstrip('/')
        self._rest = rest
        self._session = requests.Session()
        self._emulator = client.Client(self._url)
        self.log_on()

    def log_on(self) -> None:
        """Begin a session, which ends when the host loses its power."""
        answer = self._session.put(
            self._url + '/rest/api/web/Logon',
            data=_LOGON.format(
                username=saxutils.escape(self._rest.username),
                password=saxutils.escape(self._rest.password),
            ),
            headers={
                'Content-Type': (
                    'application/vnd.ibm.powervm.web+xml; type=LogonRequest'
                ),
                'X-Audit-Memento': 'nova-powervm-demo',
            },
            timeout=_TIMEOUT,
        )
        answer.raise_for_status()
        token = etree.fromstring(answer.content).findtext(
            f'{{{_WEB}}}X-API-Session'
        )
        self._session.headers['X-API-Session'] = (token or '').strip()

    def system_name(self) -> str:
        """Return the name of the managed system."""
        system = self._read('ManagedSystem').find(f'.//{_UOM}ManagedSystem')
        return _text(system, 'SystemName')

    def slots(self) -> list[Slot]:
        """Return the I/O slots of the host, sorted by DRC index."""
        elements = self._read('ManagedSystem').iter(_UOM + 'IOSlot')
        return sorted(
            (_slot(element) for element in elements),
            key=lambda slot: slot.drc_index,
        )

    def owned_by(self, partition: str) -> list[str]:
        """Return the DRC indexes of the slots of the LPAR with this name."""
        owners = self.owners().items()
        return [index for index, owner in owners if owner == partition]

    def owners(self) -> dict[str, str | None]:
        """Return the owner of each slot, by DRC index."""
        return {slot.drc_index: slot.owner for slot in self.slots()}

    def partitions(self) -> list[Partition]:
        """Return the LPARs, which do not include VIOSes."""
        feed = self._read('LogicalPartition')
        return [
            _partition(element)
            for element in feed.iter(_UOM + 'LogicalPartition')
        ]

    def size(self, partition: str) -> PartitionSize:
        """Return how much the LPAR with this UUID has."""
        element = self._read(f'LogicalPartition/{partition.upper()}')
        return PartitionSize(
            memory_mb=_number(element, 'DesiredMemory'),
            processors=_number(element, 'DesiredVirtualProcessors'),
        )

    def storage(self, partition: str) -> list[StorageElement]:
        """Return the storage that is mapped to an LPAR.

        :param partition: the UUID of the LPAR. Mappings can outlive it.
        """
        servers = self._read('VirtualIOServer', 'ViosSCSIMapping')
        return [
            self._storage_element(mapping)
            for mapping in servers.iter(_UOM + 'VirtualSCSIMapping')
            if _linked(mapping, 'AssociatedLogicalPartition') == partition
        ]

    def _storage_element(self, mapping: typing.Any) -> StorageElement:
        element = mapping.find(f'{_UOM}Storage/*')
        kind = etree.QName(element).localname
        names, identifier = _STORAGE[kind]
        return StorageElement(
            kind=kind,
            name=_text(element, names[0]),
            size=_text(element, names[1]),
            # The REST API has no request for the contents of a disk.
            contents=self._emulator.contents(_text(element, identifier)),
            udid=_text(element, identifier),
            slot=int(_client_slot(mapping) or 0),
        )

    def users_of(self, udid: str) -> list[str]:
        """Return the UUIDs of the partitions that a disk is mapped to."""
        links = 'AssociatedLogicalPartition'
        return sorted({_linked(one, links) for one in self._mappings(udid)})

    def virtual_slots(self, udid: str) -> list[str]:
        """Return the virtual slots at which guests see a disk."""
        return sorted(_client_slot(one) for one in self._mappings(udid))

    def _mappings(self, udid: str) -> list[typing.Any]:
        servers = self._read('VirtualIOServer', 'ViosSCSIMapping')
        path = f'{_UOM}Storage/*/{_UOM}UniqueDeviceID'
        return [
            mapping
            for mapping in servers.iter(_UOM + 'VirtualSCSIMapping')
            if mapping.findtext(path) == udid
        ]

    def array_disks(self, udid: str) -> dict[str, ArrayDisk]:
        """Return the disks with a UDID by the names of their servers."""
        servers = self._read('VirtualIOServer', 'ViosSCSIMapping,ViosStorage')
        return {
            _text(server, 'PartitionName'): _array_disk(disk, server)
            for server in servers.iter(_UOM + 'VirtualIOServer')
            for disk in server.iterfind(
                f'{_UOM}PhysicalVolumes/{_UOM}PhysicalVolume'
            )
            if _text(disk, 'UniqueDeviceID') == udid
        }

    def sha256_of(self, udid: str) -> str | None:
        """Return the SHA-256 of what was written to a disk of an array.

        :returns: None if no server reaches the disk.
        """
        try:
            return guest.sha256(self._emulator.contents(udid))
        except errors.ControlError:
            return None

    def sha256_of_unit(self, udid: str) -> str | None:
        """Return the SHA-256 of what was written to a logical unit."""
        for cluster in self._emulator.state()['clusters']:
            for unit in cluster['pool']['logical_units']:
                if unit['udid'] == udid:
                    return str(unit['sha256'])
        return None

    def volume_group_contents(self) -> list[str]:
        """Return the names of all disks and media of the host."""
        servers = self._read('VirtualIOServer').iter(_UOM + 'VirtualIOServer')
        found = []
        for server in servers:
            uuid = _text(server, 'PartitionUUID')
            groups = self._read(f'VirtualIOServer/{uuid}/VolumeGroup')
            for kind in _IN_VOLUME_GROUPS:
                names, _ = _STORAGE[kind]
                found += [
                    _text(element, names[0])
                    for element in groups.iter(_UOM + kind)
                ]
        return found

    def pool_units(self) -> list[PoolUnit]:
        """Return the units of the host's shared storage pools, by name."""
        pools = self._read('SharedStoragePool')
        elements = list(pools.iter(_UOM + 'LogicalUnit'))
        names = {
            _udid_of_unit(_text(element, 'UniqueDeviceID')): _text(
                element, 'UnitName'
            )
            for element in elements
        }
        return sorted(
            (_pool_unit(element, names) for element in elements),
            key=lambda unit: unit.name,
        )

    def adapters(self, partition: str) -> list[Adapter]:
        """Return the network adapters of the LPAR with this UUID.

        They are those of its ports, without the one for management.
        """
        feed = self._read(
            f'LogicalPartition/{partition.upper()}/ClientNetworkAdapter'
        )
        found = (
            Adapter(
                mac=_with_colons(_text(element, 'MACAddress')),
                vlan=int(_text(element, 'PortVLANID')),
            )
            for element in feed.iter(_UOM + 'ClientNetworkAdapter')
        )
        return [one for one in found if one.vlan != _MANAGEMENT_VLAN]

    def pop_request_count(self) -> int:
        """Return the number of requests since the last call."""
        count = int(sum(self._emulator.journal_counts().values()))
        self._emulator.clear_journal()
        return count

    def power_off(self) -> None:
        """Take the power from the host, as if its plug was pulled."""
        self._emulator.power_off_system()

    def power_on(self) -> None:
        """Give the host its power back, and wait for its REST API."""
        self._emulator.power_on_system()
        self.log_on()

    def write_disk(self, udid: str, data: bytes) -> None:
        """Write to the beginning of a disk, as a guest does."""
        self._emulator.write_disk(udid, base64.b64encode(data).decode(), 0)

    def count(self, partition: str, offset: int) -> int:
        """Let a guest count one on, and write the number to its first disk.

        :param partition: the UUID of the LPAR.
        :param offset: of the number, eight bytes, on the disk.
        :returns: the number.
        """
        return int(self._emulator.tick(partition, offset)['count'])

    def log_off(self) -> None:
        """End the session, unless the host has stopped."""
        with contextlib.suppress(requests.ConnectionError):
            self._session.delete(
                self._url + '/rest/api/web/Logon', timeout=_TIMEOUT
            )
        self._session.close()

    def _read(self, noun: str, group: str = 'None') -> typing.Any:
        answer = self._session.get(
            f'{self._url}/rest/api/uom/{noun}',
            params={'group': group},
            headers={'Accept': 'application/atom+xml'},
            timeout=_TIMEOUT,
        )
        answer.raise_for_status()
        # The API answers 204 without content for an empty feed.
        return etree.fromstring(answer.content or b'<feed/>')


def _slot(element: typing.Any) -> Slot:
    properties = {}
    for key, (tag, digits) in _NUMBERS.items():
        number = _text(element, tag)
        if number:
            properties[key] = f'{int(number):0{digits}X}'
    name = _text(element, 'SlotDynamicReconfigurationConnectorName')
    if name:
        properties['drc_name'] = name
    return Slot(
        description=_text(element, 'Description'),
        properties=properties,
        owner=_text(element, 'PartitionName') or None,
    )


def _partition(element: typing.Any) -> Partition:
    indexes = (
        _text(slot, 'SlotDynamicReconfigurationConnectorIndex')
        for slot in element.iterfind(
            f'.//{_UOM}ProfileIOSlot/{_UOM}AssociatedIOSlot'
        )
    )
    return Partition(
        name=_text(element, 'PartitionName'),
        uuid=_text(element, 'PartitionUUID').lower(),
        state=_text(element, 'PartitionState'),
        slots=tuple(sorted(f'{int(index):08X}' for index in indexes)),
    )


def _pool_unit(element: typing.Any, names: dict[str, str]) -> PoolUnit:
    """Return a logical unit.

    :param names: the names of the pool's units, by the common part of UDIDs.
    """
    source = _text(element, 'ClonedFrom')
    return PoolUnit(
        name=_text(element, 'UnitName'),
        udid=_text(element, 'UniqueDeviceID'),
        image=names.get(_udid_of_unit(source), source) if source else None,
    )


def _array_disk(disk: typing.Any, server: typing.Any) -> ArrayDisk:
    name = _text(disk, 'VolumeName')
    path = f'{_UOM}Storage/{_UOM}PhysicalVolume/{_UOM}VolumeName'
    mappings = [
        mapping
        for mapping in server.iter(_UOM + 'VirtualSCSIMapping')
        if mapping.findtext(path) == name
    ]
    return ArrayDisk(
        name=name,
        megabytes=int(_text(disk, 'VolumeCapacity')),
        users=sorted(
            _linked(mapping, 'AssociatedLogicalPartition')
            for mapping in mappings
        ),
        slots=sorted(_client_slot(mapping) for mapping in mappings),
    )


def _client_slot(mapping: typing.Any) -> str:
    """Return the virtual slot in which a guest sees what is mapped.

    It is empty if the mapping has outlived the LPAR.
    """
    path = f'{_UOM}ClientAdapter/{_UOM}VirtualSlotNumber'
    slot: str = mapping.findtext(path, '')
    return slot


def _udid_of_unit(udid: str) -> str:
    """Return the part of a UDID that does not depend on the unit's type."""
    return udid[2:]


def _linked(element: typing.Any, tag: str) -> str:
    """Return the UUID that a child element links to, or an empty string."""
    child = element.find(_UOM + tag)
    href = '' if child is None else child.get('href', '')
    return href.partition('?')[0].rpartition('/')[2].lower()


def _with_colons(mac: str) -> str:
    digits = mac.lower()
    return ':'.join(digits[at : at + 2] for at in range(0, 12, 2))


def _number(document: typing.Any, tag: str) -> int:
    """Return the number in the only element of a name, wherever it is."""
    (found,) = document.iter(_UOM + tag)
    return int(found.text)


def _text(element: typing.Any, tag: str) -> str:
    """Return the text of a child element, or an empty string."""
    return (element.findtext(_UOM + tag) or '').strip()
