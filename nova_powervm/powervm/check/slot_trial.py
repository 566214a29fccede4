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

"""Tries a physical slot with an LPAR that never boots.

A normal start would run what is on an NVMe drive, or reach disks of others on
a shared network of storage. So the LPAR starts to its SMS menus only, and has
neither disks nor network adapters.
"""

import dataclasses
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import virtual_io_server

from nova_powervm.conf import powervm as options
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import system
from nova_powervm.powervm.check import trial

Slot = slots.Slot

AT_FIRMWARE = bp.LPARState.OPEN_FIRMWARE
#: Looks at the host, a second apart, until an owner has to be shown.
OWNER_TRIES = 30
#: The same until the firmware has got to its menus.
_FIRMWARE_TRIES = 60
#: Of these, in the state ``running``, which an HMC showed for ten seconds. An
#: LPAR that shows it for longer may boot from the device.
_RUNNING_TRIES = 20
#: States on the way to the menus.
_ON_THE_WAY = (bp.LPARState.RUNNING, 'starting', 'hardware discovery')

_LPAR = logical_partition.LPAR


class Host:
    """What a host says of its slots at one moment.

    :param adapter: An adapter with a session that has logged on.
    :param ignored: The uuids of the LPARs whose slots do not count.
    :ivar system: The managed system, without these owners.
    :ivar lpars: The names of all partitions.
    :ivar profiles: DRC index to the names of the partitions whose documents
        name the slot.
    """

    def __init__(
        self, adapter: pvm_adapter.Adapter, ignored: Collection[str] = ()
    ) -> None:
        # A new reader asks without conditions.
        found = system.RestSystem(adapter, 'the host').read()
        self.system = dataclasses.replace(
            found,
            io_slots=tuple(
                dataclasses.replace(slot, owner=None)
                if slot.owner_lpar in ignored
                else slot
                for slot in found.io_slots
            ),
        )
        with rest_errors.translated('reading the partitions'):
            partitions = [
                each
                for noun in (_LPAR, virtual_io_server.VIOS)
                for each in noun.get(adapter)
            ]
        self.lpars = [each.name for each in partitions]
        self.profiles: Mapping[int, Collection[str]] = _profiles(
            each for each in partitions if each.uuid.upper() not in ignored
        )


def _profiles(partitions: Any) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for each in partitions:
        for slot in each.io_config.io_slots:
            found.setdefault(slot.drc_index, []).append(each.name)
    return found


class SlotTrial(trial.Trial):
    """One LPAR of a host with a physical slot.

    :param slot: The slot, which nobody else has or can get.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        managed: system.RestSystem,
        settings: options.Settings,
        slot: Slot,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(adapter, managed, settings, sleep)
        self.slot = slot
        self._assignment = partition.SlotAssignment(
            slot.drc_index, slot.bus_group_required
        )

    @property
    def spec(self) -> partition.PartitionSpec:
        """The LPAR to make, with the slot as a required one."""
        return dataclasses.replace(super().spec, slots=(self._assignment,))

    # Who has the slot

    def has_owner(self, *, conditional: bool = False) -> bool:
        """Return whether the host shows the LPAR as the owner of the slot.

        :param conditional: Whether to ask as the driver does in each cycle:
            only if something has changed.
        """
        owner = self._owner(conditional)
        return bool(self.lpar and owner == self.lpar.uuid)

    def is_free(self) -> bool:
        """Return whether the host shows no owner of the slot."""
        return self._owner(conditional=False) is None

    def _owner(self, conditional: bool) -> str | None:
        reader = (
            self._managed
            if conditional
            else system.RestSystem(self._adapter, 'the host')
        )
        found = slots.by_index(reader.read().io_slots)
        slot = found.get(self.slot.drc_index)
        if slot is None or slot.owner is None:
            return None
        return slot.owner_lpar

    def seconds_until(
        self, is_so: Callable[[], bool], tries: int = OWNER_TRIES
    ) -> int | None:
        """Look once a second whether something is so.

        :returns: 0 if it is so at once; None if it is not for a while.
        """
        for second in range(tries):
            if second:
                self._sleep(1)
            if is_so():
                return second
        return None

    # What is done

    def give_to_second(self) -> int | None:
        """Make a second LPAR with the slot, and remove it if that works.

        :returns: The HTTP status of the refusal; None without one.
        """
        spec = dataclasses.replace(
            self.spec,
            uuid=self.names.second_uuid,
            name=self.names.second_lpar,
        )
        made: list[str] = []
        try:
            return trial.refusal(lambda: made.append(self.create(spec)))
        finally:
            self.delete_own(made)

    def give_twice(self) -> int | None:
        """Name the slot twice in the document of the LPAR."""
        with rest_errors.translated(f'reading LPAR {self.names.lpar}'):
            lpar = _LPAR.get(self._adapter, uuid=self.read().uuid)
        again = bp.IOSlot.bld(
            self._adapter,
            self.slot.bus_group_required,
            self.slot.drc_index,
            required=True,
        )
        lpar.io_config.io_slots.append(again)
        return trial.refusal(lpar.update)

    def start(self) -> str:
        """Start the LPAR to its SMS menus, and wait for them.

        :returns: Its state. Stops it if it is neither there nor off.
        """
        self.partitions.power_on(self.read(), to_sms=True)
        seen: list[str] = []

        def is_settled() -> bool:
            seen.append(self.state())
            return (
                seen[-1] not in _ON_THE_WAY
                or seen.count(bp.LPARState.RUNNING) > _RUNNING_TRIES
            )

        self.seconds_until(is_settled, _FIRMWARE_TRIES)
        state = seen[-1]
        if state not in (AT_FIRMWARE, trial.OFF):
            self.stop(hard=True)
        return state

    def restart(self) -> str:
        """Refuse what cannot be told to stop at the SMS menus."""
        raise NotImplementedError

    def take_slot(self) -> list[str]:
        """Take the slot from the LPAR; describe what is wrong afterwards."""
        spec = dataclasses.replace(
            self.spec,
            settings=None,
            slots=(),
            freed=frozenset({self.slot.drc_index}),
        )
        return self._change(spec)

    def give_slot(self) -> list[str]:
        """Give the slot to the LPAR; describe what is wrong afterwards."""
        return self._change(dataclasses.replace(self.spec, settings=None))

    def _change(self, spec: partition.PartitionSpec) -> list[str]:
        spec = dataclasses.replace(spec, uuid=self.read().uuid)
        self.partitions.write(spec, lambda: None, creates=False)
        return self.read().differences(spec)
