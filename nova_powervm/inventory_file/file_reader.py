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

A user who can write the file decides which devices tenants get. Therefore a
file is refused if users can change it other than root, nova and the user of
this process.
"""

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Iterator

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import structure
from nova_powervm.inventory_file.problems import Code

LOG = logging.getLogger(__name__)

#: As many as Linux follows.
_MOST_LINKS = 40
_EVERYBODY = 'every user'
#: The hint for directories whose mode must not be changed, such as /tmp.
_MOVE = 'move the file into a directory that only root can write'


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
        descriptor = _open(path)
        if descriptor is None:
            return None
        try:
            _check_file(path, os.fstat(descriptor))
            _check_way(path)
            with open(descriptor, 'rb', closefd=False) as stream:
                return stream.read(structure.MAX_BYTES + 1)
        finally:
            os.close(descriptor)
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
        # The last results of _look: of any reading, and of the last one that
        # was used or refused.
        self._seen: bytes | str | None = content
        self._judged: bytes | str | None = content
        LOG.info(_describe_offer(self.policy))

    def refresh(self) -> policies.Policy:
        """Read the file, and use its content if it has settled.

        Many a part of a file is valid on its own. A file that is still being
        written could withdraw devices, or offer those that a paragraph at its
        end denies. Therefore use the content only when two readings in a row
        agree.

        :returns: The policy in force.
        """
        previous, self._seen = self._seen, self._look()
        if self._seen == previous and self._seen != self._judged:
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

    def _use(self, content: bytes | str | None) -> str:
        """Use the result of a reading, or return why it is not used."""
        if isinstance(content, str):
            return content
        try:
            policy = _parse(content, self._path)
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
    """Parse the content of the file; without a file, offer no device."""
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


def _open(path: str) -> int | None:
    """Open the file; return its descriptor, or None if there is no file."""
    try:
        # O_NONBLOCK avoids waiting for the writer of a pipe.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if os.path.islink(path):
            what = 'the file is a symbolic link to a file that does not exist'
            hint = 'make the link point to the inventory file'
            raise _refuse(path, Code.DANGLING_LINK, what, hint) from None
        return None


def _check_file(path: str, status: os.stat_result) -> None:
    """Refuse a file that is not a regular one, or that others can write.

    :param status: The status of the open file, which nobody can exchange.
    """
    if not stat.S_ISREG(status.st_mode):
        what = 'it is not a regular file'
        hint = 'check that [powervm]inventory_file names the right file'
        raise _refuse(path, Code.NOT_REGULAR, what, hint)
    _check_owner(path, path, status)
    if writer := _writer(status):
        what = (
            f'{writer} can write the file (mode {_mode(status)}), and so pass '
            'devices to instances'
        )
        code, hint = _repair(writer, path, status)
        raise _refuse(path, code, what, hint)


def _check_way(path: str) -> None:
    """Refuse a path if others can exchange a directory or link of it.

    Each directory and link has to belong to a user that can be trusted. A
    directory in which others can write has to be mounted read-only, or to
    have the sticky bit, as /tmp has. The directory of the file itself must
    not be writable for others even then: they could create the file.
    """
    # Not abspath, which takes a link and the '..' after it for nothing.
    start = '' if path.startswith('/') else os.getcwd()
    names = os.path.join(start, path).split('/')[::-1]
    place, links = '/', 0
    while names:
        name = names.pop()
        entry = os.path.normpath(os.path.join(place, name))
        status = os.lstat(entry)
        _check_owner(path, entry, status)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            names += reversed(os.readlink(entry).split('/'))
            place = '/' if os.readlink(entry).startswith('/') else place
        elif stat.S_ISDIR(status.st_mode):
            place = entry
            _check_directory(path, place, status, sticky_helps=True)
    _check_directory(path, place, os.stat(place), sticky_helps=False)


def _check_directory(
    path: str, directory: str, status: os.stat_result, *, sticky_helps: bool
) -> None:
    writer = _writer(status)
    if not writer or (sticky_helps and status.st_mode & stat.S_ISVTX):
        return
    # Volumes of Kubernetes have mode 0777.
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        return
    what = (
        f'{writer} can write the directory {directory} (mode '
        f'{_mode(status)}), and so could replace the file'
    )
    code, hint = _repair(writer, directory, status)
    raise _refuse(path, code, what, hint)


def _check_owner(path: str, entry: str, status: os.stat_result) -> None:
    """Refuse an owner who is not trusted, and could change the mode."""
    if not _trusts_user(status.st_uid):
        what = (
            f'{entry} belongs to the user {status.st_uid}, who is neither '
            'root nor nova, nor the user that reads the file'
        )
        hint = f'chown root {entry}'
        if stat.S_ISDIR(status.st_mode):
            hint = _MOVE
        elif stat.S_ISLNK(status.st_mode):
            # Without -h, chown changes the owner of the link's target.
            hint = f'chown -h root {entry}'
        raise _refuse(path, Code.FOREIGN_OWNER, what, hint)


def _trusts_user(number: int) -> bool:
    """Return whether a user is root, nova or the user of this process."""
    return number in {0, os.geteuid()} or any(
        number == user.pw_uid for user in _nova()
    )


def _trusts_group(number: int) -> bool:
    return number in {0, os.getegid()} or any(
        number == user.pw_gid for user in _nova()
    )


def _nova() -> Iterator[pwd.struct_passwd]:
    """Yield the user nova, if there is one, also when root reads the file."""
    with contextlib.suppress(KeyError):
        yield pwd.getpwnam('nova')


def _writer(status: os.stat_result) -> str:
    """Say who besides the owner can write; empty if nobody can."""
    if status.st_mode & stat.S_IWOTH:
        return _EVERYBODY
    if status.st_mode & stat.S_IWGRP and not _trusts_group(status.st_gid):
        return f'the group {status.st_gid}'
    return ''


def _repair(
    writer: str, entry: str, status: os.stat_result
) -> tuple[Code, str]:
    """Return the code of the problem, and how to revoke the permission."""
    is_shared = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if writer == _EVERYBODY:
        code, who = Code.WORLD_WRITABLE, 'o'
    else:
        code, who = Code.GROUP_WRITABLE, 'g'
    return code, _MOVE if is_shared else f'chmod {who}-w {entry}'


def _mode(status: os.stat_result) -> str:
    return f'{stat.S_IMODE(status.st_mode):04o}'


def _refuse(
    path: str, code: Code, what: str, hint: str
) -> exception.PolicyInvalid:
    problem = problems.Problem(what=what, hint=hint, code=code)
    return exception.PolicyInvalid(
        path=path, count=1, problems=problems.Problems([problem])
    )
