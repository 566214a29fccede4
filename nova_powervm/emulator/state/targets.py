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


"""Target devices: what a client sees of a disk on a virtual SCSI adapter."""

from nova_powervm.emulator import content
from nova_powervm.emulator import errors
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.state import mappings
from nova_powervm.emulator.state import scsi_adapters

Element = content.Element
Host = host_module.Host
Mapping = mappings.Mapping

# By kind of storage: the element, and how names and UDIDs begin.
_KINDS = {
    mappings.DISK: ('LogicalVolumeVirtualTargetDevice', 'vtscsi', '09'),
    mappings.MEDIA: ('VirtualOpticalTargetDevice', 'vtopt', '19'),
}
_FIRST_LUA = 0x81
_LAST_LUA = 0xFF


def make(
    host: Host,
    kind: str,
    posted: Element | None,
    mapping: Mapping,
    others: list[Mapping],
) -> Element:
    """Return a new target device.

    :param kind: of the storage.
    :param posted: a target device with the address or name that a client
        wants, or None.
    :param mapping: that the device is to be part of.
    :param others: the mappings of the same Virtual I/O Server.
    :raises errors.Conflict: what is wanted is taken.
    """
    element_name, prefix, digits = _KINDS[kind]
    return content.new(
        element_name,
        content.leaf('LogicalUnitAddress', _lua(posted, mapping, others)),
        content.leaf('TargetName', _name(posted, prefix, others)),
        content.leaf(
            'UniqueDeviceID', f'{digits}{host.random.getrandbits(64):016x}'
        ),
    )


def _lua(
    posted: Element | None, mapping: Mapping, others: list[Mapping]
) -> str:
    used = {
        other.lua.lower()
        for other in others
        if other.server_slot == mapping.server_slot
    }
    wanted = _wanted(posted, 'LogicalUnitAddress')
    if wanted and wanted.lower() in used:
        raise errors.Conflict(
            f'The logical unit address {wanted} is taken on '
            f'{mapping.adapter_name}.'
        )
    if wanted:
        return wanted
    for number in range(_FIRST_LUA, _LAST_LUA + 1):
        address = f'0x{number:02x}00000000000000'
        if address not in used:
            return address
    raise errors.Conflict(
        f'{mapping.adapter_name} has no free logical unit address.'
    )


def _name(posted: Element | None, prefix: str, others: list[Mapping]) -> str:
    used = {other.target_name for other in others}
    wanted = _wanted(posted, 'TargetName')
    if wanted and wanted in used:
        raise errors.Conflict(f'The target name {wanted!r} is taken.')
    return wanted or scsi_adapters.next_name(prefix, used)


def _wanted(posted: Element | None, name: str) -> str:
    return '' if posted is None else content.text(posted, name)
