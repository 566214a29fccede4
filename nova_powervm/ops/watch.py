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

"""Watches the host for states that no operation of Nova's has caused.

A starting nova-compute waits until the host reports the states of its LPARs.
Nova is told promptly of LPARs that stop by themselves. Stale LPARs, whose
instances have moved to other hosts, are reported: a move that was interrupted,
or whose source could not be cleaned, leaves one. They are not deleted here:
the operator has to see whether the server is well on its host.
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

#: Seconds to wait for the other states once one state is known.
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
                # The question for each of the others would time out as well.
                raise _refusal(exception.StatesUnknown, unknown)
        if not unknown:
            return
        if self._grace_is_over(some_known=len(unknown) < len(ours)):
            raise _refusal(exception.StatesStayUnknown, unknown)
        raise _refusal(exception.StatesUnknown, unknown)

    def _grace_is_over(self, *, some_known: bool) -> bool:
        if not some_known:
            self._some_known_since = None
            return False
        now = self._clock()
        if self._some_known_since is None:
            self._some_known_since = now
        return now >= self._some_known_since + GRACE_SECONDS


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
    :param nodename: This host's name in Nova, as in ``instance.host``.
    :param emit: Tells Nova that an instance, by its uuid, has stopped.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        records: interfaces.Records,
        nodename: str,
        emit: Callable[[str], None],
    ) -> None:
        self._partitions = partitions
        self._records = records
        self._nodename = nodename
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
        seen = suspects = self._find_off()
        while suspects and not wait(SETTLE_SECONDS):
            off = self._find_off()
            for lpar_uuid in sorted(suspects.keys() & off.keys()):
                code = power.reference_code(self._partitions, lpar_uuid)
                LOG.info(
                    'LPAR %(lpar_uuid)s of instance %(instance_uuid)s has '
                    'stopped by itself (reference code %(code)s).',
                    {
                        'lpar_uuid': lpar_uuid,
                        'instance_uuid': off[lpar_uuid],
                        'code': code or 'none',
                    },
                )
                self._emit(off[lpar_uuid])
            suspects = {k: v for k, v in off.items() if k not in seen}
            seen = {**seen, **off}

    def _find_off(self) -> Mapping[str, str]:
        """Map the LPARs that should be running but are off to instances."""
        states = self._partitions.states()
        off = partition.Power.OFF
        return self._find_running(
            [uuid for uuid in states if partition.power(states[uuid]) is off]
        )

    def _find_running(self, lpar_uuids: Collection[str]) -> Mapping[str, str]:
        return self._records.running(lpar_uuids, self._nodename)


#: Seconds between two searches among all LPARs.
SEARCH_SECONDS = 600


class StaleLpars:
    """Logs each stale LPAR once, as long as it is there.

    Stale LPARs that own slots are found at once, others within ten minutes.

    :param partitions: The host's LPARs.
    :param records: Nova's records of instances.
    :param nodename: This host's name in Nova, as in ``instance.host``.
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
        """Log the stale LPARs that the last report did not find.

        Call this when Nova has deleted the instances that were evacuated while
        the host was down, thus not before the first cycle.

        :param reading: The last reading of the host.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        self._search(reading.stale_lpars)
        lpars = {**self._without_slots, **reading.stale_lpars}
        logged = {}
        for uuid, stale in sorted(lpars.items()):
            if self._logged.get(uuid) == stale or self._log(uuid, stale):
                logged[uuid] = stale
        self._logged = logged

    def _search(self, with_slots: Collection[str]) -> None:
        """Search for stale LPARs without slots, once in a while."""
        now, last = self._clock(), self._searched_at
        if last is not None and now - last < SEARCH_SECONDS:
            return
        self._without_slots = self._records.stale_lpars(
            self._partitions.names().keys() - with_slots, self._nodename
        )
        self._searched_at = now

    def _log(self, uuid: str, stale: slot_providers.StaleLpar) -> bool:
        """Log an LPAR; return whether it is still stale.

        Since it was found, a move may have removed it, or come back to it.
        """
        lpar = self._partitions.find(uuid)
        if lpar is None or uuid not in self._records.stale_lpars(
            [uuid], self._nodename
        ):
            return False
        if stale.is_doubtful:
            LOG.error(
                'LPAR %(name)s (%(uuid)s, %(state)s) was brought here by a '
                'live migration whose end Nova does not know: Nova records '
                'instance %(instance_uuid)s on host %(host)s. It may be the '
                'only LPAR of the server, so do not remove it: see "Live '
                'migrations" in the page on stuck servers.',
                {
                    'name': lpar.name,
                    'uuid': uuid,
                    'state': lpar.state,
                    'instance_uuid': stale.instance_uuid,
                    'host': stale.host,
                },
            )
            return True
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
                'slots': slots.format_drc_indexes(lpar.slots) or 'none',
            },
        )
        return True
