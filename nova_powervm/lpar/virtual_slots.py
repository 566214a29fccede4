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

"""Which virtual slots the network adapters and volumes of an LPAR have.

A guest names its devices by them. Therefore an LPAR that is made anew gets
those that are on record: by the MAC address of a port, or by the id of a
volume and the number of the Virtual I/O Server that connects it. Disks are
not on record: their slots follow from their roles, see :mod:`.storage`.
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

#: The slots of network adapters that come after the first ones. Those are at
#: the lowest slots, where the host also puts what nobody numbers, and disks
#: and volumes are above.
LATER = range(16, 32)
#: All slots of network adapters, for an LPAR that has nothing else yet.
ALL = (*LATER, *range(2, LATER.start))

_TAKEN = 'another device of the server has it'

_C = TypeVar('_C', bound=network_ports.Connection)


def volume_key(volume_id: str, server: int) -> str:
    """Return what the slot of a volume is recorded by.

    :param server: Which Virtual I/O Server connects it, counted from 0.
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


def of_connected(
    connected: Mapping[str, volumes.Connected],
) -> dict[str, int]:
    """Return the slots of volumes that are connected, in the same way."""
    found: dict[str, int] = {}
    for volume_id, how in connected.items():
        found |= of_volume(volume_id, how.slots)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """A slot on record that a device cannot have.

    :param device: Whose slot it is.
    :param slot: The slot.
    :param reason: Why.
    """

    device: network_ports.Port | volumes.Volume
    slot: int
    reason: str

    @property
    def refusal(self) -> exception.PowerVMError:
        """The refusal to make the LPAR with another slot."""
        # Nova truncates faults, so the remedy comes first.
        known = (
            'detach it, and attach it again: it cannot keep virtual slot '
            f'{self.slot}'
        )
        reason = exception.PrivateText(f'{known}: {self.reason}', known)
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
    """Return the slots on record that devices can have, and what they lose.

    A volume that keeps one of its slots loses nothing: its guest finds it, and
    a new LPAR may have fewer paths.

    :param recorded: The slots on record.
    :param devices: The ports and volumes that get slots.
    :param limit: How many virtual slots their LPAR has, those from 0 on.
    :param taken: Those that something else has.
    """
    beyond = f'its LPAR has {limit} virtual slots ([powervm]virtual_slots)'
    used = dict.fromkeys(taken, _TAKEN)
    used |= {slot: beyond for slot in recorded.values() if slot >= limit}
    kept: dict[str, int] = {}
    lost = []
    for device in devices:
        own = _of_device(device, recorded)
        found = {key: slot for key, slot in own.items() if slot not in used}
        if own and not found:
            slot = min(own.values())
            lost.append(Loss(device, slot, used[slot]))
        used |= dict.fromkeys(found.values(), _TAKEN)
        kept |= found
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
    """Verify that new ports have slots that are not for disks or volumes.

    :param connections: The ports that get slots.
    :param recorded: MAC addresses of ports that had a slot already; a server
        is not refused because of those.
    :param present: How many others have some.
    :raises exception.PortRefused: A new one has none.
    """
    new = [one for one in connections if one.port.mac not in recorded]
    room = max(0, len(ALL) - present - (len(connections) - len(new)))
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
    others: Sequence[int] = LATER,
) -> tuple[_C, ...]:
    """Give connections the slots that they keep, or else free ones.

    :param kept: See :func:`keep`.
    :param used: Slots that other devices have, or had.
    :param others: The free ones, in their order.
    :returns: The connections; those that the host is to choose the slot of
        come last.
    """
    used = {*used, *kept.values()}
    placed = []
    for one in connections:
        slot = kept.get(one.port.mac)
        if slot is None:
            slot = _free_slot(used, others)
        if slot is not None:
            used.add(slot)
        placed.append(dataclasses.replace(one, slot=slot))
    return tuple(sorted(placed, key=lambda c: c.slot is None))


def _free_slot(used: Collection[int], others: Sequence[int]) -> int | None:
    """Return a slot above those that adapters have had, if there is one.

    A guest may remember the name of an adapter that is gone by its slot.
    """
    highest = max((slot for slot in LATER if slot in used), default=0)
    free = [slot for slot in others if slot not in used]
    return next(
        (slot for slot in free if slot > highest), free[0] if free else None
    )


def place_volumes(
    wanted: Iterable[volumes.Volume], kept: Mapping[str, int]
) -> tuple[volumes.Volume, ...]:
    """Give volumes the slots that they keep, and no others those if possible.

    :param kept: See :func:`keep`.
    :returns: The boot volume first, then in the order of the names that Nova
        gives to devices.
    """
    placed = []
    for one in sorted(wanted, key=_order):
        own = _of_device(one, kept)
        slots = {int(key.rpartition('@')[2]): own[key] for key in own}
        avoided = frozenset(kept.values()) - {*own.values()}
        placed.append(dataclasses.replace(one, slots=slots, avoided=avoided))
    return tuple(placed)


def _order(volume: volumes.Volume) -> tuple[bool, int, str]:
    # sdb comes before sdaa.
    return not volume.is_boot, len(volume.device), volume.device
