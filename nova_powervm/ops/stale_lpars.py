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

"""Finds LPARs on the wrong side: their instances have moved to other hosts.

A move that was interrupted, or whose source could not be cleaned, leaves one.
It is not deleted here: whether the server is well on its host is for the
operator to see.
"""

import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm.devices import ownership
from nova_powervm.devices import slots
from nova_powervm.ops import host
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

#: Seconds between two searches among all LPARs.
SEARCH_SECONDS = 600


class StaleLpars:
    """Logs each LPAR on the wrong side once, as long as it is there.

    Those that own slots are found at once, others within ten minutes.

    :param partitions: The host's LPARs.
    :param records: Nova's records of instances.
    :param nodename: The name of this host, as in ``instance.host``.
    :param clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        records: interfaces.Records,
        nodename: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions = partitions
        self._records = records
        self._nodename = nodename
        self._clock = clock
        self._searched_at: float | None = None
        self._without_slots: Mapping[str, ownership.StaleLpar] = {}
        self._logged: Mapping[str, ownership.StaleLpar] = {}

    def report(self, snapshot: host.Snapshot) -> None:
        """Log the LPARs that the last report did not find.

        Call this when Nova has deleted what was evacuated while the host was
        down, thus not before the first cycle.

        :param snapshot: The last reading of the host.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        self._search(snapshot.stale_lpars)
        found = {**self._without_slots, **snapshot.stale_lpars}
        still_logged = {}
        for lpar_uuid, stale in sorted(found.items()):
            if self._logged.get(lpar_uuid) == stale or self._log(
                lpar_uuid, stale
            ):
                still_logged[lpar_uuid] = stale
        self._logged = still_logged

    def _search(self, known: Collection[str]) -> None:
        """Search among all LPARs but those that are known."""
        now = self._clock()
        if (
            self._searched_at is not None
            and now - self._searched_at < SEARCH_SECONDS
        ):
            return
        self._without_slots = self._records.stale_lpars(
            self._partitions.names().keys() - known, self._nodename
        )
        self._searched_at = now

    def _log(self, uuid: str, stale: ownership.StaleLpar) -> bool:
        """Log an LPAR; return whether it is still on the wrong side.

        Since it was found, a move may have removed it, or come back to it.
        """
        lpar = self._partitions.find(uuid)
        if lpar is None or uuid not in self._records.stale_lpars(
            [uuid], self._nodename
        ):
            return False
        LOG.error(
            'LPAR %(name)s (%(uuid)s, %(state)s) is on the wrong side: '
            'instance %(instance_uuid)s is on host %(host)s. Its slots '
            '(%(slots)s) are not offered. Check that the server is well on '
            '%(host)s; then remove the LPAR here with `pvmctl lpar '
            'power-off` and `pvmctl lpar delete`. Keep its disks: the server '
            'uses them.',
            {
                'name': lpar.name,
                'uuid': uuid,
                'state': lpar.state,
                'instance_uuid': stale.instance_uuid,
                'host': stale.host,
                'slots': ', '.join(
                    map(slots.format_drc_index, sorted(lpar.slots))
                )
                or 'none',
            },
        )
        return True
