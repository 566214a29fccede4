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

"""Chooses among candidates the one whose providers have waited longest."""

import itertools
import random
import threading
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence

#: How many providers are remembered. Only turns matter that other requests
#: took while one was scheduled, which is a matter of seconds.
LIMIT = 10_000


class Turns:
    """The order in which this process took providers.

    Several threads can use it: with the same candidates at the same time they
    get different ones.

    :param limit: How many providers to remember; those taken last are kept.
    :param tiebreak: Returns a number; of equal candidates, that with the
        lowest one is next. The default is a function of the module
        ``random``, which Python seeds anew in each forked worker: workers
        with the same random numbers would take the same devices.
    """

    def __init__(
        self,
        limit: int = LIMIT,
        tiebreak: Callable[[], float] = random.random,
    ) -> None:
        self._limit = limit
        self._tiebreak = tiebreak
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        # Number of each provider's last turn, in ascending order.
        self._last: dict[str, int] = {}

    def choose(self, candidates: Sequence[Collection[str]]) -> int:
        """Return the index of the candidate that is next.

        :param candidates: The providers of each; there is at least one.
        """
        with self._lock:
            return self._choose(candidates)

    def take(self, candidates: Sequence[Collection[str]]) -> int:
        """Choose a candidate, and make its providers the last in the order.

        :param candidates: The providers of each; there is at least one.
        """
        with self._lock:
            index = self._choose(candidates)
            number = next(self._numbers)
            for provider in candidates[index]:
                self._last.pop(provider, None)
                self._last[provider] = number
            while len(self._last) > self._limit:
                del self._last[next(iter(self._last))]
            return index

    def _choose(self, candidates: Sequence[Collection[str]]) -> int:
        return min(
            range(len(candidates)),
            key=lambda index: (
                self._turns_of(candidates[index]),
                self._tiebreak(),
            ),
        )

    def _turns_of(self, providers: Collection[str]) -> list[int]:
        """Return the last turns of a candidate's providers, latest first.

        Compared as lists, turns that all candidates have in common cancel
        out: those of the compute node itself or of a shared storage pool.
        """
        return sorted((self._last.get(p, 0) for p in providers), reverse=True)
