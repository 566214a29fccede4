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

"""The control plane, which changes the emulator from outside the REST API.

Tests in the same process call the verbs as methods of :class:`Control`;
:class:`client.Client` has the same methods over HTTP. Arguments and results
are JSON types. A DRC index is eight hexadecimal digits; a partition is named
by its UUID, name or id.
"""

import copy
from collections.abc import Callable
from concurrent import futures
from typing import Any

from powervm_emulator import worlds
from powervm_emulator.control import arguments
from powervm_emulator.control import disks
from powervm_emulator.control import lookup
from powervm_emulator.control import requests
from powervm_emulator.control import summary
from powervm_emulator.control import terminals
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import errors
from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.nouns import file as file_module
from powervm_emulator.nouns import io_slot
from powervm_emulator.nouns.managed_system import described as system_described
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import outage
from powervm_emulator.nouns.partition import ownership
from powervm_emulator.nouns.partition import power
from powervm_emulator.nouns.shared_storage_pool import usage

System = managed_system.System
Partition = partition_module.Partition


JSON = dict[str, Any]


class Control(requests.Requests, terminals.Terminals):
    """The verbs of the control plane of one emulator.

    :param emulation: the emulator, of which no world need be loaded.
    """

    # The last valid world that any emulator of this process has loaded. Tests
    # load the same one again and again.
    _checked = ''

    def __init__(self, emulation: emulation_module.Emulation) -> None:
        self._emulation = emulation
        self._host = emulation.host

    def state(self) -> JSON:
        """Return a summary of the systems, their contents and the jobs."""
        with self._host.condition:
            return summary.state(self._emulation)

    def reset(self) -> None:
        """Restore the world that was loaded last.

        This discards jobs, faults, the journal and uploaded contents, but
        no pool that another host of the site shares. The power is on then.
        Sessions remain, and clients of the event feed get CACHE_CLEARED.
        """
        self.load_world(self._emulation.world)

    def load_world(self, world: worlds.World) -> None:
        """Replace the world, and reset.

        :param world: the world document as JSON values.
        :raises errors.WorldError: the world is invalid; nothing has changed.
        """
        # The caller may modify its document later.
        checked = copy.deepcopy(world)
        text = repr(checked)
        if text != Control._checked:
            worlds.check(checked)
            Control._checked = text
        with self._host.changing():
            _run_in_thread(self._build, checked)
            self._host.is_off = False
            self._emulation.starting = []
            usage.settle(self._host.site)
            self._host.contents.close()
            self._emulation.world = checked
            self._emulation.jobs.clear()
            self._emulation.faults.clear()
            self._emulation.journal.clear()
            self._host.events.emit('CACHE_CLEARED')

    def _build(self, world: worlds.World) -> None:
        with self._host.loading():
            worlds.build(self._host, world)

    def plug(
        self,
        drc_index: str,
        card: JSON | None = None,
        system: str | None = None,
    ) -> JSON:
        """Insert a card into a slot, adding the slot if necessary.

        :param card: the keys of a slot in a world document, without
            ``drc_index`` and ``owner``; None for an empty new slot.
        :param system: UUID or name; required if there are several.
        :returns: the slot, as in :meth:`state`.
        """
        spec = arguments.slot(drc_index, card or {})
        with self._host.changing():
            target = lookup.system(self._host, system)
            if not card and target.find_slot(int(spec['drc_index'], 16)):
                raise errors.ControlError(
                    f'slot {spec["drc_index"]} exists; say which card to plug'
                )
            with target.unchanged_if_it_fails():
                system_described.build_slot(target, spec)
                slot = lookup.slot(target, spec['drc_index'])
                ownership.show(self._host, target, slot)
            return managed_system.slot_summary(target, slot)

    def pull(
        self, drc_index: str, remove: bool = False, system: str | None = None
    ) -> None:
        """Remove the card from a slot.

        The slot remains in the profile of its partition, which can't be
        activated if the profile requires the slot.

        :param remove: remove the slot itself, too.
        :param system: UUID or name; required if there are several.
        """
        with self._host.changing():
            target = lookup.system(self._host, system)
            slot = lookup.slot(target, drc_index)
            if remove:
                target.remove_slot(slot.drc_index)
                self._host.touch(target)
            else:
                target.set_card(slot, io_slot.Card())
                ownership.show(self._host, target, slot)

    def set_owner(
        self,
        drc_index: str,
        partition: str | int | None,
        profiles: bool = True,
        system: str | None = None,
    ) -> None:
        """Assign a slot to a partition, or release it, bypassing all rules.

        :param partition: UUID, name or id; None for no owner.
        :param profiles: False leaves the partitions' profiles unchanged, so
            that of the former owner names a slot of another partition.
        :param system: UUID or name; required if there are several.
        """
        with self._host.changing():
            target = lookup.system(self._host, system)
            slot = lookup.slot(target, drc_index)
            owner = None
            if partition is not None:
                owner = lookup.partition(self._host, partition, target)
            ownership.force(self._host, target, slot, owner, profiles)

    def set_partition(
        self,
        partition: str | int,
        state: str | None = None,
        rmc_state: str | None = None,
        system: str | None = None,
        reference_code: str | None = None,
    ) -> JSON:
        """Set the state of a partition, bypassing all rules.

        :param partition: UUID, name or id.
        :param state: PartitionState; None to leave it unchanged.
        :param rmc_state: ResourceMonitoringControlState; None to leave it
            unchanged.
        :param reference_code: what the panel shows, until the state changes
            again; None for the usual one of the state.
        :returns: the partition, as in :meth:`state`.
        """
        arguments.check_choice('state', state, partition_module.STATES)
        arguments.check_choice(
            'rmc_state', rmc_state, partition_module.RMC_STATES
        )
        with self._host.changing():
            target = lookup.system(self._host, system)
            found = lookup.partition(self._host, partition, target)
            power.set_state(
                self._host,
                found,
                state or found.state,
                rmc_state or found.rmc_state,
            )
            if reference_code is not None:
                found.put('ReferenceCode', reference_code)
            return partition_module.summary(found)

    def power_off_system(self) -> None:
        """Pull the plug of the host, for all of its systems.

        All partitions stop at once, and the REST server drops every
        connection. Only the control plane answers. Sessions, jobs, Files and
        uploads are lost.
        """
        with self._host.changing():
            if self._host.is_off:
                return
            self._host.is_off = True
            self._emulation.starting = outage.lose_power(self._host)
            for file in self._host.of_type(file_module.File):
                self._host.remove(file)
            self._emulation.jobs.forget()
            self._host.sessions.expire()
            self._host.events.forget()
            self._host.terminals.close_all()
        self._emulation.connections.cut()

    def power_on_system(self) -> None:
        """Plug the host in again.

        Virtual I/O Servers and the NovaLink partition that were active start;
        other partitions stay off.
        """
        with self._host.changing():
            if self._host.is_off:
                self._host.is_off = False
                outage.regain_power(self._host, self._emulation.starting)
                self._emulation.starting = []

    def contents(self, udid: str, vios: str | int | None = None) -> bytes:
        """Return the contents of a disk, logical unit or optical medium.

        Over HTTP the answer is the bytes themselves, not JSON.

        :param udid: the UDID, as in :meth:`state`.
        :param vios: UUID, name or id of the Virtual I/O Server; required if
            several have media of the same name.
        """
        with self._host.condition:
            return disks.read(self._host, udid, vios)

    def write_disk(
        self,
        udid: str,
        data: str,
        offset: int = 0,
        vios: str | int | None = None,
    ) -> JSON:
        """Write to a virtual disk or logical unit, as a guest does.

        :param udid: the UDID, as in :meth:`state`.
        :param data: the bytes in Base64.
        :param offset: of the first byte on the disk.
        :param vios: as for :meth:`contents`.
        :returns: the ``size`` and ``sha256`` of all that was ever written.
        """
        with self._host.changing():
            return disks.write(self._host, udid, data, offset, vios)

    def tick(
        self,
        partition: str | int,
        offset: int = 4096,
        system: str | None = None,
    ) -> JSON:
        """Let the guest of a partition count one on.

        It begins with 1 when it has booted, goes on over a migration, and
        writes the number, eight bytes, to its first disk if it has one.

        :param partition: UUID, name or id.
        :param offset: of the number on the disk.
        :returns: the ``count``, and the ``udid`` of the disk or None.
        :raises errors.ControlError: the guest does not run on this host.
        """
        with self._host.changing():
            target = lookup.system(self._host, system)
            found = lookup.partition(self._host, partition, target)
            return disks.tick(self._host, found, offset)

    def set_san(self, arrays: list[JSON]) -> None:
        """Say what the arrays are that the site's hosts can reach.

        It is the whole truth, in place of what was said before. No server
        notices: a disk is found by a job, and one that is unmapped stays.

        :param arrays: each with ``name``, ``ports``, ``hosts``, ``volumes``
            and ``maps``.
        :raises errors.ControlError: they contradict themselves; nothing has
            changed.
        """
        checked = arguments.san(copy.deepcopy(arrays))
        with self._host.changing():
            self._host.site.san = checked

    def set_job_mode(self, mode: str, operation: str | None = None) -> None:
        """Choose how jobs that start from now on progress.

        :param mode: ``immediate`` or ``manual``.
        :param operation: the only one that it is about, such as ``Migrate``,
            whatever is said of all of them; None for all others.
        """
        arguments.check_choice('mode', mode, tuple(jobs_module.Mode))
        known = {name for _, name in self._emulation.operations}
        arguments.check_choice('operation', operation, tuple(sorted(known)))
        with self._host.condition:
            jobs = self._emulation.jobs
            if operation is None:
                jobs.mode = jobs_module.Mode(mode)
            else:
                jobs.modes[operation] = jobs_module.Mode(mode)

    def jobs(self) -> list[JSON]:
        """Return the jobs that clients have not deleted."""
        with self._host.condition:
            return [job.summary() for job in self._emulation.jobs]

    def advance_jobs(
        self, job_id: str | None = None, to_end: bool = False
    ) -> list[JSON]:
        """Advance jobs from NOT_STARTED to RUNNING, or to their end.

        :param job_id: the job to advance; None for all unfinished jobs.
        :param to_end: advance to the end instead of by one status.
        :returns: the jobs that advanced.
        """
        with self._host.changing():
            jobs = self._emulation.jobs
            chosen = [job for job in jobs if job_id in (None, job.id)]
            if job_id is not None and not chosen:
                raise errors.ControlError(f'unknown job {job_id!r}')
            moved = [job for job in chosen if not job.is_finished]
            for job in moved:
                jobs.advance(job, to_end)
            return [job.summary() for job in moved]

    def plan_job(
        self,
        operation: str,
        message: str,
        status: str = jobs_module.Status.ERROR.value,
        state: str | None = None,
    ) -> None:
        """Make the next job of an operation fail when it ends.

        :param operation: an operation of ``nouns.OPERATIONS``, such as
            ``PowerOn``.
        :param message: the message of the failed job.
        :param status: the status of the failed job; with a state it can be
            ``COMPLETED_OK``, as of a start that fails only afterwards.
        :param state: PartitionState then, for an operation of ``power`` or
            ``Migrate``; None for the one before the job. A migration leaves
            the partition on both systems then, and its guest at the
            destination if the state is ``not activated``.
        """
        finished = tuple(
            ending
            for ending in jobs_module.Status
            if ending not in jobs_module.UNFINISHED
            and (state or ending is not jobs_module.Status.OK)
        )
        arguments.check_choice('status', status, finished)
        arguments.check_choice('state', state, partition_module.STATES)
        known = {name for _, name in self._emulation.operations}
        if state:
            known = {*power.BY_NAME, 'Migrate'}
        arguments.check_choice('operation', operation, tuple(sorted(known)))
        outcome = jobs_module.Outcome(
            jobs_module.Status(status), message, state or ''
        )
        with self._host.condition:
            self._emulation.jobs.plan(operation, outcome)

    def expire_sessions(self) -> int:
        """End all sessions, so the next request of each client gets 401.

        :returns: the number of sessions ended.
        """
        with self._host.condition:
            return self._host.sessions.expire()

    def set_password(self, password: str) -> None:
        """Change the password; existing sessions remain valid."""
        if not password:
            raise errors.ControlError('the password is empty')
        with self._host.condition:
            self._host.sessions.password = password

    def emit_event(
        self,
        type: str,
        data: str = '',
        detail: str = '',
    ) -> None:
        """Send an event to every client of the event feed.

        :param type: EventType, for example ``CACHE_CLEARED``.
        :param data: EventData; a path that begins with ``/rest/api/`` is
            completed to a URL.
        :param detail: EventDetail.
        """
        with self._host.condition:
            self._host.events.emit(type, data, detail)


def _run_in_thread(function: Callable[..., None], *args: Any) -> None:
    """Run a function in a thread of its own, and wait for it.

    lxml's table of names is that of the thread that creates a document.
    Whoever reads the resources of a world would see that table change while
    this thread parses something else, such as a test with pypowervm.
    """
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(function, *args).result()


#: Every verb: its name and the method of :class:`Control`.
VERBS: dict[str, Callable[..., Any]] = {
    name: function
    for owner in (Control, requests.Requests, terminals.Terminals)
    for name, function in vars(owner).items()
    if not name.startswith('_')
}
