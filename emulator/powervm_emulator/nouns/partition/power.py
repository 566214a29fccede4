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

"""PowerOn and PowerOff of partitions."""

from typing import ClassVar

from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.nouns.partition import document
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import operating_system
from powervm_emulator.nouns.partition import ownership
from powervm_emulator.nouns.partition import rmc
from powervm_emulator.nouns.partition import rules
from powervm_emulator.nouns.shared_storage_pool import usage

Partition = partition_module.Partition
JobError = jobs_module.JobError
Host = host_module.Host
OPERATIONS = ('shutdown', 'osshutdown', 'dumprestart')
#: Values of ``bootmode`` that end before the operating system begins.
STOPPING_MODES = ('sms', 'of')
_RUNNING = partition_module.RUNNING
_STOPPED = 'open firmware'
# The values of TaggedIO that name no slot.
_NO_SLOT = ('', 'NONE', '0')


class _PowerOperation(jobs_module.Operation):
    """An operation that changes the state of one partition.

    :cvar during: the state of the partition while the operation runs.
    """

    target: Partition
    during: ClassVar[str]

    def start(self) -> None:
        try:
            rules.check_not_migrating(self.target)
        except errors.RestError as error:
            raise JobError(error.message) from error
        self.check()
        self._before = (self.target.state, self.target.rmc_state)

    def check(self) -> None:
        """Refuse what cannot be done.

        :raises JobError: with the message codes that clients look for.
        """
        raise NotImplementedError

    def abort(self) -> None:
        before = getattr(self, '_before', None)
        # Any other state was set by somebody else since, and stays.
        if before is not None and self.target.state == self.during:
            set_state(self.host, self.target, *before)

    def leave(self, state: str) -> None:
        """See the base class."""
        set_state(self.host, self.target, state, 'inactive')

    def check_during(self) -> None:
        """Refuse to finish what something else has overtaken.

        :raises JobError: the partition is no longer in the state that the
            start of the operation gave it.
        """
        if self.target.state != self.during:
            raise JobError(
                f'The state of the partition {self.target.name} has become '
                f'{self.target.state} and is not {self.during} any more.'
            )


class PowerOn(_PowerOperation):
    """Activate a partition.

    With its profile, which is what it is configured as, or without.
    """

    during = partition_module.STARTING

    def check(self) -> None:
        """See the base class."""
        if self.target.is_active:
            raise JobError(
                f'HSCL3681 The partition {self.target.name} is already '
                f'active: its state is {self.target.state}.'
            )
        profile = self.parameters.get(partition_module.PROFILE, '')
        if profile.lower() not in ('', self.target.profile_uuid):
            raise JobError(
                f'{self.target.name} has no profile with the uuid {profile}.'
            )
        _check_activation(self.target)

    def start(self) -> None:
        """See the base class."""
        super().start()
        set_state(self.host, self.target, self.during, 'inactive')

    def finish(self) -> dict[str, str]:
        """See the base class."""
        self.check_during()
        stops = self.parameters.get('bootmode', '') in STOPPING_MODES
        _run(self.host, self.target, _STOPPED if stops else _RUNNING)
        return {'returnCode': '0'}


class PowerOff(_PowerOperation):
    """Shut a partition down, or restart it.

    Parameters: ``operation`` is one of ``OPERATIONS``, ``restart`` true to
    activate it again, ``immediate`` is accepted and makes no difference.
    """

    during = partition_module.SHUTTING_DOWN

    @property
    def restarts(self) -> bool:
        """Whether the partition is to be active afterwards."""
        return (
            self.parameters.get('restart', '').lower() == 'true'
            or self.parameters.get('operation') == 'dumprestart'
        )

    def check(self) -> None:
        """See the base class."""
        operation = self.parameters.get('operation', 'shutdown')
        if operation not in OPERATIONS:
            raise JobError(f'{operation!r} is not a shutdown operation.')
        if not self.target.is_active:
            raise JobError(
                f'HSCL1558 The partition {self.target.name} is already '
                'powered off.'
            )
        if self.target.boolean(partition_module.MANAGEMENT):
            raise JobError(
                f'The partition {self.target.name} manages the host, and '
                'would end this job with itself.'
            )
        reachable = self.target.can_change_when_active
        if operation == 'osshutdown' and not reachable:
            raise JobError(
                f'HSCL0DB4 The operating system of {self.target.name} cannot '
                'be shut down: there is no active RMC connection.'
            )

    def start(self) -> None:
        """See the base class."""
        super().start()
        set_state(self.host, self.target, self.during, self.target.rmc_state)

    def finish(self) -> dict[str, str]:
        """See the base class."""
        self.check_during()
        if self.restarts:
            _run(self.host, self.target)
        else:
            off = partition_module.NOT_ACTIVATED
            set_state(self.host, self.target, off, 'inactive')
        return {'returnCode': '0'}


def set_state(
    host: Host,
    partition: Partition,
    state: str,
    rmc_state: str,
    boots: bool = False,
) -> None:
    """Put a partition into a state, with all that follows, and announce it.

    Memory and processors are taken from the system when it becomes active
    and given back when it is no longer.

    :param boots: as of ``document.set_state``.
    """
    held = partition.held
    document.set_state(partition, state, rmc_state, boots)
    operating_system.show(host, partition)
    host.touch(partition, 'PartitionState,ReferenceCode,Other')
    usage.settle(host.site)
    if held != partition.held:
        partition.system.take(partition.held - held)
        host.touch(partition.system)


def _run(host: Host, partition: Partition, state: str = _RUNNING) -> None:
    if state == _STOPPED:
        rmc_state = 'inactive'
    elif partition.kind == partition_module.VIOS:
        rmc_state = partition_module.RMC_ACTIVE
    else:
        has_rsct = operating_system.boots_aix(host, partition)
        rmc_state = rmc.state_after_boot(host, partition, has_rsct)
    set_state(host, partition, state, rmc_state, boots=True)


def _check_activation(partition: Partition) -> None:
    system = partition.system
    wanted = partition_module.amounts_of(system, partition.element)
    if wanted.total_memory > system.memory_available:
        raise JobError(
            f'The partition {partition.name} needs {wanted.memory} MB of '
            f'memory and {wanted.overhead} MB for the hypervisor, and '
            f'{system.memory_available} MB are available.'
        )
    if partition.units > system.units_available:
        raise JobError(
            f'The partition {partition.name} needs {partition.units:g} '
            f'processor units and {system.units_available:g} are available.'
        )
    sources = ('LoadSource', 'AlternateLoadSource')
    if partition.type == partition_module.IBM_I and all(
        partition.text(f'{partition_module.IO}/TaggedIO/{name}') in _NO_SLOT
        for name in sources
    ):
        raise JobError(f'The partition {partition.name} has no load source.')
    for drc_index, required in partition.profile_slots.items():
        problem = _slot_problem(partition, drc_index)
        if required and problem:
            raise JobError(
                f'The partition {partition.name} requires the I/O slot '
                f'{drc_index:08X}, which {problem}.'
            )


def _slot_problem(partition: Partition, drc_index: int) -> str:
    """Return why a partition cannot have a slot of its profile, or nothing."""
    slot = partition.system.find_slot(drc_index)
    if slot is None:
        return 'is not there'
    if not ownership.owns(partition, slot):
        holder = slot.owner.name if slot.owner else 'no partition'
        return f'belongs to {holder}'
    return 'is empty' if slot.is_empty else ''


BY_NAME = {'PowerOn': PowerOn, 'PowerOff': PowerOff}
