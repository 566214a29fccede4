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

"""Tells Nova promptly about LPARs that stop by themselves."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm.lpar import partition
from nova_powervm.ops import interfaces
from nova_powervm.ops import power

LOG = logging.getLogger(__name__)

#: Seconds for which an LPAR has to stay off. A restarting guest is off for a
#: moment, and Nova would stop it.
SETTLE_SECONDS = 12.0


class StoppedLpars:
    """Finds LPARs that are off although Nova records them as running.

    This has no state: Nova's records say which instances should be running,
    and the host says which LPARs are.

    :param partitions: The host's LPARs.
    :param records: Nova's records of instances.
    :param host: The name of this compute service.
    :param emit: Tells Nova that an instance, by its uuid, has stopped.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        records: interfaces.Records,
        host: str,
        emit: Callable[[str], None],
    ) -> None:
        self._partitions = partitions
        self._records = records
        self._host = host
        self._emit = emit

    def check(
        self,
        lpar_uuids: Collection[str] | None,
        wait: Callable[[float], bool],
    ) -> None:
        """Tell Nova about LPARs that are off and stay off for some seconds.

        Ask the host only if Nova records one of the LPARs as running, with no
        operation in progress. Send one request for all LPARs, and repeat it
        as long as any of them may have stopped.

        :param lpar_uuids: Upper-case uuids of the LPARs whose states may have
            changed; None for all LPARs of the host.
        :param wait: Waits for a number of seconds; returns True when the
            service stops.
        :raises exception.PowerVMError: The host did not answer.
        """
        if lpar_uuids is not None and not self._find_running(lpar_uuids):
            return
        seen = self._find_off()
        suspects = seen
        while suspects and not wait(SETTLE_SECONDS):
            off = self._find_off()
            for lpar_uuid in sorted(suspects.keys() & off.keys()):
                LOG.info(
                    'LPAR %(lpar_uuid)s of instance %(instance_uuid)s has '
                    'stopped by itself (reference code %(code)s).',
                    {
                        'lpar_uuid': lpar_uuid,
                        'instance_uuid': off[lpar_uuid],
                        'code': power.reference_code(
                            self._partitions, lpar_uuid
                        )
                        or 'none',
                    },
                )
                self._emit(off[lpar_uuid])
            suspects = {k: v for k, v in off.items() if k not in seen}
            seen = {**seen, **off}

    def _find_off(self) -> Mapping[str, str]:
        """Map the LPARs that should be running but are off to instances."""
        return self._find_running(
            [
                lpar_uuid
                for lpar_uuid, state in self._partitions.states().items()
                if partition.power(state) is partition.Power.OFF
            ]
        )

    def _find_running(self, lpar_uuids: Collection[str]) -> Mapping[str, str]:
        return self._records.running(lpar_uuids, self._host)
