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

"""Samples of performance monitoring.

Nobody measures anything here, and nothing is kept: a sample says what the
host is now, and counters as if each active partition had always had the same
load since it was made.
"""

import datetime
from collections.abc import Iterator

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import errors
from powervm_emulator.core import exchange
from powervm_emulator.core import host as host_module
from powervm_emulator.core import media
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import route
from powervm_emulator.nouns import shared_processor_pool
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
Host = host_module.Host
JSON = resource.JSON
Partition = partition_module.Partition
System = managed_system.System
_KIND = 'RawMetrics'
LONG_TERM = 'LongTermMonitorEnabled'
COMPUTE = 'ComputeLTMEnabled'
_SYSTEM = f'/rest/api/pcm/{managed_system.KIND}/<uuid>/{_KIND}'
_LONG_TERM = f'{_SYSTEM}/LongTermMonitor'
_INTERVAL = 30
_GUEST_INTERVAL = 120
_SAMPLES = 10
# Of one processor, and a fixed load of it.
_CYCLES_PER_SECOND = 512_000_000
_BUSY = 2
_IDLE = 4
_FIRMWARE = 100
_PACKETS_PER_SECOND = 10
_BYTES_PER_PACKET = 1000
_PAGES_PER_MEGABYTE = 256
# What the monitor calls the modes of processors.
_MODES = {
    'capped': 'cap',
    'uncapped': 'uncap',
    'keep idle procs': 'keep_idle_procs',
    'sre idle proces': 'share_idle_procs',
    'sre idle procs active': 'share_idle_procs_active',
    'sre idle procs always': 'share_idle_procs_always',
}
_TYPES = {partition_module.IBM_I: 'os400'}
# Why a guest says nothing of its memory.
_NOT_RUNNING = {
    'errorId': '6001',
    'message': 'Lpar is not in running state on Managed System',
}
_NO_RMC = {'errorId': '6003', 'message': 'RMC is not active'}


def feed(emulation: Emulation, call: Call, uuid: str) -> Answer:
    """GET RawMetrics/LongTermMonitor: which samples there are."""
    system = _system(emulation, uuid)
    path = call.path
    files = [
        atom.File(name, f'{path}/{name}', category, at)
        for name, (category, at) in _samples(
            emulation.host, system, call.now
        ).items()
    ]
    if not files:
        return exchange.NO_CONTENT
    body = call.writer.listing(system.uuid, 'LongTermMetrics', path, files)
    return Answer(200, body)


def read(emulation: Emulation, call: Call, uuid: str, name: str) -> Answer:
    """GET a sample.

    :raises errors.NotFound: the feed does not have it, or no more.
    """
    system = _system(emulation, uuid)
    found = _samples(emulation.host, system, call.now).get(name)
    if found is None:
        raise errors.NotFound(f'{system.name} has no sample {name}.')
    return exchange.json_answer(_sample(emulation.host, system, *found))


def nothing(emulation: Emulation, _call: Call, uuid: str) -> Answer:
    """GET RawMetrics/ShortTermMonitor: there are no samples."""
    _system(emulation, uuid)
    return exchange.NO_CONTENT


def _system(emulation: Emulation, uuid: str) -> System:
    found = emulation.host.get(managed_system.KIND, uuid)
    assert isinstance(found, System)  # noqa: S101 - its kind
    return found


def _samples(
    host: Host, system: System, now: float
) -> dict[str, tuple[str, int]]:
    """Return category and time of each sample that there is, by name."""
    last = int(now) // _INTERVAL * _INTERVAL
    return {
        f'LTM_{system.mtms}_{category}_{_time(at, "%Y%m%dT%H%M%S%z")}.json': (
            category,
            at,
        )
        for at in range(last, last - _SAMPLES * _INTERVAL, -_INTERVAL)
        for category in _categories(host, system, at)
    }


def _categories(host: Host, system: System, at: int) -> Iterator[str]:
    """Yield which samples were taken at a time."""
    long_term = system.monitors.get(LONG_TERM, False)
    if not long_term and not system.monitors.get(COMPUTE, False):
        return
    yield 'phyp'
    if at % _GUEST_INTERVAL == 0:
        yield 'lpar'
    if _has_io(system):
        for server in _partitions(host, system, partition_module.VIOS):
            if server.is_active:
                yield f'vios_{server.id}'


def _has_io(system: System) -> bool:
    """Whether samples tell of networks and storage, too."""
    return not system.monitors.get(COMPUTE, False)


