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

"""The volume group that instances' disks are made on."""

import math
import threading

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.tasks import storage as storage_tasks
from pypowervm.wrappers import storage

from nova_powervm import exception
from nova_powervm.domain import host
from nova_powervm.powervm import errors


class NoStorage:
    """A host on which no volume group was configured."""

    def capacity(self) -> host.DiskCapacity:
        """Give the size of nothing."""
        return host.DiskCapacity()


class VolumeGroup:
    """A volume group of one of the Virtual I/O Servers.

    :param adapter: A logged-on adapter.
    :param name: Its name (REST element ``GroupName``).
    """

    def __init__(self, adapter: pvm_adapter.Adapter, name: str) -> None:
        self._adapter = adapter
        self._name = name
        self._lock = threading.Lock()
        self._wrapper: storage.VG | None = None

    @errors.retried
    def capacity(self) -> host.DiskCapacity:
        """Give the group's size and how much of it is taken, in whole GiB.

        :raises exception.ConfigurationError: No Virtual I/O Server has a
            group of this name.
        """
        with self._lock:
            group = self._fetch()
        # Less is promised rather than more.
        total = math.floor(group.capacity)
        free = math.floor(group.available_size)
        return host.DiskCapacity(total, max(0, total - free))

    def _fetch(self) -> storage.VG:
        with errors.translated(f'reading volume group {self._name}'):
            try:
                self._wrapper = (
                    self._wrapper.refresh() if self._wrapper else self._find()
                )
            except pvm.HttpNotFound:
                self._wrapper = self._find()
            return self._wrapper

    def _find(self) -> storage.VG:
        try:
            _, group = storage_tasks.find_vg(self._adapter, self._name)
        except pvm.VGNotFound as error:
            raise exception.ConfigurationError(
                reason=f"[powervm]volume_group_name = '{self._name}': no "
                'Virtual I/O Server of the host has a volume group of this '
                'name, or the one that has it is not running. `pvmctl vg '
                'list` shows those that there are.'
            ) from error
        return group
