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

"""When a changed inventory file is read, and when it is taken over.

A value without clock or files: it is told what a look at the file has shown,
and says what to do. :mod:`.inventory` does it.
"""

import dataclasses
import enum

from nova_powervm import exception
from nova_powervm.devices import policy as policies


@dataclasses.dataclass(frozen=True, slots=True)
class FileStatus:
    """What is seen of the file without reading it.

    Equal looks mean the same file with the same content. The time of the last
    change of its state (``ctime``) tells what the others don't: another owner,
    or a file of the same size with its old time put back.

    :param device: The file system that holds the file.
    :param inode: The file in it; another one after rename, or behind a link
        that was switched.
    :param mode: Its type and permissions.
    :param size: In bytes.
    :param modified: Nanoseconds at which the content was last written.
    :param changed: Nanoseconds at which anything of the file last changed.
    :param error: Why there is no file to look at; empty if there is one.
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
    """What came of reading the file.

    :param status: The file as it was when it was opened.
    :param steady: Whether it was still the same when it had been read.
    :param policy: What it says; empty if it has problems.
    :param error: Its problems, if any.
    :param passing: Whether the problems are not those of its text. They can
        go away although the file stays as it is.
    """

    status: FileStatus
    steady: bool = True
    policy: policies.Policy = dataclasses.field(
        default_factory=policies.Policy
    )
    error: exception.PolicyInvalid | None = None
    passing: bool = False


class ReadOutcome(enum.StrEnum):
    """What has become of a file that was read."""

    NONE = 'none'
    TAKEN = 'taken'
    REFUSED = 'refused'


@dataclasses.dataclass(frozen=True, slots=True)
class FileWatch:
    """What is known of the file, and which policy is in force.

    :param policy: The policy in force: the last good one.
    :param judged: The file that was read last, good or not.
    :param complaint: Why that file is not in force; empty if it is.
    :param retry: Whether it is read again although it stays as it is.
    :param awaited: Another file, seen in the last look; it is read when the
        next look shows the same, because it may be half written.
    """

    policy: policies.Policy
    judged: FileStatus
    complaint: str = ''
    retry: bool = False
    awaited: FileStatus | None = None

    def note_status(self, look: FileStatus) -> tuple['FileWatch', bool]:
        """Take note of a look.

        :returns: The next state, and whether the file is to be read now.
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
        """Take a reading over, or stay with what is in force.

        :param reading: What was read after :meth:`note_status` asked for it.
        :returns: The next state, and what is to be told.
        """
        expected = self.awaited or self.judged
        if reading.status != expected or not reading.steady:
            # Somebody is writing: two looks have to agree anew.
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
        """Say why a reading can't be taken over.

        A file that lost its content is a slip more often than a wish.
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
