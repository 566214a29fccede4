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

"""The virtual Ethernet of a host: bridges and client network adapters."""

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.tasks import network_bridger
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network as pvm_network
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import partition
from nova_powervm.lpar import shared_ethernet
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import system

LOG = logging.getLogger(__name__)

_LPAR = logical_partition.LPAR
_SYSTEM = managed_system.System
_VIOS = virtual_io_server.VIOS

#: The element for the addresses that an operating system can give an adapter
#: instead of its own; pypowervm knows where it is, but not what it means.
_ALLOWED_MACS, _NO_MACS = 'AllowedOperatingSystemMACAddresses', 'NONE'


class VirtualEthernet:
    """The virtual Ethernet of the one managed system.

    :param adapter: An adapter with a session that has logged on.
    :param managed: The managed system.
    :param fixed_macs: Whether guests cannot change the MAC addresses of the
        adapters that are created.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        managed: system.RestSystem,
        *,
        fixed_macs: bool = False,
    ) -> None:
        self._adapter = adapter
        self._managed = managed
        self._fixed_macs = fixed_macs
        self._switches: dict[int, pvm_network.VSwitch] = {}

    @rest_errors.retried
    def bridges(self) -> Sequence[shared_ethernet.Bridge]:
        """Read the Shared Ethernet bridges (REST ``NetworkBridge``)."""
        with rest_errors.translated('reading the Shared Ethernet bridges'):
            wrappers = self._read_all(pvm_network.NetBridge)
            return [*filter(None, map(self._describe, wrappers))]

    def _describe(
        self, bridge: pvm_network.NetBridge
    ) -> shared_ethernet.Bridge | None:
        """Describe a bridge; return None without a Shared Ethernet Adapter."""
        try:
            return shared_ethernet.Bridge(
                uuid=bridge.uuid,
                switch=self._switch(bridge.vswitch_id).name,
                pvid=bridge.pvid,
                vlans=frozenset(bridge.list_vlans()),
                free_vlans=shared_ethernet.free_vlans_of(
                    [len(t.tagged_vlans) for t in bridge.seas[0].addl_adpts]
                ),
            )
        except (IndexError, AttributeError) as error:
            LOG.warning(
                'Shared Ethernet bridge %(uuid)s is ignored because it is '
                'incomplete: %(error)s',
                {'uuid': bridge.uuid, 'error': error},
            )
            return None

    @rest_errors.retried_on_conflict
    def provision(
        self, bridge: shared_ethernet.Bridge, vlans: Collection[int]
    ) -> None:
        """Add VLANs to a bridge.

        This would move a VLAN that another bridge of the virtual switch
        carries tagged: the caller must exclude this.

        :raises exception.RestError: A VLAN is the untagged VLAN of another
            bridge, or belongs to a trunk adapter without a bridge.
        """
        numbers = sorted(vlans)
        with rest_errors.translated(
            f'adding VLANs {numbers} to bridge {bridge}'
        ):
            network_bridger.ensure_vlans_on_nb(
                self._adapter, self._managed.wrapper.uuid, bridge.uuid, numbers
            )

    @rest_errors.retried_on_conflict
    def withdraw(self, bridge: shared_ethernet.Bridge, vlan: int) -> None:
        """Remove a VLAN from a bridge, if the bridge carries it.

        A VLAN on the first trunk adapter stays, because the driver never adds
        VLANs there.
        """
        action = f'removing VLAN {vlan} from bridge {bridge}'
        with rest_errors.translated(action):
            system_uuid = self._managed.wrapper.uuid
            network_bridger.remove_vlan_from_nb(
                self._adapter,
                system_uuid,
                bridge.uuid,
                vlan,
                fail_if_pvid=True,
            )

    @rest_errors.retried
    def occupied(self) -> Collection[tuple[str, int]]:
        """Find the VLANs of the client adapters of all partitions.

        This includes Virtual I/O Servers, foreign partitions, and VLANs that
        an operating system tags itself.

        :returns: Pairs of the name of a virtual switch and a VLAN ID.
        """
        vlans: set[tuple[str, int]] = set()
        with rest_errors.translated('reading the adapters of all partitions'):
            for kind in (_LPAR, _VIOS):
                for owner in kind.get(self._adapter):
                    for adapter in self._clients(kind, owner.uuid):
                        switch = self._switch(adapter.vswitch_id).name
                        vlans.add((switch, adapter.pvid))
                        vlans.update(
                            (switch, vlan) for vlan in adapter.tagged_vlans
                        )
        return vlans

    def _clients(
        self,
        kind: type[logical_partition.LPAR | virtual_io_server.VIOS],
        uuid: str,
    ) -> list[pvm_network.CNA]:
        """Read the client adapters of a partition, if it exists."""
        try:
            adapters = pvm_network.CNA.get(
                self._adapter, parent_type=kind, parent_uuid=uuid
            )
        except pvm.HttpNotFound:
            return []
        return [adapter for adapter in adapters if not adapter.is_trunk]

    @rest_errors.retried
    def adapters(self, lpar_uuid: str) -> Sequence[shared_ethernet.Adapter]:
        """Read the client network adapters of an LPAR.

        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        action = f'reading the adapters of LPAR {lpar_uuid}'
        with rest_errors.translated(action):
            return [*map(self._to_adapter, self._read(lpar_uuid))]

    def _to_adapter(self, adapter: pvm_network.CNA) -> shared_ethernet.Adapter:
        return shared_ethernet.Adapter(
            mac=_with_colons(adapter.mac),
            vlan=adapter.pvid,
            switch=self._switch(adapter.vswitch_id).name,
            slot=adapter.slot,
        )

    def plug(
        self, lpar: partition.Partition, adapter: shared_ethernet.Adapter
    ) -> int | None:
        """Create an adapter of an LPAR, only once even if an answer is lost.

        :returns: Its virtual slot; None if the host does not say.
        """
        try:
            return self._create(lpar, adapter)
        except exception.RestUnreachable as error:
            # It may exist although the answer was lost.
            for present in self.adapters(lpar.uuid):
                if present == adapter:
                    return present.slot
            if isinstance(error, exception.RestSilent):
                # The host may still be creating it.
                raise
            return self._create(lpar, adapter)

    def _create(
        self, lpar: partition.Partition, adapter: shared_ethernet.Adapter
    ) -> int | None:
        action = f'creating the adapter {adapter.mac} of LPAR {lpar.name}'
        with rest_errors.translated(action):
            switch = self._switch_named(adapter.switch)
            made = pvm_network.CNA.bld(
                self._adapter,
                adapter.vlan,
                switch.related_href,
                slot_num=adapter.slot,
                mac_addr=adapter.mac,
            )
            if self._fixed_macs:
                made.set_parm_value(_ALLOWED_MACS, _NO_MACS)
            slot: int | None = made.create(parent=lpar.handle).slot
            return slot

    @rest_errors.retried
    def unplug(
        self,
        lpar_uuid: str,
        mac: str,
        only: shared_ethernet.Adapter | None = None,
    ) -> None:
        """Delete the adapter with a MAC address, if it exists.

        :param only: The only adapter with this address that may be deleted;
            None for any.
        """
        action = f'deleting the adapter {mac} of LPAR {lpar_uuid}'
        with rest_errors.translated(action):
            try:
                for adapter in self._read(lpar_uuid):
                    if _with_colons(adapter.mac) == mac.lower() and (
                        only is None or self._to_adapter(adapter) == only
                    ):
                        adapter.delete()
            except (pvm.HttpNotFound, exception.PartitionNotFound):
                return

    def _read(self, lpar_uuid: str) -> list[pvm_network.CNA]:
        try:
            adapters = pvm_network.CNA.get(
                self._adapter, parent_type=_LPAR, parent_uuid=lpar_uuid
            )
        except pvm.HttpNotFound as error:
            raise exception.PartitionNotFound(uuid=lpar_uuid) from error
        return list(adapters)

    @rest_errors.retried
    def has_management_switch(self, lpar_uuid: str | None) -> bool:
        """Return whether an LPAR can get a management adapter.

        On a switch that is a Virtual Ethernet Bridge (VEB) the guests of
        different projects would reach each other. An LPAR to which somebody
        else has given an adapter there needs no other one.

        :param lpar_uuid: The LPAR; None if it is to be made.
        """
        if lpar_uuid and any(
            adapter.switch == management_adapter.SWITCH
            for adapter in self.adapters(lpar_uuid)
        ):
            return False
        name = management_adapter.SWITCH
        with rest_errors.translated('reading the virtual switches'):
            for switch in self._read_all(pvm_network.VSwitch):
                if switch.name != name:
                    continue
                if switch.mode == pvm_network.VSwitchMode.VEPA:
                    return True
                LOG.warning(
                    'LPARs get no management adapter: the virtual switch '
                    '%(name)s is in the mode %(mode)s, in which guests reach '
                    'each other. Set it to Vepa, or [powervm]rmc_adapter to '
                    'none.',
                    {'name': name, 'mode': switch.mode},
                )
        return False

    def _switch(self, number: int) -> pvm_network.VSwitch:
        """Return a virtual switch; read all if its number is unknown."""
        if number not in self._switches:
            self._read_switches()
        if number not in self._switches:
            raise exception.RestError(
                action='reading the virtual Ethernet',
                reason=f'the host does not list its virtual switch {number}',
            )
        return self._switches[number]

    def _switch_named(self, name: str) -> pvm_network.VSwitch:
        for _ in range(2):
            for switch in self._switches.values():
                if switch.name == name:
                    return switch
            self._read_switches()
        raise exception.RestError(
            action='connecting an adapter',
            reason=f'the host has no virtual switch {name}',
        )

    def _read_switches(self) -> None:
        switches = self._read_all(pvm_network.VSwitch)
        self._switches = {switch.switch_id: switch for switch in switches}

    def _read_all(self, kind: Any) -> Any:
        """Read all resources of a kind of the managed system."""
        system_uuid = self._managed.wrapper.uuid
        return kind.get(
            self._adapter, parent_type=_SYSTEM, parent_uuid=system_uuid
        )


def _with_colons(mac: str) -> str:
    """Write a MAC address as Neutron does."""
    digits = mac.replace(':', '').lower()
    return ':'.join(digits[at : at + 2] for at in range(0, 12, 2))
