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

"""Checks of the managed system, its slots and its capabilities."""

import re
from collections.abc import Callable
from typing import Any

from nova_powervm.devices import slots as pci
from nova_powervm.powervm.check import inspection
from nova_powervm.tool.check import answers

Answer = answers.Answer
Check = answers.Check
Host = inspection.Inspection
Meaning = answers.Meaning

#: The modes in which an adapter is or is not shared.
_MODES = ('Sriov', 'Dedicated', 'ForceDedicated')
#: PCI IDs of makers whose cards IBM sells for Power, and of NVIDIA. An old
#: NovaLink version reports a device ID, which is none of them, in their place.
_VENDORS = frozenset(
    {
        *(0x1000, 0x1014, 0x1077, 0x10B5, 0x10DE, 0x10DF, 0x10EE, 0x1137),
        *(0x1425, 0x144D, 0x14E4, 0x15B3, 0x1590, 0x1912, 0x1924, 0x19A2),
        *(0x1B4B, 0x1B73, 0x1C5C, 0x1C58, 0x1E0F, 0x104C, 0x8086, 0x9005),
        *(0x1179, 0x1344, 0x4040),
    }
)
_AIX = ('Active', 'Inactive', 'Unavailable', 'absent')
#: Without the serial number.
_MODEL = {'type': 'string', 'pattern': '^[0-9A-Z]{4}-[0-9A-Z]{3}$'}
_GENERATION = re.compile(r'POWER\d+')
_NONE = 'there is no slot'
_PROFILED = ('stopped', 'running', 'servers')


def _hex(indexes: list[int]) -> str:
    return answers.listed(map(pci.format_drc_index, sorted(indexes)))


def _systems(host: Host) -> Answer:
    found = len(host.systems)
    return answers.judged(found == 1, found)


def _model(host: Host) -> Answer:
    mtms = host.system.mtms
    model = f'{mtms.machine_type}-{mtms.model}'
    known = re.fullmatch(_MODEL['pattern'], model) is not None
    return answers.judged(known, model if known else '')


def _slots(host: Host) -> Answer:
    found = len(host.slots)
    return answers.judged(found > 0, found)


def _owners(host: Host) -> Answer:
    told = bool(host.system.get_capability('ioslot_owner_assignment_capable'))
    return answers.judged(told, told)


def _profiles(host: Host) -> Answer:
    kinds = dict.fromkeys(_PROFILED, 0)
    unowned, disputed, missing = [], [], []
    reported = {slot.drc_index: slot for slot in host.slots}
    partitions = [(_kind(lpar), lpar) for lpar in host.lpars]
    partitions += [('servers', server) for server in host.servers]
    for kind, partition in partitions:
        for profiled in partition.io_config.io_slots:
            kinds[kind] += 1
            slot = reported.get(profiled.drc_index)
            if slot is None:
                missing.append(profiled.drc_index)
            elif slot.part_uuid is None and slot.part_id is None:
                unowned.append(profiled.drc_index)
            elif (slot.part_uuid or '').upper() != partition.uuid.upper():
                disputed.append(profiled.drc_index)
    value = {
        **kinds,
        'unowned': len(unowned),
        'disputed': len(disputed),
        'missing': len(missing),
    }
    if not any(kinds.values()):
        return answers.unknown('no profile has a slot', value)
    if not host.reports_owners:
        why = 'the host does not claim to report owners'
        return answers.unknown(why, value)
    return answers.judged(not unowned, value, _hex(unowned))


def _kind(lpar: Any) -> str:
    """Return what an LPAR is counted as."""
    return 'stopped' if lpar.state == inspection.OFF else 'running'


def _indexes(host: Host) -> Answer:
    twice = pci.duplicated_indexes(host.managed.io_slots)
    return answers.judged(not twice, len(twice), _hex([*twice]))


def _ids(host: Host) -> Answer:
    cards = [s for s in host.managed.io_slots if not s.is_empty]
    if not cards:
        return answers.unknown('there is no card')
    wrong = [
        slot
        for slot in cards
        if slot.vendor_id not in _VENDORS or slot.device_id is None
    ]
    value = {'cards': len(cards), 'doubted': len(wrong)}
    # A card of an unknown maker is no sign; wrong fields are wrong for most.
    return answers.judged(
        len(wrong) <= len(cards) / 2,
        value,
        answers.listed(
            f'{slot.drc_hex} has the vendor ID '
            f'{"none" if slot.vendor_id is None else f"{slot.vendor_id:04X}"}'
            for slot in wrong
        ),
    )


def _stored(host: Host) -> Answer:
    same = host.stored.io_slots == host.managed.io_slots
    return answers.judged(same, same)


