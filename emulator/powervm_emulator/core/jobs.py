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

"""Jobs: long operations of a resource that a client starts and polls."""

import collections
import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource

Host = host_module.Host
Resource = resource.Resource


class Status(enum.StrEnum):
    """The statuses of a job that this emulator uses."""

    NOT_STARTED = 'NOT_STARTED'
    RUNNING = 'RUNNING'
    OK = 'COMPLETED_OK'
    WARNINGS = 'COMPLETED_WITH_WARNINGS'
    ERROR = 'COMPLETED_WITH_ERROR'
    FAILED = 'FAILED_BEFORE_COMPLETION'
    CANCELED = 'CANCELED_WHILE_RUNNING'


UNFINISHED = (Status.NOT_STARTED, Status.RUNNING)
BROKEN_OFF = (Status.FAILED, Status.CANCELED)


class Mode(enum.StrEnum):
    """When jobs make progress.

    Immediate jobs are complete in the answer to the request that starts them;
    manual ones wait for the control plane.
    """

    IMMEDIATE = 'immediate'
    MANUAL = 'manual'


class JobError(Exception):
    """An operation fails; the message is the job's result for the client."""


class Operation:
    """What a job does. Subclasses are one operation each.

    :param host: the host that it runs on.
    :param target: the resource it is about.
    :param parameters: JobParameters by name.
    :cvar of_hmc: whether only an HMC has it.
    """

    of_hmc = False

    def __init__(
        self, host: Host, target: Resource, parameters: Mapping[str, str]
    ) -> None:
        self.host = host
        self.target = target
        self.parameters = parameters

    def start(self) -> None:
        """Change the state to that of an operation under way.

        :raises JobError: the operation cannot be done.
        """

    def proceed(self) -> bool:
        """Do a stage of the operation; return whether it was the last.

        :raises JobError: the operation failed.
        """
        return True

    def stopped(self) -> str:
        """Say what else has ended the operation under way, or nothing."""
        return ''

    def finish(self) -> dict[str, str]:
        """Do the operation and return its results by name.

        :raises JobError: the operation failed.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Go back to the state before :meth:`start`; the job failed."""

    def leave(self, state: str) -> None:
        """Leave the target in a state that the job does not tell of."""
        raise NotImplementedError


#: Resource kind and name to operation.
Operations = Mapping[tuple[str, str], type[Operation]]


