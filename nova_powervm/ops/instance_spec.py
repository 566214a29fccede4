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

"""An instance as Nova describes it, for every operation that works on one."""

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from nova_powervm.devices import slots
from nova_powervm.lpar import image
from nova_powervm.lpar import network
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import network as network_ops


@dataclasses.dataclass(frozen=True, slots=True)
class RootDisk:
    """The root disk that a build creates from an image.

    :param image: The image as Glance describes it.
    :param source: Returns the image's bytes.
    :param flavor_gb: The flavor's ``root_gb``; 0 for the image's own size.
    :param inspect: Whether to check that the image has its declared format.
    """

    image: image.Image
    source: disk_interfaces.Source
    flavor_gb: int
    inspect: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceSpec:
    """An instance as Nova describes it.

    Only builds use the fields from ``name`` to ``power_on``.

    :param uuid: The instance's uuid.
    :param extra_specs: Extra specs of its flavor.
    :param stored_slots: Uuid to slot provider, as Nova stored them with the
        instance when it was claimed.
    :param moved_slots: DRC indexes of slots that a move takes from its LPAR
        or gives to it. The LPAR loses those that the instance does not have
        any more.
    :param requests: Its accelerator requests.
    :param ports: Its ports; None if they are unknown, which leaves the
        adapters of its LPAR unchanged.
    :param name: Its name (``instance.name``, not the display name).
    :param memory_mb: Memory of its flavor in MiB.
    :param vcpus: vCPUs of its flavor.
    :param allocations: As Nova passes them to the driver.
    :param uses_stored_slots: Whether a build uses ``stored_slots`` instead of
        allocations, which Nova does not pass then.
    :param root: The root disk that a build creates.
    :param blanks: Its disks beside the root disk.
    :param keeps_disks: Whether a build uses the disks that it has on storage
        of several hosts, and creates none.
    :param config_drive: Creates the contents of its config drive from its
        slots; None for no config drive.
    :param plugging: Returns the context in which its ports are plugged; the
        context may wait at its end.
    :param power_on: Whether to start it.
    """

    uuid: str
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stored_slots: Mapping[str, claims.SlotProvider] = dataclasses.field(
        default_factory=dict
    )
    moved_slots: frozenset[int] = frozenset()
    requests: Sequence[accelerators.Request] = ()
    ports: network_ops.InstancePorts | None = None
    name: str = ''
    memory_mb: int = 0
    vcpus: int = 0
    allocations: Mapping[str, Mapping[str, Any]] | None = None
    uses_stored_slots: bool = False
    root: RootDisk | None = None
    blanks: Sequence[storage.Disk] = ()
    keeps_disks: bool = False
    config_drive: Callable[[Sequence[slots.Slot]], bytes] | None = None
    plugging: Callable[[], contextlib.AbstractContextManager[None]] = (
        contextlib.nullcontext
    )
    power_on: bool = True

    @property
    def lpar(self) -> str:
        """Upper-case uuid of its LPAR."""
        return partition.lpar_uuid(self.uuid)

    @property
    def known_ports(self) -> Sequence[network.Port]:
        """Its ports as Nova passed them to the driver."""
        return self.ports.known if self.ports else ()

    @property
    def marks(self) -> network_ops.InstanceMarks:
        """The marks of VIF drivers in Nova's record of it."""
        return self.ports.marks if self.ports else network_ops.UNRECORDED

    @property
    def image_disk(self) -> RootDisk:
        """The root disk that a build creates."""
        assert self.root is not None  # noqa: S101 - unless it keeps disks
        return self.root
