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

"""Checks of the virtual Ethernet."""

from typing import Any

from nova_powervm.lpar import management_adapter
from nova_powervm.powervm.check import inspection
from nova_powervm.tool.check import answers

Answer = answers.Answer
Check = answers.Check
Host = inspection.Inspection
Meaning = answers.Meaning

_VEPA = 'Vepa'
_NO_SWITCH = f'there is no virtual switch {management_adapter.SWITCH}'


def _management(host: Host) -> Any:
    """Return the virtual switch of the RMC connections, if there is one."""
    for switch in host.switches:
        if switch.name == management_adapter.SWITCH:
            return switch
    return None


def _bridges(host: Host) -> Answer:
    if not host.bridges:
        return answers.unknown('there is no Shared Ethernet bridge')
    usable = {bridge.uuid for bridge in host.usable_bridges}
    wrong = [
        f'the one with PVID {bridge.pvid}'
        for bridge in host.bridges
        if bridge.uuid not in usable or bridge.pvid not in bridge.list_vlans()
    ]
    value = {'bridges': len(host.bridges), 'wrong': len(wrong)}
    return answers.judged(not wrong, value, answers.listed(wrong))


def _only_bridge(host: Host) -> Answer:
    count = len(host.bridges)
    names = answers.listed(host.usable_bridges)
    if not count:
        return answers.unknown('there is no Shared Ethernet bridge', value=0)
    return answers.judged(count == 1, count, names)


def _mode(host: Host) -> Answer:
    switch = _management(host)
    if switch is None:
        return answers.unknown(_NO_SWITCH)
    return answers.judged(switch.mode == _VEPA, switch.mode)


def _manager(host: Host) -> Answer:
    switch = _management(host)
    if switch is None:
        return answers.unknown(_NO_SWITCH)
    if not host.managers:
        return answers.unknown('there is no management partition')
    vlans = [
        adapter.pvid
        for partition in host.managers
        for adapter in host.adapters_of(partition)
        if adapter.vswitch_id == switch.switch_id
    ]
    found = management_adapter.VLAN in vlans
    where = f'VLAN {answers.listed(vlans)}' if vlans else 'it has none'
    return answers.judged(found, found, where)


CHECKS = (
    Check(
        'bridges',
        'Shared Ethernet bridges',
        'Each bridge has a Shared Ethernet Adapter and a known virtual '
        'switch, and its PVID is one of its VLANs.',
        '``NetworkBridge``, as the driver reads it',
        Meaning.OFF,
        'The driver ignores such a bridge. Compare with ``pvmctl '
        'networkbridge list``.',
        answers.counts_of('bridges', 'wrong'),
        _bridges,
    ),
    Check(
        'bridge-mappings',
        'One bridge',
        'There is one bridge.',
        'the number of bridges',
        Meaning.COPES,
        'Set ``[powervm]bridge_mappings``; without it ports are refused.',
        answers.COUNT,
        _only_bridge,
    ),
    Check(
        'management-switch',
        'Management switch',
        f'The mode of the virtual switch {management_adapter.SWITCH} is '
        f'{_VEPA}.',
        '``SwitchMode``',
        Meaning.OFF,
        'Servers get no management adapter: their guests would reach each '
        'other.',
        answers.word_of('Veb', _VEPA),
        _mode,
    ),
    Check(
        'management-vlan',
        'VLAN of the management switch',
        'The adapter of the management partition on '
        f'{management_adapter.SWITCH} is on VLAN {management_adapter.VLAN}.',
        'the client network adapters of the management partition',
        Meaning.OFF,
        'Guests get no RMC connection by their management adapters. Give the '
        'adapter that VLAN.',
        answers.YES_OR_NO,
        _manager,
    ),
)
