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

"""Reads the inventory file from disk (specification, "Security impact").

Whoever can write the file decides which devices tenants get. A file that any
user can change is therefore refused.
"""

import os
import stat

from nova_powervm import exception
from nova_powervm.devices import policy
from nova_powervm.inventory_file import file_change
from nova_powervm.inventory_file import paragraphs
from nova_powervm.inventory_file import problems


def load(path: str) -> policy.Policy:
    """Read the inventory file of this host.

    :param path: Path of the file. Symbolic links are followed.
    :returns: The policy. If the file does not exist, the policy is empty and
        its source says so.
    :raises nova_powervm.exception.PolicyInvalid: The file can't be read, can't
        be trusted, or has problems. See :func:`~.paragraphs.parse`.
    """
    reading = read_file(path)
    if reading.error is not None:
        raise reading.error
    return reading.policy


def read_status(path: str) -> file_change.FileStatus:
    """Read the status of the file without opening it.

    :param path: As for :func:`load`.
    """
    try:
        return _make_status(os.stat(path))
    except (OSError, ValueError) as error:
        return _make_missing_status(error)


def read_file(path: str) -> file_change.FileReading:
    """Read the file, with its status before and after.

    :param path: As for :func:`load`.
    :returns: The policy, or the error that :func:`load` raises.
    """
    try:
        descriptor = _open(path)
    except (OSError, ValueError) as error:
        return _make_unopened_reading(path, error)
    try:
        before = os.fstat(descriptor)
        try:
            content = _content(path, descriptor, before)
        except exception.PolicyInvalid as refusal:
            return file_change.FileReading(
                _make_status(before), error=refusal, passing=True
            )
        steady = _make_status(os.fstat(descriptor)) == _make_status(before)
    finally:
        os.close(descriptor)
    try:
        found = paragraphs.parse(content, path)
    except exception.PolicyInvalid as error:
        return file_change.FileReading(
            _make_status(before), steady, error=error
        )
    return file_change.FileReading(_make_status(before), steady, found)


def read_excerpt(path: str) -> bytes:
    """Read the content of a file, for excerpts beside its problems.

    :param path: As for :func:`load`.
    :returns: The content; empty if the file is not a regular file or can't be
        read, which is then one of the problems.
    """
    try:
        with open(_open(path), 'rb') as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return b''
            return stream.read(paragraphs.MAX_BYTES)
    except (OSError, ValueError):
        return b''


def _open(path: str) -> int:
    """Open a file; O_NONBLOCK avoids waiting for the writer of a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _make_status(status: os.stat_result) -> file_change.FileStatus:
    return file_change.FileStatus(
        device=status.st_dev,
        inode=status.st_ino,
        mode=status.st_mode,
        size=status.st_size,
        modified=status.st_mtime_ns,
        changed=status.st_ctime_ns,
    )


def _make_missing_status(error: Exception) -> file_change.FileStatus:
    if isinstance(error, OSError):
        return file_change.FileStatus(error=os.strerror(error.errno or 0))
    return file_change.FileStatus(error=str(error))


def _make_unopened_reading(
    path: str, error: Exception
) -> file_change.FileReading:
    if not isinstance(error, FileNotFoundError):
        # Read the status again: it may be readable where open() fails.
        return file_change.FileReading(
            read_status(path), error=_unreadable(path, error), passing=True
        )
    if os.path.islink(path):
        refusal = _refusal(
            path,
            'the file is a symbolic link to a file that does not exist',
            'make the link point to the inventory file',
        )
        return file_change.FileReading(
            _make_missing_status(error), error=refusal
        )
    return file_change.FileReading(
        _make_missing_status(error),
        policy=policy.Policy(source=f'{path} (no such file)'),
    )


def _content(path: str, descriptor: int, status: os.stat_result) -> bytes:
    """Read an open file, after checking that it can be trusted.

    :raises nova_powervm.exception.PolicyInvalid: The file can't be trusted or
        can't be read.
    """
    try:
        _check_file(path, status)
        _check_directories(path)
        with open(descriptor, 'rb', closefd=False) as stream:
            content = stream.read(paragraphs.MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    return content


def _check_file(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(
            path,
            'it is not a regular file',
            'check that [powervm]inventory_file names the right file',
        )
    if status.st_mode & stat.S_IWOTH:
        raise _refusal(
            path,
            f'every user can write the file (mode '
            f'{stat.S_IMODE(status.st_mode):04o}), so any user could pass '
            'devices to instances',
            f'chmod o-w {path}',
        )


def _check_directories(path: str) -> None:
    """Refuse a directory in which any user can replace the file.

    In a directory with the sticky bit, as /tmp, only the file's owner can.
    """
    for place in dict.fromkeys((path, os.path.realpath(path))):
        directory = os.path.dirname(os.path.abspath(place))
        mode = os.stat(directory).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise _refusal(
                path,
                f'every user can write the directory {directory} (mode '
                f'{stat.S_IMODE(mode):04o}), so any user could replace '
                'the file',
                f'chmod o-w {directory}',
            )


def _unreadable(path: str, error: Exception) -> exception.PolicyInvalid:
    return _refusal(
        path,
        f'the file cannot be read: {error}',
        'let the user that the service runs as read it, for example with '
        f'chgrp GROUP {path} and chmod 0640 {path}, where GROUP is a group of '
        'that user',
    )


def _refusal(path: str, what: str, hint: str) -> exception.PolicyInvalid:
    return problems.make_policy_error(
        path, problems.Problem(what=what, hint=hint)
    )
