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

"""What differs while nova-compute starts."""

import contextlib
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from nova_powervm import exception

#: Consecutive timeouts before pausing; a single one may be temporary.
MAX_WAITS = 2
#: Seconds for which a silent host is not asked after that.
PAUSE_SECONDS = 60


class Startup:
    """The time before the first cycle of Nova's resource tracker.

    nova-compute accepts no requests yet: no build is in progress. Nova asks
    for each instance in turn, and every request to a host that hangs lasts
    until its timeout.

    :param clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_over = False
        self._clock = clock
        self._waits = 0
        self._waited_at = 0.0
        self._fields: dict[str, Any] = {}

    def end(self) -> bool:
        """End it; return whether it has lasted until now."""
        ends_now, self.is_over = not self.is_over, True
        return ends_now

    @contextlib.contextmanager
    def limit_waits(self) -> Iterator[None]:
        """Run the block unless the host is known to hang while this lasts.

        :raises exception.RestSilent: The host did not answer in this block,
            or in the preceding ones.
        """
        if (
            not self.is_over
            and self._waits >= MAX_WAITS
            and self._clock() < self._waited_at + PAUSE_SECONDS
        ):
            raise exception.RestSilent(**self._fields)
        try:
            yield
        except exception.RestSilent as error:
            self._waits += 1
            self._waited_at = self._clock()
            self._fields = error.fields
            raise
        self._waits = 0
