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

"""The control plane: changing the emulator from outside of the REST API.

:class:`Control` has the verbs as methods, for tests in the same process;
``client.Client`` has the same methods over HTTP. Values and answers are plain
JSON types, DRC indexes eight hexadecimal digits, partitions named by uuid,
name or id.
"""

import copy
import dataclasses
from typing import Any

from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import errors
from nova_powervm.emulator import faults as faults_module
from nova_powervm.emulator import summary
from nova_powervm.emulator import worlds
from nova_powervm.emulator.state import jobs as jobs_module
from nova_powervm.emulator.state import ownership
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import power
from nova_powervm.emulator.state import slots as slots_module
from nova_powervm.emulator.state import system as system_module
from nova_powervm.emulator.worlds import builder

JSON = dict[str, Any]
Partition = partition_module.Partition
System = system_module.System


class Control:
    """The verbs of the control plane on one emulator.

    :param world: the world document to start with; None for the default.
    """

    def __init__(
        self,
        emulation: emulation_module.Emulation,
        world: worlds.World | None = None,
    ) -> None:
        self._emulation = emulation
        self._host = emulation.host
        self._lock = emulation.host.condition
        self._world: worlds.World = {}
        self.load_world(worlds.default() if world is None else world)

    def state(self) -> JSON:
        """Return systems with slots, partitions, and jobs, in short."""
        with self._lock:
            return summary.state(self._emulation)

    def reset(self) -> None:
        """Go back to the world that was loaded last.

        Jobs, faults and the journal are empty then, and what was uploaded
        is gone. Sessions stay; clients of the event feed get CACHE_CLEARED.
        """
        self.load_world(self._world)

    def load_world(self, world: worlds.World) -> None:
        """Replace the world, and reset.

        :param world: the document as JSON values.
        :raises errors.WorldError: it is not a possible world; nothing has
            changed then.
        """
        # The caller may go on to change its own.
        checked = worlds.check(copy.deepcopy(world))
        with self._lock:
            with self._host.loading():
                worlds.build(self._host, checked)
            self._host.contents.close()
            self._world = checked
            self._emulation.jobs.clear()
            self._emulation.faults.clear()
            self._emulation.journal.clear()
            self._host.events.emit('CACHE_CLEARED')

    def plug(
        self,
        drc_index: str,
        card: JSON | None = None,
        system: str | None = None,
    ) -> JSON:
        """Put a card into a slot; a slot that is not there is added.

        :param card: the keys of a slot in a world document, less
            ``drc_index`` and ``owner``; None for an empty new slot.
        :param system: uuid or name; needed if there are several.
        :returns: the slot, as in :meth:`state`.
        """
        spec: JSON = {**(card or {}), 'drc_index': _index_text(drc_index)}
        if 'owner' in spec:
            raise errors.ControlError('owners are changed by set_owner')
        self._check_slot(spec)
        with self._lock:
            target = self._system(system)
            with target.unchanged_if_it_fails():
                builder.build_slot(target, spec)
            slot = _slot(target, spec['drc_index'])
            ownership.show(self._host, target, slot)
            return summary.slot(target, slot)

    def pull(
        self, drc_index: str, remove: bool = False, system: str | None = None
    ) -> None:
        """Take the card out of a slot.

        A partition that has the slot in its profile keeps it there; if it
        is required the partition cannot be activated.

        :param remove: take the slot itself away.
        :param system: uuid or name; needed if there are several.
        """
        with self._lock:
            target = self._system(system)
            slot = _slot(target, drc_index)
            target.remove_adapter(slot.drc_index)
            if remove:
                target.remove_slot(slot.drc_index)
                self._host.touch(target)
            else:
                slot.set_card(slots_module.Card())
                ownership.show(self._host, target, slot)

    def set_owner(
        self,
        drc_index: str,
        partition: str | int | None,
        profiles: bool = True,
        system: str | None = None,
    ) -> None:
        """Give a slot to a partition or to nobody, past every rule.

        :param partition: uuid, name or id; None for nobody.
        :param profiles: False leaves the profiles of the partitions as they
            are: the old owner's then names a slot that is another's.
        :param system: uuid or name; needed if there are several.
        """
        with self._lock:
            target = self._system(system)
            slot = _slot(target, drc_index)
            owner = None
            if partition is not None:
                owner = self._partition(partition, target)
            ownership.force(self._host, target, slot, owner, profiles)

    def set_partition(
        self,
        partition: str | int,
        state: str | None = None,
        rmc_state: str | None = None,
        system: str | None = None,
    ) -> JSON:
        """Put a partition into a state, past every rule.

        :param partition: uuid, name or id.
        :param state: PartitionState; None leaves it.
        :param rmc_state: ResourceMonitoringControlState; None leaves it.
        :returns: the partition, as in :meth:`state`.
        """
        _check_choice('state', state, partition_module.STATES)
        _check_choice('rmc_state', rmc_state, partition_module.RMC_STATES)
        with self._lock:
            found = self._partition(partition, self._system(system))
            power.set_state(
                self._host,
                found,
                state or found.state,
                rmc_state or found.rmc_state,
            )
            return summary.partition(found)

    def contents(self, udid: str, vios: str | int | None = None) -> bytes:
        """Return what was uploaded to a virtual disk or optical medium.

        Over HTTP the answer is the bytes as they are, not JSON.

        :param udid: as in :meth:`state`.
        :param vios: uuid, name or id of the Virtual I/O Server; needed if
            several have media of the same name.
        """
        with self._lock:
            wanted = [
                self._host.contents.find(server.uuid, udid)
                for server in self._host.of_type(Partition)
                if vios is None or _is_named(server, vios)
            ]
            found = [stored for stored in wanted if stored is not None]
            if len(found) != 1:
                raise errors.ControlError(
                    f'{len(found)} contents have the UDID {udid!r}'
                )
            return found[0].path.read_bytes()

    def set_job_mode(self, mode: str) -> None:
        """Choose when jobs that are started from now on make progress.

        :param mode: ``immediate`` or ``manual``.
        """
        _check_choice('mode', mode, tuple(jobs_module.Mode))
        with self._lock:
            self._emulation.jobs.mode = jobs_module.Mode(mode)

    def jobs(self) -> list[JSON]:
        """Return the jobs that clients have not deleted yet."""
        with self._lock:
            return [summary.job(job) for job in self._emulation.jobs]

    def advance_jobs(
        self, job_id: str | None = None, to_end: bool = False
    ) -> list[JSON]:
        """Move a job on by one status: NOT_STARTED, RUNNING, then its end.

        :param job_id: of the job; None for all that have not ended.
        :param to_end: move on until the end.
        :returns: the jobs that were moved.
        """
        with self._lock:
            jobs = self._emulation.jobs
            chosen = [job for job in jobs if job_id in (None, job.id)]
            if job_id is not None and not chosen:
                raise errors.ControlError(f'there is no job {job_id!r}')
            moved = [job for job in chosen if not job.is_finished]
            for job in moved:
                jobs.advance(job, to_end)
            return [summary.job(job) for job in moved]

    def plan_job(
        self,
        operation: str,
        message: str,
        status: str = jobs_module.Status.ERROR.value,
    ) -> None:
        """Let the next job of an operation fail when it is to end.

        :param operation: of ``emulation.OPERATIONS``, such as ``PowerOn``.
        :param message: of the failure.
        :param status: the job's status then.
        """
        finished = tuple(
            ending
            for ending in jobs_module.Status
            if ending not in jobs_module.UNFINISHED
            and ending is not jobs_module.Status.OK
        )
        _check_choice('status', status, finished)
        known = sorted({name for _, name in emulation_module.OPERATIONS})
        _check_choice('operation', operation, tuple(known))
        outcome = jobs_module.Outcome(jobs_module.Status(status), message)
        with self._lock:
            self._emulation.jobs.plan(operation, outcome)

    def expire_sessions(self) -> int:
        """End every session: the next request of each client gets 401.

        :returns: how many there were.
        """
        with self._lock:
            return self._host.sessions.expire()

    def set_password(self, password: str) -> None:
        """Change the password; sessions that are open stay."""
        with self._lock:
            self._host.sessions.password = password

    def emit_event(
        self,
        type: str,
        data: str = '',
        detail: str = '',
    ) -> None:
        """Send an event to every client of the event feed.

        :param type: EventType, for example ``CACHE_CLEARED``.
        :param data: EventData; a path from ``/rest/api/`` on gets the host.
        :param detail: EventDetail.
        """
        with self._lock:
            self._host.events.emit(type, data, detail)

    def add_fault(  # noqa: PLR0913 - the fields of a fault
        self,
        *,
        method: str = '',
        match: str = '',
        nth: int = 1,
        every: bool = False,
        phase: str = 'before',
        status: int = 0,
        message: str = 'Injected by a test.',
        drop: bool = False,
        delay: float = 0.0,
    ) -> JSON:
        """Let a request that is to come fail; see ``faults.Fault``.

        :returns: the fault, with its number.
        """
        fault = faults_module.Fault(
            method=method.upper(),
            match=match,
            nth=nth,
            every=every,
            phase=phase,
            status=status,
            message=message,
            drop=drop,
            delay=delay,
        )
        return dataclasses.asdict(self._emulation.faults.add(fault))

    def faults(self) -> list[JSON]:
        """Return the installed faults and how often each was applied."""
        installed = self._emulation.faults.all()
        return [dataclasses.asdict(fault) for fault in installed]

    def clear_faults(self) -> None:
        """Take every fault out."""
        self._emulation.faults.clear()

    def journal(self) -> list[JSON]:
        """Return every request since the last clearing, oldest first."""
        records = self._emulation.journal.records()
        return [dataclasses.asdict(record) for record in records]

    def journal_counts(self) -> dict[str, int]:
        """Return the number of requests by ``METHOD label``."""
        return self._emulation.journal.counts()

    def clear_journal(self) -> None:
        """Forget every request; the numbers go on."""
        self._emulation.journal.clear()

    def _check_slot(self, spec: JSON) -> None:
        """Refuse a slot that a world document could not have."""
        try:
            worlds.check({'systems': [{'name': 'any', 'slots': [spec]}]})
        except errors.WorldError as error:
            raise errors.ControlError(str(error)) from error

    def _system(self, name: str | None) -> System:
        found = [
            system
            for system in self._host.of_type(System)
            if name is None
            or name == system.name
            or name.lower() == system.uuid.lower()
        ]
        if len(found) != 1:
            raise errors.ControlError(
                f'{len(found)} systems match {name!r}; name one'
            )
        return found[0]

    def _partition(self, name: str | int, system: System) -> Partition:
        for partition in self._host.of_type(Partition, system):
            if _is_named(partition, name):
                return partition
        raise errors.ControlError(f'there is no partition {name!r}')


def _is_named(partition: Partition, name: str | int) -> bool:
    return str(name).upper() == partition.uuid.upper() or str(name) in (
        partition.name,
        str(partition.id),
    )


def _slot(system: System, drc_index: str) -> slots_module.Slot:
    slot = system.find_slot(_index(drc_index))
    if slot is None:
        raise errors.ControlError(f'there is no slot {drc_index!r}')
    return slot


def _index(drc_index: str) -> int:
    try:
        return int(drc_index, 16)
    except (TypeError, ValueError) as error:
        raise errors.ControlError(
            f'{drc_index!r} is not a DRC index in hexadecimal'
        ) from error


def _index_text(drc_index: str) -> str:
    return f'{_index(drc_index):08X}'


def _check_choice(
    name: str, value: str | None, choices: tuple[str, ...]
) -> None:
    if value is not None and value not in choices:
        known = ', '.join(repr(str(choice)) for choice in choices)
        raise errors.ControlError(f'{name} {value!r} is none of {known}')
