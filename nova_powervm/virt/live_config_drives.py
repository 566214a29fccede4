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

"""Gives LPARs their config drives again after live migrations."""

from typing import Any

from nova.virt import configdrive

from nova_powervm.lpar import management_adapter
from nova_powervm.virt import host_operations
from nova_powervm.virt import translation


def insert(
    host: host_operations.HostOperations, instance: Any, network_info: Any
) -> None:
    """Connect the config drive of an instance that has come back, or stayed.

    Make it anew if it is gone: the source of a live migration deletes it
    before Nova records the instance on the destination.
    """
    if not host.disks.insert(translation.lpar_of(instance)):
        make(host, instance, network_info)


def make(
    host: host_operations.HostOperations, instance: Any, network_info: Any
) -> None:
    """Make the config drive of an instance, if it has one, and connect it."""
    if not configdrive.required_by(instance):
        return
    lpar_uuid = translation.lpar_of(instance)
    has_management = any(
        management_adapter.is_adapter(adapter, lpar_uuid)
        for adapter in host.networks.adapters(lpar_uuid)
    )
    mac = management_adapter.port(lpar_uuid).mac if has_management else None
    askers = host.descriptions.askers(instance, network_info)
    iso = askers.make_config_drive((), mac)
    host.disks.attach(lpar_uuid, [host.disks.make_medium(lpar_uuid, iso)])
