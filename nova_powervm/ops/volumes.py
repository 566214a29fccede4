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

"""Connects volumes to LPARs, with the volume driver of each one's type."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes
from nova_powervm.ops import drivers

LOG = logging.getLogger(__name__)

Volume = volumes.Volume


class VolumeOps:
    """Connects the volumes of instances to LPARs.

    :param drivers: ``driver_volume_type`` to volume driver.
    """

    def __init__(self, drivers: Mapping[str, drivers.VolumeDriver]) -> None:
        self._drivers = drivers

    def connector(self) -> dict[str, Any]:
        """Return what Cinder has to know of this host to map volumes to it.

        A driver whose volumes this host cannot have adds nothing.

        :raises exception.VolumesImpossible: This host can have no volumes.
        """
        found: dict[str, Any] = {}
        refusal = exception.VolumesImpossible(
            where='', reason='no volume driver is installed'
        )
        for driver in self._drivers.values():
            try:
                found.update(driver.connector())
            except exception.VolumesImpossible as error:
                refusal = error
        if not found:
            raise refusal
        return found

    def check_room(
        self, lpar: partition.Partition, ports: Collection[int]
    ) -> None:
        """Verify that one more volume can be connected to an LPAR.

        :param ports: The virtual slots of its network adapters.
        :raises exception.VolumesImpossible: It cannot.
        """
        for driver in self._drivers.values():
            driver.check_room(lpar, ports)

    def check(self, wanted: Iterable[Volume]) -> None:
        """Check volumes without asking the host.

        :raises exception.VolumeRefused: One can be connected to no LPAR.
        """
        for volume in wanted:
            driver = self._drivers.get(volume.kind)
            if driver is None:
                raise exception.VolumeRefused(
                    volume=volume.id,
                    reason=f"its type is '{volume.kind}', and this host "
                    'connects volumes of the types: '
                    f'{", ".join(sorted(self._drivers))}',
                )
            driver.check(volume)

    def connected(
        self, lpar_uuid: str, wanted: Sequence[Volume]
    ) -> dict[str, volumes.Connected]:
        """Return the volumes of an LPAR; see the protocol."""
        return {
            volume_id: how
            for kind, driver in self._drivers.items()
            for volume_id, how in driver.connected(
                lpar_uuid, [one for one in wanted if one.kind == kind]
            ).items()
        }

    def find(self, volume: Volume, lpar_uuid: str) -> drivers.Found:
        """Have the host find a volume, and change no LPAR."""
        return self._drivers[volume.kind].find(volume, lpar_uuid)

    def forget(self, found: drivers.Found) -> None:
        """Have the host forget a volume that was found, but not connected."""
        self._drivers[found.volume.kind].forget(found)

    def connect(
        self, found: drivers.Found, lpar: partition.Partition
    ) -> Mapping[int, int]:
        """Connect a volume that was found to an LPAR.

        :returns: The virtual slots that it has got; see the protocol.
        """
        slots = self._drivers[found.volume.kind].connect(found, lpar)
        LOG.info(
            'Connected %(volume)s to LPAR %(name)s.',
            {'volume': found.volume, 'name': lpar.name},
        )
        return slots

    def disconnect(self, volume: Volume, lpar_uuid: str) -> None:
        """Disconnect a volume from an LPAR, and have the host forget it.

        One without a known type may be of any.
        """
        known = self._drivers.get(volume.kind)
        for driver in [known] if known else self._drivers.values():
            driver.disconnect(volume, lpar_uuid)
        LOG.info(
            'Disconnected %(volume)s from LPAR %(uuid)s.',
            {'volume': volume, 'uuid': lpar_uuid},
        )

    def check_rebuild(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that volumes can be disconnected, and connected again.

        :raises exception.VolumeHeld: They cannot be disconnected now.
        :raises exception.VolumesImpossible: They cannot be connected again.
        """
        self.check_removal(lpar_uuid, wanted)
        self.connector()

    def check_removal(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that the volumes of an LPAR can be disconnected.

        :raises exception.VolumeHeld: They cannot be now.
        """
        for driver in self._drivers.values():
            driver.check_removal(lpar_uuid, wanted)

    def remove(self, lpar_uuid: str, wanted: Collection[Volume] = ()) -> None:
        """Disconnect all volumes of an LPAR, and have the host forget them."""
        for driver in self._drivers.values():
            driver.remove(lpar_uuid, wanted)

    def resize(self, volume: Volume, lpar_uuid: str, size: int) -> None:
        """Have the host see the new size of a volume.

        :param size: The size in bytes.
        :raises exception.VolumeNotExtended: It sees a smaller one.
        """
        self.check([volume])
        found = self._drivers[volume.kind].resize(volume, lpar_uuid)
        if found < size:
            raise exception.VolumeNotExtended(
                volume=volume.id,
                wanted_gb=size / storage.GIB,
                found_gb=found / storage.GIB,
            )
