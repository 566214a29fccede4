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

"""Translates Nova's objects to the driver's values, and back."""

from typing import Any

import nova.conf
from nova.compute import power_state
from nova.compute import utils as compute_utils
from nova.objects import fields
from nova.virt import hardware
from oslo_utils import timeutils

from nova_powervm.lpar import extra_specs
from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import partition
from nova_powervm.ops import host as host_ops

CONF = nova.conf.CONF

_POWER_STATES = {
    partition.Power.RUNNING: power_state.RUNNING,
    partition.Power.OFF: power_state.SHUTDOWN,
    partition.Power.SUSPENDED: power_state.SUSPENDED,
    partition.Power.FAILED: power_state.CRASHED,
}

#: The guests that a PowerVM host runs, for Nova's image property filter.
_SUPPORTED = [
    (arch, fields.HVType.PHYP, fields.VMMode.HVM)
    for arch in (fields.Architecture.PPC64, fields.Architecture.PPC64LE)
]


def lpar_of(instance: Any) -> str:
    """Return the upper-case uuid of the LPAR of an instance."""
    return partition.lpar_uuid(instance.uuid)


def instance_info(
    state: partition.Power, recorded: int | None
) -> hardware.InstanceInfo:
    """Return a power state in Nova's form.

    :param state: The state that the host reports.
    :param recorded: The state that Nova recorded last, which replaces an
        unknown one.
    """
    reported = _POWER_STATES.get(state, recorded)
    return hardware.InstanceInfo(
        state=power_state.NOSTATE if reported is None else reported
    )


def shutdown_timeout(instance: Any) -> int:
    """Return the seconds for a guest to shut down, as for a stop."""
    seconds = compute_utils.get_value_from_system_metadata(
        instance, 'image_os_shutdown_timeout', int, CONF.shutdown_timeout
    )
    return int(seconds)


def os_distro(instance: Any) -> str:
    """Return the ``os_distro`` of an instance's image, in lower case."""
    return normal_os_distro(
        compute_utils.get_value_from_system_metadata(
            instance, 'image_os_distro', str, ''
        )
    )


def normal_os_distro(value: str | None) -> str:
    """Return the image property ``os_distro`` in lower case."""
    return (value or '').strip().lower()


def management_choice(
    instance: Any, flavor: Any, configured: management_adapter.Choice
) -> management_adapter.Choice:
    """Return whether the LPAR of an instance gets a management adapter.

    :param instance: nova.objects.Instance.
    :param flavor: nova.objects.Flavor, which may differ in a move.
    :param configured: ``[powervm]rmc_adapter``.
    """
    of_image = compute_utils.get_value_from_system_metadata(
        instance, 'image_powervm_rmc_adapter', str, ''
    )
    if (
        extra_specs.forbids_management_adapter(flavor.extra_specs or {})
        or of_image.strip().lower() in extra_specs.Truth.FALSE
    ):
        return management_adapter.Choice.NEVER
    return configured


def available_resource(
    reading: host_ops.Reading, nodename: str
) -> dict[str, Any]:
    """Return the result of ComputeDriver.get_available_resource."""
    managed, disk = reading.system, reading.disk
    return {
        'hypervisor_hostname': nodename,
        'hypervisor_type': fields.HVType.PHYP,
        'hypervisor_version': 1,
        'vcpus': managed.vcpus,
        'vcpus_used': managed.vcpus_used,
        'memory_mb': managed.memory_mb,
        'memory_mb_used': managed.memory_used_mb,
        'local_gb': disk.total_gb,
        'local_gb_used': disk.used_gb,
        'disk_available_least': disk.total_gb - disk.used_gb,
        'cpu_info': None,
        'numa_topology': None,
        'supported_instances': _SUPPORTED,
    }


def uptime(seconds: int) -> str:
    """Format an uptime like the output of the ``uptime`` command.

    The client of Nova's API hides any other form. Users and load are unknown
    and therefore zero.

    :raises NotImplementedError: The host does not tell it. Nova's API then
        shows none; nova-compute logs a traceback.
    """
    if not seconds:
        raise NotImplementedError()
    now = timeutils.utcnow()
    minutes, _ = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (
        f'{now:%H:%M:%S} up {days} days, {hours:2}:{minutes:02},  0 users,  '
        'load average: 0.00, 0.00, 0.00'
    )
