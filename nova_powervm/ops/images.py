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

"""Images: inspected before use, verified, and read once."""

import collections
import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterator
from typing import Any

import tenacity
from oslo_concurrency import lockutils
from oslo_log import log as logging
from oslo_utils.imageutils import format_inspector

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.ops import drivers

LOG = logging.getLogger(__name__)

#: Bytes of an image to inspect before creating a disk. They identify every
#: format, and contain everything that matters of a qcow2 header.
BEGINNING = 256 * 1024
_MAX_ATTEMPTS = 2
#: After so many seconds, a proxy before Glance may have ended a transfer that
#: waits.
_MAX_WAIT = 30
#: Digits of a hash in a message, which Nova cuts after 255 characters.
_HASH_DIGITS = 16
#: How many verified images to remember; each entry is small.
_MAX_REMEMBERED = 1000
#: Glance also calls images with a partition table raw.
_RAW_FORMATS = ('raw', 'gpt')
#: Where the header of a qcow2 image says how its data is encrypted; 0 for not
#: at all. The inspectors do not look.
_CRYPT_METHOD = slice(32, 36)


class ImageReader:
    """An image in transit to a disk; a :class:`.drivers.Source`.

    The first stream continues after the inspected beginning, so that the
    image is transferred once. A later stream, after an interrupted upload,
    starts again with another inspection.

    :param described: The image as Glance describes it.
    :param source: Returns its bytes.
    :param inspect: False to trust the format that Glance declares.
    :param complete: Called when the whole image has been read and verified.
    :raises exception.ImageRefused: Its beginning shows that no disk can be
        made from it.
    :raises exception.ImageUnreadable: It cannot be read.
    """

    def __init__(
        self,
        described: image.Image,
        source: drivers.Source,
        complete: Callable[[image.Contents], None],
        *,
        inspect: bool,
    ) -> None:
        self._described = described
        self._source = source
        self._inspect = inspect
        self._complete = complete
        # Refuse an unknown hash algorithm before reading anything.
        _new_hash(described)
        self._beginning: list[bytes] = []
        self._rest: Generator[bytes] | None = None
        self._expires = 0.0
        #: Whether the whole image was read and verified.
        self.is_verified = False
        #: The properties that the beginning shows.
        self.contents = self._open()

    def __call__(self) -> Generator[bytes]:
        """Yield the bytes of the image; the last ones only if all are correct.

        :raises exception.ImageUnreadable: The transfer was interrupted.
        :raises exception.ImageDamaged: The size or hash is wrong.
        """
        return self._read_verified()

    def close(self) -> None:
        """End an incomplete transfer."""
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
        self._expires = time.monotonic() + _MAX_WAIT
        return contents

    def _read_verified(self) -> Generator[bytes]:
        """Yield the chunks, the last one only after verifying all of them."""
        # Not earlier: a stream that was never read can be returned again. A
        # stream that waits may expire, as clearing a disk takes minutes.
        if time.monotonic() > self._expires:
            self.close()
        if self._rest is None:
            self._open()
        beginning, rest = self._beginning, self._rest
        self._beginning, self._rest = [], None
        assert rest is not None  # noqa: S101 - for the type checker
        size, hasher, held = 0, _new_hash(self._described), b''
        with contextlib.closing(rest):
            for chunks in (beginning, rest):
                for chunk in chunks:
                    size += len(chunk)
                    if size > self.contents.size:
                        raise _wrong_size(self._described, f'over {size}')
                    if hasher is not None:
                        hasher.update(chunk)
                    if held:
                        yield held
                    held = chunk
        if size < self.contents.size:
            raise exception.ImageUnreadable(
                image=self._described.id,
                reason=f'received {size} bytes, but Glance says '
                f'{self.contents.size}',
            )
        if hasher is not None:
            _check_hash(self._described, hasher.hexdigest())
        self.is_verified = True
        self._complete(self.contents)
        yield held


