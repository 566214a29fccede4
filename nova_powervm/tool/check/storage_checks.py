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

"""Checks of the partitions, and of the storage of Virtual I/O Servers."""

import base64
import binascii
import collections
import re
from typing import Any

from nova_powervm.powervm.check import inspection
from nova_powervm.tool.check import answers

Answer = answers.Answer
Check = answers.Check
Host = inspection.Inspection
Meaning = answers.Meaning

_NO_SERVER = 'there is no Virtual I/O Server'
_WWPN = re.compile('[0-9A-F]{16}', re.IGNORECASE)
#: As many LPARs have their NVRAM read.
_FEW = 5
#: Characters of an NVRAM that the driver takes along.
_LONGEST_NVRAM = 262144
_SINGLE_PATH = 'SinglePath'
_UNKNOWN = 'unknown'
_ORDERS = answers.word_of('ascending', 'descending', 'other', _UNKNOWN)
_LISTS = ('slots', 'lpars', 'mappings', 'media')


def _answering(host: Host) -> list[Any]:
    """Return the Virtual I/O Servers that answer."""
    return [*filter(inspection.answers, host.servers)]


def _disks_of(server: Any) -> list[Any]:
    """Return the disks of arrays that a server shows."""
    return [disk for disk in server.phys_vols if disk.is_fc_backed]


def _disks(host: Host) -> list[Any]:
    """Return the disks of arrays, as each server shows them."""
    return [disk for server in host.servers for disk in _disks_of(server)]


def _servers(host: Host) -> Answer:
    if not host.servers:
        return answers.unknown(_NO_SERVER)
    silent = [
        f'{server.name} ({server.state}, RMC {server.rmc_state})'
        for server in host.servers
        if not inspection.answers(server)
    ]
    value = {'servers': len(host.servers), 'silent': len(silent)}
    return answers.judged(not silent, value, answers.listed(silent))


def _sick(host: Host) -> Answer:
    if not host.servers:
        return answers.unknown(_NO_SERVER)
    sick = [s.name for s in host.servers if s.state == inspection.SICK]
    value = {'servers': len(host.servers), 'sick': len(sick)}
    return answers.judged(not sick, value, answers.listed(sick))


def _off(host: Host) -> Answer:
    quiet = [
        server
        for server in host.servers
        if server.state != inspection.SICK and not inspection.answers(server)
    ]
    if not quiet:
        return answers.unknown('all Virtual I/O Servers answer')
    value = {
        'servers': len(quiet),
        'ports': sum(len(server.pfc_ports) for server in quiet),
        'disks': sum(len(server.phys_vols) for server in quiet),
        'mappings': sum(len(server.scsi_mappings) for server in quiet),
    }
    # Disks without mappings would be trusted.
    trusted = [s.name for s in quiet if s.phys_vols and not s.scsi_mappings]
    return answers.judged(not trusted, value, answers.listed(trusted))


def _groups(host: Host) -> Answer:
    if not host.volume_groups:
        return answers.unknown('no Virtual I/O Server shows a volume group')
    wrong = [
        group.name
        for group in host.volume_groups
        if not group.capacity
        or not 0 <= group.available_size <= group.capacity
    ]
    value = {'groups': len(host.volume_groups), 'wrong': len(wrong)}
    return answers.judged(not wrong, value, answers.listed(wrong))


def _repositories(host: Host) -> Answer:
    found = [g.name for g in host.volume_groups if g.vmedia_repos]
    if not found:
        return answers.unknown(
            'there is no media repository; the driver makes one when it '
            'needs it',
            value=0,
        )
    return answers.judged(True, len(found), answers.listed(found))


def _pools(host: Host) -> Answer:
    if not host.pools:
        return answers.unknown('there is no cluster')
    wrong = [
        pool.name
        for pool, tiers in host.pools
        if not 0 <= pool.free_space <= pool.capacity
        or sum(1 for tier in tiers if tier.is_default) != 1
    ]
    value = {'pools': len(host.pools), 'wrong': len(wrong)}
    return answers.judged(not wrong, value, answers.listed(wrong))


