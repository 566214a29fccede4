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

"""Reads the inventory file from disk.

Whoever can write the file decides which devices tenants get. A file that any
user can change is therefore refused.
"""

import os
import stat

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import structure
from nova_powervm.inventory_file.problems import Code

#: Equal statuses mean the same file with the same content. The last number,
#: ``ctime``, detects what the others don't: another owner, or new content of
#: the same size with the old modification time. A file without a status has
#: the reason in place of numbers.
Status = tuple[int | str, ...]

_MISSING: Status = ('no such file',)
_CHANGING: Status = ('changed while it was read',)


#: Status of the file, and its policy or the error that :func:`load` raises.
Reading = tuple[Status, policies.Policy | exception.PolicyInvalid]


def load(path: str) -> policies.Policy:
    """Read the inventory file of this host.

    :param path: Path of the file. Symbolic links are followed.
    :returns: The policy. If the file does not exist, the policy is empty and
        its source says so.
    :raises nova_powervm.exception.PolicyInvalid: The file can't be read, can't
        be trusted, or has problems. See :func:`~.structure.parse`.
    """
    _, found = read_file(path)
    if isinstance(found, exception.PolicyInvalid):
        raise found
    return found


def read_status(path: str) -> Status:
    """Read the status of the file without opening it.

    :param path: As for :func:`load`.
    """
    try:
        return _make_status(os.stat(path))
    except FileNotFoundError:
        return _MISSING
    except (OSError, ValueError) as error:
        return (str(error),)


def read_file(path: str) -> Reading:
    """Read the file, with its status.

    :param path: As for :func:`load`.
    :returns: If the file changes meanwhile, it has no status that another
        reading of its status equals.
    """
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return _MISSING, _make_missing_policy(path)
    except (OSError, ValueError) as error:
        # Read the status again: it may be readable where open() fails.
        return read_status(path), _refuse_unreadable(path, error)
    status = os.fstat(descriptor)
    before = _make_status(status)
    try:
        _check_file(path, status)
        _check_directories(path)
        with open(descriptor, 'rb', closefd=False) as stream:
            content = stream.read(structure.MAX_BYTES + 1)
        if _make_status(os.fstat(descriptor)) != before:
            before = _CHANGING
        return before, structure.parse(content, path)
    except exception.PolicyInvalid as refusal:
        return before, refusal
    except OSError as error:
        return before, _refuse_unreadable(path, error)
    finally:
        os.close(descriptor)


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
            return stream.read(structure.MAX_BYTES)
    except (OSError, ValueError):
        return b''


def _open(path: str) -> int:
    """Open a file; O_NONBLOCK avoids waiting for the writer of a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _make_status(found: os.stat_result) -> Status:
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, *times


def _make_missing_policy(
    path: str,
) -> policies.Policy | exception.PolicyInvalid:
    if os.path.islink(path):
        what = 'the file is a symbolic link to a file that does not exist'
        hint = 'make the link point to the inventory file'
        return _refuse(path, Code.DANGLING_LINK, what, hint)
    return policies.Policy(source=f'{path} (no such file)')


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


def _refuse_unreadable(path: str, error: Exception) -> exception.PolicyInvalid:
    what = f'the file cannot be read: {error}'
    hint = (
        'let the user that the service runs as read it, for example with '
        f'chgrp GROUP {path} and chmod 0640 {path}, where GROUP is a group of '
        'that user'
    )
    return _refuse(path, Code.UNREADABLE, what, hint)


def _refuse(
    path: str, code: Code, what: str, hint: str
) -> exception.PolicyInvalid:
    problem = problems.Problem(what=what, hint=hint, code=code)
    return exception.PolicyInvalid(
        path=path, count=1, problems=problems.Problems([problem])
    )