class ImageOps:
    """Reads images, and remembers which images were verified.

    Images never change in Glance, so a verified image need not be read again
    just to verify it.
    """

    def __init__(self) -> None:
        # In the order of their verification.
        self._verified: dict[image.Image, image.Contents] = {}
        self._lock = threading.Lock()

    def open(
        self,
        described: image.Image,
        source: drivers.Source,
        *,
        inspect: bool = True,
    ) -> ImageReader:
        """Open an image and inspect its beginning.

        :param described: The image as Glance describes it.
        :param source: Returns its bytes.
        :param inspect: False to trust the format that Glance declares.
        :returns: The reader, which the caller has to close.
        :raises exception.ImageRefused: Its format is not the declared one,
            or not safe.
        :raises exception.ImageUnreadable: It cannot be read.
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

        return ImageReader(described, source, complete, inspect=inspect)

    def verify(
        self,
        described: image.Image,
        source: drivers.Source,
        *,
        inspect: bool = True,
    ) -> image.Contents:
        """Read a whole image, unless this service has verified it before.

        An image with trusted certificates is always read: an earlier
        verification does not tell whether its signature was verified, and by
        whom.

        Use this before replacing data that cannot be restored. Concurrent
        calls for one image wait for the first. The parameters are those of
        :meth:`open`.

        :raises exception.ImageRefused: No disk can be made from it.
        :raises exception.ImageDamaged: Its size or hash is wrong.
        :raises exception.ImageUnreadable: It cannot be read.
        """
        described.check()
        with lockutils.lock(f'powervm-image-{described.id}'):
            contents = self._verified.get(described)
            if contents is not None and not described.certificates:
                return contents
            return self._read_whole(described, source, inspect)

    def cache(
        self,
        described: image.Image,
        source: drivers.Source,
        disks: drivers.Disks,
        *,
        inspect: bool = True,
    ) -> bool:
        """Write an image to the cache of a shared pool.

        The other parameters are those of :meth:`open`.

        :param disks: The disk driver.
        :returns: Whether it was written: it was not there yet.
        :raises exception.PowerVMError: As for :meth:`verify`, or the host
            refused or did not answer.
        """
        described.check(disks.image_formats)
        pool = disks.pool
        if pool is None or pool.cached_image(described):
            return False
        image_reader = self.open(described, source, inspect=inspect)
        with contextlib.closing(image_reader) as reader:
            return pool.cache_image(described, reader.contents, reader)

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(exception.ImageUnreadable),
        stop=tenacity.stop_after_attempt(_MAX_ATTEMPTS),
        reraise=True,
    )
    def _read_whole(
        self, described: image.Image, source: drivers.Source, inspect: bool
    ) -> image.Contents:
        image_reader = self.open(described, source, inspect=inspect)
        with contextlib.closing(image_reader) as reader:
            collections.deque(reader(), maxlen=0)
            return reader.contents

    def _remember(
        self, described: image.Image, contents: image.Contents
    ) -> None:
        # Without a hash, a changed image would not be noticed.
        if not described.hash_value:
            return
        with self._lock:
            self._verified[described] = contents
            while len(self._verified) > _MAX_REMEMBERED:
                del self._verified[next(iter(self._verified))]


def _read_beginning(chunks: Iterator[bytes]) -> list[bytes]:
    beginning: list[bytes] = []
    size = 0
    while size < BEGINNING:
        chunk = next(chunks, None)
        if chunk is None:
            break
        beginning.append(chunk)
        size += len(chunk)
    return beginning


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
    """Return a hash object of the image's algorithm; None without a hash."""
    if not described.hash_value:
        return None
    try:
        hasher = hashlib.new(described.hash_algorithm, usedforsecurity=False)
    except ValueError:
        hasher = None
    # Algorithms of variable length have a digest size of 0.
    if hasher is None or not hasher.digest_size:
        raise exception.ImageRefused(
            image=described.id,
            reason=f"its hash algorithm '{described.hash_algorithm}' is not "
            'available on this host',
        )
    return hasher


def _wrong_size(
    described: image.Image, received: object
) -> exception.ImageDamaged:
    return exception.ImageDamaged(
        image=described.id,
        reason=f'received {received} bytes, but Glance says {described.size}',
    )


def _check_hash(described: image.Image, digest: str) -> None:
    if digest != described.hash_value.lower():
        raise exception.ImageDamaged(
            image=described.id,
            reason=f'its {described.hash_algorithm} is '
            f'{digest[:_HASH_DIGITS]}..., '
            f'Glance says {described.hash_value[:_HASH_DIGITS]}...',
        )


def problem_with_raw(beginning: bytes) -> str:
    """Return why no disk can be made from a raw image; empty if it can.

    :param beginning: The first :data:`BEGINNING` bytes of the image, or all.
    """
    try:
        disk_format = str(_identify(beginning))
    except (
        format_inspector.SafetyCheckFailed,
        format_inspector.ImageFormatError,
    ) as error:
        return str(error)
    if disk_format in _RAW_FORMATS:
        return ''
    return f'they are those of {disk_format}'


def _identify(beginning: bytes) -> Any:
    """Return the inspector of the format of an image, which is safe.

    The rules are those of Nova's own inspection. An inspector that is still
    incomplete has nevertheless identified its format.

    :raises format_inspector.SafetyCheckFailed: The image is not safe.
    :raises format_inspector.ImageFormatError: It may have several formats.
    """
    inspected: Any = format_inspector.InspectWrapper(iter([beginning]))
    collections.deque(inspected, maxlen=0)
    inspector = inspected.format
    inspector.safety_check()
    return inspector


def _inspect_format(described: image.Image, beginning: bytes) -> Any:
    """Return the inspector of the image's format; check the format first."""
    try:
        inspector = _identify(beginning)
    except format_inspector.SafetyCheckFailed as error:
        raise exception.ImageRefused(
            image=described.id, reason=f'it is not safe: {error}'
        ) from error
    except format_inspector.ImageFormatError as error:
        raise exception.ImageRefused(
            image=described.id, reason=f'its format is ambiguous: {error}'
        ) from error
    real, declared = str(inspector), described.disk_format
    if real != declared and not (declared == 'raw' and real in _RAW_FORMATS):
        raise exception.ImageRefused(
            image=described.id,
            reason=f'Glance says its format is {declared}, but its bytes are '
            f'{real}. Correct its disk_format',
        )
    if real == image.QCOW2 and any(beginning[_CRYPT_METHOD]):
        raise exception.ImageRefused(
            image=described.id,
            reason='it is encrypted, and no guest could read the disk. '
            'Convert it to one that is not',
        )
    return inspector