def _ports(host: Host) -> Answer:
    ports = [port for server in _answering(host) for port in server.pfc_ports]
    if not ports:
        return answers.unknown('there is no Fibre Channel port')
    names = [(port.wwpn or '').upper() for port in ports]
    counts = collections.Counter(names)
    wrong = [
        port.name or 'a port'
        for port, name in zip(ports, names, strict=True)
        if not _WWPN.fullmatch(name) or counts[name] > 1
    ]
    value = {
        'ports': len(ports),
        'with NPIV': sum(1 for port in ports if port.npiv_total_ports),
        'wrong': len(wrong),
    }
    return answers.judged(not wrong, value, answers.listed(wrong))


def _udids(host: Host) -> Answer:
    disks = _disks(host)
    if not disks:
        return answers.unknown('there is no disk of an array')
    wrong = [
        server.name
        for server in host.servers
        if _has_doubtful_udids(_disks_of(server))
    ]
    value = {'disks': len(disks), 'servers': len(wrong)}
    return answers.judged(not wrong, value, answers.listed(wrong))


def _has_doubtful_udids(disks: list[Any]) -> bool:
    """Return whether disks of a server lack UDIDs, or share them."""
    udids = [disk.udid for disk in disks]
    return not all(udids) or len(udids) != len(set(udids))


def _policies(host: Host) -> Answer:
    policies = [d.element.findtext('ReservePolicy') for d in _disks(host)]
    if not policies:
        return answers.unknown('there is no disk of an array')
    single = policies.count(_SINGLE_PATH)
    value = {'disks': len(policies), 'single path': single}
    return answers.judged(not single, value)


def _nvram(host: Host) -> Answer:
    lpars = [lpar for lpar in host.lpars if lpar.state == inspection.OFF]
    found = [*filter(None, map(host.nvram_of, lpars[:_FEW]))]
    if not found:
        return answers.unknown('no stopped LPAR has an NVRAM')
    fits = all(map(_is_portable, found))
    return answers.judged(fits, max(map(len, found)))


def _is_portable(nvram: str) -> bool:
    """Return whether the driver takes an NVRAM to another host."""
    try:
        base64.b64decode(nvram, validate=True)
    except binascii.Error:
        return False
    return len(nvram) <= _LONGEST_NVRAM


def _orders(host: Host) -> Answer:
    mappings = [
        [
            mapping.server_adapter.lpar_slot_num
            for mapping in server.scsi_mappings
            if mapping.server_adapter
        ]
        for server in host.servers
    ]
    media = [
        [medium.name for medium in repository.optical_media]
        for group in host.volume_groups
        for repository in group.vmedia_repos
    ]
    value = {
        'slots': _order([[slot.drc_index for slot in host.slots]]),
        'lpars': _order([[lpar.id for lpar in host.lpars]]),
        'mappings': _order(mappings),
        'media': _order(media),
    }
    if {*value.values()} == {_UNKNOWN}:
        return answers.unknown('there is no list of two', value)
    return answers.judged(True, value)


def _order(lists: list[list[Any]]) -> str:
    """Return the order that all lists have which have one."""
    long = [keys for keys in lists if len({*keys}) > 1]
    if not long:
        return _UNKNOWN
    if all(keys == sorted(keys) for keys in long):
        return 'ascending'
    if all(keys == sorted(keys, reverse=True) for keys in long):
        return 'descending'
    return 'other'


