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

"""Loads the drivers for disks, ports and volumes, which are entry points."""

from typing import Any
from typing import cast

import stevedore
import stevedore.exception

from nova_powervm import exception
from nova_powervm.ops import drivers
from nova_powervm.powervm import disk
from nova_powervm.powervm import vif
from nova_powervm.powervm import volume

#: ``[powervm]disk_driver`` names an entry point of this group.
DISK_DRIVERS = 'nova_powervm.disk_drivers'
#: Each entry point of this group is loaded; ``binding:vif_type`` names it.
VIF_DRIVERS = 'nova_powervm.vif_drivers'
#: Each entry point of this group is loaded; ``driver_volume_type`` names it.
VOLUME_DRIVERS = 'nova_powervm.volume_drivers'


def load_disk_driver(context: disk.Context) -> drivers.Disks:
    """Load the disk driver that ``[powervm]disk_driver`` names.

    :raises exception.ConfigurationError: No such driver is installed, or it
        cannot be loaded.
    """
    name = context.settings.disk_driver
    try:
        driver = stevedore.DriverManager(
            DISK_DRIVERS, name, on_load_failure_callback=_fail
        ).driver
    except stevedore.exception.NoMatches as error:
        names = stevedore.ExtensionManager(DISK_DRIVERS).entry_points_names()
        raise exception.ConfigurationError(
            reason=f"[powervm]disk_driver = '{name}' is not installed; there "
            f'are: {", ".join(sorted(names))}'
        ) from error
    try:
        return cast(drivers.Disks, driver(context))
    except TypeError as error:
        # The driver lacks a method that each driver must have.
        raise exception.ConfigurationError(
            reason=f"the disk driver '{name}' cannot be loaded: {error}"
        ) from error


def load_vif_drivers(
    context: vif.Context,
) -> dict[str, drivers.VifDriver[Any, Any]]:
    """Load the VIF drivers that are installed.

    :returns: VIF type to VIF driver.
    :raises exception.ConfigurationError: A driver cannot be loaded.
    """
    return _load_all(VIF_DRIVERS, context)


def load_volume_drivers(
    context: volume.Context,
) -> dict[str, drivers.VolumeDriver]:
    """Load the volume drivers that are installed.

    :returns: ``driver_volume_type`` to volume driver.
    :raises exception.ConfigurationError: A driver cannot be loaded.
    """
    return _load_all(VOLUME_DRIVERS, context)


def _load_all(group: str, context: Any) -> dict[str, Any]:
    manager = stevedore.ExtensionManager(group, on_load_failure_callback=_fail)
    return {extension.name: extension.plugin(context) for extension in manager}


def _fail(manager: Any, entry_point: Any, error: BaseException) -> None:
    raise exception.ConfigurationError(
        reason=f"the driver '{entry_point.name}' ({entry_point.value}) of "
        f'{entry_point.group} cannot be loaded: {error}. Reinstall or remove '
        'it'
    ) from error
