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

"""The protocols of storage: disk drivers, shared pools and images.

:mod:`nova_powervm.powervm.disk` implements them, and disk drivers of other
packages do.
"""

import contextlib
import dataclasses
from collections.abc import Collection
from collections.abc import Generator
from collections.abc import Sequence
from typing import BinaryIO
from typing import Protocol

from nova_powervm.devices import host_values
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.lpar import stored_disks


class Source(Protocol):
    """Returns the bytes of an image, from the beginning each time."""

    def __call__(self) -> Generator[bytes]:
        """Open the image.

        Closing the generator ends the transfer. Errors are raised while
        reading.
        """


class ByteStream(Protocol):
    """The bytes of a disk, in their order."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes; none at the end of the disk.

        :raises exception.DiskUnreadable: It fails, or ends too early.
        :raises exception.ReadingCancelled: See :meth:`Disks.read_root`.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class DiskBytes:
    """A disk that is open for reading.

    :param size: The size of the whole disk in bytes.
    :param stream: All of its bytes.
    """

    size: int
    stream: ByteStream


class LocalFiles(Protocol):
    """Accesses files of the machine that nova-compute runs on.

    Errors are of the class :class:`OSError`.
    """

    def write(self, path: str, text: str, /) -> None:
        """Write to a file that exists."""

    def open(self, path: str, /, *, write: bool = False) -> BinaryIO:
        """Open a block device or a regular file, unbuffered.

        Whoever calls this closes it.

        :param path: Its path, which is no link.
        :param write: Whether to write it from its beginning, and not to read
            it. A block device that is mounted, or a part of an array or a
            volume group, is refused.
        """


class Pool(Protocol):
    """Storage that several hosts share, with a cache of images.

    All of its methods but :meth:`identity` ask the host.
    """

    def identity(self) -> str:
        """Return what is the same on all hosts with this storage only."""

    def disks(
        self, lpar_uuid: str | None = None
    ) -> Sequence[stored_disks.PoolDisk]:
        """Find the disks of instances.

        :param lpar_uuid: Upper-case PowerVM uuid; None for those of all LPARs.
        """

    def delete(self, disks: Collection[stored_disks.PoolDisk]) -> None:
        """Delete disks, if they exist and no LPAR has them.

        Log the others.
        """

    def cached_image(self, described: image.Image) -> image.Contents | None:
        """Return the contents of an image in the cache; None without it."""

    def cache_image(
        self, described: image.Image, contents: image.Contents, source: Source
    ) -> bool:
        """Write an image to the cache unless it is there.

        :returns: Whether it was written by this call.
        """

    def delete_interrupted(self) -> None:
        """Delete the images that this host did not write completely.

        Call this only while it writes none.
        """

    def clean_cache(self, min_age: int) -> None:
        """Delete the images from which no disk is made any more.

        :param min_age: Seconds for which an image must have been found
            unused; it may have been cached for servers that are still to come.
        """


class Disks(Protocol):
    """A disk driver, which stores the disks of instances.

    ``[powervm]disk_driver`` names its entry point in
    ``nova_powervm.disk_drivers``.
    """

    @property
    def unavailable(self) -> str | None:
        """Why this host offers no disks; None if it does.

        The reason names the missing option. All other methods can be called
        nevertheless.
        """

    @property
    def image_formats(self) -> Collection[str]:
        """The formats of images that disks can be made from.

        See :data:`nova_powervm.lpar.image.FORMATS`.
        """

    @property
    def pool(self) -> Pool | None:
        """The storage if several hosts share it; None if this host has it."""

    def capacity(self) -> host_values.DiskCapacity:
        """Return the size of the storage and how much of it is used."""

    def unmap_deleted(self, lpar_uuids: Collection[str] | None = None) -> None:
        """Unmap our storage from where nobody needs it.

        This is from LPARs that do not exist any more, and from where an
        interrupted reading left it. Call this only while no LPAR is being
        removed and no disk is being read.

        :param lpar_uuids: Only what these LPARs had, which are gone; then it
            does not matter what is done to others. None for everything.
        """

    def forget_uploads(self) -> None:
        """Delete the descriptions of our uploads from the REST server.

        Call this only while nothing is sent.
        """

    def check(self, *, config_drive: bool) -> None:
        """Refuse a build if no disk can be created at all.

        :param config_drive: Whether the build also needs a medium.
        :raises exception.ConfigurationError: An option is missing or wrong.
        """

    def check_room(
        self,
        lpar_uuid: str,
        disks: Sequence[storage.Disk],
        medium_bytes: int | None,
        *,
        beside: bool = False,
    ) -> None:
        """Refuse a rebuild or a rescue without space for the LPAR's disks.

        Ask the host. The space of the LPAR's present disks counts as free, as
        far as it is known, unless they stay.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param disks: Its new disks.
        :param medium_bytes: Size of its new medium; None for no medium.
        :param beside: Whether its present disks and its medium stay.
        :raises exception.InsufficientSpace: There is not enough space.
        :raises exception.ConfigurationError: The storage does not exist.
        """

    def make_root(
        self,
        lpar_uuid: str,
        disk: storage.Disk,
        described: image.Image,
        contents: image.Contents,
        source: Source,
    ) -> stored_disks.Stored:
        """Create a root disk or a rescue disk with the contents of an image.

        Behind the image, it holds nothing that others have left. Remove a disk
        that could not be filled. For a root disk, also remove everything that
        an interrupted build of the LPAR left.

        :param lpar_uuid: Upper-case PowerVM uuid; the LPAR need not exist.
        :param disk: Its role and size.
        :param described: The image as Glance describes it.
        :param contents: What the image contains.
        :param source: Returns the image's bytes, the last ones only if all
            of them are correct.
        :raises exception.ImageDamaged: They are not correct.
        :raises exception.InsufficientSpace: There is not enough space.
        """

    def make_blank(
        self, lpar_uuid: str, disk: storage.Disk
    ) -> stored_disks.Stored:
        """Create an empty disk; replace what an interrupted build left.

        It holds nothing that others have left.

        :param lpar_uuid: As for :meth:`make_root`, which is called first.
        :param disk: Its role and size.
        :raises exception.InsufficientSpace: There is not enough space.
        """

    def make_medium(
        self, lpar_uuid: str, iso: bytes, *, rescue: bool = False
    ) -> stored_disks.Stored:
        """Create the virtual optical medium of an LPAR.

        :param lpar_uuid: As for :meth:`make_root`.
        :param iso: Its contents.
        :param rescue: Whether it is that of its rescue system.
        """

    def attach(
        self, lpar_uuid: str, stored: Sequence[stored_disks.Stored]
    ) -> None:
        """Connect storage to an LPAR unless it is already connected.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param stored: Its disks and medium, the root disk first. Each gets
            the same address whenever this is called with the same disks for
            an LPAR without any, on whichever host.
        """

    def has_rescue(self, lpar_uuid: str) -> bool:
        """Return whether there is a rescue disk of an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        """

    def check_reconnect(self, lpar_uuid: str) -> None:
        """Verify that the storage of an LPAR can be connected anew.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.RestError: A Virtual I/O Server does not run, or
            some of the storage is where the driver does not look.
        """

    def reconnect(self, lpar_uuid: str, *, rescued: bool) -> None:
        """Connect all storage of an LPAR that is off anew.

        Either its rescue disk comes first, at the address of the root disk,
        and its medium is that of the rescue system; or it has neither of
        them, and all else is connected as when it was built. Leave what the
        driver has not made connected as it is.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param rescued: Whether the rescue disk comes first.
        :raises exception.RestError: As :meth:`check_reconnect`; nothing was
            changed.
        """

    def delete_rescue(self, lpar_uuid: str) -> None:
        """Delete the rescue disk of an LPAR and its medium, if they exist.

        The disk goes last: whoever finds it connects all storage anew.

        :param lpar_uuid: Upper-case PowerVM uuid; nothing connects them to it.
        """

    def check_growth(self, lpar_uuid: str, size_gb: float) -> None:
        """Refuse a larger root disk if there is no space for it.

        A disk that is large enough passes. Nothing is changed.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param size_gb: The size in GiB that the root disk is to have.
        :raises exception.InsufficientSpace: There is not enough space.
        :raises exception.DiskMissing: The LPAR has no root disk.
        :raises exception.DiskNotCleared: It would show what others have left.
        """

    def grow_root(self, lpar_uuid: str, size_gb: float) -> bool:
        """Enlarge an LPAR's root disk if it is smaller, and keep its contents.

        A running LPAR may use the disk, of a pool also on another host.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param size_gb: The size in GiB that it is to have.
        :returns: Whether it was smaller.
        :raises exception.DiskMissing: The LPAR has no root disk.
        :raises exception.GrowthPutOff: The LPAR has to be off.
        """

    def swap_fits(self, lpar_uuid: str, swap: storage.Disk | None) -> bool:
        """Return whether an LPAR is connected to this swap disk, or has none.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param swap: The swap disk that it should have; None for none.
        """

    def fit_swap(self, lpar_uuid: str, swap: storage.Disk | None) -> None:
        """Give an LPAR that is off exactly one swap disk, or none.

        Keep a swap disk of the right size, and replace others: they hold
        nothing. The other disks stay connected as they are.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param swap: The swap disk; None for none. With one, the LPAR exists.
        :raises exception.InsufficientSpace: There is not enough space.
        :raises exception.RestError: Another host still has the swap disk
            connected that is to be replaced.
        """

    def check_read(self, lpar_uuid: str, *, is_off: bool) -> float:
        """Refuse to read the root disk of an LPAR where that is impossible.

        Nothing is changed.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param is_off: Whether it will be off while its disk is read.
        :returns: The size of the disk in GiB.
        :raises exception.DiskUnreadable: It cannot be read; the reason says
            what helps.
        :raises exception.DiskMissing: There is no such disk.
        """

    def read_root(
        self, lpar_uuid: str
    ) -> contextlib.AbstractContextManager[DiskBytes]:
        """Open the root disk of an LPAR for reading.

        The guest may run unless :meth:`check_read` refuses that; then it may
        write meanwhile. At the end of the context, the LPAR is connected to
        its disk as before, whatever happens.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.DiskUnreadable: As :meth:`check_read`, or the disk
            fails.
        :raises exception.ReadingCancelled: The disk is being removed; from
            the stream.
        :raises exception.RestBusy: Somebody else is reading the disk.
        """

    def end_read(self, lpar_uuid: str) -> bool:
        """Undo what an interrupted reading of an LPAR's root disk left.

        :param lpar_uuid: Upper-case PowerVM uuid of an LPAR that is off.
        :returns: Whether there was something.
        :raises exception.RestBusy: This process is reading the disk.
        """

    def attached(
        self, lpar_uuid: str, *, by_all_paths: bool = False
    ) -> Collection[str]:
        """Return the names of the storage that is connected to an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param by_all_paths: Whether to leave out what is not connected by
            each Virtual I/O Server that runs and should connect it.
        """

    def stems(self) -> Collection[str]:
        """Return what the names of our disks begin with, one for each LPAR.

        Leave out what is in a pool: other hosts have disks there.

        :returns: See :func:`nova_powervm.lpar.storage.stem`.
        """

    def remove_stems(self, stems: Collection[str]) -> None:
        """Delete the disks and media whose names begin with the stems."""

    def remove(self, lpar_uuid: str, *, delete: bool = True) -> None:
        """Disconnect and delete all storage of an LPAR, if there is any.

        A reading of its root disk is ended first.

        :param lpar_uuid: Upper-case PowerVM uuid; the LPAR itself may be gone.
        :param delete: False to keep its disks and disconnect them only.
        """
