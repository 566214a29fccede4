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

"""Decides when a changed inventory file is read, and when it takes effect.

The state is a value without clock or file access: it gets the status of the
file and returns what to do. :mod:`.inventory` does it.
"""

import dataclasses
import enum

from nova_powervm import exception
from nova_powervm.devices import policy as policies


@dataclasses.dataclass(frozen=True, slots=True)
class FileStatus:
    """Status of the file, without its content.

    Equal statuses mean the same file with the same content. The ``ctime``
    detects what the other fields don't: another owner, or new content of the
    same size with the old modification time.

    :param device: ID of the file system.
    :param inode: Number of the file in it; differs after a rename, or if a
        link was switched.
    :param mode: Type and permissions.
    :param size: Size in bytes.
    :param modified: Time of the last write (``mtime``), in nanoseconds.
    :param changed: Time of the last change of the status (``ctime``), in
        nanoseconds.
    :param error: Reason why the file has no status; empty if it has one.
    """

    device: int = 0
    inode: int = 0
    mode: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0
    error: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class FileReading:
    """Result of reading the file.

    :param status: Status of the file when it was opened.
    :param steady: Whether the status was the same after reading.
    :param policy: The policy; empty if the file has problems.
    :param error: The problems of the file; None if there are none.
    :param passing: Whether the problems are about access rather than text, so
        that they can disappear although the file stays the same.
    """

    status: FileStatus
    steady: bool = True
    policy: policies.Policy = dataclasses.field(
        default_factory=policies.Policy
    )
    error: exception.PolicyInvalid | None = None
    passing: bool = False


class ReadOutcome(enum.StrEnum):
    """Outcome of reading a changed file."""

    NONE = 'none'
    TAKEN = 'taken'
    REFUSED = 'refused'


@dataclasses.dataclass(frozen=True, slots=True)
class FileWatch:
    """State of the file, and the policy in force.

    :param policy: The policy in force, which is the last valid one.
    :param judged: Status of the file that was read last, valid or not.
    :param complaint: Reason why this file is not in force; empty if it is.
    :param retry: Whether the file is read again although it has not changed.
    :param awaited: Different status at the last look. The file is read when
        the next look finds the same status, because it may be half written.
    """

    policy: policies.Policy
    judged: FileStatus
    complaint: str = ''
    retry: bool = False
    awaited: FileStatus | None = None

    def note_status(self, look: FileStatus) -> tuple['FileWatch', bool]:
        """Process the current status of the file.

        :returns: The next state, and whether to read the file now.
        """
        if look == self.judged:
            if self.awaited is None:
                return self, self.retry
            return dataclasses.replace(self, awaited=None), self.retry
        if look == self.awaited:
            return self, True
        return dataclasses.replace(self, awaited=look), False

    def take_reading(
        self, reading: FileReading
    ) -> tuple['FileWatch', ReadOutcome]:
        """Use the policy that was read, or keep the one in force.

        :param reading: The result of reading the file, which
            :meth:`note_status` requested.
        :returns: The next state, and the outcome to be logged.
        """
        expected = self.awaited or self.judged
        if reading.status != expected or not reading.steady:
            # The file is being written: two looks have to agree again.
            return dataclasses.replace(self, awaited=None), ReadOutcome.NONE
        complaint = self._complaint(reading)
        if not complaint:
            return FileWatch(reading.policy, reading.status), ReadOutcome.TAKEN
        known = reading.status == self.judged and complaint == self.complaint
        return (
            FileWatch(self.policy, reading.status, complaint, reading.passing),
            ReadOutcome.NONE if known else ReadOutcome.REFUSED,
        )

    def _complaint(self, reading: FileReading) -> str:
        """Return the reason why the policy that was read can't be used.

        A file that has lost its content is more often a mistake than intended.
        """
        if reading.error is not None:
            return str(reading.error)
        if self.policy.paragraphs and not reading.policy.paragraphs:
            return (
                f'{reading.policy.source} has no paragraph. To offer no '
                'device in a running service, write a paragraph with allow: '
                "false that identifies drc_name: '*'."
            )
        return ''
