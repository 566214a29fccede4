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

"""What a posted NetworkBridge asks of its servers, checked beforehand."""

import dataclasses
from collections.abc import Sequence

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import bridge_rules
from nova_powervm.emulator.state import ethernet
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import network_rules
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import switches
from nova_powervm.emulator.state import virtual_slots

Adapter = ethernet.Adapter
Bridge = ethernet.Bridge
Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition

# Trunk adapters of a Shared Ethernet Adapter.
MAX_TRUNKS = 16
_TRUNK_PATH = f'{ethernet.TRUNKS}/{ethernet.TRUNK}'


@dataclasses.dataclass(frozen=True)
class Trunk:
    """One trunk adapter that is to be.

    :ivar present: the adapter, if it is there; then slot and MAC are its.
    """

    present: Adapter | None
    slot: int
    mac: str
    pvid: int
    tagged: tuple[int, ...]
    priority: int
    required: bool

    @property
    def vlans(self) -> tuple[int, ...]:
        """Every VLAN that it takes part in."""
        return (self.pvid, *self.tagged)

    @property
    def changes(self) -> bool:
        """Whether an adapter that is there gets other VLANs."""
        return self.present is not None and (
            self.present.pvid != self.pvid
            or self.present.tagged != self.tagged
        )


@dataclasses.dataclass(frozen=True)
class Plan:
    """One Shared Ethernet Adapter that is to be.

    :ivar sea: its posted element.
    :ivar leaving: trunk adapters that it has and shall not have.
    """

    vios: Partition
    switch: ethernet.Switch
    sea: Element
    trunks: tuple[Trunk, ...]
    leaving: tuple[Adapter, ...]


def make(host: Host, bridge: Bridge, body: Element) -> list[Plan]:
    """Return what a posted bridge asks of each of its servers.

    :param bridge: as it is; for a new one, without adapters.
    :raises errors.RestError: hardware would not do it.
    """
    seas = content.find_all(body, f'{ethernet.SEAS}/{ethernet.SEA}')
    plans = [
        _plan(host, bridge, vios, sea)
        for vios, sea in zip(
            bridge_rules.servers(host, bridge.system, body), seas, strict=True
        )
    ]
    _check_twins(plans)
    for plan in plans:
        _check(host, bridge, plan)
    return plans


def _plan(host: Host, bridge: Bridge, vios: Partition, sea: Element) -> Plan:
    present = {
        adapter.slot: adapter
        for adapter in ethernet.trunks_of(host, bridge, vios)
    }
    leaving = dict(present)
    wanted: list[Trunk] = []
    for element in content.find_all(sea, _TRUNK_PATH):
        number = content.integer(element, virtual_slots.NUMBER)
        adapter = leaving.pop(number, None)
        if adapter is None:
            # A slot that is named twice is taken here.
            wanted.append(_new_trunk(host, vios, element, wanted))
        else:
            wanted.append(_old_trunk(adapter, element))
    switch = _switch(host, bridge, sea, list(present.values()))
    return Plan(vios, switch, sea, tuple(wanted), tuple(leaving.values()))


def _new_trunk(
    host: Host, vios: Partition, element: Element, others: Sequence[Trunk]
) -> Trunk:
    pvid, tagged = network_rules.vlans(element)
    network_rules.check_priority(element)
    mac = content.text(element, 'MACAddress').upper()
    macs = [trunk.mac for trunk in others]
    if mac:
        network_rules.check_mac(host, vios.system, mac)
    else:
        mac = network_rules.new_mac(host, vios.system, macs)
    slots = [trunk.slot for trunk in others]
    return Trunk(
        present=None,
        slot=virtual_slots.choose(host, vios, element, slots),
        mac=mac,
        pvid=pvid,
        tagged=tagged,
        priority=content.integer(element, 'TrunkPriority', 1),
        required=content.boolean(element, 'RequiredAdapter'),
    )


def _old_trunk(adapter: Adapter, element: Element) -> Trunk:
    pvid, tagged = network_rules.vlans(element)
    return Trunk(
        present=adapter,
        slot=adapter.slot,
        mac=adapter.mac,
        pvid=pvid,
        tagged=tagged,
        priority=adapter.priority,
        required=False,
    )


def _switch(
    host: Host, bridge: Bridge, sea: Element, present: list[Adapter]
) -> ethernet.Switch:
    """Return the switch of a bridge: of the trunks it has, or is to get."""
    if present:
        found = switches.by_id(host, bridge.system, present[0].switch_id)
        if found is not None:
            return found
    path = f'{_TRUNK_PATH}/{ethernet.SWITCH_LINK}'
    return switches.of(host, bridge.system, sea, path)


def _check_twins(plans: Sequence[Plan]) -> None:
    """Both Shared Ethernet Adapters for failover have the same VLANs."""
    shapes = [
        sorted((trunk.pvid, sorted(trunk.tagged)) for trunk in plan.trunks)
        for plan in plans
    ]
    if any(shape != shapes[0] for shape in shapes):
        raise errors.BadRequest(
            'The Shared Ethernet Adapters of a network bridge do not have '
            'the same VLANs.'
        )


def _check(host: Host, bridge: Bridge, plan: Plan) -> None:
    """Check the trunk adapters of one server against each other and others."""
    if not 1 <= len(plan.trunks) <= MAX_TRUNKS:
        raise errors.BadRequest(
            f'A Shared Ethernet Adapter has 1 to {MAX_TRUNKS} trunk adapters.'
        )
    numbers = [number for trunk in plan.trunks for number in trunk.vlans]
    if bridge.pvid not in [trunk.pvid for trunk in plan.trunks]:
        raise errors.BadRequest(
            f'No trunk adapter has the PVID {bridge.pvid} of the network '
            'bridge.'
        )
    for number in numbers:
        if numbers.count(number) > 1:
            raise errors.Conflict(
                f'The VLAN {number} is on two trunk adapters of the network '
                'bridge.'
            )
    own = ethernet.trunks_of(host, bridge)
    for trunk in plan.trunks:
        network_rules.check_trunk(
            host,
            plan.vios,
            switch_id=plan.switch.id,
            wanted=trunk.vlans,
            priority=trunk.priority,
            bridge=bridge.uuid,
            leaving=own,
        )
