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

"""Volumes of Cinder: what identifies them, and where a host finds them.

Cinder describes a volume that it has mapped to a host by a dictionary, its
``connection_info``. Names of ports are compared without case and colons: some
of Cinder's drivers return them as they got them, and others in lower case.
"""

import dataclasses
import uuid
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.lpar import supported_features

#: The ``driver_volume_type`` of volumes that are reached by Fibre Channel.
FIBRE_CHANNEL = 'fibre_channel'
#: Key of ``connection_info['data']`` for the UDID that the host has found. Of
#: all values, Nova keeps this one whenever Cinder maps the volume anew
#: (``DriverVolumeBlockDevice._preserve_multipath_id``).
UDID_KEY = 'multipath_id'
# What volumes attached by earlier versions have instead.
_OLD_UDID_KEY = 'powervm_udid'

#: The virtual slots from this one on are for volumes, so that a guest sees
#: volumes after its own disks, which have the slots below.
_FIRST_SLOT = 64
#: The slots below that the disks of an LPAR leave free.
_LEFT_SLOTS = (63, 62)

#: The number that flat space addressing adds to a unit number, by os-brick's
#: rule (``LinuxSCSI.lun_for_addressing``), and the first unit number that it
#: is added to in each mode.
_FLAT = 0x4000
_FLAT_FROM = {'SAM2': 256, 'SAM3-FLAT': 0}


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """A volume that Cinder has mapped to a host.

    :param id: Its uuid in Cinder.
    :param kind: Its ``driver_volume_type``.
    :param data: Where it is, in the form of its kind. It may hold secrets.
    :param is_boot: Whether its server boots from it.
    :param udid: The unique device id of its disk on Virtual I/O Servers, which
        is the same on all of them; empty if it is unknown.
    :param device: The name that Nova has for it, such as ``/dev/sdb``.
    :param slots: The virtual slots that it is to have, by the numbers of
        Virtual I/O Servers; further slots are chosen when it is connected.
    :param avoided: Virtual slots that it gets only if no other is free: they
        are on record for other devices.
    """

    id: str
    kind: str
    data: Mapping[str, Any] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )
    is_boot: bool = False
    udid: str = ''
    device: str = dataclasses.field(default='', compare=False)
    slots: Mapping[int, int] = dataclasses.field(
        default_factory=dict, compare=False
    )
    avoided: frozenset[int] = dataclasses.field(
        default=frozenset(), compare=False
    )

    def __str__(self) -> str:
        return f'{"boot " * self.is_boot}volume {self.id}'

    def with_udid(self, udid: str) -> 'Volume':
        """Return the volume with the unique device id of its disk."""
        return dataclasses.replace(self, udid=udid)


@dataclasses.dataclass(frozen=True, slots=True)
class Connected:
    """How a volume is connected to an LPAR.

    :param is_complete: Whether each server that runs and can connect it does
        so.
    :param slots: Its virtual slots, by the numbers of the servers.
    :param kind: Its ``driver_volume_type``.
    """

    is_complete: bool = True
    slots: Mapping[int, int] = dataclasses.field(default_factory=dict)
    kind: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """How a port of a host reaches a volume.

    :param initiator: The host's port, in upper case and without colons.
    :param target: The array's port, in the same form.
    :param lun: The logical unit number.
    """

    initiator: str
    target: str
    lun: int


