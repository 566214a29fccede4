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

"""A process of nova-compute that may be killed or have faults."""

import dataclasses
import json
from collections.abc import Callable

from keystoneauth1 import exceptions as keystone

from tests.property.simulation import placement

#: What goes wrong with a request to Placement.
PLACEMENT = ('unreachable', 'refused', 'conflict', 'lost')
#: What goes wrong with a request to the REST server.
REST = ('unreachable', 'refused', 'lost')


class Killed(BaseException):
    """The process was killed."""


@dataclasses.dataclass
class Trouble:
    """A fault during one operation of nova-compute.

    :param kind: 'kill', 'placement', 'rest', or 'meddle' for a change by
        somebody else.
    :param at: Number of calls, or requests of the kind, that succeed before.
    :param fault: One of :data:`PLACEMENT` or :data:`REST`.
    :param times: Number of requests that fail in turn.
    :param act: The change by somebody else.
    """

    kind: str
    at: int = 0
    fault: str = ''
    times: int = 1
    act: Callable[[], None] | None = None
    #: Whether it has happened.
    done: bool = False


class Process:
    """Counts the calls of a process, and applies faults."""

    def __init__(self):
        self.dead = False
        self.trouble = None
        self._count = 0
        # Faults that were injected, by kind and name.
        self.injected = []

    def expect(self, trouble):
        """Set the fault of the next operation, or None."""
        self.trouble = trouble
        self._count = 0

    def step(self):
        """Count a call; raise if the process is killed by it."""
        trouble = self.trouble
        if trouble and trouble.kind in ('kill', 'meddle') and self._is_due(1):
            self._note(trouble.kind, '')
            if trouble.kind == 'kill':
                self.dead = True
            else:
                trouble.act()
        if self.dead:
            # A killed process cleans nothing up.
            raise Killed

    def fault(self, kind):
        """Return the fault of the current request, or None."""
        trouble = self.trouble
        if trouble and trouble.kind == kind and self._is_due(trouble.times):
            self._note(kind, trouble.fault)
            return trouble.fault
        return None

    def _is_due(self, times):
        self._count += 1
        return 0 < self._count - self.trouble.at <= times

    def _note(self, kind, fault):
        self.trouble.done = True
        self.injected.append((kind, fault))


class Adapter:
    """Sends the requests of one process to Placement.

    :param service: The Placement service.
    :param process: The process.
    """

    def __init__(self, service, process):
        self._placement = service
        self._process = process

    def get(self, url, **options):
        return self._request('get', url)

    def post(self, url, json=None, **options):
        return self._request('post', url, json)

    def put(self, url, json=None, **options):
        return self._request('put', url, json)

    def delete(self, url, **options):
        return self._request('delete', url)

    def _request(self, method, url, content=None):
        self._process.step()
        fault = self._process.fault('placement')
        if fault == 'unreachable':
            raise keystone.ConnectFailure('cut off')
        if fault == 'refused' or (fault == 'conflict' and method == 'get'):
            return placement.Answer(503, detail='busy')
        if fault == 'conflict':
            return placement.Answer(
                409, code=placement.STALE, detail='somebody else'
            )
        # Only JSON can be sent.
        sent = json.loads(json.dumps(content, default=sorted))
        answer = self._placement.answer(method, url, sent)
        if fault == 'lost':
            raise keystone.ConnectTimeout('no answer')
        return answer
