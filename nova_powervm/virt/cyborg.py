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

"""Cyborg's accelerator requests: taken from Nova, or fetched."""

from typing import Any

from nova import exception as nova_exception
from nova.accelerator import cyborg

from nova_powervm import exception
from nova_powervm.domain import accelerators


def wanted(instance: Any) -> bool:
    """Whether the instance's flavor has a device profile."""
    return _profile(instance) is not None


def given(
    instance: Any, nodename: str, accel_info: Any
) -> tuple[accelerators.Request, ...]:
    """Read the requests that Nova hands over.

    :param instance: nova.objects.Instance.
    :param nodename: The compute node's name.
    :param accel_info: As spawn, reboot and power_on get it.
    :raises exception.AcceleratorRefused: One of them can't be served.
    """
    return accelerators.parse(
        instance.uuid, nodename, _profile(instance), accel_info
    )


def fetched(
    context: Any, instance: Any, nodename: str
) -> tuple[accelerators.Request, ...]:
    """Fetch the requests where Nova hands none over.

    Cyborg is asked only if the flavor has a device profile.

    :param context: Of the request.
    :param instance: nova.objects.Instance.
    :param nodename: The compute node's name.
    :raises exception.AcceleratorsUnknown: Cyborg did not answer.
    :raises exception.AcceleratorRefused: One of them can't be served.
    """
    if not wanted(instance):
        return ()
    try:
        client = cyborg.get_client(context)
        found = client.get_arqs_for_instance(instance.uuid)
    except nova_exception.NovaException as error:
        raise exception.AcceleratorsUnknown(
            instance=instance.uuid, reason=error.format_message()
        ) from error
    return given(instance, nodename, found)


def _profile(instance: Any) -> str | None:
    profile = (instance.flavor.extra_specs or {}).get(accelerators.PROFILE)
    return str(profile) if profile else None
