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

"""What the host shows without being asked: states that nobody requested.

A starting nova-compute waits until the host reports what it needs. Nova is
told promptly of LPARs that stop by themselves. Stale LPARs, whose instances
have moved to other hosts, are reported: a move that was interrupted, or whose
source could not be cleaned, leaves one. It is not deleted here: whether the
server is well on its host is for the operator to see.
"""

import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.ops import host
from nova_powervm.ops import interfaces
from nova_powervm.ops import power

LOG = logging.getLogger(__name__)

#: Seconds to wait for the other states once one is known.
GRACE_SECONDS = 60


class Readiness:
    """Whether the power states of all instances are known.

    Nova compares each state with its record only when it starts, and then
    starts the instances that a boot of the host stopped. A booting host
    reports its LPARs before their states.

    :param partitions: The host's LPARs.
    :param records: Nova's records of instances.
    :param clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        records: interfaces.Records,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions = partitions
        self._records = records
        self._clock = clock
        # When the host first reported some states, but not all.
        self._some_known_since: float | None = None

    def check(self) -> None:
        """Refuse while the power state of an instance is unknown.

        :raises exception.StatesUnknown: The state of an instance is unknown.
        :raises exception.StatesStayUnknown: The state of an instance is
            unknown although other states have been known for a while. One
            defective LPAR must not delay each start by the full time limit.
        :raises exception.RestUnreachable: The LPARs cannot be listed.
        """
        try:
            names = self._partitions.names()
        except exception.RestError as error:
            raise exception.StatesUnknown(
                lpars='all LPARs', reason=error
            ) from error
        unknown = {}
        ours = sorted(self._records.instances_of(names))
        for uuid in ours:
            reason = _why_unknown(self._partitions, uuid)
            if reason is not None:
                unknown[names[uuid]] = reason
            if isinstance(reason, exception.RestUnreachable):
                # Asking for each of the others would time out as well.
                raise _refusal(exception.StatesUnknown, unknown)
        if not unknown:
            return
        if self._grace_is_over(some_known=len(unknown) < len(ours)):
            raise _refusal(exception.StatesStayUnknown, unknown)
        raise _refusal(exception.StatesUnknown, unknown)

    def _grace_is_over(self, *, some_known: bool) -> bool:
        now = self._clock()
        if not some_known:
            self._some_known_since = None
        elif self._some_known_since is None:
            self._some_known_since = now
        return (
            self._some_known_since is not None
            and now >= self._some_known_since + GRACE_SECONDS
        )


def _refusal(
    error: type[exception.StatesUnknown], unknown: dict[str, object]
) -> exception.StatesUnknown:
    return error(
        lpars=f'LPAR {", ".join(unknown)}', reason=next(iter(unknown.values()))
    )


def _why_unknown(
    partitions: interfaces.Partitions, uuid: str
) -> object | None:
    """Read a state as Nova will; return None if it is known."""
    try:
        state = partitions.state(uuid)
    except exception.PartitionNotFound:
        return None
    except exception.PowerVMError as error:
        return error
    if partition.power(state) is partition.Power.UNKNOWN:
        return f'the host says "{state}"'
    return None


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
        self, lpar_uuids: Collection[str] | None, wait: Callable[[float], bool]
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
        self._without_slots: Mapping[str, slot_providers.StaleLpar] = {}
        self._logged: Mapping[str, slot_providers.StaleLpar] = {}

    def report(self, reading: host.Reading) -> None:
        """Log the LPARs that the last report did not find.

        Call this when Nova has deleted what was evacuated while the host was
        down, thus not before the first cycle.

        :param reading: The last reading of the host.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        self._search(reading.stale_lpars)
        found = {**self._without_slots, **reading.stale_lpars}
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

    def _log(self, uuid: str, stale: slot_providers.StaleLpar) -> bool:
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
