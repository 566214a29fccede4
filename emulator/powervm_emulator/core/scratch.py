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

"""Directories for what must not outlive the process, not even a killed one."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile

_PREFIX = 'powervm-emulator-'
_LOCK = 'lock'


class Scratch:
    """A directory that only this user can read, deleted with this process.

    A process that is killed leaves it, but not the lock on a file in it: so
    :func:`sweep` knows that nobody uses it any more.
    """

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix=_PREFIX)
        above = pathlib.Path(self._directory.name)
        self.path = above / 'files'
        self.path.mkdir()
        # It gets its name when it is locked; before, sweep() does not see it.
        made = above / f'{_LOCK}.new'
        self._lock = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(above / _LOCK)

    def cleanup(self) -> None:
        """Delete the directory."""
        self._directory.cleanup()
        os.close(self._lock)


def sweep() -> None:
    """Delete the directories that killed processes of this user have left."""
    for path in pathlib.Path(tempfile.gettempdir()).glob(f'{_PREFIX}*'):
        # Others may have taken or deleted it meanwhile.
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.getuid():
                _delete_unused(path)


def _delete_unused(path: pathlib.Path) -> None:
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(lock)
