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

"""A summary of the emulator's state, as JSON values."""

from typing import Any

from powervm_emulator import nouns
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun as noun_module
from powervm_emulator.core import resource
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

JSON = dict[str, Any]


def state(emulation: emulation_module.Emulation) -> JSON:
    """Summarize everything but the journal and the faults."""
    host = emulation.host
    return {
        'systems': [
            managed_system.summary(found)
            | _children(host, found)
            | {
                'partitions': [
                    partition_module.summary(other)
                    | {'terminal': _terminal(host, other)}
                    | _children(host, other)
                    for other in host.of_type(
                        partition_module.Partition, found
                    )
                ]
            }
            for found in host.of_type(managed_system.System)
        ],
        **_children(host, None),
        'jobs': [other.summary() for other in emulation.jobs],
        'job_mode': emulation.jobs.mode.value,
        'sessions': len(host.sessions),
        'powered_on': not host.is_off,
    }


def _terminal(
    host: host_module.Host, found: partition_module.Partition
) -> JSON | None:
    """Tell the port of an open terminal, which is None for some."""
    if found.uuid not in host.terminals:
        return None
    return {'port': host.terminals.port(found.uuid)}


def _children(host: host_module.Host, found: resource.Resource | None) -> JSON:
    """Summarize what a resource, or the host itself, has of each noun."""
    children: JSON = {}
    for noun in nouns.NOUNS:
        parent = found.kind if found else noun_module.ROOT
        if noun.summary and parent in noun.parents:
            children |= noun.summary(host, found)
    return children
