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

"""The ports of an instance, as Nova passes them and as Neutron has them."""

import contextlib
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import nova.conf
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.network import neutron
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import network_ports

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

_EVENT = 'network-vif-plugged'
_HOST = 'binding:host_id'
#: The key that Nova looks for in the attach handle of a network device.
_KEY_OF_NETWORK_DEVICES = 'physical_network'


def port(vif: Any) -> network_ports.Port:
    """Translate one VIF of Nova's network model.

    The physical network of the binding takes precedence over that of the
    network, which belongs to the first segment only.
    """
    details = vif.get('details') or {}
    meta = (vif.get('network') or {}).get('meta') or {}
    vlan = details.get('vlan')
    return network_ports.Port(
        id=vif['id'],
        mac=vif['address'].lower(),
        vif_type=vif.get('type') or network_ports.UNBOUND,
        vnic_type=vif.get('vnic_type') or 'normal',
        vlan=int(vlan) if vlan is not None else None,
        physical_network=details.get('physical_network')
        or meta.get('physical_network'),
    )


def ports(
    network_info: Iterable[Any] | None,
) -> tuple[network_ports.Port, ...]:
    """Translate Nova's network information of an instance."""
    return tuple(port(vif) for vif in network_info or ())


def await_allocation(instance: Any, network_info: Any) -> None:
    """Wait until Nova has allocated the networks of a build.

    :param instance: nova.objects.Instance.
    :param network_info: Nova allocates it in a thread of its own.
    :raises exception.AcceleratorRefused: A port has a device profile. Nova
        then looks for a network device in the accelerator request, and fails
        with the name of the missing key only.
    """
    try:
        len(network_info or ())
    except KeyError as error:
        if error.args != (_KEY_OF_NETWORK_DEVICES,):
            raise
        raise exception.AcceleratorRefused(
            instance_uuid=instance.uuid,
            reason='one of its ports has a device profile, but the device is '
            'not a network device that Neutron could connect. Name the '
            'profile in the flavor (accel:device_profile), and use a port '
            'without one',
        ) from error


@contextlib.contextmanager
def wait_for_plugging(
    virtapi: Any, instance: Any, network_info: Iterable[Any] | None
) -> Iterator[None]:
    """Wait at the end of the block until Neutron has plugged all ports.

    Do not wait for ports that are already active, nor for any port if
    ``[DEFAULT]vif_plugging_timeout`` is 0.

    :raises exception.PortsNotPlugged: No event arrived in time, or Neutron
        reported a failure, and ``[DEFAULT]vif_plugging_is_fatal`` is true.
    """
    waiting = [
        vif['id']
        for vif in network_info or ()
        if vif.get('active', True) is False
    ]
    if not (waiting and CONF.vif_plugging_timeout):
        yield
        return
    try:
        with virtapi.wait_for_instance_event(
            instance,
            [(_EVENT, identifier) for identifier in waiting],
            timeout=CONF.vif_plugging_timeout,
            error_callback=_on_failure,
        ):
            yield
    except nova_exception.InstanceEventTimeout as error:
        _report_unplugged(waiting, 'no event arrived', error)
    except nova_exception.VirtualInterfaceCreateException as error:
        _report_unplugged(waiting, 'Neutron reported a failure', error)


def _on_failure(event_name: str, instance: Any) -> None:
    LOG.error('Neutron reported %s as failed.', event_name, instance=instance)
    if CONF.vif_plugging_is_fatal:
        raise nova_exception.VirtualInterfaceCreateException()


def _report_unplugged(
    waiting: list[str], reason: str, error: Exception
) -> None:
    failure = exception.PortsNotPlugged(
        ports=exception.Listing(waiting),
        seconds=CONF.vif_plugging_timeout,
        reason=reason,
    )
    if CONF.vif_plugging_is_fatal:
        raise failure from error
    LOG.warning('%s The instance is started nevertheless.', failure)


@contextlib.contextmanager
def _asking_neutron(instance: Any) -> Iterator[None]:
    """Translate errors: Nova's network API passes on any of Neutron's client.

    :raises exception.PortsUnknown: Neutron did not answer.
    """
    try:
        yield
    except exception.PortsUnknown:
        raise
    except Exception as error:
        raise exception.PortsUnknown(
            instance_uuid=instance.uuid, reason=error
        ) from error


