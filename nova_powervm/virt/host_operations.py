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

"""The one collaborator of all modules of virt that do something on the host.

It is passed whole. Nothing here acts: it names the operations and their means.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nova_powervm.conf import powervm as options
from nova_powervm.devices import names
from nova_powervm.devices import slot_providers
from nova_powervm.inventory_file import file_reader
from nova_powervm.lpar import management_adapter
from nova_powervm.ops import apply
from nova_powervm.ops import claiming
from nova_powervm.ops import consoles as console_ops
from nova_powervm.ops import drivers
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import images
from nova_powervm.ops import interfaces
from nova_powervm.ops import network
from nova_powervm.ops import removal
from nova_powervm.ops import survey
from nova_powervm.ops import sweep
from nova_powervm.ops import volumes
from nova_powervm.ops import watch
from nova_powervm.virt import burn_limit
from nova_powervm.virt import descriptions
from nova_powervm.virt import instance_allocations
from nova_powervm.virt import instance_consoles
from nova_powervm.virt import instance_records
from nova_powervm.virt import lpar_locations
from nova_powervm.virt import restart_repairs
from nova_powervm.virt import shared_storage
from nova_powervm.virt.provider_tree import placement
from nova_powervm.virt.provider_tree import updating


@dataclasses.dataclass
class HostOperations:
    """The operations on the host, and the means that they need.

    The means are passed, because a simulation has others. The operations are
    made here.

    :param node: The node of this compute service.
    :param settings: The ``[powervm]`` options.
    :param virtapi: Nova's VirtAPI.
    :param inventory: The inventory file.
    :param additions: What Nova's provider.yaml adds to providers.
    :param placement: Placement.
    :param records: Nova's records of instances.
    :param system: The managed system.
    :param partitions: The host's LPARs.
    :param disks: The disk driver.
    :param networks: Connects LPARs to networks.
    :param volumes: Connects volumes to LPARs.
    :param lpar_consoles: The consoles of LPARs.
    :param live_migrations: The host's part of live migrations.
    :ivar reader: Reads the host.
    :ivar claims: Finds the slots of instances.
    :ivar provider_tree: Updates Nova's provider tree.
    :ivar lpars: Plans operations on LPARs, and carries them out.
    :ivar removal: Removes LPARs, and the remains of builds.
    :ivar sweep: Removes unused LPARs, disks and VLANs.
    :ivar stale_lpars: Reports LPARs whose instances have moved away.
    :ivar images: Reads images.
    :ivar descriptions: Describes instances.
    :ivar allocations: Finds the allocations of instances.
    :ivar storage: Finds disks in storage that hosts share.
    :ivar burn_limit: The limit of one-time-use devices of a project.
    :ivar consoles: The consoles of instances.
    :ivar startup: Whether nova-compute is starting.
    :ivar locations: Tells on which host an LPAR is.
    """

    node: instance_records.LocalNode
    settings: options.Settings
    virtapi: Any
    inventory: file_reader.InventoryFile
    additions: Mapping[str, slot_providers.Additions]
    placement: placement.ReportClientPlacement
    records: interfaces.Records
    system: interfaces.System
    partitions: interfaces.Partitions
    disks: drivers.Disks
    networks: network.NetworkOps
    volumes: volumes.VolumeOps
    lpar_consoles: console_ops.Consoles
    live_migrations: interfaces.LiveMigrations

    @property
    def nodename(self) -> str:
        """Nova's name of this host, as in ``instance.host``."""
        return self.node.name

    def __post_init__(self) -> None:
        nodename = self.nodename
        self.startup = restart_repairs.Startup()
        self.locations = lpar_locations.LparLocations(
            self.partitions, nodename
        )
        self.images = images.ImageOps()
        self.reader = host_ops.HostReader(
            self.system, self.disks, self.records, self.placement, nodename
        )
        self.claims = claiming.ClaimOps(lambda: self.inventory.policy)
        self.provider_tree = updating.ProviderTreeUpdater(
            self.virtapi.reportclient,
            self.inventory,
            self.placement,
            names.namer(nodename, self.settings.provider_names),
            self.additions,
            self.claims,
            publishes_locations=self.settings.publish_location_traits,
        )
        self.removal = removal.RemovalOps(
            self.partitions, self.disks, self.volumes
        )
        self.lpars = apply.LparOperations(
            survey.Readers(
                self.partitions,
                self.reader,
                self.placement,
                self.disks,
                self.images,
                self.networks,
                self.volumes,
            ),
            claiming.BurnOps(self.placement),
            self.removal,
        )
        means = sweep.Means(
            self.partitions,
            self.disks,
            self.networks,
            self.records,
            self.removal,
            nodename,
        )
        self.sweep = sweep.Sweep(means)
        self.stale_lpars = watch.StaleLpars(
            self.partitions, self.records, nodename
        )
        self.descriptions = descriptions.Descriptions(
            self.claims,
            self.settings.proc_units_factor,
            management_adapter.Choice(self.settings.rmc_adapter),
            self.virtapi,
            nodename,
        )
        self.allocations = instance_allocations.InstanceAllocations(
            self.virtapi, self.placement, self.claims, self.node
        )
        self.storage = shared_storage.SharedStorage(
            self.disks, self.images, self.sweep, nodename
        )
        self.consoles = instance_consoles.InstanceConsoles(
            self.lpar_consoles, nodename
        )
        self.burn_limit = burn_limit.BurnLimit(
            self.settings.max_burns_per_hour, self.claims, nodename
        )