@dataclasses.dataclass
class Job:
    """A job and how far it has come.

    :ivar path: of the request that started it, without host.
    :ivar started: in milliseconds since 1970; 0 before it starts.
    :ivar completed: likewise, 0 before it ends.
    """

    id: str
    path: str
    name: str
    operation: Operation
    status: Status = Status.NOT_STARTED
    results: dict[str, str] = dataclasses.field(default_factory=dict)
    message: str = ''
    started: int = 0
    completed: int = 0

    def summary(self) -> resource.JSON:
        """Summarize the job and its progress."""
        return {
            'id': self.id,
            'operation': self.name,
            'target': self.operation.target.uuid,
            'parameters': dict(self.operation.parameters),
            'status': self.status.value,
            'message': self.message,
        }

    @property
    def is_finished(self) -> bool:
        """Whether its status will not change any more."""
        return self.status not in UNFINISHED


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How the next job of an operation is to end instead of well.

    :ivar state: of the target afterwards; empty for the one before.
    """

    status: Status
    message: str
    state: str = ''


class Jobs:
    """The jobs of a host.

    :param operations: the operation classes by (resource kind, name).
    :ivar last: the id of the latest job; no other one gets it again.
    """

    def __init__(
        self,
        host: Host,
        operations: Operations,
    ) -> None:
        self._host = host
        self.operations = operations
        self._jobs: dict[str, Job] = {}
        self._planned: dict[str, collections.deque[Outcome]] = {}
        self.last = 1_000_000_000_000
        self.mode = Mode.IMMEDIATE
        #: The modes of operations that have one of their own.
        self.modes: dict[str, Mode] = {}

    def check_operation(self, kind: str, name: str) -> type[Operation]:
        """Return the class of an operation.

        :raises errors.NotFound: resources of this kind do not have it.
        """
        found = self.operations.get((kind, name))
        if found is None or (found.of_hmc and not self._host.behaviour.hmc):
            raise errors.NotFound(f'{kind} has no operation {name}.')
        return found

    def submit(
        self, target: Resource, name: str, parameters: Mapping[str, str]
    ) -> Job:
        """Start a job; in immediate mode also finish it."""
        type_ = self.check_operation(target.kind, name)
        self.last += 1
        job = Job(
            id=str(self.last),
            path=f'{target.path}/do/{name}',
            name=name,
            operation=type_(self._host, target, parameters),
        )
        self._jobs[job.id] = job
        if self.modes.get(name, self.mode) is Mode.IMMEDIATE:
            self.advance(job, to_end=True)
        return job

    def get(self, job_id: str) -> Job:
        """Return a job.

        :raises errors.NoJob: there is none, or it has been deleted.
        :raises errors.BadUri: no job can have the id.
        """
        if not job_id.isdecimal():
            raise errors.BadUri(
                f'{job_id} is not the JobID of a job. REST000E Unrecognized '
                'root REST type of jobs'
            )
        self._end_stopped()
        try:
            return self._jobs[job_id]
        except KeyError:
            raise errors.NoJob(f'There is no job {job_id}.') from None

    def delete(self, job_id: str) -> None:
        """Forget a job that has ended.

        :raises errors.Refused: it is still running.
        """
        job = self.get(job_id)
        if job.status is Status.RUNNING:
            raise errors.Refused(f'The job {job_id} is running.')
        del self._jobs[job_id]

    def cancel(self, job_id: str) -> Job:
        """End a job that has not ended, leaving the state as it was."""
        job = self.get(job_id)
        if not job.is_finished:
            if not self._is_gone(job.operation.target):
                job.operation.abort()
            self._end(job, Status.CANCELED)
            job.message = 'The job was canceled.'
        return job

    def advance(self, job: Job, to_end: bool = False) -> None:
        """Move a job one status on, or until it has ended."""
        steps: dict[Status, Callable[[Job], None]] = {
            Status.NOT_STARTED: self._start,
            Status.RUNNING: self._finish,
        }
        while not job.is_finished:
            if self._is_gone(job.operation.target):
                # There is nothing left to change or to change back.
                self._fail(job, Status.FAILED, 'Its resource is gone.')
                return
            steps[job.status](job)
            if not to_end:
                return

    def plan(self, name: str, outcome: Outcome) -> None:
        """Let the next job of an operation end in another way.

        Its start has its effect, its end has none. Several plans for one
        operation are used in their order.
        """
        self._planned.setdefault(name, collections.deque()).append(outcome)

    def forget(self) -> None:
        """Forget every job, as a server that has been started again."""
        self._jobs.clear()

    def clear(self) -> None:
        """Forget every job and plan."""
        self.forget()
        self._planned.clear()
        self.mode = Mode.IMMEDIATE
        self.modes.clear()

    def __iter__(self) -> Iterator[Job]:
        self._end_stopped()
        return iter(tuple(self._jobs.values()))

    def _is_gone(self, target: Resource) -> bool:
        return self._host.find(target.kind, target.uuid) is not target

    def _start(self, job: Job) -> None:
        job.started = self._now()
        try:
            job.operation.start()
        except JobError as error:
            self._fail(job, Status.ERROR, str(error))
        else:
            job.status = Status.RUNNING

    def _finish(self, job: Job) -> None:
        planned = self._planned.get(job.name)
        try:
            if planned:
                self._end_as_planned(job, planned.popleft())
                return
            if not job.operation.proceed():
                return
            job.results = job.operation.finish()
        except JobError as error:
            job.operation.abort()
            self._fail(job, Status.ERROR, str(error))
        else:
            self._end(job, Status.OK)

    def _end_as_planned(self, job: Job, outcome: Outcome) -> None:
        if outcome.state:
            job.operation.leave(outcome.state)
        else:
            job.operation.abort()
        if outcome.status is Status.OK:
            job.results = {'returnCode': '0'}
            self._end(job, outcome.status)
        else:
            self._fail(job, outcome.status, outcome.message)

    def _end_stopped(self) -> None:
        """End the jobs that something else has stopped."""
        for job in self._jobs.values():
            if job.status is Status.RUNNING:
                message = job.operation.stopped()
                if message:
                    self._fail(job, Status.ERROR, message)

    def _end(self, job: Job, status: Status) -> None:
        job.status = status
        job.completed = self._now()

    def _now(self) -> int:
        return int(self._host.clock() * 1000)

    def _fail(self, job: Job, status: Status, message: str) -> None:
        self._end(job, status)
        job.message = message
        job.results = {'returnCode': '1', 'result': message}
