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
"""Nova's records of ports, and the keys that VIF drivers keep in them.

VIF drivers keep keys in an instance's system metadata: an item's name has the
key and the host, and its value is the host. An instance that moves has keys of
several hosts.

The host and Neutron cannot replace the keys. A bridge lists its VLANs without
saying who added each, and has no field for it. Neutron knows the VLANs of its
present networks, any of which an administrator may have added to the bridge,
but not the unwanted VLAN of a network that was deleted.
"""

from collections.abc import Collection
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import task_states
from oslo_log import log as logging

from nova_powervm.lpar import network_ports
from nova_powervm.lpar import partition
from nova_powervm.ops import drivers
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import system_metadata

LOG = logging.getLogger(__name__)


def _keys(instance: Any, nodename: str) -> frozenset[str]:
    if 'system_metadata' not in instance:
        return frozenset()
    return frozenset(
        system_metadata.items_of_host(instance.system_metadata, nodename)
    )


class NovaInstanceMetadata(drivers.InstanceMetadata):
    """The keys of one instance.

    :param instance: nova.objects.Instance; without its system metadata it has
        no keys.
    :param nodename: The host that the keys belong to.
    """

    def __init__(self, instance: Any, nodename: str) -> None:
        self._instance = instance
        self._nodename = nodename

    @property
    def instance_uuid(self) -> str:
        return str(self._instance.uuid)

    def read(self) -> Collection[str]:
        return _keys(self._instance, self._nodename)

    def add(self, keys: Collection[str]) -> None:
        """Write keys, or log that this failed.

        The only consequence is that the resources of the keys are not cleaned
        up after a restart of the service.
        """
        try:
            nodename = self._nodename
            items = {
                system_metadata.of_host(key, nodename): nodename
                for key in set(keys) - set(self.read())
            }
            if items:
                system_metadata.change(self._instance, items)
        except Exception as error:
            # Any error of Nova's database or RPC: a build must not fail
            # because of its clean-up.
            LOG.warning(
                'The metadata %(keys)s cannot be written to the instance: '
                '%(error)s. What they stand for may remain on the host when '
                'it is no longer used.',
                {'keys': ', '.join(sorted(keys)), 'error': error},
                instance=self._instance,
            )


class NovaPortRecords(drivers.PortRecords):
    """Nova's records of the ports of this host's instances.

    :param nodename: Nova's name of this host.
    """

    def __init__(self, nodename: str) -> None:
        self._nodename = nodename

    def metadata_keys(self) -> Collection[str]:
        instances = self._with_metadata()
        keys = (_keys(instance, self._nodename) for instance in instances)
        return frozenset().union(*keys)

    def awaited_keys(self) -> Collection[str]:
        """Return the keys of instances that live migrations may bring."""
        lpar_uuids = instance_records.NovaRecords().awaited(self._nodename)
        if not lpar_uuids:
            return ()
        uuids = {
            uuid
            for lpar_uuid in lpar_uuids
            for uuid in partition.instance_uuids(lpar_uuid)
        }
        instances = objects.InstanceList.get_by_filters(
            nova_context.get_admin_context(),
            {'uuid': sorted(uuids), 'deleted': False},
            expected_attrs=['system_metadata'],
        )
        keys = (_keys(instance, self._nodename) for instance in instances)
        return frozenset().union(*keys)

    def remove_key(self, key: str) -> None:
        for instance in self._with_metadata():
            items = system_metadata.items_of_host(
                instance.system_metadata, self._nodename
            )
            if key in items:
                system_metadata.change_recorded(
                    instance.uuid, dict.fromkeys(items[key])
                )

    def _with_metadata(self) -> list[Any]:
        """Return the instances that may have keys of this host.

        An instance that has moved away still has keys if nova-compute was
        killed in the step that removes its LPAR.
        """
        residents = list(self._instances('system_metadata'))
        moved = {
            migration.instance_uuid
            for migration in objects.MigrationList.get_by_filters(
                nova_context.get_admin_context(), {'host': self._nodename}
            )
        } - {instance.uuid for instance in residents}
        if not moved:
            return residents
        others = objects.InstanceList.get_by_filters(
            nova_context.get_admin_context(),
            {'uuid': sorted(moved), 'deleted': False},
            expected_attrs=['system_metadata'],
        )
        return [*residents, *others]

    def ports(self) -> Collection[network_ports.Port]:
        return [
            port
            for instance in self._instances('info_cache')
            if instance.task_state != task_states.DELETING
            for port in instance_ports.ports(instance.get_network_info())
        ]

    def _instances(self, attribute: str) -> Any:
        return objects.InstanceList.get_by_host(
            nova_context.get_admin_context(),
            self._nodename,
            expected_attrs=[attribute],
        )
