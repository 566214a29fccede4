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

"""The virtual slots of the network adapters and volumes of an LPAR.

A guest names its devices by their slots. Therefore an LPAR that is made anew
gets the slots that are on record: by the MAC address of a port, or by the id
of a volume and the number of the Virtual I/O Server that connects it. Disks
are not on record: their slots follow from their roles, see :mod:`.storage`.
"""

import dataclasses
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeVar

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import volumes

#: The slots of network adapters that come after the first ones. The first ones
#: are at the lowest slots, where the host also puts adapters that nobody
#: numbers. Disks and volumes are above.
LATER = range(16, 31)
#: The slot of the management adapter, above those of all ports.
MANAGEMENT = LATER.stop
#: All slots of network adapters, for an LPAR that has nothing else yet.
ALL = (*LATER, *range(2, LATER.start))

_TAKEN = 'another device of the server has it'

_C = TypeVar('_C', bound=network_ports.Connection)


def volume_key(volume_id: str, server: int) -> str:
    """Return the key of the slot of a volume in a record.

    :param server: The number of the Virtual I/O Server that connects it,
        counted from 0.
    """
    return f'{volume_id}@{server}'


def owner_of(key: str) -> str:
    """Return the MAC address or the volume id in a key."""
    return key.partition('@')[0]


def of_volume(volume_id: str, slots: Mapping[int, int]) -> dict[str, int]:
    """Return the slots of a volume by the keys of a record.

    :param slots: Number of the server -> slot.
    """
    return {
        volume_key(volume_id, server): slot for server, slot in slots.items()
    }


def of_connected(connected: Mapping[str, volumes.Connected]) -> dict[str, int]:
    """Return the slots of connected volumes by the keys of a record."""
    slots: dict[str, int] = {}
    for volume_id, connection in connected.items():
        slots |= of_volume(volume_id, connection.slots)
    return slots


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """A slot on record that a device cannot have.

    :param device: The device whose slot is on record.
    :param slot: The slot.
    :param reason: Why it cannot have the slot.
    """

    device: network_ports.Port | volumes.Volume
    slot: int
    reason: str

    @property
    def refusal(self) -> exception.PowerVMError:
        """The refusal to make the LPAR with another slot."""
        # Nova truncates faults, so the remedy comes first.
        remedy = (
            'detach it, and attach it again: it cannot keep virtual slot '
            f'{self.slot}'
        )
        reason = exception.PrivateText(f'{remedy}: {self.reason}', remedy)
        if isinstance(self.device, network_ports.Port):
            return exception.PortRefused(port=self.device.id, reason=reason)
        return exception.VolumeRefused(volume=self.device.id, reason=reason)

    def __str__(self) -> str:
        name = (
            f'port {self.device.id}'
            if isinstance(self.device, network_ports.Port)
            else f'{self.device}'
        )
        return (
            f'{name} had virtual slot {self.slot}, and gets another one: '
            f'{self.reason}. Its guest may know it by another name.'
        )


def keep(
    recorded: Mapping[str, int],
    devices: Iterable[network_ports.Port | volumes.Volume],
    limit: int,
    taken: Iterable[int],
) -> tuple[dict[str, int], list[Loss]]:
    """Return the slots on record that devices can have, and their losses.

    A volume that keeps one of its slots loses nothing: its guest finds it, and
    a new LPAR may have fewer paths.

    :param recorded: The slots on record.
    :param devices: The ports and volumes that get slots.
    :param limit: How many virtual slots their LPAR has, counted from 0.
    :param taken: The slots that other devices have.
    """
    beyond = f'its LPAR has {limit} virtual slots ([powervm]virtual_slots)'
    used = dict.fromkeys(taken, _TAKEN)
    used |= {slot: beyond for slot in recorded.values() if slot >= limit}
    kept: dict[str, int] = {}
    lost = []
    for device in devices:
        own = _of_device(device, recorded)
        free = {key: slot for key, slot in own.items() if slot not in used}
        if own and not free:
            slot = min(own.values())
            lost.append(Loss(device, slot, used[slot]))
        used |= dict.fromkeys(free.values(), _TAKEN)
        kept |= free
    return kept, lost


def _of_device(
    device: network_ports.Port | volumes.Volume, recorded: Mapping[str, int]
) -> dict[str, int]:
    name = device.mac if isinstance(device, network_ports.Port) else device.id
    return {
        key: slot for key, slot in recorded.items() if owner_of(key) == name
    }


def check_number(
    connections: Sequence[network_ports.Connection],
    recorded: Collection[str],
    present: int = 0,
) -> None:
    """Verify that there are slots for new ports, beside disks and volumes.

    :param connections: The ports that get slots. One that has a slot of its
        own takes none from the others.
    :param recorded: MAC addresses of ports that had a slot already, which are
        not refused.
    :param present: How many further ports have slots.
    :raises exception.PortRefused: There is no slot for a new port.
    """
    ports = [c for c in connections if c.slot is None]
    new = [c for c in ports if c.port.mac not in recorded]
    room = max(0, len(ALL) - present - (len(ports) - len(new)))
    if len(new) > room:
        raise exception.PortRefused(
            port=new[room].port.id,
            reason=f'it would be port {len(ALL) + 1} of the server, which has '
            f'virtual slots for {len(ALL)}. Detach another one, or leave it '
            'out',
        )


def place(
    connections: Sequence[_C],
    kept: Mapping[str, int],
    used: Iterable[int],
    choices: Sequence[int] = LATER,
) -> tuple[_C, ...]:
    """Give connections the slots that they keep, and free slots to the rest.

    A connection that has a slot already keeps that.

    :param kept: See :func:`keep`.
    :param used: Slots that other devices have, or had.
    :param choices: The slots to choose from, in their order.
    :returns: The connections; those whose slots the host is to choose come
        last.
    """
    used = {*used, *kept.values()}
    used |= {c.slot for c in connections if c.slot is not None}
    placed = []
    for connection in connections:
        slot = kept.get(connection.port.mac, connection.slot)
        if slot is None:
            slot = _free_slot(used, choices)
        if slot is not None:
            used.add(slot)
        placed.append(dataclasses.replace(connection, slot=slot))
    return tuple(sorted(placed, key=lambda c: c.slot is None))


def _free_slot(used: Collection[int], choices: Sequence[int]) -> int | None:
    """Return a free slot, above the slots that adapters have had if possible.

    A guest may remember the name of an adapter that is gone by its slot.
    """
    highest = max((slot for slot in LATER if slot in used), default=0)
    free = [slot for slot in choices if slot not in used]
    above = [slot for slot in free if slot > highest]
    return next(iter(above or free), None)


def place_volumes(
    wanted: Iterable[volumes.Volume], kept: Mapping[str, int]
) -> tuple[volumes.Volume, ...]:
    """Give volumes the slots that they keep, which other volumes avoid.

    :param kept: See :func:`keep`.
    :returns: The boot volume first, then in the order of the names that Nova
        gives to devices.
    """
    placed = []
    for volume in sorted(wanted, key=_order):
        own = _of_device(volume, kept)
        slots = {int(key.rpartition('@')[2]): own[key] for key in own}
        avoided = frozenset(kept.values()) - {*own.values()}
        placed.append(
            dataclasses.replace(volume, slots=slots, avoided=avoided)
        )
    return tuple(placed)


def _order(volume: volumes.Volume) -> tuple[bool, int, str]:
    # sdb comes before sdaa.
    return not volume.is_boot, len(volume.device), volume.device
