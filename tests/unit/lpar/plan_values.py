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

"""Values for the tests of plans for LPARs."""

import dataclasses

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import image
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import plan
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import spec
from nova_powervm.lpar import steps
from nova_powervm.lpar import storage
from tests.unit.devices import values
from tests.unit.devices.values import settings_of

INSTANCE = '4b1c2d3e-0000-4000-8000-000000000001'
LPAR = values.LPAR
NAME = 'instance-00000001'
#: Slots: of the instance, with a one-time-use device, that a move takes or
#: gives, and that somebody assigned by hand.
GPU, ONCE, MOVED, FOREIGN = 0x21010020, 0x21010021, 0x21010022, 0x21010023
SLOTS = (GPU, ONCE, MOVED, FOREIGN)

RUNNING, OFF = 'running', 'not activated'
SUSPENDED, FAILED, UNKNOWN = 'suspended', 'error', 'not available'
STATES = (RUNNING, OFF, SUSPENDED, FAILED, UNKNOWN)

FLAVOR = lpar_settings.FlavorSettings(2048, 2, 0.5)
SIZES = settings_of(2048, 2, 1.0)
ROOT = storage.Disk(storage.ROOT, 10)
SWAP = storage.Disk(storage.SWAP, 1)
RESCUE = storage.Disk(storage.RESCUE, 1)
EPHEMERAL = storage.Disk('0', 5)
IMAGE = spec.WantedImage(image.Image('image1', 'raw', storage.GIB), 10)

#: What a step is called in tables.
WORDS = {
    steps.RemoveRemains: 'clear',
    steps.PrepareHost: 'prepare',
    steps.Stop: 'stop',
    steps.MakeRoot: 'root',
    steps.KeepDisks: 'keep',
    steps.MakeBlank: 'blank',
    steps.MakeMedium: 'medium',
    steps.GrowRoot: 'grow',
    steps.FitSwap: 'swap',
    steps.RemoveAdapter: 'unplug',
    steps.RemovePort: 'detach',
    steps.CreateAdapters: 'plug',
    steps.Map: 'map',
    steps.FindVolumes: 'find',
    steps.ConnectVolumes: 'connect',
    steps.DisconnectVolumes: 'disconnect',
    steps.Reconnect: 'reconnect',
    steps.Document: 'write',
    steps.Start: 'start',
    steps.Restart: 'restart',
}