def _sample(host: Host, system: System, category: str, at: int) -> JSON:
    if category == 'lpar':
        partitions = _partitions(host, system, partition_module.LPAR)
        return {'lparUtil': [_guest(one, at) for one in partitions]}
    info = {
        'version': '1.3.0',
        'metricType': 'Raw',
        'monitoringType': 'LTM',
        'mtms': system.mtms,
        'name': system.name,
    }
    if category == 'phyp':
        values = _hypervisor(host, system, at)
    else:
        number = int(category.removeprefix('vios_'))
        values = {
            'viosUtil': [
                _server(one, at)
                for one in _partitions(host, system, partition_module.VIOS)
                if one.id == number
            ]
        }
    time = _time(at, '%Y-%m-%dT%H:%M:%S%z')
    common = {'timeStamp': time, 'status': 0, 'errorInfo': []}
    return {'systemUtil': {'utilInfo': info, 'utilSample': common | values}}


def _hypervisor(host: Host, system: System, at: int) -> JSON:
    """Return what the hypervisor says of all partitions."""
    cycles = _age(system, at) * _CYCLES_PER_SECOND
    memory, processors = managed_system.MEMORY, managed_system.PROCESSORS
    lpars = [
        _partition(one, at)
        | {
            'type': _TYPES.get(one.type, 'aixlinux'),
            'memory': {
                'logicalMem': one.memory,
                'backedPhysicalMem': one.memory,
            },
        }
        | (_io(host, one, at) if _has_io(system) else {})
        for one in _partitions(host, system, partition_module.LPAR)
    ]
    servers = [
        _partition(one, at) | {'memory': {'assignedMem': one.memory}}
        for one in _partitions(host, system, partition_module.VIOS)
    ]
    used = 'utilizedCappedProcCycles'
    return {
        'timeBasedCycles': cycles,
        'systemFirmware': {
            'utilizedProcCycles': cycles // _FIRMWARE,
            'assignedMem': system.integer(f'{memory}/MemoryUsedByHypervisor'),
        },
        'processor': {
            'totalProcUnits': system.number(
                f'{processors}/InstalledSystemProcessorUnits', system.units
            ),
            'configurableProcUnits': system.units,
            'availableProcUnits': system.units_available,
            'procCyclesPerSecond': _CYCLES_PER_SECOND,
        },
        'memory': {
            'totalMem': system.integer(f'{memory}/InstalledSystemMemory'),
            'availableMem': system.memory_available,
            'configurableMem': system.integer(
                f'{memory}/ConfigurableSystemMemory'
            ),
        },
        'sharedProcessorPool': [
            {
                'id': 0,
                'name': shared_processor_pool.DEFAULT,
                'assignedProcCycles': int(cycles * system.units),
                'utilizedPoolCycles': sum(
                    one['processor'][used] for one in (*lpars, *servers)
                ),
                'maxProcUnits': system.units,
                'borrowedPoolProcUnits': 0,
            }
        ],
        'lparsUtil': lpars,
        'viosUtil': servers,
    }


def _partition(partition: Partition, at: int) -> JSON:
    return {
        'id': partition.id,
        'uuid': partition.uuid,
        'name': partition.name,
        'state': partition.state.title(),
        'affinityScore': 100,
        'processor': _processor(partition, at),
    }


def _processor(partition: Partition, at: int) -> JSON:
    dedicated = partition_module.is_dedicated(partition.element)
    shared = partition_module.SHARED
    processors = partition.integer(
        f'{partition_module.DEDICATED}/DesiredProcessors'
        if dedicated
        else f'{shared}/DesiredVirtualProcessors'
    )
    entitled = int(
        partition.units * _CYCLES_PER_SECOND * _active_seconds(partition, at)
    )
    busy = entitled // _BUSY
    mode = partition.text(partition_module.SHARING_MODE)
    pool = {
        'poolId': partition.integer(f'{shared}/SharedProcessorPoolID'),
        'weight': partition.integer(f'{shared}/UncappedWeight'),
    }
    return {
        'mode': _MODES.get(mode, mode),
        'maxVirtualProcessors': processors,
        'maxProcUnits': partition.units,
        'entitledProcCycles': entitled,
        'utilizedCappedProcCycles': busy,
        'utilizedUnCappedProcCycles': 0,
        'idleProcCycles': entitled // _IDLE,
        'donatedProcCycles': 0,
        'timeSpentWaitingForDispatch': 0,
        'totalInstructions': busy,
        'totalInstructionsExecutionTime': busy,
        **({} if dedicated else pool),
    }


