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

"""Nova's device metadata, which describes tagged devices to the guest."""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from nova import objects

from nova_powervm.virt import record_changes


def describe_tagged(
    context: Any, instance: Any, network_info: Iterable[Any] | None
) -> objects.InstanceDeviceMetadata | None:
    """Describe the tagged devices of an instance; None if there are none.

    Omit slots, because Nova's objects have no field for a location code. The
    config drive lists them.
    """
    devices = [
        *_ports(context, instance, network_info),
        *_disks(context, instance),
    ]
    if not devices:
        return None
    return objects.InstanceDeviceMetadata(devices=devices)


def record(context: Any, instance: Any, network_info: Iterable[Any]) -> None:
    """Record the tagged devices of an instance, for the metadata service."""
    instance.device_metadata = describe_tagged(context, instance, network_info)
    record_changes.save_metadata(instance)


def _ports(
    context: Any, instance: Any, network_info: Iterable[Any] | None
) -> Iterator[objects.NetworkInterfaceMetadata]:
    macs = {vif['id']: vif['address'] for vif in network_info or ()}
    interfaces = objects.VirtualInterfaceList.get_by_instance_uuid(
        context, instance.uuid
    )
    for interface in interfaces:
        if _tag(interface) and interface.uuid in macs:
            yield objects.NetworkInterfaceMetadata(
                mac=macs[interface.uuid], tags=[interface.tag]
            )


def _disks(context: Any, instance: Any) -> Iterator[objects.DiskMetadata]:
    """Describe the root disk, and volumes with their ids."""
    disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
        context, instance.uuid
    )
    for disk in disks:
        if _tag(disk):
            serial = {'serial': disk.volume_id} if disk.is_volume else {}
            yield objects.DiskMetadata(tags=[disk.tag], **serial)


def _tag(tagged: Any) -> str | None:
    return tagged.tag if tagged.obj_attr_is_set('tag') else None
