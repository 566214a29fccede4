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

"""What nova-powervm-clean keeps on the disk: a lock, and counts.

nova-compute has no file of its own. This command has: how often a device could
not be cleaned is nobody else's business, and must survive the end of a run
from cron.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import tempfile
import urllib.parse
from collections.abc import Collection
from collections.abc import Iterator

from nova_powervm import exception
from nova_powervm.tool import errors


@contextlib.contextmanager
def lock(directory: str, node: str) -> Iterator[int]:
    """Keep other processes out that would clean the devices of a node.

    The lock belongs to the open file. A program that inherits it keeps the
    lock if this process is killed, so that no second one touches its device.

    :returns: The file descriptor, which programs have to inherit.
    :raises errors.AlreadyCleaning: Another process has the lock.
    :raises OSError: The directory cannot be made or written.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = _path(directory, node, 'lock')
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise errors.AlreadyCleaning(node=node, path=path) from error
        yield descriptor
    finally:
        os.close(descriptor)


class Attempts:
    """Counts attempts to clean devices.

    An attempt counts from its start: if nobody was left to see its end, it has
    failed. Only who holds the lock may use this.

    :param directory: Where the file is.
    :param node: Name of the node whose devices are counted.
    """

    def __init__(self, directory: str, node: str) -> None:
        self._path = _path(directory, node, 'json')

    def of(self, device: str) -> int:
        """Return how many attempts a device has behind it.

        :raises exception.ConfigurationError: The file is damaged.
        """
        return self._read().get(device, 0)

    def put(self, device: str, number: int) -> None:
        """Set the number of attempts of a device; 0 forgets it."""
        self._write({**self._read(), device: number})

    def keep(self, devices: Collection[str]) -> None:
        """Forget all devices but some: the others do not wait any more."""
        counts = self._read()
        if not counts.keys() <= set(devices):
            self._write({d: n for d, n in counts.items() if d in devices})

    def _read(self) -> dict[str, int]:
        try:
            counts = json.loads(self._path.read_bytes())
            if not all(type(number) is int for number in counts.values()):
                raise ValueError('a count is not a number')
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as error:
            raise exception.ConfigurationError(
                reason=f'{self._path} is damaged: {error}. Delete it; then '
                'failed attempts are counted from 1 again.'
            ) from error
        return dict(counts)

    def _write(self, counts: dict[str, int]) -> None:
        """Replace the file as a whole, or not at all."""
        with tempfile.NamedTemporaryFile(
            'w', dir=self._path.parent, delete=False
        ) as file:
            try:
                json.dump({d: n for d, n in counts.items() if n}, file)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, self._path)
            except BaseException:
                os.unlink(file.name)
                raise


def _path(directory: str, node: str, ending: str) -> pathlib.Path:
    name = urllib.parse.quote(node, safe='')
    return pathlib.Path(directory, f'{name}.{ending}')
