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

"""Reads the inventory file from disk, and again when it has changed.

Whoever can write the file decides which devices tenants get. A file that any
user can change is therefore refused.
"""

import os
import stat

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import structure
from nova_powervm.inventory_file.problems import Code

LOG = logging.getLogger(__name__)


def load(path: str) -> policies.Policy:
    """Read the inventory file of this host.

    :param path: Path of the file. Symbolic links are followed.
    :returns: The policy. If the file does not exist, the policy is empty and
        its source says so.
    :raises nova_powervm.exception.PolicyInvalid: The file can't be read, can't
        be trusted, or has problems. See :func:`~.structure.parse`.
    """
    return _parse(read_content(path), path)


def read_content(path: str) -> bytes | None:
    """Read the content of a file that can be trusted.

    :param path: As for :func:`load`.
    :returns: The content, of which more than :data:`~.structure.MAX_BYTES` is
        cut off after the first byte; None if the file does not exist.
    :raises nova_powervm.exception.PolicyInvalid: The file can't be read or
        can't be trusted.
    """
    try:
        # O_NONBLOCK avoids waiting for the writer of a pipe.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
        try:
            _check_file(path, os.fstat(descriptor))
            _check_directories(path)
            with open(descriptor, 'rb', closefd=False) as stream:
                return stream.read(structure.MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        if os.path.islink(path):
            what = 'the file is a symbolic link to a file that does not exist'
            hint = 'make the link point to the inventory file'
            raise _refuse(path, Code.DANGLING_LINK, what, hint) from None
        return None
    except (OSError, ValueError) as error:
        what = f'the file cannot be read: {error}'
        hint = (
            'let the user that the service runs as read it, for example with '
            f'chgrp GROUP {path} and chmod 0640 {path}, where GROUP is a '
            'group of that user'
        )
        raise _refuse(path, Code.UNREADABLE, what, hint) from error


class InventoryFile:
    """Reads the file at start and again whenever it has changed.

    An invalid file stops a starting service. In a running service, it leaves
    the last valid policy in force.

    :param path: Path of the file, which is opened again for each reading, so
        that a replaced file or link is detected.
    :ivar policy: The policy in force.
    :raises nova_powervm.exception.PolicyInvalid: See :func:`load`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        content = read_content(path)
        self.policy = _parse(content, path)
        # What the last look has found, and what was judged last.
        self._seen: bytes | str | None = content
        self._judged: bytes | str | None = content
        LOG.info(_describe_offer(self.policy))

    def refresh(self) -> policies.Policy:
        """Look at the file, and use a change that two looks agree on.

        Many a part of a file is valid on its own. A file that is still being
        written could withdraw devices, or offer those that a paragraph at its
        end denies. Its content is therefore used when two looks in a row find
        the same.

        :returns: The policy in force.
        """
        before, self._seen = self._seen, self._look()
        if self._seen == before and self._seen != self._judged:
            self._judged = self._seen
            if complaint := self._use(self._seen):
                LOG.error(
                    'The inventory file has changed and is not used; what was '
                    'read before stays in force (%(count)d paragraph(s)). '
                    'Correct it: it is read again without a restart. '
                    '%(complaint)s',
                    {
                        'count': len(self.policy.paragraphs),
                        # A line of the log has all problems.
                        'complaint': ' '.join(complaint.splitlines()),
                    },
                )
        return self.policy

    def _look(self) -> bytes | str | None:
        """Return the content, None without a file, or why it is refused."""
        try:
            return read_content(self._path)
        except exception.PolicyInvalid as refusal:
            return str(refusal)

    def _use(self, found: bytes | str | None) -> str:
        """Use what a look has found, or return why it is not used."""
        if isinstance(found, str):
            return found
        try:
            policy = _parse(found, self._path)
        except exception.PolicyInvalid as refusal:
            return str(refusal)
        if self.policy.paragraphs and not policy.paragraphs:
            # This is more often a mistake than intended.
            return (
                f'{policy.source} has no paragraph. To offer no device in a '
                'running service, write a paragraph with allow: false that '
                "identifies drc_name: '*'."
            )
        self.policy = policy
        offer = _describe_offer(policy)
        LOG.info('The inventory file was read again. %s', offer)
        return ''


def _parse(content: bytes | None, path: str) -> policies.Policy:
    """Parse what was read; no file offers nothing."""
    if content is None:
        return policies.Policy(source=f'{path} (no such file)')
    return structure.parse(content, path)


def _describe_offer(policy: policies.Policy) -> str:
    if not policy.paragraphs:
        return f'Offering no device: {policy.source} has no paragraph.'
    return (
        f'Offering devices by {len(policy.paragraphs)} paragraph(s) of '
        f'{policy.source}.'
    )


def _check_file(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = 'it is not a regular file'
        hint = 'check that [powervm]inventory_file names the right file'
        raise _refuse(path, Code.NOT_REGULAR, what, hint)
    if status.st_mode & stat.S_IWOTH:
        mode = f'{stat.S_IMODE(status.st_mode):04o}'
        what = (
            f'every user can write the file (mode {mode}), so any user could '
            'pass devices to instances'
        )
        hint = f'chmod o-w {path}'
        raise _refuse(path, Code.WORLD_WRITABLE, what, hint)


def _check_directories(path: str) -> None:
    """Refuse a directory in which any user can replace the file.

    In a directory with the sticky bit, as /tmp, only the file's owner can.
    """
    for place in dict.fromkeys((path, os.path.realpath(path))):
        directory = os.path.dirname(os.path.abspath(place))
        mode = os.stat(directory).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            what = (
                f'every user can write the directory {directory} (mode '
                f'{stat.S_IMODE(mode):04o}), so any user could replace '
                'the file'
            )
            hint = f'chmod o-w {directory}'
            raise _refuse(path, Code.WORLD_WRITABLE, what, hint)


def _refuse(
    path: str, code: Code, what: str, hint: str
) -> exception.PolicyInvalid:
    problem = problems.Problem(what=what, hint=hint, code=code)
    return exception.PolicyInvalid(
        path=path, count=1, problems=problems.Problems([problem])
    )
