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

"""Disks in a shared pool whose instances Nova has deleted."""

from oslo_log import log as logging

from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)


class PoolOrphans:
    """Removes disks that no instance of any host needs.

    A host was down when Nova deleted its instance, or could not remove the
    disks of a failed build. Only Nova tells: other hosts have disks there.

    :param disks: The disk driver.
    :param records: Nova's records of instances.
    """

    def __init__(
        self, disks: disk_interfaces.Disks, records: interfaces.Records
    ) -> None:
        self._disks = disks
        self._records = records

    def remove(self) -> None:
        """Remove the disks of instances that are deleted or on no host.

        Read the pool first: disks that another host makes meanwhile are not
        among those that are removed.

        :raises exception.PowerVMError: The host refused or did not answer.
        """
        pool = self._disks.pool
        found = pool.disks() if pool else ()
        if pool is None or not found:
            return
        gone = self._records.gone({known.lpar for known in found})
        doomed = [known for known in found if known.lpar in gone]
        if doomed:
            LOG.warning(
                'Removing the disks %(names)s from the shared storage pool: '
                'Nova has deleted their instances, or they are on no host.',
                {'names': ', '.join(known.stored.name for known in doomed)},
            )
            pool.delete(doomed)
