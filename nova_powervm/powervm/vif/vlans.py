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
"""VLANs that the driver adds to Shared Ethernet bridges and removes."""

import collections
import contextlib
import threading
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet
from nova_powervm.ops import drivers
from nova_powervm.powervm.vif import virtual_ethernet

LOG = logging.getLogger(__name__)

#: The driver warns of a bridge with less free space than one trunk adapter.
FEW_VLANS = shared_ethernet.VLANS_PER_TRUNK

# Nova removes a port from its records after the driver has removed the
# adapter, so the first search for unused VLANs may be too early.
_ROUNDS = 2
_PREFIX = 'vlan'


class ProvisionedVlans:
    """Adds VLANs to bridges, and removes the VLANs that it added.

    Metadata of the instances on a VLAN shows that the driver added it; the
    driver never removes another VLAN. The metadata is written after the VLAN
    was added, and removed before it, so an interruption leaves at worst an
    unused VLAN.

    :param ethernet: The virtual Ethernet of the host.
    :param records: Nova's records; None if VLANs are never removed.
    :param provision: Whether VLANs are added and removed.
    """

    def __init__(
        self,
        ethernet: virtual_ethernet.VirtualEthernet,
        records: drivers.PortRecords | None,
        *,
        provision: bool,
    ) -> None:
        self._ethernet = ethernet
        self._records = records
        #: Whether VLANs are added to bridges.
        self.provision = provision
        self._adding = threading.Lock()
        self._tidying = threading.Lock()
        # Protects the following attributes, and signals their changes.
        self._changed = threading.Condition()
        self._in_use: collections.Counter[int] = collections.Counter()
        self._removing: frozenset[int] = frozenset()
        self._added: set[shared_ethernet.Vlan] = set()
        self._loading = threading.Lock()
        self._loaded = False
        self._failed: set[shared_ethernet.Vlan] = set()
        # A killed service may have left unused VLANs.
        self._rounds = _ROUNDS

    @contextlib.contextmanager
    def using(self, ports: Sequence[network_ports.Port]) -> Iterator[None]:
        """Prevent the removal of the VLANs of ports in a block.

        Within the block, the driver sees that a bridge carries a VLAN, and
        creates an adapter on it; the VLAN must not be removed in between. If
        its removal has started, wait until it is done.
        """
        numbers = [port.vlan for port in ports if port.vlan is not None]
        with self._changed:
            self._changed.wait_for(lambda: self._removing.isdisjoint(numbers))
            self._in_use.update(numbers)
        try:
            yield
        except BaseException:
            # However the block ended, nothing may use the added VLANs now.
            self.released()
            raise
        finally:
            with self._changed:
                self._in_use.subtract(numbers)

    def provide(
        self,
        connections: Sequence[shared_ethernet.Connection],
        metadata: drivers.InstanceMetadata,
    ) -> None:
        """Add the VLANs of connections to their bridges.

        :param metadata: The metadata of the instance.
        """
        if not connections:
            return
        missing = collections.defaultdict(set)
        for connection in connections:
            if not connection.is_provisioned:
                missing[connection.bridge].add(connection.vlan)
        # Other builds on a new VLAN wait until the metadata has it.
        with self._adding:
            if missing:
                self._add(missing, metadata.instance_uuid)
            vlans = {connection.on_bridge for connection in connections}
            ours = vlans & self._added_vlans()
        if ours:
            metadata.add([_key(vlan) for vlan in ours])

    def adopt(self, keys: Collection[str]) -> None:
        """Note the VLANs of an instance's metadata as added by the driver."""
        with self._changed:
            self._added.update(_vlans(keys))

    def released(self) -> None:
        """Note that an adapter was removed, whose VLAN may be unused now."""
        self._rounds = _ROUNDS

    def tidy(self) -> None:
        """Remove unused VLANs, once in each cycle.

        Do nothing if no adapter was removed lately. Never raise an error: if
        a VLAN cannot be removed, the next cycle tries again.
        """
        rounds = self._rounds
        if not rounds:
            return
        # Before the removal: an adapter that is removed meanwhile needs all
        # rounds.
        self._rounds = rounds - 1
        if not self.remove_idle():
            self._rounds = max(self._rounds, rounds)

    def remove_idle(self) -> bool:
        """Remove the unused VLANs that the driver added; never raise an error.

        :returns: Whether all were removed; False if another thread is doing
            this, or if a thread may be about to use one, even for an instance
            that was deleted meanwhile.
        """
        if not self._tidying.acquire(blocking=False):
            return False
        try:
            return self._remove_idle()
        except exception.PowerVMError as error:
            LOG.warning(
                'Unused VLANs remain on their bridges for now: %s', error
            )
            return False
        except Exception:
            # An error of Nova's database must fail no deletion and no cycle.
            LOG.exception('Unused VLANs remain on their bridges')
            return False
        finally:
            self._tidying.release()

    def _add(
        self,
        missing: Mapping[shared_ethernet.Bridge, Collection[int]],
        instance_uuid: str,
    ) -> None:
        # A VLAN that somebody else has just added is not the driver's.
        bridges = {bridge.uuid: bridge for bridge in self._ethernet.bridges()}
        for bridge, vlans in missing.items():
            now = bridges.get(bridge.uuid, bridge)
            new = set(vlans) - now.vlans
            text = ', '.join(map(str, sorted(vlans)))
            LOG.info(
                'Adding VLAN(s) %(vlans)s to the Shared Ethernet bridge '
                '%(bridge)s.',
                {'vlans': text, 'bridge': bridge},
                instance_uuid=instance_uuid,
            )
            self._ethernet.provision(bridge, vlans)
            with self._changed:
                self._added.update(
                    shared_ethernet.Vlan(bridge.uuid, number) for number in new
                )
            _warn_of_few_vlans(now, len(new))

    def _added_vlans(self) -> frozenset[shared_ethernet.Vlan]:
        """Return the VLANs that the driver has added."""
        if not self.provision or self._records is None:
            return frozenset()
        with self._loading:
            if not self._loaded:
                self.adopt(self._records.metadata_keys())
                self._loaded = True
        with self._changed:
            return frozenset(self._added)

    def _remove_idle(self) -> bool:
        """Return whether no VLAN was left out because a thread may use it."""
        ours = self._added_vlans()
        if not ours or self._records is None:
            return True
        numbers = {vlan.number for vlan in ours}
        try:
            with self._changed:
                self._removing = frozenset(
                    number for number in numbers if self._in_use[number] <= 0
                )
                is_complete = len(self._removing) == len(numbers)
            # From here on, no build starts to use a VLAN in _removing.
            self._keep({port.vlan for port in self._records.ports()})
            awaited = _vlans(self._records.awaited_keys())
            self._keep({vlan.number for vlan in awaited})
            idle = [vlan for vlan in ours if vlan.number in self._removing]
            if idle:
                # A VLAN that cannot be removed must not block the others.
                idle.sort(key=lambda vlan: (vlan in self._failed, vlan))
                self._remove(idle, self._records)
        finally:
            self._keep(self._removing)
        return is_complete

    def _keep(self, numbers: Collection[int | None]) -> None:
        """Remove no VLAN with one of the numbers, and let builds use it."""
        with self._changed:
            self._removing -= frozenset(numbers)
            self._changed.notify_all()

    def _remove(
        self,
        idle: Sequence[shared_ethernet.Vlan],
        records: drivers.PortRecords,
    ) -> None:
        """Remove VLANs, except those of existing adapters."""
        bridges = {bridge.uuid: bridge for bridge in self._ethernet.bridges()}
        occupied = self._ethernet.occupied()
        for vlan in idle:
            bridge = bridges.get(vlan.bridge)
            # The bridges of a server that is down may be missing.
            if bridge is None or (bridge.switch, vlan.number) in occupied:
                continue
            self._failed.add(vlan)
            records.remove_key(_key(vlan))
            if vlan.number in bridge.vlans:
                LOG.info(
                    'VLAN %(vlan)d is no longer used; removing it from the '
                    'Shared Ethernet bridge %(bridge)s.',
                    {'vlan': vlan.number, 'bridge': bridge},
                )
                self._ethernet.withdraw(bridge, vlan.number)
            self._failed.discard(vlan)
            with self._changed:
                self._added.discard(vlan)


def _warn_of_few_vlans(bridge: shared_ethernet.Bridge, added: int) -> None:
    free = bridge.free_vlans - added
    if free < FEW_VLANS:
        LOG.warning(
            'Shared Ethernet bridge %(bridge)s is nearly full: it can have '
            '%(free)d more VLANs. When it is full, ports on other VLANs '
            'are refused. `pvmctl networkbridge list` shows its VLANs; '
            'remove unused ones.',
            {'bridge': bridge, 'free': max(free, 0)},
        )


def _key(vlan: shared_ethernet.Vlan) -> str:
    return f'{_PREFIX}:{vlan.bridge}:{vlan.number}'


def _vlans(keys: Collection[str]) -> Iterator[shared_ethernet.Vlan]:
    """Yield the VLANs of keys, without the keys of other drivers."""
    for key in keys:
        prefix, _, rest = key.partition(':')
        bridge, _, number = rest.rpartition(':')
        if prefix == _PREFIX and bridge and number.isdigit():
            yield shared_ethernet.Vlan(bridge, int(number))