#: What the class of a refusal is called in tables.
REFUSALS = {
    'ClaimFailed': '!claim',
    'DiskInUse': '!used',
    'DiskMissing': '!disk',
    'DiskNotConnected': '!apart',
    'MoveRefused': '!move',
    'PartitionConflict': '!taken',
    'PartitionNotFound': '!lost',
    'PartitionNotStartable': '!state',
    'RescueRefused': '!rescue',
    'SlotsDiffer': '!differ',
    'SlotsMissing': '!slots',
}
#: The columns of tables; the last is that without an LPAR.
COLUMNS = {
    'running': RUNNING,
    'suspended': SUSPENDED,
    'failed': FAILED,
    'off': OFF,
    'unknown': UNKNOWN,
    'absent': None,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Adapter(network_ports.Adapter):
    """An adapter of any type."""

    vif_type = 'any'

    def __str__(self):
        return self.mac


def provider_of(index):
    """Return the uuid of a slot's provider."""
    return f'provider of {index:08X}'


def claim_of(index):
    """Return the claim of a slot."""
    return claims.Claim(provider_of(index), index)


def slot(index=GPU, **changes):
    """Return a wanted slot; that of ONCE is to be burned."""
    burns = (claim_of(index),) if index == ONCE else ()
    return spec.WantedSlot(claim_of(index), **{'burns': burns, **changes})


def wanted(*indexes, **changes):
    """Return what Nova and Placement say, by default with one slot."""
    defaults = {
        'name': NAME,
        'settings': FLAVOR,
        'slots': tuple(map(slot, indexes or (GPU,))),
        'root': IMAGE,
        'ports': (),
        'timeout': 60,
    }
    return spec.Wanted(INSTANCE, **{**defaults, **changes})


def lpar(state=OFF, slots=(GPU,), settings=SIZES, **changes):
    """Return an LPAR that is right, as the host reports it."""
    if not isinstance(slots, dict):
        slots = dict.fromkeys(slots, True)
    return partition.Partition(LPAR, NAME, state, settings, slots, **changes)


def pool_disk(disk=ROOT, *, in_use=False):
    """Return a disk in the pool."""
    name = storage.unit_name(LPAR, disk.role)
    return storage.PoolDisk(LPAR, disk, in_use, storage.Stored(name, None))


def managed_system(owned=(), **changes):
    """Return a reading of the host; the LPAR has some of its slots."""
    return values.managed_system(
        **{
            'io_slots': tuple(
                values.slot(
                    drc_index=index,
                    owner=values.client() if index in owned else None,
                )
                for index in SLOTS
            ),
            **changes,
        }
    )


def port(number=1):
    """Return a port."""
    return network_ports.Port(
        f'port{number}', f'fa:16:3e:00:00:0{number}', 'any'
    )


def changes(surplus=(), missing=()):
    """Return changes of adapters."""
    return network_ports.Changes(
        tuple(Adapter(port(number).mac) for number in surplus),
        tuple(network_ports.Connection(port(number)) for number in missing),
    )


def parts(present=None, **more):
    """Return all parts of a host.

    :param found: Its LPAR.
    :param more: Parts by their name in lower case.
    """
    host = managed_system(present.slots if present else ())
    defaults = {
        spec.Part.LPAR: present,
        spec.Part.RULES: host,
        spec.Part.SLOTS: host,
        spec.Part.ALLOCATED: tuple(map(provider_of, SLOTS)),
        spec.Part.ADAPTERS: network_ports.Changes(),
        spec.Part.IMAGE: image.Contents(storage.GIB, 'raw', storage.GIB),
        spec.Part.MEDIUM: b'iso',
        spec.Part.DISKS: (pool_disk(),),
        spec.Part.MAPPINGS: (pool_disk().stored.name,),
        spec.Part.VOLUMES: {},
        spec.Part.SWAP_FITS: True,
        spec.Part.HAS_RESCUE: False,
    }
    return {**defaults, **{spec.Part[k.upper()]: v for k, v in more.items()}}


@dataclasses.dataclass(frozen=True)
class Decision(steps.LparPlan):
    """A plan, or why there is none."""

    refusal: exception.PowerVMError | None = None


def survey(operation, described, host, **more):
    """Plan as a survey does.

    :param host: The parts of the host.
    :param more: What else is known of it.
    :returns: The decision, and the parts that it asked for, in their order.
    """
    order = []

    def read(part):
        if part in order:
            raise AssertionError(f'{part} is asked for again')
        order.append(part)
        return host[part]

    actual = spec.Actual(
        read, **{'has_pool': True, 'virtual_slots': 64, **more}
    )
    try:
        made = plan.decide(operation, described, actual)
    except exception.PowerVMError as refusal:
        return Decision(operation, refusal=refusal), order
    return Decision(operation, made.steps, made.remarks), order


def decide(operation, described, present=None, *, has_pool=True, **more):
    """Return the plan for a host; see :func:`parts`."""
    made, _ = survey(
        operation, described, parts(present, **more), has_pool=has_pool
    )
    return made


def words(made):
    """Return the steps of a plan in words, or its refusal's."""
    if made.refusal is not None:
        name = type(made.refusal).__name__
        return REFUSALS.get(name, name)
    return ' '.join(WORDS[type(step)] for step in made.steps)


def row_of(name):
    """Return an operation by the first words of its name."""
    begin = name.removeprefix('check of ')
    (row,) = (row for row in operations.ALL if row.name.startswith(begin))
    return row if begin == name else row.as_check()


def table(text):
    """Yield the cells of a table: an operation, a state, and the words.

    A line has the name of an operation, after a comma that of its only
    column, and after a colon its cells: a dash for no words, a period for
    what is not in the table, and quotation marks for what is on the left.
    """
    for line in text.strip().splitlines():
        head, _, cells = line.strip().partition(': ')
        name, _, column = head.partition(', ')
        columns = [column] if column else COLUMNS
        before = ''
        for state, cell in zip(columns, cells.split(' | '), strict=True):
            before = before if cell == '"' else cell
            if before != '.':
                yield (
                    row_of(name),
                    COLUMNS[state],
                    '' if before == '-' else before,
                )


def refusal(made):
    """Return the text of a plan's refusal, which it must be."""
    assert isinstance(made.refusal, exception.PowerVMError), made
    return str(made.refusal)
