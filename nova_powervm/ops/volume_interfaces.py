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

"""The protocols for connecting volumes.

:mod:`nova_powervm.powervm.volume` implements the driver, and volume drivers
of other packages do.
"""

import dataclasses
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol

from nova_powervm.lpar import partition
from nova_powervm.lpar import volumes


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A volume that the host has found, to be connected.

    :param volume: The volume, with the UDID of its disk.
    :param handle: What its volume driver needs to connect it; opaque.
    """

    volume: volumes.Volume
    handle: Any = dataclasses.field(default=None, compare=False, repr=False)


class VolumeDriver(Protocol):
    """Connects the volumes of one ``driver_volume_type`` to LPARs.

    Its entry point in ``nova_powervm.volume_drivers`` has the name of the
    type. A server may have volumes of several types. Each driver gets only
    volumes of its own type, and never disconnects others, or disks that a
    disk driver has made.

    An LPAR may have moved to another host, or have been deleted outside of
    Nova; then there is none with the given uuid.
    """

    def connector(self) -> Mapping[str, Any]:
        """Return what Cinder has to know of this host to map a volume to it.

        The keys are those of os-brick's connectors, such as ``wwpns``.

        :raises exception.VolumesImpossible: No volume of this type could be
            connected to any LPAR; Cinder has mapped nothing yet.
        """

    def check_room(
        self, lpar: partition.Partition, ports: Collection[int]
    ) -> None:
        """Verify that one more volume can be connected to an LPAR.

        :param ports: The virtual slots of its network adapters.
        :raises exception.VolumesImpossible: It cannot.
        """

    def check(self, volume: volumes.Volume) -> None:
        """Check a volume without asking the host.

        :raises exception.VolumeRefused: It can be connected to no LPAR.
        """

    def connected(
        self, lpar_uuid: str, wanted: Sequence[volumes.Volume]
    ) -> Mapping[str, volumes.Connected]:
        """Return the volumes of an LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param wanted: The volumes that it should have.
        :returns: Volume id -> how it is connected. What is not known to be a
            volume is left out.
        """

    def find(self, volume: volumes.Volume, lpar_uuid: str) -> Found:
        """Have the host find a volume, and change no LPAR.

        :param lpar_uuid: Upper-case PowerVM uuid of the LPAR that is to get
            it; it need not exist.
        :raises exception.VolumeMissing: The host does not find it; nothing of
            it is left on the host.
        :raises exception.VolumeInUse: Somebody else has it.
        :raises exception.VolumeRefused: It can be connected to no LPAR.
        """

    def forget(self, found: Found) -> None:
        """Have the host forget a volume that was found, but not connected.

        Where it is connected, it stays so. Errors are only logged.
        """

    def connect(
        self, found: Found, lpar: partition.Partition
    ) -> Mapping[int, int]:
        """Connect a volume to an LPAR, unless it is connected.

        :param lpar: The LPAR; a running one needs RMC.
        :returns: The virtual slots that it has got, by the numbers of the
            servers; see :func:`.volumes.choose_slot`.
        :raises exception.PowerVMError: The host refused; it is connected as
            before, and :meth:`forget` follows.
        """

    def disconnect(self, volume: volumes.Volume, lpar_uuid: str) -> None:
        """Disconnect a volume from an LPAR, and have the host forget it.

        When this returns, nothing on the host uses the volume, so that Cinder
        can give its place on the array to others.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :raises exception.VolumeHeld: A server that may connect it does not
            answer, or what is connected cannot be identified; nothing was
            changed.
        """

    def check_removal(
        self, lpar_uuid: str, wanted: Collection[volumes.Volume]
    ) -> None:
        """Verify that :meth:`remove` would not refuse to begin.

        :raises exception.VolumeHeld: It would.
        """

    def remove(
        self, lpar_uuid: str, wanted: Collection[volumes.Volume] = ()
    ) -> None:
        """Disconnect all volumes of an LPAR, and have the host forget them.

        :param lpar_uuid: Upper-case PowerVM uuid.
        :param wanted: The volumes that it is known to have. If it was deleted
            outside of Nova, only they tell what it had.
        :raises exception.VolumeHeld: As for :meth:`disconnect`.
        """

    def resize(self, volume: volumes.Volume, lpar_uuid: str) -> int:
        """Have the host read the size of a volume again.

        :param lpar_uuid: Upper-case PowerVM uuid of the LPAR that has it.
        :returns: The size in bytes, the smallest that a server sees.
        :raises exception.VolumeMissing: No server connects it to the LPAR.
        """
