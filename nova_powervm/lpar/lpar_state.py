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

"""The states of a partition."""

import enum


class Power(enum.StrEnum):
    """The power state of an instance."""

    RUNNING = 'running'
    OFF = 'off'
    SUSPENDED = 'suspended'
    FAILED = 'failed'
    UNKNOWN = 'unknown'


#: PowerVM's states (REST type LogicalPartitionState) in lower case.
_MEANING = {
    'running': Power.RUNNING,
    'starting': Power.RUNNING,
    'open firmware': Power.RUNNING,
    'hardware discovery': Power.RUNNING,
    'shutting down': Power.RUNNING,
    'migrating running': Power.RUNNING,
    'suspending': Power.RUNNING,
    'resuming': Power.RUNNING,
    'not activated': Power.OFF,
    'migrating not active': Power.OFF,
    'suspended': Power.SUSPENDED,
    'error': Power.FAILED,
    'not available': Power.UNKNOWN,
    'unknown': Power.UNKNOWN,
}


def power(state: str) -> Power:
    """Return the power state for a state of PowerVM, which may be unknown."""
    return _MEANING.get(state.strip().lower(), Power.UNKNOWN)
