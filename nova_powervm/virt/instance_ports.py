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

"""The ports of an instance, as passed by Nova and as Neutron has them."""

from typing import Any

from nova import context as nova_context
from nova.network import neutron
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import network_ports
from nova_powervm.virt import vifs

LOG = logging.getLogger(__name__)

_HOST = 'binding:host_id'


def fetch_ports(instance: Any, host: str) -> tuple[network_ports.Port, ...]:
    """Ask Neutron which ports an instance has, and refresh Nova's cache.

    Neutron returns an empty list instead of an error to a user without the
    necessary role. Therefore trust an empty list only if Neutron shows
    bindings of ports.

    Nova unbinds the ports of an instance before it has its LPAR removed
    (``ComputeManager._shelve_offload_instance``), and binds them only where
    it is unshelved. If nova-compute was killed between, have them bound again
    to the host that Nova records.

    :param instance: nova.objects.Instance.
    :param host: Nova's name of this host.
    :raises exception.PortsUnknown: Neutron gave no reliable answer.
    """
    context = nova_context.get_admin_context()
    try:
        found = vifs.ports(
            neutron.API().get_instance_nw_info(
                context, instance, force_refresh=True
            )
        )
        if not found and not _shows_bindings(context, host):
            raise exception.PortsDoubtful(
                instance_uuid=instance.uuid, host=host
            )
        is_unbound = any(port.is_unbound for port in found)
        if is_unbound and instance.host == host:
            return vifs.ports(bind_ports(instance, host))
        return found
    except exception.PortsUnknown:
        raise
    except Exception as error:
        # Nova's network API passes on any error of Neutron's client.
        raise exception.PortsUnknown(
            instance_uuid=instance.uuid, reason=error
        ) from error


def _shows_bindings(context: Any, host: str) -> bool:
    """Return whether Neutron shows the binding of any port.

    Only administrators and services see bindings; others see the ports of
    their own projects without bindings. List all ports only if there is no
    port bound to this host.
    """
    client = neutron.get_client(context, admin=True)
    for query in ({_HOST: host}, {}):
        listed = client.list_ports(**query, fields=['id', _HOST])
        if any(port.get(_HOST) for port in listed['ports']):
            return True
    return False


def bind_ports(instance: Any, host: str) -> Any:
    """Have Neutron bind the ports of an instance to this host.

    :param instance: nova.objects.Instance.
    :param host: Nova's name of this host.
    :returns: Nova's network information of the ports.
    :raises exception.PortsUnknown: Neutron did not answer.
    """
    context = nova_context.get_admin_context()
    api = neutron.API()
    try:
        api.setup_instance_network_on_host(context, instance, host)
        return api.get_instance_nw_info(context, instance, force_refresh=True)
    except Exception as error:
        # Nova's network API passes on any error of Neutron's client.
        raise exception.PortsUnknown(
            instance_uuid=instance.uuid, reason=error
        ) from error


def fetch_ports_at_boot(
    instance: Any, host: str
) -> tuple[network_ports.Port, ...] | None:
    """Ask Neutron for the ports of an instance that is started at boot.

    At that time Nova passes only its cache.

    :returns: None if Neutron does not answer; the guest is then started with
        its present adapters.
    """
    try:
        return fetch_ports(instance, host)
    except exception.PortsUnknown as error:
        LOG.warning(
            'Starting the instance with its present adapters: %s',
            error,
            instance=instance,
        )
        return None