def _io(host: Host, partition: Partition, at: int) -> JSON:
    """Return the adapters of a partition, of each kind that it has."""
    packets = _active_seconds(partition, at) * _PACKETS_PER_SECOND
    adapters = [
        {
            'vlanId': one.pvid,
            'vswitchId': one.switch_id,
            'physicalLocation': one.text('LocationCode'),
            'isPortVLANID': True,
            'droppedPackets': 0,
            'droppedPhysicalPackets': 0,
        }
        | dict.fromkeys(_counters('Packets', 'PhysicalPackets'), packets)
        | dict.fromkeys(
            _counters('Bytes', 'PhysicalBytes'), packets * _BYTES_PER_PACKET
        )
        for one in host.of_type(net_adapter.Adapter, partition)
    ]
    pairs = {
        mapping.client_slot: {
            'physicalLocation': content.text(
                mapping.element, f'{scsi_mapping.CLIENT}/LocationCode'
            ),
            'viosId': server.id,
            'viosAdapterSlotId': mapping.server_slot,
        }
        for server in scsi_mapping.servers(partition, host)
        for mapping in scsi_mapping.of(server)
        if mapping.client_uuid == partition.uuid.upper()
    }
    found: JSON = {}
    if adapters:
        found['network'] = {'virtualEthernetAdapters': adapters}
    if pairs:
        found['storage'] = {'genericVirtualAdapters': list(pairs.values())}
    return found


def _counters(*names: str) -> list[str]:
    return [f'{way}{name}' for way in ('received', 'sent') for name in names]


def _server(server: Partition, at: int) -> JSON:
    """Return what a Virtual I/O Server says of itself."""
    requests = _age(server, at) * _PACKETS_PER_SECOND
    size = requests * _BYTES_PER_PACKET
    adapters = {
        mapping.adapter_name: {
            'id': mapping.adapter_name,
            'type': 'virtual',
            'physicalLocation': content.text(
                mapping.element, f'{scsi_mapping.SERVER}/LocationCode'
            ),
            'numOfReads': requests,
            'numOfWrites': requests,
            'readBytes': size,
            'writeBytes': size,
        }
        for mapping in scsi_mapping.of(server)
    }
    return {
        # As hosts do, unlike the hypervisor.
        'id': str(server.id),
        'name': server.name,
        'memory': {'utilizedMem': server.memory // _BUSY},
        'network': {},
        'storage': {'genericVirtualAdapters': list(adapters.values())},
    }


def _guest(partition: Partition, at: int) -> JSON:
    """Return what a guest says of its memory, if it says anything."""
    found: JSON = {
        'uuid': partition.uuid,
        'id': str(partition.id),
        'name': partition.name,
    }
    if partition.state != partition_module.RUNNING:
        return found | {'timeStamp': None, 'errorInfo': _NOT_RUNNING}
    if partition.rmc_state != partition_module.RMC_ACTIVE:
        return found | {'timeStamp': None, 'errorInfo': _NO_RMC}
    pages = partition.memory * _PAGES_PER_MEGABYTE
    memory = {
        'pctRealMemAvbl': 75,
        'totalPgSpSizeCount': pages,
        'totalPgSpFreeCount': pages,
        'vmActivePgCount': pages // _IDLE,
        'realMemSizeBytes': partition.memory << 20,
        'pctRealMemFree': 50,
        'vmPgInRate': 0,
        'vmPgOutRate': 0,
        'vmPgSpInRate': 0,
        'vmPgSpOutRate': 0,
    }
    return found | {
        'timeStamp': _time(at, '%Y%m%dT%H%M%S%z'),
        'memory': memory,
    }


def _partitions(host: Host, system: System, kind: str) -> list[Partition]:
    return [one for one in host.of_type(Partition, system) if one.kind == kind]


def _active_seconds(partition: Partition, at: int) -> int:
    return _age(partition, at) if partition.is_active else 0


def _age(found: resource.Resource, at: int) -> int:
    """Return for how many seconds something has been there at a time."""
    created = found.integer('Metadata/Atom/AtomCreated') // 1000
    return max(0, at - created)


def _time(at: int, form: str) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime(form)


NOUN = noun.Noun(
    _KIND,
    routes=(
        route.Route('GET', _LONG_TERM, feed, f'{_KIND}.feed'),
        route.Route(
            'GET',
            f'{_LONG_TERM}/<name>',
            read,
            f'{_KIND}.read',
            served=(*media.JSON, *media.METRICS),
        ),
        route.Route(
            'GET', f'{_SYSTEM}/ShortTermMonitor', nothing, f'{_KIND}.feed'
        ),
    ),
)
