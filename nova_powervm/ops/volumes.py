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

import dataclasses
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
    """Asks the driver of each volume; see :mod:`nova_powervm.ops.drivers`.

    :param drivers: ``driver_volume_type`` to volume driver.
    """

    def __init__(self, drivers: Mapping[str, drivers.VolumeDriver]) -> None:
        self._drivers = drivers

    def connector(
        self,
        lpar: partition.Partition | None = None,
        ports: Collection[int] = (),
    ) -> dict[str, Any]:
        """Return what Cinder has to know of this host to map volumes to it.

        A driver that could connect none, or does not know, adds nothing: so
        Cinder refuses to map volumes of its type, and others are served.

        :raises exception.PowerVMError: No driver could connect one.
        """
        found: dict[str, Any] = {}
        problems: dict[str, exception.PowerVMError] = {}
        for kind, driver in self._drivers.items():
            try:
                found.update(driver.connector(lpar, ports))
            except exception.PowerVMError as error:
                problems[kind] = error
        if not found:
            raise next(
                iter(problems.values()),
                exception.VolumesImpossible(
                    where='', reason='no volume driver is installed'
                ),
            )
        for kind, problem in problems.items():
            if not isinstance(problem, exception.VolumesImpossible):
                LOG.warning(
                    'Cinder can map no volume of the type %(kind)s to this '
                    'host now: %(error)s',
                    {'kind': kind, 'error': problem},
                )
        return found

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
        """Return the volumes of an LPAR, with their types.

        Only the driver of a wanted volume tells whether that is connected:
        another one may have had it before Cinder has changed its type.
        """
        kinds = {volume.id: volume.kind for volume in wanted}
        return {
            volume_id: dataclasses.replace(how, kind=kind)
            for kind, driver in self._drivers.items()
            for volume_id, how in driver.connected(
                lpar_uuid, [one for one in wanted if one.kind == kind]
            ).items()
            if kinds.get(volume_id, kind) == kind
        }

    def find(self, volume: Volume, lpar_uuid: str) -> drivers.Found:
        """Have its driver find a volume."""
        return self._drivers[volume.kind].find(volume, lpar_uuid)

    def forget(self, found: drivers.Found) -> None:
        """Have its driver forget a volume."""
        self._drivers[found.volume.kind].forget(found)

    def connect(
        self, found: drivers.Found, lpar: partition.Partition
    ) -> Mapping[int, int]:
        """Connect a volume that was found to an LPAR."""
        slots = self._drivers[found.volume.kind].connect(found, lpar)
        LOG.info(
            'Connected %(volume)s to LPAR %(name)s.',
            {'volume': found.volume, 'name': lpar.name},
        )
        return slots

    def disconnect(self, volume: Volume, lpar_uuid: str) -> None:
        """Disconnect a volume, which may be of any type if that is unknown."""
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
        for kind in sorted({volume.kind for volume in wanted}):
            self._drivers[kind].connector()

    def check_removal(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that the volumes of an LPAR can be disconnected.

        :raises exception.VolumeHeld: They cannot be now.
        """
        for kind, driver in self._drivers.items():
            driver.check_removal(lpar_uuid, self._of(kind, wanted))

    def remove(self, lpar_uuid: str, wanted: Collection[Volume] = ()) -> None:
        """Disconnect all volumes of an LPAR, or none if a driver refuses."""
        # The first one refuses by itself, before it changes anything.
        for kind, driver in [*self._drivers.items()][1:]:
            driver.check_removal(lpar_uuid, self._of(kind, wanted))
        for kind, driver in self._drivers.items():
            driver.remove(lpar_uuid, self._of(kind, wanted))

    def _of(self, kind: str, wanted: Collection[Volume]) -> list[Volume]:
        """Return the volumes of a type, and those of an unknown one."""
        return [
            volume
            for volume in wanted
            if volume.kind == kind or volume.kind not in self._drivers
        ]

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
