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


"""Refuses volumes."""

from typing import Any

from nova.virt import driver

from nova_powervm.virt.unsupported import messages


class Volumes(driver.ComputeDriver):
    """Refuses to attach volumes, and all that requires an attached one."""

    def get_volume_connector(self, instance: Any) -> Any:
        """Refuse; Nova calls this before it attaches a volume."""
        raise messages.refused_error('attaching a volume', instance)

    def attach_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        mountpoint: str,
        disk_bus: Any = None,
        device_type: Any = None,
        encryption: Any = None,
    ) -> None:
        """Refuse; usually get_volume_connector has refused already."""
        raise messages.refused_error('attaching a volume', instance)

    def detach_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        mountpoint: str,
        encryption: Any = None,
    ) -> None:
        """Refuse; no volume can be attached."""
        raise messages.refused_error('detaching a volume', instance)

    def swap_volume(
        self,
        context: Any,
        old_connection_info: Any,
        new_connection_info: Any,
        instance: Any,
        mountpoint: str,
        resize_to: int,
    ) -> None:
        """Refuse; no volume can be attached."""
        raise messages.refused_error('swapping a volume', instance)

    def extend_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        requested_size: int,
    ) -> None:
        """Refuse; no volume can be attached."""
        raise messages.refused_error('extending a volume', instance)

    def volume_snapshot_create(
        self, context: Any, instance: Any, volume_id: str, create_info: Any
    ) -> None:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('a volume snapshot', instance)
        )

    def volume_snapshot_delete(
        self,
        context: Any,
        instance: Any,
        volume_id: str,
        snapshot_id: str,
        delete_info: Any,
    ) -> None:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('a volume snapshot', instance)
        )
