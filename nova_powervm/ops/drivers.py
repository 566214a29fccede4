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

"""The protocols of plug-ins: drivers of disks, of ports and of volumes.

The packages below :mod:`nova_powervm.powervm` implement them, and so do
drivers of other packages, which entry points name. What a driver is handed,
such as images and Nova's records, is described here as well.
"""

import abc
import contextlib
import dataclasses
from collections.abc import Collection
from collections.abc import Generator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import BinaryIO
from typing import Protocol
from typing import TypeVar

from nova_powervm.devices import host_values
from nova_powervm.lpar import image
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes


class Source(Protocol):
    """Returns the bytes of an image; each call begins with the first."""

    def __call__(self) -> Generator[bytes]:
        """Open the image.

        Closing the generator ends the transfer. Errors are raised while
        reading.
        """


class ByteStream(Protocol):
    """The bytes of a disk, in their order."""

    def read(self, size: int, /) -> bytes:
        """Read the next bytes, at most ``size``; none at the end of the disk.

        :raises exception.DiskUnreadable: The disk fails, or ends too early.
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

        The caller closes it.

        :param path: Its path, which is no link.
        :param write: Whether to open it for writing, from its beginning, and
            not for reading. A block device that is mounted, or a part of an
            array or a volume group, is refused.
        """


class Pool(Protocol):
    """Storage that several hosts share, with a cache of images.

    All of its methods but :meth:`identity` ask the host.
    """

    @abc.abstractmethod
    def identity(self) -> str:
        """Return an id that all hosts with this storage have, and no other."""

    @abc.abstractmethod
    def disks(
        self, lpar_uuid: str | None = None
    ) -> Sequence[storage.PoolDisk]:
        """Find the disks of instances.

        :param lpar_uuid: Upper-case PowerVM uuid; None for those of all LPARs.
        """

    @abc.abstractmethod
    def delete(self, disks: Collection[storage.PoolDisk]) -> None:
        """Delete those of the disks that exist and that no LPAR uses.

        Log those that an LPAR uses.
        """

    @abc.abstractmethod
    def cached_image(self, described: image.Image) -> image.Contents | None:
        """Return the contents of an image; None if the cache lacks it."""

    @abc.abstractmethod
    def cache_image(
        self, described: image.Image, contents: image.Contents, source: Source
    ) -> bool:
        """Write an image to the cache unless the cache has it.

        :returns: Whether this call has written it.
        """

    @abc.abstractmethod
    def delete_interrupted(self) -> None:
        """Delete the images that this host did not write completely.

        Call this only while this host writes no image.
        """

    @abc.abstractmethod
    def clean_cache(self, min_age: int) -> None:
        """Delete the images from which no disk is made any more.

        :param min_age: Seconds for which an image must have been unused; it
            may have been cached for servers that are still to be built.
        """


