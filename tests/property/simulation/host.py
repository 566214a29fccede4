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

"""A host in memory: slots, partitions and their owners.

It implements the interfaces of the operations in place of the hypervisor and
its REST server.
"""

import dataclasses

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings as lpar_settings
from tests.property.simulation import placement
from tests.property.simulation import storage
from tests.unit.devices.values import settings_of

SLOTS = (0x21010020, 0x21010021, 0x21010022)
#: How a host can report a slot so that nobody knows which card is in it: an
#: id is missing, or cannot be read; it is that of another host; it is there
#: twice, once with another card.
ODD = ('silent', 'unreadable', 'elsewhere', 'twice')
#: The slot that Cyborg manages, and what is in it; no file takes such cards.
OF_CYBORG = 0x21010030
FPGA = 0x10EE
GPU = 0x10DE
CARD = 0x1014
VIOS = slots.Owner(slots.PartitionKind.VIOS, 2, None, 'vios1')
#: The LPAR of somebody who does not use Nova.
ARCHIVE = '0B1C2D3E-0000-4000-8000-00000000000A'
#: That of an operator, in which devices are cleaned.
CLEANER = '0B1C2D3E-0000-4000-8000-00000000000C'
_SIZES_OF_ARCHIVE = settings_of(1024, 1, 0.5)


@dataclasses.dataclass
class SlotState:
    """Card and owner of a slot.

    :param card: Vendor id of the adapter, or None.
    :param reported: Whether the host reports the slot.
    :param owner: Uuid of an LPAR, VIOS, or None.
    """

    card: int | None = GPU
    reported: bool = True
    sriov: bool = False
    owner: str | slots.Owner | None = None
    #: How the host reports it now; one of ODD, or empty.
    odd: str = ''

    @property
    def usable(self):
        """Return whether the adapter can be given to an LPAR."""
        return self.reported and self.card is not None and not self.sriov


@dataclasses.dataclass
class Lpar:
    """A partition; its slots are those that it owns."""

    uuid: str
    name: str
    state: str = 'not activated'
    settings: lpar_settings.Settings = _SIZES_OF_ARCHIVE


def _place(index, odd=''):
    """Return the location code of a slot."""
    return f'{"U99" if odd == "elsewhere" else "U78"}-P1-C{index & 0xFF}'


class Host:
    """A host.

    :param name: Its name.
    :param before_give: Called with the uuid of an LPAR, the slots that it
        is about to get, and those that it is about to give up.
    """

    def __init__(self, name, before_give):
        self.name = name
        self.uuid = f'system-{name}'
        self.slots = {index: SlotState() for index in SLOTS}
        self.slots[OF_CYBORG] = SlotState(FPGA)
        # DRC index to all cards that the slot has shown, each with its place.
        self.shown = {index: {(_place(index), GPU)} for index in SLOTS}
        self.lpars = {
            ARCHIVE: Lpar(ARCHIVE, 'archive', 'running'),
            CLEANER: Lpar(CLEANER, 'cleaner', 'running'),
        }
        self.before_give = before_give
        # LPAR uuid to the disks that it has connected.
        self.mapped = {}
        # Volume id to the uuid of the LPAR that it is connected to.
        self.volumes = {}
        storage.Store().join(self)
        # Only nova-compute acts now.
        self.strict = True
        self._system = None

    def changed(self):
        """Forget the last reading after a change."""
        self._system = None

    def system(self):
        """Return the same object until something changes."""
        self._system = self._system or host_values.ManagedSystem(
            name=self.name,
            uuid=self.uuid,
            machine='8247-22L*0000000',
            memory_mb=65536,
            memory_free_mb=32768,
            memory_region_mb=256,
            proc_units=16.0,
            proc_units_free=8.0,
            min_units_per_vcpu=0.05,
            io_slots=tuple(
                slot
                for index, state in self.slots.items()
                if state.reported
                for slot in self._slots(index, state)
            ),
        )
        return self._system

    def _slots(self, index, state):
        slot = self._slot(index, state)
        yield slot
        if state.odd == 'twice':
            other = CARD if state.card == GPU else GPU
            yield dataclasses.replace(slot, vendor_id=other, owner=None)

    def _slot(self, index, state):
        empty = state.card is None
        owner = state.owner
        if isinstance(owner, str):
            owner = slots.Owner(
                slots.PartitionKind.CLIENT,
                5,
                owner,
                self.lpars[owner].name,
            )
        return slots.Slot(
            index,
            drc_name=_place(index, state.odd),
            description='Empty slot' if empty else 'Adapter',
            vendor_id=slots.EMPTY_ID if empty else state.card,
            device_id=slots.EMPTY_ID
            if empty
            else (None if state.odd == 'silent' else 0x1DB6),
            pci_class=slots.EMPTY_ID
            if empty or state.odd == 'unreadable'
            else 0x0302,
            revision_id=0xFF if state.odd == 'unreadable' else 0xA1,
            owner=owner,
            sriov=state.sriov,
        )

    def slots_of(self, uuid):
        """Return the DRC indexes of an LPAR's slots."""
        return {i for i, state in self.slots.items() if state.owner == uuid}

    def give(self, uuid, wanted):
        """Make an LPAR the owner of exactly these slots."""
        for index in wanted:
            state = self.slots.get(index)
            if state is None or not state.usable:
                self._refuse(f'{uuid} is given {index:X}: {state}')
            if state.owner not in (None, uuid):
                self._refuse(f'{index:X} is of {state.owner}')
        before = self.slots_of(uuid)
        self.before_give(uuid, wanted - before, before - wanted)
        for index in wanted:
            self.slots[index].owner = uuid
        for index in before - wanted:
            self.slots[index].owner = None
        self.changed()

    def _refuse(self, what):
        """Raise for a call that the caller should not have made."""
        if self.strict:
            raise placement.Wrong(what)
        raise exception.RestError(action='request', reason=what)

    def change(self, index, **changes):
        """Change a slot, whoever owns it."""
        self.slots[index] = dataclasses.replace(self.slots[index], **changes)
        state = self.slots[index]
        if state.odd != 'twice':
            shown = _place(index, state.odd), state.card
            self.shown.setdefault(index, set()).add(shown)
        self.changed()

    def take(self, index, owner):
        """Change the owner of a slot, unless a running instance owns it."""
        lpar = self.lpars.get(self.slots[index].owner)
        if (
            lpar
            and lpar.uuid not in (ARCHIVE, CLEANER)
            and lpar.state != 'not activated'
        ):
            return False
        self.change(index, owner=owner)
        return True

    def can_start(self, uuid):
        """Return whether all slots of an LPAR are usable."""
        return all(self.slots[i].usable for i in self.slots_of(uuid))

    def start(self, uuid):
        """Start an LPAR; all its slots have to be usable."""
        if not self.can_start(uuid):
            raise exception.RestError(action='start', reason='a slot is lost')
        if any(map(self.store.is_running, self.mapped.get(uuid, ()))) and (
            self.lpars[uuid].state != 'running'
        ):
            raise placement.Wrong(f'{uuid} runs on two hosts')
        self.lpars[uuid].state = 'running'


