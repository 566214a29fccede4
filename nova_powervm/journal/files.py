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

"""A file of JSON that one process at a time has, whole after every kill."""

import fcntl
import json
import os
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

import jsonschema

from nova_powervm import exception


class LockedFile:
    """Reads such a file once, and replaces it.

    The lock is on a second file, as the first is replaced in each write.

    :cvar schema: JSON schema of what it holds.
    :cvar empty: What it holds where there is no file.
    :cvar refusal: What is raised where it can't be used.
    :cvar if_damaged: What to do then, in words.
    :cvar if_locked: What to do if another process has it.
    :param path: Of the file. It is made in the first write.
    """

    schema: ClassVar[Mapping[str, Any]]
    empty: ClassVar[Mapping[str, Any]]
    refusal: ClassVar[type[exception.PowerVMError]]
    if_damaged: ClassVar[str]
    if_locked: ClassVar[str]

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock: int | None = None
        self._content: Mapping[str, Any] = self.empty

    def exists(self) -> bool:
        """Whether there is anything to read."""
        return self._lock is not None or os.path.lexists(self._path)

    def open(self) -> None:
        """Take the file for this process and read it.

        :raises exception.PowerVMError: The refusal: another process has it,
            it is damaged, or it can't be read.
        """
        if self._lock is not None:
            return
        try:
            os.makedirs(os.path.dirname(self._path) or '.', exist_ok=True)
            # Whatever name the file is called by.
            path = os.path.realpath(self._path) + '.lock'
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(f'it can not be opened: {error}') from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._content = self._load()
        except BlockingIOError as error:
            os.close(lock)
            raise self._unusable(
                f'another nova-compute uses it. {self.if_locked}'
            ) from error
        except OSError as error:
            os.close(lock)
            raise self._unusable(f'it can not be locked: {error}') from error
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def close(self) -> None:
        """Let another process have the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _put(self, content: Mapping[str, Any]) -> None:
        """Replace what the file holds; it is on disk afterwards."""
        text = json.dumps(content, indent=1, sort_keys=True)
        try:
            replace(self._path, text.encode() + b'\n')
        except OSError as error:
            raise self._unusable(f'it can not be written: {error}') from error
        self._content = content

    def _load(self) -> Mapping[str, Any]:
        try:
            with open(self._path, 'rb') as file:
                content: Any = json.load(file)
            jsonschema.validate(content, self.schema)
        except FileNotFoundError as error:
            if os.path.islink(self._path):
                raise self._unusable(
                    'it is a symbolic link to a file that does not exist'
                ) from error
            return self.empty
        except OSError as error:
            raise self._unusable(f'it can not be read: {error}') from error
        except jsonschema.ValidationError as error:
            raise self._unusable(
                f'it is damaged ({error.message}). {self.if_damaged}'
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._unusable(
                f'it is damaged ({error}). {self.if_damaged}'
            ) from error
        read: Mapping[str, Any] = content
        return read

    def _unusable(self, reason: str) -> exception.PowerVMError:
        return self.refusal(path=self._path, reason=reason)


def replace(path: str, content: bytes) -> None:
    """Replace a file in one step; the new one is on disk afterwards.

    :param path: Of the file; a symbolic link is followed.
    :param content: What it is to hold.
    :raises OSError: It did not work; the old file is there.
    """
    path = os.path.realpath(path)
    temporary = path + '.new'
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        # What a killed process left there may have been made by anybody.
        os.fchmod(file, 0o600)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        # The name, too, has to be on disk before Placement is told.
        os.fsync(directory)
    finally:
        os.close(directory)
