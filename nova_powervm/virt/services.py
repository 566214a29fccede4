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

"""Assembles the collaborators of the driver."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import cast

import nova.conf
from nova import exception as nova_exception
from nova.virt import event as virtevent
from oslo_log import log as logging

from nova_powervm import conf
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import host_values
from nova_powervm.devices import slot_providers
from nova_powervm.inventory_file import InventoryFile
from nova_powervm.ops import consoles as console_ops
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import network
from nova_powervm.ops import sweep
from nova_powervm.ops import volumes as volume_ops
from nova_powervm.ops import watch
from nova_powervm.powervm import disk
from nova_powervm.powervm import events
from nova_powervm.powervm import live_migration
from nova_powervm.powervm import partitions
from nova_powervm.powervm import plugins
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm import terminals
from nova_powervm.powervm import vif
from nova_powervm.powervm import volume
from nova_powervm.powervm.vif import virtual_ethernet
from nova_powervm.virt import builds
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import errors
from nova_powervm.virt import guest_power
from nova_powervm.virt import hard_reboots
from nova_powervm.virt import host_cycle
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import instances
from nova_powervm.virt import live_migrations
from nova_powervm.virt import live_volumes
from nova_powervm.virt import moves
from nova_powervm.virt import network_adapters
from nova_powervm.virt import port_records
from nova_powervm.virt import privileged_files
from nova_powervm.virt import removals
from nova_powervm.virt import rescues
from nova_powervm.virt import restart_repairs
from nova_powervm.virt import shared_storage
from nova_powervm.virt import snapshots
from nova_powervm.virt import system_metadata
from nova_powervm.virt.provider_tree import contents
from nova_powervm.virt.provider_tree import free_provider_reads
from nova_powervm.virt.provider_tree import placement

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
conf.register_opts(CONF)


class Services:
    """The collaborators of the driver, once it is connected to the host.

    :param host: The operations on the host.
    :param listen: Starts to listen to the host, once.
    :ivar close: Stops listening to the host, and logs off.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        listen: Callable[[], None] = lambda: None,
    ) -> None:
        self.host = host
        self.close: Callable[[], None] = lambda: None
        deferred = deferred_starts.DeferredStarts(
            functools.partial(guest_power.start_at_boot, host)
        )
        self.hard_reboots = hard_reboots.HardReboots(host)
        self.deferred_starts = deferred
        self.instances = instances.Instances(host, deferred)
        self.builds = builds.Builds(host)
        self.removals = removals.Removals(host, deferred)
        self.power = guest_power.GuestPower(host, deferred, self.hard_reboots)
        self.rescues = rescues.Rescues(host, deferred)
        self.moves = moves.Moves(
            host, deferred, self.builds, self.removals, self.hard_reboots
        )
        records = live_volumes.LiveVolumes(host)
        self.live_migrations = live_migrations.LiveMigrations(
            host, deferred, records
        )
        self.snapshots = snapshots.Snapshots(host, deferred)
        self.volumes = instance_volumes.InstanceVolumes(host)
        self.network_adapters = network_adapters.NetworkAdapters(host)
        self.host_cycle = host_cycle.HostCycle(host, deferred, listen, records)


class _NotStarted:
    """Stands for the collaborators while the driver has no host."""

    def __getattr__(self, name: str) -> Any:
        """Refuse all calls before init_host and after cleanup_host."""
        raise nova_exception.VirtDriverNotReady()

    def close(self) -> None:
        """Do nothing."""


def not_started() -> Services:
    """Return collaborators that answer everything with VirtDriverNotReady."""
    return cast(Services, _NotStarted())


def read_settings() -> options.Settings:
    """Read the ``[powervm]`` options.

    :raises nova.exception.InvalidConfiguration: An option is invalid.
    """
    try:
        settings = options.read_settings(CONF.powervm)
    except exception.PowerVMError as error:
        raise errors.to_nova(error) from error
    return dataclasses.replace(
        settings,
        disk_overcommitment=CONF.disk_allocation_ratio
        or CONF.initial_disk_allocation_ratio,
        vnc_host=CONF.vnc.server_proxyclient_address,
    )


