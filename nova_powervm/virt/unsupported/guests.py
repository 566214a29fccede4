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


"""Refuses operations on a guest."""

from typing import Any

from nova import exception as nova_exception
from nova.compute import task_states
from nova.virt import driver

from nova_powervm.virt import action_events
from nova_powervm.virt.unsupported import messages

#: Name of the event that records a refused snapshot.
_SNAPSHOT_EVENT = 'powervm_snapshot'


class Guests(driver.ComputeDriver):
    """Refuses to change the state of a guest or to copy the guest."""

    def pause(self, instance: Any) -> None:
        """Refuse; the instance stays as it is."""
        raise messages.refused_error('pausing a server', instance)

    def unpause(self, instance: Any) -> None:
        """Refuse; no instance can be paused."""
        raise messages.refused_error('unpausing a server', instance)

    def suspend(self, context: Any, instance: Any) -> None:
        """Refuse; the instance stays as it is."""
        raise messages.rollback_error('suspending a server', instance)

    def resume(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Refuse; no instance can be suspended."""
        raise messages.rollback_error('resuming a server', instance)

    def rescue(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        image_meta: Any,
        rescue_password: Any,
        block_device_info: Any,
        share_info: Any,
    ) -> None:
        """Refuse; usually the check in power_off has refused already."""
        raise messages.refused_error('rescuing a server', instance)

    def unrescue(self, context: Any, instance: Any) -> None:
        """Refuse; no instance can be rescued."""
        raise messages.rollback_error('unrescuing a server', instance)

    def trigger_crash_dump(self, instance: Any) -> None:
        """Refuse with an exception that Nova logs without a traceback."""
        raise nova_exception.TriggerCrashDumpNotSupported(
            messages.log_refusal('a crash dump', instance)
        )

    def power_update_event(
        self, instance: Any, target_power_state: Any
    ) -> None:
        """Refuse; only bare metal sends such events."""
        raise messages.refused_error('a power update event', instance)

    def poll_rebooting_instances(self, timeout: Any, instances: Any) -> None:
        """Log the refusal only; the host finishes every reboot in time."""
        for instance in instances:
            messages.log_refusal('[DEFAULT]reboot_timeout', instance)

    def snapshot(
        self,
        context: Any,
        instance: Any,
        image_id: str,
        update_task_state: Any,
    ) -> None:
        """Refuse; Nova deletes the image that it created for the snapshot.

        Nova's API has answered by then, and Nova marks the instance action as
        successful. Therefore add a failed event with the reason to the
        action. The action of a backup has the reason anyway.
        """
        refused = messages.refused_error('a snapshot', instance)
        if instance.task_state == task_states.IMAGE_SNAPSHOT:
            action_events.record_failure(
                context, instance, _SNAPSHOT_EVENT, refused
            )
        raise refused

    def set_admin_password(self, instance: Any, new_pass: str) -> None:
        """Refuse; Nova's API returns the reason."""
        raise nova_exception.SetAdminPasswdNotSupported(
            messages.log_refusal(
                'setting the administrator password', instance
            )
        )

    def quiesce(self, context: Any, instance: Any, image_meta: Any) -> None:
        """Refuse; Nova continues without quiescing."""
        raise NotImplementedError(
            messages.log_refusal('quiescing a guest', instance)
        )

    def unquiesce(self, context: Any, instance: Any, image_meta: Any) -> None:
        """Refuse; Nova continues without quiescing."""
        raise NotImplementedError(
            messages.log_refusal('quiescing a guest', instance)
        )