class Disks(Protocol):
    """A disk driver, which stores the disks of instances.

    ``[powervm]disk_driver`` names its entry point in
    ``nova_powervm.disk_drivers``.

    A driver implements the abstract methods. It inherits all others from
    :class:`nova_powervm.powervm.disk.base.DiskDriver`, whose checks refuse,
    and overrides those that belong to what it can do.
    """

    @property
    def unavailable(self) -> str | None:
        """Why this host offers no disks; None if it offers some.

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
        """The storage if hosts share it; None if it is this host's alone."""

    @property
    def servers(self) -> Sequence[str]:
        """The uuids of the Virtual I/O Servers that map the disks, if any.

        They have the same numbers on all hosts: see
        :func:`nova_powervm.lpar.storage.virtual_slots`.
        """

    @abc.abstractmethod
    def capacity(self) -> host_values.DiskCapacity:
        """Return the size of the storage and how much of it is used.

        Both are in whole GiB; the free space is rounded down.

        :raises exception.ConfigurationError: The storage does not exist.
        """

    @abc.abstractmethod
    def unmap_deleted(self, lpar_uuids: Collection[str] | None = None) -> None:
        """Unmap the driver's storage from partitions that do not need it.

        Those are LPARs that do not exist any more, and the management
        partition after an interrupted reading. Call this only while no LPAR is
        being removed and no disk is being read.

        :param lpar_uuids: Deleted LPARs, to unmap only what they had; other
            LPARs may be changed meanwhile. None for all storage.
        """

    @abc.abstractmethod
    def forget_uploads(self) -> None:
        """Delete the descriptions of uploads from the REST server.

        Leave those of others. Call this only while nothing is uploaded.
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
        :param disks: The new disks of the LPAR.
        :param medium_bytes: The size of its new medium; None for no medium.
        :param beside: Whether its present disks and its medium stay.
        :raises exception.InsufficientSpace: There is not enough space.
        :raises exception.ConfigurationError: The storage does not exist.
        """

    @abc.abstractmethod
    def make_root(
        self,
        lpar_uuid: str,
        disk: storage.Disk,
        described: image.Image,
        contents: image.Contents,
        source: Source,
    ) -> storage.Stored:
        """Create a root disk or a rescue disk with the contents of an image.

        Behind the image, the disk holds nothing of a deleted disk. Remove a
        disk that could not be filled. For a root disk, also remove everything
        that an interrupted build of the LPAR left.

        :param lpar_uuid: Upper-case PowerVM uuid; the LPAR need not exist.
        :param disk: The role and size of the disk.
        :param described: The image as Glance describes it.
        :param contents: What the image contains.
        :param source: Returns the image's bytes, the last ones only if all
            of them are correct.
        :raises exception.ImageDamaged: The bytes are not correct.
        :raises exception.InsufficientSpace: There is not enough space.
        """

    @abc.abstractmethod
    def make_blank(self, lpar_uuid: str, disk: storage.Disk) -> storage.Stored:
        """Create an empty disk; replace what an interrupted build left.

        It holds nothing of a deleted disk.

        :param lpar_uuid: As for :meth:`make_root`, which is called first.
        :param disk: The role and size of the disk.
        :raises exception.InsufficientSpace: There is not enough space.
        """

    def make_medium(
        self, lpar_uuid: str, iso: bytes, *, rescue: bool = False
    ) -> storage.Stored:
        """Create the virtual optical medium of an LPAR.

        :param lpar_uuid: As for :meth:`make_root`.
        :param iso: The contents of the medium.
        :param rescue: Whether it is for the rescue system of the LPAR.
        """

    @abc.abstractmethod
    def attach(self, lpar_uuid: str, stored: Sequence[storage.Stored]) -> None:
        """Connect storage to an LPAR unless it is already connected.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param stored: Disks and a medium of the LPAR, the root disk first.
            Each gets the same address whenever this is called with the same
            disks for an LPAR without any, on whichever host.
        """

    def eject(self, lpar_uuid: str) -> None:
        """Disconnect the config drive of an LPAR; keep medium and adapter.

        Do nothing if none is connected.

        :param lpar_uuid: Upper-case PowerVM uuid.
        """

    def insert(self, lpar_uuid: str) -> bool:
        """Connect the config drive of an LPAR again, if there is one.

        It gets the address that it had.

        :param lpar_uuid: Upper-case PowerVM uuid; if no adapter was kept, a
            running LPAR needs RMC.
        :returns: Whether there is one.
        """
        return False

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

        A rescued LPAR gets its rescue disk first, at the address of the root
        disk, and the medium of the rescue system. Any other LPAR gets neither,
        and all else as when it was built. Storage that the driver has not made
        stays connected as it is.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param rescued: Whether the LPAR is rescued.
        :raises exception.RestError: As :meth:`check_reconnect`; nothing was
            changed.
        """

    def delete_rescue(self, lpar_uuid: str) -> None:
        """Delete the rescue disk and rescue medium of an LPAR, if they exist.

        Delete the disk last: as long as it exists, :meth:`has_rescue` tells
        that storage has to be connected anew.

        :param lpar_uuid: Upper-case PowerVM uuid; nothing connects them to it.
        """

    def check_growth(self, lpar_uuid: str, size_gb: float) -> None:
        """Refuse a larger root disk if there is no space for it.

        A disk that is large enough passes. Nothing is changed.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param size_gb: The size in GiB that the root disk is to have.
        :raises exception.InsufficientSpace: There is not enough space.
        :raises exception.DiskMissing: The LPAR has no root disk.
        :raises exception.DiskNotCleared: Its new end would show the bytes of
            deleted disks.
        """

    def grow_root(self, lpar_uuid: str, size_gb: float) -> bool:
        """Enlarge an LPAR's root disk if it is smaller, and keep its contents.

        A running LPAR may use the disk, also on another host if it is in a
        pool.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param size_gb: The size in GiB that the root disk is to have.
        :returns: Whether it was smaller.
        :raises exception.DiskMissing: The LPAR has no root disk.
        :raises exception.GrowthPutOff: The LPAR has to be off.
        """

    @abc.abstractmethod
    def swap_fits(self, lpar_uuid: str, swap: storage.Disk | None) -> bool:
        """Return whether an LPAR has the swap disk that it should have.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param swap: This swap disk; None if it should have none.
        """

    @abc.abstractmethod
    def fit_swap(self, lpar_uuid: str, swap: storage.Disk | None) -> None:
        """Give an LPAR that is off exactly one swap disk, or none.

        Keep a swap disk of the right size, and replace others, which hold
        nothing worth keeping. All other disks stay connected as they are.

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
        :param is_off: Whether the LPAR will be off while its disk is read.
        :returns: The size of the disk in GiB.
        :raises exception.DiskUnreadable: The disk cannot be read; the reason
            says what helps.
        :raises exception.DiskMissing: The LPAR has no root disk.
        """

    def read_root(
        self, lpar_uuid: str
    ) -> contextlib.AbstractContextManager[DiskBytes]:
        """Open the root disk of an LPAR for reading.

        The guest may run, and write meanwhile, unless :meth:`check_read`
        refuses that. At the end of the context, the LPAR is connected to its
        disk as before, whatever happens.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.DiskUnreadable: As :meth:`check_read`, or the disk
            fails.
        :raises exception.ReadingCancelled: The disk is being removed; the
            stream raises this.
        :raises exception.RestBusy: Another thread is reading the disk.
        """

    def end_read(self, lpar_uuid: str) -> bool:
        """Undo what an interrupted reading of an LPAR's root disk left.

        :param lpar_uuid: Upper-case PowerVM uuid of an LPAR that is off.
        :returns: Whether there was something to undo.
        :raises exception.RestBusy: Another thread is reading the disk.
        """

    @abc.abstractmethod
    def attached(
        self, lpar_uuid: str, *, by_all_paths: bool = False
    ) -> Collection[str]:
        """Return the names of the storage that is connected to an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param by_all_paths: Whether to leave out storage that a Virtual I/O
            Server should connect, and does not although it runs.
        """

    @abc.abstractmethod
    def stems(self) -> Collection[str]:
        """Return the stems of the driver's disks, one for each LPAR.

        Leave out disks in a pool: other hosts have disks there.

        :returns: See :func:`nova_powervm.lpar.storage.stem`.
        """

    @abc.abstractmethod
    def remove_stems(self, stems: Collection[str]) -> None:
        """Delete the disks and media whose names begin with the stems."""

    @abc.abstractmethod
    def remove(self, lpar_uuid: str, *, delete: bool = True) -> None:
        """Disconnect and delete all storage of an LPAR, if there is any.

        First, end the reading of its root disk.

        :param lpar_uuid: Upper-case PowerVM uuid; the LPAR itself may be gone.
        :param delete: False to disconnect the disks, and keep them.
        """


_C = TypeVar('_C', bound=network_ports.Connection)
_A = TypeVar('_A', bound=network_ports.Adapter)


class VifDriver(Protocol[_C, _A]):
    """Connects the ports that Neutron binds with one ``vif_type``.

    Its entry point in ``nova_powervm.vif_drivers`` has the name of the type.
    An instance may have ports of several types. Each driver gets only ports
    of its own type, and reports and removes only adapters of its own type.
    """

    def check(self, port: network_ports.Port) -> None:
        """Check a port without asking the host.

        :raises exception.PortRefused: No adapter can be created for it.
        """

    def using(
        self, ports: Sequence[network_ports.Port]
    ) -> contextlib.AbstractContextManager[None]:
        """Keep what ports need on the host until their adapters exist.

        The calls from :meth:`connect` to :meth:`plug` are made within this
        context.
        """

    def connect(self, ports: Sequence[network_ports.Port]) -> Sequence[_C]:
        """Plan how to connect ports, and change nothing.

        :returns: One connection for each port.
        :raises exception.PortRefused: A port cannot be connected.
        """

    def provide(
        self, connections: Sequence[_C], metadata: 'InstanceMetadata'
    ) -> None:
        """Prepare the host for connections, and change no LPAR.

        :param metadata: The record of the instance that the ports belong to.
        """

    def adapters(self, lpar_uuid: str) -> Sequence[_A]:
        """Read the adapters of an LPAR that ports of this type may have.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.PartitionNotFound: There is no such LPAR.
        """

    def serves(self, adapter: _A, port: network_ports.Port) -> bool:
        """Return whether an adapter belongs to a port with its MAC address.

        :param adapter: An adapter from :meth:`adapters`.
        :param port: The port, which may have lost its binding and its type.
        """

    def plug(self, lpar: partition.Partition, connection: _C) -> int | None:
        """Create the adapter of a connection unless it exists.

        Create it at the virtual slot ``connection.slot``, by which a guest
        names it, unless that is None.

        :returns: The virtual slot of the adapter; None if that is unknown.
        """

    def unplug(self, lpar_uuid: str, mac: str, only: _A | None = None) -> None:
        """Remove the adapter with a MAC address, if there is one.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param mac: The MAC address in Neutron's form.
        :param only: Do not remove any other adapter with the address.
        """

    def release(self, metadata: 'InstanceMetadata') -> None:
        """Remove from the host what only the ports of an instance needed.

        This is called when the LPAR is gone. Never raise an error.

        :param metadata: The record of the instance.
        """

    def tidy(self) -> None:
        """Remove from the host what is no longer used, once in each cycle.

        Never raise an error.
        """


class PortRecords(Protocol):
    """Nova's records of the ports of this host's instances."""

    def metadata_keys(self) -> Collection[str]:
        """Return the keys of all instances of this host."""

    def remove_key(self, key: str) -> None:
        """Remove a key from all instances of this host."""

    def awaited_keys(self) -> Collection[str]:
        """Return the keys of instances that are about to arrive here.

        Until an LPAR has arrived, nothing on the host uses what they stand
        for.
        """

    def ports(self) -> Collection[network_ports.Port]:
        """Return the ports of all instances of this host.

        Omit the ports of instances that are being deleted.
        """


class InstanceMetadata(Protocol):
    """The metadata of one instance that VIF drivers write for this host.

    A key is a short text in Nova's record of the instance, of at most 64
    characters. It stores what a driver has to know after a restart of the
    service.
    """

    @property
    def instance_uuid(self) -> str:
        """The instance's uuid, for log lines."""

    def read(self) -> Collection[str]:
        """Return the keys of the instance."""

    def add(self, keys: Collection[str]) -> None:
        """Write keys into Nova's record of the instance.

        Never raise an error.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class LocatedVolume:
    """A volume, and where the host has its disk.

    :param volume: The volume, with the UDID of its disk.
    :param handle: What its volume driver needs to connect it; opaque.
    """

    volume: volumes.Volume
    handle: Any = dataclasses.field(default=None, compare=False, repr=False)


class VolumeDriver(Protocol):
    """Connects the volumes of one ``driver_volume_type`` to LPARs.

    Its entry point in ``nova_powervm.volume_drivers`` has the name of the
    type. A server may have volumes of several types. Each driver gets only
    volumes of its own type, and those whose type is unknown. It reports only
    volumes of its own type, and never disconnects those of other drivers, or
    disks that a disk driver has made. If the host does not answer, it raises
    an error: a server is neither removed nor rebooted hard then.

    The LPAR may not exist: its instance may have moved to another host, or it
    may have been deleted outside of Nova.
    """

    def connector(
        self,
        lpar: partition.Partition | None = None,
        ports: Collection[int] = (),
    ) -> Mapping[str, Any]:
        """Return what Cinder has to know of this host to map a volume to it.

        The keys are those of os-brick's connectors, such as ``wwpns``. Cinder
        has mapped nothing yet, and the type of the volume is unknown.

        :param lpar: The LPAR that is to get the volume; None if there is none
            yet.
        :param ports: The virtual slots of the LPAR's network adapters.
        :raises exception.VolumesImpossible: No volume of this type could be
            connected to the LPAR.
        """

    def check_arrival(self, number: int, virtual_slots: int) -> None:
        """Verify that volumes could be connected to an LPAR that has none.

        :param number: How many there are beside a boot volume, which has the
            place of a root disk.
        :param virtual_slots: How many virtual slots the LPAR has.
        :raises exception.VolumesImpossible: They could not.
        """

    def check(self, volume: volumes.Volume) -> None:
        """Check a volume without asking the host.

        :raises exception.VolumeRefused: The volume can be connected to no
            LPAR.
        """

    def elsewhere(self, wanted: Sequence[volumes.Volume]) -> Collection[str]:
        """Return the ids of volumes that Cinder maps to other hosts only.

        Leave out those that it may have mapped to this host.
        """

    def connected(
        self, lpar_uuid: str, wanted: Sequence[volumes.Volume]
    ) -> Mapping[str, volumes.Connected]:
        """Return the volumes of an LPAR that are of this type.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param wanted: The volumes of this type that the LPAR should have.
        :returns: Volume id -> how the volume is connected, also of volumes
            that are not wanted. A disk that is not known to be a volume of
            this type is left out.
        """

    def find(self, volume: volumes.Volume, lpar_uuid: str) -> LocatedVolume:
        """Have the host find a volume, and change no LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid of the LPAR that is to get
            the volume; the LPAR need not exist.
        :raises exception.VolumeMissing: The host does not find the volume;
            nothing of it is left on the host.
        :raises exception.VolumeInUse: Something else has its disk.
        :raises exception.VolumeRefused: It can be connected to no LPAR.
        """

    def forget(self, located: LocatedVolume) -> None:
        """Have the host forget a volume that it has found.

        Leave it where it is connected. Only log errors.
        """

    def connect(
        self, located: LocatedVolume, lpar: partition.Partition
    ) -> Mapping[int, int]:
        """Connect a volume to an LPAR, unless it is connected.

        :param lpar: The LPAR; a running one needs RMC.
        :returns: The virtual slots that the volume has got, by the numbers of
            the servers; see :func:`nova_powervm.lpar.volumes.choose_slot`.
        :raises exception.PowerVMError: The host refused. The volume is
            connected as before, and :meth:`forget` follows.
        """

    def disconnect(self, volume: volumes.Volume, lpar_uuid: str) -> None:
        """Disconnect a volume from an LPAR, and have the host forget it.

        When this returns, nothing on the host uses the volume, so that Cinder
        can give its place on the array to another volume.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.VolumeHeld: A server that may connect the volume does
            not answer, or a connected disk cannot be identified; nothing was
            changed.
        """

    def check_disconnection(
        self, lpar_uuid: str, wanted: Collection[volumes.Volume]
    ) -> None:
        """Verify that :meth:`disconnect` would refuse none of some volumes.

        A guest is stopped for its move only then.

        :raises exception.VolumeHeld: It would refuse one.
        """

    def check_removal(
        self, lpar_uuid: str, wanted: Collection[volumes.Volume]
    ) -> None:
        """Verify that :meth:`remove` would not refuse to begin.

        :raises exception.VolumeHeld: It would refuse.
        """

    def remove(
        self, lpar_uuid: str, wanted: Collection[volumes.Volume] = ()
    ) -> None:
        """Disconnect all volumes of an LPAR that are of this type.

        Have the host forget them.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param wanted: The volumes that the LPAR is known to have. If it was
            deleted outside of Nova, nothing else tells what it had.
        :raises exception.VolumeHeld: As for :meth:`disconnect`.
        """

    def resize(self, volume: volumes.Volume, lpar_uuid: str) -> int:
        """Have the host read the size of a volume again.

        :param lpar_uuid: Upper-case PowerVM uuid of the LPAR that has it.
        :returns: The smallest size that a server sees, in bytes.
        :raises exception.VolumeMissing: No server connects the volume to the
            LPAR.
        """
