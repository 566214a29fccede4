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

"""Migrates servers live: both sides of each of Nova's calls.

Nova asks the destination, then the source (``check_destination``,
``check_source``), has the destination prepare itself (``prepare``), and the
source move the LPAR (``migrate``). Whoever refuses, until PowerVM moves the
LPAR, leaves the server as it was.

What the hosts tell each other travels in a field of Nova's own object, of
which only libvirt's driver reads it: a conductor would not know a class of
this driver.

How the move has ended is decided by what both hosts show, and by nothing else:
an answer may be lost, and Nova deletes what is on the side that it believes to
be the wrong one. If they do not tell, nothing is deleted on either side.
"""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import nova.conf
from nova import exception as nova_exception
from nova.objects import migrate_data as nova_migrate_data
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import shared_ethernet
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.ops import interfaces
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import errors
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import live_config_drives
from nova_powervm.virt import live_volumes
from nova_powervm.virt import port_records
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

#: Name of the event that records why a live migration has failed.
EVENT = 'powervm_live_migration'
#: The room that the destination needs; the rest is the LPAR's own.
_ARRIVAL = operations.LIVE_ARRIVAL
# Keys of what the hosts tell each other.
_DESTINATION, _KEY, _UDIDS, _VLANS = 'destination', 'key', 'udids', 'vlans'
_PATHS = 'paths'
#: Times that both hosts are looked at, and seconds between two: a host may
#: show an LPAR for a moment after the job has ended.
_LOOKS, _PAUSE_SECONDS = 5, 2.0


