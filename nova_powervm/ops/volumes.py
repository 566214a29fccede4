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

"""Connects each volume to its LPAR by the volume driver of its type."""

import dataclasses
from collections.abc import Callable
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
    """Has the driver of each volume do what is asked.

    :class:`.drivers.VolumeDriver` describes the methods.

    :param by_kind: ``driver_volume_type`` to volume driver.
    :param check_host: Raises VolumesImpossible while the host must not get a
        further volume.
    """

    def __init__(
        self,
        by_kind: Mapping[str, drivers.VolumeDriver],
        check_host: Callable[[], None] = lambda: None,
    ) -> None:
        self._drivers = by_kind
        self._check_host = check_host

    def connector(
        self,
        lpar: partition.Partition | None = None,
        ports: Collection[int] = (),
    ) -> dict[str, Any]:
        """Return what Cinder has to know of this host to map volumes to it.

        A driver that cannot connect a volume, or does not know, adds nothing:
        Cinder refuses to map volumes of its type then, but maps others.

        :raises exception.PowerVMError: No driver could connect a volume.
        """
        self._check_host()
        connector: dict[str, Any] = {}
        problems: dict[str, exception.PowerVMError] = {}
        for kind, driver in self._drivers.items():
            try:
                connector.update(driver.connector(lpar, ports))
            except exception.PowerVMError as error:
                problems[kind] = error
        if not connector:
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
        return connector

    def check(self, wanted: Iterable[Volume]) -> None:
        """Check volumes without asking the host.

        :raises exception.VolumeRefused: A volume can be connected to no LPAR.
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

    def elsewhere(self, wanted: Iterable[Volume]) -> frozenset[str]:
        """Return the ids of volumes that Cinder maps to other hosts only."""
        known = [*wanted]
        found: set[str] = set()
        for kind, driver in self._drivers.items():
            own = [volume for volume in known if volume.kind == kind]
            if own:
                found.update(driver.elsewhere(own))
        return frozenset(found)

    def connected(
        self, lpar_uuid: str, wanted: Sequence[Volume]
    ) -> dict[str, volumes.Connected]:
        """Return the volumes of an LPAR, with their types.

        Only the driver of its type tells whether a wanted volume is connected:
        the driver of another type may have connected it before Cinder changed
        its type.
        """
        kinds = {volume.id: volume.kind for volume in wanted}
        connected = {}
        for kind, driver in self._drivers.items():
            own = [volume for volume in wanted if volume.kind == kind]
            for volume_id, how in driver.connected(lpar_uuid, own).items():
                if kinds.get(volume_id, kind) == kind:
                    connected[volume_id] = dataclasses.replace(how, kind=kind)
        return connected

    def find(self, volume: Volume, lpar_uuid: str) -> drivers.LocatedVolume:
        """Have the host find a volume, and change no LPAR."""
        return self._drivers[volume.kind].find(volume, lpar_uuid)

    def forget(self, located: drivers.LocatedVolume) -> None:
        """Have the host forget a volume that it has found."""
        self._drivers[located.volume.kind].forget(located)

    def connect(
        self, located: drivers.LocatedVolume, lpar: partition.Partition
    ) -> Mapping[int, int]:
        """Connect a volume that the host has found to an LPAR."""
        slots = self._drivers[located.volume.kind].connect(located, lpar)
        LOG.info(
            'Connected %(volume)s to LPAR %(name)s.',
            {'volume': located.volume, 'name': lpar.name},
        )
        return slots

    def disconnect(self, volume: Volume, lpar_uuid: str) -> None:
        """Disconnect a volume, by all drivers if its type is unknown."""
        driver = self._drivers.get(volume.kind)
        for each in [driver] if driver else self._drivers.values():
            each.disconnect(volume, lpar_uuid)
        LOG.info(
            'Disconnected %(volume)s from LPAR %(uuid)s.',
            {'volume': volume, 'uuid': lpar_uuid},
        )

    def check_rebuild(
        self, lpar_uuid: str, wanted: Collection[Volume], virtual_slots: int
    ) -> None:
        """Verify that volumes can be disconnected, and connected again.

        :param virtual_slots: How many virtual slots the new LPAR has.
        :raises exception.VolumeHeld: A volume cannot be disconnected now.
        :raises exception.VolumesImpossible: One cannot be connected again.
        """
        self.check_removal(lpar_uuid, wanted)
        self.check_arrival(wanted, virtual_slots)

    def check_arrival(
        self, wanted: Collection[Volume], virtual_slots: int | None = None
    ) -> None:
        """Verify that this host can connect the volumes of a server to come.

        :param virtual_slots: How many virtual slots the LPAR has; None for one
            that has had these volumes.
        :raises exception.VolumeRefused: It has no driver for one.
        :raises exception.VolumesImpossible: It can connect none of a type.
        """
        if wanted:
            self._check_host()
        self.check(wanted)
        for kind in sorted({volume.kind for volume in wanted}):
            if virtual_slots is None:
                self._drivers[kind].connector()
                continue
            number = sum(v.kind == kind and not v.is_boot for v in wanted)
            self._drivers[kind].check_arrival(number, virtual_slots)

    def check_removal(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that the volumes of an LPAR can be disconnected.

        :raises exception.VolumeHeld: A volume cannot be disconnected now.
        """
        for kind, driver in self._drivers.items():
            driver.check_removal(lpar_uuid, self._of(kind, wanted))

    def check_disconnection(
        self, lpar_uuid: str, wanted: Collection[Volume]
    ) -> None:
        """Verify that each of some volumes can be disconnected.

        :raises exception.VolumeHeld: One cannot be disconnected now.
        """
        for kind, driver in self._drivers.items():
            own = self._of(kind, wanted)
            if own:
                driver.check_disconnection(lpar_uuid, own)

    def remove(self, lpar_uuid: str, wanted: Collection[Volume] = ()) -> None:
        """Disconnect all volumes of an LPAR, or none if a driver refuses."""
        # The first driver checks before it changes anything.
        for kind, driver in [*self._drivers.items()][1:]:
            driver.check_removal(lpar_uuid, self._of(kind, wanted))
        for kind, driver in self._drivers.items():
            driver.remove(lpar_uuid, self._of(kind, wanted))

    def _of(self, kind: str, wanted: Collection[Volume]) -> list[Volume]:
        """Return the volumes of a type, and those of unknown types."""
        return [
            volume
            for volume in wanted
            if volume.kind == kind or volume.kind not in self._drivers
        ]

    def resize(self, volume: Volume, lpar_uuid: str, size: int) -> None:
        """Have the host see the new size of a volume.

        :param size: The size in bytes.
        :raises exception.VolumeNotExtended: The host sees a smaller size.
        """
        self.check([volume])
        actual = self._drivers[volume.kind].resize(volume, lpar_uuid)
        if actual < size:
            raise exception.VolumeNotExtended(
                volume=volume.id,
                wanted_gb=size / storage.GIB,
                found_gb=actual / storage.GIB,
            )
