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

"""Whether the host tells what a starting nova-compute has to know."""

from nova_powervm import exception
from nova_powervm.domain import states
from nova_powervm.ops import ports


def check(partitions: ports.Partitions, records: ports.Records) -> None:
    """Refuse while the power state of an instance is unknown.

    Nova compares each state with its record once, when it starts, and starts
    what a boot of the host has stopped. A host that comes up knows its LPARs
    before it knows whether they run.

    :param partitions: The host's LPARs.
    :param records: Nova's records of instances.
    :raises exception.StatesUnknown: There are such instances.
    :raises exception.RestUnreachable: The LPARs can't be listed.
    """
    try:
        names = partitions.names()
    except exception.RestError as error:
        raise exception.StatesUnknown(lpars='all LPARs', reason=error) from (
            error
        )
    unknown = {}
    for uuid in sorted(records.instances_of(names)):
        reason = _why_unknown(partitions, uuid)
        if reason is not None:
            unknown[names[uuid]] = reason
        if isinstance(reason, exception.RestUnreachable):
            # The others would be waited for as long, each of them.
            break
    if unknown:
        raise exception.StatesUnknown(
            lpars=f'LPAR {", ".join(unknown)}',
            reason=next(iter(unknown.values())),
        )


def _why_unknown(partitions: ports.Partitions, uuid: str) -> object | None:
    """Ask for a state as it will be asked for later; None if it is known."""
    try:
        state = partitions.state(uuid)
    except exception.PartitionNotFound:
        return None
    except exception.PowerVMError as error:
        return error
    if states.power(state) is states.Power.UNKNOWN:
        return f'the host says "{state}"'
    return None
