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

"""The jobs of a Virtual I/O Server: to find, forget and list disks."""

import dataclasses
from collections.abc import Iterator

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import jobs
from powervm_emulator.core import san
from powervm_emulator.nouns.fibre_channel import disks
from powervm_emulator.nouns.fibre_channel import ports
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.volume_group import physical_volume

Element = content.Element
JobError = jobs.JobError
Partition = partition_module.Partition
# Statuses of a device in the result of LUARecovery.
_IN_USE = '1'
_UNRELIABLE = '2'
_AVAILABLE = '3'
_NOTHING = '6'
_SOME_PATHS = '8'


class _OfServer(jobs.Operation):
    """An operation that the server itself carries out."""

    target: Partition

    def start(self) -> None:
        """See the base class."""
        vios = self.target
        if (vios.state, vios.rmc_state) != (
            partition_module.RUNNING,
            partition_module.RMC_ACTIVE,
        ):
            raise JobError(
                f'The Virtual I/O Server {vios.name} does not answer: its '
                f'state is {vios.state}, and its RMC connection '
                f'{vios.rmc_state}.'
            )


@dataclasses.dataclass(frozen=True)
class _Path:
    """Where a client says that a volume is (an ITL), and what is there."""

    initiator: str
    target: str
    address: int
    volumes: tuple[san.Volume, ...]


class LUARecovery(_OfServer):
    """Look for the disks at the ends of paths, and answer what was found.

    The parameter ``inputXML`` has the paths of each device.
    """

    def finish(self) -> dict[str, str]:
        """See the base class."""
        self.start()
        try:
            wanted = content.parse(self.parameters.get('inputXML', ''))
        except errors.RestError as error:
            raise JobError(f'inputXML: {error.message}') from error
        devices = content.find_all(wanted, 'deviceList/device')
        if not devices:
            raise JobError('inputXML has no deviceList with a device.')
        # All of them first: a job that fails has found nothing.
        paths = [list(self._paths(device)) for device in devices]
        listed = etree.Element('deviceList')
        for device, its_paths in zip(devices, paths, strict=True):
            answer = _sub(listed, 'device')
            _sub(answer, 'deviceTag', content.text(device, 'deviceTag'))
            self._discover(answer, its_paths)
        result = etree.Element('luaResult')
        _sub(result, 'version', '2.0')
        result.append(listed)
        return {'OutputXML': etree.tostring(result, encoding='unicode')}

    def _paths(self, device: Element) -> Iterator[_Path]:
        """Yield the paths of a device.

        :raises JobError: an address is no hexadecimal number.
        """
        vios = self.target
        fabrics = ports.active(vios.system, vios.uuid)
        for itl in content.find_all(device, 'itlList/itl'):
            initiator = san.normal(content.text(itl, 'Iwwpn'))
            target = san.normal(content.text(itl, 'Twwpn'))
            text = content.text(itl, 'lua')
            try:
                address = int(text, 16)
            except ValueError as error:
                raise JobError(f'{text!r} is no address of a unit.') from error
            fabric = fabrics.get(initiator)
            there = self.host.site.san.find(
                initiator, fabric or '', target, address
            )
            yield _Path(initiator, target, address, tuple(there))

    def _discover(self, answer: Element, paths: list[_Path]) -> None:
        """Discover what the paths lead to, and write it to an answer."""
        volumes = {one.udid: one for path in paths for one in path.volumes}
        if len(volumes) != 1:
            what = 'different disks' if volumes else 'no disk'
            status = _UNRELIABLE if volumes else _NOTHING
            _say(answer, status, f'The {len(paths)} paths lead to {what}.')
            return
        good = [path for path in paths if path.volumes]
        (volume,) = volumes.values()
        at = ports.location(self.target.system, good[0].initiator)
        disk = disks.discover(
            self.host,
            self.target,
            volume,
            f'{at}-W{good[0].target}-L{good[0].address:X}',
        )
        if not physical_volume.is_free(disk):
            _say(answer, _IN_USE, 'The disk is in use.')
        elif len(good) < len(paths):
            text = f'{len(good)} of {len(paths)} paths lead to the disk.'
            _say(answer, _SOME_PATHS, text)
        else:
            _sub(answer, 'status', _AVAILABLE)
        for name, path in (
            ('pvName', 'VolumeName'),
            ('uniqueID', 'VolumeUniqueID'),
            ('udid', physical_volume.UDID),
        ):
            _sub(answer, name, content.text(disk, path))


class RemoveDevice(_OfServer):
    """Forget the disk with the name ``devName``."""

    def finish(self) -> dict[str, str]:
        """See the base class."""
        self.start()
        vios, name = self.target, self.parameters.get('devName', '')
        disk = physical_volume.find_named(vios, name)
        if disk is None:
            raise JobError(f'{vios.name} has no device {name!r}.')
        if not physical_volume.is_free(disk):
            raise JobError(
                f'The device {name} of {vios.name} is busy: it is mapped, or '
                'in a volume group or a pool.'
            )
        physical_volume.forget(vios, name)
        self.host.touch(vios)
        return {'returnCode': '0'}


class GetFreePhysicalVolumes(_OfServer):
    """Answer with the disks that nobody has.

    With the parameter ``FibreChannelBackedOnly``, only with those of arrays.
    """

    def finish(self) -> dict[str, str]:
        """See the base class."""
        self.start()
        wanted = self.parameters.get('FibreChannelBackedOnly', 'false')
        if wanted not in ('true', 'false'):
            raise JobError(
                f'FibreChannelBackedOnly is {wanted!r}, not true or false.'
            )
        free = [
            content.copy(disk)
            for disk in physical_volume.of(self.target.element)
            if physical_volume.is_free(disk)
            and (
                wanted == 'false'
                or content.boolean(disk, 'IsFibreChannelBacked')
            )
        ]
        collection = content.new('PhysicalVolume_Collection', *free)
        elements.mark(collection)
        return {'result': etree.tostring(collection, encoding='unicode')}


def _say(answer: Element, status: str, text: str) -> None:
    _sub(answer, 'status', status)
    message = _sub(answer, 'msg')
    _sub(message, 'msgLen', str(len(text)))
    _sub(message, 'msgText', text)


def _sub(parent: Element, name: str, text: str | None = None) -> Element:
    child = etree.SubElement(parent, name)
    child.text = text
    return child


BY_NAME = {
    'LUARecovery': LUARecovery,
    'RemoveDevice': RemoveDevice,
    'GetFreePhysicalVolumes': GetFreePhysicalVolumes,
}
