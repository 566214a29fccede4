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

"""What sweeps over all requests have in common.

A whole sweep, or one of so many parts of it, runs if
``NOVA_POWERVM_TEST_ALL_REQUESTS`` is set, otherwise a sample that
``NOVA_POWERVM_TEST_SEED`` chooses.
"""

import logging as python_logging
import os
import re
import time

from tests.functional import base
from tests.functional import killed_threads

ALL = bool(os.environ.get('NOVA_POWERVM_TEST_ALL_REQUESTS'))
#: How many cases a sample has.
SAMPLE = 15
#: How long an operation may take.
_SECONDS = 120

FAULTS = {
    'error': {'status': 500},
    'lost request': {'drop': True},
    'lost answer': {'drop': True, 'phase': 'after'},
    'expired session': {'status': 401},
    'outdated ETag': {'status': 412},
}
#: nova-compute is killed before the host handles the request, or afterwards.
KILLS = ('killed before', 'killed after')
#: Whether whole sweeps have these in place of the faults.
KILLING = bool(os.environ.get('NOVA_POWERVM_TEST_KILLS'))
#: An administrator sets the state of the server, and its user reboots it.
STATE_SET = 'state set'
SETTING = bool(os.environ.get('NOVA_POWERVM_TEST_STATES'))
#: Polls come at any time, and logons when a session has ended.
NOT_COUNTED = re.compile('/rest/api/(uom/Event|web/Logon)')
#: Paths of the requests that faults are injected into.
COUNTED = f'^(?!.*{NOT_COUNTED.pattern})'


def counted(control):
    """Return method and label of the counted requests in a journal.

    :param control: The control plane of a host.
    """
    return [
        f'{record["method"]} {record["label"]}'
        for record in control.journal()
        if not NOT_COUNTED.search(record['path'])
    ]


def cases(requests):
    """Return number, request and fault of each case of some requests."""
    return [
        (number, request, kind)
        for number, request in enumerate(requests, start=1)
        for kind in FAULTS
        if kind != 'outdated ETag' or not request.startswith('GET')
    ]


def kills(requests):
    """Return number, request and kind of kill for each of some requests.

    One that changes nothing need not be waited for.
    """
    return [
        (number, request, kind)
        for number, request in enumerate(requests, start=1)
        for kind in KILLS
        if kind == 'killed before' or not request.startswith('GET')
    ]


def states_set(requests):
    """Return number, request and :data:`STATE_SET` for each request."""
    return [
        (number, request, STATE_SET)
        for number, request in enumerate(requests, start=1)
    ]


def keep_log_short(test):
    """Keep the log of a test that is a whole sweep within its result."""
    if ALL:
        python_logging.disable(python_logging.INFO)
        test.addCleanup(python_logging.disable, python_logging.NOTSET)


def prepare_kills(test):
    """Return the fixtures that end threads, and that count their requests.

    Call this after its setUp(): Nova's fixtures replace some of the methods
    that these guard.
    """
    threads = test.useFixture(killed_threads.Threads())
    kills = test.useFixture(
        killed_threads.RequestKills(threads, NOT_COUNTED.pattern)
    )
    # What a killed nova-compute is asked is never answered.
    test.flags(rpc_response_timeout=10)
    return threads, kills


class OneHostMixin:
    """Disturbs requests of one host in operations on one server at a time."""

    def sweep_cases(self, sample):
        """Return number, request and fault of each case, or of a sample."""
        found = kills(self.requests) if KILLING else cases(self.requests)
        if sample:
            found += kills(self.requests)
            found = sample(found, min(len(found), SAMPLE))
        return found

    def disturb(self, number, fault):
        """Have a request meet a fault, or nova-compute be killed at it."""
        if fault in KILLS:
            self.kills.arm(
                self.hosts['host1'].emulator.url,
                number,
                after=fault == 'killed after',
            )
        elif fault:
            self.control().add_fault(
                match=COUNTED, nth=number, **FAULTS[fault]
            )

    def go_on(self, server):
        """Wait for the end, and start a nova-compute that was killed.

        :returns: Whether the request was reached.
        """
        self.await_rest(server)
        self.requests = counted(self.control())
        killed = self.kills.killed.is_set()
        reached = killed or any(f['applied'] for f in self.control().faults())
        self.control().clear_faults()
        if killed:
            self.revive()
            self.await_rest(server, ends=False)
        self.kills.disarm()
        return reached

    def revive(self):
        """Start a nova-compute that was killed."""
        self.kills.disarm()
        self.threads.revive()
        self.control().clear_faults()
        self.restart_host('host1')

    def await_rest(self, server, *, ends=True):
        """Wait until no nova-compute does anything, and the task is over.

        :param ends: Whether the task ends; that of a killed nova-compute may
            not.
        """
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            waits = ends and not self.kills.killed.is_set()
            if killed_threads.are_idle() and not (
                waits and self.is_busy(server)
            ):
                return
            base.time.sleep(0.1)
        self.fail(f'what is done to {server["id"]} has no end')
