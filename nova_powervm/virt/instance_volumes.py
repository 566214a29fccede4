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

"""Connects the volumes of instances to their LPARs, as Nova asks for it."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import nova.conf
from nova import context as nova_context
from nova import objects
from nova.compute import task_states
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova.virt import driver
from oslo_log import log as logging
from oslo_serialization import jsonutils

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import spec
from nova_powervm.lpar import volumes
from nova_powervm.ops import apply
from nova_powervm.ops import interfaces
from nova_powervm.virt import device_tags
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import record_changes
from nova_powervm.virt import slot_records
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

CONF = nova.conf.CONF

_SAME_PLACE = (
    'A new volume could get the place on the array that one of its volumes had'
)


class InstanceVolumes:
    """Attaches volumes to instances, and detaches them.

    :param host: The operations on the host.
    """

    def __init__(self, host: host_operations.HostOperations) -> None:
        self._host = host

    def connector(self, instance: Any) -> dict[str, Any]:
        """Describe this host to Cinder, which maps a volume to it then.

        Nova asks for this first, so whatever is refused here leaves nothing
        behind. It also asks for an instance that has no LPAR here yet.

        :raises exception.VolumesImpossible: The instance can have no further
            volume now.
        """
        lpar = self._host.partitions.find(translation.lpar_of(instance))
        # Without any way for volumes, it does not help to stop the server.
        ports = slot_records.recorded_of_ports(instance) if lpar else ()
        connector = self._host.volumes.connector(lpar, ports)
        if lpar is not None and lpar.obstacle:
            raise exception.VolumesImpossible(
                where=f' to LPAR {lpar.name} while it runs',
                reason=f'{lpar.obstacle.rstrip(".")}. Stop the server first',
            )
        return volumes.describe_host(CONF.host, CONF.my_ip, connector)

    def attach(
        self, context: Any, instance: Any, connection_info: Any
    ) -> None:
        """Connect a volume that Cinder has mapped to this host.

        :raises exception.PowerVMError: The volume is refused, or is not
            found; nothing of it is left on this host.
        """
        volume = _parse(connection_info, is_new=True)
        record_changes.save_connection(instance, connection_info)
        outcome = self._run(operations.ATTACH_VOLUME, instance, volume)
        _note(connection_info, outcome.udids)
        slot_records.try_to_save(instance, outcome)
        try:
            device_tags.record(context, instance, instance.get_network_info())
        except Exception:
            # The guest finds the volume without its tag.
            LOG.exception(
                'The tag of %s is not recorded.', volume, instance=instance
            )

    def detach(self, instance: Any, connection_info: Any) -> None:
        """Disconnect a volume, if it is connected, also without an LPAR.

        :param connection_info: As :meth:`attach` has recorded it first of all;
            empty if nova-compute was killed before that.
        :raises exception.VolumeHeld: A Virtual I/O Server that may connect it
            does not answer, or what is connected cannot be identified.
        """
        if not connection_info:
            LOG.info('The volume was never connected.', instance=instance)
            return
        volume = volumes.identify(connection_info)
        self._check_location(instance, volume)
        outcome = self._run(operations.DETACH_VOLUME, instance, volume)
        if instance.task_state not in task_states.rebuild_states:
            slot_records.try_to_save(instance, outcome)

    def _check_location(self, instance: Any, volume: volumes.Volume) -> None:
        """Refuse to take a volume from a guest that a live migration moves.

        Nova has it disconnected from the host that the guest is not on, and
        may be wrong.

        :raises exception.VolumeHeld: The LPAR is here, and Nova records it
            elsewhere.
        :raises exception.PowerVMError: Nova records it here, and it may be
            elsewhere.
        """
        if instance.host in (None, self._host.nodename):
            self._host.locations.check(instance)
        elif self._host.locations.here(translation.lpar_of(instance)):
            raise exception.VolumeHeld(
                volume=volume.id,
                reason='its LPAR is on this host, and Nova records the server '
                f'on host {instance.host}',
            )

    def _run(
        self,
        operation: operations.Operation,
        instance: Any,
        volume: volumes.Volume,
    ) -> apply.Outcome:
        return self._host.lpars.run(
            operation,
            spec.Wanted(
                instance.uuid,
                volumes=(volume,),
                virtual_slots=slot_records.recorded(instance),
            ),
        )

    def extend(self, instance: Any, connection_info: Any, size: int) -> None:
        """Have the host see the new size of a volume.

        :param size: The size in bytes.
        :raises exception.VolumeNotExtended: It sees a smaller one.
        """
        self._host.volumes.resize(
            _parse(connection_info, is_new=False),
            translation.lpar_of(instance),
            size,
        )


def _parse(
    connection_info: Any, *, is_new: bool, **rest: Any
) -> volumes.Volume:
    """Describe a volume.

    :param is_new: Whether its server has never had it.
    :param rest: As for :func:`nova_powervm.lpar.volumes.parse`.
    :raises exception.VolumeRefused: No LPAR can get a new volume like it. One
        that its server has already may be older than the rule: it stays.
    """
    volume = volumes.parse(connection_info, **rest)
    reason = volumes.refusal(connection_info)
    if reason and is_new:
        raise exception.VolumeRefused(
            volume=volume.id, reason=f'it has {reason}'
        )
    if reason:
        LOG.warning(
            '%(volume)s stays attached, but a new one would be refused: it '
            'has %(reason)s.',
            {'volume': volume, 'reason': reason},
        )
    return volume


def _attached(block_device_info: Any) -> Iterator[tuple[Any, bool]]:
    """Yield Nova's records of volumes, and whether one is the root disk."""
    for disk in driver.block_device_info_get_mapping(block_device_info):
        yield disk, disk.get('boot_index') == 0


