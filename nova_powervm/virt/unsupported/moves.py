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


"""Resize and cold migration, which can't be done yet."""

from typing import Any

from nova.virt import driver

from nova_powervm.virt.unsupported import messages

_OPERATION = 'a resize or cold migration'


class Moves(driver.ComputeDriver):
    """Refuses moves, the first step so that the server stays as it is."""

    def migrate_disk_and_power_off(
        self,
        context: Any,
        instance: Any,
        dest: str,
        flavor: Any,
        network_info: Any,
        block_device_info: Any = None,
        timeout: int = 0,
        retry_interval: int = 0,
    ) -> Any:
        """Refuse a resize or cold migration; the server stays as it is.

        Nova gives the claim on the target back in its next cycle, if it finds
        no trace of it in the instance. It would find one if the target is the
        host itself, and keep the devices from others as long as the server is
        there.
        """
        refused = messages.rolled_back(_OPERATION, instance)
        instance.drop_migration_context()
        raise refused

    def finish_migration(
        self,
        context: Any,
        migration: Any,
        instance: Any,
        disk_info: Any,
        network_info: Any,
        image_meta: Any,
        resize_instance: bool,
        allocations: Any,
        block_device_info: Any = None,
        power_on: bool = True,
        share_info: Any = None,
    ) -> None:
        """Refuse what a host of another driver sent.

        Its guest is off and no longer counts as that host's, so the server
        has to be in ERROR: neither a roll back nor NotImplementedError.
        """
        raise messages.refused(_OPERATION, instance)

    def confirm_migration(
        self, context: Any, migration: Any, instance: Any, network_info: Any
    ) -> None:
        """Refuse: nothing was moved."""
        raise messages.refused(_OPERATION, instance)

    def finish_revert_migration(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        migration: Any,
        block_device_info: Any = None,
        power_on: bool = True,
        share_info: Any = None,
    ) -> None:
        """Refuse: nothing was moved.

        A nova-compute that was killed in a resize calls it at its start, and
        goes on.
        """
        raise messages.refused(_OPERATION, instance)
