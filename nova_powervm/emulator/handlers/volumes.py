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


"""Volume groups, which are children of a Virtual I/O Server."""

from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import exchange
from nova_powervm.emulator.state import partition as partition_module
from nova_powervm.emulator.state import resource as resource_module
from nova_powervm.emulator.state import volume_updates
from nova_powervm.emulator.state import volumes as volumes_module

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation


def feed(emulation: Emulation, call: Call, vios: str) -> Answer:
    """Answer with the groups of one Virtual I/O Server."""
    parent = emulation.host.get(partition_module.VIOS, vios)
    groups = emulation.host.all(volumes_module.KIND, parent)
    return call.feed(groups, _path(parent))


def entry(emulation: Emulation, call: Call, vios: str, uuid: str) -> Answer:
    """Answer with one group."""
    return _answer(call, _group(emulation, vios, uuid))


def update(emulation: Emulation, call: Call, vios: str, uuid: str) -> Answer:
    """POST: change the disks, media and repository to those of the body."""
    found = _group(emulation, vios, uuid)
    call.check_current(found)
    volume_updates.update(emulation.host, found, call.content())
    return _answer(call, found)


def _group(
    emulation: Emulation, vios: str, uuid: str
) -> volumes_module.VolumeGroup:
    parent = emulation.host.get(partition_module.VIOS, vios)
    found = emulation.host.get_child(parent, volumes_module.KIND, uuid)
    assert isinstance(  # noqa: S101 - for the type checker
        found, volumes_module.VolumeGroup
    )
    return found


def _answer(call: Call, group: volumes_module.VolumeGroup) -> Answer:
    return call.entry(group, f'{_path(group.vios)}/{group.uuid}')


def _path(vios: resource_module.Resource) -> str:
    return f'{vios.path}/{volumes_module.KIND}'
