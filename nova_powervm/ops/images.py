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

"""Images: looked at before anything is made of them, and read once."""

import collections
import contextlib
import hashlib
import threading
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterator
from typing import Any

import tenacity
from oslo_concurrency import lockutils
from oslo_log import log as logging
from oslo_utils.imageutils import format_inspector

from nova_powervm import exception
from nova_powervm.instance import image
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

#: What of an image is looked at before anything is made of it. All formats
#: that are told apart show themselves in it, and qcow2 tells all of itself.
BEGINNING = 256 * 1024
_MAX_ATTEMPTS = 2
#: Of a hash in a message, which Nova cuts after 255 characters.
_HASH_DIGITS = 16
#: What is remembered of an image is small.
_MAX_REMEMBERED = 1000
#: A partition table is no format of its own: Glance calls such images raw.
_RAW_FORMATS = ('raw', 'gpt')


class Reading:
    """An image on its way to a disk; it is a :class:`.ports.Source`.

    The first stream that it gives goes on where the look at the beginning
    ended, so that the image crosses the network once. A later one, after an
    upload that broke off, begins anew with another look.

    :param described: The image as Glance describes it.
    :param source: Gives its bytes.
    :param inspect: False to trust the format that Glance declares.
    :param complete: Called when all of it was read and verified.
    :raises exception.ImageRefused: It can't be made a disk, as its beginning
        shows.
    :raises exception.ImageUnreadable: It can't be read.
    """

    def __init__(
        self,
        described: image.Image,
        source: interfaces.Source,
        complete: Callable[[image.Contents], None],
        *,
        inspect: bool,
    ) -> None:
        self._described = described
        self._source = source
        self._inspect = inspect
        self._complete = complete
        # Before a byte is read: an unknown hash can't be made good.
        _new_hash(described)
        self._beginning: list[bytes] = []
        self._rest: Generator[bytes] | None = None
        #: What the beginning tells.
        self.contents = self._open()

    def __call__(self) -> Generator[bytes]:
        """Give all bytes of the image, the last ones only if all are right.

        :raises exception.ImageUnreadable: The transfer broke off.
        :raises exception.ImageDamaged: Other bytes came.
        """
        if self._rest is None:
            self._open()
        return self._read_verified()

    def close(self) -> None:
        """End a transfer that is not read to its end."""
        if self._rest is not None:
            self._rest.close()
            self._rest = None

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(exception.ImageUnreadable),
        stop=tenacity.stop_after_attempt(_MAX_ATTEMPTS),
        reraise=True,
    )
    def _open(self) -> image.Contents:
        chunks = self._source()
        with contextlib.ExitStack() as undo:
            undo.callback(chunks.close)
            self._beginning = _read_beginning(chunks)
            contents = _describe_contents(
                self._described, b''.join(self._beginning), self._inspect
            )
            undo.pop_all()
        self._rest = chunks
        return contents

    def _read_verified(self) -> Generator[bytes]:
        """Pass chunks on, the last one only after all were verified."""
        # Only now: a stream that nobody began to read can be given again.
        beginning, rest = self._beginning, self._rest
        self._beginning, self._rest = [], None
        assert rest is not None  # noqa: S101 - for the type checker
        size, found, held = 0, _new_hash(self._described), b''
        with contextlib.closing(rest):
            for chunks in (beginning, rest):
                for chunk in chunks:
                    size += len(chunk)
                    if size > self.contents.size:
                        raise _wrong_size(self._described, f'over {size}')
                    if found is not None:
                        found.update(chunk)
                    if held:
                        yield held
                    held = chunk
        if size < self.contents.size:
            raise exception.ImageUnreadable(
                image=self._described.id,
                reason=f'{size} bytes came, Glance says {self.contents.size}',
            )
        if found is not None:
            _check_hash(self._described, found.hexdigest())
        self._complete(self.contents)
        yield held


