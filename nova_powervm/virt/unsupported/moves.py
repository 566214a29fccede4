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


"""Refuses resize and cold migration."""

from typing import Any

from nova.virt import driver

from nova_powervm.virt.unsupported import messages

_OPERATION = 'a resize or cold migration'


class Moves(driver.ComputeDriver):
    """Refuses moves at the first step, so that the instance stays as it is."""

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
        """Refuse a resize or cold migration; the instance stays as it is.

        Nova releases the claim on the target in its next cycle, unless the
        instance still has a migration context. On a resize within one host it
        would have one, and the devices would stay claimed as long as the
        instance exists. Therefore drop the context.
        """
        refused = messages.rollback_error(_OPERATION, instance)
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
        """Refuse an instance that a host with another driver sent.

        The guest is off and no longer counts as the source host's, so the
        instance has to go to ERROR. Raise neither an exception that rolls
        back nor NotImplementedError.
        """
        raise messages.refused_error(_OPERATION, instance)

    def confirm_migration(
        self, context: Any, migration: Any, instance: Any, network_info: Any
    ) -> None:
        """Refuse; no instance can be moved."""
        raise messages.refused_error(_OPERATION, instance)

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
        """Refuse; no instance can be moved.

        A nova-compute that was killed during a resize calls this method when
        it starts again, and continues after the refusal.
        """
        raise messages.refused_error(_OPERATION, instance)