def describe_host(
    host: str, address: str, ports: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe a host to Cinder, as os-brick describes others.

    :param host: The name of its compute service.
    :param address: Its IP address.
    :param ports: What volume drivers say of it, such as ``wwpns``.
    """
    return {
        'host': host,
        'ip': address,
        'multipath': True,
        'platform': 'ppc64le',
        # That of a Virtual I/O Server, not the guest's.
        'os_type': 'AIX',
        'do_local_attach': False,
        'initiator': _iscsi_name(host),
        **ports,
    }


def _iscsi_name(host: str) -> str:
    """Return an iSCSI name of a host, with which nothing ever logs on.

    Some drivers of Cinder for Fibre Channel demand one, register it, or name
    the host of the array after its last 31 characters.
    """
    unique = uuid.uuid5(uuid.NAMESPACE_DNS, host).hex
    return f'iqn.2010-10.org.openstack:powervm:{unique}'


def parse(
    connection_info: Mapping[str, Any],
    *,
    is_boot: bool = False,
    device: str = '',
) -> Volume:
    """Read what Cinder says about a volume.

    :param connection_info: As Nova passes it to its driver.
    :param is_boot: Whether its server boots from it.
    :param device: The name that Nova has for it.
    :raises exception.VolumeRefused: Nova does not tell its id.
    """
    volume = identify(connection_info, is_boot=is_boot, device=device)
    if not volume.id:
        reason = 'Nova does not tell its id'
        raise exception.VolumeRefused(volume='', reason=reason)
    return volume


def identify(
    connection_info: Mapping[str, Any],
    *,
    is_boot: bool = False,
    device: str = '',
) -> Volume:
    """Read what Cinder says about a volume that may be refused.

    :param connection_info: As for :func:`parse`. Its ``serial`` is the id:
        ``data`` may have another id, or none.
    """
    data = connection_info.get('data') or {}
    return Volume(
        id=str(connection_info.get('serial') or ''),
        kind=str(connection_info.get('driver_volume_type') or ''),
        data=data,
        is_boot=is_boot,
        udid=str(data.get(UDID_KEY) or data.get(_OLD_UDID_KEY) or ''),
        device=device,
    )


def refusal(connection_info: Mapping[str, Any]) -> str:
    """Return why no LPAR can get a volume; empty if LPARs can.

    :param connection_info: As for :func:`parse`.
    """
    promises = {**(connection_info.get('data') or {}), **connection_info}
    return '; '.join(map(str, supported_features.refused_connection(promises)))


def normal_wwpn(wwpn: str) -> str:
    """Return a worldwide port name as the REST API has it."""
    return wwpn.replace(':', '').strip().upper()


@dataclasses.dataclass(frozen=True, slots=True)
class FibreChannel:
    """Where a volume is in a storage area network.

    :param luns: The logical unit number at each port of the array.
    :param zones: The ports of the array for each port of the host that Cinder
        has mapped the volume to; None for all ports, if Cinder names none.
    """

    luns: Mapping[str, int]
    zones: Mapping[str, frozenset[str]] | None = None

    def names_others(self, wwpns: Collection[str]) -> bool:
        """Return whether Cinder may have mapped the volume to other ports.

        :param wwpns: Ports of the host.
        """
        return self.zones is None or not self.zones.keys() <= {*wwpns}

    def names_none(self, wwpns: Collection[str]) -> bool:
        """Return whether Cinder has mapped the volume to none of some ports.

        :param wwpns: Ports of the host.
        """
        return self.zones is not None and self.zones.keys().isdisjoint(wwpns)

    def paths(self, wwpns: Iterable[str]) -> Iterator[Path]:
        """Yield the paths from some ports of the host, in a fixed order."""
        for initiator in sorted(map(normal_wwpn, wwpns)):
            targets: Collection[str] = (
                self.luns.keys()
                if self.zones is None
                else self.zones.get(initiator, ())
            )
            for target in sorted(targets):
                if target in self.luns:
                    yield Path(initiator, target, self.luns[target])


def fibre_channel(volume: Volume) -> FibreChannel:
    """Read where a volume is in a storage area network.

    All forms that os-brick accepts are read, and lists in place of single
    values: one port of the array or several, with one unit number for all or
    one for each.

    :raises exception.VolumeRefused: What Cinder says has another form.
    """
    data = volume.data
    try:
        luns, zones = _luns(data), _zones(data)
    except (AttributeError, TypeError, ValueError):
        luns, zones = {}, {}
    if not luns:
        raise exception.VolumeRefused(
            volume=volume.id,
            reason='Cinder does not say at which ports of the array it is: '
            'see target_wwn, target_lun and initiator_target_map',
        )
    return FibreChannel(luns, zones or None)


def _luns(data: Mapping[str, Any]) -> dict[str, int]:
    """Return the unit number at each port of the array."""
    targets = _listed(data.get('target_wwns') or data.get('target_wwn'))
    units = _listed(data.get('target_luns') or data.get('target_lun', 0))
    if len(units) == 1:
        units *= len(targets)
    mode = data.get('addressing_mode')
    return {
        normal_wwpn(target): _address(int(unit), mode)
        for target, unit in zip(targets, units, strict=True)
    }


def _zones(data: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    mapped = data.get('initiator_target_map') or {}
    return {
        normal_wwpn(initiator): frozenset(map(normal_wwpn, _listed(ports)))
        for initiator, ports in mapped.items()
    }


def _listed(value: Any) -> list[Any]:
    """Return a list of values, of a single value, or of none."""
    return [value] if isinstance(value, int | str) else [*(value or ())]


def _address(lun: int, mode: Any) -> int:
    """Return a unit number as it is addressed in a mode.

    An unknown mode is refused for a new volume; a volume that is connected
    already was found by its plain number.
    """
    flat = _FLAT_FROM.get(str(mode).upper())
    return lun if flat is None or lun < flat else lun + _FLAT


def choose_slot(
    volume: Volume, number: int, limit: int, taken: Collection[int]
) -> int | None:
    """Choose the virtual slot of an LPAR for a volume on one server.

    The slot that the volume is to have comes first, if it is free. A boot
    volume gets the slot that a root disk would have otherwise: the guest's
    list of boot devices leads to it, on every host.

    :param volume: The volume.
    :param number: The number of the Virtual I/O Server, counted from 0.
    :param limit: How many virtual slots the LPAR has, counted from 0.
    :param taken: The slots that have an adapter.
    :returns: The slot; None if none is free.
    """
    slots = sorted(free_slots(limit, taken), key=volume.avoided.__contains__)
    if volume.is_boot:
        slots = [*storage.virtual_slots(number)[:1], *slots]
    if volume.slots.get(number, limit) < limit:
        slots = [volume.slots[number], *slots]
    return next((slot for slot in slots if slot not in taken), None)


def free_slots(limit: int, taken: Collection[int]) -> list[int]:
    """Return the free virtual slots of an LPAR for volumes, in their order.

    :param limit: As for :func:`choose_slot`.
    :param taken: As for :func:`choose_slot`.
    """
    slots = (*range(_FIRST_SLOT, limit), *_LEFT_SLOTS)
    return [slot for slot in slots if slot not in taken and slot < limit]
