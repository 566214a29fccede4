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

"""The console of servers in a browser: Nova's proxy, and noVNC for it."""

import hashlib
import importlib.resources
import pathlib
import shutil
import socket
import subprocess
import tempfile

from demo import config
from demo import messaging
from demo import stack as stack_lib
from demo import supervisor as supervisor_lib

PROXY = 'nova-novncproxy'
PAGE = 'console.html'

#: The package of the npm registry that has noVNC's modules, and nothing else.
_NPM_PACKAGE = '@novnc/novnc@1.7.0'
#: SHA-512 of it, as the registry's ``dist.integrity`` says in base64. What apt
#: downloads is in the signed lists of Debian.
_NPM_SHA512 = (
    'b9c1093b1e13d9abc844295ea1d93b6286d98f93b619ad8078b7d0ebd03fca31'
    'bd1c76dadbe3c38304a437716db6b986fbbd191b1db5b0494d168b8ad77473c8'
)
#: Debian's package, whose pages are in this directory of it.
_DEBIAN_PACKAGE, _DEBIAN_PAGES = 'novnc', 'usr/share/novnc'
_FETCH_SECONDS = 120
_START_SECONDS = 60


class NoVncError(OSError):
    """Why noVNC is not there, in words."""


def fetch(directory: pathlib.Path) -> None:
    """Fetch noVNC from a package registry, and add a page that uses it.

    No package is installed.

    :param directory: where the proxy finds what it serves; a new one.
    :raises NoVncError: no registry gives it.
    """
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work)
        shutil.copytree(_fetch_modules(path), directory, symlinks=False)
    page = importlib.resources.files('demo') / PAGE
    (directory / PAGE).write_text(page.read_text())


def _fetch_modules(work: pathlib.Path) -> pathlib.Path:
    """Return the directory below ``work`` that has noVNC's ``core``."""
    if shutil.which('npm'):
        _run(['npm', 'pack', '--silent', _NPM_PACKAGE], work)
        (archive,) = work.glob('*.tgz')
        _check(archive)
        shutil.unpack_archive(archive, work, filter='data')
        return work / 'package'
    if shutil.which('apt-get'):
        _run(['apt-get', '--quiet', 'download', _DEBIAN_PACKAGE], work)
        (archive,) = work.glob('*.deb')
        _run(['dpkg', '-x', str(archive), str(work)], work)
        return work / _DEBIAN_PAGES
    raise NoVncError(
        'noVNC cannot be fetched: neither npm nor apt-get is installed; '
        'leave out --console'
    )


def _check(archive: pathlib.Path) -> None:
    """Refuse a package with other bytes than those that were reviewed.

    :raises NoVncError: it has.
    """
    found = hashlib.sha512(archive.read_bytes()).hexdigest()
    if found != _NPM_SHA512:
        raise NoVncError(
            f'{_NPM_PACKAGE} of the npm registry has the SHA-512 {found} '
            f'instead of {_NPM_SHA512}; leave out --console'
        )


def _run(command: list[str], work: pathlib.Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=work,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoVncError(f'noVNC cannot be fetched: {error}') from error
    if done.returncode:
        raise NoVncError(
            f'noVNC cannot be fetched: {" ".join(command)} says: '
            f'{done.stderr.strip()}'
        )


def start_proxy(
    supervisor: supervisor_lib.Supervisor, stack: stack_lib.Stack
) -> None:
    """Start the command that Nova installs, and wait until it listens.

    :raises supervisor.ServiceError: it does not come up.
    """
    fetch(stack.novnc)
    supervisor.start(
        PROXY,
        'demo.services.program',
        str(stack.prefix / 'bin' / PROXY),
        *('--config-file', str(stack.etc / config.NOVA)),
        *('--log-file', str(stack.log / f'{PROXY}.log')),
        *('--web', str(stack.novnc)),
        environment=messaging.environment(stack.transport_url),
    )
    address = stack_lib.ADDRESS, stack.ports[stack_lib.PROXY]
    list(
        supervisor.wait(
            [PROXY], lambda _name: _listens(address), _START_SECONDS
        )
    )


def _listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except OSError:
        return False
    return True
