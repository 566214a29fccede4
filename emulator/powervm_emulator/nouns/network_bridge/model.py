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

"""Network bridges: the model, the rules and the plan of a change."""

import dataclasses
from collections.abc import Sequence

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import fields
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.nouns import trunk_adapter
from powervm_emulator.nouns import virtual_switch
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import virtual_slots

Element = content.Element
Partition = partition_module.Partition
Adapter = net_adapter.Adapter
System = managed_system.System
Host = host_module.Host


# Trunk adapters of a Shared Ethernet Adapter.
MAX_TRUNKS = 16
MAX_SEAS = 2
BRIDGE = 'NetworkBridge'


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
    switch: virtual_switch.Switch
    sea: Element
    trunks: tuple[Trunk, ...]
    leaving: tuple[Adapter, ...]


class Bridge(resource.Resource):
    """A NetworkBridge: a Shared Ethernet Adapter, or two for failover."""

    def __init__(self, uuid: str, element: Element, system: System) -> None:
        super().__init__(BRIDGE, uuid, element, parent=system)
        self.system = system

    #: That of the primary trunk adapters.
    pvid = fields.integer('PortVLANID')

    @property
    def switch_id(self) -> int:
        """SwitchID of the switch that it bridges."""
        trunks = self.trunks
        return content.integer(trunks[0], 'VirtualSwitchID') if trunks else 0

    @property
    def seas(self) -> list[Element]:
        """Its SharedEthernetAdapter elements."""
        return content.find_all(self.element, trunk_adapter.SEA_PATH)

    @property
    def trunks(self) -> list[Element]:
        """The TrunkAdapter elements of the first SharedEthernetAdapter."""
        if not self.seas:
            return []
        return content.find_all(self.seas[0], trunk_adapter.TRUNK_PATH)


def make_plans(host: Host, bridge: Bridge, body: Element) -> list[Plan]:
    """Return what a posted bridge asks of each of its servers.

    :param bridge: as it is; for a new one, without adapters.
    :raises errors.RestError: hardware would not do it.
    """
    seas = content.find_all(body, trunk_adapter.SEA_PATH)
    plans = [
        _plan(host, bridge, vios, sea)
        for vios, sea in zip(
            servers(host, bridge.system, body), seas, strict=True
        )
    ]
    _check_twins(plans)
    for plan in plans:
        _check_plan(host, bridge, plan)
    return plans


def _plan(host: Host, bridge: Bridge, vios: Partition, sea: Element) -> Plan:
    present = {
        adapter.slot: adapter for adapter in trunks_of(host, bridge, vios)
    }
    leaving = dict(present)
    wanted: list[Trunk] = []
    for element in content.find_all(sea, trunk_adapter.TRUNK_PATH):
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
    pvid, tagged = net_adapter.vlans(element)
    mac = content.text(element, 'MACAddress').upper()
    macs = [trunk.mac for trunk in others]
    if mac:
        net_adapter.check_mac(host, vios.system, mac)
    else:
        mac = net_adapter.new_mac(host, vios.system, macs)
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
    pvid, tagged = net_adapter.vlans(element)
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
) -> virtual_switch.Switch:
    """Return the switch of a bridge: of the trunks it has, or is to get."""
    if present:
        found = virtual_switch.by_id(host, bridge.system, present[0].switch_id)
        if found is not None:
            return found
    path = f'{trunk_adapter.TRUNK_PATH}/{virtual_switch.SWITCH_LINK}'
    return virtual_switch.of(host, bridge.system, sea, path)


def _check_twins(plans: Sequence[Plan]) -> None:
    """Both Shared Ethernet Adapters for failover have the same VLANs."""
    shapes = [
        sorted((trunk.pvid, sorted(trunk.tagged)) for trunk in plan.trunks)
        for plan in plans
    ]
    if any(shape != shapes[0] for shape in shapes):
        raise errors.Refused(
            'The Shared Ethernet Adapters of a network bridge do not have '
            'the same VLANs.'
        )


def _check_plan(host: Host, bridge: Bridge, plan: Plan) -> None:
    """Check the trunk adapters of one server against each other and others."""
    if not 1 <= len(plan.trunks) <= MAX_TRUNKS:
        raise errors.Refused(
            f'A Shared Ethernet Adapter has 1 to {MAX_TRUNKS} trunk adapters.'
        )
    numbers = [number for trunk in plan.trunks for number in trunk.vlans]
    if bridge.pvid not in [trunk.pvid for trunk in plan.trunks]:
        raise errors.Refused(
            f'No trunk adapter has the PVID {bridge.pvid} of the network '
            'bridge.'
        )
    for number in numbers:
        if numbers.count(number) > 1:
            raise errors.Refused(
                f'The VLAN {number} is on two trunk adapters of the network '
                'bridge.'
            )
    own = trunks_of(host, bridge)
    for trunk in plan.trunks:
        net_adapter.check_trunk(
            host,
            plan.vios,
            switch_id=plan.switch.id,
            wanted=trunk.vlans,
            priority=trunk.priority,
            bridge=bridge.uuid,
            leaving=own,
        )


