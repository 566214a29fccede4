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

"""Images: examined before anything is made of them."""

import collections
import contextlib
import hashlib
import threading
from collections.abc import Iterator
from typing import Any

import tenacity
from oslo_concurrency import lockutils
from oslo_log import log as logging
from oslo_utils.imageutils import format_inspector

from nova_powervm import exception
from nova_powervm.domain import image
from nova_powervm.ops import ports

LOG = logging.getLogger(__name__)

_TRIES = 2
#: Of a hash in a message, which Nova cuts after 255 characters.
_DIGITS = 16
#: What is remembered of an image is small.
_REMEMBERED = 1000
#: A partition table is no format of its own: Glance calls such images raw.
_RAW = ('raw', 'gpt')


class ImageOps:
    """Examines images, each once: in Glance they never change.

    The host has to be told the SHA-256 of an image before it gets the first
    byte, and a bad image shall be refused before anything is made. So an
    image that this service has not met is read once more than it is written.
    """

    def __init__(self) -> None:
        self._known: collections.OrderedDict[image.Image, image.Contents] = (
            collections.OrderedDict()
        )
        self._lock = threading.Lock()

    def examine(
        self,
        described: image.Image,
        source: ports.Source,
        *,
        inspect: bool = True,
    ) -> image.Contents:
        """Read an image and compare it with what Glance says of it.

        Several builds of one image wait for the first.

        :param described: The image as Glance describes it.
        :param source: Gives its bytes.
        :param inspect: False to believe Glance's word about the format.
        :raises exception.ImageRefused: It is not of the format that it is
            said to be, or one that is not safe.
        :raises exception.ImageDamaged: Its size or hash is another.
        """
        described.check_format()
        with lockutils.lock(f'powervm-image-{described.id}'):
            contents = self._known.get(described)
            if contents is None:
                contents = _read(described, source, inspect)
                self._remember(described, contents)
            return contents

    def _remember(
        self, described: image.Image, contents: image.Contents
    ) -> None:
        # Without a hash there is no telling whether it is the same.
        if not described.hash_value:
            return
        with self._lock:
            self._known[described] = contents
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


# A transfer that broke off looks like a damaged image, and is none.
@tenacity.retry(
    retry=tenacity.retry_if_exception_type(
        (exception.ImageDamaged, exception.ImageUnreadable)
    ),
    stop=tenacity.stop_after_attempt(_TRIES),
    reraise=True,
)
def _read(
    described: image.Image, source: ports.Source, inspect: bool
) -> image.Contents:
    theirs = _hash(described)
    with contextlib.closing(source()) as chunks:
        return _examined(described, chunks, theirs, inspect)


def _examined(
    described: image.Image, chunks: Iterator[bytes], theirs: Any, inspect: bool
) -> image.Contents:
    sha256 = hashlib.sha256()
    inspected: Any = format_inspector.InspectWrapper(chunks)
    size = 0
    for chunk in inspected:
        size += len(chunk)
        sha256.update(chunk)
        if theirs is not None:
            theirs.update(chunk)
    inspected.close()
    found = theirs.hexdigest() if theirs is not None else ''
    _compare(described, size, found)
    is_raw = described.disk_format == 'raw'
    inspector: Any = None
    if inspect or not is_raw:
        inspector = _accepted(described, inspected)
    return image.Contents(
        size=size,
        sha256=sha256.hexdigest(),
        disk_format=described.disk_format,
        disk_bytes=size if is_raw else inspector.virtual_size,
    )


def _hash(described: image.Image) -> Any:
    """Give the hash that Glance keeps, None if it keeps none that we know."""
    if not described.hash_value:
        LOG.warning(
            'Glance has no hash of image %s; it is verified by size alone.',
            described.id,
        )
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


def _compare(described: image.Image, size: int, found: str) -> None:
    if described.size is not None and size != described.size:
        raise exception.ImageDamaged(
            image=described.id,
            reason=f'{size} bytes came, Glance says {described.size}',
        )
    if found != described.hash_value.lower():
        raise exception.ImageDamaged(
            image=described.id,
            reason=f'its {described.hash_algorithm} is {found[:_DIGITS]}..., '
            f'Glance says {described.hash_value[:_DIGITS]}...',
        )
    if not size:
        raise exception.ImageRefused(image=described.id, reason='it is empty')


def _accepted(described: image.Image, inspected: Any) -> Any:
    """Give the inspector of the image's format, if it is the declared one.

    The rules are those of Nova's own inspection.
    """
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
    if found != declared and not (declared == 'raw' and found in _RAW):
        raise exception.ImageRefused(
            image=described.id,
            reason=f'Glance says its format is {declared}, but its bytes are '
            f'{found}. Set the disk_format that it has',
        )
    return inspector
