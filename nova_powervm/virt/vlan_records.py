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
"""Marks in Nova's records of the VLANs that the driver has added.

A mark is an item of an instance's system metadata: bridge and VLAN are its
key, the host is its value. An instance that was moved may bear those of
several hosts.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import task_states
from oslo_log import log as logging

from nova_powervm.instance import network
from nova_powervm.virt import vifs

LOG = logging.getLogger(__name__)

_PREFIX = 'powervm_vlan'


def marks(instance: Any, host: str) -> frozenset[network.Vlan]:
    """Give the VLANs of a host that an instance is marked with.

    :param instance: nova.objects.Instance; one without its system metadata
        has no marks.
    """
    if 'system_metadata' not in instance:
        return frozenset()
    return frozenset(_marks(instance.system_metadata, host))


def _marks(metadata: dict[str, str], host: str) -> Iterator[network.Vlan]:
    for key, value in metadata.items():
        prefix, _, rest = key.partition(':')
        bridge, _, number = rest.rpartition(':')
        if prefix == _PREFIX and value == host and number.isdigit():
            yield network.Vlan(bridge, int(number))


def _key(vlan: network.Vlan) -> str:
    return f'{_PREFIX}:{vlan.bridge}:{vlan.number}'


class InstanceBearer:
    """An instance, as what bears marks.

    :param instance: nova.objects.Instance.
    :param host: The host that the VLANs are of.
    """

    def __init__(self, instance: Any, host: str) -> None:
        self._instance = instance
        self._host = host

    def mark(self, vlans: Collection[network.Vlan]) -> None:
        """Write into Nova's record that the driver has added these VLANs.

        If that fails, they stay on their bridges for good after the next
        start of the service, and nothing else is harmed.
        """
        try:
            new = set(vlans) - marks(self._instance, self._host)
            if new:
                self._write(dict.fromkeys(map(_key, new), self._host))
        except Exception as error:
            LOG.warning(
                'It can not be noted that the driver has added VLANs '
                '%(vlans)s: %(error)s. They may stay on their bridges when '
                'nobody uses them any more.',
                {
                    'vlans': ', '.join(str(v.number) for v in sorted(vlans)),
                    'error': error,
                },
                instance=self._instance,
            )

    def _write(self, items: dict[str, str]) -> None:
        """Add items to Nova's record, and to what the caller has of it."""
        recorded = _change(self._instance.uuid, lambda old: old.update(items))
        if 'system_metadata' not in self._instance:
            return
        if 'system_metadata' in self._instance.obj_what_changed():
            # The caller is going to save it.
            self._instance.system_metadata.update(items)
        else:
            self._instance.system_metadata = recorded
            self._instance.obj_reset_changes(['system_metadata'])


def _change(
    uuid: str, change: Callable[[dict[str, str]], object]
) -> dict[str, str]:
    """Change the system metadata of an instance as it is recorded now.

    Nova replaces all of it by what is saved: what others have written since
    an instance was loaded would be lost.

    :returns: What it is afterwards.
    """
    instance = objects.Instance.get_by_uuid(
        nova_context.get_admin_context(),
        uuid,
        expected_attrs=['system_metadata'],
    )
    change(instance.system_metadata)
    instance.save()
    return dict(instance.system_metadata)


class NovaVlanRecords:
    """Nova's records of who uses which VLANs on this host.

    :param host: Nova's name of it.
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def marked(self) -> Collection[network.Vlan]:
        """Give the VLANs that instances of this host are marked with."""
        return frozenset().union(
            *(
                marks(instance, self._host)
                for instance in self._instances('system_metadata')
            )
        )

    def wanted(self) -> Collection[int]:
        """Give the VLANs of all ports of this host's instances.

        Instances that are being deleted do not count.
        """
        return {
            port.vlan
            for instance in self._instances('info_cache')
            if instance.task_state != task_states.DELETING
            for port in vifs.ports(instance.get_network_info())
            if port.vlan is not None
        }

    def unmark(self, vlan: network.Vlan) -> None:
        """Take the mark of a VLAN from all instances of this host."""
        for instance in self._instances('system_metadata'):
            if vlan in marks(instance, self._host):
                _change(instance.uuid, lambda old: old.pop(_key(vlan), None))

    def _instances(self, attribute: str) -> Any:
        return objects.InstanceList.get_by_host(
            nova_context.get_admin_context(),
            self._host,
            expected_attrs=[attribute],
        )