def servers(host: Host, system: System, body: Element) -> list[Partition]:
    """Return the Virtual I/O Servers that a posted bridge is of.

    :raises errors.RestError: there are none, too many, or one is unknown.
    """
    found = [
        _server(host, system, sea)
        for sea in content.find_all(body, trunk_adapter.SEA_PATH)
    ]
    if not 1 <= len(found) <= MAX_SEAS or len(set(found)) != len(found):
        raise errors.Refused(
            'A network bridge has one Shared Ethernet Adapter, or two on '
            'different Virtual I/O Servers.'
        )
    return found


def check_reachable(vios: Partition) -> None:
    """A server changes its devices when it runs and can be talked to."""
    running = vios.state == partition_module.RUNNING
    if not running or vios.rmc_state != partition_module.RMC_ACTIVE:
        raise errors.Refused(
            f'The Shared Ethernet Adapters of {vios.name!r} cannot be '
            f'changed: its state is {vios.state!r} and its RMC connection '
            f'{vios.rmc_state!r}.'
        )


def check_new(host: Host, bridge: Bridge) -> None:
    """Every Shared Ethernet Adapter has a backing device of its own."""
    for vios, sea in zip(
        servers(host, bridge.system, bridge.element),
        bridge.seas,
        strict=True,
    ):
        device = _backing(sea)
        if not device:
            raise errors.Refused(
                'A Shared Ethernet Adapter needs a backing device.'
            )
        for other in content.find_all(vios.element, trunk_adapter.SEA_PATH):
            if _backing(other) == device:
                raise errors.Refused(
                    f'The device {device} of {vios.name!r} backs another '
                    'Shared Ethernet Adapter.'
                )


def check_same_servers(bridge: Bridge, body: Element) -> None:
    """An update names the Shared Ethernet Adapters that there are."""
    posted = content.find_all(body, trunk_adapter.SEA_PATH)
    wanted, present = (
        [content.target(sea, trunk_adapter.SEA_VIOS).upper() for sea in seas]
        for seas in (posted, bridge.seas)
    )
    if wanted != present:
        raise errors.Refused(
            'The Shared Ethernet Adapters of a network bridge cannot be '
            'changed: delete the bridge and make another.'
        )


def _server(host: Host, system: System, sea: Element) -> Partition:
    uuid = content.target(sea, trunk_adapter.SEA_VIOS)
    found = host.find(partition_module.VIOS, uuid)
    if not isinstance(found, Partition) or found.system is not system:
        raise errors.Refused(
            f'The system {system.name} has no Virtual I/O Server with the '
            f'uuid {uuid}.'
        )
    return found


def _backing(sea: Element) -> str:
    choice = content.find(sea, 'BackingDeviceChoice')
    if choice is None or not len(choice):
        return ''
    return content.text(choice[0], 'DeviceName')


def trunks_of(
    host: Host, bridge: Bridge, vios: Partition | None = None
) -> list[net_adapter.Adapter]:
    """Return the trunk adapters of a bridge, the primary ones first.

    :param vios: only those of this server.
    """
    found = [
        adapter
        for adapter in host.of_type(net_adapter.Adapter, vios)
        if adapter.bridge == bridge.uuid
    ]
    return sorted(found, key=lambda adapter: adapter.pvid != bridge.pvid)


def summary(host: Host, found: managed_system.System) -> resource.JSON:
    """Summarize the virtual switches and network bridges of a system."""
    return {
        'virtual_switches': [
            {'name': one.name, 'uuid': one.uuid, 'mode': one.mode}
            for one in host.of_type(virtual_switch.Switch, found)
        ],
        'network_bridges': [
            _bridge(host, one) for one in host.of_type(Bridge, found)
        ],
    }


def _bridge(host: Host, one: Bridge) -> resource.JSON:
    """Summarize a bridge; ``vlans`` are the VLANs it bridges tagged."""
    tagged = {
        int(text)
        for trunk in one.trunks
        for text in content.text(trunk, 'TaggedVLANIDs').split()
    }
    servers = [
        host.find(
            partition_module.VIOS, content.target(sea, trunk_adapter.SEA_VIOS)
        )
        for sea in one.seas
    ]
    return {
        'uuid': one.uuid,
        'switch': virtual_switch.name_of(host, one.system, one.switch_id),
        'pvid': one.pvid,
        'vlans': sorted(tagged),
        'vioses': [
            server.text('PartitionName') for server in servers if server
        ],
    }