def _empty(host: Host) -> Answer:
    empty = [s for s in host.slots if s.description == 'Empty slot']
    if not empty:
        return answers.unknown('there is no slot described as empty')
    wrong = [s.drc_index for s in empty if s.pci_vendor_id != pci.EMPTY_ID]
    value = {'empty': len(empty), 'with IDs': len(wrong)}
    return answers.judged(not wrong, value, _hex(wrong))


def _sriov(host: Host) -> Answer:
    if not host.sriov_adapters:
        return answers.unknown('there is no adapter for SR-IOV')
    indexes = {slot.drc_index for slot in host.slots}
    wrong = [
        adapter
        for adapter in host.sriov_adapters
        if adapter.mode not in _MODES
        or not (adapter.id or '').isdigit()
        or int(adapter.id) not in indexes
    ]
    value = {'adapters': len(host.sriov_adapters), 'unknown': len(wrong)}
    return answers.judged(
        not wrong,
        value,
        answers.listed(f'{a.id} in the mode {a.mode}' for a in wrong),
    )


def _groups(host: Host) -> Answer:
    if not host.slots:
        return answers.unknown(_NONE)
    grouped = [s.drc_index for s in host.slots if s.bus_grp_required]
    return answers.judged(not grouped, len(grouped), _hex(grouped))


def _assignable(host: Host) -> Answer:
    if not host.managed.io_slots:
        return answers.unknown(_NONE)
    fixed = [s.drc_index for s in host.managed.io_slots if not s.assignable]
    return answers.judged(not fixed, len(fixed), _hex(fixed))


def _regions(host: Host) -> Answer:
    size = host.system.memory_region_size or 0
    return answers.judged(size > 0, size)


def _modes(host: Host) -> Answer:
    modes = list(host.system.proc_compat_modes)
    fits = any(map(_GENERATION.match, modes))
    return answers.judged(fits, modes)


def _aix(host: Host) -> Answer:
    text = host.system.element.findtext(
        'AssociatedSystemCapabilities/AIXCapable'
    )
    word = 'absent' if text is None else text
    if word in _AIX:
        return answers.judged(True, word)
    return answers.judged(False, 'other', word)


def _capability(name: str) -> Callable[[Host], Answer]:
    """Return the function of a check that the host has a capability."""

    def judge(host: Host) -> Answer:
        has_it = bool(host.system.get_capability(name))
        return answers.judged(has_it, has_it)

    return judge


def _uptime(host: Host) -> Answer:
    return answers.judged(host.uptime > 0, host.uptime)


def _capability_check(
    name: str, title: str, key: str, element: str, otherwise: str
) -> Check[Host]:
    """Return the check of a capability that only some hosts have."""
    return Check(
        name,
        title,
        f'The host is capable of {title.lower()}.',
        f'``AssociatedSystemCapabilities/{element}``',
        Meaning.OFF,
        otherwise,
        answers.YES_OR_NO,
        _capability(key),
    )


