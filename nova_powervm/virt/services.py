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

"""Assembles the parts of the driver."""

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import host as host_values
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers
from nova_powervm.inventory_file import InventoryFile
from nova_powervm.ops import apply
from nova_powervm.ops import burn
from nova_powervm.ops import claims
from nova_powervm.ops import disk_interfaces
from nova_powervm.ops import host
from nova_powervm.ops import images
from nova_powervm.ops import interfaces
from nova_powervm.ops import misplaced_lpars
from nova_powervm.ops import network
from nova_powervm.ops import pool_orphans
from nova_powervm.ops import readiness
from nova_powervm.ops import removal
from nova_powervm.ops import stopped_lpars
from nova_powervm.ops import survey
from nova_powervm.powervm import disk
from nova_powervm.powervm import events
from nova_powervm.powervm import partitions
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm import vif
from nova_powervm.virt import descriptions
from nova_powervm.virt import drivers
from nova_powervm.virt import instance_claims
from nova_powervm.virt import instance_records
from nova_powervm.virt import port_records
from nova_powervm.virt.provider_tree import placement
from nova_powervm.virt.provider_tree import updating

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """The operations and values that the driver uses.

    :param host: Reads the host.
    :param inventory: The inventory file.
    :param claims: Finds the slots of instances.
    :param placement: Placement.
    :param provider_tree: Updates Nova's provider tree.
    :param lpars: Makes LPARs what they should be.
    :param descriptions: Describes instances.
    :param instance_claims: Finds the allocations of instances.
    :param removal: Removes LPARs, and the remains of builds.
    :param pool_orphans: Removes disks of deleted instances of other hosts.
    :param misplaced: Reports LPARs on the wrong side.
    :param images: Reads images.
    :param network: Connects LPARs to networks.
    :param partitions: The host's LPARs.
    :param records: Nova's records of instances.
    :param disks: The disk driver.
    :param close: Stops listening to the host, and logs off.
    :param listen: Starts to listen to the host, once.
    """

    host: host.HostOps
    inventory: interfaces.Inventory
    claims: claims.ClaimOps
    placement: interfaces.Placement
    provider_tree: updating.ProviderTreeUpdater
    lpars: apply.LparOps
    descriptions: descriptions.Descriptions
    instance_claims: instance_claims.InstanceClaims
    removal: removal.RemovalOps
    pool_orphans: pool_orphans.PoolOrphans
    misplaced: misplaced_lpars.MisplacedLpars
    images: images.ImageOps
    network: network.NetworkOps
    partitions: interfaces.Partitions
    records: interfaces.Records
    disks: disk_interfaces.Disks
    close: Callable[[], None]
    listen: Callable[[], None] = lambda: None


def start(
    settings: options.Settings,
    nodename: str,
    virtapi: Any,
    cpu_ratio: float,
    additions: Mapping[str, slot_providers.Additions],
    emit_stopped: Callable[[str], None],
) -> Services:
    """Read the inventory file, log on to the host and read it once.

    :param settings: The ``[powervm]`` options.
    :param nodename: The compute node's name.
    :param virtapi: Nova's VirtAPI.
    :param cpu_ratio: Nova's allocation ratio for VCPU.
    :param additions: What Nova's provider.yaml adds to providers.
    :param emit_stopped: Tells Nova by uuid that an instance has stopped.
    :raises exception.ConfigurationError: An option or the file is invalid.
    :raises exception.RestUnreachable: The host did not answer in time.
    """
    inventory = InventoryFile(settings.inventory_file)
    adapter = session.connect(settings.server)
    with contextlib.ExitStack() as undo:
        undo.callback(adapter.session.close)
        services = _assemble(
            settings, nodename, virtapi, inventory, adapter, additions
        )
        snapshot = _wait_for_host(settings.server, services)
        services.claims.check_inventory_conflicts(snapshot)
        services.disks.prepare()
        _log_host(settings, services.disks, snapshot.view, cpu_ratio)
        listener = events.Listener(
            adapter,
            stopped_lpars.StoppedLpars(
                services.partitions, services.records, nodename, emit_stopped
            ),
        )
        undo.callback(listener.stop)
        return dataclasses.replace(
            services, listen=listener.start, close=undo.pop_all().close
        )


def _wait_for_host(
    server: options.Server, services: Services
) -> host.Snapshot:
    """Read the host once it reports the power states of all instances.

    After a while, continue without the states that stay unknown.
    """
    ready = readiness.Readiness(services.partitions, services.records)

    def read() -> None:
        services.host.read()
        ready.check()

    try:
        session.wait_for(server, read)
    except exception.StatesUnknown as error:
        LOG.warning(
            '%(error)s. Nova keeps the recorded power states, and does not '
            'start instances that were running.',
            {'error': error},
        )
    return services.host.last_or_read()


def _assemble(
    settings: options.Settings,
    nodename: str,
    virtapi: Any,
    inventory: interfaces.Inventory,
    adapter: Any,
    additions: Mapping[str, slot_providers.Additions],
) -> Services:
    managed = system.RestSystem(adapter, settings.server)
    lpars = partitions.RestPartitions(adapter, managed)
    nova_records = instance_records.NovaRecords()
    disks = drivers.load_disk_driver(disk.Context(adapter, managed, settings))
    nova_placement = placement.ReportClientPlacement(virtapi)
    reader = host.HostOps(
        managed, disks, nova_records, nova_placement, nodename
    )
    slot_claims = claims.ClaimOps(inventory)
    ports = port_records.NovaPortRecords(nodename)
    vifs = drivers.load_vif_drivers(
        vif.Context(adapter, managed, settings, ports)
    )
    networks = network.NetworkOps(vifs)
    removals = removal.RemovalOps(lpars, disks)
    reading = images.ImageOps()
    return Services(
        host=reader,
        inventory=inventory,
        claims=slot_claims,
        placement=nova_placement,
        provider_tree=updating.ProviderTreeUpdater(
            virtapi.reportclient,
            inventory,
            nova_placement,
            names.namer(nodename, settings.provider_names),
            additions,
            slot_claims,
        ),
        lpars=apply.LparOps(
            survey.Readers(
                lpars, reader, nova_placement, disks, reading, networks
            ),
            burn.BurnOps(nova_placement),
            removals,
        ),
        descriptions=descriptions.Descriptions(
            slot_claims, settings.proc_units_factor
        ),
        instance_claims=instance_claims.InstanceClaims(
            virtapi, nova_placement, slot_claims
        ),
        removal=removals,
        pool_orphans=pool_orphans.PoolOrphans(disks, nova_records),
        misplaced=misplaced_lpars.MisplacedLpars(
            lpars, nova_records, nodename
        ),
        images=reading,
        network=networks,
        partitions=lpars,
        records=nova_records,
        disks=disks,
        close=adapter.session.close,
    )


def _log_host(
    settings: options.Settings,
    disks: disk_interfaces.Disks,
    view: host_values.HostView,
    cpu_ratio: float,
) -> None:
    LOG.info(
        'Managing system %(name)s (%(machine)s) with %(slots)d I/O slots.',
        {
            'name': view.name,
            'machine': view.machine,
            'slots': len(view.io_slots),
        },
    )
    promise = host_values.overcommitment(
        view, settings.proc_units_factor, cpu_ratio
    )
    if promise:
        LOG.warning(promise)
    if disks.unavailable:
        LOG.warning(
            'The disk driver %(driver)s offers no disks: %(reason)s. This '
            'host has no DISK_GB and cannot build instances.',
            {'driver': settings.disk_driver, 'reason': disks.unavailable},
        )