def parse_all(
    instance: Any, block_device_info: Any
) -> tuple[volumes.Volume, ...]:
    """Describe the volumes of an instance.

    :param block_device_info: As Nova passes it to the driver.
    :raises exception.VolumeRefused: The instance is built for the first time,
        and no LPAR can get one of them.
    """
    is_new = instance.vm_state == vm_states.BUILDING
    return tuple(
        _parse(
            disk['connection_info'],
            is_new=is_new,
            is_boot=is_boot,
            device=disk.get('mount_device') or '',
        )
        for disk, is_boot in _attached(block_device_info)
    )


def identify_all(block_device_info: Any) -> tuple[volumes.Volume, ...]:
    """Tell which volumes an instance has, also those that are refused."""
    return tuple(
        volumes.identify(disk['connection_info'] or {}, is_boot=is_boot)
        for disk, is_boot in _attached(block_device_info)
    )


def boot_volume(block_device_info: Any) -> Any:
    """Return Nova's record of the volume that is the root disk, if any."""
    return next(
        (disk for disk, is_boot in _attached(block_device_info) if is_boot),
        None,
    )


def is_volume_backed(instance: Any) -> bool:
    """Ask Nova's database whether a volume is the root disk."""
    return bool(
        compute_utils.is_volume_backed_instance(
            nova_context.get_admin_context(), instance
        )
    )


def refuse_beside_evacuated(
    partitions: interfaces.Partitions, nodename: str
) -> None:
    """Refuse volumes while an evacuated server still has its LPAR here.

    Cinder has unmapped its volumes, and another one may get the place of one
    of them on the array: its guest may still run, and write there. That of a
    server whose evacuation has not succeeded may be off, until a hard reboot
    disconnects what it has.

    :raises exception.VolumesImpossible: There is one.
    """
    for instance_uuid, is_gone in instance_records.evacuated(nodename).items():
        lpar = partitions.find(partition.lpar_uuid(instance_uuid))
        if lpar is None or not (is_gone or lpar.is_active):
            continue
        reason = (
            exception.PrivateText(
                f'LPAR {lpar.name} is still here, whose server was evacuated. '
                f'{_SAME_PLACE}. Restart nova-compute, which removes the LPAR',
                'the host still has a server that was evacuated',
            )
            if is_gone
            else exception.PrivateText(
                f'LPAR {lpar.name} runs, and the evacuation of its server has '
                f'not succeeded. {_SAME_PLACE}. If it has failed, reboot the '
                'server hard',
                'the host runs a server whose evacuation has not succeeded',
            )
        )
        raise exception.VolumesImpossible(where='', reason=reason)


def recorded_disks(instance: Any) -> list[Any]:
    """Return Nova's records of the volumes of an instance."""
    disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
        nova_context.get_admin_context(), instance.uuid
    )
    return [disk for disk in disks if disk.is_volume]


def recorded_ids(instance: Any) -> frozenset[str]:
    """Return the ids of all volumes that Nova has for an instance.

    They include those that are just being attached or detached.
    """
    return frozenset(disk.volume_id for disk in recorded_disks(instance))


def recorded(instance: Any) -> tuple[volumes.Volume, ...]:
    """Tell which volumes Nova has recorded for an instance."""
    return tuple(
        volumes.identify(
            connection_info,
            is_boot=disk.boot_index == 0,
        )
        for disk in recorded_disks(instance)
        # Nova may record it as null.
        if (connection_info := jsonutils.loads(disk.connection_info or '{}'))
    )


def recorded_boot_volume(instance: Any) -> tuple[volumes.Volume, ...]:
    """Return the volume that Nova has recorded as the root disk, if any."""
    return tuple(
        volumes.Volume(disk.volume_id, '', is_boot=True)
        for disk in recorded_disks(instance)
        if disk.boot_index == 0
    )


def record(block_device_info: Any, udids: Mapping[str, str]) -> None:
    """Record what the host has found volumes as, in Nova's records of them.

    A server that loses the tags of its mappings is told by this which is
    which. Without it, the driver has to look for the volume again.

    :param udids: Volume id -> unique device id.
    """
    for disk, _ in _attached(block_device_info):
        connection_info = disk['connection_info']
        if _note(connection_info, udids):
            record_changes.save_volume(disk)


def _note(connection_info: Any, udids: Mapping[str, str]) -> bool:
    """Note the UDID of a volume; return whether it was unknown."""
    udid = udids.get(connection_info.get('serial'))
    data = connection_info.get('data')
    if not udid or data is None or data.get(volumes.UDID_KEY) == udid:
        return False
    data[volumes.UDID_KEY] = udid
    return True


def refuse_changing(
    instance: Any, known: Iterable[volumes.Volume] = ()
) -> None:
    """Refuse to move an instance while a volume is attached or detached.

    What Nova passes for a move leaves such a volume out.

    :param known: The volumes that Nova has passed.
    :raises exception.MoveRefused: There is one.
    """
    ids = sorted(recorded_ids(instance) - {volume.id for volume in known})
    if ids:
        raise exception.MoveRefused(
            reason=exception.Listing(
                ids,
                before='volumes are just being attached or detached: ',
                after='. Try again when that has ended, or detach them',
            )
        )
