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

"""Bodies of requests that are read as they arrive."""

import io
import logging
from collections.abc import Iterator
from typing import IO

from werkzeug import exceptions

from powervm_emulator.core import errors

LOG = logging.getLogger(__name__)
_CHUNK = 1 << 16
# What reading a body raises that is not what the request says it is.
UNREADABLE = (exceptions.HTTPException, OSError)


class Body:
    """What is still to come of a request's body.

    :param stream: gives the bytes; nothing is to come without.
    """

    def __init__(self, stream: IO[bytes] | None = None) -> None:
        self._stream = stream or io.BytesIO()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes.

        :raises errors.BadRequest: it is shorter than it says, or its chunks
            are none.
        """
        while chunk := self._read(_CHUNK):
            yield chunk

    def begin(self) -> None:
        """Wait until some of it has come."""
        try:
            self._read(1)
        except errors.BadRequest as error:
            LOG.debug('nothing came: %s', error)

    def forget(self) -> None:
        """Read it to its end for nothing.

        A client that is still sending when its connection closes may never
        see the answer.
        """
        try:
            for _ in self.chunks():
                pass
        except errors.BadRequest as error:
            LOG.debug('its end did not come: %s', error)

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except UNREADABLE as error:
            raise unreadable() from error


def unreadable() -> errors.BadRequest:
    """Return the refusal of a body that cannot be read."""
    return errors.BadRequest('The body of the request cannot be read.')
