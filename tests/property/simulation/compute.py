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

"""A nova-compute: the real driver, report client and resource tracker.

The real resource tracker claims and updates; what it reads from Nova's
database, and what the manager does around it, is done by :mod:`.cloud`.
"""

import types

from keystoneauth1 import exceptions as keystone
from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import provider_config
from nova.compute import resource_tracker
from nova.scheduler.client import report

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.ops import network
from nova_powervm.ops import sweep
from nova_powervm.ops import volumes as volume_ops
from nova_powervm.virt import driver
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_records
from nova_powervm.virt import services
from nova_powervm.virt.provider_tree import contents
from nova_powervm.virt.provider_tree import placement as virt_placement
from tests.property.simulation import host as hosts
from tests.property.simulation import process
from tests.property.simulation import volumes as sim_volumes

#: What nova-compute lives through, and what ends a starting one.
EXPECTED = (
    nova_exception.NovaException,
    keystone.ClientException,
    exception.PowerVMError,
)
FATAL = (
    nova_exception.InvalidConfiguration,
    nova_exception.PlacementPciException,
    nova_exception.InventoryInUse,
    nova_exception.ReshapeFailed,
    nova_exception.ReshapeNeeded,
)


class Tracker(resource_tracker.ResourceTracker):
    """Nova's resource tracker without its database."""

    def _sync_compute_service_disabled_trait(self, context, traits):
        pass

    def claim(self, allocations):
        """Claim resources, as instance_claim does; None for none."""
        return self._claim_resources(allocations)

    def release(self, resources):
        """Give resources back, as abort and drop do."""
        self._release_assigned_resources(resources)

    def track(self, resources):
        """Note what instances have, as a periodic audit does."""
        self.assigned_resources.clear()
        for each in resources:
            self._add_assigned_resources(each)

    def update(self, *, startup=False):
        """Update Placement, with Nova's own retries."""
        (node,) = self.compute_nodes.values()
        context = nova_context.get_admin_context()
        self._update_to_placement(context, node, startup)
        if startup:
            self._check_resources(context)


class Compute:
    """One process; it is started when it is made.

    :param node: Where it runs, see :class:`.cloud.Node`.
    :param placement: The Placement.
    :param trouble: What comes between while it starts.
    """

    def __init__(self, node, placement, trouble=None):
        self.process = process.Process()
        self.process.expect(trouble)
        self.client = report.SchedulerReportClient(
            adapter=process.Adapter(placement, self.process)
        )
        self.server = hosts.RestServer(node.host, self.process)
        self.file = node.file.reader()
        self.driver = driver.PowerVMDriver(
            types.SimpleNamespace(reportclient=self.client)
        )
        self._node = node
        # DRC index to the paragraph of what was in the slot.
        self.planned = {}
        self.host = self._start()
        self.host.node.uuid = node.root
        self.driver.services = services.Services(self.host)
        self.tracker = Tracker(node.name, self.driver, self.client)
        self.tracker.provider_configs = provider_config.get_provider_configs(
            node.additions
        )
        self.tracker.compute_nodes[node.name] = types.SimpleNamespace(
            hypervisor_hostname=node.name, uuid=node.root
        )

    def _start(self):
        """Do what services.start does, on this host."""
        host = self._assemble()
        host.claims.check_inventory_conflicts(host.reader.read())
        host.sweep.run(sweep.When.START)
        return host

    def _assemble(self):
        server = self.server
        virtapi = self.driver.virtapi
        self._inventory = inventory_file.InventoryFile(self._node.file.path)
        volumes = {
            sim_volumes.KIND: sim_volumes.Driver(server, self._node.host)
        }
        return host_operations.HostOperations(
            node=instance_records.LocalNode(self._node.name),
            settings=services.read_settings(),
            virtapi=virtapi,
            inventory=self._inventory,
            additions=contents.read_additions(self._node.additions),
            placement=virt_placement.ReportClientPlacement(virtapi),
            records=instance_records.NovaRecords(),
            system=server,
            partitions=server,
            disks=server,
            networks=network.NetworkOps({}),
            volumes=volume_ops.VolumeOps(volumes),
            # The host has no terminals.
            lpar_consoles=types.SimpleNamespace(
                has=lambda lpar_uuid: False, close=lambda lpar_uuid: None
            ),
            # Nothing migrates live.
            live_migrations=types.SimpleNamespace(),
        )

    def cycle(self, resources, *, startup=False):
        """Do what a periodic task does.

        :param resources: Of the instances that Nova has on this host.
        """
        try:
            self.driver.get_available_resource(self._node.name)
        finally:
            # It looks at the file before it reads the host.
            self.file.look()
        self.tracker.track(resources)
        self.update(startup=startup)

    def update(self, *, startup=False):
        """Update Placement, and note what that was made of."""
        self.tracker.update(startup=startup)
        view = self.host.reader.last_or_read().system
        self.planned = {
            slot.drc_index: paragraph
            for slot in view.io_slots
            if (
                paragraph := self.file.in_force.of(
                    f'{slot.vendor_id:04X}', slot.drc_index
                )
            )
        }

    def is_once(self, index):
        """Whether the last update took a slot for one of one use."""
        paragraph = self.planned.get(index)
        return paragraph is not None and paragraph.once

    def forget_providers(self):
        """Let Nova's copies of providers be old enough to be read anew."""
        self.client._association_refresh_time.clear()

    def allocations_of(self, consumer):
        """Ask as the manager does: None or {} if Placement fails."""
        return self.client.get_allocations_for_consumer(
            nova_context.get_admin_context(), consumer
        )


def is_expected(error):
    """Whether an error is one that nova-compute is made for.

    Where Placement does not answer Nova's report client goes on with None,
    and fails inside itself. So does its resource tracker where the first
    update failed.
    """
    if isinstance(error, EXPECTED):
        return True
    frame = error.__traceback__
    while frame.tb_next:
        frame = frame.tb_next
    where = frame.tb_frame.f_globals['__name__']
    return isinstance(error, (AttributeError, TypeError)) and (
        where in (report.__name__, resource_tracker.__name__)
    )
