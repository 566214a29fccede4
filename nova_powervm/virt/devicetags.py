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

"""Nova's device metadata: what tells a guest its tagged ports."""

from collections.abc import Iterable
from typing import Any

from nova import objects


def metadata(
    context: Any, instance: Any, network_info: Iterable[Any] | None
) -> objects.InstanceDeviceMetadata | None:
    """Describe the tagged ports of an instance; None if it has none.

    Slots are no part of it: Nova's objects have no place for a location
    code. The config drive lists them.
    """
    macs = {vif['id']: vif['address'] for vif in network_info or ()}
    interfaces = objects.VirtualInterfaceList.get_by_instance_uuid(
        context, instance.uuid
    )
    devices = [
        objects.NetworkInterfaceMetadata(
            mac=macs[interface.uuid], tags=[interface.tag]
        )
        for interface in interfaces
        if interface.obj_attr_is_set('tag')
        and interface.tag
        and interface.uuid in macs
    ]
    if not devices:
        return None
    return objects.InstanceDeviceMetadata(devices=devices)
