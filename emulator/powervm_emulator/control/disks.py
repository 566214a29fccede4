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

"""Reading and writing what is on disks, as guests do."""

import base64
import binascii
import contextlib
import pathlib
from collections.abc import Iterator

from powervm_emulator.control import arguments
from powervm_emulator.core import contents as contents_module
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.core import san
from powervm_emulator.nouns.fibre_channel import disks as fibre_channel
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import operating_system
from powervm_emulator.nouns.shared_storage_pool import logical_units
from powervm_emulator.nouns.shared_storage_pool import model as storage_pool
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.volume_group import model as volume_group

Host = host_module.Host
#: How many bytes a guest's number has, the highest one first.
COUNT_BYTES = 8
LogicalUnit = storage_pool.LogicalUnit
Partition = partition_module.Partition


def read(host: Host, udid: str, vios: str | int | None) -> bytes:
    """Return the contents of what has a UDID.

    :param vios: the only server to look at, if not None.
    :raises errors.ControlError: nothing or several things have contents.
    """
    wanted = [
        host.contents.find(server.uuid, udid)
        for server in _servers(host, vios)
    ]
    unit = _unit(host, udid)
    if unit is not None:
        wanted.append(host.site.contents.find(unit.pool.uuid, unit.udid))
    found = [stored for stored in wanted if stored is not None]
    volume = _volume(host, udid, vios)
    if volume is not None:
        with _file(volume) as path:
            return path.read_bytes()
    if len(found) != 1:
        raise errors.ControlError(
            f'{len(found)} contents have the UDID {udid!r}'
        )
    return found[0].path.read_bytes()


def tick(host: Host, partition: Partition, offset: int) -> resource.JSON:
    """Let a guest count one on, and write the number to its first disk.

    :raises errors.ControlError: the guest does not work here.
    """
    if partition.is_shell or partition.state not in partition_module.WORKING:
        raise errors.ControlError(
            f'no guest works in {partition.name!r} of '
            f'{partition.system.name!r}'
        )
    partition.count += 1
    found = [
        (mapping.client_slot or 0, mapping.udid, vios.uuid)
        for vios in scsi_mapping.servers(partition, host)
        for mapping in scsi_mapping.of(vios)
        if mapping.client_uuid == partition.uuid.upper()
        and mapping.kind in operating_system.DISKS
    ]
    udid = None
    if found:
        _, udid, vios_uuid = min(found)
        data = base64.b64encode(partition.count.to_bytes(COUNT_BYTES)).decode()
        write(host, udid, data, offset, vios_uuid)
    return {'count': partition.count, 'udid': udid}


def write(
    host: Host, udid: str, data: str, offset: int, vios: str | int | None
) -> resource.JSON:
    """Write bytes to a virtual disk, logical unit or volume of an array.

    :param data: in Base64.
    :returns: the size and hash of the contents.
    :raises errors.ControlError: there is no such disk, it ends before the
        bytes do, or its pool is full.
    """
    try:
        sent = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise errors.ControlError(f'data is not Base64: {error}') from error
    _check_writer(host, udid)
    volume = _volume(host, udid, vios)
    if volume is not None:
        return _write_volume(volume, offset, sent)
    unit = _unit(host, udid)
    if unit is not None:
        _check_range(unit.name, unit.size, offset, len(sent))
        _take(unit, offset, len(sent))
        contents, owner = host.site.contents, unit.pool.uuid
        udid = unit.udid
    else:
        server, disk = _disk(host, udid, vios)
        _check_range(disk.name, disk.size, offset, len(sent))
        contents, owner = host.contents, server.uuid
    contents.write(owner, udid, offset, sent)
    if unit is not None:
        logical_units.announce(host, unit.tier)
    return _summary(contents, owner, udid)


def _check_writer(host: Host, udid: str) -> None:
    """Refuse what only a guest could write that is on another system."""
    clients = [
        client
        for vios in host.of_type(Partition)
        for mapping in scsi_mapping.using(vios, udid)
        if (client := scsi_mapping.client_of(host, mapping))
    ]
    if clients and all(client.is_shell for client in clients):
        raise errors.ControlError(
            f'the guest of {clients[0].name!r} is on another system'
        )


def _volume(
    host: Host, udid: str, vios: str | int | None
) -> san.Volume | None:
    """Return the volume of an array that a server has as a disk, if any."""
    for server in _servers(host, vios):
        volume = fibre_channel.find_volume(host, server, udid)
        if volume is not None:
            return volume
    return None


def _write_volume(
    volume: san.Volume, offset: int, sent: bytes
) -> resource.JSON:
    _check_range(volume.name, volume.size, offset, len(sent))
    with _file(volume) as path:
        with path.open('r+b') as file:
            file.seek(offset)
            file.write(sent)
        found = contents_module.read(path)
    return {'size': found.size, 'sha256': found.sha256}


@contextlib.contextmanager
def _file(volume: san.Volume) -> Iterator[pathlib.Path]:
    """Give the file of a volume to what reads or writes it.

    :raises errors.ControlError: there is none, or it cannot be used.
    """
    if volume.file is None:
        raise errors.ControlError(
            f'the volume {volume.name!r} has no file; give it one by set_san'
        )
    try:
        yield pathlib.Path(volume.file)
    except OSError as error:
        raise errors.ControlError(
            f'the file {volume.file} of the volume {volume.name!r}: '
            f'{error.strerror}'
        ) from error


def _unit(host: Host, udid: str) -> LogicalUnit | None:
    for pool in storage_pool.of(host):
        unit = pool.find(udid)
        if unit is not None:
            return unit
    return None


def _servers(host: Host, vios: str | int | None) -> list[Partition]:
    return [
        server
        for server in host.of_type(Partition)
        if vios is None or arguments.is_named(server, vios)
    ]


def _disk(
    host: Host, udid: str, vios: str | int | None
) -> tuple[Partition, volume_group.Disk]:
    for server in _servers(host, vios):
        disk = volume_group.find_disk(host, server, udid)
        if disk is not None:
            return server, disk
    raise errors.ControlError(f'no disk has the UDID {udid!r}')


def _check_range(name: str, size: int, offset: int, length: int) -> None:
    if offset < 0 or not length or offset + length > size:
        raise errors.ControlError(
            f'{length} bytes at {offset} are not within the {size} bytes of '
            f'{name!r}'
        )


def _take(unit: LogicalUnit, offset: int, length: int) -> None:
    """Take the space for what a guest writes from the pool.

    :raises errors.ControlError: there is none.
    """
    blocks = unit.blocks_with(offset, length)
    try:
        logical_units.check_space(
            unit, unit.used_with(unit.uploaded, blocks), unit.used
        )
    except errors.RestError as error:
        raise errors.ControlError(error.message) from error
    unit.blocks = blocks


def _summary(
    contents: contents_module.Contents, owner: str, udid: str
) -> resource.JSON:
    found = contents.find(owner, udid)
    assert found is not None  # noqa: S101 - has just been written
    return {'size': found.size, 'sha256': found.sha256}
