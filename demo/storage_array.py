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

"""The storage array of the demonstration: IBM's simulator, with bytes.

The simulator is a part of the unit tests of Cinder, and Cinder's own driver
for these arrays talks to it. Here it gets files for the bytes of its volumes,
and tells the truth about itself after each command.
"""

import collections.abc
import itertools
import pathlib
import shutil
import threading
import typing

from cinder.tests.unit.volume.drivers.ibm import test_storwize_svc

NAME = 'svc'

# The simulator's uids are these digits, fourteen zeros and the number of the
# volume: 33 digits or more. Real ones have 32.
_PREFIX = 18
_UID = 32

Description = dict[str, typing.Any]
Tell = collections.abc.Callable[[Description], None]


class Array(test_storwize_svc.StorwizeSVCManagementSimulator):
    """An array, without bytes for data that nobody wrote.

    The file of a volume is as long as what was written; the rest is zero.
    FlashCopy copies it at once.

    :param pools: the names of its pools.
    :param directory: where the files are.
    :param fabric: that all ports of the array are in.
    :param tell: gets the description of the array, as the verb ``set_san`` of
        the emulator wants it, before the answer to a command that changed it.
    """

    def __init__(
        self,
        pools: list[str],
        directory: pathlib.Path,
        fabric: str,
        tell: Tell,
    ) -> None:
        super().__init__(pools)
        self._directory = directory
        self._fabric = fabric
        self._tell = tell
        self._told: Description | None = None
        self._numbers = itertools.count(1)
        # A volume keeps its file when it gets another name, and its successor
        # with the same uid gets another one.
        self._files: dict[int, tuple[Description, pathlib.Path]] = {}
        self._lock = threading.RLock()

    def execute_command(
        self, cmd: list[str], check_exit_code: bool = True
    ) -> tuple[str, str]:
        """Run a command, and tell what the array has become.

        :param cmd: the words of the command.
        :returns: the standard output and the errors.
        :raises oslo_concurrency.processutils.ProcessExecutionError: the
            command has failed.
        """
        with self._lock:
            words = [self._unquote(word) for word in cmd]
            try:
                answer: tuple[str, str] = super().execute_command(
                    words, check_exit_code
                )
            finally:
                # A failed command can have done a part of its work.
                self._settle()
            return answer

    def _unquote(self, word: str) -> str:
        """Return a word of a command, without quotes if it names a volume.

        The simulator wants them around other names, and takes them from those
        of volumes that Cinder has named.
        """
        name = word.strip('"')
        return name if name in self._volumes_list else word

    def file(self, volume: str) -> pathlib.Path:
        """Return the file with the bytes of a volume.

        :param volume: its name in the array.
        """
        with self._lock:
            return self._file(self._volumes_list[volume])

    def size(self, volume: str) -> int:
        """Return the size of a volume in bytes."""
        with self._lock:
            return int(self._volumes_list[volume]['capacity'])

    def _cmd_startfcmap(self, **kwargs: str) -> tuple[str, str]:
        """Start a FlashCopy, which the simulator has without bytes."""
        out, error = super()._cmd_startfcmap(**kwargs)
        if not error:
            copy = self._fcmappings_list[kwargs['obj']]
            shutil.copyfile(
                self.file(copy['source']), self.file(copy['target'])
            )
        return out, error

    def _settle(self) -> None:
        """Make and remove files, and tell what has changed."""
        volumes = list(self._volumes_list.values())
        for volume in volumes:
            self._file(volume)
        present = {id(volume) for volume in volumes}
        for gone in self._files.keys() - present:
            self._files.pop(gone)[1].unlink()
        described = self._describe(volumes)
        if described != self._told:
            self._tell(described)
            self._told = described

    def _file(self, volume: Description) -> pathlib.Path:
        """Return the file of a volume, which is made if it is not there."""
        known = self._files.get(id(volume))
        if known is None:
            path = self._directory / f'{volume["name"]}.{next(self._numbers)}'
            path.touch()
            known = self._files[id(volume)] = volume, path
        return known[1]

    def _describe(self, volumes: list[Description]) -> Description:
        return {
            'name': NAME,
            'ports': [
                {'wwpn': wwpn, 'fabric': self._fabric}
                for wwpn in self._ports()
            ],
            'hosts': [
                {'name': host['host_name'], 'wwpns': list(host['wwpns'])}
                for host in self._hosts_list.values()
            ],
            'volumes': [
                {
                    'name': volume['name'],
                    'uid': _uid(volume['uid']),
                    'size': int(volume['capacity']),
                    'file': str(self._file(volume)),
                }
                for volume in volumes
            ],
            'maps': [
                {
                    'host': one['host'],
                    'volume': one['vol'],
                    'lun': int(one['lun']),
                }
                for one in self._mappings_list.values()
            ],
        }

    def _ports(self) -> list[str]:
        """Return the array's ports that hosts are logged in at."""
        lines, _ = self._cmd_lsfabric(delim='!')
        rows = [line.split('!') for line in lines.splitlines()]
        if not rows:
            return []
        at = rows[0].index('local_wwpn')
        return sorted({row[at] for row in rows[1:]})


def _uid(uid: str) -> str:
    """Return a uid of the simulator with as many digits as real ones have."""
    number = uid[_PREFIX:].lstrip('0')
    return uid[:_PREFIX] + number.zfill(_UID - _PREFIX)