class RestServer(storage.DiskServer):
    """The REST server of a host, as one nova-compute uses it.

    :param machine: The host.
    :param process: Process of nova-compute; may be killed or have a fault.
    """

    #: ``[powervm]virtual_slots``, for the readers of the host.
    virtual_slots = 128

    def __init__(self, machine, process):
        self._host = machine
        self._process = process

    def ask(self, work):
        """Do some work, unless the process is killed or has a fault."""
        return self._ask(work)

    def _ask(self, work):
        self._process.step()
        fault = self._process.fault('rest')
        if fault == 'refused':
            raise exception.RestError(action='request', reason='HSCL0000')
        if fault == 'unreachable':
            raise exception.RestUnreachable(server='host', reason='cut off')
        result = work()
        if fault == 'lost':
            raise exception.RestUnreachable(server='host', reason='no answer')
        return result

    # System

    def read(self):
        return self._ask(self._host.system)

    # Partitions

    def names(self):
        return self._ask(
            lambda: {lpar.uuid: lpar.name for lpar in self._lpars.values()}
        )

    @property
    def _lpars(self):
        return self._host.lpars

    def find(self, uuid):
        return self._ask(lambda: self._found(uuid))

    def _found(self, uuid):
        lpar = self._lpars.get(uuid)
        if lpar is None:
            return None
        return partition.Partition(
            uuid=uuid,
            name=lpar.name,
            state=lpar.state,
            settings=lpar.settings,
            slots=dict.fromkeys(self._host.slots_of(uuid), True),
        )

    def state(self, uuid):
        found = self.find(uuid)
        if found is None:
            raise exception.PartitionNotFound(uuid=uuid)
        return found.state

    def nvram(self, uuid):
        return self._ask(lambda: None)

    def write(self, spec, before_write, *, creates):
        if not creates and self.find(spec.uuid) is None:
            raise exception.PartitionNotFound(uuid=spec.uuid)
        before_write()
        write = self._create if creates else self._change
        return self._ask(lambda: write(spec))

    def _create(self, spec):
        if spec.uuid in self._lpars:
            raise placement.Wrong(f'{spec.uuid} is there already')
        self._host.give(spec.uuid, spec.drc_indexes)
        self._lpars[spec.uuid] = Lpar(
            spec.uuid, spec.name, settings=spec.settings
        )
        return self._found(spec.uuid)

    def _change(self, spec):
        lpar = self._stopped(spec.uuid)
        self._host.give(spec.uuid, spec.drc_indexes)
        lpar.settings = spec.settings or lpar.settings
        return self._found(spec.uuid)

    def _stopped(self, uuid):
        if uuid not in self._lpars:
            raise exception.PartitionNotFound(uuid=uuid)
        if self._lpars[uuid].state != 'not activated':
            raise placement.Wrong(f'{uuid} runs, and is changed')
        return self._lpars[uuid]

    def delete(self, uuid):
        def work():
            lpar = self._lpars.pop(uuid, None)
            if lpar and lpar.state != 'not activated':
                raise placement.Wrong(f'{uuid} runs, and is deleted')
            for index in self._host.slots_of(uuid):
                self._host.slots[index].owner = None
            self._host.changed()

        self._ask(work)

    def _set(self, lpar, state):
        self._ask(lambda: setattr(self._lpars[lpar.uuid], 'state', state))

    def power_on(self, lpar):
        self._ask(lambda: self._host.start(lpar.uuid))

    def power_off(self, lpar, *, hard, timeout=0):
        self._set(lpar, 'not activated')

    def restart(self, lpar, *, hard, timeout=0):
        self.power_on(lpar)
