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

"""The managed system and its I/O slots, read from the REST server."""

import contextlib
import threading
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.tasks import partition as partition_tasks
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.domain import host
from nova_powervm.powervm import errors
from nova_powervm.powervm import views

LOG = logging.getLogger(__name__)


class RestSystem:
    """The one system that the REST server manages.

    :param adapter: A logged-on adapter.
    :param server: How messages call the server.
    """

    def __init__(self, adapter: pvm_adapter.Adapter, server: object) -> None:
        self._adapter = adapter
        self._server = server
        self._lock = threading.Lock()
        self._wrapper: Any = None
        self._view: host.HostView | None = None

    @property
    def wrapper(self) -> managed_system.System:
        """pypowervm's wrapper as last read; read now if it never was."""
        with self._lock:
            if self._wrapper is None:
                self._fetch()
            return self._wrapper

    @errors.retried
    def read(self) -> host.HostView:
        """Read the host; an unchanged one costs one conditional request.

        :raises exception.WrongSystemCount: There is not exactly one system.
        :raises exception.RestError: The server answered with an error.
        :raises exception.RestUnreachable: It did not answer.
        """
        with self._lock:
            unchanged = not self._fetch()
            if self._view is None or not (unchanged and self._reports_owners):
                try:
                    self._view = self._checked(self._translate())
                except exception.RestBusy:
                    # Unchanged next time, it must not pass for good.
                    self._wrapper = None
                    raise
            return self._view

    def _checked(self, view: host.HostView) -> host.HostView:
        """Refuse a reading in which all slots are gone at once."""
        if self._view and self._view.io_slots and not view.io_slots:
            raise exception.RestBusy(
                action='reading the managed system',
                reason='it reports no I/O slot any more',
            )
        return view

    @errors.retried
    def uptime(self) -> int:
        """Give the seconds since the management partition was booted.

        :returns: 0 if the host does not report it (REST element ``Uptime``).
        """
        with self._translated('reading the management partition'):
            try:
                management = partition_tasks.get_mgmt_partition(self._adapter)
            except pvm.ManagementPartitionNotFoundException:
                return 0
            return management.uptime or 0

    def _fetch(self) -> bool:
        """Refresh the wrapper; say whether it changed."""
        with self._translated('reading the managed system'):
            if self._wrapper is not None:
                try:
                    fresh = self._wrapper.refresh()
                except pvm.HttpNotFound:
                    LOG.warning('The managed system has another uuid now.')
                    self._wrapper = None
                else:
                    changed = fresh is not self._wrapper
                    self._wrapper = fresh
                    return changed
            self._wrapper = self._only(
                managed_system.System.get(self._adapter)
            )
            return True

    def _only(self, feed: list[Any]) -> managed_system.System:
        if not feed:
            raise exception.RestBusy(
                action='reading the managed system',
                reason=f'{self._server} knows no managed system yet',
            )
        if len(feed) != 1:
            raise exception.WrongSystemCount(
                server=self._server,
                count=len(feed),
                names=', '.join(str(system.system_name) for system in feed)
                or 'none',
            )
        return feed[0]

    @property
    def reports_owners(self) -> bool:
        """Whether the system as last read tells who owns its slots.

        If not, owners are worked out from the partitions' profiles.
        """
        return views.reports_owners(self.wrapper)

    @property
    def _reports_owners(self) -> bool:
        return views.reports_owners(self._wrapper)

    def _translate(self) -> host.HostView:
        owners = None if self._reports_owners else self._owners_by_profile()
        return views.host_view(self._wrapper, owners)

    def _owners_by_profile(self) -> views.Owners:
        """Work out owners where the system does not report them.

        Only then does a slot without an owner in the system's own payload
        mean nothing.
        """
        with self._translated('reading the partitions for slot owners'):
            vioses = virtual_io_server.VIOS.get(self._adapter)
            lpars = logical_partition.LPAR.get(self._adapter)
        return views.profile_owners([*vioses, *lpars])

    def _translated(
        self, action: str
    ) -> contextlib.AbstractContextManager[None]:
        return errors.translated(action, self._server)