CHECKS = (
    Check(
        'servers',
        'Virtual I/O Servers',
        'Each Virtual I/O Server runs and has RMC.',
        'state and RMC state of each server',
        Meaning.OFF,
        'What the others serve cannot be changed, and instances have fewer '
        'paths to disks and networks. Start them, or restore RMC.',
        answers.counts_of('servers', 'silent'),
        _servers,
    ),
    Check(
        'sick-servers',
        'Storage of Virtual I/O Servers',
        'Each Virtual I/O Server reports its storage.',
        'their feed with the storage; if that fails, each server alone',
        Meaning.COPES,
        'One that does not is treated as if it were off. Look for a full '
        'file system.',
        answers.counts_of('servers', 'sick'),
        _sick,
    ),
    Check(
        'silent-servers',
        'Virtual I/O Servers that are off',
        'A Virtual I/O Server that is off or has no RMC shows its mappings, '
        'or no disk at all.',
        'ports, disks and mappings of such servers',
        Meaning.OFF,
        'The driver would take volumes that such a server maps for detached. '
        'Detach none until it runs again, and report the numbers.',
        answers.counts_of('servers', 'ports', 'disks', 'mappings'),
        _off,
    ),
    Check(
        'volume-groups',
        'Volume groups',
        'Each volume group reports its size and its free space.',
        '``VolumeGroup`` of each server that answers',
        Meaning.OFF,
        'Such a group cannot be ``[powervm]volume_group_name``. Compare with '
        '``pvmctl vg list``.',
        answers.counts_of('groups', 'wrong'),
        _groups,
    ),
    Check(
        'repositories',
        'Media repository',
        'A media repository can be read.',
        '``MediaRepositories`` of the volume groups',
        Meaning.OFF,
        'There are no config drives.',
        answers.COUNT,
        _repositories,
    ),
    Check(
        'pools',
        'Shared storage pools',
        'The pool of each cluster has one default tier, and reports its size '
        'and its free space.',
        '``Cluster``, ``SharedStoragePool`` and ``Tier``',
        Meaning.OFF,
        'Such a pool is of no use with ``disk_driver = ssp``.',
        answers.counts_of('pools', 'wrong'),
        _pools,
    ),
    Check(
        'ports',
        'Fibre Channel ports',
        'Each Fibre Channel port has a WWPN of its own.',
        '``PhysicalFibreChannelPort`` of each server that answers',
        Meaning.OFF,
        'Volumes cannot be mapped to such ports.',
        answers.counts_of('ports', 'with NPIV', 'wrong'),
        _ports,
    ),
    Check(
        'udids',
        'UDIDs of disks',
        'Each disk of an array has a UDID of its own on each server.',
        '``UniqueDeviceID`` of physical volumes over Fibre Channel',
        Meaning.OFF,
        'Volumes cannot be attached by such servers.',
        answers.counts_of('disks', 'servers'),
        _udids,
    ),
    Check(
        'reserve-policy',
        'Reserve policy',
        'Disks of arrays can be shared by servers.',
        '``ReservePolicy`` of physical volumes over Fibre Channel',
        Meaning.OFF,
        'Where several servers reach a volume whose disk has the policy '
        f'``{_SINGLE_PATH}``, its attachment is refused.',
        answers.counts_of('disks', 'single path'),
        _policies,
    ),
    Check(
        'nvram',
        'NVRAM',
        'The NVRAM of an LPAR is base64, and has at most '
        f'{_LONGEST_NVRAM} characters.',
        f'``PartitionNVRAM`` of up to {_FEW} stopped LPARs; the value is its '
        'length',
        Meaning.OFF,
        'A server that moves to another host loses its boot list.',
        answers.COUNT,
        _nvram,
    ),
    Check(
        'orders',
        'Order of lists',
        'The order of what is listed means nothing.',
        'slots by DRC index, LPARs by number, mappings by the slots of their '
        'servers, and media by name',
        Meaning.COPES,
        'Nothing follows from it; the emulator can list in the same order.',
        {
            'type': 'object',
            'properties': dict.fromkeys(_LISTS, _ORDERS),
            'required': list(_LISTS),
            'additionalProperties': False,
        },
        _orders,
    ),
)