def fetch_ports(
    instance: Any, nodename: str
) -> tuple[network_ports.Port, ...]:
    """Ask Neutron which ports an instance has, and refresh Nova's cache.

    Neutron returns an empty list instead of an error to a user without the
    necessary role. Therefore trust an empty list only if Neutron shows
    bindings of ports.

    Nova unbinds the ports of an instance before it has the LPAR removed
    (``ComputeManager._shelve_offload_instance``), and binds them again only in
    the unshelve. If nova-compute was killed before the removal, have them
    bound again to the host that Nova records.

    :param instance: nova.objects.Instance.
    :param nodename: Nova's name of this host.
    :raises exception.PortsUnknown: Neutron gave no reliable answer.
    """
    context = nova_context.get_admin_context()
    with _asking_neutron(instance):
        network_info = neutron.API().get_instance_nw_info(
            context, instance, force_refresh=True
        )
        present = ports(network_info)
        if not present and not _shows_bindings(context, nodename):
            raise exception.PortsDoubtful(
                instance_uuid=instance.uuid, host=nodename
            )
        is_unbound = any(port.is_unbound for port in present)
        if is_unbound and instance.host == nodename:
            return ports(bind_ports(instance, nodename))
        return present


def _shows_bindings(context: Any, nodename: str) -> bool:
    """Return whether Neutron shows the binding of any port.

    Only administrators and services see bindings; others see the ports of
    their own projects without bindings. List all ports only if there is no
    port bound to this host.
    """
    client = neutron.get_client(context, admin=True)
    for query in ({_HOST: nodename}, {}):
        listed = client.list_ports(**query, fields=['id', _HOST])
        if any(port.get(_HOST) for port in listed['ports']):
            return True
    return False


def bind_ports(instance: Any, nodename: str) -> Any:
    """Have Neutron bind the ports of an instance to this host.

    :param instance: nova.objects.Instance.
    :param nodename: Nova's name of this host.
    :returns: Nova's network information of the ports.
    :raises exception.PortsUnknown: Neutron did not answer.
    """
    context = nova_context.get_admin_context()
    api = neutron.API()
    with _asking_neutron(instance):
        api.setup_instance_network_on_host(context, instance, nodename)
        return api.get_instance_nw_info(context, instance, force_refresh=True)


def unbind_ports(instance: Any, host: str) -> None:
    """Have ports bound to the host of an instance alone.

    A live migration has bound them to another host, too, and may have
    activated those bindings. As long as a port has a second binding, Neutron
    answers requests to bind it to that host with errors. Without an active
    binding, it can be bound to no host any more.

    :param instance: nova.objects.Instance, which is not on the other host.
    :param host: Where a live migration was to bring it, or brought it from.
    :raises exception.PortsUnknown: Neutron did not answer, or has not
        activated the bindings to the host of the instance.
    """
    if host == instance.host:
        return
    context = nova_context.get_admin_context()
    api = neutron.API()
    with _asking_neutron(instance):
        api.migrate_instance_start(
            context, instance, objects.Migration(dest_compute=instance.host)
        )
        # Nova only logs some errors of Neutron in this.
        if _has_ports_of(context, instance, host):
            raise exception.PortsUnknown(
                instance_uuid=instance.uuid,
                reason=f'ports are still bound to host {host}',
            )
        api.cleanup_instance_network_on_host(context, instance, host)


def _has_ports_of(context: Any, instance: Any, host: str) -> bool:
    """Return whether a host has an active binding of a port."""
    client = neutron.get_client(context, admin=True)
    listed = client.list_ports(device_id=instance.uuid, fields=['id', _HOST])
    return any(port.get(_HOST) == host for port in listed['ports'])


def fetch_ports_at_boot(
    instance: Any, nodename: str
) -> tuple[network_ports.Port, ...] | None:
    """Ask Neutron for the ports of an instance that is started at boot.

    Nova passes only its cache then.

    :returns: None if Neutron does not answer; the guest is then started with
        its present adapters.
    """
    try:
        return fetch_ports(instance, nodename)
    except exception.PortsUnknown as error:
        LOG.warning(
            'Starting the instance with its present adapters: %s',
            error,
            instance=instance,
        )
        return None