class ImageOps:
    """Reads images, and remembers which were verified.

    An image never changes in Glance, so one that was read to its end is not
    read again only to verify it.
    """

    def __init__(self) -> None:
        self._known: collections.OrderedDict[image.Image, image.Contents] = (
            collections.OrderedDict()
        )
        self._lock = threading.Lock()

    def open(
        self,
        described: image.Image,
        source: interfaces.Source,
        *,
        inspect: bool = True,
    ) -> Reading:
        """Open an image and look at its beginning.

        :param described: The image as Glance describes it.
        :param source: Gives its bytes.
        :param inspect: False to trust the format that Glance declares.
        :returns: What is to be closed in the end.
        :raises exception.ImageRefused: It is not of the format that it is
            said to be, or one that is not safe.
        :raises exception.ImageUnreadable: It can't be read.
        """
        described.check()
        if not described.hash_value:
            LOG.warning(
                'Glance has no hash of image %s; it is verified by size '
                'alone.',
                described.id,
            )

        def complete(contents: image.Contents) -> None:
            self._remember(described, contents)

        return Reading(described, source, complete, inspect=inspect)

    def verify(
        self,
        described: image.Image,
        source: interfaces.Source,
        *,
        inspect: bool = True,
    ) -> image.Contents:
        """Read an image to its end, unless this service has done so before.

        For an image that replaces data which can't be restored. Concurrent
        calls for one image wait for the first.

        :param described: As for :meth:`open`, like the others.
        :raises exception.ImageRefused: It is not fit for a disk.
        :raises exception.ImageDamaged: Its size or hash is another.
        :raises exception.ImageUnreadable: It can't be read.
        """
        described.check()
        with lockutils.lock(f'powervm-image-{described.id}'):
            known = self._known.get(described)
            if known is not None:
                return known
            return self._read_whole(described, source, inspect)

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(exception.ImageUnreadable),
        stop=tenacity.stop_after_attempt(_MAX_ATTEMPTS),
        reraise=True,
    )
    def _read_whole(
        self, described: image.Image, source: interfaces.Source, inspect: bool
    ) -> image.Contents:
        with contextlib.closing(
            self.open(described, source, inspect=inspect)
        ) as reading:
            collections.deque(reading(), maxlen=0)
            return reading.contents

    def _remember(
        self, described: image.Image, contents: image.Contents
    ) -> None:
        # Without a hash there is no telling whether it is the same.
        if not described.hash_value:
            return
        with self._lock:
            self._known[described] = contents
            while len(self._known) > _MAX_REMEMBERED:
                self._known.popitem(last=False)


def _read_beginning(chunks: Iterator[bytes]) -> list[bytes]:
    found: list[bytes] = []
    size = 0
    while size < BEGINNING:
        chunk = next(chunks, None)
        if chunk is None:
            break
        found.append(chunk)
        size += len(chunk)
    return found


def _describe_contents(
    described: image.Image, beginning: bytes, inspect: bool
) -> image.Contents:
    size = described.check()
    is_raw = described.disk_format == 'raw'
    inspector: Any = None
    if inspect or not is_raw:
        inspector = _inspect_format(described, beginning)
    return image.Contents(
        size=size,
        disk_format=described.disk_format,
        disk_bytes=size if is_raw else inspector.virtual_size,
    )


def _new_hash(described: image.Image) -> Any:
    """Give a new hash object of Glance's algorithm, None without a hash."""
    if not described.hash_value:
        return None
    try:
        made = hashlib.new(described.hash_algorithm, usedforsecurity=False)
    except ValueError:
        made = None
    # Those whose length is to be chosen have none of their own.
    if made is None or not made.digest_size:
        raise exception.ImageRefused(
            image=described.id,
            reason=f"its hash algorithm '{described.hash_algorithm}' is not "
            'known here',
        )
    return made


def _wrong_size(
    described: image.Image, came: object
) -> exception.ImageDamaged:
    return exception.ImageDamaged(
        image=described.id,
        reason=f'{came} bytes came, Glance says {described.size}',
    )


def _check_hash(described: image.Image, found: str) -> None:
    if found != described.hash_value.lower():
        raise exception.ImageDamaged(
            image=described.id,
            reason=f'its {described.hash_algorithm} is '
            f'{found[:_HASH_DIGITS]}..., '
            f'Glance says {described.hash_value[:_HASH_DIGITS]}...',
        )


def _inspect_format(described: image.Image, beginning: bytes) -> Any:
    """Give the inspector of the image's format, if it is the declared one.

    The rules are those of Nova's own inspection. An inspector that waits for
    more than the beginning has seen what its format is known by.
    """
    inspected: Any = format_inspector.InspectWrapper(iter([beginning]))
    collections.deque(inspected, maxlen=0)
    try:
        inspector = inspected.format
        inspector.safety_check()
    except format_inspector.SafetyCheckFailed as error:
        raise exception.ImageRefused(
            image=described.id, reason=f'it is not safe: {error}'
        ) from error
    except format_inspector.ImageFormatError as error:
        raise exception.ImageRefused(
            image=described.id, reason=f'its format is doubtful: {error}'
        ) from error
    found = str(inspector)
    declared = described.disk_format
    if found != declared and not (declared == 'raw' and found in _RAW_FORMATS):
        raise exception.ImageRefused(
            image=described.id,
            reason=f'Glance says its format is {declared}, but its bytes are '
            f'{found}. Set the disk_format that it has',
        )
    return inspector
