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

"""Connects the ports of instances to their LPARs, as Nova asks for it."""

from typing import Any

from nova import exception as nova_exception
from nova.compute import vm_states
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.ops import apply
from nova_powervm.ops import claiming
from nova_powervm.virt import device_tags
from nova_powervm.virt import errors
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import refusals
from nova_powervm.virt import slot_records
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

#: Events that record the reason of a failure, which Nova does not show, and
#: the failed operation in words.
_ATTACH = 'powervm_attach_interface', 'attaching a port to'
_DETACH = 'powervm_detach_interface', 'detaching a port from'


class NetworkAdapters:
    """Creates and removes network adapters of LPARs.

    :param host: The operations on the host.
    """

    def __init__(self, host: host_operations.HostOperations) -> None:
        self._host = host

    def plug(self, instance: Any, network_info: Any) -> None:
        """Create the adapters that the instance's LPAR lacks.

        Leave it to a start or reboot to remove adapters. Log missing slots,
        which can be assigned only to a stopped LPAR. Nova calls this for every
        instance while nova-compute starts, so log errors instead of raising
        them: one instance must not stop the service. Nova passes its cache,
        so Neutron decides whether an adapter has to be created.
        """
        try:
            if network_info is not None:
                with self._host.startup.limit_waits():
                    outcome = self._run(
                        operations.PLUG_PORTS, instance, network_info
                    )
                slot_records.try_to_save(instance, outcome, only_idle=True)
            claiming.log_missing(
                instance.uuid,
                instance_records.stored_slots(instance.resources),
                self._host.reader.last_or_read().system,
            )
        except exception.PowerVMError as error:
            LOG.error(
                'The network adapters cannot be checked: %s',
                error,
                instance=instance,
            )
        except Exception:
            # An error of one instance would stop the service: see above.
            LOG.exception(
                'The network adapters cannot be checked', instance=instance
            )

    def unplug(self, instance: Any, network_info: Any) -> None:
        """Remove the adapters of ports from the instance's LPAR."""
        self._run(operations.DETACH_PORT, instance, network_info or ())

    def _run(
        self, operation: operations.Operation, instance: Any, vifs: Any
    ) -> apply.Outcome:
        """Carry out an operation on some ports of an instance."""
        askers = self._host.descriptions.askers(instance, vifs)
        return self._host.lpars.run(
            operation,
            spec.Wanted(
                instance.uuid,
                ports=askers.passed_ports,
                virtual_slots=slot_records.recorded(instance),
            ),
            askers,
        )

    def check_attachable(self, instance: Any) -> None:
        """Refuse early to attach a port to a server that cannot get one.

        The user sees this refusal, but not one by attach_interface.

        :raises nova.exception.AttachInterfaceNotSupported: The instance is
            running and cannot get an adapter in this state.
        """
        refusal = self._refusal(_ATTACH[1], instance)
        if refusal:
            raise nova_exception.AttachInterfaceNotSupported(refusal)

    def _refusal(self, change: str, instance: Any) -> str | None:
        """Return, and log, why the ports of a running server cannot change."""
        if instance.vm_state != vm_states.ACTIVE:
            return None
        obstacle = self._host.partitions.obstacle(
            translation.lpar_of(instance)
        )
        return obstacle and refusals.log_refusal(
            f'{change} this running server',
            instance,
            f'{obstacle.rstrip(".")}. Stop it first',
        )

    def attach(self, context: Any, instance: Any, vif: Any) -> None:
        """Connect one more port; a running instance needs RMC for it.

        :raises nova.exception.InterfaceAttachFailed: The host refused, or
            Nova cannot record the port's tag.
        """
        try:
            outcome = self._run(operations.ATTACH_PORT, instance, [vif])
        except exception.PowerVMError as error:
            LOG.error(
                'Port %(port)s cannot be attached: %(error)s',
                {'port': vif['id'], 'error': error},
                instance=instance,
            )
            self._tell_user(context, instance, _ATTACH, error)
            raise nova_exception.InterfaceAttachFailed(
                instance_uuid=instance.uuid
            ) from error
        slot_records.try_to_save(instance, outcome)
        try:
            ports = [*instance.get_network_info(), vif]
            device_tags.record(context, instance, ports)
        except Exception as error:
            LOG.exception(
                'The tag of port %s cannot be recorded; it is detached again.',
                vif['id'],
                instance=instance,
            )
            self.detach(context, instance, vif)
            raise nova_exception.InterfaceAttachFailed(
                instance_uuid=instance.uuid
            ) from error

    def detach(self, context: Any, instance: Any, vif: Any) -> None:
        """Disconnect a port if it is connected.

        :raises nova.exception.InterfaceDetachFailed: The host refused, or the
            guest may run on another host with its adapter.
        """
        try:
            self._host.locations.check(instance)
            outcome = self._run(operations.DETACH_PORT, instance, [vif])
        except exception.PowerVMError as error:
            LOG.error(
                'Port %(port)s cannot be detached: %(error)s',
                {'port': vif['id'], 'error': error},
                instance=instance,
            )
            self._tell_user(context, instance, _DETACH, error)
            raise nova_exception.InterfaceDetachFailed(
                instance_uuid=instance.uuid
            ) from error
        slot_records.try_to_save(instance, outcome)
        try:
            ports = instance.get_network_info()
            device_tags.record(
                context, instance, [p for p in ports if p['id'] != vif['id']]
            )
        except Exception:
            # The port is detached; its tag does no harm.
            LOG.exception(
                'The tag of port %s stays recorded.',
                vif['id'],
                instance=instance,
            )

    def _tell_user(
        self,
        context: Any,
        instance: Any,
        action: tuple[str, str],
        error: exception.PowerVMError,
    ) -> None:
        """Record why a port cannot be attached or detached."""
        event, change = action
        try:
            reason = self._refusal(change, instance)
        except exception.PowerVMError:
            reason = None
        reason = reason or errors.for_users(error)
        errors.record_failure(
            context, instance, event, nova_exception.NovaException(reason)
        )
