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

"""Finds out whose process on this machine would get a connection.

The kernel is asked by netlink, which finds the socket in microseconds. Its
tables below /proc list all sockets of all addresses, and take milliseconds to
read: they are for a kernel that does not answer, and for a container or a
security module that does not allow the question.
"""

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Collection
from collections.abc import Iterator
from typing import TypeAlias

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_SOCK_DIAG = 4
_BY_FAMILY = 20
_IS_REQUEST = 1
_HEAD = struct.Struct('=IHHII')
#: The head of a message, and struct inet_diag_req_v2.
_QUESTION = struct.Struct('=IHHII BBBxI HH16s16sI8s')
#: The parts of struct inet_diag_msg, and of struct nlmsgerr, that are read.
_UID = struct.Struct('=4x48x12xI')
_CODE = struct.Struct('=i')
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b'\xff' * 8
#: The index of lo, by which connections to the machine's own addresses come.
_LOOPBACK = 1

#: The listening sockets come first in these files of the kernel.
_TABLES = ('/proc/net/tcp', '/proc/net/tcp6')
_LISTENING = '0A'


def find(addresses: Collection[str], port: int) -> set[int]:
    """Return the uids of the users whose processes would get a connection.

    :param addresses: IP addresses of this machine, each of which is tried.
    :param port: The TCP port.
    :raises OSError: Neither the kernel nor its tables can be read.
    """
    try:
        uids = set(_ask(addresses, port))
    except OSError:
        uids = set()
    # A kernel without the module that answers reports no socket.
    return uids or _look_up(addresses, port)


def _ask(addresses: Collection[str], port: int) -> Iterator[int]:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _SOCK_DIAG) as kernel:
        for address in addresses:
            kernel.send(_question(address, port))
            # The answer is there before the question has been sent.
            yield from _uids(kernel.recv(8192, socket.MSG_DONTWAIT))


def _uids(answer: bytes) -> Iterator[int]:
    """Yield the uid that an answer has, if there is such a socket."""
    _, kind, *_ = _HEAD.unpack_from(answer)
    if kind == _BY_FAMILY:
        yield from _UID.unpack_from(answer, _HEAD.size)
        return
    (code,) = _CODE.unpack_from(answer, _HEAD.size)
    if code != -errno.ENOENT:
        raise OSError(-code, os.strerror(-code))


def _question(address: str, port: int) -> bytes:
    """Ask which socket gets what comes for an address, from that address."""
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    return _QUESTION.pack(
        *(_QUESTION.size, _BY_FAMILY, _IS_REQUEST, 0, 0),
        *(family, socket.IPPROTO_TCP, 0, _ALL_STATES),
        *(socket.htons(port), 0, packed, packed, _LOOPBACK, _NO_COOKIE),
    )


def _look_up(addresses: Collection[str], port: int) -> set[int]:
    """Find the uids in the tables; a wildcard stands for each address."""
    tables = [table for table in _TABLES if os.path.exists(table)]
    if not tables:
        text = os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, text, _TABLES[0])
    ours = {_plain(ipaddress.ip_address(address)) for address in addresses}
    return {
        uid
        for table in tables
        for address, uid in _listeners(table, port)
        if address.is_unspecified or address in ours
    }


def _listeners(table: str, port: int) -> Iterator[tuple[_Address, int]]:
    with open(table) as rows:
        next(rows)
        for row in rows:
            _, local, _, state, _, _, _, uid, *_ = row.split()
            if state != _LISTENING:
                break
            words, _, number = local.partition(':')
            if int(number, 16) == port:
                yield _parse(words), int(uid)


def _parse(words: str) -> _Address:
    """Return the address that the kernel writes as native-endian numbers."""
    packed = bytes.fromhex(words)
    count = len(packed) // 4
    numbers = struct.unpack(f'>{count}I', packed)
    return _plain(ipaddress.ip_address(struct.pack(f'={count}I', *numbers)))


def _plain(address: _Address) -> _Address:
    """Return an address; the IPv4 one if an IPv6 address stands for it."""
    return getattr(address, 'ipv4_mapped', None) or address
