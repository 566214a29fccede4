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

"""Whether the host reports what a starting nova-compute needs."""

import time
from collections.abc import Callable

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.ops import interfaces

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
        lpars=f'LPAR {", ".join(unknown)}',
        reason=next(iter(unknown.values())),
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
