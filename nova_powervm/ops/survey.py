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

"""Reads the parts of the host that the plan of an operation needs."""

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.lpar import image
from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import plan
from nova_powervm.lpar import spec
from nova_powervm.lpar import steps
from nova_powervm.ops import drivers
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import images as image_ops
from nova_powervm.ops import interfaces
from nova_powervm.ops import network as network_ops
from nova_powervm.ops import volumes as volume_ops

LOG = logging.getLogger(__name__)

#: The operations on volumes that need no valid paths to them.
_PATHS_UNUSED = (
    operations.Volumes.NO,
    operations.Volumes.LEFT,
    operations.Volumes.REMOVED,
)


class Askers:
    """Asks and waits for what an operation needs beside host and Placement.

    This class has no answers: it serves operations on LPARs that are as they
    should be. The class in :mod:`nova_powervm.virt.descriptions` asks Nova and
    Neutron.

    :ivar image: Returns the bytes of the image of a new root disk.
    """

    image: drivers.Source | None = None

    def metadata(self) -> drivers.InstanceMetadata:
        """Return the keys of VIF drivers in Nova's record of the instance."""
        return network_ops.NO_METADATA

    def make_config_drive(
        self, owned: Sequence[slots.Slot], management_mac: str | None
    ) -> bytes:
        """Make the contents of the config drive.

        :param owned: The instance's slots.
        :param management_mac: The MAC address of its management adapter.
        """
        raise NotImplementedError

    def ports(self) -> Sequence[network_ports.Port]:
        """Ask Neutron for the present ports.

        :raises exception.PortsUnknown: It does not answer.
        """
        return ()

    def bind_ports(self) -> Sequence[network_ports.Port]:
        """Have Neutron bind the ports to this host, for a lost LPAR."""
        return ()

    def plugging(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which the ports of a new LPAR are plugged.

        The context may wait at its end.
        """
        return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True, slots=True)
class Readers:
    """The means to read the parts of a host.

    :param partitions: The host's LPARs.
    :param host: Reads the host.
    :param placement: Tells what is allocated.
    :param disks: The disk driver.
    :param images: Reads images.
    :param networks: Compares adapters with ports.
    :param volumes: Connects volumes.
    """

    partitions: interfaces.Partitions
    host: host_ops.HostReader
    placement: interfaces.Placement
    disks: drivers.Disks
    images: image_ops.ImageOps
    networks: network_ops.NetworkOps
    volumes: volume_ops.VolumeOps


class Survey:
    """What one operation reads; a context that keeps it open.

    An image is read once, from here to the end of the operation, and what
    ports need on the host is kept until their adapters exist.

    :param readers: The means to read the parts.
    :param operation: The operation.
    :param wanted: What Nova and Placement say about the LPAR.
    :param askers: Asks Nova and Neutron.
    :ivar actual: The host's answers.
    :ivar iso: The contents of the config drive, once they were made.
    """

    def __init__(
        self,
        readers: Readers,
        operation: operations.Operation,
        wanted: spec.Wanted,
        askers: Askers,
    ) -> None:
        self._readers = readers
        self._operation = operation
        self._wanted = wanted
        self._askers = askers
        self._held = contextlib.ExitStack()
        self.actual = spec.Actual(
            self._read,
            has_pool=readers.disks.pool is not None,
            virtual_slots=readers.partitions.virtual_slots,
        )
        self._image: _ImageSource | None = None
        self.iso = b''
        self._has_management: bool | None = None

    def __enter__(self) -> 'Survey':
        return self

    def __exit__(self, *exc_info: Any) -> None:
        # Some contexts have to know of a failure.
        self._held.__exit__(*exc_info)

    @property
    def image_source(self) -> drivers.Source:
        """The bytes of the image; the last ones come if all are correct."""
        return self._source()

    def plan(self) -> steps.LparPlan:
        """Plan the operation, and read the parts of the host that it needs.

        :raises exception.PowerVMError: The operation is refused, or a part
            could not be read.
        """
        self._check_drivers()
        return plan.decide(self._operation, self._wanted, self.actual)

    def _check_drivers(self) -> None:
        """Refuse what the device drivers refuse without asking the host."""
        if self._operation.volumes not in _PATHS_UNUSED:
            self._readers.volumes.check(self._wanted.volumes)
        makes = self._operation.creates is operations.Creation.YES
        if not (makes or self._operation.disks is operations.Disks.RESCUED):
            return
        if self._wanted.root is not None:
            self._wanted.root.described.check(
                self._readers.disks.image_formats
            )
        if (
            self._wanted.config_drive
            or self._wanted.blanks
            or not self._wanted.boots_from_volume
        ):
            self._readers.disks.check(config_drive=self._wanted.config_drive)
        if makes:
            self._readers.networks.check(self._wanted.ports or ())

    def _read(self, part: spec.Part | spec.MemoryQuestion) -> Any:
        readers, wanted = self._readers, self._wanted
        uuid, disks, volumes = wanted.lpar_uuid, readers.disks, readers.volumes
        maps = self._operation.disks is operations.Disks.MAPPED
        if isinstance(part, spec.MemoryQuestion):
            return readers.host.hypervisor_memory(part.memory_mb, part.max_mem)
        reading: dict[spec.Part, Callable[[], Any]] = {
            spec.Part.LPAR: lambda: readers.partitions.find(uuid),
            spec.Part.RULES: lambda: readers.host.last_or_read().system,
            spec.Part.SLOTS: readers.host.managed_system,
            spec.Part.ALLOCATED: self._allocated,
            spec.Part.ADAPTERS: self._adapters,
            spec.Part.IMAGE: self._contents,
            spec.Part.MEDIUM: self._medium,
            spec.Part.DISKS: self._disks,
            spec.Part.MAPPINGS: lambda: disks.attached(
                uuid, by_all_paths=maps
            ),
            spec.Part.VOLUMES: lambda: volumes.connected(uuid, wanted.volumes),
            spec.Part.SWAP_FITS: lambda: disks.swap_fits(uuid, wanted.swap),
            spec.Part.HAS_RESCUE: lambda: disks.has_rescue(uuid),
        }
        return reading[part]()

    def _allocated(self) -> Any:
        if self._wanted.allocated is not None:
            return self._wanted.allocated
        try:
            return self._readers.placement.allocated_to(
                self._wanted.instance_uuid
            )
        except exception.PlacementUnanswered as error:
            text = 'it is unknown which devices belong to it. '
            raise exception.ClaimFailed(
                instance_uuid=self._wanted.instance_uuid,
                reason=exception.PrivateText(
                    f'{text}{error}', f'{text}{error.summary}'
                ),
            ) from error

    def _adapters(self) -> network_ports.Changes:
        """Compare the adapters with the ports, which Neutron decides about.

        Nova's cache of the ports may be outdated or empty. It is believed if
        it matches the adapters, or if there is no LPAR yet. If it has a port
        that is bound to no host, the question makes Neutron bind the port; the
        guest can do without an answer.
        """
        networks = self._readers.networks
        wanted = self._wanted.ports or ()
        if self._makes:
            if self._operation.creates is operations.Creation.IF_LOST:
                wanted = (*self._askers.bind_ports(),)
            return self._connect(
                network_ports.Changes(), (*wanted, *self._management({}))
            )
        present = self._adapters_of_ports()
        mismatch = networks.compare(wanted, present)
        is_settled = self._operation.adapters is operations.Adapters.ADDED
        if mismatch and not is_settled:
            mismatch = networks.compare(self._askers.ports(), present)
        elif self._operation.adapters is operations.Adapters.FITTED and any(
            port.is_unbound for port in wanted
        ):
            with contextlib.suppress(exception.PortsUnknown):
                mismatch = networks.compare(self._askers.ports(), present)
        changes = network_ports.Changes(mismatch.surplus, present=present)
        added = self._management(network_ports.slots_of(present))
        return self._connect(changes, (*mismatch.missing, *added))

    @property
    def _makes(self) -> bool:
        """Whether the LPAR is made anew."""
        creates = self._operation.creates
        return creates is operations.Creation.YES or (
            creates is operations.Creation.IF_LOST and self.actual.lpar is None
        )

    def _adapters_of_ports(self) -> list[network_ports.Adapter]:
        """Read the adapters of the LPAR without the management adapter."""
        uuid = self._wanted.lpar_uuid
        adapters = self._readers.networks.adapters(uuid)
        others = [
            adapter
            for adapter in adapters
            if not management_adapter.is_adapter(adapter, uuid)
        ]
        self._has_management = others != adapters
        return others

    def _management(
        self, slots_of_ports: Mapping[str, int]
    ) -> tuple[network_ports.Port, ...]:
        """Return what stands for the management adapter if it is to be made.

        An LPAR that has one keeps it. One that exists gets it when it starts
        anew, since a running guest cannot do without RMC what RMC is for.
        """
        wanted, operation = self._wanted, self._operation
        if self._has_management:
            return ()
        port = management_adapter.port(wanted.lpar_uuid)
        starts = self._makes or (
            operation.adapters is operations.Adapters.FITTED
            and (operation.restarts or not self._is_active)
        )
        self._has_management = (
            management_adapter.adds(
                wanted.management,
                is_recorded=port.mac in wanted.virtual_slots,
                is_new=operation.disks is operations.Disks.MADE,
                starts=starts,
            )
            and self._has_room({**wanted.virtual_slots, **slots_of_ports})
            and self._readers.networks.has_management_switch(
                None if self._makes else wanted.lpar_uuid
            )
        )
        return (port,) if self._has_management else ()

    @property
    def _is_active(self) -> bool:
        lpar = self.actual.lpar
        return lpar is None or lpar.is_active

    def _has_room(self, slots_of_others: Mapping[str, int]) -> bool:
        uuid = self._wanted.lpar_uuid
        has_room = management_adapter.has_room(uuid, slots_of_others)
        if not has_room:
            LOG.warning(
                'LPAR %(uuid)s gets no management adapter: another device of '
                'the server has virtual slot %(slot)d.',
                {'uuid': uuid, 'slot': management_adapter.SLOT},
                instance_uuid=self._wanted.instance_uuid,
            )
        return has_room

    def _connect(
        self,
        changes: network_ports.Changes,
        ports: Sequence[network_ports.Port],
    ) -> network_ports.Changes:
        networks = self._readers.networks
        self._held.enter_context(networks.hold_resources(ports))
        connections = networks.connect(ports)
        return dataclasses.replace(changes, connections=connections)

    def _contents(self) -> image.Contents:
        """Return what the image contains, without opening a cached image.

        For a check, verify the whole image: the guest's present disk could not
        be made again.
        """
        root = self._wanted.root
        assert root is not None  # noqa: S101 - for the type checker
        if self._operation.is_check:
            return self._verified(root)
        cached = self._cached(root.described)
        return cached or self._source().inspect()

    def _verified(self, root: spec.WantedImage) -> image.Contents:
        source = self._bytes()
        if self._readers.disks.pool is None:
            return self._readers.images.verify(
                root.described, source, inspect=root.inspect
            )
        written = self._readers.images.cache(
            root.described, source, self._readers.disks, inspect=root.inspect
        )
        if not written:
            self._verify_signature(root)
        cached = self._cached(root.described)
        if cached is None:
            raise exception.RestBusy(
                action=f'caching image {root.described.id}',
                reason='another host has just deleted it',
            )
        return cached

    def verify_signature(self) -> None:
        """Verify the signature of an image that this operation has not read.

        A disk driver reads no image that it has cached.

        :raises exception.ImageRefused: The image has trusted certificates,
            and Nova refuses it.
        """
        root = self._wanted.root
        if root and not (self._image and self._image.is_verified):
            self._verify_signature(root)

    def _verify_signature(self, root: spec.WantedImage) -> None:
        if root.described.certificates:
            self._readers.images.verify(
                root.described, self._bytes(), inspect=root.inspect
            )

    def _cached(self, described: image.Image) -> image.Contents | None:
        pool = self._readers.disks.pool
        return pool.cached_image(described) if pool else None

    def _bytes(self) -> drivers.Source:
        assert self._askers.image is not None  # noqa: S101 - a root has one
        return self._askers.image

    def _source(self) -> '_ImageSource':
        if self._image is None:
            root = self._wanted.root
            assert root is not None  # noqa: S101 - for the type checker
            self._image = _ImageSource(
                self._readers.images, root, self._bytes()
            )
            self._held.callback(self._image.close)
        return self._image

    def _medium(self) -> bytes:
        io_slots, own = self.actual.rules.io_slots, self._wanted.drc_indexes
        self.iso = self._askers.make_config_drive(
            [slot for slot in io_slots if slot.drc_index in own],
            self._management_mac(),
        )
        return self.iso

    def _management_mac(self) -> str | None:
        """Return the address of the management adapter that the guest sees.

        cloud-init configures no interface at all if the config drive names
        one that is missing.
        """
        if self._has_management is None and self._makes:
            self._has_management = any(
                management_adapter.is_port(connection.port)
                for connection in self.actual.adapters.connections
            )
        elif self._has_management is None:
            self._adapters_of_ports()
        if not self._has_management:
            return None
        return management_adapter.port(self._wanted.lpar_uuid).mac

    def _disks(self) -> Any:
        """Read the disks in the pool.

        A disk may be in use only because a reading of it was interrupted.
        """
        pool, uuid = self._readers.disks.pool, self._wanted.lpar_uuid
        if pool is None:
            return ()
        disks = pool.disks(uuid)
        if any(disk.in_use for disk in disks) and (
            self._readers.disks.end_read(uuid)
        ):
            disks = pool.disks(uuid)
        return tuple(disks)


class _ImageSource:
    """An image that is opened when it is needed for the first time."""

    def __init__(
        self,
        images: image_ops.ImageOps,
        root: spec.WantedImage,
        source: drivers.Source,
    ) -> None:
        self._images = images
        self._root = root
        self._source = source
        self._reader: image_ops.ImageReader | None = None

    def __call__(self) -> Generator[bytes]:
        """Yield the image's bytes; see :class:`.images.ImageReader`."""
        return self._open()()

    def inspect(self) -> image.Contents:
        """Open the image, and return what its beginning shows."""
        return self._open().contents

    @property
    def is_verified(self) -> bool:
        """Whether the whole image was read and verified."""
        return self._reader is not None and self._reader.is_verified

    def close(self) -> None:
        """End an incomplete transfer."""
        if self._reader is not None:
            self._reader.close()

    def _open(self) -> image_ops.ImageReader:
        if self._reader is None:
            self._reader = self._images.open(
                self._root.described, self._source, inspect=self._root.inspect
            )
        return self._reader
