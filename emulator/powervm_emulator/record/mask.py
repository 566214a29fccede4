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

"""Replacing what identifies a site in what was read of it.

A value is kept if it is a number or a truth value, or if its element is in
``kept.txt``, whose elements have words of the API. So nothing slips through
because nobody has thought of it.
"""

import dataclasses
import importlib.resources
import re
from collections.abc import Callable
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.record import recording as recording_module
from powervm_emulator.record import substitute

Element = content.Element
Recording = recording_module.Recording
_FOLDER = importlib.resources.files('powervm_emulator') / 'record'
_PLAIN = re.compile(r'-?[0-9]+(\.[0-9]+)?%?|true|false|[Nn]one|NONE')
_MAC = re.compile('[0-9A-Fa-f]{12}')
_MASKED = 'masked'
# Names that are the same everywhere, or that a server gives to its devices.
_COMMON = re.compile(
    r'ETHERNET0(\(Default\))?|SYSTEM|Default|None|localhost|rootvg|vopt|'
    r'VMLibrary|'
    r'(hdisk|vtscsi|vtopt|vhost|vfchost|fcs|fscsi|ent|en|lp|vasi)[0-9]+'
)
_NAMES = {
    'SystemName': 'system',
    'PartitionName': 'partition',
    'HostName': 'host',
    'ClusterName': 'cluster',
    'StoragePoolName': 'pool',
    'UnitName': 'lu',
    'DiskName': 'disk',
    'DiskLabel': 'label',
    'GroupName': 'group',
    'MediaName': 'medium',
    'RepositoryName': 'repository',
    'NetworkName': 'network',
    'SwitchName': 'switch',
    'ManagementConsoleName': 'console',
    'Name': 'tier',
    'TargetName': 'target',
    'BackingDeviceName': 'disk',
    'AdapterName': 'adapter',
    'DeviceName': 'device',
    'InterfaceName': 'interface',
    'ControlChannelInterfaceName': 'interface',
    'VolumeName': 'volume',
    'PortName': 'port',
    'MapPort': 'port',
    'DefaultProfileName': 'profile',
    'LastActivatedProfile': 'profile',
    'ProfileName': 'profile',
    'UserDefinedSystemName': 'system',
}
# Versions look like addresses.
_VERSION = re.compile('Version|Firmware|Level')
_SERIALS = ('SerialNumber', 'VitalProductDataSerialNumber')
_PORTS = ('WWPN', 'WWPNs', 'WWNN', 'ServerWWPN')
_KEYS = ('AuthorizedKey', 'PublicSSHKey')
_OPAQUE = (
    'UniqueDeviceID',
    'ClonedFrom',
    'ClusterID',
    'DescriptorPage83',
    'StorageLabel',
    'TargetUniqueDeviceID',
    'VolumeUniqueID',
)
# Elements whose Description tells what a part is.
_PARTS = (
    'AssociatedIOSlot',
    'EthernetBackingDevice',
    'IOAdapter',
    'IOSlot',
    'PhysicalFibreChannelAdapter',
    'PhysicalVolume',
    'RelatedIOAdapter',
    'SRIOVAdapter',
)


def mask(found: Recording) -> None:
    """Replace serials, names and addresses of all that was read.

    The same value becomes the same one everywhere.
    """
    made = substitute.Substitute()
    # Names first, so that they are known wherever they are a part of others.
    for element in _leaves(found):
        _learn(made, content.local_name(element), _text(element))
    masker = _Masker(made)
    for node in found.walk():
        uuid = made.uuid(node.capture.uuid)
        node.capture = dataclasses.replace(node.capture, uuid=uuid)
        for element in node.capture.element.iter():
            masker.mask(element)
    found.missing = [made.text(words) for words in found.missing]


def _leaves(found: Recording) -> Iterator[Element]:
    for node in found.walk():
        for element in node.capture.element.iter():
            if not len(element):
                yield element


def _text(element: Element) -> str:
    return (element.text or '').strip()


def _learn(made: substitute.Substitute, name: str, text: str) -> None:
    """Take note of a name or serial number."""
    if not text or _COMMON.fullmatch(text):
        return
    if name in _NAMES:
        kind = _NAMES[name]
        # None is too long for the name of a disk.
        made.name(name, text, lambda number: f'masked-{kind}{number}')
    elif name in _SERIALS:
        serial = made.serial(text)
        made.name(name, text, lambda _: serial)


class _Masker:
    """Masks elements, each as its name demands."""

    def __init__(self, made: substitute.Substitute) -> None:
        self._made = made
        lines = (_FOLDER / 'kept.txt').read_text().splitlines()
        self._kept = {line for line in lines if line[:1] not in ('', '#')}
        self._rules: dict[str, Callable[[str], str]] = {
            **dict.fromkeys((*_NAMES, *_SERIALS), made.text),
            **dict.fromkeys(_PORTS, self._ports),
            **dict.fromkeys(_OPAQUE, made.opaque),
            **dict.fromkeys(_KEYS, made.key),
            'GroupSerialID': made.digits,
            'LogicalSerialNumber': self._logical_serial,
            'MediaUDID': self._medium,
            'VirtualEthernetAdapterMACAddressPrefix': lambda _: '020000',
        }

    def mask(self, element: Element) -> None:
        """Mask the text and the attributes of an element."""
        text = _text(element)
        if text:
            element.text = self._masked(element, text)
        for name, value in element.attrib.items():
            element.set(name, self._made.text(str(value)))

    def _masked(self, element: Element, text: str) -> str:
        name = content.local_name(element)
        if name in self._rules:
            return self._rules[name](text)
        if _MAC.fullmatch(text) and 'MAC' in name.upper():
            return self._made.mac(text)
        if _VERSION.search(name):
            return self._made.names(text)
        replaced = self._made.text(text)
        harmless = _PLAIN.fullmatch(text) or self._is_kept(element, name)
        return replaced if harmless else _MASKED

    def _is_kept(self, element: Element, name: str) -> bool:
        if name == 'Description':
            return content.local_name(element.getparent()) in _PARTS
        return name in self._kept

    def _ports(self, text: str) -> str:
        return ' '.join(map(self._made.digits, text.split()))

    def _logical_serial(self, text: str) -> str:
        # That of the machine, and the number of the partition.
        length = len('EMU0001')
        return self._made.serial(text[:length]) + text[length:]

    def _medium(self, text: str) -> str:
        head = text[: 2 * text.startswith('0e')]
        return head + self._made.text(text.removeprefix(head))