class LiveMigrations:
    """Migrates servers from this host and to it.

    :param host: The operations on the host.
    :param deferred: Instances to start.
    :param records: Puts Nova's records of volumes right.
    :param sleep: Waits for some seconds.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        deferred: deferred_starts.DeferredStarts,
        records: live_volumes.LiveVolumes,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._deferred_starts = deferred
        self._volume_records = records
        self._sleep = sleep
        # Uuids of instances that a thread of this process moves, and of those
        # whose migration was aborted by a request.
        self._moving: set[str] = set()
        self._aborted: set[str] = set()
        # Uuids of those that are to arrive -> where their disks have been.
        self._paths: dict[str, list[live_migration.Path]] = {}

    @property
    def _jobs(self) -> interfaces.LiveMigrations:
        return self._host.live_migrations

    # Before anything is changed

    def check_destination(
        self, instance: Any, block_migration: bool | None
    ) -> Any:
        """Check whether this host could take an instance, and describe it.

        :returns: Nova's object, with the description.
        :raises nova.exception.MigrationPreCheckError: It could not; Nova would
            show another error as one of the server.
        """
        with _refused():
            if block_migration:
                raise exception.LiveMigrationRefused(
                    reason='block migration is not possible: PowerVM moves no '
                    'disks. Migrate without it'
                )
            self._check_free('destination')
            if self._host.partitions.find(translation.lpar_of(instance)):
                raise exception.LiveMigrationRefused(
                    reason='the destination has an LPAR of this server '
                    'already, which an earlier move has left'
                )
            connections = self._check_room(instance)
            data = nova_migrate_data.LibvirtLiveMigrateData()
            # Nova reads these. Together they mean: clean up the other side,
            # and leave the disks.
            data.is_shared_instance_path = False
            data.is_shared_block_storage = True
            data.block_migration = False
            data.source_mdev_types = {}
            _tell(data, _DESTINATION, self._describe(connections).to_text())
            return data

    def _check_free(self, side: str) -> None:
        """Check that this host takes part in one more live migration.

        :param side: What it is in that.
        """
        full = self._jobs.full()
        if full:
            raise exception.LiveMigrationRefused(
                reason=exception.PrivateText(
                    f'the {side}: {full}',
                    f'the {side} takes part in no further one now',
                )
            )

    def _check_room(self, instance: Any) -> Sequence[network_ports.Connection]:
        """Check that this host has room and networks for an LPAR.

        :returns: How its ports would be connected.
        """
        ports = instance_ports.ports(instance.get_network_info())
        volumes = instance_volumes.recorded(instance)
        self._host.volumes.check_arrival(volumes)
        self._host.lpars.check(
            _ARRIVAL, self._host.descriptions.live(instance, ports, volumes)
        )
        return self._host.networks.connect(ports)

    def _describe(
        self, connections: Sequence[network_ports.Connection]
    ) -> live_migration.Destination:
        managed = self._host.reader.last_or_read().system
        pool = self._host.storage.pool
        disk_servers, volume_servers = self._jobs.servers(
            self._host.disks.servers
        )
        return live_migration.Destination(
            system=managed.name,
            address=str(CONF.my_ip),
            memory_region_mb=managed.memory_region_mb,
            compatibility_modes=tuple(managed.compatibility_modes),
            pool='' if pool is None else pool.identity(),
            disk_servers=tuple(disk_servers),
            volume_servers=tuple(volume_servers),
            switches={
                connection.port.mac: connection.bridge.switch
                for connection in connections
                if isinstance(connection, shared_ethernet.Connection)
            },
            has_management=self._host.networks.has_management_switch(None),
            key=self._jobs.public_key(),
        )

    def check_source(
        self, instance: Any, data: Any, block_device_info: Any
    ) -> Any:
        """Check whether an instance of this host could move as it runs.

        :raises nova.exception.MigrationPreCheckError: It could not.
        """
        with _refused():
            destination = _read_destination(data)
            self._check_free('source')
            guest = self._guest(instance, block_device_info)
            reasons = [*live_migration.refusals(guest, destination)]
            ids = {
                volume.id
                for volume in instance_volumes.identify_all(block_device_info)
            }
            known = instance_volumes.recorded_ids(instance)
            pending = sorted((known ^ ids) | (ids - {*guest.udids}))
            if pending:
                reasons.append(
                    'volumes are not connected, or are just being attached '
                    f'or detached: {", ".join(pending)}'
                )
            if ids and live_volumes.LiveVolumes.obstacle():
                reasons.append(
                    f'{live_volumes.LiveVolumes.obstacle()}. Write them there'
                )
            if reasons:
                raise exception.LiveMigrationRefused(
                    reason=exception.Listing(reasons, '; ')
                )
            _tell(data, _UDIDS, json.dumps(guest.udids))
            paths = [*map(dataclasses.astuple, guest.paths)]
            _tell(data, _PATHS, json.dumps(paths))
            _tell(data, _KEY, self._jobs.public_key())
            if ids:
                # However it ends: Nova goes on if Cinder fails meanwhile.
                self._volume_records.note(instance.uuid)
            return data

    def _guest(
        self, instance: Any, block_device_info: Any
    ) -> live_migration.Guest:
        """Read an LPAR that is to move."""
        lpar_uuid = translation.lpar_of(instance)
        host = self._host
        guest = self._jobs.guest(lpar_uuid, host.disks.servers)
        of_pool = {
            disk.stored.name for disk in host.storage.kept_disks(instance)
        }
        others = {*host.disks.attached(lpar_uuid)} - of_pool
        medium = storage.config_drive_name(lpar_uuid)
        adapters = host.networks.adapters(lpar_uuid)
        pool = host.storage.pool
        guest = dataclasses.replace(
            guest,
            pool=pool.identity() if of_pool and pool else '',
            strangers=tuple(sorted(others - {medium})),
            switches={
                adapter.mac: adapter.switch
                for adapter in adapters
                if isinstance(adapter, shared_ethernet.Adapter)
            },
        )
        return guest.identified(
            {
                volume.id: volume.udid
                for volume in instance_volumes.identify_all(block_device_info)
            }
        )

    # The destination

    def prepare(
        self,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        data: Any,
    ) -> Any:
        """Prepare this host for an LPAR that is about to arrive.

        After an error, Nova disconnects the volumes here and has the rest
        taken back (:meth:`take_back`).

        :returns: The same object.
        """
        lpar_uuid = translation.lpar_of(instance)
        told = data.source_mdev_types
        self._host.removal.forget_leftover(lpar_uuid)
        self._jobs.authorize(told[_KEY])
        vlans = self._prepare_networks(instance, _ports(network_info, data))
        udids = json.loads(told[_UDIDS])
        found = {}
        for volume in instance_volumes.parse_all(instance, block_device_info):
            self._find(volume.with_udid(udids[volume.id]), lpar_uuid)
            found[volume.id] = udids[volume.id]
        instance_volumes.record(block_device_info, found)
        self._paths[instance.uuid] = [
            live_migration.Path(*path) for path in json.loads(told[_PATHS])
        ]
        _tell(data, _VLANS, json.dumps(vlans))
        return data

    def _prepare_networks(
        self, instance: Any, ports: Sequence[network_ports.Port]
    ) -> Mapping[str, int]:
        """Have bridges carry the VLANs of ports; return these by MAC."""
        networks = self._host.networks
        metadata = port_records.NovaInstanceMetadata(
            instance, self._host.nodename
        )
        with networks.hold_resources(ports):
            connections = networks.connect(ports)
            networks.prepare_host(connections, metadata)
        return {
            connection.port.mac: connection.vlan
            for connection in connections
            if isinstance(connection, shared_ethernet.Connection)
        }

    def _find(self, volume: lpar_volumes.Volume, lpar_uuid: str) -> None:
        """Have this host find a volume, as the disk that the source has."""
        self._host.volumes.check([volume])
        self._host.volumes.find(volume, lpar_uuid)
        locked = self._jobs.unsuitable([volume.udid])
        if locked:
            raise exception.VolumeRefused(
                volume=volume.id,
                reason=exception.PrivateText(
                    f'{", ".join(locked)} can be reserved by one Virtual I/O '
                    'Server, and in a live migration servers of both hosts '
                    'open it. Set its reserve_policy to no_reserve',
                    'the Virtual I/O Servers of both hosts cannot share its '
                    'disk',
                ),
            )

    def finish(
        self, instance: Any, network_info: Any, block_device_info: Any
    ) -> None:
        """Give an LPAR that has arrived what only this host can give it.

        Log errors instead of raising them: the guest runs here.
        """
        lpar_uuid = translation.lpar_of(instance)
        with _logged(instance, 'The config drive is not connected'):
            live_config_drives.make(self._host, instance, network_info)
            # Until it is connected, a hard reboot does that.
            with _logged(instance, 'The record of the live migration stays'):
                system_metadata.write_live_migration(instance, None)
        volumes = instance_volumes.identify_all(block_device_info)
        with _logged(instance, 'The disks cannot be read back'):
            if volumes:
                self._check_volumes(instance, lpar_uuid, volumes)
            self._check_paths(instance, lpar_uuid)

    def _check_volumes(
        self,
        instance: Any,
        lpar_uuid: str,
        volumes: Sequence[lpar_volumes.Volume],
    ) -> None:
        """Log which volumes lack a path."""
        connected = self._host.volumes.connected(lpar_uuid, volumes)
        for volume in volumes:
            how = connected.get(volume.id)
            if how is None or not how.is_complete:
                LOG.error(
                    '%(volume)s lacks a path on this host. Reboot the server '
                    'hard.',
                    {'volume': volume},
                    instance=instance,
                )

    def _check_paths(self, instance: Any, lpar_uuid: str) -> None:
        """Log which disks are not where they were on the source."""
        for disk, was, now in live_migration.changed_paths(
            self._paths.pop(instance.uuid, []), self._jobs.paths(lpar_uuid)
        ):
            LOG.error(
                'Disk %(disk)s was at %(was)s, and PowerVM has moved it to '
                '%(now)s: the guest may not find it when it starts anew.',
                {'disk': disk, 'was': was, 'now': now},
                instance=instance,
            )

    def take_back(self, instance: Any) -> None:
        """Remove from this host what it had prepared for an LPAR."""
        self._paths.pop(instance.uuid, None)
        self._host.networks.release_unused(
            port_records.NovaInstanceMetadata(instance, self._host.nodename)
        )

    # The source

    def migrate(
        self,
        context: Any,
        instance: Any,
        dest: str,
        post_method: Callable[..., None],
        recover_method: Callable[..., None],
        block_migration: bool,
        data: Any,
    ) -> None:
        """Have PowerVM move an LPAR, and tell Nova how that has ended.

        :raises exception.LiveMigrationUnsettled: The hosts do not say where
            the LPAR is; Nova shows the server in ERROR, and keeps everything.
        """
        problem: Exception | None = None
        self._moving.add(instance.uuid)
        try:
            self._move(instance, dest, data)
        except Exception as error:
            # Of any kind: what the hosts show decides.
            problem = error
            LOG.error(
                'The live migration has failed: %s', error, instance=instance
            )
        finally:
            self._moving.discard(instance.uuid)
            is_aborted = instance.uuid in self._aborted
            self._aborted.discard(instance.uuid)
        try:
            ending = self._ending(context, instance, dest, problem)
        except exception.LiveMigrationUnsettled:
            self._volume_records.note(instance.uuid)
            raise
        if ending is live_migration.Ending.ARRIVED:
            # The destination removes the record of the migration.
            post_method(context, instance, dest, block_migration, data)
            return
        with _logged(instance, 'The record of the live migration stays'):
            system_metadata.write_live_migration(instance, None)
        if problem is not None:
            failed = nova_exception.MigrationError(
                reason=errors.for_users(problem)
            )
            errors.record_failure(context, instance, EVENT, failed)
        recover_method(
            context,
            instance,
            dest,
            migrate_data=data,
            migration_status='cancelled' if is_aborted else 'failed',
        )
        self._volume_records.put_right_now(instance.uuid)

    def _move(self, instance: Any, dest: str, data: Any) -> None:
        lpar_uuid = translation.lpar_of(instance)
        destination = _read_destination(data)
        vlans = json.loads(data.source_mdev_types[_VLANS])
        # The LPAR may have to come back without Nova.
        self._jobs.authorize(destination.key)
        self._deferred_starts.forget(instance)
        self._host.consoles.forget(instance)
        self._host.disks.eject(lpar_uuid)
        guest = self._jobs.guest(lpar_uuid, self._host.disks.servers)
        target = live_migration.Target(
            destination.system,
            destination.address,
            tuple(live_migration.scsi_mappings(guest.devices, destination)),
            tuple(live_migration.vlan_mappings(vlans)),
        )
        self._jobs.validate(lpar_uuid, target)
        # From here on, only the hosts know where the LPAR is.
        system_metadata.write_live_migration(instance, dest)
        LOG.info(
            'The live migration to system %(system)s begins.',
            {'system': target.system},
            instance=instance,
        )
        self._jobs.migrate(lpar_uuid, target)

    def _ending(
        self,
        context: Any,
        instance: Any,
        dest: str,
        problem: Exception | None,
    ) -> live_migration.Ending:
        """Ask both hosts where the LPAR is.

        :raises exception.LiveMigrationUnsettled: They do not say.
        """
        lpar_uuid = translation.lpar_of(instance)
        may_begin = _may_begin(instance, problem)
        here: object = 'unknown'
        there: object = 'unknown'
        reason: object = problem or 'the job has ended well'
        for look in range(_LOOKS):
            if look:
                self._sleep(_PAUSE_SECONDS)
            try:
                sight = self._host.locations.here(lpar_uuid)
                here = sight.state if sight else 'missing'
                other = self._host.locations.there(context, instance, dest)
                there = other.state if other else 'missing'
            except exception.PowerVMError as error:
                reason = error
                continue
            ending = live_migration.judge(sight, other)
            if ending is live_migration.Ending.ARRIVED:
                return ending
            if ending is live_migration.Ending.STAYED and not may_begin:
                return ending
            if look == 0 and sight is not None and sight.is_to_recover:
                with _logged(instance, 'The LPAR cannot be recovered'):
                    self._jobs.recover(lpar_uuid)
        raise exception.LiveMigrationUnsettled(
            lpar_uuid=lpar_uuid,
            host=dest,
            here=here,
            there=there,
            reason=reason,
        )

    def abort(self, instance: Any) -> None:
        """End the live migration of an instance, which stays here.

        Nova also calls this while nova-compute starts.

        :raises exception.LiveMigrationRefused: PowerVM does not move it now.
        """
        lpar_uuid = translation.lpar_of(instance)
        sight = self._host.locations.here(lpar_uuid)
        is_killed = instance.uuid not in self._moving
        if sight is not None and not sight.is_settled:
            self._aborted.add(instance.uuid)
            self._jobs.abort(lpar_uuid)
            if is_killed:
                self._aborted.discard(instance.uuid)
                self.stay(instance)
            return
        if sight is not None and is_killed:
            self.stay(instance)
        raise exception.LiveMigrationRefused(
            reason='PowerVM does not move the server now, so there is nothing '
            'to abort'
        )

    def disconnect(self, instance: Any, block_device_info: Any) -> None:
        """Disconnect what an LPAR that has left had here.

        Log errors instead of raising them: the guest runs elsewhere. Nova has
        Cinder unmap its volumes from this host afterwards.
        """
        lpar_uuid = translation.lpar_of(instance)
        with _logged(instance, 'Volumes may stay mapped to this host'):
            if self._host.locations.here(lpar_uuid) is not None:
                raise exception.LiveMigrationRefused(
                    reason='the LPAR is still here'
                )
            self._host.volumes.remove(
                lpar_uuid, instance_volumes.identify_all(block_device_info)
            )

    def leave(self, instance: Any) -> None:
        """Remove from this host what an LPAR that has left had here.

        Its disks stay in the pool.
        """
        lpar_uuid = translation.lpar_of(instance)
        with _logged(instance, 'Something of the server may stay here'):
            if self._host.locations.here(lpar_uuid) is not None:
                raise exception.LiveMigrationRefused(
                    reason='the LPAR is still here'
                )
            # Without a pool, all that it had here is a config drive.
            self._host.disks.remove(
                lpar_uuid, delete=self._host.storage.pool is None
            )
        self.take_back(instance)

    def stay(self, instance: Any) -> None:
        """Give an LPAR that stays here its config drive back."""
        with _logged(instance, 'The config drive is not connected again'):
            self._host.disks.insert(translation.lpar_of(instance))


def _may_begin(instance: Any, problem: Exception | None) -> bool:
    """Return whether PowerVM may still begin to move an LPAR.

    The request for the job, or for its state, had no answer, or one of a
    server that did not know more.
    """
    is_asked = system_metadata.live_migration(instance.system_metadata)
    unanswered = exception.RestUnreachable | exception.RestBusy
    return bool(is_asked) and isinstance(problem, unanswered)


def _ports(network_info: Any, data: Any) -> Sequence[network_ports.Port]:
    """Return the ports as Neutron has bound them to this host."""
    if not data.obj_attr_is_set('vifs') or not data.vifs:
        return instance_ports.ports(network_info)
    return instance_ports.ports(vif.get_dest_vif() for vif in data.vifs)


def _tell(data: Any, key: str, text: str) -> None:
    """Tell the other host something; assign anew, so that Nova sees it."""
    data.source_mdev_types = {**data.source_mdev_types, key: text}


def _read_destination(data: Any) -> live_migration.Destination:
    """Read how the destination has described itself.

    :raises exception.LiveMigrationRefused: It has not.
    """
    if data.obj_attr_is_set('source_mdev_types'):
        text = data.source_mdev_types.get(_DESTINATION, '')
        with contextlib.suppress(ValueError):
            return live_migration.Destination.from_text(text)
    raise exception.LiveMigrationRefused(
        reason='the destination has another version of the driver, or another '
        'driver'
    )


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Turn any error of a check into the one that Nova expects."""
    try:
        yield
    except Exception as error:
        LOG.info('The live migration is refused: %s', error)
        raise nova_exception.MigrationPreCheckError(
            reason=errors.for_users(error)
        ) from error


@contextlib.contextmanager
def _logged(instance: Any, consequence: str) -> Iterator[None]:
    """Log any error, which must not keep Nova from what follows."""
    try:
        yield
    except Exception as error:
        LOG.error(
            '%(consequence)s after the live migration: %(error)s',
            {'consequence': consequence, 'error': error},
            instance=instance,
            exc_info=not isinstance(error, exception.PowerVMError),
        )
