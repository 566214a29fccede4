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

"""Starts instances later if they cannot be started yet.

After a boot of the host, Nova has each instance started that was running, and
sets it to ERROR if that fails. Virtual I/O Servers and Cyborg are often
started at the same time and available soon, but the ERROR would stay.
"""

import sys
from collections.abc import Callable
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import utils
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.virt import errors

LOG = logging.getLogger(__name__)

#: Cycles in which a start is tried again: about an hour by Nova's defaults.
RETRIES = 60
#: The states of instances that Nova starts at boot.
_STARTED = (vm_states.ACTIVE, vm_states.RESCUED)


class DeferredStarts:
    """Remembers instances to start, and tries again in some cycles.

    While an instance waits, its power state is reported as Nova has recorded
    it, so that Nova resumes it again after a restart of the service. Once the
    start is given up, Nova records the instance as stopped.

    :param start: Starts an instance, given a context and the instance.
    """

    def __init__(self, start: Callable[[Any, Any], None]) -> None:
        self._start = start
        # By uuid. Threads of nova-compute add, find and remove single items.
        self._retries_left: dict[str, int] = {}

    def is_waiting(self, instance: Any) -> bool:
        """Return whether an instance waits for its start, and for no task."""
        return (
            instance.uuid in self._retries_left
            and instance.vm_state in _STARTED
            and instance.task_state is None
        )

    def forget(self, instance: Any) -> None:
        """Give up a start, because a user decides about the instance."""
        self._retries_left.pop(instance.uuid, None)

    def start_or_defer(self, context: Any, instance: Any) -> None:
        """Start an instance, or start it later if it may succeed then.

        :param context: The context of the request.
        :param instance: nova.objects.Instance.
        :raises exception.PowerVMError: A later start cannot succeed without
            intervention; the instance has the error as its fault.
        """
        try:
            self._start(context, instance)
        except exception.PowerVMError as error:
            if not error.retryable:
                self._give_up(context, instance, error)
                raise
            self._retries_left[instance.uuid] = RETRIES
            _log_waiting(instance, error)

    def retry(self, nodename: str) -> None:
        """Start the instances that wait, unless they changed meanwhile.

        Log errors instead of raising them: a cycle must not fail because of
        one instance. Leave an instance that is busy to the next cycle, and all
        further instances if Cyborg does not answer.

        :param nodename: As in ``instance.host``.
        """
        for uuid in list(self._retries_left):
            try:
                # As nova-compute does for all operations of an instance.
                utils.synchronized(uuid, blocking=False)(self._retry_one)(
                    uuid, nodename
                )
            except lockutils.AcquireLockFailedException:
                LOG.debug('Instance %s is busy; it is started later.', uuid)
            except exception.CyborgSilent:
                return
            except Exception:
                LOG.exception('Instance %s cannot be started', uuid)

    def _retry_one(self, uuid: str, nodename: str) -> None:
        """Start an instance, and forget it unless it has to wait longer."""
        context = nova_context.get_admin_context()
        try:
            instance = objects.Instance.get_by_uuid(context, uuid)
        except nova_exception.InstanceNotFound:
            del self._retries_left[uuid]
            return
        if instance.host != nodename or instance.vm_state not in _STARTED:
            self.forget(instance)
        elif instance.task_state is None:
            self._retries_left[uuid] -= 1
            try:
                self._start(context, instance)
            except exception.PowerVMError as error:
                if not error.retryable or self._retries_left[uuid] <= 0:
                    self._give_up(context, instance, error)
                    return
                _log_waiting(instance, error)
                if isinstance(error, exception.CyborgSilent):
                    raise
            else:
                self.forget(instance)

    def _give_up(
        self, context: Any, instance: Any, error: exception.PowerVMError
    ) -> None:
        """Forget an instance, and record why it stays off."""
        self.forget(instance)
        LOG.error(
            'The instance cannot be started: %s', error, instance=instance
        )
        compute_utils.add_instance_fault_from_exc(
            context,
            instance,
            nova_exception.NovaException(errors.for_users(error)),
            sys.exc_info(),
        )


def _log_waiting(instance: Any, error: exception.PowerVMError) -> None:
    LOG.warning(
        'The instance stays off for now; the next cycle tries again to start '
        'it. %s',
        error,
        instance=instance,
    )
