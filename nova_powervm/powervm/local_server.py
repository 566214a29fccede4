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

"""Verifies the server of a local session, and reads the session's token.

Without a password, a client proves to the REST server of a NovaLink partition
that it belongs to the group ``pvm_admin``: the server names a file with the
token, which only this group can read. Nothing proves the server: while it is
stopped, any user of the partition can listen on its port, name any file, and
is sent the content.

So the port must belong to the system or to nova-compute's own user, and the
file to the user who listens: then the server gets nothing that it could not
read. Where NovaLink has its files, and which group they have, is not known, so
the directory and the mode prove nothing here.
"""

import contextlib
import os
import pwd
import re
import socket
import stat
from collections.abc import Iterator

from pypowervm import exceptions as pvm

from nova_powervm.powervm import http_limits
from nova_powervm.powervm import port_owners

#: The first uid of people; the lower ones are those of the system's services,
#: such as the REST server.
_FIRST_PERSON = 1000
#: Real tokens have about two hundred characters.
_TOKEN = re.compile(rb'\s*([\x21-\x7e]{1,1024})\s*')


class TokenFileRefused(pvm.AuthFileAccessError):
    """The file that the server names has no token for us."""

    msg_fmt = 'The session file %(access_file)s is not used: %(error)s.'


def find_owner(host: str, port: int) -> int:
    """Return the uid of the user who gets the connections of a local session.

    Other users may listen on the same port of other addresses.

    :param host: The name or address that the session connects with.
    :param port: Its TCP port.
    :raises pypowervm.exceptions.ConnectionError: Nobody listens, or a person,
        or several users; or the kernel does not tell.
    """
    try:
        uids = port_owners.find(_resolve(host, port), port)
    except OSError as error:
        prefix = f'{error.filename}: ' if error.filename else ''
        raise pvm.ConnectionError(
            f'it is not known who listens on port {port} of {host}, so '
            f'nothing was sent to it ({prefix}{error.strerror})'
        ) from error
    if not uids:
        raise pvm.ConnectionError(f'nobody listens on port {port} of {host}')
    users = ' and '.join(sorted(map(_name, uids)))
    if len(uids) > 1 or not all(map(_is_trusted, uids)):
        raise pvm.ConnectionError(
            f'port {port} of {host} belongs to {users} and not to pvm-rest, '
            'so nothing was sent to it. Find the process with '
            f'`ss -ltnp sport = {port}`, stop it, and start pvm-rest'
        )
    return uids.pop()


def _resolve(host: str, port: int) -> set[str]:
    """Return the addresses of the host, as the connection resolves them."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return {str(address[0]) for *_, address in infos}


def _is_trusted(uid: int) -> bool:
    return uid < _FIRST_PERSON or uid == os.geteuid()


def _name(uid: int) -> str:
    try:
        return f'user {pwd.getpwuid(uid).pw_name}'
    except KeyError:
        return f'uid {uid}'


def read_token(path: str, owner: int) -> str:
    """Read the token of a session from the file that the server has named.

    :param path: The file.
    :param owner: The uid that the server runs as.
    :raises TokenFileRefused: The file is not the server's, or has no token.
    :raises pypowervm.exceptions.AuthFileReadError: nova-compute may not read
        it.
    """
    try:
        content = _read(path, owner)
    except PermissionError as error:
        raise pvm.AuthFileReadError(access_file=_named(path)) from error
    except OSError as error:
        raise _refused(path, error.strerror or 'it cannot be read') from error
    match = _TOKEN.fullmatch(content)
    if match is None:
        raise _refused(path, 'it does not consist of one token')
    return match[1].decode()


def _read(path: str, owner: int) -> bytes:
    """Read a regular file of a user; any regular file if that is root.

    The checks are of the very file that is read, and no link is followed.
    """
    with _opened(path, os.O_PATH | os.O_NOFOLLOW) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(path, 'it is no regular file')
        # Root can read any file that it names.
        if owner not in (0, status.st_uid):
            raise _refused(
                path,
                f'it belongs to {_name(status.st_uid)}, and the REST server '
                f'runs as {_name(owner)}',
            )
        with _opened(f'/proc/self/fd/{descriptor}', os.O_RDONLY) as readable:
            return os.read(readable, 2048)


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _refused(path: str, reason: str) -> TokenFileRefused:
    return TokenFileRefused(access_file=_named(path), error=reason)


def _named(path: str) -> str:
    return http_limits.shortened(path)
