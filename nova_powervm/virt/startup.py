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

from nova_powervm.virt import silent_host


class Startup:
    """The time before the first cycle of Nova's resource tracker.

    nova-compute accepts no requests yet: no build is in progress.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._silent_host = silent_host.SilentHostLimiter()

    def end(self) -> bool:
        """End it; return whether it has lasted until now."""
        ends_now, self.is_over = not self.is_over, True
        return ends_now

    def limit_waits(self) -> contextlib.AbstractContextManager[None]:
        """Avoid waiting for a silent host once per instance at start."""
        if self.is_over:
            return contextlib.nullcontext()
        return self._silent_host.limit_waits()
