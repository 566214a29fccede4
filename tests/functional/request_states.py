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

"""What an operation does to a server whose request has some state.

The page doc/source/admin/cyborg.rst shows this table. The functional tests of
test_request_states tell the cells of TOLD on real services; the unit tests of
test_accelerator_requests tell what the driver decides in every state.
"""

import enum


class Result(enum.StrEnum):
    """The words of the table; the page says what each means."""

    WORKS = 'works'
    REFUSED = 'refused'
    FAILS = 'build fails'
    STAYS = 'evacuation fails'
    STUCK = 'stuck'
    LATER = 'starts later'
    OFF = 'stays off'


INITIAL = 'Initial'
BIND_STARTED = 'BindStarted'
BOUND = 'Bound'
BIND_FAILED = 'BindFailed'
UNBOUND = 'Unbound'
UNBIND_FAILED = 'UnbindFailed'
DELETING = 'Deleting'
FEWER = 'One of two is missing'
NO_ANSWER = 'Cyborg does not answer'

STATES = (
    INITIAL,
    BIND_STARTED,
    BOUND,
    BIND_FAILED,
    UNBOUND,
    UNBIND_FAILED,
    DELETING,
    FEWER,
    NO_ANSWER,
)

SPAWN = 'Create'
RESCHEDULE = 'Create, on the second host'
SOFT_REBOOT = 'Soft reboot'
HARD_REBOOT = 'Hard reboot'
START = 'Start'
REBUILD = 'Rebuild'
EVACUATE = 'Evacuate'
HOST_BOOT = 'Boot of the host'


def _row(others, **exceptions):
    """Return the results of one operation by state.

    :param others: Result for the states that are not exceptions; BOUND works.
    """
    names = {name.lower(): value for name, value in globals().items()}
    row = dict.fromkeys(STATES, others) | {BOUND: Result.WORKS}
    return row | {names[name]: result for name, result in exceptions.items()}


#: Operation -> state -> result.
TABLE = {
    SPAWN: _row(Result.FAILS),
    RESCHEDULE: _row(Result.FAILS),
    SOFT_REBOOT: _row(Result.REFUSED),
    HARD_REBOOT: _row(Result.REFUSED),
    START: _row(Result.REFUSED),
    REBUILD: _row(
        Result.REFUSED,
        unbound=Result.STUCK,
        unbind_failed=Result.STUCK,
        no_answer=Result.STUCK,
    ),
    EVACUATE: _row(Result.STAYS),
    HOST_BOOT: _row(
        Result.LATER,
        bind_failed=Result.OFF,
        deleting=Result.OFF,
        fewer=Result.OFF,
    ),
}

#: Operation -> states in which it is done on real Nova and Cyborg: each result
#: of each operation, and each state once.
TOLD = {
    SPAWN: (INITIAL, BOUND),
    RESCHEDULE: (DELETING, BOUND),
    SOFT_REBOOT: (UNBIND_FAILED, BOUND),
    HARD_REBOOT: (UNBOUND, BOUND),
    START: (FEWER, BOUND),
    REBUILD: (BIND_STARTED, NO_ANSWER, BOUND),
    EVACUATE: (BIND_FAILED, BOUND),
    # While Cyborg does not answer: see test_accelerators.
    HOST_BOOT: (INITIAL, FEWER, BOUND),
}