def start(
    settings: options.Settings,
    nodename: str,
    virtapi: Any,
    emit_event: Callable[[Any], None],
) -> Services:
    """Read the inventory file, log on to the host and read it.

    Wait until the power states of instances can be read, so that Nova sees
    which instances a boot of the host has stopped. Remove what an earlier
    process left, and bring records of earlier versions up to date.

    :param settings: The ``[powervm]`` options.
    :param nodename: The compute node's name.
    :param virtapi: Nova's VirtAPI.
    :param emit_event: Passes an event to Nova.
    :raises exception.ConfigurationError: An option or the file is invalid.
    :raises exception.RestUnreachable: The host did not answer in time.
    """
    _set_defaults()
    additions = contents.read_additions(CONF.compute.provider_config_location)
    inventory = InventoryFile(settings.inventory_file)
    adapter = session.connect(settings.server)
    with contextlib.ExitStack() as undo:
        undo.callback(adapter.session.close)
        restart_repairs.complete_returned(nodename)
        system_metadata.rename_old(nodename)
        host = _assemble(
            settings, nodename, virtapi, inventory, adapter, additions
        )
        undo.callback(host.lpar_consoles.stop)
        reading = _wait_for_host(host)
        host.claims.check_inventory_conflicts(reading)
        host.sweep.run(sweep.When.START)
        shared_storage.prepare_cache(host.disks)
        _log_host(host, reading.system)
        stopped = watch.StoppedLpars(
            host.partitions,
            host.records,
            nodename,
            lambda uuid: emit_event(_stop_event(uuid)),
        )
        listener = events.Listener(adapter, stopped)
        undo.callback(listener.stop)
        if settings.skip_free_provider_reads:
            free_provider_reads.install(
                virtapi.reportclient, lambda: host.claims.published.providers
            )
            undo.callback(free_provider_reads.uninstall, virtapi.reportclient)
        services = Services(host, listener.start)
        services.close = undo.pop_all().close
        return services


def _set_defaults() -> None:
    """Change defaults of Nova that do not fit PowerVM.

    Neutron's mechanism driver sends no event for a port that is bound to the
    destination of a live migration: nothing is plugged before the LPAR is
    there. Nova would wait for it, and give up.
    """
    CONF.set_default(
        'live_migration_wait_for_vif_plug', False, group='compute'
    )


def _stop_event(uuid: str) -> Any:
    """Return Nova's event of an instance that has stopped."""
    return virtevent.LifecycleEvent(uuid, virtevent.EVENT_LIFECYCLE_STOPPED)


def _wait_for_host(
    host: host_operations.HostOperations,
) -> host_ops.Reading:
    """Read the host as soon as it reports the power states of all instances.

    After a while, continue although some states stay unknown.
    """
    ready = watch.Readiness(host.partitions, host.records)

    def read() -> None:
        host.reader.read()
        ready.check()

    try:
        session.wait_for(host.settings.server, read)
    except exception.StatesUnknown as error:
        LOG.warning(
            '%(error)s. Nova keeps the recorded power states, and does not '
            'start instances that were running.',
            {'error': error},
        )
    return host.reader.last_or_read()


def _assemble(
    settings: options.Settings,
    nodename: str,
    virtapi: Any,
    inventory: InventoryFile,
    adapter: Any,
    additions: Mapping[str, slot_providers.Additions],
) -> host_operations.HostOperations:
    managed = system.RestSystem(adapter, settings.server)
    files = (
        privileged_files.PrivilegedFiles()
        if settings.management_root == '/'
        else None
    )
    ports = port_records.NovaPortRecords(nodename)
    address = console_ops.Address(
        settings.vnc_host, settings.vnc_port, settings.vnc_allowed_clients
    )
    own_terminals = terminals.LocalTerminals(
        adapter, closes_others=settings.vnc_close_other_terminals
    )
    lpars = partitions.RestPartitions(adapter, managed, settings.virtual_slots)
    return host_operations.HostOperations(
        node=instance_records.LocalNode(nodename),
        settings=settings,
        virtapi=virtapi,
        inventory=inventory,
        additions=additions,
        placement=placement.ReportClientPlacement(virtapi),
        records=instance_records.NovaRecords(),
        system=managed,
        partitions=lpars,
        disks=plugins.load_disk_driver(
            disk.Context(adapter, managed, settings, files)
        ),
        networks=network.NetworkOps(
            plugins.load_vif_drivers(
                vif.Context(adapter, managed, settings, ports)
            ),
            virtual_ethernet.VirtualEthernet(
                adapter, managed
            ).has_management_switch,
        ),
        volumes=volume_ops.VolumeOps(
            plugins.load_volume_drivers(
                volume.Context(adapter, managed, settings)
            ),
            lambda: instance_volumes.refuse_beside_evacuated(lpars, nodename),
        ),
        lpar_consoles=console_ops.Consoles(own_terminals, address),
        live_migrations=live_migration.RestLiveMigrations(adapter, managed),
    )


def _log_host(
    host: host_operations.HostOperations,
    managed: host_values.ManagedSystem,
) -> None:
    LOG.info(
        'Managing system %(name)s (%(machine)s) with %(slots)d I/O slots.',
        {
            'name': managed.name,
            'machine': managed.machine,
            'slots': len(managed.io_slots),
        },
    )
    promise = host_values.overcommitment(
        managed,
        host.settings.proc_units_factor,
        CONF.cpu_allocation_ratio or CONF.initial_cpu_allocation_ratio,
    )
    if promise:
        LOG.warning(promise)
    if host.disks.unavailable:
        LOG.warning(
            'The disk driver %(driver)s offers no disks: %(reason)s. This '
            'host has no DISK_GB and cannot build instances.',
            {
                'driver': host.settings.disk_driver,
                'reason': host.disks.unavailable,
            },
        )
