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

"""A filter for Nova's scheduler, which refuses no host."""

import weakref
from collections.abc import Iterable
from typing import Any

from nova.objects import fields
from nova.scheduler import filters

from nova_powervm.scheduler import turns


class PowerVMDeviceOrderFilter(filters.BaseHostFilter):
    """Have servers that are scheduled at the same time get different devices.

    Of a host's allocation candidates, Nova claims the first and tries no
    other. Without this filter, that is the same one for all requests that
    Placement has answered before the first of them claims it, and for all
    servers of a request. The filter leaves all hosts and all candidates.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns = turns.Turns()

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> list[Any]:
        """Return all hosts; those of this driver choose among candidates.

        Nova calls this before it claims a host for a server.

        :param filter_obj_list: The states of the hosts that Nova considers
            for this server. They belong to its request.
        """
        hosts = list(filter_obj_list)
        claim = _Claim(hosts)
        for host in hosts:
            # There are no candidates when a server is rebuilt.
            if (
                host.hypervisor_type == fields.HVType.PHYP
                and len(host.allocation_candidates) > 1
            ):
                host.allocation_candidates = _Candidates(
                    host.allocation_candidates, self._turns, claim
                )
        return hosts


class _Claim:
    """Whether Nova has claimed a host since the filter ran.

    :param hosts: The states of the hosts that it can claim.
    """

    def __init__(self, hosts: list[Any]) -> None:
        # The hosts refer to this object: with more than weak references,
        # they would stay in memory until Python looks for such cycles.
        self._before = weakref.WeakKeyDictionary(
            {host: host.num_instances for host in hosts}
        )

    def is_made(self) -> bool:
        return any(
            host.num_instances != instances
            for host, instances in self._before.items()
        )


class _Candidates(list[dict[str, Any]]):
    """Allocation candidates of a host; who gets the first takes a turn.

    To choose one when the filter runs would be too early. Nova then claims
    one host, and on all others devices would lose their turn for nothing: if
    there are as many requests as devices, some of them would fail.

    :param candidates: What Placement has answered for this host.
    :param order: The order of turns in this process.
    :param claim: Nova's claim of a host for this server. Candidates that it
        reads after the claim are alternatives in case the build fails, and
        take no turn.
    """

    def __init__(
        self,
        candidates: Iterable[dict[str, Any]],
        order: turns.Turns,
        claim: _Claim,
    ) -> None:
        super().__init__(candidates)
        self._order = order
        self._claim = claim

    def __getitem__(self, index: Any) -> Any:
        if index == 0:
            providers = [candidate['allocations'] for candidate in self]
            if self._claim.is_made():
                index = self._order.choose(providers)
            else:
                index = self._order.take(providers)
        return super().__getitem__(index)


def all_filters() -> list[type[filters.BaseHostFilter]]:
    """Return the filters of Nova and this one, for ``available_filters``."""
    return [*filters.all_filters(), PowerVMDeviceOrderFilter]
