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

"""A host that hangs is not waited for once for each instance."""

import contextlib
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from nova_powervm import exception

#: How often in a row it is waited for, as it may have been a passing thing.
MAX_WAITS = 2
#: How long it is not asked then.
PAUSE_SECONDS = 60


class SilentHostLimiter:
    """What one thread asks one host, instance by instance.

    :param clock: Gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits = 0
        self._waited_at = 0.0
        self._fields: dict[str, Any] = {}

    @contextlib.contextmanager
    def limit_waits(self) -> Iterator[None]:
        """Ask the host something, if it is not known to be silent.

        :raises exception.RestSilent: It did not answer, or it is not asked.
        """
        if (
            self._waits >= MAX_WAITS
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
