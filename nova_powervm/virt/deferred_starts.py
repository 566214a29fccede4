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

"""Starts instances later if Cyborg cannot tell their accelerators at boot.

After a boot of the host, Nova asks once for each instance that was running,
and sets it to ERROR if that fails. Cyborg is often started at the same time,
and its absence ends by itself, so an ERROR would stay without its cause.
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import utils
from nova.compute import vm_states
from oslo_log import log as logging

from nova_powervm import exception

LOG = logging.getLogger(__name__)


class DeferredStarts:
    """Remembers instances to start, and tries again in each cycle.

    Nothing is lost if the service is restarted: while an instance waits, its
    power state is reported as Nova has recorded it, so that Nova resumes it
    again.

    :param start: Starts an instance, given a context and nova's object.
    """

    def __init__(self, start: Callable[[Any, Any], None]) -> None:
        self._start = start
        # Threads of nova-compute add, find and remove single uuids.
        self._waiting: set[str] = set()

    def is_waiting(self, instance: Any) -> bool:
        """Return whether an instance waits for Cyborg."""
        return instance.uuid in self._waiting

    @contextlib.contextmanager
    def defer_if_unknown(self, instance: Any) -> Iterator[None]:
        """Try a start again later if Cyborg does not answer in this block.

        :param instance: nova.objects.Instance.
        """
        try:
            yield
        except exception.AcceleratorsUnknown as error:
            self._waiting.add(instance.uuid)
            LOG.warning(
                'The instance stays off for now; the next cycle tries again '
                'to start it. %s',
                error,
                instance=instance,
            )

    def retry(self, host: str) -> None:
        """Start the instances that wait, unless they changed meanwhile.

        Log errors instead of raising them: a cycle must not fail because of
        one instance.

        :param host: As in ``instance.host``.
        """
        for uuid in sorted(self._waiting):
            # As nova-compute does for all operations of an instance.
            utils.synchronized(uuid)(self._retry_one)(uuid, host)

    def _retry_one(self, uuid: str, host: str) -> None:
        context = nova_context.get_admin_context()
        self._waiting.discard(uuid)
        try:
            instance = objects.Instance.get_by_uuid(context, uuid)
        except nova_exception.InstanceNotFound:
            return
        if (
            instance.host != host
            or instance.vm_state != vm_states.ACTIVE
            or instance.task_state is not None
        ):
            return
        with self.defer_if_unknown(instance):
            try:
                self._start(context, instance)
            except exception.AcceleratorsUnknown:
                raise
            except Exception:
                LOG.exception(
                    'The instance cannot be started', instance=instance
                )
