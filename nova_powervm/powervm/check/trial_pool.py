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

"""Makes logical units that tell how a shared storage pool behaves.

They are a part of :class:`nova_powervm.powervm.check.trial.Trial`, which maps
them to its LPAR and removes them.
"""

import hashlib
from collections.abc import Collection
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import pools
from nova_powervm.powervm.disk import scsi_mappings
from nova_powervm.powervm.disk import uploads

UNIT_GB = 1
GROWN_GB = 2
#: What stays free in the pool, beside both units at their largest.
MARGIN_GB = 5
#: The virtual slots of what the first two servers map.
SLOTS = frozenset({*storage.virtual_slots(0), *storage.virtual_slots(1)})
_NEEDED_GB = UNIT_GB + GROWN_GB + MARGIN_GB


class PoolTrial:
    """An image in the pool of a host, and a clone of it.

    :param adapter: An adapter with a session that has logged on.
    :param settings: The options of nova.conf.
    :param names: The names of image and clone.
    :param sender: Sends uploads.
    :param mappings: Maps the clone.
    :ivar image: pypowervm's wrapper of the image; None before it is made.
    :ivar clone: The same of the clone.
    :ivar is_mapped: Whether the clone is mapped.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        settings: options.Settings,
        names: tuple[str, str],
        sender: uploads.Uploads,
        mappings: scsi_mappings.ScsiMappings,
    ) -> None:
        self._adapter = adapter
        self._names = names
        self._uploads = sender
        self._mappings = mappings
        self.units = pools.StoragePool(
            adapter, settings.cluster_name, settings.tier_name
        )
        self.image: Any = None
        self.clone: Any = None
        self._free_gb = 0.0
        self.is_mapped = False

    def why_none(self) -> str:
        """Return why no unit can be made; empty if units can."""
        try:
            free = self.units.usage().free_gb
        except exception.ConfigurationError as error:
            return str(error.fields['reason'])
        if free < _NEEDED_GB:
            return f'the pool has {free:g} GB free, and less than {_NEEDED_GB}'
        return ''

    def leftovers(self) -> list[str]:
        """Return the names of the units that there are."""
        return [unit.name for unit in self._own()]

    def _own(self) -> list[Any]:
        """Return the units, clones first: they keep their image."""
        try:
            units = self.units.units(of_all_tiers=True)
        except exception.ConfigurationError:
            # This host has no pool.
            return []
        return sorted(
            (unit for unit in units if unit.name in self._names),
            key=lambda unit: unit.lu_type == pools.IMAGE,
        )

    def make_image(self) -> None:
        """Make the image."""
        self.image = self.units.create(self._names[0], UNIT_GB, pools.IMAGE)

    def upload(self, contents: bytes) -> None:
        """Write to the image."""
        self._uploads.send(
            uploads.Upload(
                vios=self.units.main_server,
                name=self.image.name,
                kind=uploads.DISK,
                size=len(contents),
                sha256=hashlib.sha256(contents).hexdigest(),
                disk=self.image.udid,
            ),
            iter([contents]),
        )

    def make_clone(self) -> None:
        """Clone the image."""
        self._free_gb = self.units.usage().free_gb
        self.clone = self.units.create(
            self._names[1], UNIT_GB, pools.DISK, self.image
        )

    def taken_gb(self) -> float:
        """Return how much less is free in the pool than before the clone."""
        return self._free_gb - float(self.units.usage().free_gb)

    def rename(self) -> str:
        """Give the clone the name of the image; return the one it has."""
        self.clone = self.units.rename(self.clone, self._names[0])
        return str(self.clone.name)

    def grow(self) -> float:
        """Enlarge the clone; return the size that it has then, in GB."""
        self.units.grow(self.clone, GROWN_GB)
        return float(self._read().capacity)

    def is_in_use(self) -> bool:
        """Return whether the pool says that an LPAR uses the clone."""
        return bool(self._read().in_use)

    def _read(self) -> Any:
        self.clone = self.clone.refresh(use_etag=False)
        return self.clone

    def map(self, lpar_uuid: str) -> Collection[frozenset[int]]:
        """Map the clone by each server that runs; return their slots."""
        element = pvm_storage.LU.bld_ref(
            self._adapter, self.clone.name, self.clone.udid
        )
        found = [
            self._mappings.connection(server, lpar_uuid, self.clone.name).slots
            for number, server in enumerate(self.units.servers)
            if self._mappings.attach(server, lpar_uuid, [element], number)
        ]
        self.is_mapped = bool(found)
        return found

    def remove(self) -> None:
        """Delete the units, which are not mapped any more."""
        for unit in self._own():
            self.units.delete(unit)
        self.image = self.clone = None
        self.is_mapped = False
