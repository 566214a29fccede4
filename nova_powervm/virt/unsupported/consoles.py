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


"""Refuses consoles, diagnostics and host actions."""

from typing import Any

from nova.virt import driver

from nova_powervm.virt.unsupported import messages


class Consoles(driver.ComputeDriver):
    """Refuses with NotImplementedError, which Nova's API turns into 501."""

    def get_console_output(self, context: Any, instance: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('the console log', instance)
        )

    def get_vnc_console(self, context: Any, instance: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('a VNC console', instance)
        )

    def get_serial_console(self, context: Any, instance: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('a serial console', instance)
        )

    def get_spice_console(self, context: Any, instance: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('a SPICE console', instance)
        )

    def get_mks_console(self, context: Any, instance: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('an MKS console', instance)
        )

    def host_power_action(self, action: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal("changing the host's power state")
        )

    def host_maintenance_mode(self, host: Any, mode: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(messages.log_refusal('maintenance mode'))

    def get_diagnostics(self, instance: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('reading diagnostics', instance)
        )

    def get_instance_diagnostics(self, instance: Any) -> Any:
        """Refuse; Nova's API returns 501."""
        raise NotImplementedError(
            messages.log_refusal('reading diagnostics', instance)
        )
