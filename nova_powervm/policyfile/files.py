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

"""The inventory file on disk (specification, "Security impact").

Whoever can write the file decides which devices tenants get. A file that
anybody can change is therefore refused.
"""

import os
import stat

from nova_powervm.domain import policy
from nova_powervm.policyfile import paragraphs
from nova_powervm.policyfile import problems


def load(path: str) -> policy.Policy:
    """Read the inventory file of this host.

    :param path: The file's path. A symbolic link is followed.
    :returns: The policy. If there is no such file, an empty one whose source
        says so.
    :raises nova_powervm.exception.PolicyInvalid: The file can't be read or
        trusted, or its text has problems. See :func:`~.paragraphs.parse`.
    """
    try:
        # Without O_NONBLOCK the open of a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise _refusal(
                path,
                'the file is a symbolic link to a file that does not exist',
                'make the link point to the inventory file',
            ) from error
        return policy.Policy(source=f'{path} (no such file)')
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        _check_file(path, os.fstat(descriptor))
        _check_directories(path)
        with open(descriptor, 'rb', closefd=False) as stream:
            content = stream.read(paragraphs.LARGEST + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    return paragraphs.parse(content, path)


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
            f'{stat.S_IMODE(status.st_mode):04o}), so anybody could pass '
            'devices to instances',
            f'chmod o-w {path}',
        )


def _check_directories(path: str) -> None:
    """Refuse a directory in which anybody can put another file there.

    In one with the sticky bit, as /tmp, only the file's owner can.
    """
    for place in dict.fromkeys((path, os.path.realpath(path))):
        directory = os.path.dirname(os.path.abspath(place))
        mode = os.stat(directory).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise _refusal(
                path,
                f'every user can write the directory {directory} (mode '
                f'{stat.S_IMODE(mode):04o}), so anybody could replace the '
                'file',
                f'chmod o-w {directory}',
            )


def _unreadable(path: str, error: Exception) -> Exception:
    return _refusal(
        path,
        f'the file can not be read: {error}',
        'let the user that nova-compute runs as read it, for example with '
        f'chgrp nova {path} and chmod 0640 {path}',
    )


def _refusal(path: str, what: str, hint: str) -> Exception:
    return problems.invalid(path, problems.Problem(what=what, hint=hint))
