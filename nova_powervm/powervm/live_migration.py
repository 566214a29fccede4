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

"""The host's part of live migrations: what it says, and its jobs."""

import contextlib
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.tasks import management_console
from pypowervm.tasks import migration
from pypowervm.wrappers import logical_partition

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.ops import interfaces
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import system
from nova_powervm.powervm.volume import holders
from nova_powervm.powervm.volume import volume_mappings

_LPAR = logical_partition.LPAR
_STORAGE_STATUS = 'MigrationStorageViosDataStatus'
_MODE = 'CurrentProcessorCompatibilityMode'
#: The user of NovaLink that the REST servers of other hosts log on as.
_USER = 'wlp'
#: What a host that can migrate LPARs live reports.
CAPABILITY = 'active_lpar_mobility_capable'


class RestLiveMigrations(interfaces.LiveMigrations):
    """Live migrations from and to one managed system.

    :param adapter: An adapter with a session that has logged on.
    :param managed: The managed system.
    """

    def __init__(
        self, adapter: pvm_adapter.Adapter, managed: system.RestSystem
    ) -> None:
        self._adapter = adapter
        self._managed = managed
        self._mappings = volume_mappings.VolumeMappings(adapter, managed)

    def full(self) -> str:
        """Read the system anew: others start migrations, too."""
        self._managed.read()
        wrapper = self._managed.wrapper
        if not wrapper.get_capability(CAPABILITY):
            return f'system {wrapper.system_name} is not capable of it'
        limits = wrapper.migration_data
        count = limits['active_migrations_in_progress']
        most = limits['active_migrations_supported']
        if count < most:
            return ''
        return (
            f'system {wrapper.system_name} has {count} of {most} migrations '
            'in progress. Try again when one has ended'
        )

    def servers(
        self, of_disks: Collection[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Read all Virtual I/O Servers of the host."""
        servers = self._mappings.read()
        disks = [s.name for s in _serving_disks(servers, of_disks)]
        volumes = [s.name for s in servers if s.reaches_volumes]
        silent = sorted(
            server.name
            for server in servers
            if server.name in {*disks, *volumes} and not server.answers
        )
        if silent:
            raise exception.MoveRefused(
                reason=exception.PrivateText(
                    f'the Virtual I/O Server(s) {", ".join(silent)} do not '
                    'answer. Start them, or check their RMC connections',
                    'a Virtual I/O Server of the host does not answer',
                )
            )
        return disks, volumes

    @rest_errors.retried
    def guest(
        self, uuid: str, of_disks: Collection[str]
    ) -> live_migration.Guest:
        """Read an LPAR and the Virtual I/O Servers.

        :raises exception.PartitionNotFound: There is no such LPAR.
        """
        with rest_errors.translated(f'reading LPAR {uuid}'):
            lpar = self._read(uuid)
        managed = self._managed.wrapper
        servers = self._mappings.read()
        mapped = [
            disk
            for server in servers
            for disk in server.mapped
            if disk.lpar_uuid == uuid
        ]
        return live_migration.Guest(
            obstacle=str(lpar.can_lpm(managed)[1] or ''),
            state=str(lpar.migration_state),
            storage_status=lpar.element.findtext(_STORAGE_STATUS) or '',
            compatibility_mode=lpar.element.findtext(_MODE) or 'default',
            slots=tuple(slot.drc_index for slot in lpar.io_config.io_slots),
            memory_region_mb=managed.memory_region_size,
            locked=tuple(_locked(servers, {disk.udid for disk in mapped})),
            devices=tuple(_devices(servers, uuid, of_disks)),
            mapped=tuple(
                live_migration.MappedDisk(disk.volume_id, disk.udid, disk.name)
                for disk in mapped
            ),
            paths=tuple(_paths(servers, uuid)),
        )

    @rest_errors.retried
    def paths(self, uuid: str) -> Sequence[live_migration.Path]:
        """Read the Virtual I/O Servers."""
        return tuple(_paths(self._mappings.read(), uuid))

    @rest_errors.retried
    def unsuitable(self, udids: Collection[str]) -> Collection[str]:
        """Find disks with another reserve policy than ``NoReserve``."""
        return _locked(self._mappings.read(), udids)

    @rest_errors.retried
    def public_key(self) -> str:
        """Read the key of the management console."""
        with rest_errors.translated("reading the management console's key"):
            return str(management_console.get_public_key(self._adapter))

    @rest_errors.retried
    def authorize(self, key: str) -> None:
        """Add a key to the authorized ones, unless it is among them."""
        with rest_errors.translated('authorizing the key of another host'):
            management_console.add_authorized_key(self._adapter, key)

    def validate(self, uuid: str, target: live_migration.Target) -> None:
        """Run the job ``MigrateValidate``."""
        self._migrate(uuid, target, 'validating', validate_only=True)

    def migrate(self, uuid: str, target: live_migration.Target) -> None:
        """Run the job ``Migrate``."""
        self._migrate(uuid, target, 'running', validate_only=False)

    def _migrate(
        self,
        uuid: str,
        target: live_migration.Target,
        action: str,
        *,
        validate_only: bool,
    ) -> None:
        """Run a job; without its answer, nothing is known of its end."""
        action = f'{action} the live migration of LPAR {uuid}'
        with rest_errors.translated(action), _told_apart(action):
            migration.migrate_lpar(
                self._read(uuid),
                target.system,
                validate_only=validate_only,
                tgt_mgmt_svr=target.address,
                tgt_mgmt_usr=_USER,
                virtual_scsi_mappings=list(target.scsi),
                vlan_mappings=list(target.vlans),
                # The management switch has no bridge to another host.
                sdn_override=True,
            )

    def abort(self, uuid: str) -> None:
        """Run the job ``MigrateAbort``."""
        with rest_errors.translated(f'aborting the migration of LPAR {uuid}'):
            migration.migrate_abort(self._read(uuid))

    def recover(self, uuid: str, *, force: bool = False) -> None:
        """Run the job ``MigrateRecover``, which may find that it cannot."""
        action = f'recovering LPAR {uuid} from a live migration'
        with rest_errors.translated(action):
            migration.migrate_recover(self._read(uuid), force=force)

    def _read(self, uuid: str) -> Any:
        try:
            return _LPAR.get(self._adapter, uuid=uuid)
        except pvm.HttpNotFound as error:
            raise exception.PartitionNotFound(uuid=uuid) from error


@contextlib.contextmanager
def _told_apart(action: str) -> Iterator[None]:
    """Tell a job that has failed from one that may still begin.

    pypowervm also calls a job failed if the request for it had no answer, or
    if it has not ended in time (``Job.run_job``).

    :raises exception.RestUnreachable: It has not ended in time, or the server
        does not say whether it has.
    """
    try:
        yield
    except (pvm.JobRequestTimedOut, pvm.HttpError) as error:
        raise exception.RestUnreachable(
            server='[powervm]rest_url', reason=f'{action}: {error}'
        ) from error
    except pvm.JobRequestFailed as error:
        if isinstance(error.__context__, pvm.Error):
            raise error.__context__ from error
        raise


def _serving_disks(
    servers: Sequence[volume_mappings.Server], of_disks: Collection[str]
) -> list[volume_mappings.Server]:
    """Return the servers with some uuids, in the order of these."""
    by_uuid = {server.uuid.upper(): server for server in servers}
    found = (by_uuid.get(uuid.upper()) for uuid in of_disks)
    return [server for server in found if server is not None]


def _paths(
    servers: Sequence[volume_mappings.Server], lpar_uuid: str
) -> Iterator[live_migration.Path]:
    for server in servers:
        yield from server.paths.get(lpar_uuid, ())


def _locked(
    servers: Sequence[volume_mappings.Server], udids: Collection[str]
) -> list[str]:
    """Return those of some disks that servers of two hosts may not share."""
    return sorted(
        f'{disk.name} of {server.name}'
        for server in servers
        for disk in server.disks
        if disk.udid
        and disk.udid in udids
        and disk.reserve_policy != holders.NO_RESERVE
    )


def _devices(
    servers: Sequence[volume_mappings.Server],
    lpar_uuid: str,
    of_disks: Collection[str],
) -> Iterator[live_migration.Device]:
    """Yield the virtual SCSI adapters of an LPAR."""
    numbers = {
        server.uuid: number
        for number, server in enumerate(_serving_disks(servers, of_disks))
    }
    reaching = [server for server in servers if server.reaches_volumes]
    for server in servers:
        of_volumes = {
            mapped.slot
            for mapped in server.mapped
            if mapped.lpar_uuid == lpar_uuid
        }
        for slot in sorted(server.slots(lpar_uuid)):
            is_volume = slot in of_volumes
            number = (
                reaching.index(server)
                if is_volume and server in reaching
                else numbers.get(server.uuid)
            )
            if number is not None:
                yield live_migration.Device(slot, number, is_volume)
