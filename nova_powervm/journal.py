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

"""The journal of burned devices: a file on the host.

Placement keeps with a provider that its device was used. Where the provider
goes (the compute service is deleted, somebody deletes the provider) only this
file knows. It is written before Placement is told, in one step: whenever the
process is killed, the file is the old one or the new one.

The file holds, in JSON::

    {"version": 1,
     "systems": {"<uuid of the managed system>": {
         "<DRC index>": "<when it was burned, in UTC>"}}}
"""

import datetime
import fcntl
import json
import os
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

import jsonschema
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.domain import slots

LOG = logging.getLogger(__name__)

VERSION = 1

_SCHEMA = {
    'type': 'object',
    'required': ['version', 'systems'],
    'additionalProperties': False,
    'properties': {
        'version': {'const': VERSION},
        'systems': {
            'type': 'object',
            'additionalProperties': {
                'type': 'object',
                'propertyNames': {'pattern': '^[0-9A-F]{8}$'},
                'additionalProperties': {'type': 'string'},
            },
        },
    },
}
_DAMAGED = (
    'nova-compute does not go on, for a used device could be offered again. '
    'Put a copy from before the damage there. Without one: see "A damaged '
    'journal" in the documentation on one-time use'
)

_Systems = Mapping[str, Mapping[str, str]]


class FileJournal:
    """Keeps the DRC indexes of burned devices in a file.

    One process at a time has it: the lock is on a second file, as the first
    is replaced in each write.

    :param path: Of the file. It is made when something is burned.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock: int | None = None
        self._systems: _Systems = {}

    def exists(self) -> bool:
        """Whether there is anything to read."""
        return self._lock is not None or os.path.lexists(self._path)

    def open(self) -> None:
        """Take the file for this process and read it.

        :raises exception.JournalUnusable: Another process has it, it is
            damaged, or it can't be read.
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
            self._systems = self._load()
        except BlockingIOError as error:
            os.close(lock)
            raise self._unusable(
                'another nova-compute uses it. Stop that one, or give each '
                'its own [powervm]burn_journal'
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

    def read(self, system: str) -> frozenset[int]:
        """Give the DRC indexes of a system's burned devices.

        :param system: Uuid of the managed system.
        :raises exception.JournalUnusable: See open.
        """
        self.open()
        return frozenset(
            int(index, 16) for index in self._systems.get(system, ())
        )

    def write(self, system: str, burned: Collection[int]) -> None:
        """Replace what the file says of a system; it is on disk afterwards.

        :param system: Uuid of the managed system.
        :param burned: DRC indexes.
        :raises exception.JournalUnusable: It can't be written.
        """
        self.open()
        known = self._systems.get(system, {})
        now = datetime.datetime.now(datetime.UTC).isoformat('T', 'seconds')
        indexes = map(slots.format_drc_index, sorted(burned))
        systems = {
            **self._systems,
            system: {index: known.get(index, now) for index in indexes},
        }
        text = json.dumps(
            {'version': VERSION, 'systems': systems}, indent=1, sort_keys=True
        )
        try:
            replace(self._path, text.encode() + b'\n')
        except OSError as error:
            raise self._unusable(f'it can not be written: {error}') from error
        self._systems = systems

    def _load(self) -> _Systems:
        try:
            with open(self._path, 'rb') as file:
                content: Any = json.load(file)
            jsonschema.validate(content, _SCHEMA)
        except FileNotFoundError as error:
            if os.path.islink(self._path):
                raise self._unusable(
                    'it is a symbolic link to a file that does not exist'
                ) from error
            return {}
        except OSError as error:
            raise self._unusable(f'it can not be read: {error}') from error
        except jsonschema.ValidationError as error:
            raise self._unusable(
                f'it is damaged ({error.message}). {_DAMAGED}'
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._unusable(
                f'it is damaged ({error}). {_DAMAGED}'
            ) from error
        systems: _Systems = content['systems']
        return systems

    def _unusable(self, reason: str) -> exception.JournalUnusable:
        return exception.JournalUnusable(path=self._path, reason=reason)


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