CHECKS = (
    Check(
        'systems',
        'Managed system',
        'There is one managed system.',
        'feed of ``ManagedSystem``',
        Meaning.UNFIT,
        'nova-compute does not start. Point ``[powervm]rest_url`` at the '
        'NovaLink partition of one host.',
        answers.COUNT,
        _systems,
    ),
    Check(
        'model',
        'Machine type and model',
        'The system tells its machine type and model.',
        '``MachineTypeModelAndSerialNumber``, without the serial number',
        Meaning.COPES,
        'Only messages have them.',
        {'anyOf': [{'const': ''}, _MODEL]},
        _model,
    ),
    Check(
        'slots',
        'Slots',
        'The system lists its I/O slots.',
        '``AssociatedSystemIOConfiguration/IOSlots``',
        Meaning.OFF,
        'No device is offered.',
        answers.COUNT,
        _slots,
    ),
    Check(
        'owners',
        'Owners of slots',
        'The host reports who owns each slot.',
        '``AssociatedSystemCapabilities/IOSlotOwnerAssignmentCapable``',
        Meaning.COPES,
        "The driver reads all partitions' profiles in each cycle. Compare "
        'the owners in ``nova-powervm-inventory show`` with ``pvmctl lpar '
        'list``.',
        answers.YES_OR_NO,
        _owners,
    ),
    Check(
        'profile-owners',
        'Owners and profiles',
        'Each slot in the profile of a partition, stopped or running, has '
        'an owner.',
        'the slots in the profiles of LPARs that are stopped, of others, and '
        'of Virtual I/O Servers; of them those without an owner, with '
        'another one, and those that the host does not have',
        Meaning.OFF,
        'Slots without an owner are offered. Leave them out of the inventory '
        'file.',
        answers.counts_of(*_PROFILED, 'unowned', 'disputed', 'missing'),
        _profiles,
    ),
    Check(
        'indexes',
        'DRC indexes',
        'Each DRC index belongs to one slot.',
        'the slots, as the driver reads them',
        Meaning.OFF,
        'Slots that share an index are not offered.',
        answers.COUNT,
        _indexes,
    ),
    Check(
        'ids',
        'PCI IDs',
        'PCI IDs are in the right fields.',
        'whether most cards have a device ID, and the vendor ID of a known '
        'maker of such cards',
        Meaning.OFF,
        'Old NovaLink versions report the device ID in place of the vendor '
        'ID. Compare with ``lspci -nn``; if the IDs are wrong, update '
        'NovaLink, or identify slots by ``drc_name``.',
        answers.counts_of('cards', 'doubted'),
        _ids,
    ),
    Check(
        'stored',
        'Stored responses',
        'A stored response shows the same slots as the host.',
        'slots and owners from the body of the response',
        Meaning.COPES,
        'Do not use ``--system-xml`` of ``nova-powervm-inventory``; report '
        'the difference to its ``show`` without it.',
        answers.YES_OR_NO,
        _stored,
    ),
    Check(
        'empty',
        'Empty slots',
        'Slots described as empty have the vendor ID FFFF.',
        'slots with the description ``Empty slot``',
        Meaning.OFF,
        'Empty slots may be offered as devices. Name each slot in the '
        'inventory file by its ``drc_index`` or ``drc_name``.',
        answers.counts_of('empty', 'with IDs'),
        _empty,
    ),
    Check(
        'sriov',
        'SR-IOV',
        'The ``AdapterID`` of an adapter for SR-IOV is the DRC index of its '
        'slot, and its mode is known.',
        '``AssociatedSystemIOConfiguration/SRIOVAdapters``',
        Meaning.OFF,
        'Leave these slots out of the inventory file.',
        answers.counts_of('adapters', 'unknown'),
        _sriov,
    ),
    Check(
        'bus-groups',
        'Bus groups',
        'Each slot can be assigned on its own.',
        '``BusGroupingRequired`` of each slot',
        Meaning.OFF,
        'A slot may have to move together with others on its bus. Leave it '
        'out of the inventory file if the host refuses it to an LPAR.',
        answers.COUNT,
        _groups,
    ),
    Check(
        'assignable',
        'Assignable slots',
        'The host lets partitions own each slot.',
        '``LogicalPartitionAssignmentCapable``, where it is reported',
        Meaning.OFF,
        'The other slots are not offered.',
        answers.COUNT,
        _assignable,
    ),
    Check(
        'regions',
        'Memory regions',
        'The host tells the size of its memory regions.',
        '``MemoryRegionSize``, in MiB',
        Meaning.UNFIT,
        'It is not known which sizes of memory the host accepts.',
        answers.COUNT,
        _regions,
    ),
    Check(
        'modes',
        'Processor modes',
        'The host names the generation of its processors.',
        '``SupportedPartitionProcessorCompatibilityModes``',
        Meaning.OFF,
        'The compute node has no traits of processors.',
        {
            'type': 'array',
            'items': {'type': 'string', 'pattern': '^[A-Za-z0-9_+. -]{1,40}$'},
        },
        _modes,
    ),
    Check(
        'aix',
        'AIX',
        'The host says whether it runs AIX in a known word, or not at all.',
        '``AssociatedSystemCapabilities/AIXCapable``',
        Meaning.COPES,
        'It is taken for a host that runs AIX; report the word.',
        answers.word_of(*_AIX, 'other'),
        _aix,
    ),
    _capability_check(
        'live-migration',
        'Live migration',
        'active_lpar_mobility_capable',
        'ActiveLogicalPartitionMobilityCapable',
        'There is no live migration.',
    ),
    _capability_check(
        'remote-restart',
        'Remote restart',
        'simplified_remote_restart_capable',
        'PowerVMLogicalPartitionSimplifiedRemoteRestartCapable',
        'Servers that ask for it are refused.',
    ),
    _capability_check(
        'secure-boot',
        'Secure boot',
        'partition_secure_boot_capable',
        'PartitionSecureBootCapable',
        'Servers that ask for it are refused.',
    ),
    Check(
        'uptime',
        'Uptime',
        'The host reports its uptime.',
        '``Uptime`` of the management partition, in seconds',
        Meaning.OFF,
        '``openstack hypervisor show`` has no uptime.',
        answers.COUNT,
        _uptime,
    ),
)
